"""The interval skip list: probes, markers, nodes, and the rules by which regions move, against definitions."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from brokers.errors import InvalidInput
from brokers.indexes.context.skiplist import IntervalSkipList
from brokers.indexes.context.skiplist_kernels import (
    EXACT,
    FULL,
    GBU,
    PARTIAL,
    PIECEWISE,
    RANGE,
    STEP,
    height_of,
)

INF = math.inf
NOTHING = (INF, -INF)
KEYS = [0.0, 10.0, 17.0, 21.0, 29.0, 33.0, 40.0]
A, B, C = 0, 1, 2


def figure_9():
    """The list of figure 9: 17 and 40 are the highest nodes, then 29; found by its heights."""
    wanted = [1, 1, 3, 1, 2, 1, 3]
    for seed in range(200_000):
        index = IntervalSkipList(0, seed)
        if all(height_of(index.state, key) == tall for key, tall in zip(KEYS, wanted)):
            break
    index.reserve(8)
    index.place(A, 21, 33)
    index.place(B, 10, 21)
    index.place(C, 0, 40)
    index.place(3, 17, 29)  # intervals that the figure leaves out hold the other nodes
    index.place(4, 40, 40)
    return index


def marked(index, entry):
    """(level, from, to) of each edge that carries the entry."""
    nodes, keys, height, _ = index._walk()
    link = index.arrays().link
    return {
        (level, keys[i], keys[nodes.index(link[node + 1 + level, 3])])
        for i, node in enumerate(nodes)
        for level in range(height[i])
        if entry in index._set(node + 1 + level)
    }


def test_escalation_goes_through_the_paper_s_figures_9_and_10():
    index = figure_9()
    assert index.keys().tolist() == KEYS
    assert marked(index, A) == {(0, 21, 29), (0, 29, 33)}
    assert marked(index, B) == {(0, 10, 17), (0, 17, 21)}
    assert (2, 17, 40) in marked(index, C)
    assert index.probe(25).tolist() == [A, C, 3]
    assert index.update(A, 21, 36, PIECEWISE)
    assert marked(index, A) == {(0, 21, 29), (1, 29, 40)}
    assert index.reach[A].tolist() == [21, 40]
    assert A in index.probe(39)  # a false positive
    assert not index.update(A, 21, 39, PIECEWISE)  # and a cheap update
    assert index.shrink(A, 21, 39)
    assert index.reach[A].tolist() == [21, 39] and 39 in index.keys().tolist()  # a range split
    assert A not in index.probe(40) and A in index.probe(39)
    index.check()


def test_escalation_by_range_takes_one_edge_that_covers_old_and_new():
    index = figure_9()
    assert index.update(A, 21, 36, RANGE)
    # No edge of the second level covers [21, 36]; the one of the third does.
    assert index.reach[A].tolist() == [17, 40] and index.level[A] == 2
    assert marked(index, A) == {(2, 17, 40)}
    assert index.update(A, 21, 41, RANGE)
    assert index.reach[A].tolist() == [-INF, INF]
    index.check()


def test_step_by_step_a_region_shrinks_to_its_interval():
    index = figure_9()
    index.update(A, 21, 36, RANGE)
    reaches = []
    while index.shrink(A, 21, 36, STEP):
        index.check()
        reaches.append(index.reach[A].tolist())
    assert reaches[0] == [17, 40] and reaches[-1] == [21, 36]
    assert all(a[0] <= b[0] and b[1] <= a[1] for a, b in pairwise(reaches))


def random_walk(seed, entries, steps, values, floats=False):
    """Mixed operations on a small grid; yields the list and the intervals that its regions stand for."""
    draws = np.random.Generator(np.random.PCG64(seed))
    rule = [EXACT, PARTIAL, GBU, PIECEWISE, RANGE][seed % 5]
    scope = (2.0, values - 3.0) if rule == PARTIAL else (-INF, INF)
    index = IntervalSkipList(entries, seed, scope)
    asked = [NOTHING] * entries
    for _ in range(steps):
        entry, kind = int(draws.integers(entries)), draws.random()
        ends = np.sort(draws.random(2) * values if floats else draws.integers(0, values, 2)).astype(float)
        if draws.random() < 0.1:
            ends[draws.integers(2)] = 0
            ends = np.sort(ends)
        low, high = (-INF if draws.random() < 0.06 else ends[0]), (INF if draws.random() < 0.06 else ends[1])
        before = tuple(index.reach[entry])
        if kind < 0.12:
            index.place(entry, low, high)
            asked[entry] = (low, high)
            assert tuple(index.reach[entry]) == (low, high)
        elif kind < 0.2:
            index.remove(entry)
            asked[entry] = NOTHING
        elif kind < 0.75:
            covered = before[0] <= low and high <= before[1]
            moved = index.update(entry, low, high, rule)
            asked[entry] = (low, high)
            after = tuple(index.reach[entry])
            assert moved == (after != before)
            if rule >= GBU:
                assert moved != covered
            if rule >= PIECEWISE and moved:
                assert after[0] <= before[0] and before[1] <= after[1]
        elif asked[entry] != NOTHING:
            changed = index.shrink(entry, *asked[entry], FULL if draws.random() < 0.5 else STEP)
            after = tuple(index.reach[entry])
            assert before[0] <= after[0] and after[1] <= before[1]
            assert changed == (before != asked[entry])
        yield index, asked


def assert_right(index, asked, values):
    reach = index.reach
    for entry, (low, high) in enumerate(asked):
        if low <= high:
            assert reach[entry, 0] <= low and high <= reach[entry, 1]
    points = np.concatenate([np.arange(-1, values + 1, 0.5), index.keys()])
    for value in points.tolist():
        inside = np.flatnonzero((reach[:, 0] <= value) & (value <= reach[:, 1]))
        assert index.probe(value).tolist() == inside.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_probes_and_markers_are_right_after_every_step(seed):
    for index, asked in random_walk(seed, 12, 40, 16):
        index.check()
        assert_right(index, asked, 16)


@pytest.mark.parametrize("seed", range(5))
def test_probes_and_markers_are_right_in_larger_lists(seed):
    for steps, (index, asked) in enumerate(random_walk(seed, 150, 600, 400, floats=seed % 2 == 0)):
        if steps % 200 == 199:
            index.check()
            assert_right(index, asked, 400)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_60_000_moves_under_each_rule_miss_nothing(seed):
    draws = np.random.Generator(np.random.PCG64(seed + 100))
    for steps, (index, asked) in enumerate(random_walk(seed, 200, 60_000, 500, floats=seed % 2 == 1)):
        value, reach = float(draws.integers(-1, 1_002)) / 2, index.reach
        inside = np.flatnonzero((reach[:, 0] <= value) & (value <= reach[:, 1]))
        assert index.probe(value).tolist() == inside.tolist()
        intervals = np.array(asked)
        there = np.flatnonzero((intervals[:, 0] <= value) & (value <= intervals[:, 1]))
        assert np.isin(there, inside).all()
        if steps % 1_000 == 999:
            assert_right(index, asked, 500)
        if steps % 10_000 == 9_999:
            index.check()


def test_eq_markers_follow_from_the_edges_that_end_at_a_node_and_what_begins_there():
    for seed in range(10):
        *_, (index, _) = random_walk(seed, 20, 60, 16)
        over = {}  # entries on edges that jump over the node
        for key in index.keys().tolist():
            jumping = {
                entry
                for entry in range(20)
                for level, low, high in marked(index, entry)
                if low < key < high
            }
            over[key] = jumping
            everywhere = {e for e in range(20) if tuple(index.reach[e]) == (-INF, INF)}
            assert index.eq_markers(key) | jumping | everywhere == set(index.probe(key).tolist())
            assert not index.eq_markers(key) & jumping


def test_a_node_outlives_the_interval_that_made_it_while_an_escalated_one_ends_there():
    index = figure_9()
    index.update(A, 21, 36, PIECEWISE)  # K = [21, 40]
    for other in (C, 4):
        index.remove(other)
    assert 40 in index.keys().tolist() and index.probe(40).tolist() == [A]
    index.remove(A)
    assert 40 not in index.keys().tolist()
    index.check()


def test_the_same_keys_give_the_same_list_whatever_the_order():
    intervals = [(i * 7 % 50, i * 7 % 50 + i) for i in range(40)]
    walks = []
    for order in (range(40), range(39, -1, -1)):
        index = IntervalSkipList(40, seed=3)
        for entry in order:
            index.place(entry, *intervals[entry])
        walks.append(index._walk()[1:3])
    assert walks[0] == walks[1]


def test_heights_are_geometric():
    index = IntervalSkipList(0, seed=1)
    heights = np.array([height_of(index.state, key) for key in np.arange(20_000) / 7])
    for tall in range(1, 5):
        assert abs((heights > tall).mean() * 4**tall - 1) < 0.25


def test_memory_is_given_back_to_the_next_intervals():
    index = IntervalSkipList(500)
    sizes = []
    for turn in range(6):
        for entry in range(500):
            index.place(entry, entry + turn / 10, 2 * entry + turn / 10)
        for entry in range(500):
            index.remove(entry)
        sizes.append(index.memory_bytes())
    assert sizes[-1] == sizes[2]
    assert len(index.keys()) == 0
    index.check()


def test_bad_calls_are_refused():
    index = IntervalSkipList(2)
    index.place(0, 1, 2)
    for entry in (-1, 2):
        with pytest.raises(InvalidInput, match=r"outside 0\.\.1"):
            index.place(entry, 1, 2)
    with pytest.raises(InvalidInput, match="NaN"):
        index.place(1, math.nan, 2)
    assert index.probe(1.5).tolist() == [0]
