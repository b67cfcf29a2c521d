"""CellBitset stays exact and sound while it splits, moves to new plans and shrinks; what it saves."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokers.indexes import space
from brokers.indexes.content import cells, cells_edit, cells_match
from brokers.indexes.content.cells import CellBitset
from brokers.indexes.content.cells_blocks import NODES
from brokers.indexes.content.cells_plan import make_plan
from brokers.indexes.content.contract import verify
from brokers.indexes.content.scan import Scan

NAN, INF = math.nan, math.inf


def generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def random_rows(rng, count, attributes, ranges, width=None):
    """Subscriptions on distinct attributes; `width` of each range, or both ends on a grid of few integers."""
    chosen = np.argsort(rng.random((count, attributes)), axis=1, kind="stable")[:, :ranges]
    if width is None:
        ends = np.sort(rng.integers(0, 8, (count, ranges, 2)).astype(float), axis=2)
        ends[rng.random((count, ranges)) < 0.1, 1] = INF
        ends[rng.random((count, ranges)) < 0.1, 0] = -INF
    else:
        low = rng.random((count, ranges)) * (1 - width)
        ends = np.stack([low, low + width], axis=2)
    rows = np.concatenate([chosen[:, :, None], ends], axis=2)
    if width is None:
        rows[rng.random((count, ranges)) < 0.3] = NAN
    return rows.reshape(count, 3 * ranges)


def random_events(rng, count, attributes):
    events = rng.integers(-1, 9, (count, attributes)).astype(float)
    events[rng.random((count, attributes)) < 0.1] = NAN
    return events


def assert_same(index, oracle, events):
    ptr, ids = index.match_many(events)
    expected_ptr, expected = oracle.match_many(events)
    assert np.array_equal(ptr, expected_ptr) and np.array_equal(ids, expected)
    for event in events[:2]:
        assert np.array_equal(index.match(event), oracle.match(event))


class Turning(RuleBasedStateMachine):
    """A small index that takes every way a large one takes: plans outgrown, subscriptions under way."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(cells, "EXPECTED_MIN", 4)
        self.patch.setattr(cells, "AT_ONCE", 0)

    def teardown(self):
        self.patch.undo()

    @initialize(attributes=st.integers(1, 5), spacing=st.sampled_from([1, 977, 1 << 54]))
    def build(self, attributes, spacing):
        self.attributes, self.spacing, self.next = attributes, spacing, 0
        self.index, self.oracle = CellBitset(attributes), Scan(attributes)
        self.held: list[int] = []

    @rule(
        seed=st.integers(0, 1 << 30), count=st.integers(1, 80), ranges=st.integers(0, 5), single=st.booleans()
    )
    def insert(self, seed, count, ranges, single):
        rows = random_rows(generator(seed), count, self.attributes, min(ranges, self.attributes))
        ids = (np.arange(self.next, self.next + count) % 512) * self.spacing
        fresh = ~np.isin(ids, self.held)
        ids, rows = ids[fresh], rows[fresh]
        self.next += count
        for part in np.split(np.arange(len(ids)), len(ids)) if single and len(ids) else [np.arange(len(ids))]:
            self.index.insert(ids[part], rows[part])
        self.oracle.insert(ids, rows)
        self.held.extend(ids.tolist())

    @rule(seed=st.integers(0, 1 << 30), share=st.sampled_from([0.1, 0.5, 0.95, 1.0]))
    def delete(self, seed, share):
        gone = [id_ for id_, draw in zip(self.held, generator(seed).random(len(self.held))) if draw < share]
        self.index.delete(np.array(gone, np.int64))
        self.oracle.delete(np.array(gone, np.int64))
        self.held = [id_ for id_ in self.held if id_ not in set(gone)]

    @rule(seed=st.integers(0, 1 << 30))
    def update(self, seed):
        some = np.array(self.held[:5], np.int64)
        rows = random_rows(generator(seed), len(some), self.attributes, self.attributes)
        self.index.update(some, rows)
        self.oracle.update(some, rows)

    @rule(seed=st.integers(0, 1 << 30))
    def match(self, seed):
        assert_same(self.index, self.oracle, random_events(generator(seed), 4, self.attributes))

    @invariant()
    def sound(self):
        if hasattr(self, "index"):
            self.index.check()
            assert len(self.index) == len(self.held)


class TestTurning(Turning.TestCase):
    settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("seed", range(40))
def test_a_small_index_answers_as_the_oracle_on_a_grid(seed):
    rng = generator(seed)
    attributes = int(rng.integers(1, 9))
    index, oracle = CellBitset(attributes), Scan(attributes)
    for start in range(0, 1_200, 300):
        rows = random_rows(rng, 300, attributes, int(rng.integers(0, attributes + 1)))
        for one in (index, oracle):
            one.insert(np.arange(start, start + 300), rows)
        gone = start + rng.permutation(300)[:50]
        for one in (index, oracle):
            one.delete(gone)
        assert_same(index, oracle, random_events(rng, 20, attributes))
    index.check()


@pytest.fixture(scope="module")
def grown() -> Iterator[tuple[CellBitset, Scan]]:
    """20,000 subscriptions with the same two attributes, half of them inserted into what was laid out."""
    rng = generator(5)
    rows = random_rows(rng, 20_000, 2, 2, 0.05)
    index, oracle = CellBitset(2), Scan(2)
    index.insert(np.arange(10_000), rows[:10_000])
    index.insert(np.arange(10_000, 20_000), rows[10_000:])
    oracle.insert(np.arange(20_000), rows)
    return index, oracle


def test_leaves_and_nodes_split_and_answers_stay(grown):
    index, oracle = grown
    index.check()
    assert index._sides[0].state[NODES] > 4
    assert_same(index, oracle, generator(6).random((50, 2)))


def test_inserted_in_place_it_looks_at_little_more_than_laid_out_anew(grown):
    index, oracle = grown
    fresh = CellBitset(2)
    fresh.insert(np.arange(20_000), oracle.rows(np.arange(20_000)))
    events = generator(7).random((200, 2))
    for one in (index, fresh):
        one.counters.reset()
        one.match_many(events)
    assert index.counters.words < 1.6 * fresh.counters.words


def test_slots_of_deleted_subscriptions_are_used_again():
    rng = generator(8)
    index = CellBitset(4)
    index.insert(np.arange(5_000), random_rows(rng, 5_000, 4, 2, 0.1))
    before = index.memory_bytes()
    for _ in range(200):
        again = rng.permutation(5_000)[:100]
        index.update(again, random_rows(rng, 100, 4, 2, 0.1))
    # Four times as many inserts as it holds; each leaf that is full when one comes is split.
    assert index.memory_bytes() < 2.3 * before
    index.check()


def test_few_events_reach_a_subscription_of_narrow_ranges():
    index = CellBitset(4)
    rows = random_rows(generator(9), 20_000, 4, 2, 0.1)
    index.insert(np.arange(20_000), rows)
    index.match_many(generator(10).random((100, 4)))
    counters = index.counters
    assert counters.verified < 1.2 * counters.matched + 100  # cells are a 255th of the values
    assert counters.words < 100 * 20_000 * 4 / 64 / 4  # a quarter of what comparing all would take


def test_a_missing_value_rules_out_all_that_constrain_it_before_any_is_verified():
    index = CellBitset(2)
    index.insert(np.arange(300), [[i % 2, 0.0, 1.0] for i in range(300)])
    assert index.match([NAN, 0.5]).tolist() == list(range(1, 300, 2))
    assert index.counters.verified == 150


def test_attributes_are_told_apart_beyond_what_is_compared_by_cell():
    rng = generator(11)
    rows = random_rows(rng, 3_000, 300, 30, 0.9)
    index, oracle = CellBitset(300), Scan(300)
    for one in (index, oracle):
        one.insert(np.arange(3_000), rows)
    events = 0.1 + 0.8 * rng.random((20, 300))
    events[::5, rng.permutation(300)[:30]] = NAN
    assert_same(index, oracle, events)
    assert index.match_many(events)[0][-1] > 0
    index.check()


def test_data_that_drifts_out_of_all_cells_is_matched_exactly():
    rng = generator(12)
    index, oracle = CellBitset(3), Scan(3)
    for step in range(5):
        rows = random_rows(rng, 400, 3, 2, 0.1)
        rows[:, 1::3] += 100 * step
        rows[:, 2::3] += 100 * step
        for one in (index, oracle):
            one.insert(np.arange(400) + 400 * step, rows)
    assert_same(index, oracle, rng.random((30, 3)) + 100 * rng.integers(0, 5, (30, 1)))
    index.check()


def test_a_wider_row_makes_the_others_follow_to_wider_records(monkeypatch):
    monkeypatch.setattr(cells, "AT_ONCE", 0)
    rng = generator(13)
    index, oracle = CellBitset(6), Scan(6)
    parts = [(0, 500, 2), (500, 501, 6), (501, 520, 1)]
    for start, end, ranges in parts:
        rows = random_rows(rng, end - start, 6, ranges, 0.4)
        for one in (index, oracle):
            one.insert(np.arange(start, end), rows)
        assert_same(index, oracle, rng.random((20, 6)))
        index.check()
    assert sum(side is not None for side in index._sides) == 2  # still on their way
    rows = random_rows(rng, 200, 6, 3, 0.4)
    for i in range(200):
        index.insert([600 + i], rows[i : i + 1])
    oracle.insert(np.arange(600, 800), rows)
    assert sum(side is not None for side in index._sides) == 1
    assert_same(index, oracle, rng.random((20, 6)))
    index.check()


def test_ids_in_every_distance_come_back_in_order():
    ids = np.array([2**63 - 1, 0, 5, 2**62, 4, 70, 3])
    index = CellBitset(1)
    index.insert(ids, [[0, 0.0, 1.0]] * 7)
    assert index.match([0.5]).tolist() == sorted(ids.tolist())
    many = generator(14).permutation(5_000)
    index.insert(1_000 + many, np.tile([0, 0.0, 1.0], (5_000, 1)))
    assert index.match([1.0]).tolist() == sorted([*ids.tolist(), *(1_000 + many).tolist()])


def test_emptied_it_is_as_small_as_new():
    index = CellBitset(2)
    index.insert(np.arange(1_000), random_rows(generator(15), 1_000, 2, 2, 0.1))
    for id_ in range(1_000):
        index.delete(np.array([id_]))
    assert len(index) == 0 and index.match([0.5, 0.5]).size == 0
    index.check()
    assert index._sides == [None, None]


def test_what_shares_attributes_shares_a_class():
    rng = generator(16)
    rows = random_rows(rng, 20_000, 20, 5, 0.1)
    plan = make_plan(rows, 20, 1_000_000)
    # Two groups of ten attributes: five ranges are at least three in one.
    assert plan.groups == 2
    assert np.bincount((plan.columns >= 0).sum(axis=1))[3] == 2 * math.comb(10, 3)


def test_no_caller_s_array_layout_compiles_a_kernel_again():
    cells.warm()
    kernels = (cells_match.match, cells_edit.insert, cells_edit.delete, cells_edit.delete_one, cells_edit.give_up)
    before = [len(kernel.signatures) for kernel in kernels]
    index = CellBitset(2)
    ids, rows, event = np.arange(6)[::2], np.asfortranarray(np.zeros((3, 6))), np.full(2, 0.0)
    rows[:, 3] = 1
    for array in (ids, rows, event):
        array.flags.writeable = False
    index.insert(ids, rows)
    index.insert(ids[:1] + 10, rows[:1])
    assert index.match(event).tolist() == [0, 2, 4, 10]
    single = ids[1:2]
    index.delete(single)
    index.delete(np.setdiff1d(ids, single))
    index.delete([10])
    assert len(index) == 0
    assert [len(kernel.signatures) for kernel in kernels] == before


def test_check_notices_a_changed_cell_a_lost_box_and_a_wrong_id():
    for spoil, message in (
        (lambda blocks: blocks.leaves.rows[0].__setitem__(0, 77), "cells say what the stored ranges say"),
        (lambda blocks: blocks.nodes.rows[0].__setitem__(0, 77), "covers its cells from below"),
        (lambda blocks: blocks.records.rows[0].__setitem__(0, 77), "a slot carries its id"),
        (lambda blocks: blocks.held.rows[0].__setitem__(0, 3), "leaves count what they hold"),
    ):
        index = CellBitset(2)
        index.insert([0, 1], [[0, 0.0, 0.5], [0, 0.5, 1.0]])
        index.check()
        spoil(index._sides[0])
        with pytest.raises(AssertionError, match=message):
            index.check()


def test_a_growing_array_keeps_its_rows_on_cache_lines():
    array = space.Growing(np.uint64, 3, 2)
    array.rows[:] = 7
    for count in (3, 50, 5_000, 100_000):
        held = len(array.rows)
        array.grow(count)
        assert array.rows.shape == (count, 3) and array.rows.ctypes.data % 64 == 0
        assert (array.rows[:2] == 7).all() and (array.rows[held:] == 0).all()


def test_a_large_array_grows_in_its_place_and_one_without_room_moves(monkeypatch):
    array = space.Growing(np.uint64, 4, 200_000)
    place = array.rows.ctypes.data
    array.rows[-1] = 7
    array.grow(800_000)
    assert array.rows.ctypes.data == place and (array.rows[199_999] == 7).all() and not array.rows[200_000:].any()
    array.grow(4_000_000)
    assert (array.rows[199_999] == 7).all() and not array.rows[-1].any()

    mapped = mmap.mmap

    def limited(handle, length, **options):
        if length > space.LARGE_BYTES:
            raise OSError("Cannot allocate memory")
        return mapped(handle, length, **options)

    monkeypatch.setattr(space.mmap, "mmap", limited)
    assert len(space.zeros(space.LARGE_BYTES, 16)) == space.LARGE_BYTES
    with pytest.raises(MemoryError, match="4,194,305 bytes"):
        space.zeros(space.LARGE_BYTES + 1, 16)


def test_verify_agrees_on_thousands_of_single_inserts_and_deletes():
    rng = generator(17)
    rows = random_rows(rng, 3_000, 5, 3, 0.3)
    index = CellBitset(5)
    held = np.zeros(3_000, np.bool_)
    for i in range(3_000):
        index.insert(np.array([i]), rows[i : i + 1])
        held[i] = True
        if i % 3 == 2:
            gone = int(rng.choice(np.flatnonzero(held)))
            index.delete(np.array([gone]))
            held[gone] = False
    events = rng.random((30, 5))
    for event in events:
        assert np.array_equal(index.match(event), np.flatnonzero(held & verify(event, rows)))
    index.check()
