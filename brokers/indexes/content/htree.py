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
  rounding cannot part them. It is frozen, as are the attributes: another function is another tree.
- A subscription is deleted from where it was put, not from where it would go today.

What the source decides offline is decided here on a sample (`htree_plan`), when 1,024 are held and again
whenever the number has quadrupled, so that an index that starts empty grows into its shape. It is decided anew
where values have moved (`htree_drift`). A tree of few is built at once. Of many, a second one stands beside the
first: what comes goes there, some of the first follow with every change, and a match asks both (`htree_side`).
`docs/htree.md` says how to choose the options and what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.content import htree_kernels as kernels
from brokers.indexes.content import htree_probe as probe
from brokers.indexes.content.beside import RoomyScan
from brokers.indexes.content.cells_drift import Watch
from brokers.indexes.content.contract import (
    ContentIndex,
    Floats,
    checked_attributes,
    many_events,
    one_event,
)
from brokers.indexes.content.htree_domain import Domain, checked_domain, learn
from brokers.indexes.content.htree_drift import SAMPLE_ROWS as STEPS_SAMPLE_ROWS
from brokers.indexes.content.htree_drift import planned
from brokers.indexes.content.htree_plan import CELLS_MAX, SAMPLE_ROWS, TreeShape, Wishes, choose, sampled
from brokers.indexes.content.htree_side import UNCOUNTED, Side
from brokers.indexes.content.htree_store import SingleStore
from brokers.indexes.content.htree_tree import Codes, Paths, Places, Slots, Tree
from brokers.indexes.content.store import in_order
from brokers.indexes.contract import BadEvent, Ids, WorkCounters, claim
from brokers.thresholds import usually

TUNE_FROM = 1024  # held; fewer are looked through
TUNE_EVERY = 4  # times as many as at the last build
AT_ONCE = 1 << 14  # so many are built anew in one go
MOVES = 8  # subscriptions that go to the new tree per change
MOVES_BATCH = 32
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
    follows      whether positions and cells are decided anew where values have moved; False: not before `tune`, as
                 the source has it. With disjoint cells they are not
    """

    def __init__(self, attributes: int, *, levels: int | None = None, cells: int | None = None,
                 indexed: Any = None, domain: Any = "auto", division: str = "overlapping",
                 budget_bytes: int | None = None, scans: bool = True, follows: bool = True) -> None:
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
        self._scans, self._follows = scans, follows and division == "overlapping"
        self._habit, self._scan = np.zeros(4, np.int64), RoomyScan()
        self._domain_wish = checked_domain(domain)
        self._store = SingleStore(self.attributes)
        self._tune_at = 1 if self._wishes.shaped else usually(TUNE_FROM)
        self._places = Places()
        self._seen = np.zeros(self.attributes, np.uint8)  # attributes that anyone constrained
        self._start(learn(self._domain_wish, self.attributes, np.empty(0, np.int64), np.empty(0)),
                    TreeShape((), (), self._wishes.overlapping, 1.0, 0.0, 0.0, 0.0))

    def __len__(self) -> int:
        return len(self._store)

    @property
    def plan(self) -> TreeShape:
        """What was decided last, and predicted."""
        return self._side.plan

    @property
    def _tree(self) -> Tree:
        return self._side.tree

    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions. O(levels + k) each, amortised over the builds."""
        fresh, checked = self._store.check_new(ids, rows)
        slots = self._store.insert(fresh, checked)
        at_once = len(self) <= usually(AT_ONCE) or not self._follows or 2 * len(fresh) > len(self)
        if len(self) >= self._tune_at and at_once:
            self._rebuild(None)
            return
        self._enter(slots, self._watch.seen)
        if self._follows:
            self._watch.remember(fresh)
            self._changed(len(fresh), len(fresh))

    def delete(self, ids: Any) -> None:
        """Remove subscriptions by the stored path. O(levels) each; if disjoint, and by the bucket."""
        overlapping = self._wishes.overlapping
        if overlapping and (taken := self._store.take(ids)) is not None:
            self._remove(taken)
        else:
            known, slots = self._store.slots_of(ids)
            if overlapping:
                self._remove(slots)
            else:
                paths, _, which, _, _ = self._side.described(self._store, slots, self._seen)
                self._tree.remove_paths(paths, slots[which])
            self._store.delete(known, slots)
            taken = slots
        if self._other is not None:
            self._changed(len(taken))

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
        return self.plan

    def report(self) -> Report:
        """The shape of the tree, and how it fared since the last build. O(levels)."""
        plan, trees = self.plan, [side.tree for side in self._sides]
        return Report(
            plan.attributes, plan.cells, sum(tree.node_count for tree in trees),
            sum(tree.bucket_count for tree in trees), sum(tree.entry_count for tree in trees),
            self._wide / self._ranges if self._ranges else math.nan,
            plan.candidate_share,
            self._candidates / self._comparable if self._comparable else math.nan,
        )

    def advice(self) -> tuple[str, ...]:
        """Why the tree should be built again with `tune`; empty if it need not. O(levels)."""
        reasons = []
        report = self.report()
        if self._built >= usually(TUNE_FROM) and TUNE_EVERY * len(self) < self._built:
            reasons.append(f"{len(self)} subscriptions are held, the tree was built for {self._built}")
        if self._entered >= DRIFT_ROWS_MIN and report.wide_share > self._wide_built + 0.1:
            reasons.append(f"{report.wide_share:.0%} of the indexed ranges are too wide for a cell, "
                           f"{self._wide_built:.0%} were at the build")
        usual = 2 * self.plan.candidate_share + 0.01
        if self._events >= DRIFT_EVENTS_MIN and report.measured_share > usual:
            reasons.append(f"events reach {report.measured_share:.2%} of the subscriptions, "
                           f"{self.plan.candidate_share:.2%} were predicted")
        return tuple(reasons)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        shared = self._places.rows.nbytes + self._seen.nbytes + self._scan.memory_bytes() + self._watch.seen.nbytes
        return self._store.memory_bytes() + sum(side.memory_bytes() for side in self._sides) + shared

    def check(self) -> None:
        """Every invariant. O(slots * (ranges + levels))."""
        self._store.check()
        held = np.sort(self._store.items()[1])
        second = self._places.second(held)
        claim(self._side.index in (0, 1) and self._side is not self._other, "one side, or two")
        for side in self._sides:
            self._check_side(side, held[second == (side.index == 1)] if len(held) else held)
        claim(sum(side.tree.entry_count for side in self._sides) >= len(held), "each subscription stands in a tree")

    def _check_side(self, side: Side, held: Slots) -> None:
        side.domain.check()
        tree = side.tree
        paths, codes, slots = tree.contents()
        claimed_paths, claimed_codes, which, _, _ = side.described(self._store, held, self._seen)
        entered = _ordered(slots, paths, codes)
        expected = _ordered(held[which], claimed_paths, claimed_codes)
        same = [np.array_equal(entered[i], expected[i]) for i in range(3)]
        claim(same[0], "in the buckets is what is held, and nothing else")
        claim(same[1], "each subscription stands in the buckets of its cells")
        claim(same[2], "quick checks say what the ranges say")
        if self._wishes.overlapping:
            bucket, at = tree.where[held].T >> [[1], [0]]
            start, count = tree.buckets[bucket][:, [kernels.START, kernels.COUNT]].T
            claim(((at >= 0) & (at < count)).all(), "a stored path names the bucket")
            claim(np.array_equal(tree.owner[start + at], held), "a stored path leads to its slot")

    def _start(self, domain: Domain, plan: TreeShape) -> None:
        """One empty tree; nothing was seen yet."""
        self._side = Side(domain, plan, self._places)
        self._other: Side | None = None  # what it holds moves to the tree of the first
        self._owed = 0  # subscriptions to be moved
        self._planning: Iterator[Side | None] | None = None  # a new tree, step by step
        self._leaving: Iterator[None] = iter(())  # gives the memory of an emptied tree back
        self._watch = Watch(2 * len(plan.attributes))
        self._seen[:] = 0
        self._reset()

    def _reset(self) -> None:
        self._ranges = self._wide = self._entered = 0
        self._events = self._candidates = self._comparable = 0
        self._built, self._wide_built = len(self), 0.0

    def _rebuild(self, events: Floats | None) -> None:
        slots = np.sort(self._store.items()[1])
        self._tune_at = max(TUNE_EVERY * len(slots), usually(TUNE_FROM))
        if not len(slots):
            return
        some = slots[:: -(-len(slots) // SAMPLE_ROWS)].copy()  # the kernels are compiled for rows side by side
        attribute, ends = self._store.attribute[some], self._store.ends[some]
        wishes = self._wishes_of(len(slots))
        plans = []
        for domain in self._learned(attribute, ends, events):
            plans.append((choose(sampled(attribute, ends, len(slots), domain, events), wishes), domain))
        plan, domain = min(plans, key=lambda pair: pair[0].match_ns)
        self._start(domain, plan)
        self._enter(slots, UNCOUNTED)
        self._side.learn_usual(self._store, some, self._seen)
        self._wide_built = self._wide / max(self._ranges, 1)
        self._entered = 0

    def _wishes_of(self, held: int) -> Wishes:
        """What the user fixed, and a budget."""
        if self._wishes.budget_bytes is not None:
            return self._wishes
        return replace(self._wishes, budget_bytes=max(BUDGET_PER_SUBSCRIPTION * held, BUDGET_BYTES_MIN))

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

    def _enter(self, slots: Slots, tally: NDArray[np.int32]) -> None:
        self._places.reach(len(self._store.ids))
        paths, codes, which, ranges, wide = self._side.described(self._store, slots, self._seen, tally)
        self._ranges += ranges
        self._wide += wide
        self._entered += len(slots)
        self._tree.enter(paths, codes, slots[which])

    @property
    def _sides(self) -> tuple[Side, ...]:
        return (self._side,) if self._other is None else (self._side, self._other)

    def _remove(self, slots: Slots) -> None:
        """Take slots out of the trees in which they stand."""
        if self._other is None:
            self._tree.remove(slots)
            return
        second = self._places.second(slots)
        for side in self._sides:
            side.tree.remove(slots[second == (side.index == 1)])

    def _changed(self, count: int, entered: int = 0) -> None:
        """After so many changes, of them inserts: move what is owed, and see whether the tree still suits."""
        if self._other is not None:
            self._owed += MOVES * count
            if self._owed >= MOVES_BATCH:
                self._move(self._owed)
                self._owed = 0
            return
        next(self._leaving, None)
        if self._planning is not None:
            if (side := next(self._planning)) is not None:
                self._turn(side)
        elif len(self) >= self._tune_at or self._watch.drifted(self._side.usual, entered, len(self)):
            self._tune_at = TUNE_EVERY * len(self)
            self._planning = self._planned()

    def _sample(self) -> Slots:
        """Some slots that are held, evenly spread."""
        slots = np.arange(0, self._store.used, max(1, self._store.used // STEPS_SAMPLE_ROWS))
        return slots[self._store.ids[slots] >= 0]

    def _planned(self) -> Iterator[Side | None]:
        """An empty tree that suits what is held and what comes, in short steps; the last one yields it."""
        came = self._store.slots_held(self._watch.recent)
        wishes = self._wishes_of(len(self))
        yield None
        for found in planned(self._store, self._sample(), came, self._domain_wish, wishes):
            yield None
            if found is not None:
                side = Side(*found, self._places, 1 - self._side.index, self._side)
                yield None
                side.learn_usual(self._store, self._sample(), self._seen)
                yield side

    def _turn(self, side: Side) -> None:
        """Let inserts go to a new tree, and the other one's content follow bit by bit."""
        before, plan = self._side, side.plan
        self._side, self._other, self._planning = side, before, None
        before.leave()
        watch = self._watch
        watch.cut(len(self))
        watch.seen = np.zeros((2 * len(plan.attributes), 256), np.int32)
        self._reset()
        self._wide_built = plan.wide_share

    def _move(self, count: int) -> None:
        """Move so many subscriptions from the other tree to the new one."""
        other = self._other
        assert other is not None
        slots, other.left = other.tree.last_slots(other.left, count)
        other.tree.remove(slots)
        self._enter(slots, UNCOUNTED)
        if not other.tree.entry_count:
            self._other, self._leaving = None, other.tree.given_back()

    def _match(self, lows: Floats, highs: Floats) -> tuple[Ids, Ids]:
        store = self._store
        if lows is highs and len(lows) == 1 and self._habit[probe.UNASKED] > 0:
            self._habit[probe.UNASKED] -= 1
            return self._counted(*self._scan.match(store, lows), 0, len(store))
        self._habit[probe.SLOTS] = store.used
        scans = self._scans and len(store) >= usually(SCAN_HELD_MIN)
        self._habit[probe.LIMIT] = len(store) // SCAN_SHARE if scans else 1 << 62
        ptr, work = np.zeros(len(lows) + 1, np.int64), np.zeros(3, np.int64)
        ids = probe.match(
            (self._side.asked,) if self._other is None else (self._side.asked, self._other.asked),
            store.ids, store.attribute, store.ends, self._seen, lows, highs, ptr, work, self._habit,
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
        if division == "overlapping":
            *_, side = index._planned()
            assert side is not None
            index._turn(side)
            index.match(np.array([0.1, 0.3]))
            index._move(1)
        index.delete(np.array([0]))
        index.delete(np.array([1, 2]))


def uniform_share(segments: int, levels: int, constrained: float = 1.0) -> float:
    """The candidates expected for even values: two segments in n reach a range. A share of what is held."""
    return (1.0 - constrained + constrained * min(2.0 / segments, 1.0)) ** levels


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
