"""Counts and samples are what the tables say, however they are read."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.report import gather as gathering
from analysis.report.columns import unpacked
from analysis.report.content import content
from analysis.report.copies import waste
from analysis.report.gather import gather
from analysis.report.places import places
from analysis.report.sampling import Sample
from analysis.report.wanting import missed
from brokers.contract import MESSAGE


@pytest.fixture(scope="module")
def lossy(made):
    return made("lossy", "duration=2 s", "trace.level=full")


def test_counts_add_up_to_the_totals_of_the_trace(lossy):
    found = gather(lossy, 1_000_000)
    counts = found.counts
    links = lossy.read("links").sort_by("link")
    arrived = links["messages"].to_numpy() - links["lost"].to_numpy()
    assert counts["on_links"].sum((0, 2)).tolist() == arrived.tolist()
    brokers = lossy.read("brokers").sort_by("broker")
    assert counts["at_brokers"].sum((0, 2)).tolist() == brokers["messages"].to_pylist()
    assert counts["events"].sum() == lossy.rows("hops")
    assert (
        counts["delivered"].sum() == counts["answered"].sum() == counts["latency"].sum() == lossy.rows("deliveries")
    )
    assert counts["published"].sum() == lossy.rows("publications")
    assert counts["reasons"].sum() == counts["lost"].sum() == lossy.rows("losses") > 0


def test_latencies_are_within_six_in_a_thousand(lossy):
    counts = gather(lossy, 1_000_000).counts["latency"].sum(0)
    rows = lossy.read("deliveries")
    took = np.sort(rows["time_ns"].to_numpy() - rows["published_ns"].to_numpy())
    edges = 10.0 ** (3 + np.arange(counts.size) / gathering.LATENCY_BINS)
    binned = np.repeat(edges, counts)
    there = took > 1000
    assert np.allclose(binned[there], took[there], rtol=0.006)


def test_blocks_change_nothing(lossy, monkeypatch):
    whole = gather(lossy, 700)
    monkeypatch.setattr(gathering, "_BLOCK", 37)
    pieces = gather(lossy, 700)
    assert whole.counts.keys() == pieces.counts.keys()
    for name in whole.counts:
        assert np.array_equal(whole.counts[name], pieces.counts[name]), name
    for table, rows in whole.kept.items():
        for name in rows:
            assert np.array_equal(rows[name], pieces.kept[table][name]), (table, name)


def test_a_sample_holds_messages_whole_and_about_as_many_as_it_says(lossy):
    all_of_it, some = gather(lossy, 1_000_000), gather(lossy, 1_500)
    assert all_of_it.sample.whole and not some.sample.whole
    assert 0.5 < some.rows("hops")["body"].size / 1_500 < 1.7
    events, chosen = all_of_it.rows("hops"), some.rows("hops")
    for body in np.unique(chosen["body"][some.carries(chosen["body"])]).tolist():
        if some.sample.has(np.array([body]))[0]:
            assert (events["body"] == body).sum() == (chosen["body"] == body).sum()
    kept = set(some.rows("publications")["publication"].tolist())
    assert set(some.rows("deliveries")["publication"].tolist()) <= kept
    for name in ("on_links", "delivered", "latency"):
        assert np.array_equal(all_of_it.counts[name], some.counts[name])


def test_a_share_is_kept_by_hash():
    sample = Sample.of(1_000_000, 100_000)
    ids = np.arange(200_000, dtype=np.int64) << 32
    assert 0.095 < sample.has(ids).mean() < 0.105
    assert np.array_equal(sample.has(ids[::-1])[::-1], sample.has(ids))
    assert Sample.of(10, 10).has(ids).all()


def test_events_in_a_page_are_those_of_the_trace(lossy):
    found = gather(lossy, 1_000_000)
    facts, columns = content(found, places(lossy, found.network), missed(found), waste(found))
    got = unpacked(facts["columns"], columns.packed())
    ids = (got["message_entity"] << 32) | got["message_number"]
    rows = lossy.read("hops").to_pydict()
    links = facts["columns"] and found.network.source.size

    def named(index):
        return None if index < 0 else int(ids[index])

    drawn = sorted(
        (int(time), int(at), int(service), int(kind), named(body), named(cause))
        for time, at, service, kind, body, cause in zip(
            got["hop_time"], got["hop_at"], got["hop_service"], got["hop_type"], got["hop_body"], got["hop_cause"]
        )
    )
    told = sorted(
        (time // 1000, link if link >= 0 else links + broker, service, kind, None if body < 0 else body,
         None if cause == -1 else abs(cause))
        for time, link, broker, service, kind, body, cause in zip(
            *(rows[name] for name in ("time_ns", "link", "broker", "service", "type", "body", "cause"))
        )
    )  # fmt: skip
    key = lambda row: tuple(-1 if each is None else each for each in row)  # noqa: E731
    assert sorted(drawn, key=key) == sorted(told, key=key)


def test_waste_is_what_a_look_at_each_copy_says(made):
    """On cycles flooding brings copies again; what is counted is compared with a plain loop over the trace."""
    run = made("real-network", "duration=1 s", "trace.level=full")
    found = gather(run, 1_000_000)
    facts, columns = content(found, places(run, found.network), missed(found), waste(found))
    got = unpacked(facts["columns"], columns.packed())
    hops = [
        hop
        for hop in run.read("hops").to_pylist()
        if hop["kind"] == MESSAGE and hop["type"] == 0 and hop["body"] >= 0
    ]
    source = found.network.source.tolist()
    sent_on = {(hop["body"], source[hop["link"]]) for hop in hops if hop["link"] >= 0}
    delivered = {(row["publication"], row["broker"]) for row in run.read("deliveries").to_pylist()}
    seen, wasted, over_time = set(), np.zeros(found.network.source.size, int), np.zeros(found.stretches, int)
    for hop in sorted(hops, key=lambda hop: hop["time_ns"]):
        place = (hop["body"], hop["broker"])
        if hop["link"] >= 0 and (place in seen or (place not in sent_on and place not in delivered)):
            wasted[hop["link"]] += 1
            over_time[int(hop["time_ns"] * (found.stretches / found.span_ns))] += 1
        seen.add(place)
    assert wasted.sum() > 0
    by_link = got["waste_links"].reshape(-1, found.stretches)
    assert by_link.sum(1).tolist() == wasted.tolist()
    assert got["waste_brokers"].sum() == wasted.sum()
    assert by_link.sum(0).tolist() == over_time.tolist() and np.count_nonzero(over_time) > 3
