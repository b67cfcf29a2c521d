"""Run a scenario from Python: `run("quickstart").digest`.

The folder is made first and finished last: whatever stops a run leaves a folder without `_SUCCESS`, which
says in its manifest how far it got. Engine, number of actors and trace level do not change the digest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers import names, registry
from brokers.errors import BrokerlabError, EnvironmentProblem, Interrupted, InvalidInput
from brokers.programs.spelling import is_program
from scenarios.choosing import Choice, choose, where_ray_is
from scenarios.loader import from_data, load
from scenarios.many.metrics import stood_for
from scenarios.measuring import measured
from scenarios.plan import cut, resolve
from scenarios.progress import Progress
from scenarios.schema import Scenario
from scenarios.watching import View, Watching

if TYPE_CHECKING:
    import pyarrow as pa

    from brokers.engine.model import Model
    from brokers.engine.runfolder import NewRun, RunFolder
    from brokers.engine.simulate import Result, Start
    from topology.overlay import Overlay

RUNS = "runs"
NOT_AUDITED = "not audited"

ProgressCallback = Callable[[int, int, int], None]


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run: its folder, and what came of it.

    Each table of its trace is an attribute: `Run.load("runs/latest").deliveries` is a pyarrow.Table.
    """

    folder: RunFolder

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """Open the folder of a finished run."""
        from brokers.engine.runfolder import open_run

        return cls(open_run(path))

    @property
    def path(self) -> Path:
        return self.folder.path

    def __fspath__(self) -> str:
        """So that a run goes wherever the path of its folder does."""
        return str(self.path)

    @property
    def digest(self) -> str:
        """The fingerprint: equal for equal scenarios, whatever the engine and the number of actors."""
        return self.folder.digest

    @property
    def metrics(self) -> dict[str, Any]:
        return dict(self.folder.manifest["engine"]["metrics"])

    @property
    def engine(self) -> dict[str, Any]:
        """How it was executed: engine, actors, cut links, lookahead, windows."""
        return {key: value for key, value in self.folder.manifest["engine"].items() if key != "metrics"}

    @property
    def verdict(self) -> str:
        """That of the audit: valid, unknown or invalid; "not audited" until there was one."""
        from scenarios.many.metrics import kept_audit

        found = kept_audit(self.folder)
        return NOT_AUDITED if found is None else str(found["verdict"])

    def __getattr__(self, name: str) -> Any:
        from brokers.engine.trace_schema import TABLES

        if name != "folder" and (name in TABLES or name in self.folder.manifest["tables"]):
            return self._table(name)
        raise AttributeError(f"a run has no {name!r}")

    def _table(self, name: str) -> Any:
        """What the attribute of a table is; lazy where a run was opened by `brokerlab.open`."""
        return self.read(name)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A table of the trace, as docs/trace.md describes it."""
        return self.folder.read(table, columns)

    def as_data(self) -> dict[str, Any]:
        """What `run --json` ends with."""
        return {
            "run": str(self.path),
            "digest": self.digest,
            "verdict": self.verdict,
            "metrics": self.metrics,
        }

    def __repr__(self) -> str:
        return f"<run {self.path.name}: digest {self.digest}, verdict {self.verdict}>"

    def _repr_html_(self) -> str:
        return str(registry.load("analysis.frames.showing:run_html")(self.folder))


def run(
    scenario: str | Path | Scenario,
    *,
    engine: str | None = None,
    actors: int | None = None,
    address: str | None = None,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressCallback | bool | None = None,
    watch: View | None = None,
    command: Sequence[str] | None = None,
    notice: Callable[[str], None] | None = None,
    trust: bool = False,
) -> Run:
    """Run a scenario into a run folder.

    Parameters
    ----------
    scenario : a file, the name of a shipped scenario, or a `Scenario` from `scenarios.loader`
    engine : auto, ray or inline; `auto`, the default, takes Ray where an address or several actors are asked for, or
        where λ and the length of the run say that it pays
    actors : number of shards; default: as the scenario says, else one per CPU (of the cluster) under ray, 1 inline
    address : of an existing Ray cluster
    seed, overrides : change the scenario, `overrides` as in `["links.delay=5 ms"]`
    out : folder in which run folders are made; default: runs
    overwrite : replace a run of the same model instead of numbering
    progress : True for a line on stderr, or a function of (simulated ns, events, messages in flight)
    watch : what shows the run while it goes on, more than a line of progress
    notice : told in a sentence which engine was chosen and why, where none was named
    trust : let the file name code from outside, `package.module:Name`, which is imported then

    Raises
    ------
    InvalidInput
        If the scenario or an argument is wrong.
    EnvironmentProblem
        If Ray is asked for and missing, or the folder cannot be written.
    """
    from brokers.engine.runfolder import create_run
    from brokers.engine.simulate import tables_of

    changes = [*overrides, *([] if seed is None else [f"seed={seed}"])]
    if isinstance(scenario, Scenario):
        if changes or trust:
            raise InvalidInput("overrides, seed and trust are for a file; give them when the scenario is loaded")
    else:
        scenario = load(scenario, changes, trust=trust)
    where_ray_is(engine, address)
    model = resolve(scenario)
    chosen = _chosen(scenario, model, engine, actors, address, notice)
    model = _bounded(scenario, model)
    folder = create_run(
        RUNS if out is None else out,
        model.name,
        model.facts["model_parts"],
        scenario=model.facts["scenario"],
        seed=model.seed,
        level=model.trace_level,
        extra_tables=tables_of(model),
        command=command,
        overwrite=overwrite,
    )
    return _carry_out(folder, scenario, model, chosen, address, progress, resumed=False, watch=watch)


def resume(
    folder: str | Path,
    *,
    engine: str | None = None,
    actors: int | None = None,
    address: str | None = None,
    progress: ProgressCallback | bool | None = None,
    notice: Callable[[str], None] | None = None,
    trust: bool = False,
) -> Run:
    """Finish a run that was interrupted or died, from its newest checkpoint.

    With any engine and number of actors: the digest is that of the undisturbed run. `trust` lets the run name code from
    outside.
    """
    from brokers.engine.runfolder import reopen_run, run_id
    from brokers.engine.simulate import resumable, tables_of

    reopened = reopen_run(folder)
    with reopened:
        try:
            facts = reopened.facts
            beside = reopened.path / facts.get("scenario_folder", ".")
            scenario = from_data(facts["scenario"], beside, trust=trust, where=str(reopened.path / "manifest.json"))
            _names_as_they_were(scenario, stood_for(reopened.path, facts), trust)
            where_ray_is(engine, address)
            model = resolve(scenario)
            if run_id({"model": model.facts["model_parts"], "seed": model.seed}) != reopened.id:
                raise InvalidInput(
                    f"{folder}: what the scenario refers to (a file, or the program) has changed since the run began, "
                    "so it cannot be resumed; run it again"
                )
            chosen = _chosen(scenario, model, engine, actors, address, notice)
            model = _bounded(scenario, model)
            start = resumable(str(reopened.path), model, _tell)
        except BrokerlabError:
            reopened.leave()  # as it was found
            raise
        reopened.declare(tables_of(model))
        reopened.resumed()
        return _carry_out(reopened, scenario, model, chosen, address, progress, resumed=True, start=start)


def _chosen(
    scenario: Scenario,
    model: Model,
    engine: str | None,
    actors: int | None,
    address: str | None,
    notice: Callable[[str], None] | None,
) -> Choice:
    """What carries a run, told where nobody named it."""
    taken = choose(scenario, model, engine, actors, address)
    taken = taken._replace(shards=fitting(scenario, taken.shards, model.overlay, asked=actors is not None))
    if notice is not None and taken.why:
        notice(f"engine: {taken.engine}, {taken.why}")
    return taken


def _bounded(scenario: Scenario, model: Model) -> Model:
    """The model with what it may come to at most, so that a protocol that answers itself for ever is a finding."""
    from scenarios.expected import messages_max

    return replace(model, messages_max=scenario.model.engine.messages_max or messages_max(model))


def _tell(sentence: str) -> None:
    print(f"brokerlab: {sentence}", file=sys.stderr)


def _carry_out(
    folder: NewRun,
    scenario: Scenario,
    model: Model,
    chosen: Choice,
    address: str | None,
    progress: ProgressCallback | bool | None,
    resumed: bool,
    start: Start | None = None,
    watch: View | None = None,
) -> Run:
    """Run a model into its folder, and finish the folder."""
    from brokers.engine.simulate import FileTraces, tables_of

    bar = Progress(model.duration_ns) if progress is True else None
    callback = bar.update if bar is not None else progress if callable(progress) else None
    watching = Watching(folder, scenario, model, watch)
    every_s = scenario.model.engine.checkpoint_every / 1e9
    again = f"brokerlab run --resume {folder.path}{' --trust' if scenario.trust else ''}"
    with folder:
        # From the run folder, so that both can be moved together.
        where = os.path.relpath(scenario.folder, folder.path.resolve())
        folder.note("running", scenario_folder=where, names=scenario.stands_for())
        try:
            result = execute(
                scenario,
                model,
                chosen.engine,
                chosen.shards,
                address,
                FileTraces(str(folder.path), model.trace_level, tables_of(model)),
                callback,
                checkpoint_every_s=every_s or None,
                watch=watching,
                resume=start if resumed else False,
                notice=_tell,
            )
        except Interrupted:
            folder.fail("interrupted")
            raise Interrupted(f"interrupted; finish it with: {again}") from None
        except EnvironmentProblem as error:
            if not resumed and folder.discard():
                raise
            folder.fail("failed")
            raise EnvironmentProblem(f"{error}; then finish it with: {again}") from error
        finally:
            if bar is not None:
                bar.close()
        further, unmeasured = measured(scenario, model, folder.path)
        for sentence in unmeasured:
            _tell(sentence)
        for name, each in further.items():
            result.metrics["services"][name].update(each)
        facts = {
            **result.engine,
            "chosen": chosen.why,
            "metrics": result.metrics,
            # What was left out or changed in what was read, and what could not be measured.
            "notes": [*model.overlay.notes, *model.facts["notes"], *unmeasured],
            "scenario_folder": where,
        }
        return Run(folder.finish(result.digest, result.digest_per_second, facts))


def fitting(scenario: Scenario, shards: int, overlay: Overlay, asked: bool) -> int:
    """The number of shards: a default has at most one per broker, what someone asked for is checked."""
    section = scenario.model.engine
    brokers = overlay.brokers
    if shards > brokers:
        if not asked and section.actors is None:
            return brokers
        message = f"{shards} actors for {brokers} brokers; each needs at least one"
        raise InvalidInput(message) if asked else scenario.wrong(("engine", "actors"), message)
    if isinstance(section.partition, list):
        cut(scenario, overlay, shards)
    return shards


def execute(
    scenario: Scenario,
    model: Model,
    engine: str,
    actors: int,
    address: str | None = None,
    trace: Callable[[int], Any] | None = None,
    progress: ProgressCallback | None = None,
    **more: Any,
) -> Result:
    """Run a resolved model, with the engine options of its scenario."""
    from brokers.engine.simulate import simulate

    section = scenario.model.engine
    return simulate(
        model,
        engine=engine,
        actors=actors,
        address=address,
        # A list of shards fits the number of actors it was written for, and one shard needs none.
        partition=section.partition if actors > 1 else "auto",
        trace=trace,
        progress=progress,
        max_window_ns=section.window_max,
        **more,
    )


def scenario_of(run: RunFolder, *, trust: bool = False) -> Scenario:
    """The scenario that a run folder was made from, to run again; `trust` lets it name code from outside."""
    beside = run.path / run.manifest["engine"].get("scenario_folder", ".")
    found = from_data(run.manifest["scenario"], beside, trust=trust, where=str(run.path / "manifest.json"))
    _names_as_they_were(found, stood_for(run.path, run.manifest), trust)
    return found


def _names_as_they_were(scenario: Scenario, told: Sequence[Mapping[str, Any]], trust: bool) -> None:
    """Refuse names of a run's services that another package has taken since."""
    for service, was in zip(scenario.services, told, strict=True):
        if is_program(service.section.protocol) and was.get("protocol") not in (None, service.protocol.target):
            raise InvalidInput(
                f"the program {service.section.protocol} says other things of itself than when the run was made; take "
                "the one that it was made with, or run the scenario again"
            )
        for group, key in (("kinds", "kind"), ("protocols", "protocol"), ("indexes", "index")):
            name = service.index_name if key == "index" else getattr(service.section, key)
            if name is not None:
                names.found_again(group, name, was.get(key), trust=trust, folder=Path(scenario.folder))
        for attackers, target in zip(service.attackers, was.get("attackers", ())):
            names.found_again("behaviours", attackers.section.behaviour, target, trust=trust)
        for source, target in zip(service.sources, was.get("workload", ())):
            names.found_again("workloads", source.name, target, trust=trust)
