"""Cells that are cut anew when values move: that it happens, that it helps, and that no answer shows it."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.indexes import space
from brokers.indexes.content import cells_drift
from brokers.indexes.content.cells import CellBitset
from brokers.indexes.content.cells_drift import regrid
from brokers.indexes.content.cells_plan import cell_of, make_plan, planning
from brokers.indexes.content.scan import Scan

HELD = 18_000  # more than are laid out anew at once


def rows_at(rng, born, speed):
    """Ranges of a twentieth on two of three attributes, around a place that moves on."""
    chosen = np.argsort(rng.random((len(born), 3)), axis=1, kind="stable")[:, :2]
    low = rng.random((len(born), 2)) + speed * born[:, None]
    return np.stack([chosen, low, low + 0.05], axis=2).reshape(len(born), 6)


def moved(speed, replaced, oracle=False, step=1):
    """An index (and an oracle) after so many replacements of the oldest by newer ones, `step` at a time."""
    rng = np.random.default_rng(1)
    born = np.arange(-HELD, replaced) / HELD
    rows = rows_at(rng, born, speed)
    made = [one.build(3, np.arange(HELD), rows[:HELD]) for one in (CellBitset, Scan)[: 1 + oracle]]
    for at in range(HELD, HELD + replaced, step):
        came = np.arange(at, min(at + step, HELD + replaced))
        for one in made:
            one.delete(came - HELD)
            one.insert(came, rows[came])
    return made, rows, rng.random((40, 3)) + speed * (replaced / HELD - rng.random((40, 1)))


@pytest.mark.parametrize("speed", [3.0, -3.0])
def test_values_that_move_get_new_cells_and_are_told_apart_as_by_a_fresh_index(speed, monkeypatch):
    turned = []
    turn = CellBitset._turn
    monkeypatch.setattr(CellBitset, "_turn", lambda self, blocks: turned.append(len(self)) or turn(self, blocks))
    (index, oracle), rows, events = moved(speed, 9_000, oracle=True, step=3)
    assert len(turned) >= 1
    index.check()
    ptr, ids = index.match_many(events)
    expected_ptr, expected = oracle.match_many(events)
    assert np.array_equal(ptr, expected_ptr) and np.array_equal(ids, expected)
    held = np.arange(9_000, 9_000 + HELD)
    fresh = CellBitset.build(3, held, rows[held])
    for one in (index, fresh):
        one.counters.reset()
        one.match_many(events)
    assert index.counters.verified < 2.0 * fresh.counters.verified + 200


def test_values_that_stay_get_no_new_cells(monkeypatch):
    monkeypatch.setattr(CellBitset, "_turn", lambda self, blocks: pytest.fail("new cells for the same values"))
    (index,), _, _ = moved(0.0, 4_000, step=2)
    index.check()


def test_a_cut_in_progress_is_forgotten_when_all_is_laid_out_anew():
    (index,), rows, _ = moved(0.0, 0)
    blocks = index._sides[index._side]
    index._cutting = index._look(blocks)
    index.insert(np.arange(10**6, 10**6 + HELD + 1), rows[np.arange(HELD + 1) % HELD])
    assert index._cutting is None
    index._cutting = index._planned_anew(index._sides[index._side], 100)
    index.delete(np.arange(HELD))
    index.delete(np.arange(10**6, 10**6 + HELD + 1))
    assert index._cutting is None and len(index) == 0
    index.insert(np.arange(3), rows[:3])
    index.check()


# ---- which attributes are constrained -------------------------------------------------------------------


def other_attributes(rng, born, ranges=3):
    """Ranges on some of the first ten attributes, and of the last ten once the table is replaced."""
    keys = rng.random((len(born), 20))
    keys[:, :10] += 2.0 * (rng.random((len(born), 1)) < 4.0 * born[:, None])
    keys[:, 10:] += 1.0
    chosen = np.argsort(keys, axis=1, kind="stable")[:, :ranges]
    low = 0.9 * rng.random(chosen.shape)
    return np.stack([chosen, low, low + 0.1], axis=2).reshape(len(born), 3 * ranges)


def gone_over(replaced, step=3, others=()):
    """An index of 20 attributes, and others, whose subscriptions go over from ten of these to the other ten."""
    rng = np.random.default_rng(1)
    rows = other_attributes(rng, np.arange(-HELD, replaced) / HELD)
    made = [one.build(20, np.arange(HELD), rows[:HELD]) for one in (CellBitset, *others)]
    for at in range(HELD, HELD + replaced, step):
        came = np.arange(at, min(at + step, HELD + replaced))
        for one in made:
            one.delete(came - HELD)
            one.insert(came, rows[came])
    return made, rows, rng.random((40, 20))


def work(index, events):
    index.counters.reset()
    index.match_many(events)
    return index.counters.words, index.counters.verified


def test_where_other_attributes_are_constrained_classes_follow_and_tell_apart_as_a_fresh_index_does():
    (index, oracle), rows, events = gone_over(HELD, others=(Scan,))
    index.check()
    ptr, ids = index.match_many(events)
    expected_ptr, expected = oracle.match_many(events)
    assert np.array_equal(ptr, expected_ptr) and np.array_equal(ids, expected)
    index._move(HELD)  # while some are on their way, both sides are asked
    held = np.arange(HELD, 2 * HELD)
    found, fresh = work(index, events), work(CellBitset.build(20, held, rows[held]), events)
    assert found[0] < 1.6 * fresh[0]
    assert found[1] < 2.0 * fresh[1] + 200


def test_that_classes_follow_is_what_tells_apart(monkeypatch):
    monkeypatch.setattr(cells_drift.Watch, "astray", lambda self, plan, came: False)
    (index,), rows, events = gone_over(HELD)
    held = np.arange(HELD, 2 * HELD)
    found, fresh = work(index, events), work(CellBitset.build(20, held, rows[held]), events)
    assert found[1] > 4.0 * fresh[1]


def test_the_same_attributes_in_other_places_get_no_new_classes(monkeypatch):
    monkeypatch.setattr(CellBitset, "_planned_anew", lambda *_: pytest.fail("new classes for the same attributes"))
    (index,), _, _ = moved(3.0, 6_000, step=2)
    index.check()


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_answers_are_a_scan_s_while_attributes_come_and_go(data):
    attributes = 6
    index, oracle, next_id = CellBitset(attributes), Scan(attributes), 0
    held: list[int] = []
    for _ in range(data.draw(st.integers(2, 6), "populations")):
        some = data.draw(st.lists(st.integers(0, attributes - 1), min_size=1, max_size=4, unique=True), "attributes")
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
        for _ in range(data.draw(st.integers(1, 12), "turns")):
            came = np.arange(next_id, next_id + 150)
            next_id += 150
            low = rng.integers(0, 6, (150, len(some), 1)).astype(float)
            named = np.broadcast_to(np.array(some, float)[None, :, None], low.shape)
            rows = np.concatenate([named, low, low + rng.integers(0, 3, low.shape)], axis=2).reshape(150, -1)
            gone = held[: max(0, len(held) - 1_000)]
            held = held[len(gone) :] + came.tolist()
            for one in (index, oracle):
                for part in (came[:100], *came[100:, None]):
                    one.insert(part, rows[part - came[0]])
                if gone:
                    one.delete(gone)
        events = rng.integers(0, 8, (5, attributes)).astype(float)
        for found, expected in zip(index.match_many(events), oracle.match_many(events)):
            assert np.array_equal(found, expected)
    index.check()


# ---- details --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [
    [[0.0, 1e308, 1.7e308]] * 100,
    [[0.0, -np.inf, np.inf]] * 100,
    [[0.0, 5.0, 5.0]] * 100,
    [[1.0, -1.7e308, 1.7e308]] * 100,
])
@pytest.mark.parametrize("recent", [[[0.0, 9e307, 1.7e308]] * 40, [[0.0, 7.0, 7.0]] * 40, [[0.0, -1e308, -9e307]] * 40])
def test_cells_for_what_is_to_come_ascend_whatever_the_values(rows, recent):
    rows, recent = np.array(rows), np.array(recent)
    plan = make_plan(rows, 2, 100)
    *_, cut = regrid(plan, rows, recent)
    assert cut is not None
    for a in range(2):
        mine = cut.borders[cut.border_from[a] : cut.border_from[a + 1]]
        assert np.isfinite(mine).all() and (mine[1:] >= mine[:-1]).all()
    assert np.array_equal(np.diff(cut.border_from), np.diff(plan.border_from))


def test_cells_reach_beyond_what_is_held_on_the_side_where_values_move():
    rng = np.random.default_rng(2)
    low = rng.random(2_000)
    rows = np.column_stack([np.zeros(2_000), low, low + 0.01])
    plan, shift = make_plan(rows, 1, 2_000), np.array([0.0, 0.5, 0.5])
    *_, up = regrid(plan, rows, rows[:100] + shift)
    *_, down = regrid(plan, rows, rows[:100] - shift)
    *_, still = regrid(plan, rows, rows[:100])
    assert up is not None and down is not None and still is not None

    def cells(cut, values):
        return len({int(cell_of(cut.border_from, cut.borders, 0, value)) for value in values})

    above, below = np.linspace(1.2, 1.8, 50), np.linspace(-0.8, -0.2, 50)
    assert cells(up, above) > 20 and cells(down, below) > 20
    assert cells(still, above) == cells(still, below) == 1


def test_memory_is_given_back_in_steps():
    memory = space.zeros(8 * space.LARGE_BYTES)
    memory[:] = 1
    steps = space.given_back(memory, len(memory), space.LARGE_BYTES)
    next(steps)
    assert memory.any()
    assert len(list(steps)) == 7
    assert not memory.any()
    assert not list(space.given_back(np.ones(10, np.uint8), 10, 5))


def test_an_array_that_is_expected_to_grow_is_not_copied_before_it_has_outgrown_that():
    for room, stays in ((0, False), (space.LARGE_BYTES // 8, True)):
        growing = space.Growing(np.int64, 1, 4, room)
        growing.rows[:] = 7
        before = growing._raw
        growing.grow(space.LARGE_BYTES // 16)
        assert (growing._raw is before) == stays
        assert (growing.rows[:4] == 7).all() and not growing.rows[4:].any()


def test_a_plan_made_in_steps_is_the_one_made_at_once():
    rows = other_attributes(np.random.default_rng(3), np.full(2_000, -0.5))
    at_once = make_plan(rows, 20, 100_000)
    *steps, plan = planning(rows, at_once.border_from, at_once.borders, 100_000)
    assert plan is not None and len(steps) > 10 and not any(steps)
    for field in fields(plan):
        assert np.array_equal(getattr(plan, field.name), getattr(at_once, field.name)), field.name


def test_after_a_plan_for_two_populations_two_more_follow():
    watch = cells_drift.Watch(2)
    watch._settles = 2
    for since, settled in ((100, False), (400, True), (400, True), (400, False)):
        watch._since = since
        assert watch.unsettled(1_000) == settled


def test_few_ends_are_not_judged():
    watch = cells_drift.Watch(2)
    plan = make_plan(np.array([[0.0, 0.1, 0.2]] * 100), 2, 100)
    watch.seen[0, 3] = cells_drift.ENDS_MIN - 1
    assert not watch.drifted(plan.usual, 10_000, 1_000)
