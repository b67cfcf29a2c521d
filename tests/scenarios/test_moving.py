"""The sections `connections` and `mobility` of a group of clients: what they make, and what they refuse."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from brokers.contract import NEVER
from scenarios.loader import from_data, loads
from scenarios.plan import plan, resolve
from scenarios.problems import ScenarioErrors
from scenarios.running import run

S, MS = 10**9, 10**6
TEXT = """
duration: 10 s
topology: {kind: balanced-tree, branching: 2, height: 2}
links: {delay: 5 ms}
services:
  - {name: news, kind: content, protocol: flooding, attributes: 1, workload: [{source: publish, rate: 1/s}]}
clients:
  all: {count: 20, placement: even, %s}
"""


def scenario(*sections: str, **more):
    return loads(TEXT % ", ".join(sections), [f"{key}={value}" for key, value in more.items()])


def stays(*sections: str, **more):
    """(client, broker, begin, end) of each stay."""
    found = resolve(scenario(*sections, **more)).stays
    columns = (found.client, found.broker, found.begin, found.end)
    return list(zip(*(column.tolist() for column in columns)))


# ---- mobility -----------------------------------------------------------------------------------------


def test_a_path_leads_from_stop_to_stop():
    found = stays("mobility: {kind: path, travel: 100 ms, stops: [{at: 1 s, broker: b3}, {at: 2 s, broker: 4}]}")
    assert [each[1:] for each in found if each[0] == 1] == [
        (1, 0, S), (3, 1100 * MS, 2 * S), (4, 2100 * MS, NEVER)
    ]  # fmt: skip
    assert [each[1:] for each in found if each[0] == 3] == [(3, 0, 2 * S), (4, 2100 * MS, NEVER)]


def test_an_itinerary_says_of_each_client_where_it_is():
    moves = "{client: 1, at: 1 s, broker: b3}, {client: 3, at: 2 s}, {client: 3, at: 3 s, broker: 4}"
    found = stays(f"mobility: {{kind: itinerary, moves: [{moves}]}}")
    assert {client for client, *_ in found} == {1, 3}
    assert [each[1:] for each in found if each[0] == 1] == [(1, 0, S), (3, S, NEVER)]
    assert [each[1:] for each in found if each[0] == 3] == [(3, 0, 2 * S), (4, 3 * S, NEVER)]


@pytest.mark.parametrize(
    ("moves", "told"),
    [
        ("{client: 20, at: 1 s, broker: b3}", "the group has clients 0 to 19"),
        ("{client: 2, at: 1 s, broker: b9}", "b9"),
        ("{client: 2, at: 1 s}, {client: 2, at: 1 s, broker: 1}", "in order of time; see number 1"),
    ],
)
def test_an_itinerary_that_leads_nowhere_is_refused(moves, told):
    with pytest.raises(ScenarioErrors, match=told):
        stays(f"mobility: {{kind: itinerary, moves: [{moves}]}}")


def test_a_random_waypoint_stays_and_moves_on_to_another_broker():
    found = stays("mobility: {kind: random-waypoint, stay: 1 s, travel: 50 ms, brokers: ['b*'], start: 500 ms}")
    assert len({client for client, *_ in found}) == 20
    for one, other in pairwise(found):
        if one[0] == other[0]:
            assert one[1] != other[1] and other[2] == one[3] + 50 * MS
    assert min(end for *_, end in found) > 500 * MS
    assert 0.8 * S < np.mean([end - begin for _, _, begin, end in found if begin > 0 and end < NEVER]) < 1.2 * S


def test_commuters_work_by_day_and_come_home():
    times = "day: 4 s, leave: 1 s, back: 2500 ms, spread: 200 ms, travel: 100 ms"
    found = stays(f"mobility: {{kind: commuters, work: [b6], {times}}}")
    assert all(each[0] % 7 != 6 for each in found)  # they live where they work
    mine = [each for each in found if each[0] == 2]
    assert [broker for _, broker, _, _ in mine] == [2, 6, 2, 6, 2, 6]
    for day, (_, _, begin, end) in enumerate(mine[1::2]):
        assert 1100 * MS <= begin - day * 4 * S <= 1300 * MS
        assert end == NEVER or 2500 * MS <= end - day * 4 * S <= 2700 * MS


def test_clients_of_a_broker_that_crashed_go_to_the_nearest_and_back():
    faults = "[{fault: crash, brokers: [b1, b0], at: 1 s, lasts: 2 s}]"
    found = stays("mobility: {kind: failover, after: 500 ms}", **{"faults.schedule": faults})
    assert {each[0] % 7 for each in found} == {0, 1}
    assert [each[1:] for each in found if each[0] == 1] == [(1, 0, 1500 * MS), (3, 1500 * MS, 3 * S), (1, 3 * S, NEVER)]
    found = stays("mobility: {kind: failover, after: 500 ms, back: false}", **{"faults.schedule": faults})
    assert [each[1:] for each in found if each[0] == 1] == [(1, 0, 1500 * MS), (3, 1500 * MS, NEVER)]
    assert resolve(scenario("mobility: {kind: failover, after: 3 s}", **{"faults.schedule": faults})).stays is None


# ---- connections --------------------------------------------------------------------------------------


def test_sessions_are_on_and_off():
    found = stays("connections: {kind: sessions, on: 1 s, off: 250 ms}")
    there = sum(min(end, 10 * S) - begin for _, _, begin, end in found)
    assert 0.75 < there / (20 * 10 * S) < 0.9
    assert all(one[3] < other[2] for one, other in pairwise(found) if one[0] == other[0])


def test_a_timetable_holds_for_all():
    found = stays("connections: {kind: timetable, online: [[0 s, 1 s], [2 s, 10 s]]}")
    assert [each[2:] for each in found] == [(0, S), (2 * S, NEVER)] * 20


def test_a_flash_crowd_comes_at_once_and_goes():
    found = stays("connections: {kind: flash-crowd, at: 2 s, within: 500 ms, lasts: 1 s, share: 0.5}")
    assert 4 <= len(found) <= 16
    assert all(2 * S <= begin <= 2500 * MS for _, _, begin, _ in found)
    assert 0.4 * S < np.mean([min(end, 10 * S) - begin for _, _, begin, end in found]) < 2 * S


def test_who_moves_and_is_off_is_there_only_when_on():
    found = stays(
        "connections: {kind: timetable, online: [[1 s, 3 s], [4 s, 6 s]]}",
        "mobility: {kind: path, stops: [{at: 2 s, broker: b6}, {at: 5 s, broker: b5}]}",
    )
    assert [each[1:] for each in found if each[0] == 0] == [
        (0, S, 2 * S), (6, 2 * S, 3 * S), (6, 4 * S, 5 * S), (5, 5 * S, 6 * S)
    ]  # fmt: skip


# ---- scenarios ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("mobility: {kind: path, stops: [{at: 1 s, broker: nobody}]}", "there is no broker named 'nobody'"),
        ("mobility: {kind: path, stops: [{at: 2 s, broker: 1}, {at: 1 s, broker: 2}]}", "in order of time"),
        ("mobility: {kind: path, stops: [{at: -1 s, broker: 1}]}", "a duration cannot be negative"),
        ("mobility: {kind: pth, stops: []}", "did you mean 'path'?"),
        ("mobility: {kind: sessions, on: 1 s, off: 1 s}", "no mobility named 'sessions'"),
        ("mobility: {kind: random-waypoint, stay: 1 s, brokers: ['x*']}", "no broker has a name like 'x*'"),
        ("mobility: {kind: random-waypoint, stay: 1 s, brokers: [b1]}", "nowhere to go"),
        ("mobility: {kind: random-waypoint, stay: 1 ns}", "mobility.stay: a client comes or moves about"),
        ("connections: {kind: sessions, on: 1 ns, off: 1 us}", "connections.on: a client comes or moves about"),
        ("mobility: {kind: commuters, work: [b1], day: 9, leave: 1, back: 2}", "mobility.day: a client comes"),
        ("mobility: {kind: commuters, work: [b1], day: 2 s, leave: 1 s, back: 4 s}", "a day is"),
        ("mobility: {kind: commuters, work: [b9], day: 2 s, leave: 1 s, back: 1500 ms}", "b9"),
        ("connections: {kind: timetable, online: [[2 s, 1 s]]}", "from one to a later one; see number 0"),
        ("connections: {kind: sessions, on: 1 s}", "off"),
        ("connections: {kind: flash-crowd, at: 1 s, share: 2}", "a fraction lies between 0 and 1"),
        ("connections: {kind: flash-crowd, at: 1 s, lasst: 2 s}", "lasst"),
        ("connections: sessions", "connections"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(section, said):
    with pytest.raises(ScenarioErrors) as refused:
        resolve(scenario(section))
    assert said in str(refused.value)
    assert f"clients.all.{section.partition(':')[0]}" in str(refused.value) and "<text>:8:" in str(refused.value)


def test_too_many_stays_of_all_clients_are_refused_before_they_are_drawn():
    many = scenario("connections: {kind: sessions, on: 1 us, off: 9 us}", **{"clients.all.count": "40"})
    with pytest.raises(ScenarioErrors, match=r"connections.on: 40 clients come or move about 1,000,000 times each"):
        resolve(many)


def test_a_session_wants_somebody_who_leaves_and_a_protocol_that_hands_over():
    session = "session: {keep: 1 s, messages: 5}"
    with pytest.raises(ScenarioErrors, match=r"clients.all.session: these clients never leave"):
        resolve(scenario(session))
    moving = "connections: {kind: timetable, online: [[1 s, 3 s]]}"
    with pytest.raises(ScenarioErrors, match=r"clients.all.session: no protocol of these services hands over"):
        resolve(scenario(moving, session))
    made = scenario(moving, session, **{"services.news.protocol": "covering"})
    assert set(resolve(made).stays.keep_ns.tolist()) == {S} and set(resolve(made).stays.most.tolist()) == {5}
    assert resolve(from_data(made.resolved())).stays.keep_ns.tolist() == [S] * 20
    with pytest.raises(ScenarioErrors, match="keep"):
        scenario(moving, "session: {messages: 0}")


def test_a_resolved_scenario_reads_back_and_one_without_movements_is_as_before():
    made = scenario("connections: {kind: sessions, on: 1 s, off: 1 s}")
    data = made.resolved()
    again = from_data(data)
    assert again.resolved() == data
    assert resolve(again).stays.begin.tolist() == resolve(made).stays.begin.tolist()
    assert made.stands_for()["movements"] == ["scenarios.moving.connections:Sessions"]
    without = loads(TEXT.replace(", %s", ""))
    assert set(without.resolved()["clients"]["all"]) == {"count", "placement"}
    assert resolve(without).stays is None
    assert "stays" not in resolve(without).facts["model_parts"]


def test_a_plan_says_who_comes_and_goes():
    (line,) = plan(scenario("connections: {kind: timetable, online: [[1 s, 3 s]]}"), "inline").movements
    assert line == (
        "all: timetable; 20 of 20 clients come and go, 20 stays of 2 s in the mean, at most 20 at once (at 1 s)"
    )
    (line,) = plan(scenario("mobility: {kind: failover, after: 1 s}"), "inline").movements
    assert line == "all: failover; all 20 stay where they are"


class Nomads:
    """Of somebody else: each a broker further every second."""

    def __init__(self, params, context):
        self.brokers = context.overlay.brokers
        self.placed = context.placed

    def path(self, client):
        return [(t * S, (int(self.placed[client]) + t) % self.brokers) for t in range(1, 10)]


class Lost(Nomads):
    def path(self, client):
        return [(S, 99)]


def test_a_third_party_moves_clients_by_its_name_once_it_is_trusted(monkeypatch):
    monkeypatch.setitem(sys.modules, "nomads", SimpleNamespace(Nomads=Nomads, Lost=Lost))
    with pytest.raises(ScenarioErrors, match="--trust"):
        scenario("mobility: {kind: 'nomads:Nomads'}")
    model = resolve(loads(TEXT % "mobility: {kind: 'nomads:Nomads'}", trust=True))
    assert model.stays.broker[model.stays.client == 3].tolist() == [3, 4, 5, 6, 0, 1, 2, 3, 4, 5]
    with pytest.raises(ScenarioErrors, match=r"clients.all.mobility: there is no broker 99"):
        resolve(loads(TEXT % "mobility: {kind: 'nomads:Lost'}", trust=True))


def test_the_same_comes_of_it_on_three_shards_and_in_threads(tmp_path):
    text = TEXT.replace("flooding", "covering").replace(
        "[{source: publish, rate: 1/s}]", "[{source: publish, rate: 2/s}, {source: subscribe, width: 0.6}]"
    )
    on, to = "{kind: sessions, on: 2 s, off: 300 ms}", "{kind: random-waypoint, stay: 2 s, travel: 20 ms}"
    (tmp_path / "s.yaml").write_text(text % f"connections: {on}, mobility: {to}")
    whole = run(tmp_path / "s.yaml", engine="inline", out=tmp_path / "a")
    found = whole.metrics["services"]["news"]
    assert found["absent"] > 0 and found["deliveries"] > 0
    for engine in ("inline", "threads"):
        cut = run(tmp_path / "s.yaml", engine=engine, actors=3, out=tmp_path / engine)
        assert cut.digest == whole.digest
        assert cut.metrics["services"] == whole.metrics["services"]
    settled = ["services.news.subscriptions=settled"]
    one = run(tmp_path / "s.yaml", engine="inline", overrides=settled, out=tmp_path / "b")
    other = run(tmp_path / "s.yaml", engine="inline", actors=3, overrides=settled, out=tmp_path / "c")
    assert one.digest == other.digest != whole.digest
