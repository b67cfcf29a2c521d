"""Metrics of several runs side by side, with Student-t intervals over repeats.

Runs that differ only in their seed are repeats of one variant. A variant is compared with the baseline, the first
one, through its difference in each metric:

    paired    over the seeds that both have. Equal seeds mean equal overlay, clients and workload where only the
              protocol differs, so that the luck of the draw cancels and the interval is narrow.
    welch     where fewer than two seeds are common: two independent means, their spreads may differ.

A difference is clear if its interval leaves out zero. Services are compared by kind: those of one name, or, where
names differ, the first of a kind with the first of that kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers import registry
from brokers.engine.manifest import read_bytes
from brokers.errors import InvalidInput, RunIncomplete
from scenarios.many import metrics
from scenarios.many.carry import DESCRIPTION, FINISHED
from scenarios.many.student import Estimate, difference, estimate
from scenarios.many.sweep import label_of, value_key

if TYPE_CHECKING:
    import pyarrow as pa

    from brokers.engine.runfolder import RunFolder

CONFIDENCE = 0.95
_RUN = re.compile(r"runs/[A-Za-z0-9][A-Za-z0-9.-]*")
# What changes no result, and so makes no variant.
_INDIFFERENT = ("name", "title", "seed", "engine", "trace", "expect")
_INDIFFERENT_IN_SERVICE = ("tables", "view")


@dataclass(frozen=True)
class Sample:
    """One run, as far as a comparison goes."""

    variant: Mapping[str, Any]  # what it varies: path -> value
    seed: int
    digest: str
    run: str
    kinds: Mapping[str, str]  # service -> kind
    values: Mapping[str, Any] = field(repr=False)
    further: metrics.Further = field(default_factory=dict)  # what kinds and scenarios add to what is measured


@dataclass(frozen=True)
class Difference:
    """A variant less the baseline."""

    estimate: Estimate
    how: str  # "paired" or "welch"


@dataclass(frozen=True)
class Row:
    """One metric over the variants; None where a variant has not measured it."""

    metric: str  # with unit, without service
    estimates: tuple[Estimate | None, ...]
    differences: tuple[Difference | None, ...]  # None for the baseline

    @property
    def same(self) -> bool:
        """Whether it is one and the same number everywhere."""
        there = [each for each in self.estimates if each is not None]
        return len(there) == len(self.estimates) and all(
            each.mean == there[0].mean and not each.half_width for each in there
        )


@dataclass(frozen=True)
class Section:
    """The metrics of the network, or of one service."""

    title: str
    kind: str | None
    services: tuple[str, ...]  # its name in each variant
    rows: tuple[Row, ...]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Variants side by side."""

    confidence: float
    labels: tuple[str, ...]
    seeds: tuple[tuple[int, ...], ...]
    runs: tuple[tuple[str, ...], ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    variants: tuple[Mapping[str, Any], ...] = ()  # what each varies: path -> value

    def as_data(self) -> dict[str, Any]:
        """Plain data, for --json."""
        variants = [
            {"label": label, "seeds": list(seeds), "runs": list(runs)}
            for label, seeds, runs in zip(self.labels, self.seeds, self.runs)
        ]
        sections = [
            {
                "section": section.title,
                "kind": section.kind,
                "services": list(section.services),
                "metrics": [_row_data(row) for row in section.rows],
            }
            for section in self.sections
        ]
        return {
            "confidence": self.confidence,
            "baseline": self.labels[0],
            "variants": variants,
            "sections": sections,
            "notes": list(self.notes),
        }

    def as_table(self) -> pa.Table:
        """A row for each metric and variant: section, metric, variant, mean, half_width, difference, clear."""
        import pyarrow as pa

        rows = [
            {
                "section": section.title, "metric": row.metric, "variant": label,
                "mean": None if each is None else each.mean,
                "half_width": None if each is None else each.half_width,
                "difference": None if change is None else change.estimate.mean,
                "clear": None if change is None else change.estimate.clear_of_zero,
            }
            for section in self.sections for row in section.rows
            for label, each, change in zip(self.labels, row.estimates, row.differences)
        ]  # fmt: skip
        texts, numbers = ("section", "metric", "variant"), ("mean", "half_width", "difference")
        types = [*((name, pa.string()) for name in texts), *((name, pa.float64()) for name in numbers)]
        return pa.Table.from_pylist(rows, pa.schema([*types, ("clear", pa.bool_())]))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.as_table().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return str(registry.load("analysis.frames.showing:comparison_html")(self))


def _row_data(row: Row) -> dict[str, Any]:
    def plain(estimate: Estimate | None) -> dict[str, Any] | None:
        return None if estimate is None else dict(estimate._asdict())

    differences = [
        None
        if each is None
        else {**each.estimate._asdict(), "how": each.how, "clear": each.estimate.clear_of_zero}
        for each in row.differences
    ]
    return {
        "metric": row.metric,
        "values": [plain(each) for each in row.estimates],
        "differences": differences,
    }


def samples_of(
    paths: Sequence[str | PathLike[str]], *, once: bool = True
) -> tuple[list[Sample], list[str]]:
    """The runs behind run folders and sweep folders, and what has to be said about them.

    once : leave out a run of the same model and seed as one before
    """
    from brokers.engine.runfolder import open_run

    samples: list[Sample] = []
    notes: list[str] = []
    alone: list[RunFolder] = []
    for path in paths:
        description = Path(path) / DESCRIPTION
        if not description.is_file():
            alone.append(open_run(path))
            continue
        points = points_of(description)
        finished = [point for point in points if point["status"] == FINISHED]
        if not finished:
            raise RunIncomplete(f"{path}: none of the {len(points)} points of this sweep has finished")
        if len(finished) < len(points):
            notes.append(f"{path}: {len(points) - len(finished)} of {len(points)} points have not finished")
        varied = [
            name for name in finished[0]["values"] if _differ(point["values"][name] for point in finished)
        ]
        for point in finished:
            values = {name: point["values"][name] for name in varied}
            samples.append(_sample(open_run(Path(path) / point["run"]), values))
    samples += [_sample(run, variant) for run, variant in zip(alone, _variants(alone))]
    if not once:
        return samples, notes
    unique: dict[tuple[str, int], Sample] = {}
    for sample in samples:
        key = (value_key(dict(sample.variant)), sample.seed)
        if unique.setdefault(key, sample) is not sample:
            notes.append(f"{sample.run} repeats {unique[key].run}: same model, same seed; counted once")
    return list(unique.values()), notes


def points_of(description: Path) -> list[dict[str, Any]]:
    """The points that a sweep folder lists; what is no such list is refused as a whole."""
    try:
        points = json.loads(read_bytes(description))["points"]
        json.dumps(points, ensure_ascii=False).encode()  # half a surrogate pair could not be printed
        finished = [point for point in points if point["status"] == FINISHED]
        paths = {tuple(sorted(dict(point["values"].items()))) for point in finished}
        if isinstance(points, list) and len(paths) <= 1 and all(_RUN.fullmatch(point["run"]) for point in finished):
            return points
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise InvalidInput(f"{description} cannot be read; run the sweep again")


def _sample(run: RunFolder, variant: Mapping[str, Any]) -> Sample:
    return Sample(
        variant, run.manifest["seed"], run.digest, str(run.path), metrics.kinds_of(run), metrics.measured(run),
        metrics.further_of(run),
    )  # fmt: skip


def _variants(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """What tells the scenarios of runs from one another: path -> value, of the paths that differ."""
    flat = [flat_scenario(run.manifest["scenario"], indifferent=False) for run in runs]
    paths = list(dict.fromkeys(path for each in flat for path in each))
    differing = [path for path in paths if _differ(each.get(path) for each in flat)]
    return [{path: each[path] for path in differing if path in each} for each in flat]


def _differ(values: Iterable[Any]) -> bool:
    return len({value_key(value) for value in values}) > 1


def flat_scenario(scenario: Mapping[str, Any], indifferent: bool = True) -> dict[str, Any]:
    """A resolved scenario as path -> value; with or without what changes no result."""
    kept = {key: each for key, each in scenario.items() if indifferent or key not in _INDIFFERENT}
    if not indifferent:
        kept["services"] = [
            {key: each for key, each in service.items() if key not in _INDIFFERENT_IN_SERVICE}
            for service in scenario["services"]
        ]
    found: dict[str, Any] = {}
    _flatten("", kept, found)
    return found


def _flatten(path: str, value: Any, found: dict[str, Any]) -> None:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            _flatten(f"{path}.{key}" if path else str(key), each, found)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        names = [_name_of(each) for each in value]
        for i, each in enumerate(value):
            # By name, as --set takes it, so that another order of services is no difference.
            step = f".{names[i]}" if names.count(names[i]) == 1 and names[i] else f"[{i}]"
            _flatten(f"{path}{step}", each, found)
    else:
        found[path] = value


def _name_of(entry: Any) -> str | None:
    return (entry.get("name") or entry.get("source")) if isinstance(entry, Mapping) else None


def compare(
    paths: Sequence[str | PathLike[str]], confidence: float = CONFIDENCE, baseline: str | None = None
) -> Comparison:
    """Compare run folders, or the points of sweep folders; `baseline` is the label of a variant, or part of one."""
    if not 0.5 <= confidence < 1:
        raise InvalidInput(f"--confidence: from 0.5 to below 1, as in 0.95 (got {confidence:g})")
    samples, notes = samples_of(paths)
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(label_of(sample.variant) or Path(sample.run).parent.name, []).append(sample)
    if len(groups) == 1:
        groups = {"all runs" if len(samples) > 1 else Path(samples[0].run).name: samples}
    ordered = list(groups)
    if baseline is not None:
        first = _baseline(baseline, ordered)
        ordered = [first, *(label for label in ordered if label != first)]
    grouped = [sorted(groups[label], key=lambda sample: sample.seed) for label in ordered]
    if len(groups) > 1 and all(len(each) == 1 for each in grouped):
        notes.append("one run each: without repeats there is no interval; see brokerlab repeat and sweep")
    return Comparison(
        confidence,
        tuple(ordered),
        tuple(tuple(sample.seed for sample in each) for each in grouped),
        tuple(tuple(sample.run for sample in each) for each in grouped),
        tuple(_sections(grouped, confidence)),
        tuple(notes),
        tuple(each[0].variant for each in grouped),
    )


def _baseline(wanted: str, labels: Sequence[str]) -> str:
    fitting = [label for label in labels if label == wanted] or [label for label in labels if wanted in label]
    if len(fitting) != 1:
        what = "no variant is" if not fitting else f"{len(fitting)} variants are"
        raise InvalidInput(f"--baseline: {what} called {wanted!r}; there are: {'; '.join(labels)}")
    return fitting[0]


def _sections(groups: Sequence[Sequence[Sample]], confidence: float) -> list[Section]:
    network = [[f"network.{name}"] * len(groups) for name in metrics.NETWORK]
    sections = [_section("network", None, ("",) * len(groups), network, groups, confidence)]
    for kind, services in _matched([group[0].kinds for group in groups]):
        further = {service: group[0].further.get(service, ()) for group, service in zip(groups, services)}
        names = [name for name in metrics.parts(further) if metrics.sort_of(name) != "verdict"]
        keys = [[f"{service}.{name}" for service in services] for name in names]
        shown = " / ".join(dict.fromkeys(services))
        sections.append(_section(f"{kind}: {shown}", kind, tuple(services), keys, groups, confidence))
    return [section for section in sections if section.rows]


def _matched(kinds: Sequence[Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    """(kind, the service in each variant) of services that can be compared."""
    if all(list(each.items()) == list(kinds[0].items()) for each in kinds):
        return [(kind, [name] * len(kinds)) for name, kind in kinds[0].items()]
    found = []
    for kind in dict.fromkeys(kind for each in kinds for kind in each.values()):
        of_kind = [[name for name, its in each.items() if its == kind] for each in kinds]
        found += [(kind, list(together)) for together in zip(*of_kind)]
    return found


def _section(
    title: str,
    kind: str | None,
    services: tuple[str, ...],
    keys: Sequence[Sequence[str]],
    groups: Sequence[Sequence[Sample]],
    confidence: float,
) -> Section:
    rows = []
    for key in keys:
        by_seed = [
            {s.seed: float(s.values[name]) for s in group if s.values.get(name) is not None}
            for name, group in zip(key, groups)
        ]
        if not any(by_seed):
            continue
        prefix = "network." if kind is None else f"{services[0]}."
        estimates = tuple(estimate(list(each.values()), confidence) if each else None for each in by_seed)
        differences = (None, *(_difference(each, by_seed[0], confidence) for each in by_seed[1:]))
        rows.append(Row(key[0].removeprefix(prefix), estimates, differences))
    return Section(title, kind, services, tuple(rows))


def _difference(
    values: Mapping[int, float], baseline: Mapping[int, float], confidence: float
) -> Difference | None:
    if not values or not baseline:
        return None
    common = [seed for seed in values if seed in baseline]
    if len(common) >= 2 or (len(values) == len(baseline) == len(common)):
        return Difference(estimate([values[seed] - baseline[seed] for seed in common], confidence), "paired")
    return Difference(difference(list(values.values()), list(baseline.values()), confidence), "welch")


def text(comparison: Comparison) -> str:
    """The comparison for people: a block per metric, a line per variant."""
    lines = []
    several = len(comparison.labels) > 1
    for section in comparison.sections:
        lines.append(section.title)
        same = [row for row in section.rows if row.same and (several or not row.estimates[0].mean)]  # type: ignore[union-attr]
        cells = [cell for row in section.rows if row not in same for cell in _cells(row, comparison.labels)]
        widths = [max((len(cell[i]) for cell in cells), default=0) for i in range(5)]
        for cell in cells:
            lead, measured, *rest = (f"{text:{width}}" for text, width in zip(cell[1:], widths[1:]))
            lines.append(f"  {cell[0]:{widths[0]}}  {lead}  {measured}  {'  '.join(rest)}".rstrip())
        if same:
            shown = ", ".join(f"{metrics.bare(row.metric)} {_mean_text(row)}" for row in same)
            lines.append(f"  {'the same in all: ' if several else ''}{shown}")
        lines.append("")
    counts = sorted({len(seeds) for seeds in comparison.seeds})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    about = f"mean ± half the width of the {comparison.confidence * 100:.4g} % Student-t interval over {seeds} seeds"
    if counts[-1] == 1:
        about = "one seed each"
    if several:
        hows = {
            d.how for s in comparison.sections for row in s.rows for d in row.differences if d is not None
        }
        paired = (
            "over the seeds in common" if hows == {"paired"} else "paired over common seeds, else by Welch"
        )
        about += f"; differences from {comparison.labels[0]}, {paired}"
        about += "; * where the interval leaves out zero" if counts[-1] > 1 else ""
    lines.append(about)
    return "\n".join([*lines, *(f"note: {note}" for note in comparison.notes)])


def _mean_text(row: Row) -> str:
    assert row.estimates[0] is not None
    return metrics.number_text(row.metric, row.estimates[0].mean)


def _cells(row: Row, labels: Sequence[str]) -> list[tuple[str, str, str, str, str]]:
    """(metric, variant, mean ± half width, difference, mark) of each variant."""
    found = []
    base = row.estimates[0]
    for i, (label, each, change) in enumerate(zip(labels, row.estimates, row.differences)):
        mean = "nothing measured" if each is None else _plus_minus(row.metric, each)
        shown = clear = ""
        if change is not None:
            shown = _plus_minus(row.metric, change.estimate, signed=True)
            if base is not None and base.mean:
                shown += f" ({change.estimate.mean / base.mean * 100:+.3g} %)"
            clear = "*" if change.estimate.clear_of_zero else ""
        found.append((metrics.bare(row.metric) if i == 0 else "", label, mean, shown, clear))
    return found


def _plus_minus(metric: str, each: Estimate, signed: bool = False) -> str:
    text = metrics.number_text(metric, each.mean)
    number, _, unit = text.partition(" ")
    if signed and each.mean > 0:
        number = f"+{number}"
    if each.half_width is None:
        return f"{number} {unit}".rstrip()
    width = metrics.number_text(metric, each.half_width).partition(" ")[0]
    return f"{number} ± {width} {unit}".rstrip()
