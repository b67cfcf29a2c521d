"""Clients that come and go: every kind and protocol serves them, the same in every way of running, and is right."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.contract import NEVER
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import AWAY, Crash, Schedule
from brokers.stays import Stay, joined, numbered, withdrawal
from protocols.conformance import REHEARSALS, Dice, audit_run, check_digests, rehearse
from protocols.content.kind import Content
from protocols.spatial.kind import EXPIRE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Spatial

MS = 1_000_000
PROTOCOLS = (
    "flooding", "subscription", "covering", "topk-gather", "topk-ingress", "topk-bounded", "context-edge",
    "context-replicated", "context-escalated", "channels", "spatial-flooding", "spatial-keyword", "spatial",
    "topics",
)  # fmt: skip


def wandering(model, least=20 * MS, seed=1):
    """The same model, two clients of three of which go from broker to broker, with a pause in between."""
    stays = []
    for client in range(model.client_broker.size):
        dice = Dice(seed, client, "test/stays")
        at, begin = int(model.client_broker[client]), 0
        if dice.below(3) == 0:
            continue
        if dice.below(4) == 0:
            begin = dice.below(60 * MS)
        while begin < model.duration_ns:
            end = begin + least + dice.below(120 * MS)
            stays.append(Stay(client, at, begin, end))
            begin, at = end + dice.below(50 * MS), dice.below(model.overlay.brokers)
    return with_stays(model, stays)


def with_stays(model, stays):
    stays, client_broker = numbered(stays, model.client_broker, model.duration_ns)
    return replace(model, stays=stays, client_broker=client_broker)


def traced(model):
    traces = MemoryTraces("full", tables_of(model))
    return simulate(model, trace=traces), traces.tables()


# ---- all protocols ------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_serves_clients_that_come_and_go(protocol):
    least = 20 * MS if protocol != "channels" else 150 * MS  # there a plan takes its time
    moved = 0
    for rehearsal in REHEARSALS[:1] + REHEARSALS[4:5]:
        model = wandering(rehearse(rehearsal, protocol), least)
        found = audit_run(model)
        assert found.verdict == "valid", str(found)
        assert found.forced
        moved += model.client_broker.size - model.stays.clients
    assert moved > 8


@pytest.mark.parametrize("protocol", ["covering", "topk-gather", "context-escalated", "spatial", "channels"])
def test_the_way_of_running_does_not_show(protocol):
    for rehearsal in (REHEARSALS[2], REHEARSALS[4]):
        model = wandering(rehearse(rehearsal, protocol))
        down = Schedule((Crash(1, 50 * MS, 90 * MS), Crash(2, 120 * MS, 180 * MS)))
        check_digests(replace(model, faults=down))
        check_digests(model)


# ---- what one client meets ----------------------------------------------------------------------------


def published(times, stays, cost=0.0, churn=()):
    """What reaches client 0, at first at broker 3, of what client 1 publishes at broker 0 at these times."""
    model = rehearse(REHEARSALS[1], "subscription", clients=2)
    source = dict(model.services[0].sources[0].params)
    entity = model.overlay.nodes << 32
    everything = [[0, -1e9, 1e9]]
    source |= {
        "standing": [],
        "emissions": [
            {"type": 1, "time": [1], "client": [0], "word": [entity], "rows": everything},
            *churn,
            {"type": 0, "time": times, "client": [1] * len(times), "rows": [[0.5] * 4] * len(times)},
        ],
    }
    service = model.services[0]
    service.sources[0].params = source
    model = replace(
        model, client_broker=np.array([3, 0], np.int32), services=[replace(service, cost={"base": cost})]
    )
    return traced(with_stays(model, [Stay(*each) for each in stays]))


def got(tables):
    rows = tables["deliveries"]
    return [(b, t // MS) for b, t in zip(rows["broker"].tolist(), (rows["published_ns"]).tolist())]


def test_what_is_sent_reaches_a_client_where_it_is():
    _, tables = published(
        [50 * MS, 150 * MS, 250 * MS], [(0, 3, 0, 100 * MS), (0, 6, 110 * MS, 200 * MS), (0, 3, 210 * MS)]
    )
    assert got(tables) == [(3, 50), (6, 150), (3, 250)]
    assert tables["stays"]["broker"].tolist() == [3, 6, 3]
    assert tables["stays"]["end_ns"].tolist() == [100 * MS, 200 * MS, -1]
    assert tables["stays"]["stay"][0] == tables["stays"]["client"][0]  # its own number, where it was placed
    kinds = tables["changes"]["operation"].tolist()
    assert (kinds.count(1), kinds.count(2)) == (3, 2)


def test_nothing_reaches_a_client_that_is_away_and_its_publications_do_not_happen():
    result, tables = published([50 * MS, 150 * MS], [(0, 3, 0, 100 * MS), (1, 0, 0, 140 * MS), (1, 0, 160 * MS)])
    assert got(tables) == [(3, 50)]
    assert result.metrics["services"]["service"]["absent"] == 1
    assert tables["publications"]["time_ns"].tolist() == [50 * MS]


def test_a_client_that_is_never_there_gets_nothing():
    _, tables = published([50 * MS], [(0, 3, NEVER - 1, NEVER)])
    assert not got(tables)
    assert not tables["changes"]["change"].size
    assert not tables["stays"]["stay"].size


def test_a_delivery_to_a_client_that_left_before_its_service_ended_is_lost():
    result, tables = published([50 * MS], [(0, 3, 0, 65 * MS)], cost=float(5 * MS))
    assert not got(tables)
    assert result.metrics["services"]["service"]["left"] == 1
    assert AWAY in tables["losses"]["reason"].tolist()


def test_what_a_client_changes_while_away_is_changed_when_it_is_back():
    entity = 7 << 32
    churn = [
        {"type": 2, "time": [120 * MS], "client": [0], "word": [entity]},
        {"type": 1, "time": [130 * MS], "client": [0], "word": [entity + 1], "rows": [[0, 0.4, 0.6]]},
    ]
    stays = [(0, 3, 0, 100 * MS), (0, 5, 150 * MS)]
    _, tables = published([50 * MS, 140 * MS, 200 * MS], stays, churn=churn)
    assert got(tables) == [(3, 50), (5, 200)]
    changes = tables["changes"]
    rows = sorted(zip(changes["issued_ns"].tolist(), changes["operation"].tolist(), changes["interest"].tolist()))
    stay = int(tables["stays"]["stay"][1])
    assert rows == [(1, 1, entity), (100 * MS, 2, entity), (150 * MS, 1, (stay << 32) + 1)]


def test_a_client_that_stays_where_it_was_placed_changes_nothing():
    model = rehearse(REHEARSALS[0], "covering")
    placed = [Stay(c, int(b), 0, NEVER) for c, b in enumerate(model.client_broker.tolist())]
    assert simulate(with_stays(model, placed)).digest == simulate(model).digest


# ---- the table of stays -------------------------------------------------------------------------------

_stays = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 20), st.integers(1, 6)), max_size=12
)


@given(_stays, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=8))
def test_where_a_client_is_at_a_time_is_where_brute_force_finds_it(drawn, asked):
    found, busy = [], {}
    for client, broker, gap, size in drawn:
        begin = busy.get(client, 0) + gap
        found.append(Stay(client, broker, begin, begin + size))
        busy[client] = begin + size
    table, broker_of = numbered(found, np.zeros(4, np.int32))
    rows = table.at([c for c, _ in asked], [t for _, t in asked])
    for (client, time), row in zip(asked, rows.tolist()):
        there = [s for s in found if s.client == client and s.begin <= time < s.end]
        assert (row < 0) == (not there)
        if there:
            assert (table.begin[row], table.broker[row]) == (there[0].begin, there[0].broker)
            assert broker_of[table.number[row]] == there[0].broker
    assert np.unique(table.number).size == len(found)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=6), st.integers(1, 40))
def test_spans_that_touch_are_one(drawn, until):
    spans, time = [], 0
    for gap, size in drawn:
        spans.append((time + gap, time + gap + size))
        time += gap + size
    whole = {t for b, e in spans if b < until for t in range(b, e)}
    made = list(joined(spans, until))
    assert {t for b, e in made for t in range(b, e)} == whole
    assert all(one[1] < other[0] for one, other in pairwise(made))


def test_an_interest_is_withdrawn_by_the_change_that_is_called_like_it():
    assert withdrawal(Content({}), 1) == 2
    spatial = Spatial({})
    assert (withdrawal(spatial, SUBSCRIBE), withdrawal(spatial, PUBLISH)) == (UNSUBSCRIBE, None)
    assert EXPIRE in spatial.revocations
