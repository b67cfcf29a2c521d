"""A scan beside an index: when a copy is made, that it is asked and left, and that no answer shows it."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.indexes.content import beside
from brokers.indexes.content.beside import Beside, RoomyScan, mixed
from brokers.indexes.content.cells import CellBitset
from brokers.indexes.content.scan import Scan
from brokers.indexes.content.store import RangeStore

NAN = np.nan


def wide_rows(rng, count):
    """Half of all hold everything, a quarter three quarters, a quarter next to nothing, on one of two attributes."""
    low, high = np.zeros(count), np.ones(count)
    high[: count // 4] = 0.75
    low[-(count // 4) :] = high[-(count // 4) :] = rng.random(count // 4)
    return np.column_stack([rng.integers(0, 2, count), low, high])


def both(rows):
    ids = 3 * np.arange(len(rows))
    return CellBitset.build(2, ids, rows), Scan.build(2, ids, rows)


def assert_same(index, oracle, events):
    ptr, ids = index.match_many(events)
    expected_ptr, expected = oracle.match_many(events)
    assert np.array_equal(ptr, expected_ptr) and np.array_equal(ids, expected)
    for event in events:
        assert np.array_equal(index.match(event), oracle.match(event))
    index.check()


def test_a_copy_is_made_once_most_events_match_most_and_answers_through_all_changes():
    rng = np.random.default_rng(1)
    index, oracle = both(wide_rows(rng, 2_000))
    events = rng.random((40, 2))
    events[::5] = NAN
    events[1::5] = 2.0
    assert_same(index, oracle, events[:1])
    assert not index._scan
    assert_same(index, oracle, events)
    assert index._scan
    for turn in range(4):
        for one in (index, oracle):
            one.delete(3 * np.arange(100 * turn, 100 * turn + 50))
        fresh, ids = wide_rows(np.random.default_rng(turn), 30), 3 * np.arange(100 * turn, 100 * turn + 30)
        for one in (index, oracle):
            one.insert(ids, fresh)
            one.insert(np.array([50_000 + turn]), fresh[:1])
        assert_same(index, oracle, events[: 10 + turn])
    for one in (index, oracle):
        one.insert(np.array([60_000]), np.array([[0.0, 0.1, 0.9, 1.0, 0.2, 0.8]]))
    assert_same(index, oracle, events)
    assert index._scan


def test_events_that_match_few_are_answered_by_the_index_beside_a_copy(monkeypatch):
    rng = np.random.default_rng(2)
    index, oracle = both(wide_rows(rng, 2_000))
    index._scan.fill(*index._held())
    scanned = []
    match = Beside.match
    monkeypatch.setattr(Beside, "match", lambda self, events: scanned.append(len(events)) or match(self, events))
    events = np.full((6, 2), 0.5)
    events[[1, 4]] = -1.0
    ptr, ids = index.match_many(events)
    expected_ptr, expected = oracle.match_many(events)
    assert np.array_equal(ptr, expected_ptr) and np.array_equal(ids, expected)
    assert scanned == [4]


def test_a_copy_that_no_event_asks_for_is_dropped_and_so_is_one_that_only_changes(monkeypatch):
    rng = np.random.default_rng(3)
    index, oracle = both(wide_rows(rng, 1_000))
    index._scan.fill(*index._held())
    monkeypatch.setattr(beside, "FORGET_EVENTS", 20)
    assert_same(index, oracle, np.full((12, 2), -1.0))
    assert not index._scan
    index._scan.fill(*index._held())
    for i in range(2_000):
        index.insert(np.array([90_000 + i]), np.array([[0.0, 0.5, 0.6]]))
        index.delete(np.array([90_000 + i]))
    assert not index._scan
    assert_same(index, oracle, rng.random((3, 2)))


def test_after_many_scans_in_a_row_some_events_are_scanned_for_unasked_but_not_all():
    copy = Beside(1)
    copy.fill(np.arange(10), np.tile([0.0, 0.0, 1.0], (10, 1)))
    asked = 0
    for _ in range(200):
        if not copy.sure(1):
            asked += 1
            assert copy.chosen(np.array([1e9])).all()
    assert 200 // beside.UNASKED_MOST <= asked < 40
    while copy.sure(1):
        pass
    assert not copy.chosen(np.array([0.0])).any()
    assert not copy.sure(1)


@pytest.mark.parametrize("held", [0, 1, 2])
def test_an_answer_that_is_held_keeps_what_it_says(held):
    store = RangeStore(1)
    store.insert(np.arange(100), np.tile([0.0, 0.0, 1.0], (100, 1)))
    scan = RoomyScan()
    kept = [scan.match(store, np.array([[0.5]]))[1] for _ in range(held)]
    store.delete(np.arange(10), np.arange(10))
    later = scan.match(store, np.array([[0.5]]))[1]
    assert all(np.array_equal(answer, np.arange(100)) for answer in kept)
    assert np.array_equal(later, np.arange(10, 100))
    del kept, later
    room = scan._room
    scan.match(store, np.array([[0.5]]))
    assert scan._room is room


def test_answers_of_two_ways_are_put_together_by_event():
    scans = np.array([True, False, False, True])
    ptr, ids = mixed(scans, (np.array([0, 2, 3]), np.array([5, 6, 9])), (np.array([0, 0, 1]), np.array([7])))
    assert ptr.tolist() == [0, 2, 2, 3, 4] and ids.tolist() == [5, 6, 7, 9]
