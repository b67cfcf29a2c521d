"""Cases that a hunt found in built-in protocols, as small as they got: each was mended, and stays so."""

from __future__ import annotations

import pytest

from brokers.contract import FAULT
from protocols.channels.server import LISTEN
from scenarios.hunt.case import Act, Case, Edge, Move
from scenarios.hunt.judges import JUDGES, judged
from scenarios.hunt.running import run

MS = 1_000_000


@pytest.mark.parametrize("view", ["auto", "message"])
@pytest.mark.parametrize("protocol", ["spatial-keyword", "spatial"])
def test_an_answer_does_not_wait_for_what_was_taken_back_and_is_asked_for_anew(protocol, view):
    """The second subscription leans on the first, whose answer came late for a third one's sake."""
    acts = (
        Act(8 * MS, 0, "subscribe", 0, None, (0.0, 0.0, 0.0, 3.0)),
        Act(9 * MS, 0, "subscribe", 1, None, (0.0, 0.0, 3.0, None)),
        Act(10 * MS, 0, "unsubscribe", 0),
        Act(10 * MS, 0, "subscribe", 2, None, (0.0, 0.0, 0.0, 0.0)),
        Act(27 * MS, 0, "publish", 3, None, (0.0, 0.0, 1.0, 0.0, 0.0, 3.0)),
    )
    outcome = run(
        Case(protocol, "spatial", 3, (Edge(0, 1, 3 * MS), Edge(0, 2, 6 * MS)), (2,), acts, 100 * MS, view=view)
    )
    assert judged(outcome, JUDGES) == []
    assert outcome.tables["deliveries"]["time_ns"].tolist() == [27 * MS]


def test_a_subscription_that_a_full_queue_dropped_is_not_there_after_a_stop_either():
    """Shards learn of interests before brokers have a place for them."""
    acts = (
        *(Act(1, 0, "publish", None, None, (0.0, 0.0, 0.0, 0.0)) for _ in range(4)),
        Act(1, 1, "subscribe", 0, None, (0.0, 0.0, 1.0, None, None, None)),
        Act(490 * MS, 1, "publish", None, None, (0.0, 0.0, 0.0, 0.0)),
    )
    outcome = run(
        Case(
            "flooding", "content", 2, (Edge(0, 1, MS),), (0, 0), acts, 500 * MS, queues={"places": 4},
            cost={"base": 2e6, "per_match": 5e4},
        )
    )  # fmt: skip
    lost = outcome.tables["losses"]
    assert (lost["type"] == outcome.kind.types["subscribe"]).any()
    assert judged(outcome, JUDGES, dear=True) == []


def test_what_is_published_and_ended_as_its_client_arrives_is_ended():
    acts = (
        Act(1, 0, "publish", 7, None, (0.0, 1.0, 1.0, 0.0, 0.0, None)),
        Act(1, 0, "expire", 7),
    )
    case = Case("spatial", "spatial", 2, (Edge(0, 1, MS),), (0,), acts, 8_000 * MS, moves=(Move(0, 1, 1),))
    outcome = run(case)
    hops = outcome.tables["hops"]
    assert sorted(zip(hops["broker"].tolist(), hops["type"].tolist())) == [(1, 0), (1, 3)]
    assert judged(outcome, JUDGES) == []


def test_a_broker_that_begins_again_with_nothing_does_not_know_what_stood_at_the_start():
    acts = (Act(0, 0, "subscribe", 1, None, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, None, None, None, None)),)
    lost = {"fault": "crash", "at": 1_000 * MS, "lasts": 1_000 * MS, "brokers": [0], "state": "lost"}
    edges = (Edge(0, 1, MS),)
    case = Case("topk-bounded", "topk", 2, edges, (0,), acts, 1_000 * MS, faults=(lost,), settled=True)
    outcome = run(case)
    assert (outcome.tables["hops"]["kind"] == FAULT).any()
    assert judged(outcome, JUDGES, dear=True) == []


def test_a_word_that_was_lost_is_not_made_good_by_one_said_before_it_that_waited_for_the_link():
    """The link has room for two: the plan of 104 ms finds none, that of 94 ms comes at 236 ms."""
    acts = (
        Act(50 * MS, 0, "subscribe", 0, None, (24e6, 0.0, 1.0, 0.0, 375.0)),
        Act(50 * MS, 0, "subscribe", 1, None, (24e6, 0.0, 500.0, 0.0, 1.0)),
        Act(90 * MS, 1, "subscribe", 0, None, (24e6, 0.0, 1.0, 0.0, 1.0)),
        Act(100 * MS, 1, "subscribe", 0, None, (24e6, 0.0, 1.0, 0.0, 1125.0)),
    )
    edges = (Edge(0, 1, 8 * MS, bandwidth=400_000),)
    outcome = run(
        Case("channels", "channels", 2, edges, (1, 0), acts, 300 * MS, queues={"links": {"messages": 2}})
    )
    losses, hops = outcome.tables["losses"], outcome.tables["hops"]
    lost = losses["time_ns"][losses["type"] == LISTEN]
    come = hops["time_ns"][(hops["type"] == LISTEN) & (hops["broker"] == 1)]
    assert lost.tolist() == [104_000_300] and come.max() > lost[0]
    assert judged(outcome, JUDGES) == []


@pytest.mark.parametrize("protocol", ["subscription", "merging"])
def test_what_a_client_waits_for_and_what_is_kept_for_it_end_each_in_its_time(protocol):
    """Its END is lost, and it goes away for good before it has waited for as long as anything is kept."""
    acts = (
        Act(20 * MS, 0, "subscribe", 4, None, (1.0, 0.0, 1.0, None, None, None)),
        Act(90 * MS, 0, "publish", None, None, (0.0, 0.0, 0.0, 0.0)),
        Act(6_000 * MS, 0, "unsubscribe", 4),
    )
    worn = {"fault": "degrade", "at": 100 * MS, "lasts": 100 * MS, "link": [0, 1], "way": "there", "loss": 1.0}
    case = Case(
        protocol, "content", 3, (Edge(0, 1, 7 * MS), Edge(0, 2, 8 * MS)), (2,), acts, 9_000 * MS,
        options={"recover": True, "check_every": 250 * MS}, faults=(worn,), session={"keep": 50 * MS},
        moves=(Move(0, 80 * MS, 1), Move(0, 100 * MS)),
    )  # fmt: skip
    outcome = run(case)
    assert len(outcome.tables["losses"]["link"]) and not outcome.held
    assert judged(outcome, JUDGES) == []


@pytest.mark.parametrize("protocol", ["subscription", "covering", "merging"])
def test_what_comes_by_replay_and_past_it_is_handed_on_once_although_no_end_came_in_time(protocol):
    """A client that moves twice, and brokers that take 2 ms for each message."""
    acts = (
        Act(10 * MS, 0, "subscribe", 0, None, (0.0, 0.0, 1.0, 1.0, 0.0, 0.0)),
        Act(20 * MS, 0, "subscribe", 1, None, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)),
        Act(20 * MS, 1, "publish", None, None, (0.0, 0.0, 0.0, 0.0)),
        Act(20 * MS, 0, "publish", None, None, (0.0, 1.0, 0.0, 0.0)),
        Act(40 * MS, 1, "publish", None, None, (0.0, 0.0, 0.0, 0.0)),
        Act(40 * MS, 1, "publish", None, None, (0.0, 0.0, 0.0, 0.0)),
    )
    edges = (Edge(0, 1, 4 * MS), Edge(0, 3, MS), Edge(1, 2, MS))
    case = Case(
        protocol, "content", 4, edges, (0, 1), acts, 90 * MS, cost={"base": 2e6, "per_match": 5e4},
        session={"keep": 50 * MS}, moves=(Move(0, 20 * MS, 2), Move(0, 30 * MS, 3)),
    )  # fmt: skip
    assert judged(run(case), JUDGES) == []


def test_a_client_that_comes_back_to_a_busy_broker_gets_what_was_kept():
    """What it publishes as it comes is served first; the queue has a limit, so its subscription is of a later time."""
    acts = (
        Act(200 * MS, 0, "subscribe", 5, None, (0.0, 0.0, 1.0, None, None, None)),
        Act(800 * MS, 0, "publish", None, None, (0.0, None, 0.0, 0.0)),
    )
    case = Case(
        "subscription", "content", 1, (), (0,), acts, 4_000 * MS, cost={"base": 2e6, "per_match": 5e4},
        moves=(Move(0, 500 * MS, None), Move(0, 800 * MS, 0)), session={"keep": 400 * MS},
        queues={"places": 2, "full": "oldest"},
    )  # fmt: skip
    outcome = run(case)
    assert judged(outcome, JUDGES) == []
    assert outcome.tables["deliveries"]["client"].tolist() == [2]
