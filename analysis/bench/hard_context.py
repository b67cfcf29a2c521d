"""The group `hard`, context filters: inputs that are made against the index, beside the scan of the same process.

Rules:
- `CellFilter` as it comes and `NoIndex` get the same profiles, updates and messages, in turns, a stretch each.
- single: one message and one update per call. batch: the updates between two messages in one call, and all messages
  in one call where nothing is updated.
- A case goes through its warm-up first: what a default learns of its load, it has learned there.
- Seconds are CPU seconds of the one thread that works. What an index takes is compared as a ratio only.
- Values that drift are also compared with an index that is built of the profiles as they are afterwards; and no
  message of the drift takes longer than a pause that is allowed, beyond what a message of the scan takes (but for one
  in a hundred: other processes leave their marks in CPU seconds too).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.bench.rows import Row, row
from brokers.indexes.context.cells import CellFilter
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.filter import Filter, NoIndex
from brokers.indexes.context.table import GREATER_EQUAL, WITHIN, ProfileTable
from brokers.indexes.context.warm import warm

NAMES = ("a", "b", "c")
SCHEMA = Schema(dict.fromkeys(NAMES, "number"), dict.fromkeys(NAMES, "number"))
RATIO_MOST = 1.15
FRESH_MOST = 1.5
PAUSE_MOST_MS = 1.0
SCAN_EVERY = 5  # messages of a drift that the scan answers too

Floats = NDArray[np.float64]
Updates = tuple[NDArray[np.int64], NDArray[np.int64], Floats]
Step = tuple[Updates, Floats]  # updates, then messages float64[n, 3]
Ask = Callable[[np.random.Generator, int], Step]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    profiles: tuple[int, ...] = (20_000, 1_000_000)
    turns: int = 7
    steps: int = 40  # in a turn of 20,000 profiles; a million gets a fifth
    warm_steps: int = 400  # likewise


@dataclass(frozen=True)
class Case:
    """Profiles, and what comes in: a step is some updates and the messages after them."""

    name: str
    profiles: Callable[[int], ProfileTable]
    step: Callable[[int], Ask]  # of the number of profiles
    single: bool = True


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = sizes or Sizes()
    warm()
    for count in sizes.profiles:
        for case in CASES:
            yield from measured(case, count, sizes)
        yield from drifted(count, sizes)


def measured(case: Case, count: int, sizes: Sizes) -> Iterator[Row]:
    """One case, in batches and singly."""
    less = 1 if count <= 100_000 else 5
    filters = {"cells": built(CellFilter(SCHEMA, NAMES), case, count), "scan": built(NoIndex(SCHEMA), case, count)}
    ask, draws = case.step(count), np.random.Generator(np.random.PCG64(3))
    for _ in range(sizes.warm_steps // less):
        step = ask(draws, count)
        for filter_ in filters.values():
            play(filter_, [step], False)
    for single in (False, True) if case.single else (False,):
        taken: dict[str, list[float]] = {name: [] for name in filters}
        for _ in range(sizes.turns):
            part = [ask(draws, count) for _ in range(sizes.steps // less)]
            for name, filter_ in filters.items():
                taken[name].append(play(filter_, part, single) / len(part))
        cells, scan = (statistics.median(taken[name]) * 1e6 for name in ("cells", "scan"))
        yield row(f"{case.name}, {count:,}, {'single' if single else 'batch'}", cells, "µs", baseline=scan,
                  ratio_most=RATIO_MOST, against="the scan")


def drifted(count: int, sizes: Sizes) -> Iterator[Row]:
    """Values that move on by one and a half times their range, and further; messages are where the values are now."""
    for pace, share in (("slow", 5_000), ("steady", 500), ("fast", 20)):
        updates = max(20, count // share)
        drift, case = Drift(count, updates), Case("", own_values, still)
        filters = {"cells": built(CellFilter(SCHEMA, NAMES), case, count), "scan": built(NoIndex(SCHEMA), case, count)}
        updating, asking = went_on(filters, drift, 1.5)
        title = f"a {pace} drift, {count:,}"
        yield row(f"{title}: an update of all and a message", middle(updating["cells"], asking["cells"]), "µs",
                  baseline=middle(updating["scan"], asking["scan"]), ratio_most=RATIO_MOST, against="the scan")
        yield row(f"{title}: the longest message, but for one in a hundred, beyond the scan's",
                  max(0.0, late(asking["cells"]) - late(asking["scan"])) / 1e3, "ms", most=PAUSE_MOST_MS)
        fresh = filters["fresh"] = CellFilter(SCHEMA, NAMES)
        fresh.update_many(*drift.contexts())
        fresh.insert_table(np.arange(count), own_values(count))
        asking = went_on(filters, drift, drift.turned + sizes.turns * 5 * drift.turned_per_step)[1]
        for name, ratio in (("scan", RATIO_MOST), ("fresh", FRESH_MOST)):
            yield row(f"{title}: a message then, beside the {name} index" if name == "fresh" else
                      f"{title}: a message then", middle(asking["cells"]), "µs", baseline=middle(asking[name]),
                      ratio_most=ratio, against=f"the {name} one" if name == "fresh" else "the scan")


def went_on(
    filters: dict[str, Filter], drift: Drift, until: float
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Steps of a drift: the microseconds of each one's updates and message, by filter."""
    updating: dict[str, list[float]] = {key: [] for key in filters}
    asking: dict[str, list[float]] = {key: [] for key in filters}
    while drift.turned < until:
        updates, messages = drift.step()
        for key, filter_ in filters.items():
            begin = time.thread_time()
            filter_.update_many(*updates)
            done = time.thread_time()
            updating[key].append((done - begin) * 1e6)
            if key != "scan" or drift.at // drift.updates % SCAN_EVERY == 0:  # a scan learns nothing of messages
                filter_.handle_many(messages)
                asking[key].append((time.thread_time() - done) * 1e6)
    return updating, asking


def middle(*columns: list[float]) -> float:
    """The medians together."""
    return sum(map(statistics.median, columns))


def late(values: list[float]) -> float:
    """What one in a hundred exceeds."""
    return sorted(values)[-1 - len(values) // 100]


def built(filter_: Filter, case: Case, count: int) -> Filter:
    """The filter with the profiles, every context value known."""
    filter_.update_many(*known(count))
    filter_.insert_table(np.arange(count), case.profiles(count))
    return filter_


def play(filter_: Filter, part: list[Step], single: bool) -> float:
    """The seconds that these steps take."""
    begin = time.thread_time()
    for (contexts, attributes, values), messages in part:
        if single:
            for context, attribute, value in zip(contexts.tolist(), attributes.tolist(), values.tolist()):
                filter_.update_context(context, NAMES[attribute], value)
            for message in messages.tolist():
                filter_.handle_message(dict(zip(NAMES, message)))
        else:
            if len(values):
                filter_.update_many(contexts, attributes, values)
            filter_.handle_many(messages)
    return time.thread_time() - begin


# ---- profiles --------------------------------------------------------------------------------------------


def table(constant: Floats, epsilon: float, context: NDArray[np.int64], operator: int = WITHIN) -> ProfileTable:
    """A profile per row of constants, an atom per column; `context` is -1 where the constant counts."""
    count, atoms = constant.shape
    attribute = np.tile(np.arange(atoms, dtype=np.int16), count)
    bound = context.ravel() >= 0
    return ProfileTable(
        np.arange(count + 1), np.arange(count + 1) * atoms, attribute, np.full(count * atoms, operator, np.int8),
        context.ravel(), np.where(bound, attribute, -1).astype(np.int16), constant.ravel(),
        np.full(count * atoms, epsilon),
    )


def centres(count: int, atoms: int) -> Floats:
    return np.random.Generator(np.random.PCG64(5)).random((count, atoms))


def bound_to(count: int, atoms: int, contexts: int) -> ProfileTable:
    """`a` is asked for around a value of so many contexts, the rest around constants."""
    context = np.full((count, atoms), -1)
    context[:, 0] = np.arange(count) % contexts
    return table(centres(count, atoms), 0.025, context)


def own_values(count: int) -> ProfileTable:
    return bound_to(count, 2, count)


def unconstrained(count: int) -> ProfileTable:
    """Half-open intervals that hold for nearly all messages."""
    return table(centres(count, 3) * 0.05, 0.0, np.full((count, 3), -1), GREATER_EQUAL)


def alike(count: int) -> ProfileTable:
    return table(np.full((count, 3), 0.5), 0.025, np.full((count, 3), -1))


def wide(count: int) -> ProfileTable:
    """Every profile leaves a fifth of each attribute's values out."""
    return table(centres(count, 3), 0.4, np.full((count, 3), -1))


def known(count: int) -> Updates:
    contexts = np.arange(count)
    return contexts, np.zeros(count, np.int64), centres(count, 1).ravel()


# ---- what comes in ---------------------------------------------------------------------------------------


def jumping(updates: Callable[[int], int], contexts: Callable[[int], int], at: tuple[float, float] = (0, 1)) -> Ask:
    """So many updates to anywhere, then a message from anywhere between."""

    def ask(draws: np.random.Generator, count: int) -> Step:
        n = updates(count)
        changed = draws.integers(0, contexts(count), n), np.zeros(n, np.int64), draws.random(n)
        return changed, draws.uniform(*at, (1, len(NAMES)))

    return ask


def still(count: int, at: tuple[float, float] = (0, 1)) -> Ask:
    return jumping(lambda n: 0, lambda n: n, at)


class Drift:
    """Values that move upwards in turns, half of their range at a time; messages are where the values are now."""

    def __init__(self, count: int, updates: int) -> None:
        self.values = known(count)[2]
        self.updates, self.at = updates, 0
        self.draws = np.random.Generator(np.random.PCG64(7))

    @property
    def turned(self) -> float:
        """By how much the values have moved on the whole."""
        return self.at / len(self.values) * 0.5

    @property
    def turned_per_step(self) -> float:
        return self.updates / len(self.values) * 0.5

    def step(self) -> Step:
        places = np.arange(self.at, self.at + self.updates) % len(self.values)
        self.at += self.updates
        self.values[places] += 0.5
        asked = self.draws.random((1, len(NAMES)))
        asked[:, 0] += self.turned
        return (places, np.zeros(self.updates, np.int64), self.values[places]), asked

    def contexts(self) -> Updates:
        return np.arange(len(self.values)), np.zeros(len(self.values), np.int64), self.values.copy()


CASES = (
    Case("one context for all", lambda n: bound_to(n, 1, 1), lambda n: jumping(lambda n: 1, lambda n: 1)),
    Case("one context for all, and a constant", lambda n: bound_to(n, 2, 1),
         lambda n: jumping(lambda n: 1, lambda n: 1)),
    Case("sixteen contexts", lambda n: bound_to(n, 2, 16), lambda n: jumping(lambda n: 2, lambda n: 16)),
    Case("one context for all, seldom", lambda n: bound_to(n, 1, 1), lambda n: seldom(50)),
    Case("20 updates a message", own_values, lambda n: jumping(lambda n: 20, lambda n: n)),
    Case("a twentieth updated a message", own_values, lambda n: jumping(lambda n: n // 20, lambda n: n), single=False),
    Case("as many updates as profiles", own_values, lambda n: jumping(lambda n: n, lambda n: n), single=False),
    Case("nothing prunes", unconstrained, lambda n: still(n, (0.04, 1))),
    Case("all alike, all hit", alike, lambda n: still(n, (0.48, 0.52))),
    Case("all alike, none hit", alike, lambda n: still(n, (0.6, 1))),
    Case("wide intervals", wide, lambda n: still(n)),
)


def seldom(every: int) -> Ask:
    """An update of the one context in `every` messages."""
    turn = [0]

    def ask(draws: np.random.Generator, count: int) -> Step:
        turn[0] += 1
        n = int(turn[0] % every == 0)
        return (np.zeros(n, np.int64), np.zeros(n, np.int64), draws.random(n)), draws.random((1, len(NAMES)))

    return ask
