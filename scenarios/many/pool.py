"""Points at work: one after the other here, side by side in processes, or as Ray tasks.

Each way takes a function of a module and pieces of plain data, and gives one `Answer` per piece as it ends. A
process that dies takes its own piece with it and no other.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


class Answer(NamedTuple):
    """What came of a piece of work: a value, or a sentence about why there is none."""

    number: int
    value: Any
    lost: str | None = None


def answers(
    function: Callable[[Any], Any],
    work: Sequence[Any],
    engine: str,
    jobs: int | None = None,
    address: str | None = None,
) -> Iterator[Answer]:
    """Have all the work done by Ray tasks, by processes, or (inline, one job) here."""
    if engine == "ray":
        from brokers.engine.tasks import on_ray

        for number, value, lost in on_ray(function, work, jobs, address, min(cpus(), max(len(work), 1))):
            yield Answer(number, value, lost)
    elif (jobs or 1) == 1:
        for number, piece in enumerate(work):
            yield Answer(number, function(piece))
    else:
        yield from _in_processes(function, work, min(jobs or 1, max(len(work), 1)))


def cpus() -> int:
    """The CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A process of ours, and what it is at."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        # Forking would copy the locks of whatever threads Numba and Arrow have.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, function), daemon=True)
        self.process.start()
        theirs.close()  # so that its end shows here as the end of the pipe
        self.number: int | None = None

    def begin(self, number: int, piece: Any) -> None:
        self.number = number
        with contextlib.suppress(OSError):  # it died waiting: the end of the pipe tells
            self.pipe.send(piece)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # they go to all of a terminal; the first process decides
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(function(pipe.recv()))


def _in_processes(function: Callable[[Any], Any], work: Sequence[Any], jobs: int) -> Iterator[Answer]:
    workers = [_Worker(function) for _ in range(jobs)]
    waiting = list(range(len(work)))[::-1]
    try:
        while waiting or any(worker.number is not None for worker in workers):
            for worker in workers:
                if worker.number is None and waiting:
                    following = waiting.pop()
                    worker.begin(following, work[following])
            busy = {worker.pipe: worker for worker in workers if worker.number is not None}
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                number, worker.number = worker.number, None
                assert number is not None
                try:
                    value = worker.pipe.recv()
                except (EOFError, OSError):
                    worker.process.join()
                    lost = f"its process died ({_how(worker.process.exitcode)})"
                    worker.end()
                    workers[workers.index(worker)] = _Worker(function)
                    yield Answer(number, None, lost)
                else:
                    yield Answer(number, value)
    finally:
        for worker in workers:
            worker.end()


def _how(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return signal.Signals(-exit_code).name
    return f"exit code {exit_code}"
