"""The H-Tree: its cell rule, its answers against the definition, and its shape under change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokers.errors import InvalidInput
from brokers.indexes.content import cells_drift, htree_kernels, htree_probe
from brokers.indexes.content import htree as htree_module
from brokers.indexes.content.contract import checked_rows, verify
from brokers.indexes.content.htree import HTree
from brokers.indexes.content.htree_probe import cells_of, segments_of
from brokers.indexes.contract import BadEvent, BadSubscription, DuplicateId, UnknownId

NAN, INF = math.nan, math.inf
UNIT = (0.0, 1.0)


def generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def cell(low, high, segments):
    first, last = cells_of(np.array([low]), np.array([high]), segments, True)
    assert first[0] == -1 or last[0] == first[0] + 1
    return int(first[0])


def meets(low, high, rows):
    """Which rows have every range meeting [low, high]: the definition for interval-valued messages."""
    out = []
    for row in rows.reshape(len(rows), rows.shape[1] // 3, 3):
        out.append(all(begin <= high[int(a)] and low[int(a)] <= end for a, begin, end in row if a == a))
    return np.array(out, bool)


# ---- the cell rule -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("middle", "expected"),
    [(0.0, 0), (0.374, 0), (0.375, 1), (0.5, 1), (0.624, 1), (0.625, 2), (0.75, 2), (1.0, 2)],
)
def test_a_range_takes_the_cell_with_the_nearest_centre_and_a_tie_goes_up(middle, expected):
    assert cell(middle, middle, 4) == expected


@pytest.mark.parametrize("segments", range(2, 30))
def test_a_range_no_wider_than_a_segment_lies_inside_its_cell(segments):
    low = np.concatenate([np.arange(segments) / segments, generator(1).random(2_000) * (1 - 1 / segments)])
    high = np.minimum(low + 0.999 / segments, 1.0)
    first, last = cells_of(low, high, segments, True)
    assert ((first >= 0) & (first <= segments - 2)).all()
    assert (first <= segments_of(low, segments)).all()
    assert (segments_of(high, segments) <= last).all()


@pytest.mark.parametrize("segments", [2, 3, 4, 5, 7, 10])
def test_widths_of_exactly_w_and_border_to_border_ranges_fit_up_to_rounding(segments):
    # The float that stands for (j + 1) / n may lie one segment on: two segments still make a cell.
    borders = np.arange(segments + 1) / segments
    first, _ = cells_of(borders[:-1], borders[1:], segments, True)
    assert (first >= 0).all()


def test_a_range_over_three_segments_is_too_wide_and_so_is_all_without_regular_cells():
    assert cell(0.24, 0.51, 4) == -1
    assert cell(0.0, 0.0, 1) == -1
    assert cell(0.0, 1.0, 2) == 0


@pytest.mark.parametrize("segments", [2, 3, 4, 5, 8, 10])
def test_a_value_follows_at_most_three_cells_per_level_two_at_the_outer_segments(segments):
    index = HTree(1, indexed=[0], cells=segments, domain=UNIT)
    centres = (np.arange(segments - 1) + 1) / segments
    rows = np.column_stack([np.zeros(segments - 1), centres, centres])
    index.insert(np.arange(segments - 1), rows)
    index.insert([1_000], [[NAN, NAN, NAN]])
    assert index.report().buckets == segments
    borders = np.arange(segments + 1) / segments
    for value in [*borders, *np.nextafter(borders, -1), *np.nextafter(borders, 2), -5.0, 7.0, INF, -INF]:
        index.counters.reset()
        index.match([value])
        outer = value < 1 / segments or value >= (segments - 1) / segments
        assert index.counters.verified <= (2 if outer else 3)
    index.counters.reset()
    assert index.match([NAN]).tolist() == [1_000]
    assert index.counters.verified == 1  # a missing value follows the special cell alone


# ---- answers -----------------------------------------------------------------------------------------


def random_case(rng, segments):
    """Rows and events around the borders j/n: ties, widths of exactly w and more, odd values among them."""
    attributes, count = int(rng.integers(1, 5)), int(rng.integers(1, 50))
    chosen = np.argsort(rng.random((count, attributes)), axis=1, kind="stable").astype(float)
    fine = 2 * segments
    low = rng.integers(-1, fine + 1, (count, attributes)) / fine
    if rng.random() < 0.5:
        low += 0.05 * (rng.random(low.shape) - 0.5)
    width = rng.choice([0.0, 0.5 / segments, 1 / segments, 1.5 / segments, 0.7], low.shape)
    high = low + width
    low[rng.random(low.shape) < 0.04] = -INF
    high[rng.random(low.shape) < 0.04] = INF
    rows = np.stack([chosen, low, high], axis=2)
    rows[rng.random((count, attributes)) < rng.random() * 0.7] = NAN
    borders = np.arange(segments + 1) / segments
    ends = np.concatenate([low.ravel(), high.ravel(), borders, rng.random(9) * 3 - 1])
    events = rng.choice(ends, (30, attributes))
    events[rng.random(events.shape) < 0.06] = NAN
    return rows.reshape(count, -1), events


def assert_answers(index, ids, rows, events, rng):
    ptr, found = index.match_many(events)
    for i, event in enumerate(events):
        assert np.array_equal(found[ptr[i] : ptr[i + 1]], ids[verify(event, rows)])
    assert np.array_equal(index.match(events[0]), ids[verify(events[0], rows)])
    others = events[rng.permutation(len(events))]
    low, high = np.fmin(events, others), np.fmax(events, others)
    ptr, found = index.match_intervals(low[:6], high[:6])
    for i in range(6):
        assert np.array_equal(found[ptr[i] : ptr[i + 1]], ids[meets(low[i], high[i], rows)])


@pytest.mark.parametrize("division", ["overlapping", "disjoint"])
@pytest.mark.parametrize("domain", [UNIT, "auto", "cdf", (-0.25, 2.0)])
def test_ten_thousand_small_questions_per_domain_are_answered_by_the_definition(domain, division):
    rng = generator(7)
    for _ in range(150):
        segments = int(rng.integers(1, 11))
        rows, events = random_case(rng, segments)
        attributes = rows.shape[1] // 3
        ids = np.sort(rng.choice(1 << 20, len(rows), replace=False))
        levels = int(rng.integers(0, attributes + 1))
        options = {"levels": levels, "cells": segments, "domain": domain, "division": division}
        index = HTree.build(attributes, ids, rows, **options)
        index.check()
        assert len(index.plan.attributes) <= levels
        assert_answers(index, ids, rows, events, rng)
        gone = rng.random(len(ids)) < 0.5
        index.delete(ids[gone])
        index.check()
        assert_answers(index, ids[~gone], rows[~gone], events, rng)
        index.delete(ids[~gone])
        index.check()
        report = index.report()
        assert (report.nodes, report.buckets, report.entries, len(index)) == (0, 0, 0, 0)


@pytest.mark.parametrize("values", ["flat", "one value", "huge", "tiny"])
def test_flat_parts_jumps_and_extremes_of_a_distribution_are_answered_exactly(values):
    rng = generator(9)
    draws = {
        "flat": np.where(rng.random(3_000) < 0.5, rng.random(3_000) * 0.01, 5 + rng.random(3_000) * 0.01),
        "one value": np.full(3_000, 0.25),
        "huge": (rng.random(3_000) - 0.5) * 1.7e308,
        "tiny": rng.integers(0, 9, 3_000) * 5e-324,
    }[values].reshape(1_500, 2)
    rows = np.column_stack([np.zeros(1_500), draws.min(axis=1), draws.max(axis=1)])
    rows[::2, 2] = rows[::2, 1]
    events = np.concatenate([draws[:40], [[-INF, 0.0], [INF, 0.0], [0.0, 0.0]]])[:, :1]
    for domain in ("auto", "cdf"):
        index = HTree.build(1, np.arange(1_500), rows, domain=domain, indexed=[0])
        index.check()
        for event in events:
            assert np.array_equal(index.match(event), np.flatnonzero(verify(event, rows)))


def test_quantiles_serve_skewed_values_where_even_cells_do_not():
    rng = generator(3)
    low = 1e6 * rng.random((6_000, 2)) ** 8
    rows = np.stack([np.tile([0.0, 1.0], (6_000, 1)), low, low * 1.05], axis=2).reshape(6_000, 6)
    events = 1e6 * rng.random((100, 2)) ** 8
    verified = {}
    for domain in ("auto", "cdf", (0.0, 1e6)):
        index = HTree.build(2, np.arange(6_000), rows, domain=domain)
        for event in events:
            assert np.array_equal(index.match(event), np.flatnonzero(verify(event, rows)))
        verified[domain] = index.counters.verified
    assert verified["auto"] == verified["cdf"] < 0.1 * verified[(0.0, 1e6)]


def test_a_message_that_meets_everything_looks_into_every_bucket_once():
    index = HTree(3, indexed=[0, 1, 2], cells=8, domain=UNIT)
    rng = generator(5)
    low = rng.random((60, 3)) * 0.8
    rows = np.stack([np.tile([0.0, 1, 2], (60, 1)), low, low + 0.1], axis=2)
    index.insert(np.arange(60), rows.reshape(60, 9))
    ptr, ids = index.match_intervals([[0.0] * 3, [-INF] * 3], [[1.0] * 3, [INF] * 3])
    assert ptr.tolist() == [0, 60, 120] and ids.tolist() == [*range(60)] * 2
    assert index.counters.verified == 120
    assert index.counters.probed < 2 * (8 + 64 + 60 + 60)


class Histories(RuleBasedStateMachine):
    """Trees of several options, built again at random, beside a dictionary."""

    @initialize(attributes=st.integers(1, 3))
    def build(self, attributes):
        self.attributes = attributes
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(htree_module, "TUNE_FROM", 8)
        self.patch.setattr(htree_module, "AT_ONCE", 8)
        self.patch.setattr(cells_drift, "CHECKED_MIN", 4)
        self.patch.setattr(cells_drift, "ENDS_MIN", 4)
        self.trees = [
            HTree(attributes),
            HTree(attributes, levels=attributes, cells=3, domain=(0.0, 6.0)),
            HTree(attributes, indexed=[attributes - 1], domain="cdf"),
            HTree(attributes, levels=attributes, cells=4, domain=(0.0, 6.0), division="disjoint"),
        ]
        self.model: dict[int, np.ndarray] = {}

    def teardown(self):
        if hasattr(self, "patch"):
            self.patch.undo()

    def drawn_rows(self, data, count):
        ends = st.sampled_from([-INF, -1.0, 0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 4.5, 6.0, 7.0, INF])
        rows = np.full((max(count, 4), self.attributes, 3), NAN)
        for i in range(min(count, 4)):
            for a in range(self.attributes):
                if data.draw(st.booleans()):
                    rows[i, a] = a, *sorted((data.draw(ends), data.draw(ends)))
        return rows[np.arange(count) % 4].reshape(count, 3 * self.attributes)

    @rule(data=st.data(), start=st.integers(0, 60), count=st.integers(1, 30))
    def insert(self, data, start, count):
        ids = np.array([i for i in range(start, start + count) if i not in self.model], np.int64)
        rows = self.drawn_rows(data, len(ids))
        for tree in self.trees:
            if data.draw(st.booleans()):
                tree.insert(ids, rows)
            else:
                for i in range(len(ids)):
                    tree.insert(ids[i : i + 1], rows[i : i + 1])
        self.model.update(zip(ids.tolist(), rows))

    @rule(data=st.data(), start=st.integers(0, 60), count=st.integers(1, 50))
    def delete(self, data, start, count):
        ids = np.array([i for i in range(start, start + count) if i in self.model], np.int64)
        for tree in self.trees:
            if data.draw(st.booleans()):
                tree.delete(ids)
            else:
                for i in range(len(ids)):
                    tree.delete(ids[i : i + 1])
        for id_ in ids.tolist():
            del self.model[id_]

    @rule(data=st.data(), start=st.integers(0, 60))
    def update(self, data, start):
        ids = np.array([i for i in range(start, start + 5) if i in self.model], np.int64)
        rows = self.drawn_rows(data, len(ids))
        for tree in self.trees:
            tree.update(ids, rows)
        self.model.update(zip(ids.tolist(), rows))

    @rule(which=st.integers(0, 3), budget=st.sampled_from([None, 0, 1_000, 1 << 20]))
    def tune(self, which, budget):
        self.trees[which].tune(budget)

    @rule(data=st.data())
    def match(self, data):
        values = st.sampled_from([NAN, -INF, -1.0, 0.0, 0.7, 1.5, 2.0, 3.0, 4.0, 4.5, 6.0, 7.0, INF])
        drawn = data.draw(st.lists(values, min_size=2 * self.attributes, max_size=2 * self.attributes))
        both = np.sort(np.array(drawn).reshape(2, self.attributes), axis=0)
        low, high = np.where(np.isnan(both).any(axis=0), NAN, both)
        ids = np.array(sorted(self.model), np.int64)
        rows = np.array([self.model[i] for i in ids.tolist()]).reshape(len(ids), 3 * self.attributes)
        for tree in self.trees:
            assert np.array_equal(tree.match(low), ids[verify(low, rows)])
            assert np.array_equal(tree.match_intervals([low], [high])[1], ids[meets(low, high, rows)])

    @invariant()
    def every_tree_is_sound(self):
        for tree in getattr(self, "trees", []):
            tree.check()
            assert len(tree) == len(self.model)


class TestHistories(Histories.TestCase):
    settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


# ---- change and refusal ------------------------------------------------------------------------------


def even_rows(count, attributes, ranges, width, seed=1):
    rng = generator(seed)
    chosen = np.argsort(rng.random((count, attributes)), axis=1, kind="stable")[:, :ranges]
    low = rng.random((count, ranges)) * (1 - width)
    return np.stack([chosen, low, low + width], axis=2).reshape(count, 3 * ranges)


def test_an_index_that_starts_empty_grows_into_the_shape_of_one_that_was_built():
    rows = even_rows(9_000, 6, 6, 0.1)
    grown = HTree(6)
    shapes = []
    for i in range(9_000):
        grown.insert(np.array([i]), rows[i : i + 1])
        if i in (1_022, 1_023, 4_095):
            shapes.append(len(grown.plan.attributes))
    built = HTree.build(6, np.arange(9_000), rows)
    grown.check()
    assert shapes[0] == 0 < shapes[1] <= shapes[2] <= len(grown.plan.attributes)
    events = generator(2).random((50, 6))
    answers = zip(grown.match_many(events), built.match_many(events))
    assert all(np.array_equal(left, right) for left, right in answers)
    again = HTree.build(6, np.arange(9_000), rows)
    again.match_many(events)
    assert again.report() == built.report()


def test_churn_neither_grows_the_pools_without_end_nor_leaves_anything_behind():
    rows = even_rows(40_000, 5, 5, 0.2)
    index = HTree.build(5, np.arange(2_000), rows[:2_000])
    held, rng = np.arange(2_000), generator(4)
    sizes = []
    for start in range(2_000, 40_000, 500):
        gone = rng.choice(2_000, 500, replace=False)
        index.delete(held[gone])
        held[gone] = np.arange(start, start + 500)
        index.insert(held[gone], rows[held[gone]])
        sizes.append(index.memory_bytes())
    index.check()
    assert sizes[-1] <= 1.5 * sizes[5]
    event = generator(6).random(5)
    held.sort()
    assert np.array_equal(index.match(event), held[verify(event, rows[held])])


def test_a_subscription_is_found_and_removed_after_the_tree_was_built_anew():
    rows = even_rows(600, 4, 3, 0.2)
    index = HTree.build(4, np.arange(600), rows)
    index.tune(events=generator(8).random((100, 4)) ** 3)
    index.check()
    index.tune(0)
    assert index.plan.attributes == ()
    index.delete(np.arange(0, 600, 2))
    index.check()
    index.tune(1 << 20)
    assert index.plan.attributes
    index.delete(np.arange(1, 600, 2))
    index.check()
    assert index.tune().attributes == index.plan.attributes and len(index) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [[0, 0.5, 0.4, NAN, NAN, NAN]], [[0, NAN, 0.4, NAN, NAN, NAN]], [[2, 0.0, 0.4, NAN, NAN, NAN]],
        [[-1, 0.0, 0.4, NAN, NAN, NAN]], [[0.5, 0.0, 0.4, NAN, NAN, NAN]], [[NAN, 0.0, 0.4, NAN, NAN, NAN]],
        [[1, 0.0, 0.4, 1, 0.0, 0.4]], [[0, 0.0, 1.0], [0, 0.0, 1.0]], [[0, 0.0]],
    ],
)
def test_one_bad_row_on_the_short_way_is_refused_and_nothing_changes(rows):
    index = HTree.build(2, [1], [[0, 0.0, 1.0]], levels=2, cells=4)
    with pytest.raises(BadSubscription):
        index.insert(np.array([5]), np.array(rows, float))
    with pytest.raises(DuplicateId, match="id 1"):
        index.insert(np.array([1]), np.array([[0, 0.0, 1.0]]))
    with pytest.raises(InvalidInput, match="negative"):
        index.insert(np.array([-1]), np.array([[0, 0.0, 1.0]]))
    with pytest.raises(UnknownId, match="id 5"):
        index.delete(np.array([5]))
    with pytest.raises(InvalidInput, match="negative"):
        index.delete(np.array([-1]))
    index.check()
    assert index.match([0.5, 0.5]).tolist() == [1]


def test_the_short_way_takes_just_what_the_contract_takes():
    rng = generator(12)
    taken = 0
    for _ in range(4_000):
        triples = [[NAN] * 3, [0.0, 0.2, 0.4], [1.0, 0.5, 0.5], [0.0, -INF, INF]]
        row = np.concatenate([triples[i] for i in rng.integers(0, 4, 2)]).reshape(1, 6)
        row[0, rng.integers(0, 6)] = rng.choice([NAN, -1.0, 0.0, 0.3, 1.0, 2.0, INF])
        try:
            checked_rows(row, 2, 1)
        except BadSubscription:
            with pytest.raises(BadSubscription):
                HTree(2).insert(np.array([3]), row)
        else:
            taken += 1
            index = HTree(2)
            index.insert(np.array([3]), row)
            index.check()
    assert 500 < taken < 3_500


@pytest.mark.parametrize(
    "options",
    [
        {"levels": -1}, {"levels": 3}, {"levels": 1.5}, {"levels": True}, {"cells": 0}, {"cells": 256},
        {"indexed": [0, 0]}, {"indexed": [2]}, {"indexed": [-1]}, {"indexed": ["a"]}, {"domain": "even"},
        {"domain": (1.0, 0.0)}, {"domain": (0.0, INF)}, {"domain": (0.0, NAN)}, {"division": "both"},
        {"budget_bytes": -1},
    ],
)
def test_an_option_that_makes_no_tree_is_refused_by_name(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        HTree(2, **options)


def test_a_message_that_is_no_interval_is_refused():
    index = HTree(2)
    with pytest.raises(BadEvent, match=r"message 1: \[0.6, 0.5\] on attribute 0"):
        index.match_intervals([[0.1, 0.1], [0.6, 0.1]], [[0.2, 0.2], [0.5, 0.2]])
    with pytest.raises(BadEvent, match="attribute 1"):
        index.match_intervals([[0.1, NAN]], [[0.2, 0.2]])
    with pytest.raises(BadEvent, match="pass one of each"):
        index.match_intervals([[0.1, 0.1]], [[0.2, 0.2], [0.5, 0.2]])


def test_check_notices_what_broke():
    rows = even_rows(300, 3, 3, 0.2)

    def broken(by, invariant):
        index = HTree.build(3, np.arange(300), rows, levels=2, cells=4, domain=UNIT)
        index.check()
        by(index._tree)
        with pytest.raises(AssertionError, match=invariant):
            index.check()

    def swap_owners(tree):
        at = tree.buckets[tree.where[[0, 1], 0] >> 1, htree_kernels.START] + tree.where[[0, 1], 1]
        tree.owner[at] = tree.owner[at[::-1]]

    def lose_an_entry(tree):
        tree.buckets[tree.where[0, 0] >> 1, htree_kernels.COUNT] -= 1

    def misname_a_parent(tree):
        tree.buckets[tree.where[0, 0] >> 1, htree_kernels.BUCKET_PARENT] += 1

    broken(swap_owners, "cells|quick checks|stored path")
    broken(lose_an_entry, "entries are counted|no bucket is empty")
    broken(misname_a_parent, "knows where it hangs")


def test_after_warming_no_use_compiles_a_kernel_again():
    kernels = (
        htree_probe.match, htree_probe.describe, htree_probe.positions, htree_probe.cells_of,
        htree_probe.segments_of, htree_kernels.enter, htree_kernels.remove, htree_kernels.remove_paths,
    )
    htree_module.warm()
    before = [len(kernel.signatures) for kernel in kernels]
    assert min(before) == 1 and before[0] == 2  # of one tree, and of two
    rows = np.asfortranarray(even_rows(600, 3, 2, 0.2))
    rows.flags.writeable = False
    disjoint = {"division": "disjoint", "levels": 2}
    for options in ({}, {"levels": 0}, {"levels": 2, "cells": 1}, {"domain": "cdf"}, disjoint):
        index = HTree(3, **options)
        index.insert(np.arange(1_200)[::2], rows)
        index.tune(events=np.zeros((5, 3)))
        index.match(np.zeros(6)[::2])
        index.match_many(np.zeros((4, 3)).T.copy().T)
        index.match_intervals(np.zeros((4, 3)).T.copy().T, np.ones((4, 3)))
        index.delete(np.array([2, 4]))
        index.delete(np.array([6]))
    assert [len(kernel.signatures) for kernel in kernels] == before


def test_events_that_most_match_are_left_to_a_scan_unless_told_not_to_and_answers_are_the_same():
    rng = np.random.default_rng(7)
    half = 0.5 * rng.random(3_000)
    rows = np.column_stack([np.zeros(3_000), 0.5 - half, 0.5 + half])
    index, plain = (HTree.build(2, np.arange(3_000), rows, scans=scans) for scans in (True, False))
    events = np.column_stack([rng.random(80), rng.random(80)])
    events[::9] = np.nan
    for one, two in zip(index.match_many(events), plain.match_many(events)):
        assert np.array_equal(one, two)
    assert index._habit[htree_probe.STREAK] > 0 or index._habit[htree_probe.UNASKED] > 0
    assert not plain._habit[: htree_probe.LIMIT].any()
    for event in events:
        assert np.array_equal(index.match(event), plain.match(event))
    low = events - 0.1
    for one, two in zip(index.match_intervals(low, events), plain.match_intervals(low, events)):
        assert np.array_equal(one, two)
    index.delete(np.arange(0, 3_000, 2))
    plain.delete(np.arange(0, 3_000, 2))
    for event in events[:20]:
        assert np.array_equal(index.match(event), plain.match(event))
    index.check()
