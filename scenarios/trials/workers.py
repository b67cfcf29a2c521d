"""Trials side by side, in processes of their own: one that does not come back is ended, and told as a finding.

So nothing here waits for ever, whatever a compiled loop does.
"""

from __future__ import annotations

import multiprocessing as mp
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from scenarios.trials.drawing import draw
from scenarios.trials.running import run


def attempt(seed: int, number: int) -> dict[str, Any]:
    """Draw and run one trial: plain data that says what came of it."""
    try:
        trial = draw(seed, number)
    except Exception as error:  # a fault that cannot be drawn, or a class of one that fails
        return {"number": number, "trial": f"trial {number} of seed {seed}", "verdict": "none", "events": 0, "ways": 0,
                "lost": 0, "doubled": 0, "wrong": [f"cannot be drawn: {type(error).__name__}: {error}"]}  # fmt: skip
    found = run(trial)
    return {
        "number": number, "trial": str(trial), "verdict": found.verdict, "events": found.events,
        "ways": 1 + len(found.ways), "lost": sum(found.lost.values()), "doubled": found.doubled, "wrong": found.wrong,
    }  # fmt: skip


_LEAVING_S = 10.0  # that a process may take to tidy up


class _Worker:
    """A process that runs one trial after the other."""

    def __init__(self, seed: int) -> None:
        context = mp.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, seed), daemon=True)
        self._process.start()
        theirs.close()
        self.number = -1
        self.begun = 0.0

    def begin(self, number: int) -> None:
        self.number, self.begun = number, time.monotonic()
        self.pipe.send(number)

    def end(self) -> None:
        self._process.terminate()
        self._process.join(_LEAVING_S)
        self._process.kill()  # where it is too deep in something to leave
        self._process.join()
        self.pipe.close()


def _serve(pipe: Connection, seed: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that its folder goes with it
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        pipe.send(attempt(seed, number))


def all_of(seed: int, numbers: Sequence[int], jobs: int, patience_s: float) -> Iterator[dict[str, Any]]:
    """What came of each trial, as they end. One that takes longer than `patience_s` is ended."""
    left = list(reversed(numbers))
    workers = [_Worker(seed) for _ in range(min(jobs, len(left)))]
    for worker in workers:
        worker.begin(left.pop())
    try:
        while workers:
            wait([worker.pipe for worker in workers], timeout=1.0)
            for worker in list(workers):
                answer = _answer(worker, seed, patience_s)
                if answer is None:
                    continue
                yield answer
                if answer["verdict"] == "ended":
                    worker.end()
                    workers.remove(worker)
                    if left:
                        workers.append(_Worker(seed))
                        workers[-1].begin(left.pop())
                elif left:
                    worker.begin(left.pop())
                else:
                    worker.end()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.end()


def _answer(worker: _Worker, seed: int, patience_s: float) -> dict[str, Any] | None:
    """What a worker has to say, or what is to be said of it."""
    why = ""
    if worker.pipe.poll():
        try:
            found: dict[str, Any] = worker.pipe.recv()
            return found
        except (EOFError, OSError):
            why = "its process died"
    elif time.monotonic() - worker.begun > patience_s:
        why = f"it did not end in {patience_s:g} s"
    if not why:
        return None
    return {"number": worker.number, "trial": f"trial {worker.number} of seed {seed}", "verdict": "ended", "events": 0,
            "ways": 0, "lost": 0, "doubled": 0, "wrong": [why]}  # fmt: skip
