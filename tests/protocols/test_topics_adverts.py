"""Advertisements of the kind `topics`: which filters meet, who is told of them, what is owed, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import InvalidInput
from brokers.indexes.topics.syntax import DOLLAR, HASH, PLUS, intersects, matches
from brokers.verdicts import VALID
from protocols.conformance import REHEARSALS, audit, check_digests, join, rehearse
from protocols.content.ranges import box_of, holds, meet
from protocols.judging import Offered, published
from protocols.standing import Standing
from protocols.topics import advertise
from protocols.topics.advertise import TopicAdvertiseParameters
from protocols.topics.kind import ADVERTISE, FILTER_AT, SUBSCRIBE, UNADVERTISE, Topics
from protocols.topics.tree import Tree
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from scenarios.running import run

PROTOCOLS = ("advertising", "advertising-covering", "trees")
LINE = [(0, 1), (1, 2), (2, 3), (3, 4)]
KINDS = {syntax: Topics(Topics.Params(syntax=syntax, levels=4).model_dump()) for syntax in ("mqtt", "nats")}
WORDS = {"mqtt": (0, 1, 2, DOLLAR | 1), "nats": (1, 2, DOLLAR | 1)}
NAMES = {
    syntax: [name for depth in (1, 2, 3, 4) for name in product(words, repeat=depth)] for syntax, words in WORDS.items()
}


# ---- which filters meet ------------------------------------------------------------------------------------------


@st.composite
def filters(draw):
    """A syntax, and two of its filters of three levels at most; names go one level deeper."""
    syntax = draw(st.sampled_from(sorted(KINDS)))
    level = st.sampled_from([*WORDS[syntax], PLUS])
    one = st.lists(level, max_size=2).flatmap(lambda begun: st.sampled_from([*WORDS[syntax], PLUS, HASH]).map(
        lambda last: [*begun, last]
    ))  # fmt: skip
    return syntax, draw(one), draw(one)


def box(kind: Topics, levels: list[int]) -> Any:
    return box_of(kind.ranges(np.array([[0, 0, *levels]], np.float64))[0])


@given(filters())
def test_filters_meet_if_there_is_a_name_that_both_have(drawn):
    """By brute force over all names of few words."""
    syntax, one, other = drawn
    kind = KINDS[syntax]
    both = [name for name in NAMES[syntax] if all(matches(each, name, kind.syntax) for each in (one, other))]
    assert meet(box(kind, one), box(kind, other)) == meet(box(kind, other), box(kind, one)) == bool(both)
    assert intersects(one, other, kind.syntax) == bool(both)


@given(filters())
def test_a_filter_holds_the_names_that_it_has(drawn):
    syntax, asked, _ = drawn
    kind = KINDS[syntax]
    mine = box(kind, asked)
    for name in NAMES[syntax]:
        assert holds(mine, kind.point(np.array(name, np.float64))) == matches(asked, name, kind.syntax)


# ---- step by step --------------------------------------------------------------------------------------------------


def line(protocol: str) -> Any:
    """Five brokers in a row, with a client each."""
    return join(protocol, LINE, kind="topics", params={"adverts": True})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_subscription_goes_where_a_name_may_be_published_that_it_has(protocol):
    net = line(protocol)
    net.send(0, "advertise", [0, 0, 1, PLUS, 2], word=net.interest(0))
    net.send(4, "advertise", [0, 0, 3, HASH], word=net.interest(4))
    net.send(2, "subscribe", [0, 0, PLUS, 5, PLUS], word=net.interest(2))
    assert net.over(2, 1)[-1].word == net.over(2, 3)[-1].word == net.interest(2)
    net.send(2, "subscribe", [0, 0, 1, PLUS], word=net.interest(2, 1))  # of two levels, and neither has them
    assert all(hop.word != net.interest(2, 1) for ends in ((2, 1), (2, 3)) for hop in net.over(*ends))
    net.send(0, "publish", [1, 5, 2]), net.send(4, "publish", [3, 5, 1])
    assert [each.client for each in net.deliveries()] == [2, 2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_leading_wildcard_promises_no_name_with_a_dollar(protocol):
    net = line(protocol)
    net.send(0, "advertise", [0, 0, HASH], word=net.interest(0))
    net.send(2, "subscribe", [0, 0, DOLLAR | 1, HASH], word=net.interest(2))
    assert all(hop.word != net.interest(2) for hop in net.over(2, 1))
    dropped = net.send(0, "publish", [DOLLAR | 1, 2])
    assert net.deliveries() == [] and net._traces.tables()["outside"]["publication"].tolist() == [dropped]


# ---- what is owed --------------------------------------------------------------------------------------------------


def tables(model: Any) -> Any:
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return traces.tables()


@pytest.mark.parametrize("syntax", sorted(KINDS))
@pytest.mark.parametrize("rehearsal", [REHEARSALS[0], REHEARSALS[4], REHEARSALS[6]], ids=lambda each: each.name)
@pytest.mark.parametrize("protocol", [*PROTOCOLS, "covering"])
def test_a_rehearsal_is_exact_and_nothing_that_was_dropped_had_been_advertised(protocol, rehearsal, syntax):
    params = Topics.Params(syntax=syntax, adverts=True).model_dump()
    model = rehearse(rehearsal, protocol, 2, kind="topics", params=params)
    trace, service = tables(model), model.services[0]
    kind, guarantees = Topics(service.params), service.protocol_class.guarantees_for(model.overlay)
    found = audit(trace, kind, guarantees)
    assert found.verdict == VALID and found.forced > 50, str(found)
    dropped = set(trace["outside"]["publication"].tolist())
    assert bool(dropped) == (protocol in PROTOCOLS)
    offered = Offered(Standing(trace, kind, 0, guarantees), kind)
    every = list(published(found, trace, kind, 0))
    assert not any(offered.certain(p) for p in every if p.id in dropped)
    assert {ADVERTISE, UNADVERTISE} <= set(trace["changes"]["operation"].tolist())


@pytest.mark.full
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_service_of_names_with_advertisements_gives_one_trace_however_it_runs(protocol):
    model = rehearse(REHEARSALS[0], protocol, 1, kind="topics", params=Topics.Params(adverts=True).model_dump())
    assert not check_digests(model)


def test_without_adverts_a_rehearsal_is_what_it_was():
    plain = rehearse(REHEARSALS[0], "subscription", 1, kind="topics").services[0].sources[0].params
    assert [part["type"] for part in plain["emissions"]] == [0, 1, 2]


def test_services_without_adverts_say_nothing_of_them_so_that_runs_keep_their_ids():
    assert "adverts" not in Topics.Params().model_dump() and Topics.Params(adverts=True).model_dump()["adverts"]


# ---- workloads and scenarios -----------------------------------------------------------------------------------------


SCENARIO = """
duration: 3 s
topology: {kind: random-tree, nodes: 6}
links: {delay: 5 ms}
clients: {sensors: {count: 4}, readers: {count: 10, placement: even}}
trace: {level: full}
services:
  - name: site
    kind: topics
    protocol: advertising
    adverts: true
    metrics: [publications.outside, links.control]
    workload:
      - {source: topic-advertise, clients: sensors}
      - {source: topic-subscribe, clients: readers, topics: 60, depth: 3, branching: 4, wildcards: 0.5, ramp: 500 ms}
      - {source: topic-publish, clients: sensors, topics: 60, depth: 3, branching: 4, rate: 20/s, start: 1 s}
"""


@pytest.mark.parametrize(
    "said, outside",
    [("clients: sensors", False), ("clients: sensors, topics: 60, depth: 3, branching: 4, beginning: 1", True)],
    ids=["all", "parts"],
)
def test_what_lies_in_what_is_advertised_is_delivered_and_the_rest_is_counted(said, outside, tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO.replace("topic-advertise, clients: sensors", f"topic-advertise, {said}"))
    measured = run(file, engine="inline", out=tmp_path / "runs").metrics["services"]["site"]
    assert measured["deliveries"] > 0 and measured["links.control"] > 0
    assert (0 < measured["publications.outside"] < measured["publications"]) == outside


def test_advertisements_are_the_beginnings_of_names_of_the_tree():
    said = TopicAdvertiseParameters(topics=50, depth=(1, 3), branching=3, beginning=2)
    names = Tree(said).topics(np.arange(50))
    for name, row in zip(names, said.begun(names)):
        levels, asked = name[~np.isnan(name)], row[~np.isnan(row)]
        kept = min(2, levels.size - 1)
        assert asked.tolist() == [0, 0, *levels[:kept], HASH]


def test_a_client_advertises_as_often_as_it_says_and_never_from_the_start():
    text = SCENARIO.replace("topic-advertise, clients: sensors", "topic-advertise, clients: sensors, number: 2")
    settled = text.replace("adverts: true", "adverts: true\n    subscriptions: settled").replace(", ramp: 500 ms", "")
    for each in (text, settled):
        changes = tables(resolve(loads(each)))["changes"]
        assert (changes["operation"] == ADVERTISE).sum() == 4 * 2


@pytest.mark.parametrize(
    "change, told",
    [
        (("adverts: true", "adverts: false"), "the protocol 'advertising' needs `adverts: true`"),
        (("adverts: true", "adverts: false"), "does not heed advertisements; say `adverts: true`"),
        (("- {source: topic-advertise, clients: sensors}", ""), "clients 'sensors' never advertise"),
        (
            ("topic-advertise, clients: sensors", "topic-advertise, clients: sensors, filter: site/#"),
            "none of the 60 names under which clients 'sensors' publish is in what they advertise, site/#",
        ),
        (
            ("topic-advertise, clients: sensors", "topic-advertise, clients: sensors, filter: +/+"),
            "is in what they advertise, +/+",
        ),
        (
            (
                "topic-advertise, clients: sensors",
                "topic-advertise, clients: sensors, topics: 9, depth: 5, beginning: 4",
            ),
            "is in what they advertise, parts of another tree",
        ),
        (
            ("topic-advertise, clients: sensors", "topic-advertise, clients: sensors, filter: a/#/b"),
            "it stands for all that is left, so it comes last",
        ),
        (
            ("topic-advertise, clients: sensors", "topic-advertise, clients: sensors, filter: '#', beginning: 1"),
            "leave out one of the two",
        ),
        (("adverts: true", "adverts: true\n    groups: true"), "no protocol can do both `adverts` and `groups`"),
        (("adverts: true", "adverts: true\n    no_local: true"), "no protocol can do both `adverts` and `no_local`"),
    ],
)
def test_what_never_can_fit_is_told_before_anything_runs(change, told):
    with pytest.raises(ScenarioErrors) as error:
        resolve(loads(SCENARIO.replace(*change)))
    assert told in str(error.value)


def test_a_filter_that_has_some_names_of_the_tree_is_taken():
    fits = SCENARIO.replace("topic-advertise, clients: sensors", "topic-advertise, clients: sensors, filter: +/2/#")
    assert resolve(loads(fits)).services[0].params["adverts"]


def test_names_are_not_listed_where_all_of_them_are_advertised(monkeypatch):
    """A tree may have ten millions of them."""
    monkeypatch.setattr(advertise, "Tree", None)
    assert resolve(loads(SCENARIO)).services[0].params["adverts"]
    with pytest.raises(ScenarioErrors, match="cannot be set up"):
        resolve(loads(SCENARIO.replace("topic-advertise,", "topic-advertise, filter: +/2/#,")))


SCRIPT = """
      - source: script
        clients: sensors
        actions:
          - {at: 100 ms, client: 0, op: advertise, text: site/#}
          - {at: 200 ms, client: 1, op: subscribe, text: +/7/temperature}
          - {at: 1 s, client: 0, op: publish, text: site/7/temperature}
          - {at: 1 s, client: 0, op: publish, text: plant/7/temperature}
          - {at: 2 s, client: 0, op: unadvertise}
"""
WRITTEN = SCENARIO.split("      - {source: topic-adv")[0]


def test_scripts_advertise_in_text():
    model = resolve(loads(WRITTEN + SCRIPT))
    trace = tables(model)
    assert trace["deliveries"]["client"].size == trace["outside"]["publication"].size == 1
    kind = Topics(model.services[0].params)
    rows = trace["changes"]["values"][trace["changes"]["operation"] == ADVERTISE]
    assert kind.spelled(ADVERTISE, list(rows[0])) == ["site/#"]


@pytest.mark.parametrize("text, told", [("a/#/b", "it comes last"), ("$share/g/a", "the service has no groups")])
def test_what_is_no_filter_cannot_be_advertised(text, told):
    with pytest.raises(ScenarioErrors, match=told):
        resolve(loads(WRITTEN + SCRIPT.replace("text: site/#", f"text: {text}")))


def test_what_is_written_is_read_and_spelled_back():
    kind = Topics(Topics.Params(adverts=True).model_dump())
    row = kind.read(ADVERTISE, "1/+/#")
    assert row.tolist() == kind.read(SUBSCRIBE, "1/+/#").tolist() == [0, 0, 1, PLUS, HASH]
    assert kind.amiss(ADVERTISE, row) is None and kind.spelled(ADVERTISE, row.tolist()) == ["1/+/#"]
    assert "groups" in str(kind.amiss(ADVERTISE, np.array([0.0, 1.0, 1.0])))
    assert kind.amiss(UNADVERTISE, row) and row.size == FILTER_AT + 3
    with pytest.raises(InvalidInput, match="no body"):
        kind.read(UNADVERTISE, "1/#")


def test_files_hold_advertisements_of_services_that_heed_them(tmp_path):
    (tmp_path / "log.csv").write_text(
        "time_s,client,op,topic,filter,advert\n"
        "0.1,0,advertise,,site/#,0\n0.2,1,subscribe,,+/7,\n1,0,publish,site/7,,\n1.1,0,publish,hall/7,,\n"
        "2,0,unadvertise,,,0\n2.5,0,publish,site/7,,\n"
    )
    file = tmp_path / "s.yaml"
    file.write_text(WRITTEN + "      - {source: replay, file: log.csv, clients: sensors}\n")
    measured = run(file, engine="inline", out=tmp_path / "runs").metrics["services"]["site"]
    assert measured["deliveries"] == 1 and measured["publications.outside"] == 2
