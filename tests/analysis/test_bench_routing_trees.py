"""The rows about trees of the group `routing`, scaled down."""

from __future__ import annotations

from analysis.bench import routing_trees
from analysis.bench.routing_trees import Sizes, World

SMALL = Sizes(seeds=2, brokers=12, adverts=4, subscriptions=15, side=3, publishers=2, subscribers=8, rates=(50,))


def test_counts_are_those_of_the_closed_forms():
    rows = list(routing_trees.counted(SMALL))
    assert len(rows) == 4 and all(each["holds"] and each["value"] > 0 for each in rows), rows


def test_what_was_ended_leaves_nothing_but_subscriptions_at_their_homes():
    world = World(SMALL, 1)
    assert world.left == len(world.subscriptions) < world.entries


def test_a_congested_grid_gives_delays_and_messages_of_both_and_nothing_wrong():
    rows = list(routing_trees.congested(SMALL))
    assert len(rows) == 6
    assert [each["value"] for each in rows if each["unit"] == "pairs"] == [0, 0]
    quiet = rows[3:5]
    assert all(each["value"] == each["baseline"] for each in quiet)


def test_a_run_tells_of_trees_that_were_planted_anew():
    kept, chosen = (routing_trees.run(SMALL, 1, 50, by_load) for by_load in (False, True))
    assert kept.planted == 2 * 2 < chosen.planted and kept.delay_ms > chosen.delay_ms
