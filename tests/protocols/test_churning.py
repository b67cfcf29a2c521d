"""Links that entered and left meshes are those that real brokers had in them, looked at whenever one watched."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from protocols.gossip import churning, gossipsub
from protocols.topics.kind import Topics
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from scenarios.running import run

KIND = Topics(Topics.Params().model_dump())
TEXT = """
duration: 16 s
drain: 10 s
topology: {kind: erdos-renyi, nodes: 16, probability: 0.5}
links: {delay: {kind: uniform, low: 5 ms, high: 15 ms}, loss: 0.02}
clients: {all: {count: 24, placement: even}}
services:
  - name: news
    kind: topics
    wildcards: false
    protocol: gossipsub
    options: {version: "1.1", d: 4, d_lo: 3, d_hi: 5, d_score: 2, d_out: 1, backoff: 2 s, watch_ticks: WATCH}
    metrics: [meshes.entered, meshes.left, meshes.churn]
    workload:
      - source: topic-subscribe
        topics: 4
        depth: 1
        churn: {process: replace, rate: 30/min}
      - {source: topic-publish, topics: 4, depth: 1, total_rate: 2/s, start: 2 s}
trace: {level: full}
"""
FAULTS = """
faults:
  detect: 100 ms
  schedule:
    - {fault: crash, brokers: [3], at: 6 s, lasts: 3 s}
    - {fault: cut, link: [0, 2], at: 4 s, lasts: 4 s}
"""


@pytest.mark.parametrize(
    ("metric", "watch", "beside", "why"),
    [
        ("meshes.churn", 0, False, "the table `scores` has rows where the option `watch_ticks` asks for them"),
        ("scores.honest", 0, False, "the table `scores` has rows where the option `watch_ticks` asks for them"),
        ("control.bytes_per_payload_byte", 0, True, "it is measured of a service alone (there are 2)"),
    ],
)
def test_what_will_never_be_measured_is_told_before_a_run(metric, watch, beside, why):
    text = TEXT.replace("WATCH", str(watch)).replace("meshes.entered, meshes.left, meshes.churn", metric)
    other = "  - {name: more, kind: content, protocol: flooding, workload: []}\n"
    text = text.replace("trace: {level", other + "trace: {level") if beside else text
    assert f"news.{metric} will not be measured: {why}" in resolve(loads(text)).facts["notes"]
    with pytest.raises(ScenarioErrors, match=rf"expect\[0\]: news.{metric} will not be measured"):
        loads(text + f"expect: ['news.{metric} < 3']\n")


def test_what_can_be_measured_is_not_said_to_lack_anything():
    text = TEXT.replace("WATCH", "1").replace("meshes.churn", "meshes.churn, control.bytes_per_payload_byte")
    assert not [note for note in resolve(loads(text)).facts["notes"] if "will not be measured" in note]
    loads(text + "expect: [meshes.churn < 3]\n")


def test_where_nobody_attacks_all_are_honest(tmp_path):
    text = TEXT.replace("WATCH", "1").replace("meshes.left", "honest.delivered, scores.honest").replace("16 s", "8 s")
    done = run(loads(text), engine="inline", out=tmp_path)
    found = done.metrics["services"]["news"]
    assert not (done.folder.path / "tables" / "attackers").exists()
    assert found["meshes.entered"] > 0 and found["meshes.churn"] > 0
    assert 0.5 < found["honest.delivered"] <= 1 and found["scores.honest"] == 0  # nobody scores


NOBODY = {"attackers": {"broker": np.empty(0, np.int64)}}


class Seen:
    """Meshes as brokers had them: by broker the (time, members) of each watch, and what was taken in or let go."""

    def __init__(self, monkeypatch, text):
        self.meshes, self.taken, self.gone = {}, Counter(), Counter()
        watch, take_in, let_go = gossipsub.watch, gossipsub.GossipSub.take_in, gossipsub.GossipSub.let_go

        def watching(broker, message):
            every = broker.said.watch_ticks
            if every and broker.ticks % every == 0 and message.time < broker.node.env.duration_ns and broker.links:
                there = {(topic, link) for topic, links in broker.mesh.items() for link in links}
                self.meshes.setdefault(broker.node.broker, []).append((message.time, there))
            watch(broker, message)

        def taking(broker, now, topic, link):
            self.taken[broker.node.broker, topic, link] += 1
            take_in(broker, now, topic, link)

        def letting(broker, topic, link):
            self.gone[broker.node.broker, topic, link] += 1
            let_go(broker, topic, link)

        monkeypatch.setattr(gossipsub, "watch", watching)
        monkeypatch.setattr(gossipsub.GossipSub, "take_in", taking)
        monkeypatch.setattr(gossipsub.GossipSub, "let_go", letting)
        model = resolve(loads(text))
        traces = MemoryTraces("full", tables_of(model))
        simulate(model, trace=traces)
        self.tables = {**NOBODY, **traces.tables()}


@pytest.mark.parametrize("more", ["", FAULTS], ids=["at peace", "faults"])
@pytest.mark.parametrize("ticks", [1, 3])
def test_what_entered_and_left_is_what_brokers_had_in_their_meshes(monkeypatch, more, ticks):
    seen = Seen(monkeypatch, TEXT.replace("WATCH", str(ticks)) + more)
    found = churning.churn(seen.tables)
    rows = {(b, t): row for b, t, *row in zip(*(column.tolist() for column in (
        found.broker, found.time_ns, found.turn, found.links, found.entered, found.left)))}  # fmt: skip
    expected = {}
    for broker, watches in seen.meshes.items():
        before = None
        for turn, (time, there) in enumerate(watches):
            moved = (0, 0) if before is None else (len(there - before), len(before - there))
            expected[broker, time] = [turn, len(there), *moved]
            before = there
    assert rows == expected
    entered, left = (sum(row[at] for row in expected.values()) for at in (2, 3))
    assert (entered, left) == (churning.entered(seen.tables, KIND), churning.left(seen.tables, KIND))
    assert entered > 30 and left > 30
    later = sum(row[0] > 0 for row in expected.values())
    assert churning.churned(seen.tables, KIND) == pytest.approx((entered + left) / later)
    assert entered <= sum(seen.taken.values())  # nothing enters but by being taken in


def test_one_that_goes_and_one_that_comes_are_two():
    def scores(*rows):
        names = ("broker", "time_ns", "neighbour", "topic", "mesh")
        columns = dict(zip(names, zip(*rows)))
        return NOBODY | {"scores": {n: np.array(c, object if n == "topic" else np.int64) for n, c in columns.items()}}

    tables = scores(
        (0, 10, 1, "a", 1), (0, 10, 1, "", 1), (0, 10, 2, "a", 0), (0, 10, 2, "", 0),
        (0, 20, 1, "a", 0), (0, 20, 1, "", 0), (0, 20, 2, "a", 1), (0, 20, 2, "", 1),
    )  # fmt: skip
    assert (churning.entered(tables, KIND), churning.left(tables, KIND)) == (1, 1)
    assert churning.churned(tables, KIND) == 2
    tables = scores((0, 10, 1, "", 0), (1, 10, 0, "", 1), (0, 20, 1, "", 1), (1, 20, 0, "", 0))
    tables["attackers"] = {"broker": np.array([1])}
    assert churning.churn(tables).broker.tolist() == [0, 0]  # the other attacks
    once = scores((0, 10, 1, "", 1))
    assert churning.entered(once, KIND) is None is churning.churned(once, KIND)
