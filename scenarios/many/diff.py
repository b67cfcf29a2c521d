"""Where two runs part: what was asked for, what was measured, and the first event that went another way.

Runs are equal if their digests are. With hops on both sides (trace level full) the first diverging event is told;
otherwise the digests per second say in which simulated second they parted, and what tables both have, in which rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios.many import metrics
from scenarios.many.compare import flat_scenario
from scenarios.many.sweep import value_key, value_text

if TYPE_CHECKING:
    from brokers.engine.runfolder import RunFolder

_SAME = object()
# Of the manifest, beside the scenario; what is left out differs from run to run.
_FACTS = ("seed", "trace_level", "schema_version", "versions", "git")
_EXECUTION = ("engine", "actors", "cut_links", "recovered")


@dataclass(frozen=True)
class RunDifference:
    """What differs between two runs: name -> (first, second)."""

    runs: tuple[str, str]
    digests: tuple[str, str]
    model: Mapping[str, tuple[Any, Any]]  # what may change the trace
    circumstances: Mapping[str, tuple[Any, Any]]  # what may not
    measured: Mapping[str, tuple[Any, Any]]
    parted: str | None  # a sentence

    @property
    def equal(self) -> bool:
        return self.digests[0] == self.digests[1]

    def as_data(self) -> dict[str, Any]:
        """Plain data, for --json."""
        return {
            "runs": list(self.runs),
            "equal": self.equal,
            "digests": list(self.digests),
            "model": {name: list(sides) for name, sides in self.model.items()},
            "circumstances": {name: list(sides) for name, sides in self.circumstances.items()},
            "metrics": {name: list(sides) for name, sides in self.measured.items()},
            "first_difference": self.parted,
        }


def diff(first: str | Path, second: str | Path) -> RunDifference:
    """Compare two finished runs, all of whose files are what they wrote: equal is said of these, not of two digests."""
    from brokers.engine.runfolder import open_run

    a, b = open_run(first), open_run(second)
    for run in (a, b):
        run.check(run.tables())
    model_a, model_b = (flat_scenario(run.manifest["scenario"], indifferent=False) for run in (a, b))
    all_a, all_b = (flat_scenario(run.manifest["scenario"]) for run in (a, b))
    model = _differing(model_a, model_b)
    if a.manifest["seed"] != b.manifest["seed"]:
        model = {"seed": (a.manifest["seed"], b.manifest["seed"]), **model}
    asked = {name: sides for name, sides in _differing(all_a, all_b).items() if name not in model}
    executed = _differing(_execution(a), _execution(b))
    measured = _differing(_measured(a), _measured(b))
    return RunDifference(
        (str(a.path), str(b.path)),
        (a.digest, b.digest),
        model,
        {**asked, **executed},
        measured,
        None if a.digest == b.digest else _parted(a, b),
    )


def _execution(run: RunFolder) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name in _FACTS[1:]:
        value = run.manifest.get(name)
        facts |= (
            {f"{name}.{key}": each for key, each in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
    engine = run.manifest["engine"]
    return {**facts, **{f"run.{name}": engine.get(name) for name in _EXECUTION}}


def _measured(run: RunFolder) -> dict[str, Any]:
    return {name: value for name, value in metrics.measured(run).items() if not name.startswith("run.")}


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*a, *b])
    return {
        name: (a.get(name), b.get(name)) for name in names if value_key(a.get(name)) != value_key(b.get(name))
    }


def _parted(a: RunFolder, b: RunFolder) -> str:
    """Where they parted, in a sentence."""
    from brokers.engine.runfolder import first_difference

    second = _first_other_second(a.manifest["digest_per_second"], b.manifest["digest_per_second"])
    entry_s, other_s = (run.manifest["engine"].get("digest_entry_s", 1) for run in (a, b))
    if {"hops"} <= set(a.tables()) & set(b.tables()):
        told = first_difference(a, b)
        if told is not None:
            return told
    when = (
        "they differ"
        if second is None or entry_s != other_s
        else f"they part in simulated second {second} ({second} s to {second + 1} s)"
        if entry_s == 1
        else f"they part between the simulated seconds {second * entry_s} and {(second + 1) * entry_s}"
    )
    told = first_difference(a, b)
    hint = "for the first diverging event run both with --set trace.level=full"
    return f"{when}; {told}; {hint}" if told else f"{when}; {hint}"


def _first_other_second(a: list[str], b: list[str]) -> int | None:
    for second, (left, right) in enumerate(zip(a, b)):
        if left != right:
            return second
    return min(len(a), len(b)) if len(a) != len(b) else None


def text(found: RunDifference, names: tuple[str, str]) -> str:
    """The difference for people."""
    first = f"equal: digest {found.digests[0]}"
    if not found.equal:
        first = f"different: digest {found.digests[0]} and {found.digests[1]}"
    lines = [first, f"  first   {names[0]}", f"  second  {names[1]}"]
    for title, differing in (
        ("model", found.model),
        ("what changes no result", found.circumstances),
        ("metrics", found.measured),
    ):
        if differing:
            lines += ["", title]
            width = max(map(len, differing))
            for name, (left, right) in differing.items():
                shown = [_shown(name, side, title == "metrics") for side in (left, right)]
                lines.append(f"  {name:{width}}  {shown[0]} | {shown[1]}")
    if found.parted:
        lines += ["", found.parted]
    return "\n".join(lines)


def _shown(name: str, value: Any, metric: bool) -> str:
    if metric:
        return metrics.number_text(name, value)
    return "-" if value is None else value_text(value)
