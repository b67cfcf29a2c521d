"""Aggregates in Spark equal NumPy's, and what is known exactly on lines and stars."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from brokers.errors import InvalidInput, RunDamaged
from scenarios import cli
from scenarios.running import Run, run

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark.aggregates import AGGREGATES, analyze  # noqa: E402

CYCLES = "{kind: watts-strogatz, nodes: 15, neighbours: 4, rewire: 0.2}"

# Everyone asks for everything from the start, and only the first broker's client publishes.
PLAIN = """\
duration: 2 s
topology: {topology}
links: {{delay: 10 ms}}
clients:
  publisher: {{count: 1, placement: {{kind: explicit, brokers: [{origin}]}}}}
  subscribers: {{count: 6, placement: {{kind: explicit, brokers: [0, 1, 2, 3, 4, 5]}}}}
services:
  - name: news
    kind: content
    attributes: 1
    protocol: {protocol}
    subscriptions: settled
    workload:
      - {{source: subscribe, clients: subscribers, width: 1}}
      - {{source: publish, clients: publisher, process: constant, rate: 10/s}}
trace: {{level: full, sample_every: 500 ms}}
"""


def aggregates_of(path, warm_up_ns=0):
    """All rows of each aggregate, as lists of dictionaries."""
    import pyarrow.parquet as pq

    (found,) = analyze([str(path)], warm_up_ns=warm_up_ns)
    return {name: pq.read_table(found.folder / name).to_pylist() for name in found.shown}, found


def plain(tmp_path, topology, origin=0, protocol="flooding"):
    scenario = tmp_path / "plain.yaml"
    scenario.write_text(PLAIN.format(topology=topology, origin=origin, protocol=protocol), encoding="utf-8")
    return Run.load(run(scenario, engine="inline", out=tmp_path / "runs").path)


@pytest.fixture(scope="module")
def churning(news):
    """A run on a cyclic overlay, its aggregates, and its tables as NumPy arrays."""
    folder = news("flooding", CYCLES)
    tables, found = aggregates_of(folder.path)
    names = ("deliveries", "publications", "hops", "links", "brokers", "samples")
    raw = {n: dict(folder.read(n).to_pydict().items()) for n in names}
    arrays = {n: {c: np.array(v) for c, v in raw[n].items() if c != "values"} for n in names}
    return arrays, tables, found


def percentile(values, share):
    """The smallest value with that share of all at or below it."""
    return int(np.sort(values)[max(int(np.ceil(share * values.size)) - 1, 0)])


def check_distribution(row, values, count="deliveries", stem="latency"):
    assert row[count] == values.size
    assert row[f"{stem}_mean_ns"] == pytest.approx(values.mean())
    assert row[f"{stem}_max_ns"] == values.max()
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert row[f"{stem}_{name}_ns"] == percentile(values, share)


def test_latencies_per_service_client_and_broker_are_numpys(churning):
    arrays, tables, _ = churning
    deliveries = arrays["deliveries"]
    latency = deliveries["time_ns"] - deliveries["published_ns"]
    (service,) = tables["services"]
    assert service["publications"] == arrays["publications"]["publication"].size
    check_distribution(service, latency)
    for column, name in (("client", "clients"), ("broker", "brokers")):
        numbers = deliveries[column] - (arrays["brokers"]["broker"].size if column == "client" else 0)
        assert [row[column] for row in tables[name]] == np.unique(numbers).tolist()
        for row in tables[name]:
            check_distribution(row, latency[numbers == row[column]])


def test_load_and_its_balance_are_numpys(churning):
    arrays, tables, _ = churning
    links, brokers = arrays["links"], arrays["brokers"]
    assert sorted(row["link"] for row in tables["links"]) == links["link"].tolist()
    assert sorted(row["messages"] for row in tables["load"]) == sorted(brokers["messages"].tolist())
    for row in tables["balance"]:
        values = {"brokers": brokers, "links": links}[row["of"]][row["measure"]].astype(float)
        differences = np.abs(values[:, None] - values[None, :]).mean()
        assert row["gini"] == pytest.approx(differences / (2 * values.mean()))
        assert row["max_over_mean"] == pytest.approx(values.max() / values.mean())


def test_messages_and_bytes_per_delivery_are_numpys(churning):
    arrays, tables, _ = churning
    links, hops, deliveries = arrays["links"], arrays["hops"], arrays["deliveries"]["client"].size
    everything, news = tables["cost"]
    assert everything["messages_per_delivery"] == pytest.approx(links["messages"].sum() / deliveries)
    assert everything["bytes_per_delivery"] == pytest.approx(links["bytes"].sum() / deliveries)
    over_links = hops["link"] >= 0
    assert news["messages"] == over_links.sum()
    assert news["publication_messages"] == (over_links & (hops["type"] == 0)).sum()


def test_table_sizes_and_queues_are_numpys(churning):
    arrays, tables, _ = churning
    samples, hops = arrays["samples"], arrays["hops"]
    for row in tables["tables"]:
        entries = samples["entries"][samples["broker"] == row["broker"]]
        assert (row["entries_max"], row["entries_mean"]) == (entries.max(), pytest.approx(entries.mean()))
    for row in tables["queues"]:
        mine = hops["broker"] == row["broker"]
        check_distribution(row, (hops["finish_ns"] - hops["time_ns"])[mine], "events", "in_broker")
        assert row["backlog_max_ns"] == samples["backlog_ns"][samples["broker"] == row["broker"]].max()


def test_the_series_adds_up_to_the_run(churning):
    arrays, tables, _ = churning
    series = tables["series"]
    starts = [row["start_ns"] for row in series]
    assert starts == sorted(set(starts))
    assert sum(row["publications"] for row in series) == arrays["publications"]["publication"].size
    assert sum(row["deliveries"] for row in series) == arrays["deliveries"]["client"].size
    assert sum(row["events"] for row in series) == arrays["hops"]["broker"].size
    width = min(b - a for a, b in itertools.pairwise(starts))
    for row in series:
        inside = arrays["hops"]["time_ns"] // width * width == row["start_ns"]
        assert row["events"] == inside.sum()


def test_hops_on_a_cyclic_overlay_are_those_of_the_first_copies(churning):
    """Followed one by one: the first copy at each broker is the one delivered, and came from its sender's first."""
    arrays, tables, _ = churning
    hops, links, deliveries = arrays["hops"], arrays["links"], arrays["deliveries"]
    publish = np.flatnonzero(hops["type"] == 0)
    depth: dict[tuple[int, int], int] = {}
    for i in publish[np.argsort(hops["time_ns"][publish], kind="stable")].tolist():
        key = (int(hops["body"][i]), int(hops["broker"][i]))
        link = int(hops["link"][i])
        if key not in depth:
            depth[key] = 0 if link < 0 else depth[(key[0], int(links["from"][link]))] + 1
    counted = np.bincount(
        [depth[p, b] for p, b in zip(deliveries["publication"].tolist(), deliveries["broker"].tolist())]
    )
    assert {row["hops"]: row["deliveries"] for row in tables["hops"]} == {
        h: n for h, n in enumerate(counted) if n
    }


def test_on_a_line_hops_latency_and_stretch_are_exact(tmp_path):
    tables, found = aggregates_of(plain(tmp_path, "{kind: line, nodes: 6}").path)
    sent = tables["services"][0]["publications"]
    assert found.notes == []
    assert [(row["hops"], row["deliveries"], row["shortest_hops_mean"]) for row in tables["hops"]] == [
        (h, sent, h) for h in range(6)
    ]
    assert [row["latency_mean_ns"] for row in tables["brokers"]] == [h * 10_000_000 for h in range(6)]
    (stretch,) = tables["stretch"]
    assert (stretch["deliveries"], stretch["stretch_mean"], stretch["stretch_max"]) == (5 * sent, 1, 1)
    assert stretch["shortest_hops_mean"] == 3
    outward = {row["link"]: row["messages"] for row in tables["links"]}
    assert outward == {link: sent if link % 2 == 0 else 0 for link in range(10)}
    assert tables["cost"][0]["messages_per_delivery"] == pytest.approx(5 / 6)


def test_on_a_star_everyone_is_two_links_away_from_a_leaf(tmp_path):
    tables, _ = aggregates_of(plain(tmp_path, "{kind: star, nodes: 6}", origin=3).path)
    sent = tables["services"][0]["publications"]
    assert {row["hops"]: row["deliveries"] for row in tables["hops"]} == {0: sent, 1: sent, 2: 4 * sent}
    (balance,) = [row for row in tables["balance"] if (row["of"], row["measure"]) == ("brokers", "messages")]
    assert (balance["gini"], balance["max_over_mean"]) == (
        pytest.approx(0),
        1,
    )  # each broker handles each message once


def test_with_subscription_tables_count_every_interest_behind_every_link(tmp_path):
    tables, _ = aggregates_of(plain(tmp_path, "{kind: line, nodes: 6}", protocol="subscription").path)
    assert [row["entries_last"] for row in tables["tables"]] == [6] * 6


def test_a_warm_up_leaves_out_what_was_sent_before(news):
    folder = news("flooding", CYCLES)
    tables, _ = aggregates_of(folder.path, warm_up_ns=2_000_000_000)
    deliveries = folder.read("deliveries").to_pydict()
    late = np.array(deliveries["published_ns"]) >= 2_000_000_000
    (service,) = tables["services"]
    assert service["deliveries"] == late.sum() < late.size
    assert sum(row["deliveries"] for row in tables["hops"]) == late.sum()
    assert min(row["start_ns"] for row in tables["series"]) == 2_000_000_000


def test_what_the_level_left_out_is_said_and_the_rest_is_done(news):
    tables, found = aggregates_of(news("flooding", level="summary").path)
    assert set(tables) == {"load", "links", "balance", "cost", "tables", "queues"}
    assert "hops needs trace level 'full', this run has 'summary'" in found.notes
    assert len(found.notes) == len(AGGREGATES.keys() - {"scores", "meshes"}) - len(tables)


def test_publishers_at_too_many_brokers_are_sampled_and_that_is_said(news, monkeypatch):
    monkeypatch.setattr("analysis.spark.aggregates.PAIRS_MAX", 30)
    tables, found = aggregates_of(news("flooding", CYCLES).path)
    assert found.notes == ["stretch: from 2 of the 6 brokers at which something was published"]
    assert 0 < tables["stretch"][0]["deliveries"] < tables["services"][0]["deliveries"]


def test_a_broken_part_is_named_before_spark_sees_it(news, tampered):
    path = tampered(news("flooding"))
    part = path / "tables" / "samples" / "part-0000.parquet"
    part.write_bytes(part.read_bytes()[:-8] + b"\xff" * 8)
    with pytest.raises(RunDamaged, match=r"samples/part-0000\.parquet is not what the run wrote"):
        analyze([str(path)])


def test_a_warm_up_longer_than_the_run_is_refused(news):
    with pytest.raises(InvalidInput, match="--warm-up"):
        analyze([str(news("flooding").path)], warm_up_ns=10**12)


def test_the_command_shows_tables_and_answers_in_json(news, capsys):
    path = str(news("flooding").path)
    assert cli.main(["analyze", path, "--warm-up", "1 s", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["runs"]
    assert (answer["run"], answer["warm_up_ns"]) == (path, 1_000_000_000)
    filled = set(AGGREGATES) - {"scores", "meshes"}  # nobody watches anybody here
    assert set(answer["tables"]) == filled
    assert cli.main(["analyze", path]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{name}\n" in text for name in filled)
    assert cli.main(["analyze", path, "--warm-up", "soon"]) == 3
    assert "--warm-up: expected a duration" in capsys.readouterr().err
