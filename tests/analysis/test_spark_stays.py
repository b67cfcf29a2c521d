"""The audit where clients come and go: what came too late is asked of nobody, and excuses nothing else."""

from __future__ import annotations

import pytest

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import InvalidInput
from brokers.faults import AWAY
from protocols.conformance import audit as brute_force
from scenarios.plan import resolve
from scenarios.running import scenario_of

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.audit_text import text  # noqa: E402
from analysis.spark.explain import explain  # noqa: E402
from analysis.spark.explain import text as told  # noqa: E402
from analysis.spark.trace import Trace, services_of  # noqa: E402
from protocols.content.handing import HandOver  # noqa: E402

RIDERS = """\
duration: 5 s
topology: {{kind: random-tree, nodes: 9}}
links: {{delay: {{kind: uniform, low: 3 ms, high: 25 ms}}}}
clients:
  press: {{count: 5}}
  riders:
    count: 25
    mobility: {{kind: random-waypoint, stay: 1500 ms, travel: 100 ms}}
    connections: {{kind: sessions, on: 2 s, off: 300 ms}}
    {session}
services:
  - name: news
    kind: content
    protocol: subscription
    attributes: 2
    cost: {{base: {cost}}}
    workload:
      - {{source: subscribe, clients: riders, number: 2, width: 0.4, churn: {{process: replace, rate: 6/min}}}}
      - {{source: publish, clients: press, rate: 10/s}}
  - name: best
    kind: topk
    protocol: topk-gather
    attributes: 3
    k: 4
    cost: {{base: {cost}}}
    workload:
      - {{source: rank-subscribe, clients: riders, constraints: 2, width: 0.5}}
      - {{source: rank-publish, clients: press, rate: 4/s}}
trace: {{level: {level}}}
"""


def test_the_audit_agrees_with_brute_force_on_clients_that_come_and_go(filled):
    run = filled(RIDERS, session="", cost="500 us", level="full")
    model = resolve(scenario_of(run))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables = traces.tables()
    assert (tables["losses"]["reason"] == AWAY).sum() > 3
    tables["changes"]["values"] = [row[:3] for row in tables["changes"]["values"]]  # as long as the other service's
    news, best = audit(run.path).services
    service = services_of(run)[0]
    expected = brute_force(tables, service.kind, service.guarantees(Trace(None, run).network))
    assert (news.verdict, best.verdict, expected.verdict) == ("valid", "valid", "valid")
    assert (news.forced, news.free) == (expected.forced, expected.free)


@pytest.mark.parametrize("level", ["full", "deliveries"])
def test_what_was_handed_over_is_owed_where_hops_tell_and_accused_nowhere(filled, level):
    run = filled(RIDERS, session="session: {keep: 3 s}", cost="0", level=level)
    news = audit(run.path).services[0]
    assert news.verdict == "valid" and news.forced > 0
    assert not any(finding.count for finding in (news.missed, news.unwanted, news.duplicated, news.out_of_order))
    if level == "deliveries":
        assert news.sessions is None
    else:
        assert news.sessions["owed"] > news.sessions["sent_while_away"] > 10
        assert f"{news.sessions['owed']:,} decisions forced over several stays" in text(audit(run.path))


def test_what_a_protocol_that_keeps_nothing_says_too_late_is_no_session_that_expired(filled):
    run = filled(RIDERS, session="session: {keep: 3 s}", cost="0", level="full")
    best = audit(run.path).services[1]
    reasons = {each["reason"] for each in run.read("losses").to_pylist() if each["service"] == 1}
    assert reasons == {AWAY}
    assert best.verdict == "valid", best.reason


def test_what_did_not_reach_a_client_that_was_away_is_missed(filled, monkeypatch):
    """A hand-over that keeps two messages at most, whatever the session says."""
    keep = HandOver._keep

    def forgetful(self, message, client, one):
        if len(self.kept[client]) < 2:
            keep(self, message, client, one)

    monkeypatch.setattr(HandOver, "_keep", forgetful)
    run = filled(RIDERS, session="session: {keep: 4 s}", cost="0", level="full")
    news = audit(run.path).services[0]
    assert news.verdict == "invalid" and news.missed.count > 0
    assert news.missed.examples[0]["client"] < 30


def test_a_client_is_explained_by_the_number_of_its_stay(filled):
    run = filled(RIDERS, session="", cost="4 ms", level="full")
    losses = run.read("losses").to_pylist()
    late = next(each for each in losses if each["reason"] == AWAY and each["service"] == 0)
    nodes = 9
    message, client = f"{(late['body'] >> 32) - nodes}#{late['body'] & 0xFFFFFFFF}", late["client"] - nodes
    found = explain(run.path, message, client)
    assert found["to"]["said"].startswith(f"client {client} did not get it: it had left before its broker ")
    assert f"delivery lost since the client had left: {client}" in told(found)
    with pytest.raises(InvalidInput, match="there is no client 99999; they are numbered 0 to"):
        explain(run.path, message, 99999)
