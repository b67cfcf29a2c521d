"""The spatial protocols: between RT and RT_delta however they are run, and payloads only where they may matter."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from brokers.contract import MESSAGE, Message
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import BrokerlabError, InvalidInput
from brokers.indexes.spatial.part import Part
from brokers.indexes.spatial.summary import Summary
from protocols.conformance import REHEARSALS, Rehearsal, audit_run, check_digests, join, rehearse, variants
from protocols.spatial.judge import judge
from protocols.spatial.kind import EXPIRE, PUBLISH, Spatial
from protocols.spatial.reach import (
    covers,
    extent,
    grown,
    lets_through,
    may_matter,
    packed,
    rounded,
    shrunk,
    together,
    unpacked,
)
from protocols.spatial.shrink_kernels import coarser, outwards, rounded_up, within
from protocols.spatial.shrink_kernels import extent as compiled_extent
from protocols.spatial.summarised import HEAD, ROOM, SUMMARY, WIDER, Summarised

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
PROTOCOLS = ("spatial-flooding", "spatial-keyword", "spatial")
NEAR = {"delay": {"kind": "uniform", "low": 100_000, "high": 900_000}}
CALM = Rehearsal("a tree at leisure", "random-tree", {"nodes": 6}, NEAR, duration_ns=2_000_000_000, publications=400)
LINE = [(0, 1), (1, 2), (2, 3)]
QUICK = {"shrink_every": 3_000_000, "boxes": 2}  # so that summaries shrink while a rehearsal lasts


def params(**said):
    return Spatial.Params(**{"keywords": 4, "k_max": 3, **said}).model_dump()


def options(protocol):
    return QUICK if protocol == "spatial" else {}


# ---- however it is run -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", [pytest.param(TREE, marks=pytest.mark.full), CYCLES], ids=lambda r: r.name)
def test_every_way_of_running_gives_one_trace_and_a_right_one(protocol, rehearsal):
    model = rehearse(rehearsal, protocol, params=params(), options=options(protocol))
    assert check_digests(model, variants(model)[::6]) == []
    found = audit_run(model)
    assert found.broken == [] and found.forced > 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", [TIES, STRAINED, LOSSY, SETTLED, RING], ids=lambda r: r.name)
@pytest.mark.parametrize(
    "said",
    [{"last": 5}, {"lifetime_ms": 9}, pytest.param({"geometry": "sphere", "delta": 1.5}, marks=pytest.mark.full)],
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
    said = ({}, {"last": 3 + seed}, {"lifetime_ms": 4 * seed})[seed % 3]
    model = rehearse(rehearsal, protocol, seed, params=params(k_max=1 + seed % 4, **said), options=options(protocol))
    assert check_digests(model, variants(model)) == []
    assert audit_run(model).broken == []


def test_indexes_that_are_exact_give_the_same_trace():
    models = [
        rehearse(SETTLED, "spatial", params=params(), options=QUICK, index=index)
        for index in ("materialised", "spatial-brute", "part")
    ]
    shard = simulate(models[0]).digest
    for model in models:
        model.services[0].view = "message"  # which asks the index
    assert {simulate(model).digest for model in models} == {shard}


def test_an_index_whose_answer_depends_on_its_layout_is_refused_beyond_delta_1():
    with pytest.raises(InvalidInput, match="Part answers by how it is laid out"):
        Spatial(params(delta=1.2)).new_index(Part)
    assert Spatial(params()).new_index(Part).geometry.name == "plane"


# ---- what is refused ---------------------------------------------------------------------------------

BAD = {
    "a place that is none": ("publish", [np.nan, 0, 1, 0, 1], "object 0#5: .*x is nan"),
    "a place too far out": ("publish", [0, 1e200, 1, 0, 1], "object 0#5: .*y is 1e\\+200"),
    "k below 1": ("publish", [0, 0, 0, 0, 1], r"object 0#5: .*k = 0; .*1\.\.3"),
    "k above k_max": ("publish", [0, 0, 4, 0, 1], "k = 4"),
    "an object without keywords": ("publish", [0, 0, 1, 0, np.nan], "object 0#5: it has no keywords"),
    "a keyword that there is not": ("publish", [0, 0, 1, 0, 4], r"keyword 4 is none of 0\.\.3"),
    "half a keyword": ("publish", [0, 0, 1, 0, 0.5], "keyword 0.5"),
    "a payload of less than nothing": ("publish", [0, 0, 1, -1, 1], "-1 bytes"),
    "a row that is too short": ("publish", [0, 0], "2 numbers are no object"),
    "a subscription nowhere": ("subscribe", [0, np.inf, 1], "subscription 0#5: .*y is inf"),
    "a subscription without keywords": ("subscribe", [0, 0], "subscription 0#5: it has no keywords"),
    "a subscription to what there is not": ("subscribe", [0, 0, -1], "keyword -1"),
    "an unknown object": ("expire", None, "object 0#5 is withdrawn, and was not published"),
    "an unknown subscription": ("unsubscribe", None, "subscription 0#5 is taken back"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bad_input_ends_the_run_with_an_error_that_names_it(protocol):
    for type_, row, message in BAD.values():
        joined = join(protocol, LINE, params=params())
        joined.send(0, type_, row, word=joined.interest(0, 5))
        with pytest.raises(BrokerlabError, match=message):
            joined.result()
    for type_, row, message in (
        ("publish", [0, 0, 1, 0, 1], "object 0#5 is published while it is there"),
        ("subscribe", [0, 0, 1], "among the subscriptions already"),
    ):
        joined = join(protocol, LINE, params=params())
        for _ in range(2):
            joined.send(0, type_, row, word=joined.interest(0, 5))
        with pytest.raises(BrokerlabError, match=message):
            joined.result()


def test_what_is_refused_has_changed_nothing_at_its_broker():
    joined = join("spatial", [(0, 1)], params=params(k_max=1))
    joined.send(1, "subscribe", [0, 0, 1], word=joined.interest(1))
    brokers = brokers_after(joined.model())
    broker = brokers[0]
    bodies = broker.node.env.bodies
    before = broker.describe(), broker.entries(), len(broker.index), len(broker.index.objects)
    for type_, row, _ in BAD.values():
        if row is not None and len(row) > 2 and row[3:4] != [-1]:  # what the engine refuses when it comes in
            body = int(bodies.add_rows(0, Spatial.types[type_], np.array([row], float))[0])
            message = Message(0, 1, MESSAGE, 4, -1, Spatial.types[type_], body, (4 << 32) | 5, -1)
            with pytest.raises(InvalidInput):
                broker.on_message(message)
    assert before == (broker.describe(), broker.entries(), len(broker.index), len(broker.index.objects))


@pytest.mark.parametrize(
    "said",
    [{"delta": 0.9}, {"delta": float("nan")}, {"k_max": 0}, {"keywords": 0}, {"geometry": "torus"}, {"last": 0},
     {"lifetime_ms": 0}, {"lifetime": 5}],
    ids=str,
)  # fmt: skip
def test_a_service_that_cannot_be_is_refused(said):
    with pytest.raises(ValidationError):
        params(**said)


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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_object_counts_until_one_that_is_a_lifetime_younger_is_published_at_its_broker(protocol):
    joined = join(protocol, LINE, params=params(k_max=1, lifetime_ms=3_000))
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
    second = 1_000_000_000
    for number, (client, x, at) in enumerate(
        [
            (0, 1, 2), (0, 2, 4),  # the second is farther
            (1, 2, 6),  # broker 1 lets nothing go at broker 0, however old it is
            (0, 3, 7),  # both of broker 0 go; the one of broker 1 is nearer
            (0, 2, 8),  # and now as near
            (0, 5, 11),  # both of broker 0 go again
            (1, 4, 12),  # and now the one of broker 1
        ]
    ):  # fmt: skip
        joined.send(client, "publish", [x, 0, 1, 0, 1], word=joined.interest(client, 100 + number), at_ns=at * second)
    assert told(joined) == [(3, 0), (3, 1), (3, 3)]
    assert joined.audit().verdict == "valid"


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
    joined.send(0, "publish", [8, 0, 1, 5000, 1], word=joined.interest(0, 101))  # in vain, so it pays to tell
    joined.send(0, "publish", [7, 0, 1, 5000, 1], word=joined.interest(0, 102))
    types = [[h.type for h in joined.over(a, a + 1) if h.type in (PUBLISH, HEAD)] for a in range(3)]
    assert types == [[PUBLISH, PUBLISH, HEAD]] * 3 and told(joined) == [(3, 0)]
    joined.send(0, "expire", word=joined.interest(0, 100))
    joined.send(0, "publish", [6, 0, 1, 5000, 1], word=joined.interest(0, 103))
    assert [h.type for h in joined.over(2, 3)][-1] == PUBLISH and told(joined) == [(3, 0), (3, 4)]
    said = [h for h in joined.over(3, 2) if h.type in (SUMMARY, WIDER)]
    assert [h.type for h in said][:2] == [SUMMARY, WIDER] and said[0].cause < 0 <= said[1].cause


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
    assert right.verdict == "valid" and right.forced > right.free / 2
    assert wrong.missed.count > 0


def test_the_judge_finds_what_is_wrong():
    model = rehearse(SETTLED, "spatial-flooding", params=params())

    def judged(change):
        traces = MemoryTraces("full", tables_of(model))
        simulate(model, trace=traces)
        tables = {name: dict(table) for name, table in traces.tables().items()}
        change(tables)
        return judge(tables, Spatial(model.services[0].params), audit_run(model).guarantees, 0)

    def drop(tables):
        tables["deliveries"] = {name: column[:0] for name, column in tables["deliveries"].items()}

    def forget_the_ends(tables):
        keep = tables["changes"]["operation"] != EXPIRE
        tables["changes"] = {name: np.asarray(column)[keep] for name, column in tables["changes"].items()}

    aging = rehearse(SETTLED, "spatial-flooding", params=params(lifetime_ms=4))
    traces = MemoryTraces("full", tables_of(aging))
    simulate(aging, trace=traces)
    assert judge(traces.tables(), Spatial(params(lifetime_ms=4)), audit_run(aging).guarantees, 0).broken == []
    assert judge(traces.tables(), Spatial(params()), audit_run(aging).guarantees, 0).unwanted.count > 0

    clean = judged(lambda tables: None)
    assert not clean.broken
    assert judged(drop).missed.count == clean.forced
    assert judged(forget_the_ends).unwanted.count > 0


# ---- summaries ---------------------------------------------------------------------------------------


def some_boxes(random, count, reach=40):
    low = random.integers(0, 5, (count, 2))
    boxes = np.hstack([low, low + random.integers(0, 3, (count, 2))]) / 3
    return Summary(boxes, random.integers(0, reach, count) / 7)


def test_what_is_rounded_reaches_as_far_and_a_little_farther():
    random = np.random.Generator(np.random.PCG64(5))
    for scale in (1e-30, 1e-3, 1.0, 1e12):
        exact = some_boxes(random, 50)
        exact = Summary(exact.boxes * scale, exact.squared * scale)
        round_ = rounded(exact)
        assert covers(round_, exact) and (round_.squared <= exact.squared * (1 + 1 / 8)).all()
        assert np.array_equal(round_.boxes, round_.boxes.astype(np.float32))
        assert covers(rounded(exact, 1.5), Summary(exact.boxes, exact.squared * 1.5))
        again = unpacked(packed(round_), 2)
        assert np.array_equal(again.boxes, round_.boxes) and np.array_equal(again.squared, round_.squared)
        assert same(rounded(again), again)


@pytest.mark.parametrize("numbers", [([0, 0, 1, 1], np.inf), ([0, 0, 1, 1e140], 1.0), ([0, 0, 1, 1], 1e200)])
def test_what_reaches_without_end_or_cannot_be_told_is_told_as_anything(numbers):
    box, squared = numbers
    assert rounded(Summary(np.array([box], float), np.array([squared]))) is None
    assert packed(None) is None and unpacked(None, 2) is None


def test_what_grows_covers_what_was_there_and_what_shrinks_lies_within_it():
    random = np.random.Generator(np.random.PCG64(6))
    fewer = cut = 0
    for _ in range(400):
        most = int(random.integers(1, 5))
        told, there = rounded(some_boxes(random, most)), []
        for _ in range(4):
            there.append(rounded(some_boxes(random, int(random.integers(1, 4)))))
            before, told = told, grown(told, there[-1], most)
            assert len(told.squared) <= most
            assert covers(told, before) and covers(told, there[-1])
        # One subscription of each box is left; its neighbours told of it in coarser boxes, or in finer ones.
        points = together(there)
        points = Summary(np.hstack([points.boxes[:, :2]] * 2), points.squared)
        left = Summary(points.boxes[::2], points.squared[::2])
        parts = left if random.random() < 0.5 else grown(rounded(some_boxes(random, 1)), left, 2)
        less = shrunk(told, parts, most)
        assert covers(told, less) and covers(less, left) and len(less.squared) <= most
        fewer += extent(less) < 0.9 * extent(told)
        cut += not covers(told, parts)
    assert fewer > 50 and cut > 50
    assert covers(None, left) and not covers(left, None) and covers(None, None)
    assert grown(told, None, 2) is None and shrunk(None, None, 2) is None
    assert covers(shrunk(None, left, 1), left)


def test_compiled_summaries_shrink_to_the_same_numbers():
    random = np.random.Generator(np.random.PCG64(8))
    fewer = 0
    for _ in range(300):
        most = int(random.integers(1, 6))
        exact, told = some_boxes(random, int(random.integers(1, 30))), rounded(some_boxes(random, most))
        parts = rounded(exact, ROOM)
        assert [rounded_up(squared) for squared in exact.squared] == parts.squared.tolist()
        for upwards, ends in ((False, slice(0, 2)), (True, slice(2, 4))):
            made = [outwards(value, upwards) for value in exact.boxes[:, ends].ravel()]
            assert made == parts.boxes[:, ends].ravel().tolist()
        for before in (told, None):
            pieces = (*parts, np.zeros(len(parts.squared), np.int64)) if before is None else within(*parts, *before)
            less = Summary(*coarser(*pieces, most))
            expected = shrunk(before, parts, most)
            assert same(less, expected) and compiled_extent(*less) == extent(expected)
            fewer += len(less.squared) < len(pieces[1])
    assert fewer > 100


def test_the_same_may_matter_one_by_one_and_together():
    random = np.random.Generator(np.random.PCG64(7))
    for _ in range(50):
        summary, points = some_boxes(random, 3, reach=3), random.random((40, 2)) * 4
        assert lets_through(summary, points).tolist() == [may_matter(summary, point) for point in points]
    assert lets_through(None, points).all() and may_matter(None, points[0])


def same(a, b):
    return np.array_equal(a.boxes, b.boxes) and np.array_equal(a.squared, b.squared)


def brokers_after(model):
    """The brokers of a model, in the author's view, when all is done."""
    for service in model.services:
        service.view = "message"
    found = {}
    simulate(model, observe=lambda shards: found.update(shards.shards[0].services.protocols[0].brokers))
    return found


@pytest.mark.parametrize("rehearsal", [SETTLED, TREE, CALM], ids=lambda r: r.name)
def test_a_neighbour_has_what_was_told_and_it_covers_all_that_is_behind_the_link(rehearsal):
    brokers = brokers_after(rehearse(rehearsal, "spatial", params=params(k_max=1), options=QUICK))
    finite = 0
    for broker in brokers.values():
        for link, told in broker.told.items():
            neighbour = brokers[broker.node.neighbour(link)]
            far = neighbour.far[link ^ 1]
            assert told.keys() == far.keys() == broker.asked[link].keys()
            behind = broker.of_here()
            for word, said in told.items():
                assert same(said.reach, far[word]) if said.reach is not None else far[word] is None
                assert word not in behind or covers(said.reach, behind[word])
                finite += said.reach is not None
    assert finite > 3


def test_without_payloads_nothing_is_told_and_large_ones_are_held_back():
    def hops(payload):
        joined = join("spatial", LINE, params=params(k_max=1))
        joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
        for number in range(6):
            joined.send(0, "publish", [1 + 5 * number, 0, 1, payload, 1], word=joined.interest(0, 100 + number))
        return [[h.type for h in joined.over(a, b)] for a, b in ((3, 2), (0, 1))]

    back, forth = hops(0)
    assert SUMMARY not in back and HEAD not in forth
    back, forth = hops(5000)
    assert SUMMARY in back and forth.count(HEAD) >= 3


@pytest.mark.parametrize(("payload", "least", "most"), [(40, 1, 2), (5000, 20, 20)])
def test_a_broker_that_loses_by_its_summaries_stops_telling_of_them(payload, least, most):
    """A near object comes and goes; all that a summary holds back is one far away."""
    joined = join("spatial", [(0, 1)], params=params(k_max=1))
    joined.send(1, "subscribe", [0, 0, 1], word=joined.interest(1))
    joined.send(0, "publish", [9, 0, 1, payload, 1], word=joined.interest(0, 99))
    for number in range(100, 120):
        joined.send(0, "publish", [1, 0, 1, payload, 1], word=joined.interest(0, number))
        joined.send(0, "expire", word=joined.interest(0, number))
    said = [h.type for h in joined.over(1, 0)]
    assert least <= said.count(SUMMARY) <= most and said.count(WIDER) <= most
    assert joined.audit().verdict == "valid"
