"""Cells that are cut anew when values move: that it happens, that it helps, and that no answer shows it."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.indexes import space
from brokers.indexes.content import cells_drift
from brokers.indexes.content.cells import CellBitset
from brokers.indexes.content.cells_drift import regrid
from brokers.indexes.content.cells_plan import cell_of, make_plan
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
    index._regrid()
    assert index._cutting is not None
    index.insert(np.arange(10**6, 10**6 + HELD + 1), rows[np.arange(HELD + 1) % HELD])
    assert index._cutting is None
    index._regrid()
    index.delete(np.arange(HELD))
    index.delete(np.arange(10**6, 10**6 + HELD + 1))
    assert index._cutting is None and len(index) == 0
    index.insert(np.arange(3), rows[:3])
    index.check()


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


def test_few_ends_are_not_judged():
    watch = cells_drift.Watch(2)
    plan = make_plan(np.array([[0.0, 0.1, 0.2]] * 100), 2, 100)
    watch.seen[0, 3] = cells_drift.ENDS_MIN - 1
    assert not watch.drifted(plan.usual, 10_000, 1_000)
