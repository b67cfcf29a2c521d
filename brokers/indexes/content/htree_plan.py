"""Which attributes an H-Tree indexes, and into how many cells it cuts each: decided on a sample, offline.

The source's rules, and what is made of them:
1. Popular attributes first, and 2. among them those with narrow ranges. Both are one number here: the share
   of subscriptions that a level turns away, which is popularity times what lies outside an event's cells.
   The number of segments is floor(1/w) for a bound w of the widths. The bound need not be the largest width:
   of some quantiles, the one is taken whose level turns most away; too wide ranges are never turned away.
3. The order of the levels does not matter for what is reached: the most telling comes first.
4. As many levels as memory allows. Ours in addition: no more than pay. A level that leaves few candidates
   per bucket costs more visits than it saves comparisons, so the predicted time decides, within the budget.

The prediction reads a sample of subscriptions against a sample of events. Candidates are counted. For nodes
and buckets, a sampled subscription stands for held / sample others; its node holds as many as the shares of
its cells say, or as many as the sample shows, whichever is more; the number of nodes is the sum of
1 / (size of the node) over all subscriptions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content import htree_kernels as kernels
from brokers.indexes.content.contract import Floats
from brokers.indexes.content.htree_domain import Domain
from brokers.indexes.content.htree_probe import cells_of, segments_of

Ints = NDArray[np.int64]

SAMPLE_ROWS = 2048
SAMPLE_EVENTS = 64
POPULAR = 64  # attributes that are looked at
CELLS_MAX = 255  # a path has one byte per level
LEVELS_MAX = 24
WIDTH_QUANTILES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.25)
CELL_CAPS = (255, 64, 32, 16, 8, 4)  # coarser cells are tried where fine ones leave few to a node
KEEPS_MOST = 0.98  # a level that turns fewer than 2 % away is not worth its nodes

# Nanoseconds on the machine it was tuned on; only their proportions matter.
NODE_NS, BUCKET_NS, ENTRY_NS = 12.0, 25.0, 2.5
BUCKET_BYTES, ENTRY_BYTES = 20, 12


@dataclass(frozen=True)
class TreeShape:
    """The frozen shape of a tree, and what was predicted of it."""

    attributes: tuple[int, ...]  # indexed, one per level
    cells: tuple[int, ...]  # segments of each
    overlapping: bool
    candidate_share: float  # of what is held, per event
    wide_share: float  # of the ranges on indexed attributes
    match_ns: float
    tree_bytes: float  # nodes and buckets

    def array(self) -> Ints:
        """As the kernels read it."""
        back = int(self.overlapping)
        rows = [(a, n, back, n - back) for a, n in zip(self.attributes, self.cells)]
        return np.array(rows, np.int64).reshape(-1, 4)


@dataclass(frozen=True)
class Wishes:
    """What the user fixed; None is left to the sample."""

    levels: int | None = None
    cells: int | None = None
    indexed: tuple[int, ...] | None = None
    overlapping: bool = True
    budget_bytes: int | None = None

    @property
    def shaped(self) -> bool:
        """Whether the number of levels is fixed, so that even one subscription goes through the tree."""
        return self.levels is not None or self.indexed is not None


@dataclass(frozen=True)
class Sample:
    """Ranges of some subscriptions, and some events, all as positions in 0..1."""

    rows: int  # subscriptions
    held: int  # that they stand for
    row: Ints  # which subscription each range belongs to
    attribute: Ints
    low: Floats
    high: Floats
    events: Floats  # [events, attributes], NaN where missing


@dataclass(frozen=True, eq=False)
class _Level:
    """One attribute, cut into cells, for the sample."""

    attribute: int
    segments: int
    first: Ints  # segments whose events reach subscription i: first[i]..last[i]
    last: Ints
    copies: Ints  # cells that subscription i is entered in
    special: NDArray[np.bool_]
    asked: Ints  # the events' segments, -1 where missing
    kept: float  # share of subscriptions that an event reaches
    wide: int  # ranges too wide for a cell, of
    ranges: int


def choose(sample: Sample, wishes: Wishes) -> TreeShape:
    """The plan with the least predicted time per event within the budget."""
    *_, plan = choosing(sample, wishes)
    assert plan is not None
    return plan


def choosing(sample: Sample, wishes: Wishes) -> Iterator[TreeShape | None]:
    """The same in steps that take a fraction of a millisecond each; the last one yields the plan."""
    tried = _Tried(sample, wishes.overlapping)
    plans: list[TreeShape] = []
    before: list[_Level] | None = None
    for cap in CELL_CAPS if wishes.cells is None else (wishes.cells,):
        for attribute in tried.candidates(wishes):
            yield from tried.try_all(attribute, wishes, cap)
        levels = _ranked(tried, wishes, cap)
        yield None
        if levels != before:
            for further in _plans(sample, wishes, levels):
                plans += further
                yield None
        before = levels
    yield min(plans, key=lambda plan: plan.match_ns)


def sampled(
    attribute: NDArray[np.int16], ends: Floats, held: int, domain: Domain, events: Floats | None,
    places: int = SAMPLE_EVENTS,
) -> Sample:
    """These subscriptions, as the store keeps them, as a sample; without events, some even places are taken."""
    row, j = np.nonzero(np.logical_and.accumulate(attribute >= 0, axis=1))
    asked = attribute[row, j].astype(np.int64)
    attributes = len(domain.first) - 1
    if events is None:
        generator = np.random.Generator(np.random.PCG64(0))
        asked_at = generator.random((places, attributes))
    else:
        some = events[:: -(-len(events) // SAMPLE_EVENTS)]
        asking = np.tile(np.arange(attributes), len(some))
        asked_at = domain.positions(asking, some.ravel()).reshape(some.shape)
    low, high = (domain.positions(asked, ends[row, 2 * j + end]) for end in (0, 1))
    return Sample(len(attribute), held, row, asked, low, high, asked_at)


class _Tried:
    """The levels that were tried, each computed once."""

    def __init__(self, sample: Sample, overlapping: bool) -> None:
        self.sample, self.overlapping = sample, overlapping
        self._ranges: dict[int, Ints] = {}
        self._bounds: dict[int, list[float]] = {}
        self._popular: list[int] | None = None
        self._levels: dict[tuple[int, int], _Level] = {}

    def ranges(self, attribute: int) -> Ints:
        if attribute not in self._ranges:
            self._ranges[attribute] = np.flatnonzero(self.sample.attribute == attribute)
        return self._ranges[attribute]

    def level(self, attribute: int, segments: int) -> _Level:
        key = attribute, segments
        if key not in self._levels:
            mine = self.ranges(attribute)
            self._levels[key] = _level(self.sample, attribute, mine, segments, self.overlapping)
        return self._levels[key]

    def candidates(self, wishes: Wishes) -> Sequence[int]:
        """The attributes that may be indexed."""
        if wishes.indexed is not None:
            return wishes.indexed
        if self._popular is None:
            self._popular = _popular(self.sample)
        return self._popular

    def try_all(self, attribute: int, wishes: Wishes, cap: int) -> Iterator[None]:
        """Try each of the numbers of segments that an attribute may have, one per step."""
        for segments in self.segments(attribute, cap) if wishes.cells is None else [wishes.cells]:
            self.level(attribute, segments)
            yield

    def best(self, attribute: int, cap: int) -> _Level:
        """The level of this attribute that keeps least, with at most `cap` segments."""
        levels = (self.level(attribute, n) for n in self.segments(attribute, cap))
        return min(levels, key=lambda level: (level.kept, level.segments))

    def segments(self, attribute: int, cap: int) -> list[int]:
        """The numbers of segments, at most `cap`, that bounds of the widths come to."""
        if attribute not in self._bounds:
            mine = self.ranges(attribute)
            widths = np.sort(self.sample.high[mine] - self.sample.low[mine])
            self._bounds[attribute] = [
                float(widths[round(q * (len(widths) - 1))]) for q in WIDTH_QUANTILES] if len(widths) else [1.0]
        # A width of exactly 1/n must give n, also where rounding made it a little more.
        return sorted({int(min(cap, 1.0 / max(bound - 1e-9, 1e-6))) for bound in self._bounds[attribute]})


def _ranked(tried: _Tried, wishes: Wishes, cap: int) -> list[_Level]:
    """The candidate levels, most telling first, or the wished attributes as they stand."""
    attributes = tried.candidates(wishes)
    if wishes.cells is None:
        levels = [tried.best(attribute, cap) for attribute in attributes]
    else:
        levels = [tried.level(attribute, wishes.cells) for attribute in attributes]
    if wishes.indexed is None:
        levels.sort(key=lambda level: (level.kept, level.attribute))
    return levels


def _popular(sample: Sample) -> list[int]:
    """The attributes that most subscriptions of the sample constrain, of equally many the lower ones."""
    attribute, count = np.unique(sample.attribute, return_counts=True)
    return [int(a) for a in attribute[np.lexsort((attribute, -count))][:POPULAR]]


def _level(sample: Sample, attribute: int, mine: Ints, segments: int, overlapping: bool) -> _Level:
    """Attribute cut into so many segments; `mine` are its ranges in the sample."""
    first, last = np.zeros(sample.rows, np.int64), np.full(sample.rows, segments - 1)
    special = np.ones(sample.rows, np.bool_)
    copies = np.ones(sample.rows, np.int64)
    begin, end = cells_of(sample.low[mine], sample.high[mine], segments, overlapping)
    fits = begin >= 0
    here = sample.row[mine[fits]]
    first[here], last[here], special[here] = begin[fits], end[fits], False
    if not overlapping:
        copies[here] = (end - begin + 1)[fits]
    asked = segments_of(sample.events[:, attribute], segments)
    # How many subscriptions an event in each segment reaches; in the last place, one without a value.
    step = np.bincount(first, minlength=segments + 1) - np.bincount(last + 1, minlength=segments + 1)
    reached = np.append(np.cumsum(step)[:-1], special.sum())
    kept = float(reached[asked].mean()) / sample.rows
    wide = int((~fits).sum())
    return _Level(attribute, segments, first, last, copies, special, asked, kept, wide, len(mine))


def _plans(sample: Sample, wishes: Wishes, levels: list[_Level]) -> Iterator[list[TreeShape]]:
    """The plans with 0, 1, 2 ... of these levels that may pay, within the budget; or the one wished.

    In steps, each of which may find some.
    """
    front = _Front(sample)
    if wishes.shaped:
        for level in levels[: wishes.levels]:
            front.deepen(level)
            yield []
        yield [front.plan(wishes.overlapping)]
        return
    plans = [front.plan(wishes.overlapping)]
    yield []
    budget = math.inf if wishes.budget_bytes is None else wishes.budget_bytes
    for level in [level for level in levels if level.kept < KEEPS_MOST][:LEVELS_MAX]:
        front.deepen(level)
        yield []
        # Every further level only adds to what the nodes take.
        if front.nodes_bytes > budget or front.nodes_ns > min(plan.match_ns for plan in plans):
            break
        plans.append(front.plan(wishes.overlapping))
        yield []
    yield [plan for plan in plans if not plan.attributes or plan.tree_bytes <= budget]


class _Front:
    """How a tree of the levels so far divides the sample, and which of it each sampled event reaches."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.levels: list[_Level] = []
        self.share = np.ones(sample.rows)  # of all subscriptions, in the bucket of subscription i
        self.group = np.zeros(sample.rows, np.int64)  # buckets as the sample shows them
        self.copies = np.ones(sample.rows)
        self.reached = np.ones((len(sample.events), sample.rows), np.bool_)
        self.nodes_ns = self.nodes_bytes = 0.0

    def plan(self, overlapping: bool) -> TreeShape:
        """What to expect if these are all levels."""
        sample, levels = self.sample, self.levels
        candidate_share = float(self.reached.mean())
        further = float((self.copies - 1).sum()) * sample.held / sample.rows
        return TreeShape(
            attributes=tuple(level.attribute for level in levels),
            cells=tuple(level.segments for level in levels),
            overlapping=overlapping,
            candidate_share=candidate_share,
            wide_share=sum(level.wide for level in levels) / max(sum(level.ranges for level in levels), 1),
            match_ns=self.nodes_ns + self._visits() * BUCKET_NS + candidate_share * sample.held * ENTRY_NS,
            tree_bytes=self.nodes_bytes + self._buckets() * BUCKET_BYTES + further * ENTRY_BYTES,
        )

    def deepen(self, level: _Level) -> None:
        """One level more: today's buckets become nodes."""
        self.nodes_ns += self._visits() * NODE_NS
        self.nodes_bytes += self._buckets() * 4 * (kernels.CHILDREN + 1 + level.segments)
        asked = level.asked[:, None]
        self.reached &= np.where(asked < 0, level.special, (level.first <= asked) & (asked <= level.last))
        cell = np.where(level.special, level.segments, level.first)
        self.share *= (np.bincount(cell, minlength=level.segments + 1) / len(cell))[cell]
        self.group = np.unique(self.group * (level.segments + 1) + cell, return_inverse=True)[1]
        self.copies *= level.copies
        self.levels.append(level)

    def _buckets_each(self) -> Floats:
        """Buckets for each subscription of the sample, which stands for its part of all."""
        scale = self.sample.held / self.sample.rows
        beside = (np.bincount(self.group)[self.group] - 1) * scale
        return np.asarray(scale / np.maximum(np.maximum(self.sample.held * self.share, beside), 1.0))

    def _buckets(self) -> float:
        return float(self._buckets_each() @ self.copies)

    def _visits(self) -> float:
        """Buckets that an event reaches."""
        return float(self.reached.sum(axis=0) @ self._buckets_each()) / len(self.reached)
