"""What is particular to one top-k index: its segments and blocks, its trees, how much work it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokers.indexes.topk import sliced, slices, tree, trees
from brokers.indexes.topk.contract import Query, message
from brokers.indexes.topk.fagin import Fagin
from brokers.indexes.topk.quick import Quick
from brokers.indexes.topk.sliced import Sliced
from brokers.indexes.topk.trees import Trees
from topology.draws import stream, uniforms


def drawn_rows(count, attributes, constraints, width, seed=1, levels=None):
    """Filters on distinct attributes, ranges and weights uniform; weights 1..levels if levels are given."""
    drawn = uniforms(stream(seed, 0, "topk"), 0, count * (attributes + 2 * constraints))
    order, low, weight = np.split(drawn, [count * attributes, count * (attributes + constraints)])
    chosen = np.argsort(order.reshape(count, attributes), axis=1, kind="stable")[:, :constraints]
    low = low.reshape(count, constraints) * (1 - width)
    weight = weight.reshape(count, constraints)
    if levels is not None:
        weight = 1 + np.floor(levels * weight)
    return np.stack([chosen, low, low + width, weight], axis=2).reshape(count, 4 * constraints)


def drawn_messages(count, attributes, seed=2):
    return uniforms(stream(seed, 0, "topk messages"), 0, count * attributes).reshape(count, attributes)


def same(found, expected):
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.scores.tolist() == expected.scores.tolist()
    assert found.tie_at_boundary == expected.tie_at_boundary


# ---- sliced


@pytest.mark.parametrize("levels", [None, 1, 3])
def test_sliced_stays_exact_over_many_segments_while_filters_come_and_go(monkeypatch, levels):
    monkeypatch.setattr(sliced, "SEGMENT_SLOTS", 8192)  # two blocks each
    monkeypatch.setattr(sliced, "SORT_MIN", 512)
    fast, plain = Sliced(8), Quick(8)
    rows = drawn_rows(60_000, 8, 4, 0.3, levels=levels)
    held = np.empty(0, np.int64)
    asked = drawn_messages(200, 8)
    number = 0
    for step, size in enumerate([30_000, 5_000, 3, 9_000, 1, 16_000, 1]):
        start = int(held.max(initial=-1)) + 1
        fresh = np.arange(start, start + size)
        gone = held[:: 3 + step % 3]
        for index in (fast, plain):
            index.delete(gone)
            index.insert(fresh, rows[fresh % 60_000])
        held = np.setdiff1d(np.concatenate([held, fresh]), gone)
        changed = held[::50]
        for index in (fast, plain):
            index.set_weights(changed, rows[changed % 60_000, 0].astype(np.int64), np.full(len(changed), 2.5))
        fast.check()
        for query in (Query(10), Query(70, ties="all"), Query(4, unit="receiver", exclude=int(held[0]))):
            values, weights = asked[number], np.floor(3 * asked[number + 1])
            number += 2
            values[8 - number % 8 :] = np.nan
            intervals = message(np.stack([values, values + 0.2], axis=1))
            for one in (message(values), message(values, weights), intervals):
                same(fast.match(one, query), plain.match(one, query))
    assert len(fast._cover) > 3


def test_a_block_of_smaller_sums_is_not_passed_by_if_few_of_its_constraints_can_match():
    """Blocks are ordered by what all constraints add up to; a message with one attribute asks for one."""
    fast, plain = Sliced(4), Quick(4)
    flat = [x for a in range(4) for x in (a, 0.0, 1.0, 3.0)]
    peaked = [0, 0.0, 1.0, 9.0, 1, 0.0, 1.0, 1.0, 2, 0.0, 1.0, 1.0, 3, 0.0, 1.0, 0.0]
    low = [x for a in range(4) for x in (a, 0.0, 1.0, 1.0)]
    rows = np.array([flat] * slices.BLOCK_SLOTS + [peaked] * slices.BLOCK_SLOTS + [low] * slices.BLOCK_SLOTS)
    for index in (fast, plain):
        index.insert(np.arange(len(rows)), rows)
    for values in ([0.5, np.nan, np.nan, np.nan], [0.5, 0.5, np.nan, np.nan], [0.5] * 4):
        for query in (Query(5), Query(5, threshold=8.5), Query(5, ties="all")):
            same(fast.match(message(values), query), plain.match(message(values), query))


def test_sliced_packs_itself_when_most_filters_have_gone():
    fast = Sliced(4)
    fast.insert(np.arange(20_000), drawn_rows(20_000, 4, 2, 0.2))
    before = fast.memory_bytes()
    fast.delete(np.arange(19_900))
    fast.check()
    assert len(fast) == 100 and fast.memory_bytes() < before / 50
    fast.delete(np.arange(19_900, 20_000))
    fast.check()
    assert len(fast.match(message([0.5] * 4), Query(3)).ids) == 0


def test_bounds_let_sliced_look_at_a_small_part_of_what_matches():
    fast = Sliced(20)
    fast.insert(np.arange(50_000), drawn_rows(50_000, 20, 5, 0.1))
    for values in drawn_messages(20, 20):
        fast.match(message(values), Query(10))
    assert fast.counters.verified < 0.01 * 20 * 50_000
    assert fast.counters.probed < 20 * (50_000 // slices.BLOCK_SLOTS + 1)  # blocks left out


def test_filters_of_a_few_more_constraints_leave_the_hints_of_others_as_they_were():
    fast, plain = Sliced(5), Quick(5)
    for width in range(1, 6):
        rows = drawn_rows(100, 5, width, 0.4, seed=width)
        for index in (fast, plain):
            index.insert(np.arange(100) + 100 * width, rows)
        fast.check()
        for values in drawn_messages(5, 5):
            same(fast.match(message(values), Query(3)), plain.match(message(values), Query(3)))


def test_sliced_counts_more_constraints_than_three_binary_digits_hold():
    attributes = 40
    fast, plain = Sliced(attributes), Quick(attributes)
    rows = drawn_rows(3_000, attributes, attributes, 0.6, levels=2)
    for index in (fast, plain):
        index.insert(np.arange(3_000), rows)
    for values in drawn_messages(10, attributes):
        same(fast.match(message(values), Query(10)), plain.match(message(values), Query(10)))
        sent = message(values, np.floor(4 * values))
        same(fast.match(sent, Query(10)), plain.match(sent, Query(10)))


@pytest.mark.parametrize(("name", "text"), [("_cover", "cover bits"), ("_begun", "begun bits")])
def test_check_notices_a_flipped_bit(name, text):
    fast = Sliced(2)
    fast.insert([0, 1], [[0, 0.0, 0.5, 1.0], [1, 0.5, 1.0, 1.0]])
    getattr(fast, name)[0, 3, 0] ^= np.uint64(2)
    with pytest.raises(AssertionError, match=text):
        fast.check()


def test_check_notices_a_bound_that_is_too_low():
    fast = Sliced(2)
    fast.insert([0, 1], [[0, 0.0, 0.5, 1.0], [1, 0.5, 1.0, 1.0]])
    fast._bounds[0, 1] = 0.5
    with pytest.raises(AssertionError, match="no block holds more than its bounds"):
        fast.check()


def test_no_caller_s_array_layout_compiles_a_kernel_again():
    fast = Sliced(2)
    fast.insert([0, 1], [[0, 0.0, 0.5, 1.0], [1, 0.5, 1.0, 1.0]])
    fast.match(message([0.1, 0.6]), Query(1))
    before = len(slices.search.signatures), len(slices.mark.signatures)
    ids, rows, values = np.arange(9)[3::2], np.asfortranarray(np.zeros((3, 8))), np.zeros((2, 2))[:, 0]
    rows[:, 4] = 1
    for array in (ids, rows, values):
        array.flags.writeable = False
    fast.insert(ids, rows)
    assert len(fast.match(message(values, values), Query(np.int32(1))).ids) == 0
    assert fast.match(message(values), Query(5)).ids.tolist() == [0]
    fast.delete(ids)
    assert (len(slices.search.signatures), len(slices.mark.signatures)) == before


# ---- trees


class TreeMachine(RuleBasedStateMachine):
    """An interval tree of tiny leaves and nodes, against a list."""

    @initialize()
    def build(self):
        self.tree, self.model, self.slot = tree.IntervalTree(), {}, 0

    @rule(ends=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=400))
    def insert(self, ends):
        low = np.array([min(e) for e in ends], float)
        high = np.array([max(e) for e in ends], float)
        slots = np.arange(self.slot, self.slot + len(ends))
        self.slot += len(ends)
        self.tree.insert(low, high, np.ones(len(ends)), slots)
        self.model.update(zip(slots.tolist(), zip(low.tolist(), high.tolist(), [1.0] * len(ends))))

    @rule(part=st.integers(1, 4), offset=st.integers(0, 3))
    def remove(self, part, offset):
        gone = np.array(sorted(self.model)[offset::part], np.int64)
        self.tree.remove(np.array([self.model[slot][0] for slot in gone.tolist()]), gone)
        for slot in gone.tolist():
            del self.model[slot]

    @rule(weight=st.integers(-3, 3))
    def reweigh(self, weight):
        for slot in sorted(self.model)[:3]:
            low, high, _ = self.model[slot]
            self.tree.reweigh(low, slot, float(weight))
            self.model[slot] = low, high, float(weight)

    @rule(ends=st.tuples(st.integers(-1, 13), st.integers(-1, 13)))
    def ask(self, ends):
        low, high = float(min(ends)), float(max(ends))
        state, touched = np.zeros((self.slot + 1, 2)), np.empty(self.slot + 1, np.int64)
        work = np.zeros(3, np.int64)
        self.tree.accumulate(low, high, np.nan, False, state, 1.0, touched, work)
        hits = {slot: weight for slot, (at, to, weight) in self.model.items() if at <= high and to >= low}
        found = touched[: work[2]].tolist()
        assert sorted(found) == sorted(hits) and work[1] == len(hits)
        assert all(state[slot, 0] == weight for slot, weight in hits.items())

    @invariant()
    def sound(self):
        if hasattr(self, "tree"):
            self.tree.check()
            expected = sorted((slot, *interval) for slot, interval in self.model.items())
            assert self.tree.items() == expected


class TestTheTreeIsAListOfIntervals(TreeMachine.TestCase):
    settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


def test_a_tree_of_three_levels_stays_sound_while_it_grows_shrinks_and_runs_empty():
    drawn = np.floor(uniforms(stream(5, 0, "tree"), 0, 48_000).reshape(24_000, 2) * 500)
    low, high = drawn.min(axis=1), drawn.max(axis=1)
    grown = tree.IntervalTree()
    slots = np.arange(24_000)
    for start in range(0, 24_000, 8_000):
        part = slots[start : start + 8_000]
        grown.insert(low[part], high[part], low[part], part)
        gone = part[::3]
        grown.remove(low[gone], gone)
        grown.check()
    assert grown.head[1] == 2
    held = np.setdiff1d(slots, np.concatenate([slots[s : s + 8_000][::3] for s in (0, 8_000, 16_000)]))
    assert grown.items() == list(zip(held.tolist(), low[held], high[held], low[held]))
    state, touched, work = np.zeros((24_000, 2)), np.empty(24_000, np.int64), np.zeros(3, np.int64)
    grown.accumulate(100.0, 120.0, np.nan, False, state, 1.0, touched, work)
    hit = held[(low[held] <= 120) & (high[held] >= 100)]
    assert np.sort(touched[: work[2]]).tolist() == hit.tolist()
    for part in np.array_split(held[np.argsort(high[held], kind="stable")], 4):
        grown.remove(low[part], part)
        grown.check()
    assert len(grown) == 0 and grown.head[1] == 0


def long_and_short(count, attributes):
    """Every constraint short but one in two hundred, which spans all: bad for leaves sorted by low end."""
    rows = drawn_rows(count, attributes, 3, 0.001)
    rows[::200, 1::4], rows[::200, 2::4] = 0.0, 1.0
    return rows


@pytest.mark.parametrize("shape", ["uniform", "long and short"])
def test_a_match_in_trees_compares_a_logarithm_per_attribute_and_a_constant_per_hit(shape):
    for count in (500, 4_000, 32_000):
        for attributes in (3, 6, 12):
            index = Trees(attributes)
            make = long_and_short if shape == "long and short" else lambda n, m: drawn_rows(n, m, 3, 0.05)
            index.insert(np.arange(count), make(count, attributes))
            for values in drawn_messages(5, attributes):
                index.counters.reset()
                index.match(message(values), Query(10))
                work = index.counters
                path = tree.LEAF + tree.FAN * (1 + np.log2(count) / np.log2(tree.FAN / 2))
                assert work.probed <= attributes * path + 4 * work.hits
                assert work.matched <= work.entered <= work.touched <= work.hits


def test_hits_are_all_the_trees_pay_for_whatever_k_is():
    index = Trees(6)
    index.insert(np.arange(20_000), drawn_rows(20_000, 6, 3, 0.1))
    values = message(drawn_messages(1, 6)[0])
    seen = set()
    for k in (1, 10, 100, 1_000):
        index.counters.reset()
        index.match(values, Query(k))
        seen.add((index.counters.probed, index.counters.hits, index.counters.touched))
        assert index.counters.entered <= min(index.counters.touched, (k + 1) * 25)
    assert len(seen) == 1


def test_the_memory_of_trees_grows_as_the_constraints_do():
    small, large = (Trees(8) for _ in range(2))
    small.insert(np.arange(8_192), drawn_rows(8_192, 8, 4, 0.1))
    large.insert(np.arange(65_536), drawn_rows(65_536, 8, 4, 0.1))
    assert 4 < large.memory_bytes() / small.memory_bytes() < 16


def test_a_tree_that_ran_empty_leaves_the_master_index():
    index = Trees(3)
    index.insert([1, 2], [[0, 0.0, 1.0, 1.0], [2, 0.0, 1.0, 1.0]])
    index.delete([1])
    assert sorted(index._trees) == [2]
    index.check()


def test_few_touched_filters_are_found_through_their_list_and_many_by_reading_all():
    rows = drawn_rows(4_000, 2, 1, 0.01)
    index, plain = Trees(2), Quick(2)
    for each in (index, plain):
        each.insert(np.arange(4_000), rows)
    for width in (0.0, 0.9):
        asked = message([[0.05, 0.05 + width]] * 2)
        index.counters.reset()
        same(index.match(asked, Query(25)), plain.match(asked, Query(25)))
        assert (trees.DENSE * index.counters.touched > 4_000) == (width > 0)


# ---- fagin


def test_the_threshold_algorithm_stops_before_the_end_of_its_lists():
    index = Fagin(6)
    index.insert(np.arange(20_000), drawn_rows(20_000, 6, 3, 0.5))
    for values in drawn_messages(10, 6):
        index.match(message(values), Query(5))
    assert 0 < index.counters.probed < 10 * 3 * 20_000 / 2
