"""Carrying out a sweep: every point that has not finished yet, then expectations and one table.

    sweeps/<name>-<id>/
      sweep.json        what was asked for, and how each point ended
      points.parquet    one row per point: values, repeat, seed, status, digest, metrics
      runs/             one run folder per point, <point>-<id of the run>
      failed/           <point>.json with the reason, and what the point left of its run folder

Rules:
- A point has finished when its run folder has, with the same model and trace level; it is not run again. One that was
  under way goes on from its newest checkpoint; one that failed is run again.
- A failed point never stops the others. Its reason is one sentence.
- The folder is held by a lock that goes with the process; a second sweep into it is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers import registry
from brokers.errors import BrokerlabError, EnvironmentProblem, Interrupted, InvalidInput, RunIncomplete
from scenarios.many import expect, metrics
from scenarios.many.pool import Answer, answers
from scenarios.many.sweep import Point, Sweep, repeated, value_key
from scenarios.problems import ScenarioErrors, path_text
from scenarios.progress import Steps

if TYPE_CHECKING:
    from brokers.engine.runfolder import RunFolder
    from scenarios.schema import Scenario

SWEEPS = "sweeps"
DESCRIPTION, TABLE = "sweep.json", "points.parquet"
FINISHED, FAILED, NOT_RUN = "finished", "failed", "not run"


@dataclass(frozen=True)
class Task:
    """A point as plain data, for whichever process runs it."""

    slug: str
    scenario: dict[str, Any]
    scenario_folder: str
    runs: str
    anew: bool = False  # leave what an interrupted run of it left alone
    trust: bool = False  # whether it may name code from outside


@dataclass(frozen=True)
class Outcome:
    """How a task ended: the name of its run folder, or why there is none."""

    run: str | None = None
    error: str | None = None


@dataclass
class PointState:
    """A point, and how it stands."""

    point: Point
    status: str = NOT_RUN
    error: str | None = None
    run: RunFolder | None = None
    judged: list[expect.Judged] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class SweepResult:
    """A sweep that was carried out."""

    sweep: Sweep
    path: Path
    states: tuple[PointState, ...]
    reused: int  # points that had finished before

    @property
    def finished(self) -> list[PointState]:
        return [state for state in self.states if state.status == FINISHED]

    @property
    def failed(self) -> list[PointState]:
        return [state for state in self.states if state.status == FAILED]

    @property
    def expectations_hold(self) -> bool:
        return all(judged.holds for state in self.states for judged in state.judged)

    @property
    def exit_code(self) -> int:
        return 0 if self.expectations_hold and not self.failed else 1

    def as_data(self) -> dict[str, Any]:
        """What `sweep --json` ends with."""
        found = []
        for i, text in enumerate(self.sweep.expect):
            failing = [str(state.point) for state in self.finished if not state.judged[i].holds]
            found.append({"expectation": text, "holds": not failing, "failing": failing})
        return {
            "sweep": str(self.path),
            "table": str(self.path / TABLE),
            "points": len(self.states),
            "finished": len(self.finished),
            "reused": self.reused,
            "failed": [{"point": str(state.point), "error": state.error} for state in self.failed],
            "expect": found,
        }

    def __fspath__(self) -> str:
        """So that a sweep goes wherever the path of its folder does."""
        return str(self.path)

    def __repr__(self) -> str:
        return f"<sweep {self.path.name}: {len(self.finished):,} of {len(self.states):,} points finished>"

    def _repr_html_(self) -> str:
        return str(registry.load("analysis.frames.showing:sweep_html")(self.path))


def sweep(
    file: str | Path,
    overrides: Sequence[str] = (),
    *,
    trust: bool = False,
    engine: str | None = None,
    jobs: int | None = None,
    address: str | None = None,
    out: str | Path | None = None,
    again: bool = False,
    progress: bool | Callable[[int, int, int], None] = False,
) -> SweepResult:
    """Carry out the sweep of a file, `overrides` as in `["repeats=10"]`; the rest as for `carry_out`."""
    from scenarios.many.reader import load_sweep

    loaded = load_sweep(file, overrides, trust=trust)
    return carry_out(loaded, engine=engine, jobs=jobs, address=address, out=out, again=again, progress=progress)


def repeat(
    scenario: str | Path,
    times: int,
    overrides: Sequence[str] = (),
    *,
    trust: bool = False,
    engine: str | None = None,
    jobs: int | None = None,
    address: str | None = None,
    out: str | Path | None = None,
    again: bool = False,
    progress: bool | Callable[[int, int, int], None] = False,
) -> SweepResult:
    """Run a scenario with so many independent seeds, its own first; the rest as for `carry_out`."""
    loaded = repeated(scenario, times, overrides, trust=trust)
    return carry_out(loaded, engine=engine, jobs=jobs, address=address, out=out, again=again, progress=progress)


def carry_out(
    sweep: Sweep,
    *,
    engine: str | None = None,
    jobs: int | None = None,
    address: str | None = None,
    out: str | Path | None = None,
    again: bool = False,
    progress: bool | Callable[[int, int, int], None] = False,
) -> SweepResult:
    """Run every point of a sweep that has not finished yet, then judge all.

    Parameters
    ----------
    engine : ray (points as Ray tasks) or inline (here, or in `jobs` processes); default: ray where it is installed
    jobs : points under way at a time; default: one per CPU under ray, else one
    address : of an existing Ray cluster, all nodes of which see the folder
    out : folder in which sweep folders are made; default: sweeps
    again : run every point from its beginning, as after a change to a protocol's code
    progress : True for a line on stderr, or a function of (points ended, failed, points to run)
    """
    from scenarios.choosing import THREADS, where_ray_is

    chosen = where_ray_is(engine, address)
    if chosen == THREADS:
        raise InvalidInput("points of a sweep run as Ray tasks or in processes: the engine is ray or inline")
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"a sweep needs at least one job (got {jobs})")
    audits = expect.need_audit(sweep.expect)
    path = (Path(SWEEPS if out is None else out) / f"{sweep.name}-{sweep.id}").absolute()
    with _folder(path):
        states = [PointState(point) for point in sweep.points]
        for state in [] if again else states:
            _find_finished(state, path / "runs")
        waiting = [state for state in states if state.status != FINISHED]
        result = SweepResult(sweep, path, tuple(states), len(states) - len(waiting))
        _describe(result)
        tell = Steps("points") if progress is True else progress or (lambda *_: None)
        try:
            _work(waiting, path, chosen, jobs, address, again, tell)
        except (KeyboardInterrupt, Interrupted):
            for state in waiting:  # one may have finished without being told of
                if state.status == NOT_RUN:
                    _find_finished(state, path / "runs")
            _describe(result)
            write_table(result)
            left = sum(state.status == NOT_RUN for state in states)
            raise Interrupted(
                f"interrupted; {left} of {len(states)} points are left, and the same command goes on with them"
            ) from None
        finally:
            if isinstance(tell, Steps):
                tell.close()
        if audits:
            runs = [state.run for state in result.finished if state.run is not None]
            trusted = any(point.scenario.trust for point in sweep.points)
            expect.audit_all(runs, trust=trusted, progress=progress is True)
        for state in result.finished:
            assert state.run is not None
            state.judged = expect.judge(sweep.expect, state.run)
        _describe(result)
        write_table(result)
    return result


def _work(
    waiting: Sequence[PointState],
    path: Path,
    engine: str,
    jobs: int | None,
    address: str | None,
    again: bool,
    tell: Callable[[int, int, int], None],
) -> None:
    if not waiting:
        return
    runs = str(path / "runs")
    work = [_task(state.point, runs, again) for state in waiting]
    failed = 0
    tell(0, 0, len(work))
    with contextlib.closing(answers(run_point, work, engine, jobs, address)) as ended:  # type: ignore[type-var]
        for count, answer in enumerate(ended, 1):
            state = waiting[answer.number]
            _note(state, answer, path)
            failed += state.status == FAILED
            tell(count, failed, len(work))


def _task(point: Point, runs: str, again: bool) -> Task:
    scenario = point.scenario
    return Task(point.slug, point.data(), scenario.folder, runs, again, scenario.trust)


def run_point(task: Task) -> Outcome:
    """Run one point in this process; whatever goes wrong with it is the answer."""
    from scenarios.loader import from_data
    from scenarios.running import resume, run

    if not Path(task.runs).is_dir():
        return Outcome(
            error=f"the node that ran it cannot see {task.runs}: name a folder that all nodes share (--out)"
        )
    try:
        scenario = from_data(task.scenario, task.scenario_folder, trust=task.trust)
        left = None if task.anew else _left_behind(task, scenario)
        if left is not None:
            # What no longer fits, or cannot be read, is begun anew.
            with contextlib.suppress(InvalidInput):
                return Outcome(run=resume(left, engine="inline", actors=1, trust=task.trust).path.name)
        done = run(
            scenario,
            engine="inline",
            actors=1,
            out=task.runs,
            overwrite=True,
            command=["brokerlab", "sweep", task.slug],
        )
        return Outcome(run=done.path.name)
    except Interrupted:
        raise
    except ScenarioErrors as error:  # plain data has no lines to point at
        return Outcome(error="; ".join(f"{path_text(each.path)}: {each.message}" for each in error.problems))
    except BrokerlabError as error:
        return Outcome(error=str(error))
    except Exception as error:
        return Outcome(
            error=f"a mistake in brokerlab or in what it was given: {type(error).__name__}: {error}"
        )


def _left_behind(task: Task, scenario: Scenario) -> Path | None:
    """The folder of a run of this very model and trace that did not come to its end, if there is one."""
    left = [folder for folder in _folders_of(task.slug, Path(task.runs)) if not (folder / "_SUCCESS").exists()]
    if not left:
        return None
    wanted = _identity(scenario)
    for folder in left:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # whatever its manifest holds
            manifest = json.loads((folder / "manifest.json").read_bytes())
            if (manifest["id"], manifest["trace_level"]) == wanted:
                return folder
    return None


def _identity(scenario: Scenario) -> tuple[str, str]:
    """The id that a run of this scenario gets, and its trace level."""
    from brokers.engine.runfolder import run_id
    from scenarios.plan import resolve

    model = resolve(scenario)
    return run_id({"model": model.facts["model_parts"], "seed": model.seed}), model.trace_level


def _note(state: PointState, answer: Answer, path: Path) -> None:
    """Keep how a point ended."""
    outcome: Outcome = answer.value if answer.lost is None else Outcome(error=answer.lost)
    reason = path / "failed" / f"{state.point.slug}.json"
    state.error = outcome.error
    if outcome.run is not None:
        from brokers.engine.runfolder import open_run

        try:
            state.run = open_run(path / "runs" / outcome.run)
            state.status = FINISHED
            reason.unlink(missing_ok=True)
            return
        except BrokerlabError as error:
            state.error = str(error)
    state.status = FAILED
    reason.parent.mkdir(exist_ok=True)
    for leftover in _folders_of(state.point.slug, path / "runs"):
        shutil.rmtree(reason.parent / leftover.name, ignore_errors=True)
        leftover.rename(reason.parent / leftover.name)
    facts = {"point": str(state.point), "values": dict(state.point.values), "repeat": state.point.repeat}
    text = json.dumps({**facts, "seed": state.point.seed, "error": state.error}, indent=1, ensure_ascii=False)
    reason.write_text(text + "\n", encoding="utf-8")


def _folders_of(slug: str, runs: Path) -> list[Path]:
    """The run folders that carry a point's name, whatever their model."""
    name = re.compile(rf"{re.escape(slug)}-[0-9a-f]{{10}}")
    return [entry for entry in runs.glob(f"{slug}-*") if name.fullmatch(entry.name)]


def _find_finished(state: PointState, runs: Path) -> None:
    """Take the finished run of a point, if its model is still the same."""
    candidates = [folder for folder in _folders_of(state.point.slug, runs) if (folder / "_SUCCESS").exists()]
    if not candidates:
        return
    from brokers.engine.runfolder import open_run
    from scenarios.loader import from_data

    try:
        scenario = state.point.scenario
        wanted = _identity(from_data(state.point.data(), scenario.folder, trust=scenario.trust))
    except BrokerlabError:
        return  # running it will tell
    for folder in candidates:
        with contextlib.suppress(RunIncomplete, InvalidInput):
            found = open_run(folder)
            if (found.manifest["id"], found.manifest["trace_level"]) == wanted:
                state.run, state.status = found, FINISHED
                return


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder of a sweep, made and locked."""
    try:
        (path / "runs").mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / "_lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise EnvironmentProblem(f"cannot make the folder {path}: {error.strerror or error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RunIncomplete(f"{path} is being written by another sweep: wait for it, or stop it") from None
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(f"cannot write to {path}: {error.strerror or error}") from error
    finally:
        os.close(descriptor)


def _describe(result: SweepResult) -> None:
    points = [
        {
            "point": state.point.slug,
            "values": dict(state.point.values),
            "repeat": state.point.repeat,
            "seed": state.point.seed,
            "status": state.status,
            "run": None if state.run is None else f"runs/{Path(state.run.path).name}",
            "error": state.error,
        }
        for state in result.states
    ]
    text = json.dumps({**result.sweep.as_data(), "points": points}, indent=1, ensure_ascii=False) + "\n"
    unfinished = result.path / f"_tmp-{DESCRIPTION}"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, result.path / DESCRIPTION)


def write_table(result: SweepResult) -> None:
    """points.parquet: one row per point, finished or not."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    states = result.states
    columns: dict[str, Any] = {
        "point": pa.array([state.point.slug for state in states], pa.string()),
        **{path: _values([state.point.values[path] for state in states]) for path in result.sweep.paths},
        "repeat": pa.array([state.point.repeat for state in states], pa.int64()),
        "seed": pa.array([state.point.seed for state in states], pa.int64()),
        "status": pa.array([state.status for state in states], pa.string()),
        "error": pa.array([state.error for state in states], pa.string()),
        "run": pa.array(
            [None if s.run is None else f"runs/{Path(s.run.path).name}" for s in states], pa.string()
        ),
        "digest": pa.array([None if s.run is None else s.run.digest for s in states], pa.string()),
        "expectations_hold": pa.array(
            [all(j.holds for j in s.judged) if s.status == FINISHED else None for s in states], pa.bool_()
        ),
    }
    measured: list[Mapping[str, Any]] = [{} if s.run is None else metrics.measured(s.run) for s in states]
    for name in dict.fromkeys(name for each in measured for name in each):
        # A service may be called like a section of the scenario.
        column = name if name not in columns else f"services.{name}"
        columns[column] = _values([each.get(name) for each in measured])
    unfinished = result.path / f"_tmp-{TABLE}"
    pq.write_table(pa.table(columns), unfinished, compression="zstd")
    os.replace(unfinished, result.path / TABLE)


def _values(values: Sequence[Any]) -> Any:
    """A column of one type: whole numbers, numbers, truth values, else texts."""
    import pyarrow as pa

    there = [value for value in values if value is not None]
    if there and all(isinstance(value, bool) for value in there):
        return pa.array(values, pa.bool_())
    if there and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        whole = all(isinstance(value, int) and abs(value) < 2**63 for value in there)
        return pa.array(values, pa.int64()) if whole else pa.array(map(_float, values), pa.float64())
    return pa.array([v if v is None or isinstance(v, str) else value_key(v) for v in values], pa.string())


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
