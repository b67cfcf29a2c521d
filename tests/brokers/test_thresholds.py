"""Indexes whose thresholds are lowered plan anew at sizes at which they never do otherwise, and answer the same."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.bench.filters import filters, messages
from analysis.bench.subscriptions import Workload
from brokers.indexes.content.cells import CellBitset
from brokers.indexes.content.htree import HTree
from brokers.indexes.content.scan import Scan
from brokers.indexes.topk.contract import Query
from brokers.indexes.topk.sliced import Sliced
from brokers.thresholds import lowered

ATTRIBUTES = 3


def rows_of(random, count):
    """Ranges on one to three attributes: how many each has does not matter here."""
    low = random.integers(0, 12, (count, ATTRIBUTES)).astype(float)
    rows = np.full((count, 3 * ATTRIBUTES), np.nan)
    for at in range(ATTRIBUTES):
        rows[:, 3 * at], rows[:, 3 * at + 1] = at, low[:, at]
        rows[:, 3 * at + 2] = low[:, at] + random.integers(1, 9, count)
    return rows


def played(make, to, seed):
    """Inserts, deletes and matches in any order, with each answer."""
    random, held, answers = np.random.Generator(np.random.PCG64(seed)), [], []
    with lowered(to):
        index = make(ATTRIBUTES)
        for step in range(60):
            fresh = np.arange(10 * step, 10 * step + int(random.integers(1, 10)))
            index.insert(fresh, rows_of(random, len(fresh)))
            held += fresh.tolist()
            if len(held) > 40:
                gone = random.choice(held, 30, replace=False).tolist()
                index.delete(np.array(gone))
                held = [each for each in held if each not in set(gone)]
            for event in random.integers(0, 20, (3, ATTRIBUTES)).astype(float):
                answers.append(sorted(index.match(event).tolist()))
    return answers


@pytest.mark.parametrize(("make", "step"), [(CellBitset, "_turn"), (HTree, "_rebuild")])
@pytest.mark.parametrize("seed", range(3))
def test_an_index_plans_anew_and_answers_the_same(make, step, seed, monkeypatch):
    expected, real, taken = played(Scan, None, seed), getattr(make, step), []
    monkeypatch.setattr(make, step, lambda self, *rest: (taken.append(step), real(self, *rest))[1])
    steps = {}
    for to in (None, 1, 8):
        taken.clear()
        assert played(make, to, seed) == expected
        steps[to] = len(taken)
    assert steps[1] > steps[None] == 0


def test_segments_of_filters_are_sorted_anew_and_answer_the_same(monkeypatch):
    sorts, real = [], Sliced._sort
    monkeypatch.setattr(Sliced, "_sort", lambda self, segment: (sorts.append(segment), real(self, segment))[1])
    workload = Workload(attributes=4, ranges=2, width=0.3)
    given, asked = filters(workload, 400), messages(workload, 6, None)
    found = {}
    for to in (None, 2):
        sorts.clear()
        with lowered(to):
            index = Sliced(4)
            for at in range(0, 400, 20):
                index.insert(np.arange(at, at + 20), given[at : at + 20])
                index.match(asked[0], Query(3))
            index.delete(np.arange(0, 400, 3))
            found[to] = [index.match(each, Query(5)) for each in asked], len(sorts)
    (usual, few), (low, many) = found[None], found[2]
    assert all(np.array_equal(a.ids, b.ids) and np.array_equal(a.scores, b.scores) for a, b in zip(usual, low))
    assert many > few
