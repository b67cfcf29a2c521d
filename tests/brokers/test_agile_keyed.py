"""AGILE on the binary search tree and the hash table, against the definition and the paper's figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from brokers.errors import InvalidInput
from brokers.indexes.context.keyed import EVERYTHING, AgileHash, AgileTree, contains
from brokers.indexes.contract import DuplicateId, UnknownId

A, B = 1, 2


def figure_5():
    """Root 5 with the left child 2, and both warehouses there."""
    tree = AgileTree()
    tree.insert(9, 5)
    tree.insert(A, 2)
    tree.insert(B, 2)
    tree.delete(9)  # the node stays
    return tree


def test_the_tree_goes_through_the_paper_s_figures_5_to_7():
    tree = figure_5()
    assert tree.region(A) == tree.region(B) == (2, 2, True)
    assert tree.update(A, 3)
    assert tree.region(A) == (-math.inf, 5, False)  # figure 5: the left set of the parent
    assert tree.at_least(4) == {A} and tree.at_least(5) == set()
    assert tree.at_least(2) == {A, B}
    assert not tree.update(A, 1)  # figure 6: a cheap update
    assert tree.region(A) == (-math.inf, 5, False)
    assert tree.at_least(3) == tree.at_least(4) == {A}  # false positives
    assert tree.deescalate(A)
    assert tree.region(A) == (-math.inf, 2, False)  # figure 7: the left set of node 2
    assert tree.at_least(2) == {B}
    assert tree.deescalate(A)
    assert tree.region(A) == (1, 1, True)  # a new leaf
    assert not tree.deescalate(A)
    tree.check()


def test_a_region_is_bounded_by_the_ancestors_and_not_only_by_the_node():
    tree = AgileTree()
    for id_, key in ((1, 10), (2, 20), (3, 15), (4, 17)):
        tree.insert(id_, key)
    assert tree.update(4, 16)
    assert tree.region(4) == (15, 20, False)  # right of 15, below 20
    assert tree.update(4, 5)  # below 10: a descent for 5 never comes to node 15
    assert 4 in tree.probe(5)
    tree.check()


def test_an_update_above_the_root_makes_an_id_a_candidate_for_every_key():
    tree = figure_5()
    tree.update(A, 7)
    assert tree.region(A) == EVERYTHING
    assert A in tree.probe(100) and A in tree.at_least(1e9)


@pytest.mark.parametrize("index_class", [AgileTree, AgileHash])
@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 430), marks=pytest.mark.full)],
                         ids=["4,500 operations", "60,000 operations"])
def test_probe_is_who_has_the_key_in_its_region_and_never_misses_a_key(index_class, seeds):
    for seed in seeds:
        draws = np.random.Generator(np.random.PCG64(seed))
        index, keys = index_class(), {}
        for _ in range(150):
            id_, key = int(draws.integers(8)), float(draws.integers(10))
            kind = draws.random()
            if id_ not in keys:
                index.insert(id_, key)
                keys[id_] = key
            elif kind < 0.1:
                index.delete(id_)
                del keys[id_]
            elif kind < 0.6:
                before = index.region(id_)
                escalated = index.update(id_, key)
                keys[id_] = key
                assert escalated != contains(before, key)
            else:
                before = index.region(id_)
                index.deescalate(id_)
                low, high, _ = index.region(id_)
                assert before[0] <= low <= high <= before[1]
            index.check()
            for value in np.arange(-1, 11, 0.5).tolist():
                found = index.probe(value)
                assert found == {i for i in keys if contains(index.region(i), value)}
                assert {i for i in keys if keys[i] == value} <= found


@pytest.mark.parametrize("index_class", [AgileTree, AgileHash])
def test_bad_calls_are_refused_and_change_nothing(index_class):
    index = index_class()
    index.insert(1, 2.0)
    with pytest.raises(DuplicateId, match="1 is in the index"):
        index.insert(1, 3.0)
    for call in (lambda: index.delete(7), lambda: index.update(7, 1.0), lambda: index.deescalate(7)):
        with pytest.raises(UnknownId, match="7"):
            call()
    for key in (math.nan, math.inf):
        with pytest.raises(InvalidInput, match="not finite"):
            index.update(1, key)
        with pytest.raises(InvalidInput, match="not finite"):
            index.insert(2, key)
    assert index.probe(2.0) == {1} and len(index) == 1
    index.check()
