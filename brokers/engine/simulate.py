"""A run: shards, windows, one result; and going on after something died.

Rules:
- Engine, number of actors and assignment change the speed and nothing else.
- With a run folder, the state of all shards is kept every so many seconds (checkpoint). When an actor or a
  node dies, shards are made anew from the last checkpoint, what was written after it is removed, and the run
  goes on. Without a checkpoint yet, it starts again.
- Nothing is removed before the checkpoint, and every part of the trace that it vouches for, were found whole and
  the shards have taken over what it says.
- A protocol's or a user's mistake is raised at once: running it again would only repeat it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers import attackers
from brokers.contract import NEVER, ShardProtocol
from brokers.engine import checkpoint
from brokers.engine.batching import Cutting
from brokers.engine.committed import Part, new_parts
from brokers.engine.forms import told
from brokers.engine.manifest import refuse_links
from brokers.engine.model import Model
from brokers.engine.result import Result, combine, write_tables
from brokers.engine.shard import ShardResult
from brokers.engine.trace import DRIVER, MemoryTrace, Table, TraceWriter
from brokers.engine.windows import Progress, Shards, Watch, Windows
from brokers.errors import (
    ActorsLost,
    EnvironmentProblem,
    Interrupted,
    InvalidInput,
    ProtocolFault,
    RunIncomplete,
)
from brokers.kinds import own_tables
from brokers.programs.spelling import is_program, shown
from brokers.words import WORDS, words_of

ATTEMPTS = 3  # without a new checkpoint in between, before a run that loses actors gives up


@dataclass(frozen=True)
class FileTraces:
    """Makes the trace writer of each shard; pickles, so that actors make their own."""

    folder: str
    level: str
    tables: Mapping[str, Table] = field(default_factory=dict)  # of the kinds; see `tables_of`
    segment: int = 0  # what lies between two checkpoints

    def __call__(self, shard: int) -> TraceWriter:
        return TraceWriter(self.folder, shard, self.level, self.tables, segment=self.segment)


def tables_of(model: Model) -> dict[str, Table]:
    """The trace tables that the services of a model add."""
    tables: dict[str, Table] = {}
    for service in model.services:
        tables.update(own_tables(service.kind_class, service.protocol_class))
        if service.attackers:
            tables.update(attackers.TABLES)
        if words_of(service.params):
            tables.update(WORDS)
    return tables


class MemoryTraces:
    """Keeps the trace of each shard in memory."""

    def __init__(self, level: str = "full", tables: Mapping[str, Table] | None = None) -> None:
        self.level = level
        self._tables = tables
        self.parts: dict[int, MemoryTrace] = {}

    def __call__(self, shard: int) -> MemoryTrace:
        return self.parts.setdefault(shard, MemoryTrace(self.level, self._tables))

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """All shards' rows together, as arrays by table and column."""
        parts = [part.tables() for part in self.parts.values()]
        return {
            table: {column: np.concatenate([p[table][column] for p in parts]) for column in parts[0][table]}
            for table in parts[0]
        }


def simulate(
    model: Model,
    *,
    engine: str = "inline",
    actors: int | None = None,
    address: str | None = None,
    partition: str | list[int] = "auto",
    trace: Callable[[int], Any] | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    cutting: Cutting | None = None,
    max_window_ns: int | None = None,
    until_ns: int | None = None,
    observe: Callable[[Any], None] | None = None,
    checkpoint_every_s: float | None = None,
    checkpoints_ns: Sequence[int] | None = None,
    resume: bool | Start | None = False,
    notice: Callable[[str], None] | None = None,
) -> Result:
    """Run a model.

    Parameters
    ----------
    engine, actors, address, partition : who carries which brokers
    trace : makes each shard's trace; `FileTraces` for a run folder
    progress : called after every window with (simulated ns, events, messages under way)
    watch : called after every window with (simulated ns, events, a function that gives what each shard has come to)
    until_ns : end the run early
    observe : called with the shards at the end, before anything is closed
    checkpoint_every_s : wall time between checkpoints in the run folder; None: none
    checkpoints_ns : in place of that the simulated times from which on, at the next window's border, one is taken
    resume : go on from the newest checkpoint of the run folder; or from that which `resumable` found
    notice : told, in a sentence, when the run recovered from something
    """
    began = time.time_ns()
    notice = notice or (lambda sentence: None)
    wanted = _checked(model, engine, actors)
    kept = checkpoint_every_s is not None or checkpoints_ns is not None
    if kept and (stateless := _stateless(model)):
        notice(f"{stateless}, so no checkpoints are taken")
        checkpoint_every_s = checkpoints_ns = None
    from topology.partition import partition as cut

    parts = cut(model.overlay, wanted, partition, apart=engine == "ray" or wanted > 1)
    course = _Course(
        model, engine, address, np.ascontiguousarray(parts.assignment, np.int32), int(parts.lookahead_ns),
        trace or MemoryTraces("none", tables_of(model)), cutting, max_window_ns, until_ns, checkpoint_every_s,
        progress, watch, observe, None if checkpoints_ns is None else tuple(sorted(checkpoints_ns)),
    )  # fmt: skip
    start = resumable(course.folder, model, notice) if resume is True else resume or None
    if resume is True and start is None:
        notice("there is no checkpoint to go on from, so the run begins again")
    done, recovered = _carried(course, start, resume is not False, notice)
    result = combine(model, done.results)
    result.engine = {
        "engine": done.engine,
        "actors": wanted,
        "cut_links": int(parts.cut_links.size),
        "lookahead_ns": course.lookahead_ns if course.lookahead_ns < NEVER else None,
        "imbalance": float(parts.imbalance),
        "digest_entry_s": result.digest_entry_s,
        "forms": told(model, done.results[0].forms),
        **done.facts(),
        "recovered": recovered,
    }
    result.metrics["run"] = {"wall_s": (time.time_ns() - began) / 1e9, **done.speed()}
    write_tables(model, done.traces(DRIVER), result, done.windows.log, done.where)
    return result


def _checked(model: Model, engine: str, actors: int | None) -> int:
    """The number of shards, if that and the engine are such as there are."""
    wanted = actors if actors is not None else 1
    brokers = model.overlay.brokers
    if not 1 <= wanted <= brokers:
        raise InvalidInput(f"{wanted} actors for {brokers} brokers: pass 1 to {brokers}")
    if engine not in ("inline", "threads", "ray"):
        raise InvalidInput(f"no engine named {engine!r}: it is inline, threads or ray")
    return wanted


def _carried(
    course: _Course, start: Start | None, resuming: bool, notice: Callable[[str], None]
) -> tuple[_Attempt, int]:
    """The attempt that came to the end, and how many were lost before."""
    again, recovered, fruitless = resuming, 0, 0
    while True:
        attempt = _Attempt(course, start)
        try:
            attempt.carry(again)
            return attempt, recovered
        except KeyboardInterrupt:  # while the shards were made or closed
            raise Interrupted("interrupted") from None
        except (ProtocolFault, InvalidInput) as fault:
            if start is None or not resuming:
                raise
            raise RunIncomplete(
                f"{fault}. The run had gone on from {start.folder}, which may be the reason: if it is what the run "
                "itself kept, run the scenario anew with --overwrite to see whether the fault comes again"
            ) from fault
        except SystemExit as stop:
            raise ProtocolFault(_said_goodbye(course.model, stop)) from stop
        except ActorsLost as lost:
            if course.folder is None and getattr(course.trace, "level", "full") != "none":
                raise EnvironmentProblem(
                    f"{lost}; a trace in memory went with it, so the run cannot go on"
                ) from None
            fruitless = fruitless + 1 if attempt.saver.number == (start.number if start else 0) else 1
            if fruitless >= ATTEMPTS:
                raise EnvironmentProblem(f"{lost}; {fruitless} attempts from the same point failed") from None
            recovered += 1
            start, again = resumable(course.folder, course.model, notice), True
            notice(f"{lost}; going on from {_said(start)}")


def _said_goodbye(model: Model, stop: SystemExit) -> str:
    """What to tell when a protocol, a kind or a source ends the program."""
    where = traceback.extract_tb(stop.__traceback__)[-1]
    services = ", ".join(f"{service.name!r} ({shown(service.protocol_target)})" for service in model.services)
    return (
        f"what belongs to a service called sys.exit({stop.code!r}) ({Path(where.filename).name}:{where.lineno}, in "
        f"{where.name}); the services are {services}"
    )


def _stateless(model: Model) -> str | None:
    """Which protocol of the model cannot be checkpointed and why, if there is one."""
    for service in model.services:
        protocol = service.protocol_class
        if issubclass(protocol, ShardProtocol) and protocol.state is ShardProtocol.state:
            name = shown(service.protocol_target)
            if is_program(service.protocol_target):
                return f'the program {name} keeps no state (it answers hello without "state": true)'
            return f"the protocol {name} has no state()"
    return None


@dataclass(frozen=True)
class Start:
    """A checkpoint to go on from."""

    number: int
    folder: str
    facts: dict[str, Any]
    parts: list[Part]  # of the trace, until then


def resumable(folder: str | None, model: Model, notice: Callable[[str], None]) -> Start | None:
    """The newest usable checkpoint, verified; None to start again. Changes nothing; RunIncomplete if it is wrong."""
    if folder is None:
        return None
    refuse_links(Path(folder))
    found = checkpoint.newest(folder)
    if found is None:
        return None
    parts = checkpoint.verify(folder, found, model)
    for sentence in found.passed:
        notice(sentence)
    return Start(found.number, str(checkpoint.folder_of(folder, found.number)), found.facts, parts)


def _said(start: Start | None) -> str:
    return "the start" if start is None else f"checkpoint {start.number} at {start.facts['now'] / 1e9:.3f} s"


class _Saver:
    """Takes checkpoints between windows: every so many seconds of wall time, or at simulated times."""

    def __init__(self, course: _Course, start: Start | None) -> None:
        self._folder = folder = course.folder
        every_s = course.checkpoint_every_s
        self._every_ns = None if every_s is None or folder is None else int(every_s * 1e9)
        begun = start.facts["now"] if start else -1
        wanted = course.checkpoints_ns if folder is not None else None
        self._ahead = None if wanted is None else [at for at in wanted if at > begun]
        self._shards = int(course.assignment.max()) + 1
        self._last_ns = time.perf_counter_ns()
        self._versions = checkpoint.versions(course.model)
        self._parts = list(start.parts) if start else []
        self.number = start.number if start else 0
        self.count = 0
        self.wall_ns = 0
        self.bytes = 0

    def _due(self, wall_ns: int, simulated_ns: int) -> bool:
        if self._ahead is None:
            return self._every_ns is not None and wall_ns - self._last_ns >= self._every_ns
        later = [at for at in self._ahead if at > simulated_ns]
        due, self._ahead = len(later) < len(self._ahead), later
        return due

    def __call__(self, shards: Shards, facts: dict[str, Any]) -> None:
        now = time.perf_counter_ns()
        if not self._due(now, facts["now"]):
            return
        assert self._folder is not None
        number = self.number + 1
        folder = checkpoint.folder_of(self._folder, number)
        self.bytes += shards.checkpoint(str(folder), number)
        self._parts += new_parts(Path(self._folder), self._parts, number)
        kept = {"shards": self._shards, "services": self._versions, "parts": [list(part) for part in self._parts]}
        checkpoint.write_driver(folder, {**facts, **kept})
        checkpoint.prune(self._folder)
        self.number = number
        self.count += 1
        self._last_ns = time.perf_counter_ns()
        self.wall_ns += self._last_ns - now


@dataclass(frozen=True)
class _Course:
    """How a run is carried out, however often it is gone on with."""

    model: Model
    engine: str
    address: str | None
    assignment: NDArray[np.int32]
    lookahead_ns: int
    trace: Callable[[int], Any]
    cutting: Cutting | None
    max_window_ns: int | None
    until_ns: int | None
    checkpoint_every_s: float | None
    progress: Progress | None
    watch: Watch | None
    observe: Callable[[Any], None] | None
    checkpoints_ns: tuple[int, ...] | None = None

    @property
    def folder(self) -> str | None:
        """The run folder, if there is one."""
        return self.trace.folder if isinstance(self.trace, FileTraces) else None

    def shards(self, traces: Callable[[int], Any], resume: str | None) -> Shards:
        if self.engine == "inline":
            from brokers.engine.inline import InlineShards

            return InlineShards(self.model, self.assignment, traces, self.cutting, resume)
        if self.engine == "threads":
            from brokers.engine.threads import ThreadShards

            return ThreadShards(self.model, self.assignment, traces, self.cutting, resume, self.lookahead_ns)
        from brokers.engine.ray import RayShards

        return RayShards(self.model, self.assignment, traces, self.cutting, self.address, resume)


class _Attempt:
    """The run from a start to its end, or until something dies."""

    def __init__(self, course: _Course, start: Start | None) -> None:
        self._course = course
        self._start = start
        self.traces = course.trace
        if start is not None and isinstance(course.trace, FileTraces):
            self.traces = replace(course.trace, segment=start.number)
        self.windows = Windows(
            course.model,
            NEVER if course.engine == "threads" else course.lookahead_ns,  # those meet within a window
            course.max_window_ns,
            course.until_ns,
            start.facts if start else None,
        )
        self.saver = _Saver(course, start)
        self.engine = ""
        self.results: list[ShardResult] = []
        self.where: list[tuple[int, str]] = []

    def carry(self, again: bool) -> None:
        """Do it. `again`: something was begun in the run folder before."""
        course, start = self._course, self._start
        shards = course.shards(self.traces, start.folder if start else None)
        try:
            if again and course.folder is not None:
                shards.next_time()  # answered once all of them have taken over what was kept
                checkpoint.rewind(course.folder, start.number if start else 0)
            self.windows.run(shards, course.progress, self.saver, course.watch)
            if course.observe is not None:
                course.observe(shards)
            self.engine, self.where = shards.name, shards.where()
            self.results = shards.finish()
        except KeyboardInterrupt:
            shards.abandon()
            raise Interrupted("interrupted") from None
        except BaseException:
            shards.abandon()
            raise
        finally:
            shards.close()

    def facts(self) -> dict[str, Any]:
        return {
            "windows": len(self.windows.log),
            "rounds": sum(report.rounds for _, _, reports in self.windows.log for report in reports),
            "checkpoints": self.saver.count,
            "checkpoint_s": self.saver.wall_ns / 1e9,
            "checkpoint_bytes": self.saver.bytes,
        }

    def speed(self) -> dict[str, Any]:
        loop_s = self.windows.wall_ns / 1e9
        by_window = [reports for _, _, reports in self.windows.log]
        return {
            "loop_wall_s": loop_s,
            "events_per_s": sum(r.events for reports in by_window for r in reports) / max(loop_s, 1e-9),
            "simulated_s": self.windows.reached / 1e9,
            "cpu_s": sum(r.cpu_ns for reports in by_window for r in reports) / 1e9,
            "cpu_slowest_s": sum(max(r.cpu_ns for r in reports) for reports in by_window) / 1e9,
        }


__all__ = [
    "Cutting",
    "FileTraces",
    "MemoryTraces",
    "ProtocolFault",
    "Result",
    "resumable",
    "simulate",
    "tables_of",
]
