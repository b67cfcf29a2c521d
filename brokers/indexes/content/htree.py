"""H-Tree: similar subscriptions share a bucket at the end of a path of cells; an event looks into few.

After S. Qian, J. Cao, Y. Zhu, M. Li, J. Wang: "H-Tree: An Efficient Index Structure for Event Matching in
Content-Based Publish/Subscribe Systems", TPDS 26(6), 2015.

Every level of the tree belongs to one attribute. Its values are cut into n segments; two neighbouring ones
form a regular cell, so cells overlap, and the special cell takes what does not constrain the attribute. A
range no wider than a segment lies in the cell whose centre is nearest to its middle, so a subscription stands
in one bucket. Cells are half-open: a value lies in at most two, and with the special one an event follows at
most three per level. All that is in the buckets it reaches is compared.

Traps
- A range wider than a cell takes the special cell of its attribute, never several buckets.
- An event without a value follows the special cell alone.
- Ranges and events go through one monotone function to positions and segments (`htree_domain`), so that
  rounding cannot part them. It is frozen, as are the attributes, until the tree is built again.
- A subscription is deleted from where it was put, not from where it would go today.

What the source decides offline is decided here on a sample (`htree_plan`), when 1,024 are held and again
whenever the number has quadrupled, so that an index that starts empty grows into its shape.
`docs/htree.md` says how to choose the options and what was measured.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.content import htree_kernels as kernels
from brokers.indexes.content import htree_probe as probe
from brokers.indexes.content.beside import RoomyScan
from brokers.indexes.content.contract import (
    ContentIndex,
    Floats,
    checked_attributes,
    many_events,
    one_event,
)
from brokers.indexes.content.htree_domain import Domain, checked_domain, learn
from brokers.indexes.content.htree_plan import CELLS_MAX, SAMPLE_ROWS, TreeShape, Wishes, choose, sampled
from brokers.indexes.content.htree_store import SingleStore
from brokers.indexes.content.htree_tree import Codes, Paths, Slots, Tree
from brokers.indexes.content.store import in_order
from brokers.indexes.contract import BadEvent, Ids, WorkCounters, claim

TUNE_FROM = 1024  # held; fewer are looked through
TUNE_EVERY = 4  # times as many as at the last build
BUDGET_PER_SUBSCRIPTION = 40  # bytes of nodes and buckets, unless a budget is given
BUDGET_BYTES_MIN = 1 << 20
SCAN_SHARE = 5  # of the held that survive the quick check: a scan pays
SCAN_HELD_MIN = 512
DRIFT_EVENTS_MIN = 100
DRIFT_ROWS_MIN = 1000


class Report(NamedTuple):
    """The shape of the tree and how it fares. Shares are of what is held; NaN where nothing was seen yet."""

    attributes: tuple[int, ...]  # indexed, one per level
    cells: tuple[int, ...]  # segments of each
    nodes: int
    buckets: int
    entries: int  # with overlapping cells as many as subscriptions
    wide_share: float  # of the ranges on indexed attributes: too wide for a cell
    predicted_share: float  # of candidates per event
    measured_share: float


class HTree(ContentIndex):
    """Hash lists of overlapping cells, chained. Match O(nodes and buckets reached + candidates).

    levels       how many attributes are indexed; None: as many as pay, within the budget
    cells        segments per attribute, at least 1; None: from the widths of the ranges
    indexed      the attributes themselves, one per level; None: the most telling ones
    domain       (low, high): values are even in between; "cdf": quantiles of a sample; "auto": what fits
    division     "overlapping", or "disjoint": one segment per cell, a range in each cell that it touches
    budget_bytes of nodes and buckets; None: 40 per subscription, at least 1 MiB
    scans        whether an event that one in five subscriptions survive the quick check of is left to a scan of all;
                 False: as the source has it
    """

    def __init__(self, attributes: int, *, levels: int | None = None, cells: int | None = None,
                 indexed: Any = None, domain: Any = "auto", division: str = "overlapping",
                 budget_bytes: int | None = None, scans: bool = True) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        if division not in ("overlapping", "disjoint"):
            raise InvalidInput(f"division {division!r}; pass 'overlapping' or 'disjoint'")
        self._wishes = Wishes(
            levels=_whole("levels", levels, 0, self.attributes),
            cells=_whole("cells", cells, 1, CELLS_MAX),
            indexed=None if indexed is None else _checked_indexed(indexed, self.attributes),
            overlapping=division == "overlapping",
            budget_bytes=_whole("budget_bytes", budget_bytes, 0, 1 << 62),
        )
        self._scans = scans
        self._habit, self._scan = np.zeros(4, np.int64), RoomyScan()
        self._domain_wish = checked_domain(domain)
        self._store = SingleStore(self.attributes)
        self._tune_at = 1 if self._wishes.shaped else TUNE_FROM
        self._start(learn(self._domain_wish, self.attributes, np.empty(0, np.int64), np.empty(0)),
                    TreeShape((), (), self._wishes.overlapping, 1.0, 0.0, 0.0, 0.0))

    def __len__(self) -> int:
        return len(self._store)

    @property
    def plan(self) -> TreeShape:
        """What was decided at the last build, and predicted."""
        return self._plan

    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions. O(levels + k) each, amortised over the builds."""
        fresh, checked = self._store.check_new(ids, rows)
        slots = self._store.insert(fresh, checked)
        if len(self) >= self._tune_at:
            self._rebuild(None)
        else:
            self._enter(slots)

    def delete(self, ids: Any) -> None:
        """Remove subscriptions by the stored path. O(levels) each; if disjoint, and by the bucket."""
        overlapping = self._wishes.overlapping
        if overlapping and (taken := self._store.take(ids)) is not None:
            self._tree.remove(taken)
            return
        known, slots = self._store.slots_of(ids)
        if overlapping:
            self._tree.remove(slots)
        else:
            paths, _, which, _, _ = self._described(slots)
            self._tree.remove_paths(paths, slots[which])
        self._store.delete(known, slots)

    def rows(self, ids: Any) -> Floats:
        """The subscriptions held under these ids. O(k) each."""
        return self._store.rows(self._store.slots_of(ids)[1])

    def match(self, values: Any) -> Ids:
        """The ids that match an event. O(nodes and buckets reached + candidates)."""
        event = one_event(values, self.attributes).reshape(1, -1)
        return self._match(event, event)[1]

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per event. O(nodes and buckets reached + candidates) each."""
        events = many_events(values, self.attributes)
        return self._match(events, events)

    def match_intervals(self, low: Any, high: Any) -> tuple[Ids, Ids]:
        """Ids per message, in CSR form: all of its ranges meet the message's [low, high] on their attributes.

        float64[n, attributes] each, NaN in both where a message has no value. A message may follow more than
        three cells per level; one that would follow more than there are buckets looks into all of them.
        """
        lows, highs = many_events(low, self.attributes), many_events(high, self.attributes)
        if lows.shape != highs.shape:
            raise BadEvent(f"low ends have shape {lows.shape}, high ends {highs.shape}; pass one of each")
        wrong = (lows > highs) | (np.isnan(lows) != np.isnan(highs))
        if wrong.any():
            row, a = np.argwhere(wrong)[0]
            raise BadEvent(f"message {row}: [{lows[row, a]:g}, {highs[row, a]:g}] on attribute {a} is no "
                           "interval; pass low <= high, or NaN for both")
        ptr, ids = self._match(lows, highs)
        return (ptr, ids) if self._wishes.overlapping else _without_repeats(ptr, ids)

    def tune(self, budget_bytes: int | None = None, events: Any = None) -> TreeShape:
        """Choose attributes, levels and cells anew, from a sample of what is held, and build the tree again.

        `budget_bytes` limits nodes and buckets from now on. `events`, float64[n, attributes], are what to
        expect; without them events are taken to be spread as the ends of the ranges are. O(held * k).
        """
        expected = None if events is None else many_events(events, self.attributes)
        if expected is not None and not len(expected):
            raise BadEvent("no events to tune for; pass some, or None")
        if budget_bytes is not None:
            budget = _whole("budget_bytes", budget_bytes, 0, 1 << 62)
            self._wishes = replace(self._wishes, budget_bytes=budget)
        self._rebuild(expected)
        return self._plan

    def report(self) -> Report:
        """The shape of the tree, and how it fared since the last build. O(levels)."""
        tree, plan = self._tree, self._plan
        return Report(
            plan.attributes, plan.cells, tree.node_count, tree.bucket_count, tree.entry_count,
            self._wide / self._ranges if self._ranges else math.nan,
            plan.candidate_share,
            self._candidates / self._comparable if self._comparable else math.nan,
        )

    def advice(self) -> tuple[str, ...]:
        """Why the tree should be built again with `tune`; empty if it need not. O(levels)."""
        reasons = []
        report = self.report()
        if self._built >= TUNE_FROM and TUNE_EVERY * len(self) < self._built:
            reasons.append(f"{len(self)} subscriptions are held, the tree was built for {self._built}")
        if self._entered >= DRIFT_ROWS_MIN and report.wide_share > self._wide_built + 0.1:
            reasons.append(f"{report.wide_share:.0%} of the indexed ranges are too wide for a cell, "
                           f"{self._wide_built:.0%} were at the build")
        usual = 2 * self._plan.candidate_share + 0.01
        if self._events >= DRIFT_EVENTS_MIN and report.measured_share > usual:
            reasons.append(f"events reach {report.measured_share:.2%} of the subscriptions, "
                           f"{self._plan.candidate_share:.2%} were predicted")
        return tuple(reasons)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        shared = self._level_of.nbytes + self._seen.nbytes + self._scan.memory_bytes()
        return self._store.memory_bytes() + self._tree.memory_bytes() + self._domain.memory_bytes() + shared

    def check(self) -> None:
        """Every invariant. O(slots * (ranges + levels))."""
        self._store.check()
        self._domain.check()
        paths, codes, slots = self._tree.contents()
        held = np.sort(self._store.items()[1])
        claimed_paths, claimed_codes, which, _, _ = self._described(held)
        entered = _ordered(slots, paths, codes)
        expected = _ordered(held[which], claimed_paths, claimed_codes)
        same = [np.array_equal(entered[i], expected[i]) for i in range(3)]
        claim(same[0], "in the buckets is what is held, and nothing else")
        claim(same[1], "each subscription stands in the buckets of its cells")
        claim(same[2], "quick checks say what the ranges say")
        if self._wishes.overlapping:
            bucket, at = self._tree.where[held].T
            start, count = self._tree.buckets[bucket][:, [kernels.START, kernels.COUNT]].T
            claim(np.array_equal(self._tree.owner[at], held), "a stored path leads to its slot")
            claim(((start <= at) & (at < start + count)).all(), "a stored path names the bucket")

    def _start(self, domain: Domain, plan: TreeShape) -> None:
        """An empty tree; nothing was seen yet."""
        self._domain, self._plan = domain, plan
        self._tree = Tree(plan.array())
        self._level_of = np.full(self.attributes, -1, np.int64)
        self._level_of[list(plan.attributes)] = np.arange(len(plan.attributes))
        self._seen = np.zeros(self.attributes, np.uint8)  # attributes that anyone constrained since
        self._ranges = self._wide = self._entered = 0
        self._events = self._candidates = self._comparable = 0
        self._built, self._wide_built = len(self), 0.0

    def _rebuild(self, events: Floats | None) -> None:
        slots = np.sort(self._store.items()[1])
        self._tune_at = max(TUNE_EVERY * len(slots), TUNE_FROM)
        if not len(slots):
            return
        some = slots[:: -(-len(slots) // SAMPLE_ROWS)]
        attribute, ends = self._store.attribute[some], self._store.ends[some]
        wishes = self._wishes
        if wishes.budget_bytes is None:
            budget = max(BUDGET_PER_SUBSCRIPTION * len(slots), BUDGET_BYTES_MIN)
            wishes = replace(wishes, budget_bytes=budget)
        planned = []
        for domain in self._learned(attribute, ends, events):
            planned.append((choose(sampled(attribute, ends, len(slots), domain, events), wishes), domain))
        plan, domain = min(planned, key=lambda pair: pair[0].match_ns)
        self._start(domain, plan)
        self._enter(slots)
        self._wide_built = self._wide / max(self._ranges, 1)
        self._entered = 0

    def _learned(self, attribute: NDArray[np.int16], ends: Floats, events: Floats | None) -> list[Domain]:
        """The domains to choose from: one if only the ends of ranges are known, or if the user chose."""
        row, j = np.nonzero(np.logical_and.accumulate(attribute >= 0, axis=1))
        asked = np.repeat(attribute[row, j].astype(np.int64), 2)
        values = np.column_stack([ends[row, 2 * j], ends[row, 2 * j + 1]]).ravel()
        by_ends = learn(self._domain_wish, self.attributes, asked, values)
        if events is None:
            return [by_ends]
        asked = np.tile(np.arange(self.attributes), len(events))
        by_events = learn(self._domain_wish, self.attributes, asked, events.ravel())
        # Events that crowd in one place make wide ranges of narrow ones there: the quantiles may not pay.
        return [by_events, by_ends] if self._domain_wish == "auto" else [by_events]

    def _enter(self, slots: Slots) -> None:
        paths, codes, which, ranges, wide = self._described(slots)
        self._ranges += ranges
        self._wide += wide
        self._entered += len(slots)
        self._tree.enter(paths, codes, slots[which], len(self._store.ids))

    def _described(self, slots: Slots) -> tuple[Paths, Codes, Slots | slice, int, int]:
        """(path, code and place in `slots` of each entry, ranges on indexed attributes, too wide ones)."""
        count = len(slots)
        paths = np.empty((count, len(self._plan.attributes)), np.uint8)
        spans, codes = np.empty_like(paths), np.empty(count, np.uint64)
        ranges, wide = probe.describe(
            self._store.attribute, self._store.ends, slots, self._tree.plan, self._level_of,
            self._domain.knots, self._domain.first, self._seen, paths, spans, codes,
        )
        if self._wishes.overlapping:
            return paths, codes, slice(None), ranges, wide
        paths, which = _copies(paths, spans)
        return paths, codes[which], which, ranges, wide

    def _match(self, lows: Floats, highs: Floats) -> tuple[Ids, Ids]:
        tree, store = self._tree, self._store
        if lows is highs and len(lows) == 1 and self._habit[probe.UNASKED] > 0:
            self._habit[probe.UNASKED] -= 1
            return self._counted(*self._scan.match(store, lows), 0, len(store))
        self._habit[probe.SLOTS] = store.used
        scans = self._scans and len(store) >= SCAN_HELD_MIN
        self._habit[probe.LIMIT] = len(store) // SCAN_SHARE if scans else 1 << 62
        ptr, work = np.zeros(len(lows) + 1, np.int64), np.zeros(3, np.int64)
        ids = probe.match(
            tree.nodes, tree.buckets, tree.quick, tree.owner, tree.state, tree.plan,
            store.ids, store.attribute, store.ends, self._domain.knots, self._domain.first, self._seen,
            lows, highs, ptr, work, self._habit,
        )
        if lows is highs or self._wishes.overlapping:
            in_order(ptr, ids)
        else:  # an id stands there for each bucket that it was found in
            for start, end in zip(ptr[:-1].tolist(), ptr[1:].tolist()):
                ids[start:end].sort()
        nodes, buckets, candidates = work.tolist()
        return self._counted(ptr, ids, nodes + buckets, candidates)

    def _counted(self, ptr: Ids, ids: Ids, probed: int, candidates: int) -> tuple[Ids, Ids]:
        counters, events = self.counters, len(ptr) - 1
        counters.events += events
        counters.probed += probed
        counters.verified += candidates
        counters.matched += len(ids)
        self._events += events
        self._candidates += candidates
        self._comparable += events * len(self)
        return ptr, ids


def warm() -> None:
    """Compile every kernel, or load it from the cache."""
    rows = np.array([[0.0, 0.1, 0.2, 1.0, 0.3, 0.4]] * 3)
    for division in ("overlapping", "disjoint"):
        index = HTree.build(2, np.arange(2), rows[:2], levels=1, division=division)
        index.insert(np.array([2]), rows[2:])
        index.match(np.array([0.1, 0.3]))
        index.delete(np.array([0]))
        index.delete(np.array([1, 2]))


def uniform_share(segments: int, levels: int, constrained: float = 1.0) -> float:
    """The candidates expected for even values: two segments in n reach a range. A share of what is held."""
    return (1.0 - constrained + constrained * min(2.0 / segments, 1.0)) ** levels


def _copies(paths: Paths, spans: Paths) -> tuple[Paths, Slots]:
    """One path per combination of the cells that a subscription touches, and whose it is."""
    which = np.arange(len(paths))
    for level in range(paths.shape[1]):
        again = np.flatnonzero(spans[which, level] > 1)
        further = paths[again]
        further[:, level] += 1
        paths, which = np.concatenate([paths, further]), np.concatenate([which, which[again]])
    return paths, which


def _without_repeats(ptr: Ids, ids: Ids) -> tuple[Ids, Ids]:
    """Ascending ids per message, each once."""
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    first[ptr[:-1][ptr[:-1] < len(ids)]] = True
    before = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(first, out=before[1:])
    return before[ptr], ids[first]


def _ordered(slots: Slots, paths: Paths, codes: Codes) -> tuple[Slots, Paths, Codes]:
    order = np.lexsort((*paths.T[::-1], slots))
    return slots[order], paths[order], codes[order]


def _whole(name: str, value: Any, least: int, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise InvalidInput(f"{name} is {value!r}; pass an integer in {least}..{most}")
    return int(value)


def _checked_indexed(indexed: Any, attributes: int) -> tuple[int, ...]:
    chosen = tuple(indexed)
    good = all(isinstance(a, int | np.integer) and 0 <= a < attributes for a in chosen)
    if not good or len(set(chosen)) < len(chosen):
        raise InvalidInput(f"indexed is {indexed!r}; pass distinct attributes in 0..{attributes - 1}")
    return tuple(int(a) for a in chosen)
