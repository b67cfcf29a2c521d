"""A second tree beside the first where values move: that it comes, that it helps, and that no answer shows it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.indexes.content import cells_drift, htree
from brokers.indexes.content.htree import HTree
from brokers.indexes.content.scan import Scan

HELD = 18_000  # more than are built anew at once


def rows_at(rng, born, speed):
    """Ranges of a twentieth on two of three attributes, around a place that moves on."""
    chosen = np.argsort(rng.random((len(born), 3)), axis=1, kind="stable")[:, :2]
    low = rng.random((len(born), 2)) + speed * born[:, None]
    return np.stack([chosen, low, low + 0.05], axis=2).reshape(len(born), 6)


def events_at(rng, now, speed, count=30):
    return rng.random((count, 3)) + speed * (now - rng.random((count, 1)))


def counted_turns(monkeypatch):
    """How many were held at each turn to a new tree."""
    turned, turn = [], HTree._turn
    monkeypatch.setattr(HTree, "_turn", lambda self, side: turned.append(len(self)) or turn(self, side))
    return turned


def alike(index, oracle, events):
    return all(np.array_equal(one, two) for one, two in zip(index.match_many(events), oracle.match_many(events)))


@pytest.mark.parametrize("speed", [3.0, -3.0])
def test_values_that_move_get_a_new_tree_which_tells_them_apart(speed, monkeypatch):
    turned, rng, replaced = counted_turns(monkeypatch), np.random.default_rng(1), 12_000
    rows = rows_at(rng, np.arange(-HELD, replaced) / HELD, speed)
    index, oracle = (one.build(3, np.arange(HELD), rows[:HELD]) for one in (HTree, Scan))
    beside = 0
    for at in range(HELD, HELD + replaced, 3):
        came = np.arange(at, at + 3)
        for one in (index, oracle):
            one.delete(came - HELD)
            one.insert(came, rows[came])
        if at % 600 == 0:
            assert alike(index, oracle, events_at(rng, (at - HELD) / HELD, speed, 4))
            beside += index._other is not None
            if beside == 2:
                index.check()
    assert turned and beside > 2
    index.check()
    held, events = np.arange(replaced, replaced + HELD), events_at(rng, replaced / HELD, speed)
    fresh = HTree.build(3, held, rows[held])
    assert alike(index, oracle, events)
    for one in (index, fresh):
        one.counters.reset()
        one.match_many(events)
    # Coarser cells than a fresh tree's, and some of the old ones, but far from all that moved.
    assert index.counters.verified < fresh.counters.verified + 0.03 * HELD * len(events)


def test_without_following_the_tree_is_left_as_it_was_and_reaches_far_more(monkeypatch):
    turned, rng, verified = counted_turns(monkeypatch), np.random.default_rng(2), []
    rows = rows_at(rng, np.arange(-HELD, HELD) / HELD, 3.0)
    events = events_at(rng, 1.0, 3.0)
    for follows in (True, False):
        index = HTree.build(3, np.arange(HELD), rows[:HELD], follows=follows)
        for at in range(HELD, 2 * HELD, 10):
            came = np.arange(at, at + 10)
            index.delete(came - HELD)
            index.insert(came, rows[came])
        index.counters.reset()
        index.match_many(events)
        verified.append(index.counters.verified)
        index.check()
        if follows:
            assert turned
            turned.clear()
    assert not turned and verified[1] > 5 * verified[0]


def test_values_that_stay_get_no_new_tree(monkeypatch):
    monkeypatch.setattr(HTree, "_turn", lambda self, side: pytest.fail("a new tree for the same values"))
    rng = np.random.default_rng(3)
    rows = rows_at(rng, np.zeros(HELD + 4_000), 0.0)
    index = HTree.build(3, np.arange(HELD), rows[:HELD])
    for at in range(HELD, HELD + 4_000, 2):
        index.delete(np.arange(at - HELD, at - HELD + 2))
        index.insert(np.arange(at, at + 2), rows[at : at + 2])
    index.check()


def test_a_tree_of_many_that_quadruples_grows_beside_the_old_one(monkeypatch):
    turned, rng = counted_turns(monkeypatch), np.random.default_rng(4)
    monkeypatch.setattr(htree, "AT_ONCE", 500)
    rows = rows_at(rng, np.zeros(4_000), 0.0)
    index, oracle = HTree.build(3, np.arange(900), rows[:900], levels=2), Scan.build(3, np.arange(900), rows[:900])
    for at in range(900, 4_000):
        for one in (index, oracle):
            one.insert(np.arange(at, at + 1), rows[at : at + 1])
    assert len(turned) == 1 and 3_600 <= turned[0] < 4_000
    index.check()
    assert alike(index, oracle, events_at(rng, 0.0, 0.0))


def test_the_tree_is_given_up_when_all_has_moved_and_deleting_all_leaves_nothing():
    rng = np.random.default_rng(5)
    rows = rows_at(rng, np.zeros(HELD), 0.0)
    index = HTree.build(3, np.arange(HELD), rows)
    *_, side = index._planned()
    index._turn(side)
    assert index.report().entries == HELD and index._other is not None
    index.delete(np.arange(0, HELD, 2))
    index.check()
    assert index._other is None and index.report().entries == HELD // 2
    index.delete(np.arange(1, HELD, 2))
    index.check()
    assert index.report().entries == 0 and index.match(np.zeros(3)).tolist() == []


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.lists(st.tuples(st.floats(-4, 4), st.integers(1, 40)), min_size=1, max_size=6))
def test_any_drift_is_answered_as_by_a_scan_at_each_step(seed, ways):
    """Each part of the way goes at its own speed and in steps of its own length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(htree, "AT_ONCE", 64)
        patch.setattr(cells_drift, "CHECKED_MIN", 16)
        patch.setattr(cells_drift, "ENDS_MIN", 8)
        rng, held, place = np.random.default_rng(seed), 300, 0.0
        rows = rows_at(rng, np.zeros(held), 0.0)
        index, oracle = HTree.build(3, np.arange(held), rows, levels=2), Scan.build(3, np.arange(held), rows)
        at = held
        for speed, step in ways:
            for _ in range(12):
                place += speed * step / held
                came, fresh = np.arange(at, at + step), rows_at(rng, np.full(step, place), 1.0)
                for one in (index, oracle):
                    one.delete(came - held)
                    one.insert(came, fresh)
                at += step
                assert alike(index, oracle, rng.random((3, 3)) + place)
            index.check()
