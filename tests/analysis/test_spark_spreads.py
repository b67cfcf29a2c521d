"""How publications spread, and what brokers think of each other: in Spark the numbers that the metrics have."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from analysis.report import gather as gathering
from analysis.report.copies import WHOLE, copies, handled, waste
from analysis.report.gather import gather
from analysis.report.making import report
from analysis.report.sampling import Sample
from protocols import spreading
from protocols.gossip import attacked, churning
from protocols.topics.kind import Topics
from tests.protocols.test_attacks import TEXT as WATCHED

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark import aggregates  # noqa: E402
from analysis.spark.aggregates import AGGREGATES, analyze  # noqa: E402

FIELD = {"spreading", "rounds", "to_all", "control", "copies", "waste"}
METRICS = ("redundancy", "hops.last", "hops.most", "hops.half", "hops.nearly", "duplicates.per_delivery",
           "time_to_all_ms", "control.bytes_per_payload_byte")  # fmt: skip
TWO = """\
duration: 5 s
topology: {{kind: watts-strogatz, nodes: 14, neighbours: 4, rewire: 0.3}}
links: {{delay: {delay}, loss: {loss}}}
clients: {{all: {{count: 20, placement: even}}}}
services:
  - name: flooded
    kind: content
    attributes: 2
    protocol: flooding
    metrics: [METRICS]
    workload: &work
      - {{source: subscribe, clients: all, constraints: 1, width: 0.6}}
      - {{source: publish, clients: all, total_rate: 12/s, start: 1 s}}
  - name: asked
    kind: content
    attributes: 2
    protocol: {other}
    metrics: [METRICS]
    workload: *work
trace: {{level: full}}
""".replace("METRICS", ", ".join(METRICS))
ONE = TWO.partition("  - name: asked")[0] + "trace: {{level: full}}\n"


def analyzed(run, **options):
    """All rows of each table by name, and the answer."""
    (found,) = analyze([str(run.path)], **options)
    return {name: pq.read_table(found.folder / name).to_pylist() for name in found.shown}, found


def measured(run, service):
    return run.manifest["engine"]["metrics"]["services"][service]


@pytest.mark.parametrize(
    "text, gaps, alone",
    [
        (TWO, {"delay": "10 ms", "loss": "0", "other": "plumtree"}, False),
        (TWO, {"delay": "{kind: uniform, low: 5 ms, high: 30 ms}", "loss": "0.1", "other": "subscription"}, False),
        (ONE.replace("flooding", "plumtree"), {"delay": "10 ms", "loss": "0"}, True),
        (ONE.replace("flooding", "plumtree"), {"delay": "15 ms", "loss": "0.2"}, True),
    ],
    ids=["ties", "losses", "alone", "alone with losses"],
)
def test_tables_have_the_numbers_of_the_metrics(filled, text, gaps, alone):
    run = filled(text, **gaps)
    tables, _ = analyzed(run)
    names = [service["name"] for service in run.manifest["scenario"]["services"]]
    assert len(tables["spreading"]) == len(names) and ("control" in tables) == alone
    for number, name in enumerate(names):
        said = measured(run, name)
        (spread,) = [row for row in tables["spreading"] if row["service"] == number]
        (took,) = [row for row in tables["to_all"] if row["service"] == number]
        shares = [row["share"] for row in tables["rounds"] if row["service"] == number]
        assert spread["redundancy_mean"] == pytest.approx(said["redundancy"], rel=1e-12)
        assert spread["last_hop_mean"] == pytest.approx(said["hops.last"], rel=1e-12)
        assert spread["last_hop_max"] == said["hops.most"] == len(shares) - 1
        assert spread["duplicates_per_delivery"] == said["duplicates.per_delivery"]
        assert took["time_to_all_mean_ns"] == pytest.approx(said["time_to_all_ms"] * 1e6, rel=1e-12)
        for share, metric in ((0.5, "hops.half"), (0.99, "hops.nearly")):
            assert next(at for at, by_then in enumerate(shares) if by_then >= share) == said[metric]
        bytes_ = [row["control_bytes_per_payload_byte"] for row in tables.get("control", [])]
        assert bytes_ == ([said["control.bytes_per_payload_byte"]] if alone else [])
        assert shares[-1] == 1 and (gaps["loss"] != "0" or spread["redundancy_max"] > 0 or name == "asked")


def test_shares_by_round_are_those_of_the_metrics(filled):
    run = filled(TWO, delay="10 ms", loss="0", other="plumtree")
    tables, _ = analyzed(run)
    for number, service in enumerate(aggregates.services_of(run)):
        rows = {name: run.read(name) for name in ("hops", "publications")}
        mine = {
            name: {column: table[column].to_numpy(zero_copy_only=False)[table["service"].to_numpy() == number]
                   for column in table.column_names if column != "values"}
            for name, table in rows.items()
        }  # fmt: skip
        shares = [row["share"] for row in tables["rounds"] if row["service"] == number]
        assert shares == pytest.approx(spreading.reached_by_round(mine, service.kind), rel=1e-12)
        assert len(shares) > 3


@pytest.mark.parametrize("loss", ["0", "0.1"])
def test_copies_and_waste_are_those_that_a_report_finds(filled, loss):
    run = filled(TWO, delay="10 ms", loss=loss, other="subscription")
    tables, _ = analyzed(run)
    found = gather(run, 10**9)
    got = copies(found)
    stretch = found.at(got.time_ns, found.stretches)
    over = got.link >= 0
    rows = zip(got.service[over].tolist(), got.link[over].tolist(), stretch[over].tolist(), got.wasted[over].tolist())
    all_of_it, wasted = Counter(), Counter()
    for *key, for_nothing in rows:
        all_of_it[tuple(key)] += 1
        wasted[tuple(key)] += for_nothing
    keys = [(row["service"], row["link"], row["stretch"]) for row in tables["waste"]]
    assert keys == sorted(all_of_it)
    assert [row["copies"] for row in tables["waste"]] == [all_of_it[key] for key in keys]
    assert [row["for_nothing"] for row in tables["waste"]] == [wasted[key] for key in keys]
    assert sum(wasted.values()) > 100
    handled = Counter()
    for service in (0, 1):
        _, times = np.unique(got.place[got.service == service], return_counts=True)
        handled.update((service, each) for each in times.tolist())
    assert {(row["service"], row["copies"]): row["brokers"] for row in tables["copies"]} == handled


def test_with_a_warm_up_what_was_sent_before_counts_for_bytes_alone(filled):
    run = filled(ONE, delay="10 ms", loss="0")
    whole, _ = analyzed(run)
    tables, _ = analyzed(run, warm_up_ns=3_000_000_000)
    sent = run.read("publications")
    late = set(sent["publication"].to_numpy()[sent["time_ns"].to_numpy() >= 3_000_000_000].tolist())
    assert tables["spreading"][0]["publications"] == len(late) < whole["spreading"][0]["publications"]
    hops = run.read("hops")
    of_late = np.isin(hops["body"].to_numpy(), list(late)) & (hops["link"].to_numpy() >= 0)
    assert tables["spreading"][0]["copies"] == of_late.sum() == sum(row["copies"] for row in tables["waste"])
    assert tables["control"] == whole["control"]


def test_what_a_protocol_adds_to_each_copy_is_no_control(filled):
    """With five hundred bytes more in each copy gossip sends the same messages, so what is not in copies stays."""
    text = """\
duration: 8 s
topology: {{kind: erdos-renyi, nodes: 16, probability: 0.4}}
clients: {{all: {{count: 16, placement: even}}}}
services:
  - name: news
    kind: topics
    wildcards: false
    protocol: gossipsub
    options: {{payload: {payload}}}
    metrics: [control.bytes_per_payload_byte]
    workload:
      - {{source: topic-subscribe, filter: a}}
      - {{source: topic-publish, topics: 1, depth: 1, total_rate: 2/s, start: 3 s}}
trace: {{level: full}}
""".replace("filter: a", 'filter: "1"')
    small, large = (filled(text, payload=each) for each in ("0", "500"))
    (a,), (b,) = (analyzed(each)[0]["control"] for each in (small, large))
    assert b["copies"] == a["copies"] > 100
    assert b["copy_bytes"] == a["copy_bytes"] + 500 * a["copies"]
    assert b["other_bytes"] == a["other_bytes"] > 0
    for run, row in ((small, a), (large, b)):
        assert measured(run, "news")["control.bytes_per_payload_byte"] == row["control_bytes_per_payload_byte"]


def test_what_brokers_are_told_of_faults_at_links_is_no_message(filled):
    faults = "faults: {{detect: 10 ms, schedule: [{{fault: crash, brokers: [3], at: 2 s, lasts: 1 s}}]}}\n"
    text = ONE.replace("protocol: flooding", "protocol: subscription\n    options: {{recover: true}}")
    text = text.replace("watts-strogatz, nodes: 14, neighbours: 4, rewire: 0.3", "line, nodes: 14")
    run = filled(text + faults, delay="10 ms", loss="0")
    hops, links = run.read("hops"), run.read("links")
    at_links = hops["link"].to_numpy() >= 0
    assert (hops["kind"].to_numpy()[at_links] == 0).sum() > 0
    tables, _ = analyzed(run)
    _, service = tables["cost"]
    assert service["messages"] == sum(links["messages"].to_pylist()) - sum(links["lost"].to_pylist())
    assert "control" in tables  # the service is alone still


def test_a_run_without_publications_has_no_such_tables_nor_those_of_an_analysis_before(filled):
    run = filled(ONE.replace("total_rate: 12/s, start: 1 s", "total_rate: 1/h"), delay="10 ms", loss="0")
    assert run.rows("publications") == 0 < run.rows("hops")
    (run.path / "analysis" / "waste").mkdir(parents=True)
    tables, found = analyzed(run)
    assert not FIELD & tables.keys() and not FIELD & {each.name for each in found.folder.iterdir()}
    assert not {"scores", "meshes"} & tables.keys() and found.notes == []


@pytest.mark.parametrize("several", [False, True], ids=["one task", "several tasks"])
@pytest.mark.parametrize("attackers", ["{behaviour: covert-flash, brokers: ['s*'], start: 5 s}", ""])
def test_scores_and_meshes_over_time_are_those_of_the_metrics(filled, attackers, several, monkeypatch):
    text = WATCHED.replace("24 s", "12 s").replace("topics: 1, depth: 1", "topics: 2, depth: 1")
    if attackers:
        text = text.replace("    kind: topics\n", f"    kind: topics\n    attackers: [{attackers}]\n")
    run = filled(text.replace("{", "{{").replace("}", "}}"))
    if several:
        monkeypatch.setattr(aggregates, "in_one_partition", lambda _: False)
        monkeypatch.setattr(aggregates, "_ROWS_PER_TASK", 2_000)
    tables, _ = analyzed(run)
    none = {"entry": np.empty(0, int), "behaviour": np.empty(0, object), "broker": np.empty(0, int)}
    arrays = {"attackers": none} | {
        name: {column: table[column].to_numpy(zero_copy_only=False) for column in table.column_names}
        for name in ("scores", *(["attackers"] if attackers else ())) for table in [run.read(name)]
    }  # fmt: skip
    series = attacked.scores_over_time(arrays)
    assert [each.name for each in series] == (["honest", "1: covert-flash"] if attackers else ["honest"])
    for each in series:
        mine = [row for row in tables["scores"] if row["neighbours"] == each.name]
        for name, column in (
            ("time_ns", each.time_ns), ("score_low", each.low), ("score_median", each.median),
            ("score_high", each.high), ("share_of_meshes", each.in_mesh),
        ):  # fmt: skip
            assert [row[name] for row in mine] == column.tolist(), name
        assert sum(row["links"] for row in mine) > 100
    kind = Topics(Topics.Params().model_dump())
    meshes = tables["meshes"]
    assert sum(row["entered"] for row in meshes) == churning.entered(arrays, kind) > 20
    assert sum(row["left"] for row in meshes) == churning.left(arrays, kind) > 5
    whole = [row for row in meshes if row["brokers"] == meshes[0]["brokers"]]  # some watch once more than others
    for before, after in itertools.pairwise(whole):
        assert after["links"] == before["links"] + after["entered"] - after["left"]
    assert len(whole) > 8
    between = sum(row["brokers"] for row in meshes[1:])
    moved = sum(row["entered"] + row["left"] for row in meshes)
    assert moved / between == pytest.approx(churning.churned(arrays, kind))


def test_a_report_of_a_sample_takes_what_analyze_counted_of_the_whole_run_and_says_so(filled, tmp_path):
    run = filled(TWO, delay="12 ms", loss="0", other="subscription")
    whole, alone = gather(run, 10**9), gather(run, 500)
    expected, counts = waste(whole), [each.tolist() for each in handled(whole)[0]]
    assert expected.said == "" and not alone.sample.whole and waste(alone).said.startswith("of ")
    assert waste(alone).copies.sum() < expected.copies.sum()
    page = report([run.path], tmp_path / "alone.html", hops_most=500).read_text("utf-8")
    assert f"Waste is {waste(alone).said}." in page and WHOLE not in page

    analyzed(run)
    some = gather(run, 500)
    got = waste(some)
    assert not some.sample.whole and (got.said, handled(some)[1]) == (WHOLE, WHOLE)
    assert np.array_equal(got.copies, expected.copies) and np.array_equal(got.for_nothing, expected.for_nothing)
    assert [each.tolist() for each in handled(some)[0]] == counts
    page = report([run.path], tmp_path / "all.html", hops_most=500).read_text("utf-8")
    assert f"Waste is {WHOLE}." in page and "rows; all are in analysis/copies" not in page

    (found,) = analyze([str(run.path)], warm_up_ns=2_000_000_000)  # not of the whole run any more
    assert waste(gather(run, 500)).said == waste(alone).said
    analyzed(run)
    pq.write_table(pq.read_table(found.folder / "waste").slice(1), found.folder / "waste" / "part-00000.parquet")
    spoilt = gather(run, 500)
    assert waste(spoilt).said == waste(alone).said and "'waste'" in spoilt.analyzed.notes[0]


@pytest.mark.parametrize("several", [False, True], ids=["one task", "several tasks"])
def test_a_report_of_a_long_run_is_spared_the_look_at_its_events(filled, monkeypatch, several):
    faults = "faults: {{detect: 10 ms, schedule: [{{fault: cut, link: [3, 4], at: 2 s, lasts: 1 s}}]}}\n"
    text = TWO.replace("subscribe, clients", "subscribe, churn: {{process: replace, rate: 60/min}}, clients")
    text = text.replace("watts-strogatz, nodes: 14, neighbours: 4, rewire: 0.3", "line, nodes: 14") + faults
    run = filled(text, delay="12 ms", loss="0", other="subscription\n    options: {recover: true}")
    most = 2_000
    looked = gather(run, most)
    share = Sample.of_run(run.rows("hops"), run.rows("deliveries"), most)
    monkeypatch.setattr(aggregates._Aggregates, "sample", share)
    if several:
        monkeypatch.setattr(aggregates, "in_one_partition", lambda _: False)
        monkeypatch.setattr(aggregates, "_ROWS_PER_TASK", 3_000)
    tables, found = analyzed(run)
    assert not aggregates.DRAWN.keys() & tables.keys()  # nobody reads these

    monkeypatch.setattr(gathering, "_hops_of_trace", None)  # who calls it fails
    spared = gather(run, most)
    for name in ("on_links", "at_brokers", "carried", "other", "events"):
        assert np.array_equal(spared.counts[name], looked.counts[name]), name
    assert looked.counts["other"].sum() > 100 and looked.counts["carried"].sum() > 1000
    assert (looked.rows("hops")["kind"] == 0).any()
    drawn = [sorted(zip(*(each.rows("hops")[name].tolist() for name in gathering.WANTED["hops"])))
             for each in (spared, looked)]  # fmt: skip
    assert drawn[0] == drawn[1] and 0.3 * most < len(drawn[0]) < run.rows("hops") / 2
    assert report([run.path], run.path / "spared.html", hops_most=most).is_file()

    for other in (most // 2, run.rows("hops")):  # of another sample there is nothing
        with pytest.raises(TypeError, match="not callable"):
            gather(run, other)
    monkeypatch.undo()
    analyzed(run)  # short enough to be drawn whole
    assert not any((found.folder / name).exists() for name in aggregates.DRAWN)
    assert gather(run, most).counts["events"].sum() == run.rows("hops")


def test_every_table_says_what_it_needs(news):
    _, found = analyzed(news("flooding", level="summary"))
    told = " ".join(found.notes)
    assert all(f"{name} needs trace level" in told for name in FIELD) and AGGREGATES.keys() > FIELD
