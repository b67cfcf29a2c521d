"""The rows of the group `maps`, over few brokers."""

from __future__ import annotations

from analysis.bench import maps
from analysis.bench.registry import BENCHES
from brokers.engine.simulate import simulate
from brokers.registry import load


def test_rows_compare_both_views_of_the_same_network():
    sizes = maps.Sizes(repeats=1, brokers=6, clients=12, objects=200, seconds=(1.2, 1.2))
    assert load(BENCHES["maps"].target) is maps.rows
    found = list(maps.rows(sizes))
    assert [row["name"] for row in found] == [
        "12 queries over 6 brokers, each moved twice a minute", "12 queries over 6 brokers, which stand and stay",
    ]  # fmt: skip
    assert all(row["value"] > 0 and row["baseline"] > 0 and row["target"] for row in found)
    moving, still = (simulate(maps.model(sizes, moves)).metrics["network"]["events"] for moves in (True, False))
    assert moving > still > 12
