"""Have all lives lived by as many processes as there are cores, and say how far that is."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from numba.core import caching

from analysis.warm.events import Compiled, listening
from analysis.warm.lives import Part, stages
from brokers.errors import BrokerlabError
from scenarios.many.pool import answers, cpus
from scenarios.progress import Steps, ticking


class Work(NamedTuple):
    """What came of a part."""

    part: str
    compiled: list[Compiled]


def warm(jobs: int | None = None, stream: TextIO | None = None) -> list[Work]:
    """Compile what is not compiled yet, in so many processes (default: one per CPU); progress goes to stderr.

    Raises
    ------
    BrokerlabError
        If a part fails, naming it.
    """
    done: list[Work] = []
    plan = list(stages())
    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        tally = Path(folder) / "tally"
        tally.touch()
        with _shown(tally, sum(map(len, plan)), done, stream):
            for stage in plan:
                for answer in answers(
                    partial(_live, tally=str(tally)), stage, "inline", min(jobs or cpus(), len(stage))
                ):
                    if answer.lost is not None:
                        raise BrokerlabError(f"compiling kernels: {stage[answer.number].name}: {answer.lost}")
                    done.append(answer.value)
    return done


def _live(part: Part, tally: str) -> Work:
    """Live a part's lives, with a byte in the tally for every kernel that was compiled."""
    found: list[Compiled] = []
    with open(tally, "ab", buffering=0) as count, _one_saves_at_a_time(tally):

        def note(compiled: Compiled) -> None:
            found.append(compiled)
            count.write(b".")

        with listening(note):
            for life in part.lives:
                life()
    return Work(part.name, found)


def _shown(tally: Path, parts: int, done: list[Work], stream: TextIO | None) -> AbstractContextManager[None]:
    """Say how far it is while the block lasts."""
    steps = Steps("parts", stream)

    def text(passed_s: float) -> str:
        kernels = f"{tally.stat().st_size} kernels compiled"
        return steps.line(len(done), 0, parts, steps.started + passed_s, kernels)

    return ticking(steps, text)


@contextmanager
def _one_saves_at_a_time(lock: str) -> Iterator[None]:
    """Let no two processes write to Numba's cache at a time.

    Numba reads a function's index, picks the next free file and writes both. Two that do so at the same moment for
    two signatures pick the same file, and the index may then lead from one signature to the other's code.
    """
    files: Any = caching.IndexDataCacheFile
    save = files.save

    def locked(self: Any, key: Any, data: Any) -> None:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            save(self, key, data)

    files.save = locked
    try:
        yield
    finally:
        files.save = save
