"""What an H-Tree decides on a sample, what it predicts, and when it advises to decide again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from brokers.indexes.content.contract import verify
from brokers.indexes.content.htree import HTree, uniform_share
from brokers.indexes.contract import BadEvent

UNIT = (0.0, 1.0)


def generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def ranges_on(attributes, width, count, rng, kept=None):
    """Rows that constrain each of `attributes`, or a share `kept` of them, with even ranges of one width."""
    low = rng.random((count, len(attributes))) * (1 - width)
    rows = np.stack([np.tile(np.array(attributes, float), (count, 1)), low, low + width], axis=2)
    if kept is not None:
        rows[rng.random(low.shape) >= kept] = math.nan
    return rows.reshape(count, -1)


@pytest.mark.parametrize(
    ("segments", "shares"),
    [(5, [0.398, 0.154, 0.065, 0.027]), (8, [0.247, 0.064, 0.0155, 0.0039]),
     (10, [0.200, 0.040, 0.0077, 0.0016]), (20, [0.100, 0.0100, 0.0010])],
)
def test_candidate_shares_are_those_of_the_page_when_all_constrain_all(segments, shares):
    rng = generator(1)
    rows, events = ranges_on(range(4), 1 / segments, 40_000, rng), rng.random((400, 4))
    for levels, share in enumerate(shares, start=1):
        index = HTree.build(4, np.arange(40_000), rows, indexed=range(levels), cells=segments, domain=UNIT)
        index.match_many(events)
        report = index.report()
        # Four hundred events leave the share of a level uncertain by some 2 %, and the page's too.
        rel = 0.05 * levels + 0.02
        assert report.measured_share == pytest.approx(share, rel=rel)
        assert report.measured_share == pytest.approx(uniform_share(segments, levels), rel=rel)
        assert report.predicted_share == pytest.approx(share, rel=0.15 * levels)


def test_candidate_shares_are_those_of_the_page_when_half_are_constrained():
    rng = generator(2)
    rows, events = ranges_on(range(4), 0.1, 40_000, rng, kept=0.5), rng.random((300, 4))
    for levels, share in enumerate([0.599, 0.362, 0.216, 0.129], start=1):
        index = HTree.build(4, np.arange(40_000), rows, indexed=range(levels), cells=10, domain=UNIT)
        index.match_many(events)
        assert index.report().measured_share == pytest.approx(share, rel=0.03)
        assert index.report().measured_share == pytest.approx(uniform_share(10, levels, 0.5), rel=0.03)


def test_popular_attributes_with_narrow_ranges_are_indexed_first_and_those_that_tell_nothing_never():
    rng = generator(3)
    rows = np.column_stack([
        ranges_on([0], 0.05, 4_000, rng, kept=0.1),  # narrow, rare
        ranges_on([1], 0.05, 4_000, rng, kept=0.9),  # narrow, popular
        ranges_on([2], 0.3, 4_000, rng, kept=0.9),  # wide, popular
        ranges_on([3], 0.95, 4_000, rng),  # tells nothing
    ])
    index = HTree.build(6, np.arange(4_000), rows, levels=3, domain=UNIT)
    assert index.plan.attributes == (1, 2, 0)
    assert index.plan.cells[0] == 20 and index.plan.cells[1] == 3
    by_itself = HTree.build(6, np.arange(4_000), rows, domain=UNIT)
    assert by_itself.plan.attributes and 3 not in by_itself.plan.attributes
    assert not {4, 5} & set(HTree.build(6, np.arange(4_000), rows, levels=6).plan.attributes)


def test_a_few_wide_ranges_do_not_coarsen_the_cells_of_the_narrow_and_their_share_is_reported():
    rng = generator(4)
    rows = ranges_on([0, 1], 0.05, 5_000, rng)
    rows[:250, 1], rows[:250, 2] = 0.0, 1.0
    index = HTree.build(2, np.arange(5_000), rows, levels=2, domain=UNIT)
    assert index.plan.cells == (20, 20)
    assert index.report().wide_share == pytest.approx(0.025, abs=0.002)
    assert index.plan.wide_share == pytest.approx(0.025, abs=0.005)
    wide = HTree.build(2, np.arange(250), rows[:250], indexed=[0], cells=4, domain=UNIT)
    assert wide.report().wide_share == 1.0 and wide.report().buckets == 1


def test_overlapping_cells_need_one_entry_per_subscription_and_fewer_buckets_than_disjoint_ones():
    rng = generator(5)
    rows, events = ranges_on(range(4), 0.2, 20_000, rng), rng.random((200, 4))
    for levels in (1, 2, 3):
        options = {"indexed": range(levels), "cells": 5, "domain": UNIT}
        trees = [HTree.build(4, np.arange(20_000), rows, division=division, **options)
                 for division in ("overlapping", "disjoint")]
        overlapping, disjoint = (tree.report() for tree in trees)
        assert (overlapping.buckets, disjoint.buckets) == (4**levels, 5**levels)
        assert overlapping.entries == 20_000
        assert disjoint.entries == pytest.approx(20_000 * 2**levels, rel=0.02)
        answers = [tree.match_many(events) for tree in trees]
        assert np.array_equal(answers[0][0], answers[1][0]) and np.array_equal(answers[0][1], answers[1][1])


def test_a_smaller_budget_makes_a_smaller_tree_and_the_prediction_is_near_what_it_takes():
    rng = generator(6)
    rows = ranges_on(range(8), 0.1, 30_000, rng, kept=0.5)
    index = HTree.build(8, np.arange(30_000), rows)
    events, verified = rng.random((50, 8)), []
    for budget in (1 << 22, 1 << 16, 1 << 10):
        plan = index.tune(budget)
        report = index.report()
        taken = 20 * report.buckets + 4 * sum((4 + plan.cells[0],) * report.nodes)
        assert plan.tree_bytes <= budget or not plan.attributes
        assert taken <= 2 * plan.tree_bytes and plan.tree_bytes <= 2 * taken
        index.counters.reset()
        index.match_many(events)
        verified.append(index.counters.verified)
    assert verified[0] < verified[1] < verified[2]


def test_more_is_held_more_is_indexed_and_a_handful_is_looked_through():
    rng = generator(7)
    rows = ranges_on(range(8), 0.2, 100_000, rng)
    trees = [HTree.build(8, np.arange(n), rows[:n]) for n in (100, 1_000, 10_000, 100_000)]
    levels = [len(tree.plan.attributes) for tree in trees]
    assert levels[0] == 0
    assert levels == sorted(levels) and levels[3] > levels[1]


def test_a_wide_table_with_thousands_of_attributes_is_tuned_on_the_popular_ones():
    rng = generator(8)
    attribute = np.where(rng.random(6_000) < 0.5, 7, rng.integers(0, 30_000, 6_000)).astype(float)
    low = rng.random(6_000) * 0.95
    rows = np.column_stack([attribute, low, low + 0.05])
    index = HTree.build(30_000, np.arange(6_000), rows)
    assert index.plan.attributes[0] == 7
    event = np.where(rng.random(30_000) < 0.5, np.nan, rng.random(30_000))
    event[7] = 0.5
    index.check()
    assert np.array_equal(index.match(event), np.flatnonzero(verify(event, rows)))


@pytest.mark.parametrize("power", [1, 4, 12])
def test_events_that_are_known_in_advance_shape_the_tree_and_its_prediction(power):
    rng = generator(9)
    middle, width = rng.random((8_000, 2)) ** power, 0.02 * rng.random((8_000, 2))
    attribute = np.tile([0.0, 1.0], (8_000, 1))
    rows = np.stack([attribute, middle - width, middle + width], axis=2).reshape(8_000, 6)
    events = rng.random((500, 2)) ** power
    index = HTree.build(2, np.arange(8_000), rows, scans=False)  # a scan in its place would be measured as well
    index.match_many(events)
    before = index.report().measured_share
    index.tune(events=events)
    index.match_many(events)
    report = index.report()
    assert report.measured_share <= 1.1 * before
    assert report.predicted_share == pytest.approx(report.measured_share, rel=0.35)
    assert index.advice() == ()
    with pytest.raises(BadEvent, match="no events"):
        index.tune(events=events[:0])


def test_advice_names_what_drifted_and_is_silent_while_nothing_did():
    rng = generator(10)
    rows = ranges_on([0, 1, 2], 0.1, 12_000, rng)
    index = HTree.build(3, np.arange(8_000), rows[:8_000])
    index.match_many(rng.random((200, 3)))
    index.insert(np.arange(8_000, 12_000), rows[8_000:])
    assert index.advice() == ()

    wider = HTree.build(3, np.arange(8_000), rows[:8_000])
    wider.insert(np.arange(8_000, 12_000), ranges_on([0, 1, 2], 0.7, 4_000, rng))
    (reason,) = wider.advice()
    assert "too wide for a cell" in reason
    wider.tune()
    assert wider.advice() == ()

    assert math.isnan(wider.report().measured_share)  # nothing was asked yet

    shrunk = HTree.build(3, np.arange(8_000), rows[:8_000])
    shrunk.delete(np.arange(7_000))
    (reason,) = shrunk.advice()
    assert "1000 subscriptions are held" in reason

    dense = rows.copy()
    dense[:, 1::3] *= 0.2
    dense[:, 2::3] = dense[:, 1::3] + 0.05
    elsewhere = HTree.build(3, np.arange(12_000), dense, domain=UNIT)
    elsewhere.match_many(0.1 * rng.random((200, 3)))
    (reason,) = elsewhere.advice()
    assert "were predicted" in reason
