"""Scores of neighbours, beside what each component is by its formula."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.gossip.options import Scoring, TopicScoring
from protocols.gossip.scores import IGNORED, INVALID, VALID, Scores

S = 1_000_000_000
T, U = (1,), (2,)


def scores(topic=None, links=6, topics=None, **said):
    found = Scores(Scoring(topic=topic or {}, topics=topics or {}, **said), lambda link: link, lambda t: str(t[0]))
    for link in range(links):
        found.came(link)
    return found


def bring(kept, link, id, topic=T, at=0, state=VALID):
    kept.brought(link, id, topic, at)
    kept.judged(id, state, at)


@given(st.integers(0, 30), st.integers(0, 12))
def test_p2_is_what_it_brought_first_up_to_a_cap_and_decays(first, decays):
    kept = scores({"first_weight": 3.0, "first_decay": 0.8, "first_cap": 9.0, "weight": 0.5})
    for id_ in range(first):
        bring(kept, 1, id_)
        kept.brought(2, id_, T, 5)  # a copy is no first delivery
    for _ in range(decays):
        kept.decay(0, S)
    left = min(first, 9) * 0.8**decays
    assert kept.score(1) == pytest.approx(0.5 * 3 * (left if left >= 0.01 else 0))
    assert kept.score(2) == 0


@given(st.integers(0, 400))
def test_p1_is_the_time_in_the_mesh_in_quanta_as_of_the_last_decay(seconds):
    kept = scores({"mesh_weight": 2.0, "mesh_quantum": "12 s", "mesh_cap": 20.0})
    kept.grafted(1, T, 5 * S)
    assert kept.score(1) == 0
    kept.decay((5 + seconds) * S, S)
    assert kept.score(1) == 2 * min(seconds // 12, 20)
    kept.pruned(1, T)
    assert kept.score(1) == 0


@given(st.integers(0, 12), st.booleans())
def test_p3_is_the_square_of_what_lacks_once_it_is_active_and_stays_as_p3b(delivered, active):
    kept = scores({
        "rate_weight": -2.0, "rate_threshold": 5.0, "rate_cap": 8.0, "rate_decay": 0.9, "rate_activation": "10 s",
        "failure_weight": -1.0, "failure_decay": 0.5,
    })  # fmt: skip
    kept.grafted(1, T, 0)
    kept.decay((11 if active else 9) * S, S)
    for id_ in range(delivered):
        bring(kept, 1, id_)
    lacks = max(0, 5 - min(delivered, 8)) if active else 0
    assert kept.score(1) == pytest.approx(-2 * lacks**2)
    kept.pruned(1, T)
    assert kept.score(1) == pytest.approx(-2 * lacks**2 - lacks**2)
    kept.grafted(1, T, 12 * S)  # not active again for a while
    assert kept.score(1) == pytest.approx(-(lacks**2))
    kept.decay(13 * S, S)
    assert kept.score(1) == pytest.approx(-(lacks**2) / 2)


def test_of_copies_those_count_as_delivered_that_come_before_validation_or_soon_after_and_once():
    kept = scores({
        "rate_weight": -1.0, "rate_threshold": 10.0, "rate_activation": 0, "rate_window": "1 s", "rate_decay": 0.9999,
    }, links=9)  # fmt: skip
    for link in range(5):
        kept.grafted(link, T, 0)
    kept.decay(1, 100 * S)
    for link, at in ((0, 1), (1, 2), (1, 3), (5, 4)):
        kept.brought(link, 7, T, at * S)
    kept.judged(7, VALID, 6 * S)
    for link, at in ((2, 7), (3, 8), (0, 6), (2, 7)):  # 2 in time, 3 too late, 0 and 2 once more
        kept.brought(link, 7, T, at * S)
    lacks = [9, 9, 9, 10, 10]
    assert [kept.score(link) for link in range(5)] == pytest.approx([-(each**2) for each in lacks])
    assert kept.score(5) == 0  # in no mesh


@given(st.integers(0, 5), st.integers(0, 3))
def test_p4_is_the_square_of_invalid_payloads_whoever_brought_them(invalid, decays):
    kept = scores({"invalid_weight": -3.0, "invalid_decay": 0.5})
    for id_ in range(invalid):
        kept.brought(1, id_, T, 0)
        kept.brought(2, id_, T, 1)
        kept.judged(id_, INVALID, 2)
        kept.brought(3, id_, T, 9)
        bring(kept, 4, 100 + id_, state=IGNORED)
    for _ in range(decays):
        kept.decay(0, S)
    left = invalid * 0.5**decays
    assert [kept.score(link) for link in range(1, 5)] == pytest.approx([-3 * left**2] * 3 + [0])


@pytest.mark.parametrize(("there", "penalty"), [(2, 0), (3, -7), (5, -7 * 9)])
def test_p6_is_the_square_of_neighbours_at_one_address_beyond_what_is_tolerated(there, penalty):
    kept = scores(links=there, address_weight=-7.0, address_threshold=2, address_brokers=10)
    kept.came(30)
    assert (kept.score(0), kept.score(30)) == (penalty, 0)
    kept.went(there - 1, 0)
    assert kept.score(0) == -7 * max(0, there - 1 - 2) ** 2


@given(st.integers(0, 9), st.floats(0, 5))
def test_p7_is_the_square_of_what_is_beyond_the_threshold(times, threshold):
    kept = scores(behaviour_weight=-2.0, behaviour_threshold=threshold, behaviour_decay=0.5)
    kept.misbehaved(1, times)
    assert kept.score(1) == pytest.approx(-2 * max(0, times - threshold) ** 2)
    kept.decay(0, S)
    assert kept.score(1) == pytest.approx(-2 * max(0, times / 2 - threshold) ** 2)


def test_topics_together_are_capped_from_above_and_what_lies_beside_them_is_not():
    topic = {"first_weight": 1.0, "first_cap": 100.0, "invalid_weight": -1.0}
    kept = scores(topic, cap=10.0, app={1: 4.0}, app_weight=0.5, topics={"2": {**topic, "weight": 3.0}})
    for id_ in range(4):
        bring(kept, 1, id_)
        bring(kept, 1, 10 + id_, U)
    assert kept.score(1) == 10 + 2
    for id_ in range(6):
        bring(kept, 1, 20 + id_, state=INVALID)
    assert kept.score(1) == 4 - 36 + 3 * 4 + 2


def test_a_good_score_is_forgotten_with_who_had_it_and_a_bad_one_kept_as_it_was():
    kept = scores({"first_weight": 1.0, "invalid_weight": -1.0}, retain="10 s")
    bring(kept, 1, 1)
    bring(kept, 2, 2, state=INVALID)
    bring(kept, 2, 3)
    for link in (1, 2):
        kept.went(link, 0)
    assert 1 not in kept.neighbours  # 1 - 1 is not above 0: it is kept, without its first deliveries
    for link in (1, 2):
        kept.came(link)
    assert (kept.score(1), kept.score(2)) == (0, -1)
    kept.went(2, 20 * S)
    for second in range(21, 30):
        kept.decay(second * S, S)
    assert kept.score(2) == -1  # it does not decay
    kept.decay(31 * S, S)
    kept.came(2)
    assert kept.score(2) == 0


def test_in_the_long_run_p2_is_what_comes_by_its_factor():
    says = TopicScoring(first_weight=1.0, first_decay=0.9, first_cap=1000.0)
    kept = scores(says.model_dump())
    for second in range(300):
        for copy in range(3):
            bring(kept, 1, 10 * second + copy, at=second * S)
        kept.decay(second * S, S)
    assert kept.score(1) == pytest.approx(3 * 0.9 / (1 - 0.9))
    assert len(kept.arrivals) <= 6  # what is old is forgotten
