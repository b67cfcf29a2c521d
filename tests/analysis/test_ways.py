"""Each verdict about a publication and a client, in a run that shows it, names broker, change and fault behind it."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.ways.beside import beside, same_case
from analysis.ways.deciding import told_of
from analysis.ways.pair import Pair
from analysis.ways.told import Told
from analysis.ways.way import Way
from brokers.contract import BrokerProtocol
from brokers.errors import InvalidInput
from protocols.content.covering import PlainCovering
from protocols.content.kind import PUBLISH, Content
from protocols.content.subscription import PlainSubscription
from scenarios.hunt.case import Act, Case, Edge
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.running import run
from tests.planted.races import Blinks
from tests.planted.registry import PLANTED
from tests.planted.settings import Ran

MS = 1_000_000
LINE, RING = ((0, 1), (1, 2)), ((0, 1), (0, 2), (1, 2))
ALL, VALUES = (0, 0.0, 1.0), (0.5, 0.0, 0.0, 0.0)
KINDS = {"-": "unsubscribe", "!": "publish"}


class Withholds(PlainSubscription):
    """Broker 1 passes no publication on."""

    def on_message(self, message):
        if message.type != PUBLISH or self.node.broker != 1:
            super().on_message(message)


class Deaf(PlainSubscription):
    """Brokers that hear of an interest from a neighbour tell nobody."""

    def passes_on(self, message, id, link):
        return message.link < 0


class GivesUpCovered(PlainCovering):
    """What a withdrawn interest covered is not told again."""

    def withdrawn(self, message, id, link):
        pass


class Doubles(PlainSubscription):
    """A publication is forwarded twice by broker 1."""

    def on_message(self, message):
        super().on_message(message)
        if message.type == PUBLISH and self.node.broker == 1:
            self._publish(message)


class DeliversAnyway(PlainSubscription):
    """Delivers to client 0 whatever comes."""

    def _publish(self, message):
        super()._publish(message)
        if self.node.broker == 0:
            self.node.deliver(message, 0)


class Alternates(BrokerProtocol):
    """On a ring of three: broker 2 sends its first publication by way of broker 1, others straight to broker 0."""

    kind = "content"

    def __init__(self, node):
        super().__init__(node)
        self.sent = 0

    def on_message(self, message):
        node = self.node
        if message.type != PUBLISH:
            return
        if node.broker == 0:
            node.deliver(message, 0)
            return
        towards = 1 if node.broker == 2 and not self.sent else 0
        self.sent += 1
        node.forward(message, next(link for link in node.links if node.neighbour(link) == towards))


def case(protocol, script, clients=(0, 2), edges=LINE, delay_ms=1, **more):
    """A small case: rows of ms, client and what it does: + and a number of its own, - and the number, or !."""
    acts = []
    for at_ms, client, what, *rest in script:
        number, body = (rest[0] if rest else None), None
        if what == "+":
            body = rest[1] if len(rest) > 1 else ALL
        elif what == "!":
            body = VALUES
        acts.append(Act(int(at_ms * MS), client, KINDS.get(what, "subscribe"), number, body=body))
    name = protocol if isinstance(protocol, str) else f"{protocol.__module__}:{protocol.__name__}"
    links = tuple(Edge(a, b, int(delay_ms * MS)) for a, b in edges)
    brokers = 1 + max(map(max, edges))
    return Case(name, "content", brokers, links, clients, tuple(acts), 400 * MS, **more)


def told_by(outcome):
    assert not outcome.failed, outcome.failed
    return Told.of_tables(outcome.tables, outcome.kind, outcome.case.duration_ns + 12 * 10**9)


def pair_of(each, publication, client):
    told = told_by(run(each))
    source, number = map(int, publication.split("#"))
    (row,) = told.rows("publications", publication=(source + told.nodes) << 32 | number)
    return Pair(told, row, client + told.nodes)


def why(each, publication, client):
    return told_of(pair_of(each, publication, client))


def brief(found):
    return tuple(found[name] for name in ("verdict", "broker", "towards", "change"))


# ---- what did not come --------------------------------------------------------------------------------


def test_an_interest_of_which_a_broker_was_never_told_names_where_its_way_stops():
    found = why(case(Deaf, [(10, 0, "+", 0), (50, 1, "!")], clients=(0, 3), edges=((0, 1), (1, 2), (2, 3))), "1#0", 0)
    assert brief(found) == ("never told", "b3", "b2", "0#0") and found["held"] == "b1" and found["sure"]
    assert found["said"][-1].startswith("The way of 0#0 stops at b1, which handled it at 11 ms")


def test_a_broker_that_was_told_too_late_is_told_by_how_much():
    found = why(case("subscription", [(10, 0, "+", 0), (10.5, 1, "!")]), "1#0", 0)
    assert brief(found) == ("told too late", "b2", "b1", "0#0")
    assert found["by_ns"] == 1_500_000 and found["said"][-1].startswith("That breaks no promise")


def test_an_interest_that_was_withdrawn_with_what_covered_it_names_the_withdrawal():
    script = [(10, 0, "+", 0), (20, 1, "+", 0, (0, 0.2, 0.8)), (30, 0, "-", 0), (50, 2, "!")]
    found = why(case(GivesUpCovered, script, clients=(0, 0, 2)), "2#0", 1)
    assert brief(found) == ("withdrawn", "b2", "b1", "0#1") and found["operation"] == "unsubscribe" and found["sure"]
    assert "It had heard of 0#0 of client 0 from b1, at 12 ms." in found["said"]
    assert any("0#1, the unsubscribe of client 0" in each for each in found["said"])
    assert any(each.startswith("The way of 1#0 stops at b0") for each in found["said"])


def test_an_interest_that_leans_on_one_that_is_being_withdrawn_breaks_no_promise():
    script = [(10, 0, "+", 0), (20, 1, "+", 0, (0, 0.2, 0.8)), (30, 0, "-", 0), (30.5, 2, "!")]
    each = case(GivesUpCovered, script, clients=(0, 0, 1), edges=((0, 1),))
    found = why(each, "2#0", 1)
    assert found["verdict"] == "delivered"
    later = why(each.but(acts=(*each.acts[:3], each.acts[3]._replace(at=31 * MS))), "2#0", 1)
    assert later["verdict"] == "withdrawn" and later["said"][-1].startswith("That breaks no promise by itself")


def test_a_race_names_the_last_change_that_the_broker_had_handled():
    found = why(case(Blinks, [(10, 0, "+", 0), (20, 0, "+", 1), (49, 0, "-", 1), (49.0005, 1, "!")]), "1#0", 0)
    assert brief(found) == ("withheld", "b1", "b0", "0#0")
    assert found["said"][-1].endswith("handled was 0#2, the unsubscribe of client 0, 500 ns before.")


def test_a_withdrawal_of_the_clients_own_is_named_as_such():
    found = why(case("subscription", [(10, 0, "+", 0), (49, 0, "-", 0), (50.5, 1, "!")]), "1#0", 0)
    assert brief(found) == ("withdrawn", "b1", "b0", "0#1")


def test_a_copy_that_a_cut_link_lost_names_the_fault():
    fault = {"fault": "cut", "link": [0, 1], "at": 40 * MS, "lasts": 20 * MS}
    found = why(case("subscription", [(10, 0, "+", 0), (50, 1, "!")], faults=(fault,)), "1#0", 0)
    assert brief(found)[:3] == ("lost", "b1", "b0")
    assert found["fault"] == {"what": "the link from b1 to b0 is cut", "begin_ns": 40 * MS, "end_ns": 60 * MS}


def test_an_interest_that_a_cut_link_lost_names_the_fault():
    fault = {"fault": "cut", "link": [1, 2], "at": 5 * MS, "lasts": 20 * MS}
    found = why(case("subscription", [(10, 0, "+", 0), (50, 1, "!")], faults=(fault,)), "1#0", 0)
    assert brief(found) == ("lost", "b2", "b1", "0#0") and found["fault"]["what"] == "the link from b1 to b2 is cut"


def test_a_publication_to_a_broker_that_is_down_is_lost_there():
    fault = {"fault": "crash", "brokers": [1], "at": 40 * MS, "lasts": 20 * MS, "state": "kept"}
    found = why(case("subscription", [(10, 0, "+", 0), (50, 1, "!")], faults=(fault,)), "1#0", 0)
    assert brief(found)[:3] == ("lost", "b2", "b1") and found["fault"]["what"].startswith("b1 is down")


def test_a_broker_that_came_back_knowing_nothing_has_forgotten():
    fault = {"fault": "crash", "brokers": [1], "at": 20 * MS, "lasts": 10 * MS, "state": "lost"}
    found = why(case("subscription", [(10, 0, "+", 0), (50, 1, "!")], faults=(fault,)), "1#0", 0)
    assert brief(found) == ("forgotten", "b1", "b0", "0#0") and found["fault"]["begin_ns"] == 20 * MS


def test_what_a_broker_knew_of_and_did_not_pass_on_is_withheld():
    found = why(case(Withholds, [(10, 0, "+", 0), (50, 1, "!")]), "1#0", 0)
    assert brief(found) == ("withheld", "b1", "b0", "0#0")
    assert found["said"][-1] == "It had heard of 0#0 from b0, at 11 ms, and of no withdrawal of that by then."


def test_what_came_home_and_was_not_delivered_is_withheld_there():
    found = why(case(Withholds, [(10, 0, "+", 0), (50, 1, "!")], clients=(1, 2)), "1#0", 0)
    assert brief(found) == ("withheld", "b1", None, "0#0") and "its client, at 10 ms" in found["said"][-1]


def test_what_the_end_of_the_run_cut_off_is_under_way():
    each = case("subscription", [(10, 0, "+", 0), (300, 1, "!")], delay_ms=100)
    told = told_by(run(each))
    told.ends = 400 * MS
    told_hops, told.ask = told.ask, lambda table, equal: [
        row for row in told_hops(table, equal) if table not in ("hops", "deliveries") or row["time_ns"] < 400 * MS
    ]  # fmt: skip
    (row,) = told.rows("publications")
    found = told_of(Pair(told, row, told.nodes))
    assert brief(found)[:3] == ("under way", "b2", "b1")


def test_on_a_ring_the_broker_nearest_to_the_client_is_asked():
    script = [(10, 0, "+", 0), (50, 1, "!")]
    found = why(case(Withholds, script, clients=(0, 3), edges=((0, 1), (1, 2), (2, 3), (0, 3)), delay_ms=1), "1#0", 0)
    assert found["verdict"] in ("delivered", "withheld")
    slow = case(Deaf, script, clients=(0, 2), edges=((0, 1), (1, 2), (2, 3), (0, 3)))
    found = why(slow, "1#0", 0)
    assert found["verdict"] == "never told" and "There are cycles" in found["said"][0] and found["broker"] == "b2"


def test_nothing_is_missed_where_nothing_was_asked_for():
    found = why(case("subscription", [(50, 1, "!")]), "1#0", 0)
    assert brief(found) == ("not wanted", None, None, None)


# ---- what came ----------------------------------------------------------------------------------------


def test_what_was_sent_twice_over_a_link_names_who_sent_it():
    found = why(case(Doubles, [(10, 0, "+", 0), (50, 1, "!")]), "1#0", 0)
    assert brief(found)[:3] == ("delivered twice", "b1", "b0")
    assert "b1 sent it twice to b0, which handled it at 52 ms and 52 ms." in found["said"]


def test_what_a_link_doubled_names_the_fault():
    fault = {"fault": "degrade", "link": [0, 1], "at": 40 * MS, "lasts": 20 * MS, "twice": 1.0}
    found = why(case("subscription", [(10, 0, "+", 0), (50, 1, "!")], faults=(fault,)), "1#0", 0)
    assert brief(found)[:3] == ("delivered twice", "b1", "b0") and found["fault"]["what"].endswith("is worn")


def test_what_nobody_asked_for_is_delivered_unasked():
    found = why(case(DeliversAnyway, [(10, 1, "+", 0), (50, 1, "!")], clients=(0, 0)), "1#1", 0)
    assert brief(found)[:2] == ("delivered unasked", "b0") and "never asked" in found["said"][0]


def test_what_is_delivered_after_a_withdrawal_names_it():
    script = [(10, 0, "+", 0), (20, 0, "-", 0), (50, 1, "!")]
    found = why(case(DeliversAnyway, [*script, (5, 1, "+", 5)], clients=(0, 0)), "1#1", 0)
    assert brief(found) == ("delivered after withdrawal", "b0", None, "0#1")


def test_what_was_overtaken_names_where():
    found = why(case(Alternates, [(10, 0, "+", 0), (50, 1, "!"), (50.5, 1, "!")], edges=RING), "1#0", 0)
    assert brief(found)[:3] == ("delivered out of order", "b2", "b0")
    assert found["said"] == [
        "client 0 got 1#1, sent after 1#0 (at 50.5 ms), before it.",
        "From b2 to b0 the one overtook the other, over different links.",
    ]


def test_what_came_as_it_should_is_delivered_and_its_steps_are_in_the_order_of_time():
    found = why(case("subscription", [(10, 0, "+", 0), (50, 1, "!")]), "1#0", 0)
    assert brief(found)[0] == "delivered"
    assert [(each["time_ns"] // MS, each["broker"]) for each in found["steps"]] == [
        (10, "b0"), (11, "b1"), (12, "b2"), (50, "b2"), (51, "b1"), (52, "b0"), (52, "b0"),
    ]  # fmt: skip


def test_an_interest_that_stood_from_the_beginning_is_known_everywhere():
    found = why(case(Withholds, [(0, 0, "+", 0), (50, 1, "!")], settled=True), "1#0", 0)
    assert brief(found) == ("withheld", "b1", "b0", "0#0") and "stood from the beginning" in found["said"][-1]


ACCUSES = {"withheld", "forgotten", "delivered twice", "delivered unasked", "delivered after withdrawal"}


@pytest.mark.parametrize("name", ["subscription", "covering", "flooding"])
def test_a_protocol_that_is_right_is_accused_of_nothing(name):
    seen = set()
    for number in range(8):
        outcome = run(draw(Prey.of(name, faults=False), 9, number))
        if any(edge.loss for edge in outcome.case.edges):
            continue
        told = told_by(outcome)
        for row in told.rows("publications")[:8]:
            for client in range(len(outcome.case.clients)):
                found = told_of(Pair(told, row, client + told.nodes))
                seen.add(found["verdict"])
                late = found["verdict"] in ("never told", "told too late", "withdrawn")
                assert not late or found["said"][-1].startswith("That breaks no promise"), found
    assert "delivered" in seen and not seen & (ACCUSES | {"delivered out of order"})


# ---- planted bugs -------------------------------------------------------------------------------------

# By number: verdict, broker, neighbour, change and where its way stops, as the registry tells each mistake.
EXPLAINED = {
    "1": ("forgotten", "b2", "b1", "0#0", None),
    "2": ("withdrawn", "b1", "b0", "0#1", None),
    "3": ("never told", "b1", "b0", "0#0", "b0"),
    "4": ("withdrawn", "b1", "b0", "0#1", None),
    "6": ("delivered twice", "b0", "b2", None, None),
    "7": ("lost", "b0", "b2", None, None),
    "8": ("never told", "b0", "b1", "0#0", "b1"),
    "9": ("never told", "b0", "b1", "1#0", "b1"),
    "11": ("lost", "b1", "b0", "0#0", None),
    "12": ("never told", "b0", "b1", "0#2", "b1"),
    "13b": ("delivered twice", "b1", "b0", None, None),
    "13d": ("delivered twice", "b0", "b1", None, None),
    "14": ("delivered twice", "b0", "b1", None, None),
    "17": ("delivered twice", "b0", "b1", None, None),
}


@pytest.mark.parametrize("planted", [each for each in PLANTED if each.number in EXPLAINED], ids=lambda bug: bug.number)
def test_a_planted_bug_that_misses_or_doubles_is_explained_by_its_broker_and_change(planted):
    ran = Ran(planted.setting, planted.wrong)
    told = Told.of_tables(ran.tables, Content({"attributes": 4}))
    (row,) = told.rows("publications", publication=ran.probe[0])
    amiss = [c for c in ran.wanting if c not in ran.got] + [c for c in ran.got if ran.got.count(c) > 1]
    found = told_of(Pair(told, row, amiss[0] + told.nodes))
    assert (*brief(found), found["held"]) == EXPLAINED[planted.number]


def test_every_planted_bug_that_misses_or_doubles_is_among_them():
    late, *gossips = "20", "21", "22"  # the latter's brokers tell nobody of interests, which the trace does not say
    shown = {each.number for each in PLANTED if {"M", "D", "R"} & set(each.checks)}
    assert shown - {late, *gossips} == set(EXPLAINED)


# ---- beside another run -------------------------------------------------------------------------------


def test_beside_flooding_the_first_broker_that_withheld_is_named():
    script = [(10, 0, "+", 0), (50, 1, "!")]
    one, two = (pair_of(case(name, script), "1#0", 0) for name in (Withholds, "flooding"))
    found = beside(one, two, "flooding")
    assert (found["broker"], found["towards"], found["more"]) == ("b1", "b0", "there")
    assert found["sent"] == [{}, {"b0": 1}] and found["knew"] == [["0#0 (at 11 ms)"], []]


def test_beside_the_right_one_a_broker_that_doubles_is_named():
    script = [(10, 0, "+", 0), (50, 1, "!")]
    one, two = (pair_of(case(name, script), "1#0", 0) for name in (Doubles, "subscription"))
    found = beside(one, two, "it")
    assert (found["broker"], found["more"], found["sent"]) == ("b1", "here", [{"b0": 2}, {"b0": 1}])


def test_beside_itself_nothing_differs():
    one = pair_of(case("subscription", [(10, 0, "+", 0), (50, 1, "!")]), "1#0", 0)
    assert beside(one, one, "itself")["broker"] is None
    assert beside(one.way, one.way, "itself")["said"] == ["In itself, 1#0 goes the same way."]


def test_another_case_is_refused():
    script = [(10, 0, "+", 0), (50, 1, "!")]
    one = pair_of(case("subscription", script), "1#0", 0).way
    ring = pair_of(case("subscription", script, edges=RING), "1#0", 0).way
    later = pair_of(case("subscription", [(10, 0, "+", 0), (51, 1, "!")]), "1#0", 0).way
    for other, what in ((None, "nobody published"), (ring, "other brokers or links"), (later, "another publication")):
        with pytest.raises(InvalidInput, match=what):
            same_case(one, other, "that")


def test_ways_hold_every_event_once_and_chains_begin_at_the_client():
    told = told_by(run(case("flooding", [(50, 1, "!")], edges=((0, 1), (1, 2), (0, 2)))))
    (row,) = told.rows("publications")
    way = Way(told, row)
    assert sorted(hop for each in way.at.values() for hop in each) == way.hops
    assert all(way.chain(hop)[0].link < 0 for hop in way.hops)
    assert np.all(np.diff([hop.time_ns for hop in way.chain(way.hops[-1])]) > 0)
