"""Counting, Tama and Rein: when they compile, what they look up, and that `check` sees damage."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.errors import InvalidInput
from brokers.indexes.content import compiled, counting, quick_scan, rein, store, tama
from brokers.indexes.content.compiled import Grid, ranges_of
from brokers.indexes.content.contract import checked_rows, verify
from brokers.indexes.content.counting import Counting
from brokers.indexes.content.rein import Rein
from brokers.indexes.content.store import RangeStore
from brokers.indexes.content.tama import Tama
from brokers.indexes.content.warm import warm

KINDS = [Counting, Tama, Rein]
N = 2_000


def table(width=0.05, attributes=4, ranges=2):
    rng = np.random.Generator(np.random.PCG64(9))
    rows = np.empty((N, ranges, 3))
    rows[:, :, 0] = np.argsort(rng.random((N, attributes)), axis=1)[:, :ranges]
    rows[:, :, 1] = rng.random((N, ranges)) * (1 - width)
    rows[:, :, 2] = rows[:, :, 1] + width
    return rows.reshape(N, -1), rng.random((50, attributes))


@pytest.mark.parametrize("kind", KINDS)
def test_a_match_compares_only_what_waits(kind):
    rows, events = table()
    index = kind.build(4, np.arange(N), rows)
    index.match_many(events)
    compared = index.counters.verified - (index.counters.matched if kind is Tama else 0)
    assert 0 <= compared < 50 * N * 0.001
    index.counters.reset()
    index.insert(np.arange(N, N + 10), rows[:10])
    index.match(events[0])
    assert 10 <= index.counters.verified < 20


@pytest.mark.parametrize("kind", KINDS)
def test_it_compiles_again_when_an_eighth_has_changed(kind, monkeypatch):
    compilations = []
    compile_ = kind._compile
    monkeypatch.setattr(kind, "_compile", lambda self, slots: (compilations.append(len(slots)), compile_(self, slots)))
    rows, events = table()
    index = kind.build(4, np.arange(N), rows)
    index.match(events[0])
    index.delete(np.arange(100))
    index.insert(np.arange(100), rows[:100])
    for _ in range(3):
        index.match(events[0])
    assert compilations == [N]
    index.update(np.arange(100, 150), rows[:50])
    index.match(events[0])
    assert compilations == [N, N]
    index.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_table_is_scanned_and_has_no_structure_in_memory(kind):
    index = kind.build(32_000, np.arange(200), np.tile([5, 0.0, 1.0], (200, 1)))
    event = np.full(32_000, 0.5)
    assert index.match(event).size == index.counters.verified == 200
    assert index.memory_bytes() < 100 * 200
    index.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_single_changes_keep_the_answers(kind, monkeypatch):
    monkeypatch.setattr(compiled, "CHANGES_MIN", 7)
    rows, events = table(width=0.3)
    rows = rows[:150].copy()
    index = kind.build(4, np.arange(150), rows)
    rng = np.random.Generator(np.random.PCG64(10))
    for step in range(1_000):
        one, other = rng.integers(0, 150, 2)
        rows[one] = rows[other]
        index.update([one], rows[[one]])
        if step % 3 == 0:
            event = events[step % 50]
            assert np.array_equal(index.match(event), np.flatnonzero(verify(event, rows)))
    index.check()


def test_tama_without_verification_answers_too_much_never_too_little():
    rows, events = table(width=0.11)
    coarse, fine = (Tama.build(4, np.arange(N), rows, levels=levels, verify=False) for levels in (4, 12))
    exact = Tama.build(4, np.arange(N), rows, levels=4)
    for event in events:
        expected = np.flatnonzero(verify(event, rows))
        assert np.array_equal(exact.match(event), expected)
        for index in (coarse, fine):
            assert np.isin(expected, index.match(event)).all()
    true = exact.counters.matched
    assert exact.counters.verified == coarse.counters.matched > 1.5 * true
    assert true <= fine.counters.matched < 1.05 * true


def test_tama_enters_a_range_in_the_fewest_cells_that_cover_it():
    index = Tama.build(1, np.arange(300), np.tile([0, 0.0, 1.0], (300, 1)), levels=3, verify=False)
    index.match([0.5])
    # The domain is 0..1, so every range is the root, cell 1.
    assert np.flatnonzero(np.diff(index._starts)).tolist() == [1]
    rows = np.concatenate([np.tile([0, 0.0, 1.0], (299, 1)), [[0, 0.2, 0.9]]])
    index = Tama.build(1, np.arange(300), rows, levels=3, verify=False)
    index.match([0.5])
    # 0.2..0.9 begins in eighth 1 and ends in eighth 7: eighth 1, quarter 1, half 1.
    assert np.flatnonzero(np.diff(index._starts)).tolist() == [1, 3, 5, 9]


def test_the_grid_is_monotone_and_covers_everything():
    held = RangeStore(3)
    held.insert(np.arange(3), checked_rows([[0, -1e308, 1e308], [1, 5.0, 5.0], [2, -np.inf, np.inf]], 3))
    grid = Grid(held, np.arange(3), 10)
    values = np.array([-np.inf, -1e308, -1.0, 0.0, 5e-324, 1.0, 5.0, 1e308, np.inf])
    for attribute in range(3):
        cells = grid.cells_of(values, np.full(len(values), attribute))
        assert (np.diff(cells) >= 0).all() and cells.min() == 0 and cells.max() == 9
    assert grid.cells_of(np.array([np.nan]), np.array([0])).tolist() == [-1]
    slot, attribute, low, _ = ranges_of(held, np.arange(3))
    assert slot.tolist() == [0, 1, 2] and attribute.tolist() == [0, 1, 2] and low[1] == 5.0


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        (Counting, lambda index: index._lows.__setitem__(3, 0.9)),
        (Counting, lambda index: index._needed.__setitem__(3, 1)),
        (Counting, lambda index: index._high_slots.__setitem__(3, 7)),
        (Tama, lambda index: index._entries.__setitem__(3, 7)),
        (Tama, lambda index: index._needed.__setitem__(3, 1)),
        (Tama, lambda index: index._starts.__setitem__(1_030, 0)),
        (Rein, lambda index: index._alive.__setitem__(0, 1)),
        (Rein, lambda index: index._low[1].__setitem__(3, 0.9)),
        (Rein, lambda index: index._high[2].__setitem__(3, 7)),
        (Rein, lambda index: index._state.__setitem__(3, 0)),
    ],
)
def test_check_notices_damage(kind, damage):
    rows, events = table()
    index = kind.build(4, np.arange(N), rows)
    index.match(events[0])
    index.check()
    damage(index)
    with pytest.raises(AssertionError, match="broken invariant"):
        index.check()


@pytest.mark.parametrize(
    ("kind", "options"), [(Tama, {"levels": 0}), (Tama, {"levels": 17}), (Rein, {"buckets": 0})]
)
def test_impossible_options_are_refused(kind, options):
    with pytest.raises(InvalidInput, match="pass 1"):
        kind(2, **options)


def test_warming_compiles_every_kernel_that_a_life_uses():
    warm()
    kernels = [
        *(getattr(store, name) for name in ("_write", "_verified", "_not_in_order")),
        quick_scan._scan, counting._count, tama._enter, tama._count, rein._bucketed, rein._mark,
    ]
    before = [len(kernel.signatures) for kernel in kernels]
    assert min(before) >= 1
    rows, events = table()
    for kind in (*KINDS, quick_scan.QuickScan):
        index = kind.build(4, np.arange(N), rows)
        index.match_many(events)
        index.update([3], rows[:1])
        index.match(events[0])
        index.delete(np.arange(N))
    assert [len(kernel.signatures) for kernel in kernels] == before
