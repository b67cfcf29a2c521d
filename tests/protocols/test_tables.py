"""`node.table` serves every kind whose index can tell which interests answer a message, each by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from brokers import tables
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import ProtocolFault
from brokers.indexes.content.scan import Scan
from brokers.indexes.context.brute import Brute
from brokers.indexes.registry import INDEXES
from brokers.indexes.spatial.brute import Brute as BruteReverse
from brokers.indexes.topk.scan import Scan as RankedScan
from brokers.registry import load
from protocols.conformance import REHEARSALS, check_digests, rehearse, variants
from protocols.content.kind import Content
from protocols.context.kind import Context
from protocols.spatial.kind import Spatial
from protocols.topk.kind import TopK

TREE = replace(REHEARSALS[0], publications=60)
SETTLED = REHEARSALS[4]
NAN = float("nan")


@pytest.mark.parametrize("protocol", ["boards:Ranks", "boards:Sharers"])
@pytest.mark.parametrize("rehearsal", [TREE, SETTLED], ids=lambda r: r.name)
def test_own_and_shared_tables_give_one_trace_for_kinds_that_ask_other_questions(protocol, rehearsal, outside):
    model = rehearse(rehearsal, protocol)
    assert check_digests(model, variants(model)[::4]) == []


@pytest.fixture
def late(monkeypatch):
    """What was learned after a message had been matched, and joined its answer: how many, by class of the index."""
    found = {}
    extend = tables.InterestStore._extend

    def noted(store, bodies):
        extend(store, bodies)
        found[type(store.index).__name__] = store.late

    monkeypatch.setattr(tables.InterestStore, "_extend", noted)
    return found


@pytest.mark.parametrize(
    ("protocol", "index"), [("boards:Ranks", "Scored"), ("boards:Sharers", "Sharing"), ("pings:Plain", "CellBitset")]
)
def test_shared_tables_extend_the_answers_of_each_of_them(protocol, index, outside, late):
    model = rehearse(TREE, protocol, tables="shared", view="message")
    shared = simulate(model, trace=MemoryTraces("full", tables_of(model)))
    assert late[index] > 0
    own = rehearse(TREE, protocol, tables="own", view="message")
    assert simulate(own).digest == shared.digest
    assert sum(service["deliveries"] for service in shared.metrics["services"].values()) > 50


def test_a_kind_whose_interests_cannot_be_told_one_by_one_says_so():
    kind = Context(Context.Params().model_dump())
    with pytest.raises(ProtocolFault, match=r"node.table cannot serve the kind 'context': Brute does not .*each by"):
        kind.row_index(kind.new_index(Brute))


# ---- the contract: what is matched at once, and what is matched late -------------------------------------------------


def content(draws):
    low = draws.random((12, 2)) * 0.6
    rows = np.full((12, 6), NAN)
    rows[:, 0], rows[:, 1], rows[:, 2] = 0, low[:, 0], low[:, 0] + 0.4
    some = draws.random(12) < 0.6
    rows[some, 3], rows[some, 4], rows[some, 5] = 2, low[some, 1], low[some, 1] + 0.4
    return Content({"attributes": 3}), rows, draws.random((8, 3))


def topk(draws):
    low = draws.random((12, 2)) * 0.6
    rows = np.full((12, 8), NAN)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = 0, low[:, 0], low[:, 0] + 0.3, draws.normal(size=12)
    rows[:, 4], rows[:, 5], rows[:, 6], rows[:, 7] = 2, low[:, 1], low[:, 1] + 0.3, 1.0
    return TopK({"attributes": 3, "threshold": 0.5}), rows, draws.random((8, 3))


def spatial(draws):
    rows, objects = np.full((12, 5), NAN), np.full((8, 6), NAN)
    rows[:, :2], objects[:, :2] = draws.random((12, 2)), draws.random((8, 2))
    objects[:, 2], objects[:, 3] = 2, 10
    rows[:, 2], objects[:, 4] = draws.integers(0, 6, 12), draws.integers(0, 6, 8)
    rows[::2, 3], objects[::2, 5] = 6 + draws.integers(0, 3, 6), 6 + draws.integers(0, 3, 4)
    return Spatial({"keywords": 9}), rows, objects


BRUTE = {content: Scan, topk: RankedScan, spatial: BruteReverse}
CASES = [
    pytest.param(kind, entry.target, id=f"{kind.__name__}-{name}")
    for kind, question in ((content, "content-match"), (topk, "ranked-match"), (spatial, "reverse-topk"))
    for name, entry in INDEXES.items()
    if entry.facts["question"] == question
]


@pytest.mark.parametrize(("of_kind", "target"), CASES)
def test_what_is_matched_late_is_what_would_have_been_matched_at_once(of_kind, target):
    kind, rows, values = of_kind(np.random.default_rng(3))
    make = partial(kind.new_index, load(target))
    index = kind.row_index(make())
    index.insert(np.arange(12), rows)
    start, ids = index.match_many(values)
    at_once = {(i, id_) for i in range(len(values)) for id_ in ids[start[i] : start[i + 1]].tolist()}
    alone = set()
    for id_ in range(12):  # each row by itself
        one = kind.row_index(kind.new_index(BRUTE[of_kind]))
        one.insert([id_], rows[[id_]])
        ptr, _ = one.match_many(values)
        alone |= {(i, id_) for i in np.flatnonzero(np.diff(ptr)).tolist()}
    assert at_once == alone and 0 < len(at_once) < 12 * len(values)
    log = np.array([0, 3, 9, 3, 11], np.int64)  # a slot used again is there twice
    since = np.arange(len(values)) % 6 - 1
    event, id_ = index.late_matches(values, since, log, rows)
    late = {(i, each) for i in range(len(values)) for each in log[max(since[i], 0) :].tolist()} & at_once
    assert set(zip(event.tolist(), id_.tolist())) == late
    index.delete(np.arange(12))
    assert index.match_many(values)[1].size == 0 and len(index) == 0
    index.check()
