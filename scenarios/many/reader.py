"""From a sweep file to its points, or to everything that is wrong with it.

Every combination is loaded before the first is run, so that one look shows all mistakes, each at the value of
the sweep file that causes it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, WithJsonSchema

from brokers.errors import InvalidInput
from scenarios.document import Document, read
from scenarios.loader import SHIPPED, load, locate, shipped
from scenarios.many import conditions, expect
from scenarios.many.sweep import REPEATS_MAX, Sweep, identity, label_of, points_of, value_key
from scenarios.measuring import lacking
from scenarios.problems import Path, Problem, ScenarioErrors, explain, got, path_text
from scenarios.schema import NAME, Name, Scenario
from topology.sections import Count, Section

POINTS_MAX = 100_000
_NOT_VARIED = {
    "seed": "say `seed` and `repeats` of the sweep: each repeat has a seed of its own",
    "name": "the points are named after their values",
    "expect": "say it as `expect` of the sweep",
}


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _no_repeats(values: list[Any]) -> list[Any]:
    seen: set[str] = set()
    for value in values:
        text = value_key(value)
        if text in seen:
            raise ValueError(f"a value stands here twice {got(value)}")
        seen.add(text)
    return values


Values = Annotated[list[Any], Field(min_length=1), AfterValidator(_no_repeats)]
Together = Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]
Expected = Annotated[str, AfterValidator(expect.checked)]
_LIST = BeforeValidator(_as_list)


class SweepModel(Section):
    """A brokerlab sweep."""

    name: Name = Field(default="sweep", description="part of the folder's name; default: the file's name")
    title: str = Field(default="", description="one line: what it shows")
    scenario: str = Field(description="a scenario file, from here, or the name of a shipped scenario")
    seed: Annotated[Count, Field(ge=0, lt=2**63)] | None = Field(
        default=None, description="from which the seeds of the repeats are derived; default: the scenario's"
    )
    repeats: Annotated[Count, Field(ge=1, le=REPEATS_MAX)] = Field(default=1, description="independent seeds")
    set: dict[str, Any] = Field(default={}, description="path: value, for all points")
    vary: dict[str, Values] = Field(default={}, description="path: values; each with every other")
    zip: Annotated[list[Together], _LIST, WithJsonSchema({"type": ["array", "object"]})] = Field(
        default=[], description="sections of path: values, whose lists go together entry by entry"
    )
    where: Annotated[list[str], _LIST] = Field(default=[], description="constraints on the combinations")
    expect: list[Expected] | None = Field(
        default=None, description="expectations of every point; default: those of the scenario"
    )


@dataclass(frozen=True)
class Axis:
    """What varies together, step by step."""

    paths: tuple[str, ...]
    steps: tuple[tuple[Any, ...], ...]
    places: tuple[Path, ...]  # of each path's list in the sweep file


def load_sweep(file: str | FilePath, overrides: Sequence[str] = (), *, trust: bool = False) -> Sweep:
    """Read a sweep file; ScenarioErrors holds all that is wrong with it and with its points.

    `trust` lets its scenarios name code from outside.
    """
    path = FilePath(file)
    if not path.is_file():
        if str(file) in shipped():
            raise InvalidInput(
                f"{file} is a scenario; to run it several times: brokerlab repeat {file} --times 5"
            )
        what = "is a folder; name the sweep file in it" if path.is_dir() else "does not exist"
        raise InvalidInput(f"{path} {what}")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    document = read(source, str(path), overrides)
    data = document.data
    if not isinstance(data, dict):
        if not document.problems:
            document.problem((), f"a sweep is a section of keys such as scenario and vary {got(data)}")
        raise ScenarioErrors(document.problems)
    if "name" not in data:
        data["name"] = path.stem if NAME.fullmatch(path.stem) else "sweep"
    if "scenario" not in data and {"topology", "services"} & set(data):
        raise InvalidInput(
            f"{path} is a scenario, not a sweep; a sweep names it (scenario: {path.name}) and says what to vary; "
            f"to run it several times: brokerlab repeat {path} --times 5"
        )
    model = _validated(document, data)
    if model is None:
        raise ScenarioErrors(document.problems)
    return _Reader(document, model, path.parent, trust).sweep()


def _validated(document: Document, data: dict[str, Any]) -> SweepModel | None:
    try:
        return SweepModel.model_validate(data)
    except ValidationError as error:
        for path, about_key, message in explain(error, data, SweepModel):
            document.problem(path, message, about_key)
    except RecursionError:
        document.problem((), "nested too deeply")
    return None


class _Reader:
    """From a sweep file whose form is right to its points."""

    def __init__(self, document: Document, model: SweepModel, folder: FilePath, trust: bool) -> None:
        self.document = document
        self.trust = trust
        self.model = model
        self.folder = folder
        self.problems: list[Problem] = []  # of the scenario itself
        self.raised: dict[Problem, list[Mapping[str, Any]]] = {}  # by which combinations

    def sweep(self) -> Sweep:
        file = self.scenario_file()
        axes = self.axes()
        paths = tuple(path for axis in axes for path in axis.paths)
        self.check_paths(axes)
        if file is None or self.document.problems:
            self.give_up()
        assert file is not None
        wanted = self.constraints(paths)
        unconstrained = bool(self.document.problems)  # what could not be read leaves nothing out
        combinations, left_out = self.combinations(axes, wanted)
        loaded = [(values, self.scenario(file, values)) for values in combinations]
        self.place_problems(axes, len(combinations), unconstrained)
        self.check_expectations([scenario for _, scenario in loaded if scenario is not None])
        self.give_up()
        scenarios = [(values, scenario) for values, scenario in loaded if scenario is not None]
        first = scenarios[0][1]
        base_seed = first.model.seed if self.model.seed is None else self.model.seed
        expected = first.model.expect if self.model.expect is None else self.model.expect
        return Sweep(
            name=self.model.name,
            title=self.model.title,
            scenario=str(file),
            base_seed=base_seed,
            repeats=self.model.repeats,
            paths=paths,
            expect=tuple(expected),
            points=tuple(points_of(first.name, scenarios, self.model.repeats, base_seed)),
            left_out=left_out,
            # Not of the values: a sweep that grows finds its finished points again.
            id=identity([read(file.read_bytes(), "").data, self.model.set], base_seed, paths),
        )

    def give_up(self) -> None:
        problems = [*self.document.problems, *self.problems]
        if problems:
            raise ScenarioErrors(problems)

    def scenario_file(self) -> FilePath | None:
        name = self.model.scenario
        beside = self.folder / name
        if beside.is_file():
            return beside
        if name in shipped():
            return SHIPPED / f"{name}.yaml"
        try:
            locate(beside if FilePath(name).suffix or "/" in name else name)
        except InvalidInput as error:
            self.document.problem(("scenario",), str(error))
        return None

    def axes(self) -> list[Axis]:
        found = [
            Axis((path,), tuple((value,) for value in values), (("vary", path),))
            for path, values in self.model.vary.items()
        ]
        for i, group in enumerate(self.model.zip):
            at: Path = ("zip", i) if isinstance(self.document.data["zip"], list) else ("zip",)
            lengths = {path: len(values) for path, values in group.items()}
            if len(set(lengths.values())) > 1:
                shown = ", ".join(f"{length} of {path}" for path, length in lengths.items())
                self.document.problem(at, f"lists that go together have the same length (got {shown})")
                continue
            steps = tuple(zip(*group.values(), strict=True))
            found.append(Axis(tuple(group), steps, tuple((*at, path) for path in group)))
        return found

    def check_paths(self, axes: Sequence[Axis]) -> None:
        places: list[tuple[str, Path]] = [(path, ("set", path)) for path in self.model.set]
        places += [(path, place) for axis in axes for path, place in zip(axis.paths, axis.places)]
        for i, (path, place) in enumerate(places):
            if path in _NOT_VARIED:
                self.document.problem(place, f"cannot be varied; {_NOT_VARIED[path]}", about_key=True)
            for other, _ in places[:i]:
                if _within(path, other) or _within(other, path):
                    what = "is set twice" if path == other else f"overlaps with {other}, which is set too"
                    self.document.problem(place, what, about_key=True)

    def constraints(self, paths: Sequence[str]) -> list[conditions.Condition]:
        found = []
        for i, text in enumerate(self.model.where):
            try:
                found.append(conditions.parse(text, paths))
            except InvalidInput as error:
                self.document.problem(self.at_entry("where", i), str(error))
        return found

    def at_entry(self, key: str, i: int) -> Path:
        return (key, i) if isinstance(self.document.data[key], list) else (key,)

    def combinations(
        self, axes: Sequence[Axis], wanted: Sequence[conditions.Condition]
    ) -> tuple[list[dict[str, Any]], int]:
        """The varied values of every wanted point, and how many are not wanted."""
        kept, left_out = [], 0
        for steps in itertools.product(*(axis.steps for axis in axes)):
            values = {path: value for axis, step in zip(axes, steps) for path, value in zip(axis.paths, step)}
            for i, condition in enumerate(wanted):
                try:
                    if not condition.holds(values):
                        left_out += 1
                        break
                except InvalidInput as error:
                    self.document.problem(self.at_entry("where", i), str(error))
                    self.give_up()
            else:
                kept.append(values)
            if len(kept) * self.model.repeats > POINTS_MAX or left_out > 10 * POINTS_MAX:
                self.document.problem(
                    (), f"stands for more than {POINTS_MAX:,} points; vary less, or repeat less"
                )
                self.give_up()
        if not kept:
            self.document.problem(("where",), "leaves no point: no combination fulfils all constraints")
            self.give_up()
        return kept, left_out

    def scenario(self, file: FilePath, values: Mapping[str, Any]) -> Scenario | None:
        """The scenario of one combination; None, with the mistakes kept, if it is wrong."""
        everything = {**self.model.set, **values}
        assignments = [
            f"{path}={json.dumps(value, ensure_ascii=False)}" for path, value in everything.items()
        ]
        try:
            return load(file, assignments, trust=self.trust)
        except ScenarioErrors as errors:
            for problem in errors.problems:
                self.raised.setdefault(problem, []).append(values)
        return None

    def place_problems(self, axes: Sequence[Axis], combinations: int, unconstrained: bool) -> None:
        """Put what is wrong with the points where it stands: in the scenario, or in the sweep file."""
        places = {path: place for axis in axes for path, place in zip(axis.paths, axis.places)}
        lists = {path: [step[k] for step in axis.steps] for axis in axes for k, path in enumerate(axis.paths)}
        for problem, raised_by in self.raised.items():
            path = problem.where.removeprefix("--set ")
            inner = path_text(problem.path)
            message = problem.message if inner in ("", path) else f"{inner}: {problem.message}"
            if path == problem.where or path not in {*places, *self.model.set}:
                if unconstrained and len(raised_by) < combinations:
                    continue  # perhaps only where nothing is wanted
                some = "" if len(raised_by) == combinations else f" (with {label_of(raised_by[0])})"
                place = (problem.where, problem.line, problem.column, problem.path)
                self.problems.append(Problem(*place, problem.message + some))
            elif path not in places:
                self.document.problem(("set", path), message)
            else:
                wrong = {value_key(values[path]) for values in raised_by}
                steps = [i for i, value in enumerate(lists[path]) if value_key(value) in wrong]
                if len(wrong) > 1 and len(steps) == len(lists[path]):  # not the values: the path
                    self.document.problem(places[path], message, about_key=True)
                    continue
                for step in steps:
                    self.document.problem((*places[path], step), message)

    def check_expectations(self, scenarios: Sequence[Scenario]) -> None:
        if self.model.expect is None:
            return
        for scenario in scenarios:
            declared, level = scenario.further_metrics(), scenario.model.trace.level
            lacks = lacking(scenario.services)
            for i, message in expect.misfits(self.model.expect, declared, level, scenario.own_tables(), lacking=lacks):
                self.document.problem(("expect", i), message)


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))
