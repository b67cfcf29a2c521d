"""The rows about advertisements of the group `routing`, scaled down."""

from __future__ import annotations

from analysis.bench import routing_adverts
from analysis.bench.routing_adverts import Sizes, World

SMALL = Sizes(seeds=2, brokers=12, adverts=4, subscriptions=20, localities=(0.1, 1.0))


def test_counts_are_those_of_the_closed_forms():
    rows = list(routing_adverts.rows(SMALL))
    judged = [each for each in rows if each["holds"] is not None]
    assert len(judged) == 6 and all(each["holds"] for each in judged), judged
    assert all(each["ratio"] for each in rows)


def test_a_row_does_not_hold_if_one_seed_is_apart():
    row = routing_adverts._equal("a row", "messages", [10, 11], [10, 11])
    assert row["holds"] and not routing_adverts._equal("a row", "messages", [10, 12], [11, 11])["holds"]


def test_what_is_near_takes_less_than_what_is_everywhere():
    near, everywhere = (World(SMALL, locality, 1).steiner for locality in SMALL.localities)
    assert 0 < near < everywhere <= 20 * 11
