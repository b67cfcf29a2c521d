"""The audit in Spark of runs in which something fails: what is excused, and from when on nothing is."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from brokers.contract import Guarantees
from brokers.engine.runfolder import open_run
from brokers.promises import Excused, Recovery
from brokers.verdicts import INVALID, VALID
from protocols.content.covering import Covering
from protocols.content.subscription import Subscription

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark import audit as audits  # noqa: E402
from analysis.spark import compared, outages  # noqa: E402
from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.audit_text import text  # noqa: E402

TEXT = """\
duration: 5 s
topology: {{kind: random-tree, nodes: 12}}
links: {{delay: {{kind: uniform, low: 5 ms, high: 30 ms}}{latent}}}
clients:
  publishers: {{count: 5, placement: even}}
  subscribers: {{count: 24, placement: even}}
services:
  - name: news
    kind: content
    attributes: 3
    protocol: {protocol}
    options: {options}
    workload:
      - source: subscribe
        clients: subscribers
        number: 2
        constraints: 1
        width: [0.1, 0.8]
        ramp: 1 s
        churn: {{process: replace, rate: 20/min}}
      - {{source: publish, clients: publishers, rate: 10/s}}
faults:
  detect: 100 ms
  schedule:
    - {{fault: cut, link: [b0, b1], at: 500 ms, lasts: 1 s}}
    - {{fault: crash, brokers: [b2], at: 1 s, lasts: 500 ms, state: {state}}}
trace: {{level: {level}}}
"""


def audited(filled, **gaps):
    """The audit of the service, and its run."""
    usual = {"protocol": "subscription", "options": "{}", "state": "kept", "level": "full", "latent": ""}
    run = filled(TEXT, **{**usual, **gaps})
    found = audit(run.path)
    return found.services[0], run, found


@pytest.mark.parametrize("state", ["kept", "lost"])
@pytest.mark.parametrize("level", ["full", "deliveries"])
def test_who_recovers_is_held_to_it_and_passes(state, level, filled):
    service, run, found = audited(filled, options="{recover: true}", state=state, level=level)
    assert service.verdict == VALID, text(found)
    assert service.guarantees["under_faults"] == "recovers"
    within = service.guarantees["recovers_ns"]
    assert service.reason.endswith(f"; all of it again {within / 1e9:.3g} s after the last fault")
    assert service.losses > 0 and 2 * service.forced > service.free
    kept = json.loads((run.path / "analysis" / "audit.json").read_text("utf-8"))
    assert kept["services"][0]["guarantees"]["recovers_ns"] == within


@pytest.mark.parametrize("level", ["full", "deliveries"])
def test_latent_links_that_nobody_opens_excuse_nothing(level, filled):
    gaps = {"options": "{recover: true}", "level": level}
    (plain, *_), (shut, *_) = (audited(filled, **gaps, latent=latent) for latent in ("", ", latent: {hops: 3}"))
    for asked in ("verdict", "guarantees", "forced", "free", "excused", "deliveries"):
        assert getattr(plain, asked) == getattr(shut, asked), asked


@pytest.mark.parametrize("protocol", [Subscription, Covering], ids=["subscription", "covering"])
def test_who_says_so_and_does_not_is_accused(protocol, filled, monkeypatch):
    gaps = {"protocol": protocol.__name__.lower()}
    silent, _, _ = audited(filled, **gaps)
    assert silent.verdict == VALID and silent.guarantees["under_faults"] == "nothing"
    monkeypatch.setattr(protocol, "recovery", classmethod(lambda *_: Recovery(300_000_000)))
    boasting, _, _ = audited(filled, **gaps)
    assert boasting.verdict == INVALID and boasting.missed.count > 0
    assert boasting.forced > silent.forced and boasting.deliveries == silent.deliveries


def test_who_forgot_and_promises_nothing_is_not_accused(filled):
    service, _, found = audited(filled, state="lost")
    assert service.verdict != INVALID, text(found)
    kept, _, _ = audited(filled)
    assert service.forced < kept.forced


@pytest.mark.parametrize("state", ["kept", "stored"])
@pytest.mark.parametrize("level", ["full", "deliveries"])
def test_who_is_reliable_has_no_excuse_and_passes(state, level, filled):
    service, _, found = audited(filled, protocol="reliable", state=state, level=level)
    assert service.verdict == VALID, text(found)
    assert service.reason.endswith("under faults too") and service.losses > 0 and service.excused == 0


@pytest.mark.parametrize("level", ["full", "deliveries"])
def test_who_is_reliable_over_links_that_arise_has_no_excuse_either(level, filled):
    gaps = {"protocol": "neighbourhood", "latent": ", latent: {hops: 2}", "state": "stored", "level": level}
    service, run, found = audited(filled, **gaps)
    assert service.verdict == VALID, text(found)
    assert service.losses > 0 and service.excused == 0 and 2 * service.forced > service.free
    links = run.read("links")
    over = links["messages"].to_numpy()[links["latent"].to_numpy() == 1]
    assert over.sum() > 0  # it has bridged


def test_of_a_client_s_broker_that_lost_its_store_nothing_is_owed_meanwhile(filled):
    service, _, found = audited(filled, protocol="reliable", state="lost")
    assert service.verdict == VALID, text(found)
    assert service.excused > 0


def test_who_says_to_be_reliable_and_is_not_is_accused(filled, monkeypatch):
    promise = Guarantees(under_faults="reliable")
    monkeypatch.setattr(Subscription, "guarantees_for", classmethod(lambda *_: promise))
    service, _, _ = audited(filled)
    assert service.verdict == INVALID and service.missed.count > 0


@pytest.mark.parametrize("name", ["flapping", "partition-heals"])
def test_what_shipped_scenarios_of_faults_expect_holds(name, tmp_path):
    from scenarios.many.expect import judged_run
    from scenarios.running import run

    judged = judged_run(run(name, engine="inline", out=tmp_path).folder)
    assert len(judged) == 2 and all(each.holds for each in judged), list(map(str, judged))
    found = json.loads((next(tmp_path.glob("*/analysis/audit.json"))).read_text("utf-8"))["services"]
    assert [each["guarantees"]["under_faults"] for each in found] == ["nothing", "recovers"]
    assert found[0]["excused"] > found[1]["excused"]  # without recovering, losses excuse all along
    for each in found:
        assert sum(share["wanted"] for share in each["shares"]) == each["forced"] + each["excused"]
        assert sum(share["delivered"] for share in each["shares"]) == (
            each["forced"] + each["excused"] - each["excused_missed"] - each["findings"]["missed"]["count"]
        )
        assert sum(each["losses_by_reason"].values()) == each["losses"] > 0
    last = [each["outages"][-1] for each in found]
    assert last[0]["missing_for_ns"] > last[1]["missing_for_ns"]
    assert last[1]["missing_for_ns"] < found[1]["guarantees"]["recovers_ns"]


def test_an_outage_is_a_stretch_in_which_anything_is_broken():
    spans = outages.outages([5, 1, 9, 20], [8, 5, 12, -1])
    assert spans == [(1, 8), (9, 12), (20, -1)]
    marks = outages.marks_of(spans)
    sent = np.array([0, 3, 8, 8, 10, 13, 14, 15, 30])
    wanted, came = np.ones(9, bool), np.array([1, 0, 1, 0, 0, 0, 1, 1, 0], bool)
    wanted[7] = False
    columns = outages.by_stretch(sent, wanted, came, marks, 10)
    rows = [dict(zip(columns, row)) for row in zip(*(column.tolist() for column in columns.values()))]
    shares, after = outages.told(rows, spans, {2: 7}, 10)
    assert [tuple(each.values()) for each in shares] == [(0, 4, 2), (10, 3, 1), (30, 1, 0)]
    assert [each["missing_for_ns"] for each in after] == [1, 2, None]  # what was sent at 8 and at 13
    assert [each["repair_messages"] for each in after] == [7, 0, None]
    assert outages.width_ns(5 * 10**9) == 10**8 and outages.width_ns(10**11) == 2 * 10**9


DOUBLED = ["faults.schedule=[{fault: degrade, at: 1 s, lasts: 2 s, twice: 0.3}]", "trace.level=full", "duration=4 s"]
RING = """\
duration: 4 s
topology: {kind: ring, nodes: 7}
links: {delay: 5 ms}
clients: {all: {count: 20}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 1
    cost: {base: 2 ms}
    workload:
      - {source: subscribe, width: 1}
      - {source: publish, rate: 20/s}
faults:
  detect: 100 ms
  schedule: [{fault: rolling-restart, at: 500 ms, lasts: 50 ms, every: 100 ms, shuffled: true, state: STATE}]
trace: {level: full}
"""


@pytest.fixture
def both(tmp_path):
    """What the kit and the audit say of a scenario, the audit in tasks and, where that is asked too, in Spark."""
    from protocols.conformance import audit_run
    from scenarios.loader import load
    from scenarios.plan import resolve
    from scenarios.running import run

    def ask(scenario, overrides=()):
        if "\n" in scenario:
            file = tmp_path / "scenario.yaml"
            file.write_text(scenario, encoding="utf-8")
            scenario = str(file)
        folder = run(scenario, overrides=list(overrides), engine="inline", out=tmp_path / "runs").folder.path
        return audit_run(resolve(load(scenario, overrides=list(overrides)))), audit(folder).services[0], folder

    return ask


def test_an_answer_that_a_link_doubled_is_no_other_answer(both, monkeypatch):
    kit, found, folder = both("maps", DOUBLED)
    assert (kit.verdict, found.verdict) == (VALID, VALID), found.reason
    assert found.doubled == kit.doubled > 10
    assert (found.forced, found.unwanted.count) == (kit.forced, 0)
    monkeypatch.setattr(audits, "matcher_of", lambda rule: None)
    in_spark = audit(folder).services[0]
    assert (in_spark.verdict, in_spark.forced, in_spark.unwanted.count) == (VALID, found.forced, 0)


def test_an_answer_that_nothing_doubled_is_wrong_the_second_time(both, tampered):
    _, _, folder = both("maps", [each.replace("at: 1 s, lasts: 2 s", "at: 3 s, lasts: 1 s") for each in DOUBLED])

    def again(received):
        return pa.concat_tables([received, received.slice(0, 1)])

    found = audit(tampered(open_run(folder), received=again)).services[0]
    assert found.unwanted.count == 1 and found.verdict == INVALID


def test_a_broker_that_forgot_may_deliver_again_and_no_other(both, monkeypatch):
    kit, found, folder = both(RING.replace("STATE", "lost"))
    assert kit.verdict != INVALID and found.verdict != INVALID, found.reason
    assert found.duplicated.count == kit.duplicated.count == 0
    monkeypatch.setattr(compared, "excused_of", lambda trace, service: Excused())
    assert audit(folder).services[0].duplicated.count > 0  # there were some


def test_what_waits_for_a_broker_at_the_end_is_said_when_it_is_up(both):
    """A client leaves while its broker is down, which is up again only when nobody publishes any more."""
    kit, found, folder = both("""\
duration: 2 s
topology: {kind: line, nodes: 2}
links: {delay: 20 ms}
clients:
  riders:
    count: 4
    placement: {kind: explicit, brokers: [b1]}
    mobility: {kind: path, stops: [{at: 1950 ms, broker: b0}]}
  press: {count: 2, placement: {kind: explicit, brokers: [b0]}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 1
    workload:
      - {source: subscribe, clients: riders, width: 1}
      - {source: publish, clients: press, rate: 50/s}
faults: {schedule: [{fault: crash, brokers: [b1], at: 1900 ms, lasts: 110 ms}]}
trace: {level: full}
""")
    assert (kit.verdict, found.verdict) == (VALID, VALID), found.reason
    changes = open_run(folder).read("changes", ["issued_ns"]).to_pydict()["issued_ns"]
    assert max(changes) == 2_010_000_000
