"""The audit of services whose publishers advertise: in tasks and in Spark, of what is right and what is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.xdist_group("spark")

from analysis.spark import audit as audits  # noqa: E402
from scenarios.running import run  # noqa: E402

SCENARIO = """
name: s
duration: 3 s
topology: {kind: random-tree, nodes: 8}
links: {delay: {kind: uniform, low: 2 ms, high: 9 ms}, loss: LOSS}
clients: {news: {count: 6}, readers: {count: 12, placement: even}}
trace: {level: full}
services:
  - name: news
    kind: content
    attributes: 2
    protocol: advertising
    adverts: true
    metrics: [publications.outside, links.control]
    workload:
      - {source: advertise, clients: news, ADVERTS}
      - {source: subscribe, clients: readers, number: 2, width: [0.2, 0.6], ramp: 500 ms, churn: {rate: 1/s}}
      - {source: publish, clients: news, rate: 20/s, start: 1 s}
"""
NAMES = """
name: s
duration: 3 s
topology: {kind: random-tree, nodes: 8}
links: {delay: {kind: uniform, low: 2 ms, high: 9 ms}, loss: LOSS}
clients: {news: {count: 6}, readers: {count: 12, placement: even}}
trace: {level: full}
services:
  - name: news
    kind: topics
    protocol: advertising
    adverts: true
    metrics: [publications.outside]
    workload:
      - {source: topic-advertise, clients: news, topics: 40, depth: 3, branching: 3, beginning: 1, number: 2,
         churn: {rate: 2/s}}
      - {source: topic-subscribe, clients: readers, topics: 40, depth: 3, branching: 3, wildcards: 0.6, number: 2,
         ramp: 500 ms, churn: {rate: 1/s}}
      - {source: topic-publish, clients: news, topics: 40, depth: 3, branching: 3, rate: 20/s, start: 1 s}
"""
CHURN = {
    "replaced": "number: 2, width: [0.3, 0.8], churn: {rate: 2/s}",
    "left and joined": "churn: {process: leave-and-join, stay: 500 ms, away: 300 ms}",
}


@pytest.fixture
def news(tmp_path):
    """A run of the scenario."""

    def made(adverts="start: 0 s", loss="0"):
        file = tmp_path / "s.yaml"
        file.write_text(SCENARIO.replace("ADVERTS", adverts).replace("LOSS", loss))
        return run(file, engine="inline", out=tmp_path / "runs")

    return made


def test_what_is_published_in_the_domain_that_is_advertised_is_all_delivered(news):
    done = news()
    measured = done.metrics["services"]["news"]
    (found,) = audits.audit(done.folder.path).services
    assert found.verdict == "valid" and measured["publications.outside"] == 0 < measured["links.control"]
    assert found.interests == 24 + len(_changed(done))


def _changed(done):
    """The subscriptions that took the place of others."""
    operations = done.folder.read("changes")["operation"].to_numpy()
    return np.flatnonzero(operations == 2)


@pytest.mark.parametrize("churn", CHURN)
def test_publishers_that_change_what_they_advertise_are_owed_what_lies_inside(churn, news):
    done = news(CHURN[churn])
    measured = done.metrics["services"]["news"]
    (found,) = audits.audit(done.folder.path).services
    assert found.verdict == "valid" and found.forced > 0 < found.free
    assert 0 < measured["publications.outside"] < measured["publications"]


def dropped(deliveries: pa.Table) -> pa.Table:
    rng = np.random.default_rng(7)
    rows = deliveries.take(pa.array(np.flatnonzero(rng.random(deliveries.num_rows) > 0.1)))
    astray = rows.slice(0, 5).to_pydict() | {"client": rng.permutation(rows["client"].to_numpy())[:5] + 1}
    return pa.concat_tables([rows, pa.table(astray, schema=rows.schema)])


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("loss", ["0", "2 %"])
def test_tasks_say_of_services_with_advertisements_what_spark_does(loss, news, tampered, monkeypatch):
    path = tampered(news(CHURN["replaced"], loss).folder, deliveries=dropped)
    (found,) = audits.audit(path).as_data()["services"]
    monkeypatch.setattr(audits, "matcher_of", lambda rule: None)
    (expected,) = audits.audit(path).as_data()["services"]
    for each in (found, expected):
        del each["shares"], each["outages"], each["budget"]  # what of it only tasks tell
    assert found == expected
    assert found["forced"] > 0 < found["free"] and found["findings"]["missed"]["count"] > 0
    assert (found["excused"] > 0) == (loss != "0")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("loss", ["0", "2 %"])
def test_tasks_say_of_names_that_are_advertised_what_spark_does(loss, tmp_path, tampered, monkeypatch):
    file = tmp_path / "s.yaml"
    file.write_text(NAMES.replace("LOSS", loss))
    done = run(file, engine="inline", out=tmp_path / "runs")
    (sound,) = audits.audit(done.folder.path).services
    assert sound.verdict == "valid" and done.metrics["services"]["news"]["publications.outside"] > 0
    path = tampered(done.folder, deliveries=dropped)
    (found,) = audits.audit(path).as_data()["services"]
    monkeypatch.setattr(audits, "matcher_of", lambda rule: None)
    (expected,) = audits.audit(path).as_data()["services"]
    for each in (found, expected):
        del each["shares"], each["outages"], each["budget"]  # what of it only tasks tell
    assert found == expected
    assert found["forced"] > 0 < found["free"] and found["findings"]["missed"]["count"] > 0


def test_what_was_dropped_is_explained_by_what_was_not_advertised(news):
    from analysis.spark.explain import explain
    from analysis.ways.missing import NOT_ADVERTISED

    done = news("width: 0.3")
    dropped = set(done.folder.read("outside")["publication"].to_pylist())
    changes = done.folder.read("changes").to_pylist()
    asking = next(row["client"] for row in changes if row["operation"] == 1) - 8
    told = [explain(done.folder.path, str(each), client=asking)["to"]["why"]["verdict"] for each in sorted(dropped)]
    assert set(told) == {NOT_ADVERTISED, "not wanted"}
