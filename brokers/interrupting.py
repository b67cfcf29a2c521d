"""What ends a run from outside: Ctrl-C, SIGTERM from a scheduler or `kill`, SIGHUP from a terminal that closes.

The first of them interrupts, wherever the program is; whatever comes while the run tidies up changes nothing. People
press Ctrl-C twice, and a Ray that is left in the middle of its own end crashes the process or stays behind.

Python raises nothing out of a finaliser or the callback of a weak reference: it tells `sys.unraisablehook`, and goes
on. An interrupt that came there would be lost, and none after it would count. So it is sent again.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.05  # after which a finaliser is over


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Within the block the first signal raises KeyboardInterrupt. What is ignored, as under `nohup`, stays so."""
    told = 0  # the number of the first; 0: none
    again: threading.Timer | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if not told:
            told = number
            raise KeyboardInterrupt

    def swallowed(what: Any) -> None:
        nonlocal told, again
        if not told or not issubclass(what.exc_type, KeyboardInterrupt):
            before(what)
            return
        number, told = told, 0
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, number))
        again.daemon = True
        again.start()

    before = sys.unraisablehook
    with _handled_by(interrupt):
        sys.unraisablehook = swallowed
        try:
            yield
        finally:
            sys.unraisablehook = before
            if again is not None:
                again.cancel()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that come within the block count after it."""
    came: list[int] = []
    with _handled_by(lambda number, frame: came.append(number)):
        yield
    for number in came[:1]:
        signal.raise_signal(number)


def ignore_all() -> None:
    """For a process with nothing left to do but to end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def _handled_by(handler: signal._HANDLER) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    ours = [number for number, other in before.items() if other not in (signal.SIG_IGN, None)]
    try:
        for number in ours:
            signal.signal(number, handler)
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


__all__ = ["SIGNALS", "ignore_all", "interrupted_once", "undisturbed"]
