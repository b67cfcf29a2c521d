"""The spatial protocols: between RT and RT_delta however they are run, and payloads only where they may matter."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.engine.run import MemoryTraces, execute, tables_of
from brokers.errors import InvalidInput
from brokers.indexes.spatial.part import Part
from brokers.indexes.spatial.summary import Summary
from protocols.conformance import REHEARSALS, Rehearsal, audit_run, check_digests, join, rehearse, variants
from protocols.spatial.judge import judge
from protocols.spatial.kind import EXPIRE, PUBLISH, Spatial
from protocols.spatial.reach import covers, rounded, united
from protocols.spatial.summarised import HEAD, SUMMARY, Summarised

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
PROTOCOLS = ("spatial-flooding", "spatial-keyword", "spatial")
NEAR = {"delay": {"kind": "uniform", "low_ns": 100_000, "high_ns": 900_000}}
CALM = Rehearsal("a tree at leisure", "random-tree", {"nodes": 6}, NEAR, duration_ns=2_000_000_000, publications=400)
LINE = [(0, 1), (1, 2), (2, 3)]
QUICK = {"shrink_every": 3_000_000, "boxes": 2}  # so that summaries shrink while a rehearsal lasts


def params(**said):
    return Spatial.Params(**{"keywords": 4, "k_max": 3, **said}).model_dump()


def options(protocol):
    return QUICK if protocol == "spatial" else {}


# ---- however it is run -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", [TREE, CYCLES], ids=lambda r: r.name)
def test_every_way_of_running_gives_one_trace_and_a_right_one(protocol, rehearsal):
    model = rehearse(rehearsal, protocol, params=params(), options=options(protocol))
    assert check_digests(model, variants(model)[::6]) == []
    found = audit_run(model)
    assert found.broken == [] and found.forced_yes > 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", [TIES, STRAINED, LOSSY, SETTLED, RING], ids=lambda r: r.name)
@pytest.mark.parametrize(
    "said",
    [{"last": 5}, pytest.param({"geometry": "sphere", "delta": 1.5}, marks=pytest.mark.full)],
    ids=lambda said: "-".join(said),
)
def test_every_form_of_the_service_is_between_its_bounds(protocol, rehearsal, said):
    found = audit_run(rehearse(rehearsal, protocol, params=params(**said), options=options(protocol)))
    assert found.broken == [], str(found)


@pytest.mark.full
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", REHEARSALS, ids=lambda r: r.name)
@pytest.mark.parametrize("seed", range(2, 8))
def test_random_overlays_and_churn(protocol, rehearsal, seed):
    said = {"last": 3 + seed} if seed % 2 else {}
    model = rehearse(rehearsal, protocol, seed, params=params(k_max=1 + seed % 4, **said), options=options(protocol))
    assert check_digests(model, variants(model)) == []
    assert audit_run(model).broken == []


def test_indexes_that_are_exact_give_the_same_trace():
    models = [
        rehearse(SETTLED, "spatial", params=params(), options=QUICK, index=index)
        for index in ("materialised", "spatial-brute", "part")
    ]
    assert len({execute(model).digest for model in models}) == 1


def test_an_index_whose_answer_depends_on_its_layout_is_refused_beyond_delta_1():
    with pytest.raises(InvalidInput, match="Part answers by how it is laid out"):
        Spatial(params(delta=1.2)).new_index(Part)
    assert Spatial(params()).new_index(Part).geometry.name == "plane"


# ---- what is delivered -------------------------------------------------------------------------------


def told(joined):
    return sorted((d.client, d.publication & 0xFFFFFFFF) for d in joined.deliveries())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_object_reaches_whom_it_is_nearest_to_and_again_when_nearer_ones_expire(protocol):
    joined = join(protocol, LINE, params=params(k_max=1))
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
    joined.send(2, "subscribe", [9, 0, 1], word=joined.interest(2))
    joined.send(0, "publish", [4, 0, 1, 0, 1], word=joined.interest(0, 100))
    assert told(joined) == [(2, 0), (3, 0)]
    joined.send(0, "publish", [8, 0, 1, 0, 1], word=joined.interest(0, 101))  # nearer to client 2 alone
    assert told(joined) == [(2, 0), (2, 1), (3, 0)]
    joined.send(0, "publish", [8, 0, 1, 0, 2], word=joined.interest(0, 102))  # of no interest
    joined.send(0, "publish", [6, 0, 1, 0, 1, 2], word=joined.interest(0, 103))  # farther than the others
    joined.send(0, "expire", word=joined.interest(0, 100))
    joined.send(0, "expire", word=joined.interest(0, 103))
    joined.send(0, "expire", word=joined.interest(0, 101))
    joined.send(0, "publish", [6, 0, 1, 0, 1], word=joined.interest(0, 104))
    assert told(joined)[-1] == (3, 7) and (2, 7) in told(joined)
    assert len(told(joined)) == 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_only_the_last_objects_of_a_broker_count(protocol):
    joined = join(protocol, LINE, params=params(k_max=1, last=2))
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
    for number, x in enumerate((1, 5, 6, 4)):  # at 4, the object at 1 is past, and those at 5 and 6 are farther
        joined.send(0, "publish", [x, 0, 1, 0, 1], word=joined.interest(0, 100 + number))
    assert told(joined) == [(3, 0), (3, 3)]


@pytest.mark.parametrize("protocol", ["spatial-keyword", "spatial"])
def test_a_subscription_learns_of_objects_that_were_there_before_it(protocol):
    joined = join(protocol, LINE, params=params(k_max=1))
    joined.send(0, "publish", [1, 0, 1, 0, 1], word=joined.interest(0, 100))
    joined.send(1, "publish", [2, 0, 1, 0, 1], word=joined.interest(1, 100))
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
    joined.send(2, "publish", [3, 0, 1, 0, 1], word=joined.interest(2, 100))
    assert told(joined) == []
    joined.send(3, "unsubscribe", word=joined.interest(3))
    joined.send(0, "expire", word=joined.interest(0, 100))
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3, 1))
    joined.send(2, "publish", [1, 1, 1, 0, 1], word=joined.interest(2, 101))
    assert told(joined) == [(3, 1)]


def test_the_payload_stops_where_it_matters_to_nobody_and_the_head_goes_on():
    joined = join("spatial", LINE, params=params(k_max=1))
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
    joined.send(0, "publish", [1, 0, 1, 5000, 1], word=joined.interest(0, 100))
    joined.send(0, "publish", [7, 0, 1, 5000, 1], word=joined.interest(0, 101), at_ns=20_000_000_000)
    types = [[h.type for h in joined.over(a, a + 1) if h.type in (PUBLISH, HEAD)] for a in range(3)]
    assert types == [[PUBLISH, HEAD]] * 3 and told(joined) == [(3, 0)]
    joined.send(0, "expire", word=joined.interest(0, 100))
    joined.send(0, "publish", [7, 0, 1, 5000, 1], word=joined.interest(0, 102))
    assert [h.type for h in joined.over(2, 3)][-1] == PUBLISH and told(joined) == [(3, 0), (3, 3)]
    assert any(h.type == SUMMARY and h.cause >= 0 for h in joined.over(3, 2))


def test_without_an_interest_in_its_keywords_nothing_of_an_object_travels():
    joined = join("spatial", LINE, params=params())
    joined.send(1, "subscribe", [0, 0, 2], word=joined.interest(1))
    joined.send(0, "publish", [1, 0, 1, 5000, 1], word=joined.interest(0, 100))
    joined.send(0, "publish", [1, 0, 1, 5000, 2], word=joined.interest(0, 101))
    sent = [[h for h in joined.over(a, a + 1) if h.type in (PUBLISH, HEAD)] for a in range(3)]
    assert [len(hops) for hops in sent] == [1, 0, 0]


# ---- what the kit notices ----------------------------------------------------------------------------


class NeverGrows(Summarised):
    """Forgets to tell that k-th distances have grown."""

    def ranks_changed(self, message, ids):
        pass


class NeverWaits(Summarised):
    """Serves subscriptions before all objects are known."""

    def served(self, id):
        return True


def test_serving_before_all_is_known_is_found_out():
    found = [
        audit_run(rehearse(rehearsal, NeverWaits, params=params(k_max=1, keywords=2), options=QUICK))
        for rehearsal in (TREE, TIES, RING)
    ]
    assert sum(each.unwanted.count for each in found) > 0


def test_not_telling_that_distances_grew_is_found_out():
    sharp = {"shrink_every": 20_000_000, "boxes": 64}  # a box for each subscription, so that summaries hold much back
    right, wrong = (
        audit_run(rehearse(CALM, protocol, params=params(k_max=1, keywords=4), options=sharp))
        for protocol in ("spatial", NeverGrows)
    )
    assert right.verdict == "correct" and right.forced_yes > right.free / 2
    assert wrong.missed.count > 0


def test_the_judge_finds_what_is_wrong():
    model = rehearse(SETTLED, "spatial-flooding", params=params())

    def judged(change):
        traces = MemoryTraces("full", tables_of(model))
        execute(model, trace=traces)
        tables = {name: dict(table) for name, table in traces.tables().items()}
        change(tables)
        return judge(tables, Spatial(model.services[0].params), audit_run(model).guarantees, 0)

    def drop(tables):
        tables["deliveries"] = {name: column[:0] for name, column in tables["deliveries"].items()}

    def forget_the_ends(tables):
        keep = tables["changes"]["operation"] != EXPIRE
        tables["changes"] = {name: np.asarray(column)[keep] for name, column in tables["changes"].items()}

    clean = judged(lambda tables: None)
    assert not clean.broken
    assert judged(drop).missed.count == clean.forced_yes
    assert judged(forget_the_ends).unwanted.count > 0


# ---- summaries ---------------------------------------------------------------------------------------


def test_what_is_united_and_rounded_covers_its_parts():
    random = np.random.Generator(np.random.PCG64(5))
    for _ in range(300):
        low = random.integers(0, 5, (6, 2))
        boxes = np.hstack([low, low + random.integers(0, 3, (6, 2))]).astype(float)
        squared = np.where(random.random(6) < 0.2, np.inf, random.integers(0, 40, 6) / 3)
        parts = [Summary(boxes[:3], squared[:3]), Summary(boxes[3:], squared[3:])]
        whole = united(parts, int(random.integers(1, 5)))
        assert all(covers(whole, part) for part in parts)
        assert covers(rounded(whole), whole)
        assert (rounded(whole).squared <= whole.squared * (1 + 1 / 16)).all()
        assert not covers(Summary(whole.boxes, np.full(len(whole.boxes), -1.0)), parts[0])
    assert covers(None, parts[0]) and not covers(parts[0], None) and united([parts[0], None], 2) is None
