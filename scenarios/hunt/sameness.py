"""Judges that run a case once more, otherwise: nothing of how it is run may show."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from brokers.contract import ShardProtocol
from brokers.engine.simulate import FileTraces, simulate, tables_of
from brokers.errors import Interrupted
from protocols.conformance import ORACLE, Variant, check_digests, variants
from protocols.rehearsing import Dice
from scenarios.hunt.running import Outcome, said

_WAYS = 2
_WINDOWS = 2  # at least, until a run is stopped
_MEMORY = "/dev/shm"  # where files stay in memory, if there is such a folder


class _Stopped(Exception):
    """A run that was stopped on purpose."""


def cutting(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Other cuttings, shards, tables and views: some of the kit's ways of running a model."""
    if outcome.failed:
        return
    dice = Dice(outcome.model.seed, len(outcome.case.acts), "hunt/ways")
    left = _ways(outcome)
    yield from _differ(outcome, [left.pop(dice.below(len(left))) for _ in range(min(_WAYS, len(left)))])


def cut_every_way(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The same, with all of them: for one case, whatever the way was in which it differed."""
    if not outcome.failed:
        yield from _differ(outcome, _ways(outcome))


def cut_as(told: str) -> Callable[[Outcome], Iterator[tuple[str, str]]]:
    """The same, with the one of which this was told."""

    def ask(outcome: Outcome) -> Iterator[tuple[str, str]]:
        if not outcome.failed:
            yield from _differ(outcome, [way for way in _ways(outcome) if told.startswith(f"{way.name}: ")])

    return ask


def _ways(outcome: Outcome) -> list[Variant]:
    return [way for way in variants(outcome.model) if way.engine == "inline"]


def _differ(outcome: Outcome, ways: Sequence[Variant]) -> Iterator[tuple[str, str]]:
    model = replace(outcome.model, messages_max=1 << 62)
    for way in ways:  # what differs from run to run differs here too
        try:
            same = way.run(model).digest == outcome.digest
        except Interrupted:
            raise KeyboardInterrupt from None
        except Exception as error:  # of the protocol, which may raise anything
            yield "fails otherwise", f"{way.name}: {said(error)}"
            return
        if not same:
            told = next(
                (each.told for each in check_digests(model, [ORACLE, way])), "two runs of one case differ"
            )
            yield "digest", f"{way.name}: {told}"
            return


def resuming(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """A run that is stopped and gone on with, from what its brokers say of their state."""
    if outcome.failed:
        return
    model = replace(outcome.model, messages_max=1 << 62)
    protocol: Any = model.services[0].protocol_class
    if issubclass(protocol, ShardProtocol) and protocol.state is ShardProtocol.state:
        return
    dice = Dice(model.seed, len(outcome.case.acts), "hunt/stop")
    times = sorted({act.at for act in outcome.case.acts}) or [model.duration_ns // 2]
    until = times[dice.below(len(times))] + 1 + dice.below(20_000_000)
    shards = [1 + dice.below(min(3, model.overlay.brokers)) for _ in range(2)]
    kept = (1 + dice.below(until), until)  # two checkpoints: the run goes on after one has been taken
    past = False

    def stop(now_ns: int, events: int, under_way: int) -> None:
        nonlocal past  # told before a checkpoint is taken: it stops at the border after the last
        if past:
            raise _Stopped
        past = now_ns >= until

    try:
        with tempfile.TemporaryDirectory(prefix="brokerlab-hunt-", dir=_in_memory()) as folder:
            traces = FileTraces(str(Path(folder)), "none", tables_of(model))
            try:
                digest = simulate(
                    model, actors=shards[0], trace=traces, progress=stop, checkpoints_ns=kept,
                    max_window_ns=max(1, until // _WINDOWS),
                ).digest  # fmt: skip
            except _Stopped:
                digest = simulate(model, actors=shards[1], trace=traces, resume=True, notice=_nothing).digest
    except Interrupted:
        raise KeyboardInterrupt from None
    except Exception as error:  # of the protocol, which may raise anything
        yield "fails when resumed", f"stopped at {until} ns and gone on with: {said(error)}"
        return
    if digest != outcome.digest:
        yield "resumed", f"stopped at {until} ns and gone on with it has another digest"


def _in_memory() -> str | None:
    """A folder in memory, or None for the usual one: the files live for one run, and are synced as any."""
    return _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None


def _nothing(sentence: str) -> None:
    """What a run says as it goes on is of no interest here."""


def isolation(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What a run left in classes or modules, where every broker would find it."""
    for name in sorted(outcome.stained):
        yield (
            "shared",
            f"{name} is another after the run: brokers must not have anything in common that changes",
        )
