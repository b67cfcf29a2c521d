"""Kinds whose values alone do not decide: what is explained is what their judges hold, and names broker and change."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import product

import numpy as np
import pytest

from analysis.spark.trace import services_of
from analysis.ways import plain, vector
from analysis.ways.deciding import decided, told_of
from analysis.ways.getting import DELIVERED
from analysis.ways.pair import Pair
from analysis.ways.picturing import of_round
from analysis.ways.round_told import told_of as round_told
from analysis.ways.rounds import Round
from analysis.ways.rows import of_pair
from analysis.ways.told import Told
from brokers.engine.runfolder import open_run
from brokers.errors import InvalidInput
from protocols.judging import audit
from protocols.topk.gather import PlainGather
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.running import run
from scenarios.running import run as run_scenario
from tests.planted.kinds import (
    MS,
    PLANTED,
    AsksOneSide,
    KeepsItsAnswer,
    OldValues,
    OldWeights,
    SmallObjects,
    TellsOnce,
    _case,
    _channels,
    _context,
    _spatial,
    _topk,
    act,
    filter_,
    query,
    thing,
)


def told_by(outcome, tables=None):
    assert not outcome.failed, outcome.failed
    case = outcome.case
    return Told.of_tables(
        tables or outcome.tables, outcome.kind, case.duration_ns + 12 * 10**9, lambda: outcome.guarantees,
        outcome.model.services[0].options, case.seed,
    )  # fmt: skip


def id_of(told, name):
    client, number = map(int, name.split("#"))
    return (client + told.nodes) << 32 | number


def pair_in(told, publication, client):
    (row,) = told.rows("publications", publication=id_of(told, publication))
    return Pair(told, row, client + told.nodes)


def why(case, publication, client):
    return told_of(pair_in(told_by(run(case)), publication, client))


def round_in(told, query_, at_ms):
    return Round(told, id_of(told, query_), at_ms * MS)


def brief(found):
    return tuple(found[name] for name in ("verdict", "broker", "towards", "change", "held"))


def explained(each, case):
    """Of a planted bug: what is told of the pair that shows it, and the diagram."""
    told = told_by(run(case))
    if " at " in each.about:
        name, at_ms = each.about.split(" at ")
        round = round_in(told, name, int(at_ms))
        return round_told(round)["why"], of_round(round)
    pair = pair_in(told, each.about, each.client)
    return told_of(pair), of_pair(pair, decided(pair))


# ---- planted bugs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", PLANTED, ids=lambda each: f"{each.wrong.__name__}-{each.client}")
def test_a_planted_bug_is_found_by_the_judge_and_explained_by_its_broker_and_change(each):
    outcome = run(each.case)
    assert getattr(audit(outcome.tables, outcome.kind, outcome.guarantees), each.finding).count
    found, picture = explained(each, each.case)
    assert brief(found) == each.named and found["sure"] and found["said"] and found["rule"]
    assert found["due"] == ("not owed" if each.finding == "unwanted" and each.case.kind != "channels" else "owed")
    assert each.named[1] in plain.drawn(picture) and str(each.client) in plain.drawn(picture)
    assert each.named[1] in "".join(ET.fromstring(vector.drawn(picture)).itertext())


@pytest.mark.parametrize("each", PLANTED, ids=lambda each: f"{each.wrong.__name__}-{each.client}")
def test_without_the_bug_the_same_pair_is_as_it_has_to_be(each):
    case = each.case.but(protocol=each.right)
    outcome = run(case)
    assert not audit(outcome.tables, outcome.kind, outcome.guarantees).broken
    found, _ = explained(each, case)
    assert (found["verdict"], found["due"]) in {("delivered", "owed"), ("not wanted", "not owed"), ("answered", "owed")}


def test_there_are_two_planted_bugs_of_each_kind_at_least():
    kinds = [each.wrong.kind for each in PLANTED]
    assert all(kinds.count(kind) >= 2 for kind in ("topk", "context", "spatial", "channels"))


# ---- what is due is what the judge holds -------------------------------------------------------------------


def without(tables, publication, client):
    deliveries = tables["deliveries"]
    left = ~((deliveries["publication"] == publication) & (deliveries["client"] == client))
    return {**tables, "deliveries": {name: column[left] for name, column in deliveries.items()}}


def with_one_more(tables, row, client):
    values = {
        "service": 0, "publication": row["publication"], "broker": row["broker"], "client": client,
        "published_ns": row["time_ns"], "time_ns": row["time_ns"] + 1,
    }  # fmt: skip
    deliveries = tables["deliveries"]
    more = {name: np.append(column, np.array([values[name]], column.dtype)) for name, column in deliveries.items()}
    return {**tables, "deliveries": more}


def drawn_runs(names, numbers, faults):
    for name, number in product(names, numbers):
        outcome = run(draw(Prey.of(name, faults=faults), 17, number))
        told = told_by(outcome)
        if not outcome.overloaded and not outcome.case.moves and len(told.rows("publications")) <= 40:
            yield outcome, told


@pytest.mark.parametrize("faults", [False, True], ids=["calm", "faulty"])
def test_a_delivery_more_or_less_breaks_what_is_due_and_nothing_else(faults):
    """The judge is asked of each run with one delivery taken away or added: it minds what is owed, or not owed."""
    seen = set()
    names = ["context-edge", "context-replicated", "spatial-flooding", "spatial"]
    for outcome, told in drawn_runs(names, range(3), faults):
        usual = audit(outcome.tables, outcome.kind, outcome.guarantees)
        asking = {row["client"] for row in told.rows("changes")}
        for row in told.rows("publications")[:6]:
            for client in sorted(asking):
                pair = Pair(told, row, client)
                due = pair.due.due
                if pair.got:
                    tables = without(outcome.tables, row["publication"], client)
                else:
                    tables = with_one_more(outcome.tables, row, client)
                judged = audit(tables, outcome.kind, outcome.guarantees)
                missed = judged.missed.count > usual.missed.count
                unwanted = judged.unwanted.count > usual.unwanted.count
                which = outcome.case.protocol, pair.name, client
                assert missed == (bool(pair.got) and due == "owed"), which
                assert unwanted == (not pair.got and due == "not owed"), which
                seen.add((bool(pair.got), due))
    assert {(True, "owed"), (False, "not owed")} <= seen


@pytest.mark.parametrize("name", ["topk-ingress", "topk-gather", "topk-bounded"])
def test_of_ranked_answers_what_is_forced_is_owed_and_what_came_is_never_not_owed(name):
    owed = 0
    for outcome, told in drawn_runs([name], range(4), faults=False):
        judged = audit(outcome.tables, outcome.kind, outcome.guarantees)
        assert not judged.broken
        for row in told.rows("publications")[:8]:
            for client in {each["client"] for each in told.rows("changes")}:
                pair = Pair(told, row, client)
                assert pair.due.may if pair.got else pair.due.due != "owed", (pair.name, client)
                owed += pair.due.due == "owed"
    assert owed


@pytest.mark.parametrize("faults", [False, True], ids=["calm", "faulty"])
def test_every_round_of_a_right_server_is_explained_as_right(faults):
    verdicts = set()
    for _, told in drawn_runs(["channels"], range(3), faults):
        for row in told.rows("changes")[:6]:
            for at_ms in (100, 200, 300):
                round = Round(told, row["interest"], at_ms * MS)
                period = told.explaining.period_of(round.versions[-1]) if round.versions else 0
                if not period:
                    continue
                round = Round(told, row["interest"], max(1, at_ms * MS // period) * period)
                found = round_told(round)["why"]
                verdicts.add(found["verdict"])
                assert found["due"] != "owed" or found["verdict"] == "answered", found
                assert found["verdict"] not in ("answered wrongly", "answered twice") or faults, found
    assert "answered" in verdicts


def test_what_is_owed_in_rounds_is_what_the_judge_forces():
    seen = 0
    for outcome, told in drawn_runs(["channels"], range(4), faults=False):
        last, owed = int(outcome.tables["samples"]["time_ns"].max()), 0
        for query_ in {row["interest"] for row in told.rows("changes")}:
            versions = Round(told, query_, 0).versions
            for period in {told.explaining.period_of(row) for row in versions}:
                dues = [Round(told, query_, at, period).due.due for at in range(period, last, period)]
                owed += dues.count("owed")
        assert owed == audit(outcome.tables, outcome.kind, outcome.guarantees).forced
        seen += owed
    assert seen


# ---- single verdicts ---------------------------------------------------------------------------------------


class ForgetsTheBest(PlainGather):
    """Broker 1 passes on all but the best that it has in hand."""

    def useful(self, one, found):
        return type(found)(*(column[1:] for column in found)) if self.node.broker == 1 else found


def test_where_all_answered_and_one_was_left_out_the_trace_does_not_tell_who_did_it():
    found = why(_topk(ForgetsTheBest), "3#0", 1)
    assert found["verdict"] == "left out" and found["broker"] == "b1" and not found["sure"]
    assert found["said"][-1].endswith("its answer came by b1 - b2. Which of them left it out, the trace does not tell.")


def test_where_nobody_tells_of_interests_who_stopped_it_may_have_withheld_it():
    found = why(_spatial(SmallObjects, act(100, 1, "publish", 0, thing(1.0, payload=0))), "1#0", 0)
    assert brief(found) == ("withheld", "b1", "b0", "0#0", "b0") and not found["sure"] and found["due"] == "owed"
    assert found["said"][-1].startswith("In this run no broker told another of any interest")


def test_where_nobody_asks_who_decided_was_never_told():
    acts = (act(50, 0, "reweight", 0, filter_(0.5)), act(100, 1, "publish", None, (0.5, 0.5)))
    found = why(_case(OldWeights, "topk", (0, 2), *acts, attributes=2, k=2), "1#0", 0)
    assert brief(found) == ("never told", "b2", "b1", "0#0", "b0")


def test_a_rank_names_score_and_who_is_before():
    found = why(_topk(PlainGather, act(10, 0, "subscribe", 1, filter_(0.6))), "3#0", 2)
    assert (found["verdict"], found["due"]) == ("not wanted", "not owed")
    assert found["rule"] == [
        "2#0 scores 0.4, which ranks 4th of 4 filters.", "2 are reached; the 2nd has 0.6.",
        "Before it are 1#0 of client 1, 0#1 of client 0 and 0#0 of client 0.",
    ]  # fmt: skip


def test_of_several_filters_of_a_client_the_one_that_ranks_best_is_told():
    found = why(_topk(PlainGather, act(10, 2, "subscribe", 1, filter_(0.9))), "3#0", 2)
    assert found["verdict"] == "delivered" and found["rule"][0] == "2#1 scores 0.9, which ranks 1st of 4 filters."


def test_a_weight_in_flight_leaves_it_free():
    case = _topk(PlainGather, act(99.9, 2, "reweight", 0, filter_(0.9))).but(protocol="topk-ingress")
    found = why(case, "3#0", 2)
    assert found["due"] == "free" and found["verdict"] in ("told too late", "left out")
    assert found["said"][-1].startswith("That breaks no promise by itself") and "were in flight" in found["rule"][0]


def test_a_filter_that_ties_with_the_last_is_told_so():
    found = why(_topk(PlainGather, act(10, 2, "subscribe", 1, filter_(0.5))), "3#0", 2)
    tie = "the 3rd has the same, and of ties those of lowest id are taken"
    assert found["rule"][1] == f"2 are reached; the 2nd has 0.5; {tie}."


def test_an_answer_that_a_cut_link_lost_names_the_fault():
    fault = {"fault": "cut", "link": [0, 1], "at": int(102.5 * MS), "lasts": 20 * MS}
    found = why(_topk(PlainGather).but(protocol="topk-gather", faults=(fault,)), "3#0", 0)
    assert (found["verdict"], found["due"]) == ("lost", "excused")
    assert found["fault"]["what"] == "the link from b0 to b1 is cut"


def test_a_value_in_flight_leaves_it_free_and_says_both():
    case = _context(OldValues, 0.7, 0.2).but(protocol="context-edge")
    late = case.but(acts=tuple(each._replace(at=int(99.5 * MS)) if each.at == 50 * MS else each for each in case.acts))
    found = why(late, "2#0", 0)
    assert (found["verdict"], found["due"]) == ("delivered", "free")
    one, two = "0.2, set by 1#1 of client 1 at 99.5 ms", "0.7, set by 1#0 of client 1 at 5 ms"
    assert found["rule"][1] == f"context 5.1 was {one} or {two}, of which the later was in flight."


def test_a_value_that_a_cut_link_lost_names_the_fault():
    fault = {"fault": "cut", "link": [1, 2], "at": 45 * MS, "lasts": 20 * MS}
    found = why(_context(OldValues, 0.2, 0.7).but(protocol="context-edge", faults=(fault,)), "2#0", 0)
    assert found["verdict"] == "lost" and found["change"] == "1#1" and found["fault"] is not None
    assert found["due"] == "free"


def test_an_object_names_what_it_puts_out():
    acts = [act(20 + 10 * at, 1, "publish", at, thing(float(3 + at), k=2)) for at in range(3)]
    case = _spatial(OldValues, *acts, act(100, 2, "publish", 0, thing(1.0, k=2))).but(protocol="spatial-flooding")
    found = why(case, "2#0", 0)
    assert found["rule"] == [
        "0#0 shares keyword 3; the object is 1 units away, and asks to be among the 2 nearest.",
        "No object that counts is nearer.", "So it is the nearest, and puts 1#1 (4 units) out of the first 2.",
    ]  # fmt: skip


def test_an_interest_that_is_over_is_told_as_over():
    case = _spatial(OldValues, act(50, 0, "unsubscribe", 0), act(100, 2, "publish", 0, thing(1.0)))
    found = why(case.but(protocol="spatial-flooding"), "2#0", 0)
    assert found["verdict"] == "not wanted"
    assert found["rule"] == ["0#0 does not count: it had ended before, or began only later."]


def test_a_client_that_never_asked_is_told_nothing_of():
    case = _spatial(OldValues, act(100, 2, "publish", 0, thing(1.0))).but(protocol="spatial")
    assert why(case, "2#0", 1)["verdict"] == "not wanted"


# ---- rounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {"mode": "unicast"}, {"mode": "identical"}, {"mode": "merged"}, {"mode": "merged", "replan": "mended"},
    {"mode": "channels", "channels": 2}, {"mode": "channels", "channels": 2, "replan": "mended"},
    {"mode": "merged", "extractor": "tags", "replan_every_ms": 30},
], ids=lambda options: "-".join(map(str, options.values())))  # fmt: skip
def test_a_plan_that_is_made_again_is_the_one_that_was_carried_out(options):
    acts = [act(10 + 3 * at, at % 3, "subscribe", at, query(250 + 80 * at)) for at in range(1, 6)]
    acts += [act(130, 1, "subscribe", 1, query(700)), act(150, 2, "unsubscribe", 2)]
    told = told_by(run(_channels(PLANTED[-1].wrong, *acts).but(protocol="channels", options=options)))
    for at_ms in (100, 200, 300):
        round = round_in(told, "0#0", at_ms)
        assert round.messages is not None and len(round.messages) == len(round.answers) > 0
        for each in round.messages:
            heard = {row["client"] - told.nodes for row in told.rows("deliveries", publication=each.publication)}
            assert set(each.listeners) == heard
            for name, (count, marks) in each.held.items():
                (row,) = told.rows("received", query=name, round=at_ms // 100)
                assert (row["objects"], row["marks"]) == (count, marks)


def test_queries_that_stand_from_the_beginning_are_planned_again_too():
    case = _channels(TellsOnce).but(protocol="channels", settled=True)
    case = case.but(acts=tuple(each._replace(at=0) for each in case.acts))
    round = round_in(told_by(run(case)), "0#0", 100)
    assert round_told(round)["why"]["verdict"] == "answered" and round.messages[0].listeners == (0,)


def test_a_query_that_a_cut_link_lost_was_never_planned():
    fault = {"fault": "cut", "link": [2, 3], "at": 5 * MS, "lasts": 20 * MS}
    case = _channels(TellsOnce).but(protocol="channels", faults=(fault,))
    found = round_told(round_in(told_by(run(case)), "0#0", 100))
    assert found["why"]["verdict"] == "lost" and found["why"]["broker"] == "server" and found["answers"] == []
    assert found["why"]["fault"]["what"] == "the link from b3 to b2 is cut"


def test_an_answer_that_a_cut_link_lost_names_the_fault_and_is_excused():
    fault = {"fault": "cut", "link": [2, 3], "at": 195 * MS, "lasts": 20 * MS}
    case = _channels(TellsOnce).but(protocol="channels", faults=(fault,))
    found = round_told(round_in(told_by(run(case)), "0#0", 200))
    assert brief(found["why"])[:3] == ("lost", "b2", "b3") and found["why"]["due"] == "excused"
    assert found["why"]["said"][-1] == "What was lost excuses it."


def test_a_query_that_is_over_is_not_due():
    case = _channels(TellsOnce, act(150, 0, "unsubscribe", 0)).but(protocol="channels")
    found = round_told(round_in(told_by(run(case)), "0#0", 300))
    assert (found["why"]["verdict"], found["owed"]) == ("not due", None)


def test_a_plan_that_does_not_fit_what_was_sent_is_not_believed():
    outcome = run(_channels(TellsOnce, act(50, 2, "subscribe", 0, query(400))))
    answers = outcome.tables["answers"]
    tables = {**outcome.tables, "answers": {**answers, "listeners": answers["listeners"] + 1}}
    round = round_in(told_by(outcome, tables), "2#0", 200)
    found = round_told(round)["why"]
    assert round.messages is None and not found["sure"] and found["broker"] == "b2" and found["held"] == "b1"


def test_of_two_periods_that_a_time_fits_the_one_counts_by_which_it_is_due():
    case = _channels(TellsOnce, act(210, 0, "subscribe", 0, query(300, period_ms=50))).but(protocol="channels")
    told = told_by(run(case))
    one, two = (round_told(round_in(told, "0#0", at_ms)) for at_ms in (200, 300))
    assert (one["period_ns"], one["why"]["verdict"]) == (100 * MS, "answered")
    assert (two["period_ns"], two["why"]["verdict"]) == (50 * MS, "answered")


def test_a_time_that_is_none_of_the_rounds_is_refused():
    told = told_by(run(_channels(TellsOnce).but(protocol="channels")))
    with pytest.raises(InvalidInput, match="due every 100 ms, and 150 ms is no multiple of that; say 100 ms or 200 ms"):
        round_told(round_in(told, "0#0", 150))
    with pytest.raises(InvalidInput, match="no query has this name"):
        round_told(round_in(told, "0#7", 100))


def test_what_asks_and_what_answers_is_told_apart_in_the_steps():
    steps = [each["what"] for each in why(_topk(AsksOneSide), "3#0", 0)["steps"]]
    assert "gets the question who wants 3#0 from b2, answers b2" in steps
    assert "decides who gets 3#0: client 0 does not" in steps


def test_of_publications_in_order_the_first_that_was_not_decided_is_explained():
    case = _topk(KeepsItsAnswer, act(110, 3, "publish", None, (0.5, 0.5)))
    assert brief(why(case, "3#1", 0))[:3] == ("undecided", "b1", "b2")


def test_services_that_share_brokers_are_explained_apart(tmp_path):
    """Of a broker's messages those of other services tell of interests of other kinds."""
    done = run_scenario("quickstart", engine="inline", out=tmp_path, overrides=["duration=4 s", "expect=[]"])
    folder = open_run(done.path)
    for service in services_of(folder):
        told = Told.of_run(folder, service)
        if told.answers:
            continue
        published = sorted(told.rows("publications", service=told.service), key=lambda row: row["time_ns"])[-1]
        got = {row["client"] for row in told.rows("deliveries", publication=published["publication"])}
        others = {row["client"] for row in told.rows("changes", service=told.service)} - got
        assert got, service.name
        for clients, comes in ((got, True), (others, False)):
            told_of_them = [told_of(Pair(told, published, client))["verdict"] for client in sorted(clients)[-3:]]
            assert all(verdict.startswith(DELIVERED) == comes for verdict in told_of_them), (service.name, told_of_them)
