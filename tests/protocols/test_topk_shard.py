"""The shard's views of the topk protocols: what the kit does not see of them."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.engine.simulate import simulate
from brokers.wire import encode_body
from protocols.conformance import REHEARSALS, Variant, check_digests, rehearse
from protocols.topk import asking, home_filters
from protocols.topk.asking_bodies import encoded
from protocols.topk.bounds import Bounds
from protocols.topk.kind import TopK

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
VIEWS = [Variant("the shard's view"), Variant("the author's view", view="message"), Variant("3 shards", actors=3)]


def params(**said):
    return TopK.Params(**{"attributes": 4, "k": 3, **said}).model_dump()


def ended(model, **said):
    """The protocol of the only shard when a run is over."""
    seen = []
    simulate(model, observe=lambda shards: seen.append(shards.shards[0].services.protocols[0]), **said)
    return seen[0]


@pytest.mark.parametrize("protocol", ["topk-ingress", "topk-gather", "topk-bounded"])
@pytest.mark.parametrize(
    "said", [{"ties": "all"}, {"unit": "receiver", "k": 2}, {"prorate": True, "threshold": 1.0, "k": 30}],
    ids=lambda s: "-".join(map(str, s)),
)
def test_both_views_agree_on_every_form_of_the_question(protocol, said):
    assert check_digests(rehearse(TIES, protocol, params=params(**said)), VIEWS) == []


@pytest.mark.parametrize("protocol", ["topk-gather", "topk-bounded"])
def test_a_broker_with_very_many_filters_asks_its_index(protocol, monkeypatch):
    model = rehearse(SETTLED, protocol, params=params())
    expected = simulate(model).digest
    for module in (asking, home_filters):
        monkeypatch.setattr(module, "SCANNED_MOST", 1)
    found = ended(model)
    assert simulate(model).digest == expected
    assert found.filters.large.sum() > 2 and found.filters.memory_bytes() > sum(
        index.memory_bytes() for index, _ in found.filters._indexes.values()
    )


def test_a_shard_keeps_each_state_of_a_bound_once_and_brokers_end_up_knowing_the_same():
    found = ended(rehearse(TREE, "topk-bounded", params=params()))
    known, bounds = found.snapshots.known, found.snapshots
    brokers = len(known)
    assert (known == known[0]).all()  # whatever was told has reached everybody
    assert 5 < len(np.unique(known)) <= brokers  # those that never had a filter share the empty one
    assert bounds.last_raise.max() >= 0 and bounds.units.nbytes < brokers * brokers * bounds.units[0].nbytes
    held = np.bincount([snapshot for _, _, snapshot in bounds._held], minlength=bounds.uses.size)
    uses = np.bincount(known.ravel(), minlength=bounds.uses.size) + held
    assert np.array_equal(bounds.uses, uses)
    for broker in range(brokers):
        slots = found.filters.of(broker)
        exact = Bounds(brokers, 4, bounds.cells, (0.0, 1.0))
        exact.reset(broker, list(found.filters.rows(slots)))
        snapshot = known[0, broker]
        assert np.array_equal(exact._units[broker].ravel(), bounds.units[snapshot])
        assert (exact._unit[broker], exact._top[broker]) == (bounds.unit[snapshot], bounds.top[snapshot])


def test_nothing_is_left_of_questions_that_are_answered():
    for protocol in ("topk-gather", "topk-bounded"):
        found = ended(rehearse(TREE, protocol, params=params()))
        assert found.decided.sum() == TREE.publications
        assert not found.roots and not found.order and len(found.cases.case_of) == 0
        assert (found.cases.at == -1).all() and not found.cases.branch.any()
        assert sorted(found.cases.open_free) == list(range(found.cases.open_free.size))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 70_000])
def test_bodies_made_together_are_those_that_are_made_one_by_one(count):
    draw = np.random.default_rng(count)
    ids = draw.integers(0, 1 << 62, count) >> draw.integers(0, 62, count)
    scores, row = draw.random(count), np.array([0.5, np.nan, -0.0, np.inf])
    text = encode_body({"values": row.tolist()})[1:]
    texts = np.frombuffer(text, np.uint8)[None, :]
    made = encoded(
        np.zeros(2, np.int64), np.array([0, 0]), np.array([count, -1]), np.array([0.0, 1.5]), ids, scores, texts,
        np.array([len(text)]),
    )
    assert made[0] == encode_body({"ids": ids.tolist(), "scores": scores.tolist()})
    assert made[1] == encode_body({"values": row.tolist(), "floor": 1.5})


def known_by(filters, broker):
    """The filters that a broker knows, by id, read out of a state as it would be kept."""
    state = filters.state()
    at = state["broker"].tolist().index(broker)
    found = dict(zip(state["settled"]["id"].tolist(), state["settled"]["rows"]))
    for id_, held in zip(state["loose"]["id"].tolist(), state["loose"]["held"][:, at].tolist()):
        if held >= 0:
            found[id_] = state["loose"]["rows"][held]
    return {id_: row[~np.isnan(row)].tolist() for id_, row in found.items()}


@pytest.mark.parametrize("rehearsal", [TREE, LOSSY], ids=["nothing is lost", "messages are lost"])
def test_brokers_know_the_filters_that_they_know_in_the_authors_view(rehearsal):
    model = rehearse(rehearsal, "topk-ingress", params=params())
    found, author = ended(model), ended(rehearse(rehearsal, "topk-ingress", params=params(), view="message"))
    different = set()
    for broker in range(len(found.entries())):
        plain = author.brokers[broker]
        plain.bring_up_to_date()
        rows = plain.index.rows(np.array(sorted(plain.held), np.int64))
        expected = {id_: row[~np.isnan(row)].tolist() for id_, row in zip(sorted(plain.held), rows)}
        assert known_by(found.filters, broker) == expected
        assert found.entries()[broker] == len(expected) > 0
        different.add(str(expected))
    assert (len(different) > 1) == (rehearsal is LOSSY)


def test_a_filter_that_all_know_alike_stands_once_and_leaves_nothing_behind():
    filters = ended(rehearse(TREE, "topk-ingress", params=params())).filters
    assert len(filters.row_of) == 0 and not filters._versions and len(filters._inside) == filters.count[0] > 5
    assert sorted(filters._free_rows) == list(range(filters._id.size))
    assert sorted(filters._free_versions) == list(range(filters.stamp.size))
    assert (filters.held == -1).all() and (filters.stamp == -1).all()
