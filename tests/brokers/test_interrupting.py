"""The first signal interrupts, what tidies up is not disturbed, and what was ignored stays ignored."""

import signal
import time
import weakref

import pytest

from brokers.interrupting import SIGNALS, interrupted_once, undisturbed


@pytest.fixture(autouse=True)
def handlers():
    """As in a terminal, whoever started the tests and whatever Ray left; and afterwards as they were."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    usual = dict.fromkeys(SIGNALS, signal.SIG_DFL) | {signal.SIGINT: signal.default_int_handler}
    for number, handler in usual.items():
        signal.signal(number, handler)
    yield usual
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_only_the_first_signal_interrupts_and_afterwards_all_is_as_before(first, second, handlers):
    tidied = False
    with pytest.raises(KeyboardInterrupt), interrupted_once():
        try:
            signal.raise_signal(first)
        finally:
            signal.raise_signal(second)
            tidied = True
    assert tidied
    assert {number: signal.getsignal(number) for number in SIGNALS} == handlers


def test_what_is_ignored_stays_so():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_once():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_signal_within_an_undisturbed_block_counts_after_it():
    done = False
    with pytest.raises(KeyboardInterrupt), interrupted_once(), undisturbed():
        signal.raise_signal(signal.SIGTERM)
        done = True
    assert done


def test_a_run_that_was_interrupted_already_is_not_interrupted_after_such_a_block_either():
    with pytest.raises(KeyboardInterrupt, match="the first"), interrupted_once():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            with undisturbed():
                signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt("the first") from None


class Thing:
    """Something that is let go of."""


@pytest.mark.parametrize("number", SIGNALS)
def test_what_comes_while_python_swallows_what_is_raised_is_not_lost(number):
    tidied = []

    def tidy() -> None:
        with undisturbed():
            signal.raise_signal(number)
        tidied.append("after")  # never: it is interrupted there, and Python goes on

    with pytest.raises(KeyboardInterrupt), interrupted_once():
        thing = Thing()
        weakref.finalize(thing, tidy)
        del thing
        goes_on = True
        time.sleep(20)  # which is interrupted
        goes_on = False
    assert goes_on and not tidied


def test_what_else_is_raised_there_is_told_as_ever(monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: told.append(what.exc_type))
    with interrupted_once():
        thing = Thing()
        reference = weakref.ref(thing, lambda gone: 1 / 0)
        del thing
    assert told == [ZeroDivisionError] and reference() is None
