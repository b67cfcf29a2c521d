"""The topk protocols: exact against the definition, however they are run, and no more messages than they need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.indexes.topk.contract import Query, message
from brokers.indexes.topk.scan import Scan
from protocols.conformance import REHEARSALS, audit, audit_run, check_digests, join, rehearse, variants
from protocols.topk.bounds import Bounds
from protocols.topk.judge import judge
from protocols.topk.kind import REWEIGHT, SUBSCRIBE, TopK
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
PROTOCOLS = ("topk-ingress", "topk-gather", "topk-bounded")
LINE = [(0, 1), (1, 2), (2, 3)]
NAN = float("nan")


def params(**said):
    return TopK.Params(**{"attributes": 4, "k": 3, **said}).model_dump()


# ---- however it is run -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "rehearsal",
    [CYCLES, pytest.param(TREE, marks=pytest.mark.full), pytest.param(STRAINED, marks=pytest.mark.full)],
    ids=lambda r: r.name,
)
def test_every_way_of_running_gives_one_trace_and_a_right_one(protocol, rehearsal):
    model = rehearse(rehearsal, protocol, params=params())
    assert check_digests(model, variants(model)[::6]) == []
    found = audit_run(model)
    assert found.broken == [] and found.forced > 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", [TIES, LOSSY, SETTLED, RING], ids=lambda r: r.name)
@pytest.mark.parametrize(
    "said", [{"ties": "all"}, {"ties": "none"}, {"unit": "receiver", "k": 2}, {"prorate": True, "threshold": 1.0}],
    ids=lambda s: "-".join(map(str, s)),
)
def test_every_form_of_the_question_is_answered_rightly(protocol, rehearsal, said):
    found = audit_run(rehearse(rehearsal, protocol, params=params(**said)))
    assert found.broken == [], str(found)


@pytest.mark.full
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", REHEARSALS, ids=lambda r: r.name)
@pytest.mark.parametrize("seed", range(2, 8))
def test_random_overlays_and_churn(protocol, rehearsal, seed):
    model = rehearse(rehearsal, protocol, seed, params=params(k=1 + seed % 5))
    assert check_digests(model, variants(model)) == []
    assert audit_run(model).broken == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_index_gives_the_same_trace(protocol):
    model = rehearse(TREE, protocol, params=params())
    for index in ("topk-scan", "topk-quick", "topk-trees", "topk-fagin"):
        other = rehearse(TREE, protocol, params=params(), index=index)
        assert simulate(other).digest == simulate(model).digest


# ---- what is delivered -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_best_are_reached_wherever_they_live_and_the_publisher_is_not(protocol):
    joined = join(protocol, LINE, clients=[0, 1, 2, 3, 3], params=params(k=2))
    for client, weight in ((0, 9.0), (1, 1.0), (2, 3.0), (3, 2.0), (4, 2.0)):
        joined.send(client, "subscribe", [0, 0.0, 0.5, weight], word=joined.interest(client))
    joined.send(0, "publish", [0.5, NAN, NAN, NAN])  # an end counts; of the tie at 2.0 the lower id wins
    assert sorted(d.client for d in joined.deliveries()) == [2, 3]
    joined.send(3, "unsubscribe", word=joined.interest(3))
    joined.send(2, "reweight", [0, 0.0, 0.5, 0.5], word=joined.interest(2))
    joined.send(0, "publish", [0.5, NAN, NAN, NAN])
    assert sorted(d.client for d in joined.deliveries()) == [1, 2, 3, 4]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_sender_that_weighs_nothing_reaches_nobody_and_one_that_does_not_weigh_reaches_all(protocol):
    joined = join(protocol, LINE, params=params())
    for client in range(4):
        joined.send(client, "subscribe", [1, 0.0, 1.0, 1.0], word=joined.interest(client))
    nothing = [NAN, 0.5, NAN, NAN, NAN, NAN, NAN, NAN]
    joined.send(0, "publish", [*nothing, NAN, 0.0, NAN, NAN])
    assert joined.deliveries() == []
    joined.send(0, "publish", [*nothing, NAN, NAN, NAN, NAN])
    assert sorted(d.client for d in joined.deliveries()) == [1, 2, 3]


def test_ties_at_the_boundary_are_recorded():
    joined = join("topk-gather", LINE, params=params(k=2))
    for client in range(1, 4):
        joined.send(client, "subscribe", [0, 0.0, 1.0, 1.0], word=joined.interest(client))
    joined.send(0, "publish", [0.5, NAN, NAN, NAN])
    model, traces = joined.model(), None
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    rankings = traces.tables()["rankings"]
    assert rankings["tie"].tolist() == [1, 1] and rankings["score"].tolist() == [1.0, 1.0]
    assert sorted(rankings["rank"].tolist()) == [0, 1]


def test_deliveries_go_over_each_link_once_and_only_where_somebody_is():
    joined = join("topk-ingress", [(0, 1), (1, 2), (0, 3)], clients=[0, 2, 2, 3], params=params(k=2))
    for client, weight in ((1, 5.0), (2, 4.0), (3, 1.0)):
        joined.send(client, "subscribe", [0, 0.0, 1.0, weight], word=joined.interest(client))
    joined.send(0, "publish", [0.5, NAN, NAN, NAN])
    assert [len([h for h in joined.over(a, b) if h.type == 16]) for a, b in ((0, 1), (1, 2), (0, 3))] == [1, 1, 0]


def test_a_branch_that_cannot_reach_the_kth_score_is_not_asked():
    joined = join("topk-bounded", [(0, 1), (0, 2)], clients=[0, 1, 2], params=params(k=1, exclude_publisher=False))
    joined.send(1, "subscribe", [0, 0.0, 1.0, 8.0], word=joined.interest(1))
    joined.send(2, "subscribe", [0, 0.0, 1.0, 1.0], word=joined.interest(2))
    joined.send(0, "publish", [0.5, NAN, NAN, NAN])
    asked = {b: len([h for h in joined.over(0, b) if h.type == 17]) for b in (1, 2)}
    assert asked == {1: 1, 2: 0} and [d.client for d in joined.deliveries()] == [1]
    joined.send(1, "unsubscribe", word=joined.interest(1))
    # By then the bound was lowered: one question, to the other.
    joined.send(0, "publish", [0.5, NAN, NAN, NAN], at_ns=10_000_000_000)
    assert [len([h for h in joined.over(0, b) if h.type == 17]) for b in (1, 2)] == [1, 1]


# ---- bounds ------------------------------------------------------------------------------------------

BOTH = np.arange(2)
value = st.integers(-2, 12).map(lambda i: i / 10)
weight = st.one_of(st.integers(-2, 9).map(float), st.floats(1e-3, 1e6))
ranges = st.lists(st.tuples(st.integers(0, 3), value, value, weight), min_size=1, max_size=4, unique_by=lambda r: r[0])


def row_of(constraints):
    row = [x for a, p, q, w in sorted(constraints) for x in (a, min(p, q), max(p, q), w)]
    return np.array(row + [NAN] * (16 - len(row)))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(ranges, min_size=1, max_size=8),
    st.lists(st.tuples(value, value) | st.none(), min_size=4, max_size=4),
    st.none() | st.lists(st.integers(-1, 5).map(float), min_size=4, max_size=4),
    st.sampled_from([1, 3, 64]),
    st.integers(0, 8),
)
def test_a_bound_is_never_below_a_score_and_two_brokers_agree_on_it(filters, ends, weights, cells, kept):
    low_high = [(NAN, NAN) if pair is None else tuple(sorted(pair)) for pair in ends]
    asked = message(np.array(low_high), weights)
    home, far = Bounds(2, 4, cells, (0.0, 1.0)), Bounds(2, 4, cells, (0.0, 1.0))
    rows = [row_of(f) for f in filters]
    for row in rows:
        if parts := home.raise_by(1, row):
            far.tell(1, parts)
    for held in (rows, rows[:kept]):
        scan = Scan(4)
        if held:
            scan.insert(np.arange(len(held)), np.array(held))
        for prorate in (False, True):
            best = scan.best(asked, Query(1, prorate=prorate)).scores
            assert best.max(initial=0.0) <= home.limits(asked, BOTH)[1]
        assert home.limits(asked, BOTH).tolist() == far.limits(asked, BOTH).tolist()
        assert home.limits(asked, BOTH)[0] == 0.0
        if parts := home.reset(1, rows[:kept]):
            far.tell(1, parts)


def test_a_filter_like_the_others_changes_no_bound():
    bounds = Bounds(1, 4, 64, (0.0, 1.0))
    assert bounds.raise_by(0, row_of([(0, 0.2, 0.4, 1.0)]))
    assert bounds.raise_by(0, row_of([(0, 0.25, 0.4, 0.99)])) == {}


# ---- the judge ---------------------------------------------------------------------------------------


def judged(model, change):
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables = {name: dict(table) for name, table in traces.tables().items()}
    change(tables)
    kind = TopK(model.services[0].params)
    return judge(tables, kind, replace(audit_run(model).guarantees), 0)


def test_the_judge_finds_what_is_wrong():
    model = rehearse(SETTLED, "topk-gather", params=params())

    def drop(tables):
        tables["deliveries"] = {name: column[1:] for name, column in tables["deliveries"].items()}

    def swap_filter(tables):
        tables["rankings"]["interest"] = tables["rankings"]["interest"].copy()
        tables["rankings"]["interest"][0] ^= 1

    def score_otherwise(tables):
        values = np.array(list(tables["changes"]["values"]))
        tables["changes"]["values"] = np.where((np.arange(12) % 4 == 3) & ~np.isnan(values), 0.5, values)

    assert not judged(model, lambda tables: None).broken
    assert judged(model, drop).missed.count == 1
    assert judged(model, swap_filter).broken
    assert judged(model, score_otherwise).broken


@pytest.mark.parametrize("column", ["rank", "score", "tie"])
def test_the_judge_reads_the_rankings_where_nothing_was_free(column):
    model = rehearse(SETTLED, "topk-ingress", params=params())

    def misstate(tables):
        told = tables["rankings"][column]
        tables["rankings"][column] = 1 - told if column == "tie" else told + 1

    found = judged(model, misstate)
    assert found.missed.count > 100 and found.unwanted.count > 100, str(found)


def test_the_kit_asks_the_kind_for_its_judge():
    model = rehearse(TREE, "topk-ingress", params=params())
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    kind = TopK(model.services[0].params)
    assert audit(traces.tables(), kind, audit_run(model).guarantees).forced > 0
    assert kind.changes >= {SUBSCRIBE, REWEIGHT} and kind.row_to_object(0, np.array([0.5, NAN, 1, 0])) == {
        0: [0.5, 0.5], 2: [1.0, 1.0], 3: [0.0, 0.0],
    }


def test_bounds_hold_for_weights_of_any_size():
    asked = message(np.array([0.5, NAN, NAN, NAN]))
    for weights in ((5e-324,), (1e-200, 1e200), (1e-322, 1.0)):
        bounds, scan = Bounds(1, 4, 8, (0.0, 1.0)), Scan(4)
        for i, weight in enumerate(weights):
            row = row_of([(0, 0.4, 0.6, weight)] if i == 0 else [(1, 0.4, 0.6, weight)])
            bounds.raise_by(0, row)
            scan.insert([i], row.reshape(1, -1))
        best = scan.best(asked, Query(1)).scores
        assert 0 < best[0] <= bounds.limits(asked, np.arange(1))[0]


@pytest.mark.parametrize("domain", [(1.0, 0.0), (0.0, 0.0), (-1e308, 1e308)])
def test_a_domain_runs_from_low_to_high(domain):
    with pytest.raises(ValueError, match="runs from low to high"):
        TopK.Params(domain=domain)


@pytest.mark.parametrize("seed", [48, 261, 298])
def test_lost_raises_excuse_what_leans_on_them_only(seed):
    rehearsal = replace(LOSSY, links={**LOSSY.links, "loss": 0.08})
    found = audit_run(rehearse(rehearsal, "topk-bounded", seed, params=params()))
    assert found.broken == [], str(found)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ties_kept_out_by_receiver_are_not_accused(protocol):
    for seed in range(1, 6):
        found = audit_run(rehearse(TREE, protocol, seed, params=params(ties="none", unit="receiver", k=2)))
        assert found.broken == [], str(found)


@pytest.mark.parametrize("protocol", ["topk-gather", "topk-bounded"])
def test_a_limit_that_is_over_before_the_farthest_can_answer_is_refused(protocol):
    text = (
        "duration: 1 s\ntopology: {{kind: line, nodes: 4}}\nlinks: {{delay: 5 ms}}\n"
        "clients: {{all: {{count: 1}}}}\nservices:\n"
        "  - {{name: best, kind: topk, protocol: {protocol}, options: {{give_up: {give_up}}}}}\n"
    )
    said = r"services\[0\].options.give_up: over after 30 ms, where .* take 30 ms at least"
    with pytest.raises(ScenarioErrors, match=said):
        resolve(loads(text.format(protocol=protocol, give_up=30_000_000)))
    resolve(loads(text.format(protocol=protocol, give_up=30_000_001)))
