"""The rows of merging and leases, of networks that are small."""

from __future__ import annotations

from collections import Counter

from analysis.bench import routing_merging
from analysis.bench.routing_merging import Sizes, flooded, leased, merged, wasted

SMALL = Sizes(seeds=2, brokers=6, subscriptions=24, publications=40, waste=(0.3,), arrivals=150, lease_brokers=3)


def test_merging_stands_beside_covering_and_without_waste_publications_go_where_they_go_there():
    found = list(merged(SMALL, 1))
    assert len(found) == 7 and all(row["holds"] is not False for row in found)
    assert next(row["ratio"] for row in found if row["name"].startswith("publications over")) == 1.0
    entries = [row for row in found if row["name"].startswith("table entries")]
    assert all(0 < row["value"] < row["baseline"] for row in entries)


def test_a_publication_that_goes_elsewhere_is_counted(monkeypatch):
    def elsewhere(net):
        found.append(net)
        return {**counted(net), "went": Counter([(1, len(found))])}

    counted, found = routing_merging._counted, []
    monkeypatch.setattr(routing_merging, "_counted", elsewhere)
    row = next(row for row in merged(SMALL, 1) if row["name"].startswith("publications that go elsewhere"))
    assert (row["value"], row["holds"]) == (4, False)


def test_waste_is_measured_and_under_its_bound():
    row = wasted(SMALL, 0.3)
    assert row["holds"] and 0.2 < row["value"] < 0.4


def test_leases_stand_beside_their_closed_forms():
    found = list(leased(SMALL))
    assert [row["unit"] for row in found] == ["entries", "/s"] * 2
    assert all(row["baseline"] and row["holds"] for row in found)
    assert found[1]["value"] < found[3]["value"]  # withdrawals are messages


def test_leases_send_less_than_flooding_from_the_rate_on_that_is_even():
    below, above = flooded(SMALL)
    assert below["holds"] and above["holds"]
    assert below["value"] == above["value"] and below["baseline"] < above["baseline"]
