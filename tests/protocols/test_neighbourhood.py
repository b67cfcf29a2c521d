"""`neighbourhood`: as reliable as `reliable`, and past up to δ brokers in a row that are down it goes on at once."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.bench.routing_neighbourhood import outage, reachable, survival
from brokers.contract import NEVER, LinkTable
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT, LOST, STORED, Crash, Cut, Schedule
from brokers.verdicts import VALID
from protocols.conformance import audit_run, check_digests, join, rehearse, variants
from protocols.content.neighbourhood import Neighbourhood, Options
from protocols.content.neighbourhood.bridges import GREET, SIDE
from protocols.content.neighbourhood.surroundings import Surroundings
from protocols.joining import overlay_of
from protocols.routes import Routes
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from tests.brokers.test_engine_checkpoint import (
    continued,
    differing_tables,
    folder_for,
    stopped_at,
    undisturbed,
)
from tests.protocols.test_reliable import IN_IT, SMALL, WIDE, arrivals, faults
from topology.latent import with_latent
from topology.links import Latent

MS = 1_000_000
DETECT = 20 * MS


def struck(seed: int, number: int | None = None, clients: int = 7) -> Any:
    """A rehearsal under faults, of links that may arise too; δ, beats and detection differ by seed."""
    options = {"delta": 1 + seed % 3, "every": (100, 20, 5)[seed % 3] * MS}
    rehearsal = SMALL[(seed if number is None else number) % len(SMALL)]
    model = rehearse(replace(rehearsal, duration_ns=400 * MS), "neighbourhood", seed, clients, options=options)
    detect = (1, 1 * MS, 8 * MS, DETECT, NEVER)[seed % 5]
    return replace(model, faults=replace(faults(model, seed), detect_ns=detect))


def ran(model: Any) -> dict[str, Any]:
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return traces.tables()


def sent_over(tables: Any, type_: int) -> int:
    return int(((tables["hops"]["type"] == type_) & (tables["hops"]["link"] >= 0)).sum())


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_was_accepted_is_missed_doubled_or_out_of_order(seed):
    found = audit_run(struck(seed))
    assert found.guarantees.under_faults == "reliable"
    assert found.verdict == VALID or "too little" in str(found), str(found)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000))
def test_nothing_is_missed_whatever_the_schedule(seed):
    found = audit_run(struck(1000 + seed))
    assert found.verdict == VALID or "too little" in str(found), str(found)


def test_such_schedules_have_brokers_bridge_and_hint():
    tables = [ran(struck(seed)) for seed in (1, 2, 3)]
    assert sum(sent_over(each, GREET) for each in tables) > 10 and sum(sent_over(each, SIDE) for each in tables) > 2


def test_under_faults_it_is_the_same_in_every_way_of_running():
    model = struck(3, 0)
    ways = variants(model)
    some = [ways[0], *(way for way in ways if way.actors in (3, model.overlay.brokers) or "on_run," in way.name)]
    assert len(some) > 4 and check_digests(model, some) == []


@pytest.mark.parametrize("share", [0.3, 0.55])
def test_under_faults_it_goes_on_where_it_was_stopped(tmp_path, share):
    model = struck(3, 0)
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(share, model, halves.path, 3)
    resumed = continued(model, halves.path, 2)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


# ---- by hand: brokers in a line ----------------------------------------------------------------------


class Line:
    """A publisher at broker 0 that says something each 100 ms, a subscriber at the last broker; and what came of it."""

    def __init__(self, *faults: Any, brokers: int = 4, delta: int = 1, subscribes_ms: int = 0, **said: Any) -> None:
        pairs = [(at, at + 1) for at in range(brokers - 1)]
        net = join("neighbourhood", pairs, [0, brokers - 1], 5 * MS, options={"delta": delta})
        if subscribes_ms < 1_000:
            net.send(1, "subscribe", WIDE, word=net.interest(1), at_ns=subscribes_ms * MS)
        self.sent = []
        for at in range(1_000, 3_000, 100):
            if at - 100 < subscribes_ms <= at and subscribes_ms >= 1_000:
                net.send(1, "subscribe", WIDE, word=net.interest(1), at_ns=subscribes_ms * MS)
            if at == said.get("leaves_ms"):
                net.send(1, "unsubscribe", word=net.interest(1), at_ns=at * MS - 50 * MS)
            self.sent.append(net.send(0, "publish", IN_IT, at_ns=at * MS))
        overlay = net.model().overlay
        overlay = replace(overlay, open_most=said.get("most", 0))
        self.model = replace(net.model(), overlay=overlay, faults=Schedule(faults, DETECT))
        self.tables = ran(self.model)

    @property
    def took_ms(self) -> list[int]:
        """How long each publication took that arrived, in the order of arrival."""
        table = self.tables["deliveries"]
        order = np.argsort(table["time_ns"], kind="stable")
        return ((table["time_ns"] - table["published_ns"])[order] // MS).tolist()

    def over(self, one: int, other: int, type_: int = 0) -> int:
        """How many messages of a type went from one broker to another."""
        links, hops = self.tables["links"], self.tables["hops"]
        (number,) = links["link"][(links["from"] == one) & (links["to"] == other)].tolist()
        return int(((hops["link"] == number) & (hops["type"] == type_)).sum())


@pytest.mark.parametrize("state", [KEPT, STORED, LOST])
def test_what_is_published_while_an_inner_broker_is_down_goes_past_it_at_once(state):
    line = Line(Crash(1, 1_250 * MS, 1_850 * MS, state=state))
    assert arrivals(line.tables) == line.sent and set(line.took_ms) == {15}
    assert line.over(0, 2) == 6  # those of 1,300 to 1,800 ms


def test_what_was_on_its_way_at_the_crash_is_sent_again_once_it_is_known():
    line = Line(Crash(1, 1_304 * MS, 1_850 * MS))
    assert arrivals(line.tables) == line.sent
    # Known after 20 ms; a greeting, the publication and a hop more take 10, 10 and 5 ms.
    assert line.took_ms[3] == 4 + 20 + 25 and set(line.took_ms) == {15, 49}


def test_more_than_delta_in_a_row_cut_off_until_one_is_back():
    both = Crash(1, 1_250 * MS, 1_850 * MS), Crash(2, 1_250 * MS, 2_050 * MS)
    one, two = (Line(*both, delta=delta) for delta in (1, 2))
    for line in (one, two):
        assert arrivals(line.tables) == line.sent
    assert set(two.took_ms) == {15}
    # Of one, b1 is back at 1,850 ms, is told that b2 is down, and bridges over it.
    assert max(one.took_ms) > 500 and one.over(1, 3) > 0 and set(one.took_ms[9:]) == {15}


def test_two_that_are_not_beside_each_other_are_bridged_one_by_one():
    line = Line(Crash(1, 1_250 * MS, 1_850 * MS), Crash(3, 1_250 * MS, 1_850 * MS, state=LOST), brokers=5)
    assert arrivals(line.tables) == line.sent and set(line.took_ms) == {20}
    assert {line.over(0, 2), line.over(2, 4)} <= {6, 7}  # one may not have been acknowledged


def test_who_subscribes_behind_an_outage_is_heard_of_and_served():
    line = Line(Crash(1, 1_250 * MS, 1_850 * MS), subscribes_ms=1_350)
    assert arrivals(line.tables) == line.sent[4:]  # from 1,400 ms on
    assert set(line.took_ms) == {15} and line.over(2, 0, SIDE) == 1


def test_who_withdraws_behind_an_outage_gets_nothing_more_over_the_bridge():
    line = Line(Crash(1, 1_250 * MS, 1_850 * MS), leaves_ms=1_500)
    assert arrivals(line.tables) == line.sent[:5]
    assert line.over(0, 2) == 2


@pytest.mark.parametrize("state", [KEPT, LOST])
def test_who_forgot_all_hears_from_beyond_who_wants_what(state):
    """b1 comes back while b2 is down, which alone could have told it; b3 does."""
    line = Line(Crash(1, 1_250 * MS, 1_450 * MS, state=state), Crash(2, 1_350 * MS, 2_550 * MS), brokers=5)
    assert arrivals(line.tables) == line.sent
    assert set(line.took_ms[8:]) == {20}
    assert (line.over(3, 1, SIDE) > 0) == (state == LOST)


def test_a_link_that_is_cut_counts_as_a_failure_of_each_end_for_the_other():
    net = join("neighbourhood", [(0, 1), (1, 2), (2, 3)], [0, 3], 5 * MS)
    overlay = net.model().overlay
    (between,) = np.flatnonzero((overlay.link_a == 1) & (overlay.link_b == 2)).tolist()
    cut = (Cut(2 * between, 1_250 * MS, 1_850 * MS), Cut(2 * between + 1, 1_250 * MS, 1_850 * MS))
    line = Line(*cut)
    assert arrivals(line.tables) == line.sent and set(line.took_ms) == {15}
    assert line.over(1, 3) > 0 and line.over(0, 2) > 0


def test_without_detection_nothing_is_bridged_and_nothing_is_missed():
    line = Line(Crash(1, 1_250 * MS, 1_850 * MS))
    tables = ran(replace(line.model, faults=replace(line.model.faults, detect_ns=NEVER)))
    assert arrivals(tables) == line.sent and sent_over(tables, GREET) == 0


def test_a_broker_that_may_open_no_more_links_delivers_later():
    """b0 in the middle of three arms; two may be bridged to, and of those that are down it opens one link only."""
    arms = [(0, 1), (1, 2), (0, 3), (3, 4)]
    net = join("neighbourhood", arms, [0, 2, 4], 5 * MS)
    for client in (1, 2):
        net.send(client, "subscribe", WIDE, word=net.interest(client), at_ns=0)
    sent = [net.send(0, "publish", IN_IT, at_ns=at * MS) for at in range(1_300, 1_800, 100)]
    net.send(0, "publish", IN_IT, at_ns=3_000 * MS)
    model = net.model()
    crashes = [Crash(broker, 1_250 * MS, 1_850 * MS) for broker in (1, 3)]
    soon = {}
    for most in (0, 1):
        overlay = replace(model.overlay, open_most=most)
        table = ran(replace(model, overlay=overlay, faults=Schedule(tuple(crashes), DETECT)))["deliveries"]
        assert len(table["time_ns"]) == 2 * (len(sent) + 1)
        soon[most] = int((table["time_ns"] < 1_850 * MS).sum())
    assert soon == {0: 10, 1: 5}


def test_after_healing_no_link_is_open_and_nothing_is_kept():
    line = Line(Crash(1, 1_250 * MS, 1_850 * MS), Crash(2, 1_450 * MS, 1_950 * MS, state=LOST), brokers=5, delta=2)
    found: list[Any] = []

    def observe(shards: Any) -> None:
        found.extend(shards.shards[0].services.protocols[0].brokers.values())

    simulate(line.model, trace=MemoryTraces("none", tables_of(line.model)), observe=observe)
    assert len(found) == 5
    for broker in found:
        assert not broker.bridges and not broker.node.opened and not broker.down and not broker.hinted
        assert not any(broker.describe()[name] for name in ("waited_for", "not_known", "bridges"))


def test_what_all_beyond_have_is_not_kept_for_a_broker_that_does_not_want_it():
    line = Line(Crash(1, 1_250 * MS, 2_950 * MS))
    lasting = replace(line.model, faults=Schedule((Crash(1, 1_250 * MS),), DETECT))
    kept: list[Any] = []

    def observe(shards: Any) -> None:
        kept.append(shards.shards[0].services.protocols[0].brokers[0].describe()["waited_for"])

    simulate(replace(lasting, drain_ns=1_000 * MS), trace=MemoryTraces("none", tables_of(lasting)), observe=observe)
    assert kept == [{}]
    assert line.over(0, 1) <= 4  # 3 before; once it is back, the last at most


@pytest.mark.parametrize("state", [KEPT, LOST])
def test_who_comes_back_does_not_send_again_what_went_past_it(state):
    line = Line(Crash(1, 1_250 * MS, 1_850 * MS, state=state))
    # Before and after it was down; of the six meanwhile those that were not acknowledged yet, of two beats at most.
    assert 3 + 11 <= line.over(1, 2) <= 3 + 11 + 2


# ---- links that it needs -----------------------------------------------------------------------------

SAID = """
duration: 1 s
topology: {kind: line, nodes: 6}
links: {delay: 5 ms%s}
clients: {all: {count: 6, placement: even}}
services:
  - {name: news, kind: content, protocol: neighbourhood, attributes: 1, options: {delta: 2}, workload: []}
"""


@pytest.mark.parametrize(
    ("latent", "pair"),
    [("", "b0 and b2 are 2 hops"), (", latent: {hops: 2}", "b0 and b3 are 3 hops")],
    ids=["none", "too few"],
)
def test_links_that_are_lacking_are_named_with_the_rule(latent, pair):
    with pytest.raises(ScenarioErrors) as caught:
        resolve(loads(SAID % latent))
    told = str(caught.value)
    assert pair in told and "say `links: {latent: {hops: 3}}`" in told and "options.delta" in told


def test_with_all_of_them_it_is_taken():
    assert resolve(loads(SAID % ", latent: {hops: 3}")).overlay.latent.sum() == 4 + 3
    assert Neighbourhood.latent_hops(Options(delta=2)) == 3


@given(st.integers(2, 14), st.integers(1, 4), st.integers(0, 1000), st.sets(st.integers(0, 13)))
def test_surroundings_are_as_networkx_finds_them(brokers, reach, seed, down):
    tree = nx.random_labeled_tree(brokers, seed=seed)
    overlay = with_latent(overlay_of([*tree.edges]), Latent(hops=max(2, reach)))
    links = LinkTable.of(overlay, frozenset(), overlay.latent)
    routes = Routes(links, True, np.array([0], np.int32), False)
    for here in range(brokers):
        mine = np.flatnonzero(links.source == here).tolist()
        node = SimpleNamespace(broker=here, links=mine, neighbour=lambda link: int(links.target[link]))
        around = Surroundings(node, routes, reach)
        paths = nx.single_source_shortest_path(tree, here)
        near = {other: tuple(path[1:]) for other, path in paths.items() if 1 < len(path) <= reach + 1}
        assert around.ways == near
        assert set(around.links) == set(near)
        beyond = {b for b, way in near.items() if len(way) > 1 and b not in down and set(way[:-1]) <= down}
        assert set(around.beyond(down)) == beyond
        assert all(around.trail(other) == tuple(path[1 : reach + 1]) for other, path in paths.items() if other != here)


# ---- outages beside the recurrence -------------------------------------------------------------------


@pytest.mark.parametrize(("hops", "delta", "share"), [(1, 1, 1.0), (8, 1, 0.855), (12, 3, 0.994), (3, 1, 1 - 0.17**2)])
def test_the_recurrence_says_what_it_is_known_to_say(hops, delta, share):
    assert survival(hops, delta, 0.17) == pytest.approx(share, abs=5e-4)


@given(st.integers(1, 9), st.integers(1, 4), st.floats(0.05, 0.6))
def test_the_recurrence_is_the_sum_over_all_outages(hops, delta, down):
    """All ways in which the brokers between may be up or down."""
    line = [(at, at + 1) for at in range(hops)]
    total = 0.0
    for number in range(1 << max(hops - 1, 0)):
        between = [number >> at & 1 for at in range(hops - 1)]
        served, _ = reachable(line, [0, *between, 0], delta)
        total += down ** sum(between) * (1 - down) ** (hops - 1 - sum(between)) * served[0, hops]
    assert survival(hops, delta, down) == pytest.approx(total)


@pytest.mark.parametrize(("delta", "share", "seed"), [(1, 0.3, 1), (2, 0.4, 2), (3, 0.5, 3)])
def test_who_is_served_while_brokers_are_down_is_who_has_at_most_delta_in_a_row_between(delta, share, seed):
    line = [(at, at + 1) for at in range(23)]
    tree = [(int(np.random.default_rng(seed * 100 + at).integers(at)), at) for at in range(1, 24)]
    for links in (line, tree):
        found = outage(links, delta, share, seed)
        assert found.wrong == 0
        assert 0 < int(found.expected[found.asked].sum()) < int(found.asked.sum()) or links is tree
