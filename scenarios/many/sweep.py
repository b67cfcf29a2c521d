"""The points of a sweep: values, repeats, seeds, names.

Rules:
- Common random numbers: the seed of a repeat depends on the base seed and the number of the repeat, never on
  what is varied. Points that differ in protocol, index or options only have the same overlay and workload, so
  that their differences are the protocol's. Repeat 0 has the base seed itself: it is what `run` would do.
- The id of a sweep names its scenario, seed and varied paths, not the values nor the number of repeats: a sweep
  that grows finds its finished points again.
- A point is named after its values, and so is its run folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from brokers.errors import InvalidInput
from scenarios.loader import load
from scenarios.schema import Scenario

REPEATS_MAX = 10_000
_SLUG_CHARACTERS_MAX = 44


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    slug: str  # its name, and that of its run folder; unique in the sweep
    values: Mapping[str, Any]  # path -> value, as in the sweep file
    repeat: int
    seed: int
    scenario: Scenario = field(repr=False)  # with the values, before name and seed

    def data(self) -> dict[str, Any]:
        """The scenario of this point as plain data."""
        return {**self.scenario.resolved(), "name": self.slug, "seed": self.seed}

    @property
    def label(self) -> str:
        """What is varied, for people."""
        return label_of(self.values)

    def __str__(self) -> str:
        return f"{self.label} repeat {self.repeat}".strip()


@dataclass(frozen=True)
class Sweep:
    """A valid sweep with all its points."""

    name: str
    title: str
    scenario: str  # where the scenario stands
    base_seed: int
    repeats: int
    paths: tuple[str, ...]
    expect: tuple[str, ...]
    points: tuple[Point, ...]
    left_out: int  # combinations that `where` does not want
    id: str

    def as_data(self) -> dict[str, Any]:
        """Plain data, for sweep.json."""
        return {
            "name": self.name,
            "title": self.title,
            "id": self.id,
            "scenario": self.scenario,
            "base_seed": self.base_seed,
            "repeats": self.repeats,
            "paths": list(self.paths),
            "expect": list(self.expect),
        }


def seed_of(base_seed: int, repeat: int) -> int:
    """The seed of one repeat: the base seed itself, then seeds derived from it."""
    if repeat == 0:
        return base_seed
    from topology.draws import stream

    return int(stream(base_seed, repeat, "repeat")) >> 1  # a seed has 63 bits


def repeated(
    scenario: str | FilePath, times: int, overrides: Sequence[str] = (), *, trust: bool = False
) -> Sweep:
    """A sweep in which nothing varies but the seed; `trust` lets the scenario name code from outside."""
    if not 1 <= times <= REPEATS_MAX:
        raise InvalidInput(f"--times: a scenario is repeated 1 to {REPEATS_MAX:,} times (got {times})")
    loaded = load(scenario, overrides, trust=trust)
    base = loaded.model.seed
    name = loaded.name[:_SLUG_CHARACTERS_MAX].rstrip("-_")
    return Sweep(
        name=loaded.name,
        title=loaded.model.title,
        scenario=loaded.where,
        base_seed=base,
        repeats=times,
        paths=(),
        expect=tuple(loaded.model.expect),
        points=tuple(points_of(name, [({}, loaded)], times, base)),
        left_out=0,
        id=identity(loaded.resolved(), base, ()),
    )


def points_of(
    name: str, combinations: Sequence[tuple[Mapping[str, Any], Scenario]], repeats: int, base_seed: int
) -> Iterator[Point]:
    """Every combination with every seed, the repeats outside: an interrupted sweep has whole repeats."""
    slugs = _slugs(name, [values for values, _ in combinations])
    for repeat in range(repeats):
        seed = seed_of(base_seed, repeat)
        for slug, (values, scenario) in zip(slugs, combinations):
            yield Point(f"{slug}-r{repeat}", values, repeat, seed, scenario)


def _slugs(name: str, combinations: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each combination, from its values where they fit into one, else with a hash of them."""
    found: list[str] = []
    taken: set[str] = set()
    for values in combinations:
        words = [
            re.sub(r"[^a-z0-9]+", "-", value_text(value).lower()).strip("-") for value in values.values()
        ]
        slug = "-".join(word for word in words if word) or name
        plain = all(isinstance(value, str | int | float | bool | None) for value in values.values())
        if len(slug) > _SLUG_CHARACTERS_MAX or slug in taken or not plain:
            slug = f"{slug[:_SLUG_CHARACTERS_MAX].rstrip('-')}-{_hash(values)[:6]}"
        taken.add(slug)
        found.append(slug)
    return found


def identity(scenario: Any, base_seed: int, paths: Sequence[str]) -> str:
    """Ten hex digits for what a sweep is about."""
    return _hash([scenario, base_seed, sorted(paths)])[:10]


def _hash(data: Any) -> str:
    return hashlib.sha256(value_key(data).encode("utf-8", "surrogatepass")).hexdigest()


def value_key(value: Any) -> str:
    """A text that is equal for equal plain data."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def value_text(value: Any) -> str:
    """A varied value as people read it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def label_of(values: Mapping[str, Any]) -> str:
    """`protocol=flooding nodes=32`: paths by their last parts where those differ."""
    return " ".join(
        f"{name}={value_text(value)}" for name, value in zip(short_names(list(values)), values.values())
    )


def short_names(paths: Sequence[str]) -> list[str]:
    """Of each path as few last parts as tell it from the others."""
    parts = [path.split(".") for path in paths]
    shown = []
    for i, mine in enumerate(parts):
        others = [other for j, other in enumerate(parts) if j != i]
        count = next(
            (n for n in range(1, len(mine)) if all(other[-n:] != mine[-n:] for other in others)), len(mine)
        )
        shown.append(".".join(mine[-count:]))
    return shown
