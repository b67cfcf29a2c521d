"""The audit in Spark of runs in which something fails: what is excused, and from when on nothing is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from brokers.promises import Recovery
from brokers.verdicts import INVALID, VALID
from protocols.content.covering import Covering
from protocols.content.subscription import Subscription

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark import outages  # noqa: E402
from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.audit_text import text  # noqa: E402

TEXT = """\
duration: 5 s
topology: {{kind: random-tree, nodes: 12}}
links: {{delay: {{kind: uniform, low: 5 ms, high: 30 ms}}}}
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
    run = filled(TEXT, **{"protocol": "subscription", "options": "{}", "state": "kept", "level": "full", **gaps})
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
