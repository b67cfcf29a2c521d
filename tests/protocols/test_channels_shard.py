"""The brokers of `channels` over arrays: what they read out of bytes is what the author's view reads out of lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.columns import BadState
from brokers.contract import NEVER
from brokers.engine.model import Model, SourceSpec
from brokers.engine.shard import Shard
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import WireError
from brokers.planning import planner
from brokers.planning.answers import answer, extract
from brokers.planning.model import Costs, Queries
from brokers.planning.problem import BoxProblem
from brokers.planning.sizes import Database
from brokers.wire import decode_body, encode_body
from protocols.channels import channels, sifting
from protocols.channels.answers import body_of, received, size_bytes
from protocols.channels.channels import Channels
from protocols.channels.database import marks
from protocols.channels.kind import SUBSCRIBE, Params
from protocols.channels.listening import NOBODY, heard, rows_of
from protocols.channels.plain import PlainChannels
from protocols.channels.plans import Options
from protocols.conformance import REHEARSALS, overlay_of, rehearse, service_of
from topology.servers import Server, with_servers

SETTLED = REHEARSALS[4]
MS = 1_000_000

# A broker that comes first below the server, with three below it, whose links are not in the order of their numbers.
MINE, BELOW, LINKS = 1, np.array([2, 5, 6], np.int64), np.array([14, 3, 8], np.int64)
rows = st.dictionaries(
    st.integers(0, 299),
    st.sets(st.sampled_from([0, 3, 127, 128, 70_000]) | st.integers(0, 400), min_size=1, max_size=20), max_size=40,
)  # fmt: skip


@settings(deadline=None)
@given(rows, st.integers(0, 1000))
def test_what_a_broker_hears_and_tells_is_what_lists_say(listening, salt):
    body = [[client, sorted(listening[client])] for client in sorted(listening)]
    enter = ((np.arange(300) * 7 + salt) % 8 + MINE).astype(np.int32)
    data = encode_body(body)
    found, parts = heard(data, enter, MINE, BELOW, LINKS)
    slot = [int(np.searchsorted(BELOW, place, "right")) for place in enter.tolist()]
    expected = [[row for row in body if slot[row[0]] == 1 + i] for i in range(3)]
    assert [decode_body(part) for part in parts] == expected
    assert parts == [encode_body(part) for part in expected] and (parts[0] == NOBODY) == (not expected[0])
    every = {channel for _, of_client in body for channel in of_client}
    assert found.channels.tolist() == sorted(every)
    for channel in {*every, 401}:
        of = [client for client, of_client in body if channel in of_client]
        links = {int(LINKS[slot[client] - 1]) for client in of if slot[client]}
        assert found.of(channel) == ([client for client in of if not slot[client]], sorted(links))
    starts = np.cumsum([0, *(len(of_client) for _, of_client in body)])
    flat = np.array([channel for _, of_client in body for channel in of_client], np.int64)
    assert rows_of(np.array([client for client, _ in body], np.int64), starts, flat) == data


@pytest.mark.parametrize(
    "body",
    [[[1, 2]], [[1]], [[300, [1]]], [[-1, [1]]], [[1, [1.0]]], [1], None, {}, [[1, [2]], [1, [2], 3]], [[0, [1]]]],
)
def test_what_is_no_listening_is_refused(body):
    enter = np.full(300, MINE, np.int32)
    enter[0] = 0  # a client that is not below the broker
    with pytest.raises(BadState, match="who listens"):
        heard(encode_body(body), enter, MINE, BELOW, LINKS)
    for cut in range(4):
        with pytest.raises(BadState):
            heard(encode_body([[1, [200, 300]]])[:cut], enter, MINE, BELOW, LINKS)


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("procedure", ["rectangle", "exact"])
def test_answers_are_sifted_as_the_authors_view_sifts_them(tagged, procedure):
    random = np.random.default_rng(4)
    database = Database(random.uniform(0, 50, (200, 2)))
    low = random.uniform(0, 30, (9, 2))
    queries = Queries.of(low, low + 12, clients=[7, 7, 8, 8, 9, 9, 9, 7, 4], ids=np.arange(9) * 5 + 300)
    found = planner.plan(BoxProblem(queries, Costs(300, 1, 0.1), None, procedure))
    sent = answer(found, database, tagged)
    assert len(sent) > 1 or procedure == "rectangle"
    for each in sent:
        data = encode_body(body_of(each, 100, 3, dict.fromkeys(queries.ids.tolist(), 2)))
        read, plain = sifting.came(data), received(decode_body(data)).answer
        assert (read.period_ns, read.round, read.data) == (100, 3, data)
        assert read.sifted.size_bytes(90) == size_bytes(plain, 90) == size_bytes(each, 90)
        lines = [line for irrelevant, mine in read.sifted.clients.values() for line in mine]
        assert {line.query for line in lines} == {line.query for line in each.message.header}
        for line in lines:
            mine = extract(plain, line.query)
            assert np.array_equal(read.sifted.ids[read.sifted.wanted[line.row]], mine)
            assert (line.objects, line.marks, line.parts) == (len(mine), int(marks(mine).sum()), 2)
        for client, (irrelevant, _) in read.sifted.clients.items():
            assert irrelevant == plain.irrelevant_to(client)


def test_an_answer_that_stays_the_same_is_sifted_once_for_all_brokers_and_rounds(monkeypatch):
    model = rehearse(SETTLED, "channels")
    assert Channels.plain is PlainChannels
    read = []
    monkeypatch.setattr(channels, "came", lambda data: read.append(data) or sifting.came(data))
    sifting._sifted.cache_clear()
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    known, tables = sifting._sifted.cache_info(), traces.tables()
    assert 0 < len(read) <= len(tables["answers"]["round"]) < len(tables["hops"]["type"])
    assert len(set(read)) == len(read) == known.hits + known.misses and known.hits > known.misses > 0


# ---- what is kept ----------------------------------------------------------------------------------------


def lossy_model():
    """Queries that overlap, each answered in several messages, over links that lose some of all."""
    overlay = with_servers(overlay_of([(0, 1), (1, 2), (1, 3)]), [Server("atlas", 0, MS)])
    overlay = replace(overlay, loss=np.array([0.04, 0.04, 0.04, 0.0]))
    base, clients = overlay.nodes, 8
    boxes = [[100 * MS, 5.0 * c, 5.0 * c + 40, 10, 60 + c] for c in range(clients)]
    said = {
        "type": SUBSCRIBE, "time": [(5 + 60 * c) * MS for c in range(clients)], "client": list(range(clients)),
        "word": [(base + c) << 32 for c in range(clients)], "rows": boxes,
    }  # fmt: skip
    options = Options(procedure="exact", costs={"message": 0, "transmit": 10}).model_dump()
    params = {**Params().model_dump(), "objects": 400, "side": 100.0, "hot_spots": 0}
    spec = service_of("channels", params=params, options=options, server=base - 1)
    spec = replace(spec, sources=[SourceSpec("protocols.conformance:Script", {"emissions": [said]}, "all")])
    homes = np.arange(clients, dtype=np.int32) % 3 + 1
    return Model("maps", 1, 1950 * MS, overlay, homes, {"all": (0, clients)}, [spec])


def brokers_of(model, until=NEVER):
    """The part of a shard's protocol that decides for brokers, after the shard ran."""
    assignment, trace = np.zeros(model.overlay.nodes, np.int32), MemoryTraces("full", tables_of(model))(0)
    shard = Shard(model, 0, assignment, trace)
    shard.window(min(until, model.duration_ns), [])
    return shard.services.protocols[0].rest


def test_answers_in_parts_over_links_that_lose_some_are_those_of_the_authors_view():
    model = lossy_model()
    plain = replace(model, services=[replace(model.services[0], view="message")])
    traces = [MemoryTraces("full", tables_of(model)) for _ in range(2)]
    assert len({simulate(each, trace=trace).digest for each, trace in zip((model, plain), traces)}) == 1
    one, other = (trace.tables() for trace in traces)
    for table in ("received", "heard", "deliveries"):
        assert len(one[table]["time_ns"]) > 10
        assert all(np.array_equal(one[table][name], other[table][name]) for name in one[table])
    assert (one["received"]["irrelevant"] == 0).all()  # an exact cut sends nothing in vain


def test_answers_that_wait_are_kept_and_every_broker_knows_again_what_it_was_told():
    model = lossy_model()
    brokers = brokers_of(model)
    assert brokers.waiting and brokers.told and int(brokers.entries().sum()) > 0
    again = brokers_of(model, 1)
    again.load([brokers.state()], {})
    assert again.state() == brokers.state()
    assert all(again.told[link] == part for link, part in brokers.told.items())
    assert np.array_equal(again.entries(), brokers.entries())
    listening = [again.describe(b)["listening"] for b in range(model.overlay.brokers)]
    assert listening == [brokers.describe(b)["listening"] for b in range(model.overlay.brokers)]
    assert any(listening)


def test_what_nobody_has_kept_is_refused():
    model = lossy_model()
    kept, fresh = brokers_of(model).state(), brokers_of(model, 1)
    (broker, query, parts), nobody = kept["waiting"][0], model.overlay.brokers
    for said, waiting, why in (
        ([[nobody, NOBODY]], [], "no broker"),
        ([["1", NOBODY]], [], "no broker"),
        ([[0, encode_body([[1, 2]])]], [], "who listens"),
        ([], [[broker, query + 10_000, parts]], "nothing for query"),
        ({}, [], "no lists"),
    ):
        with pytest.raises(BadState, match=why):
            fresh.load([{"said": said, "waiting": waiting}], {})
    with pytest.raises(BadState, match="lacks 'waiting'"):
        fresh.load([{"said": []}], {})
    with pytest.raises(WireError):
        fresh.load([{"said": [[0, b"\x91"]], "waiting": []}], {})
