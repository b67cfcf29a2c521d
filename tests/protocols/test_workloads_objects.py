"""Objects and their subscribers: each client's stream is its own, lifetimes end, regions hold."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.contract import NEVER, SourceContext
from brokers.errors import InvalidInput
from protocols.spatial.kind import EXPIRE, PUBLISH, SUBSCRIBE, Spatial
from protocols.spatial.objects import Objects, ObjectSubscribe

SECOND = 1_000_000_000
SERVICE = Spatial.Params(keywords=12, k_max=4).model_dump()


def context(clients, source=0):
    at = np.arange(6, dtype=np.int32) % 3
    return SourceContext(7, 0, source, np.array(clients), 3, 6, 10 * SECOND, False, SERVICE, at)


def said(source):
    """Everything a source says, by type: rows of (client, time, word, values)."""
    found: dict[int, list] = {}
    while source.next_wake() < NEVER:
        for part in source.take():
            rows = part.rows if part.rows is not None else np.empty((part.time.size, 0))
            for one in zip(part.client.tolist(), part.time.tolist(), part.word.tolist(), rows.tolist()):
                found.setdefault(part.type, []).append((*one[:3], str(one[3])))
    return {type_: sorted(rows) for type_, rows in found.items()}


OFFERS = {"rate": 3.0, "words": (1, 3), "region": 0.05, "payload": 99, "lifetime": SECOND}
ASKS = {"number": 2, "words": (1, 3), "region": 0.05, "churn": {"process": "replace", "rate": 1.0}}


@pytest.mark.parametrize(("source", "params"), [(Objects, OFFERS), (ObjectSubscribe, ASKS)])
def test_who_shares_a_shard_and_how_long_a_chunk_is_do_not_matter(source, params):
    whole = said(source(params, context(range(6))))
    parts = [said(source(params, context(mine))) for mine in ([0, 3], [1, 2, 4, 5])]
    assert whole == {type_: sorted(row for part in parts for row in part[type_]) for type_ in whole}
    short = source(params, context(range(6)))
    short.chunk_ns = 30_000_000
    assert said(short) == whole


def test_every_object_is_withdrawn_after_its_lifetime():
    found = said(Objects(OFFERS, context(range(6))))
    born = {word: time for _, time, word, _ in found[PUBLISH]}
    assert len(born) == len(found[PUBLISH]) > 100
    assert {word: time - SECOND for _, time, word, _ in found[EXPIRE]} == born


@pytest.mark.parametrize(
    ("source", "params", "type_", "words"),
    [(Objects, OFFERS, PUBLISH, 4), (ObjectSubscribe, ASKS, SUBSCRIBE, 2)],
)
def test_places_lie_around_the_brokers_and_keywords_are_known(source, params, type_, words):
    one = source(params, context(range(6)))
    rows, clients = [], []
    while one.next_wake() < NEVER:
        for part in one.take():
            if part.type == type_:
                rows.append(part.rows)
                clients.append(part.client)
    values, broker = np.concatenate(rows), np.concatenate(clients) % 3
    for b in range(3):
        mine = values[broker == b]
        assert (np.ptp(mine[:, :2], axis=0) <= 0.1 + 1e-12).all() and ((mine[:, :2] >= 0) & (mine[:, :2] <= 1)).all()
    keywords = values[:, words:]
    assert not np.isnan(keywords[:, 0]).any() and np.nanmax(keywords) < 12 and np.nanmin(keywords) >= 0
    for row in keywords.tolist():
        present = [word for word in row if word == word]
        assert len(set(present)) == len(present)


def test_a_k_beyond_the_service_is_refused():
    with pytest.raises(InvalidInput, match="up to 4"):
        Objects({**OFFERS, "k": 5}, context([0]))
    with pytest.raises(ValueError, match="at least 1"):
        Objects({**OFFERS, "words": 0}, context([0]))


@pytest.mark.parametrize(
    ("source", "params", "type_"), [(Objects, OFFERS, PUBLISH), (ObjectSubscribe, ASKS, SUBSCRIBE)]
)
def test_each_axis_has_a_domain_of_its_own_and_one_domain_stands_for_both(source, params, type_):
    def places(domain):
        one = source({**params, "region": None, "domain": domain}, context(range(6)))
        parts = []
        while one.next_wake() < NEVER:
            parts += [part.rows[:, :2] for part in one.take() if part.type == type_]
        return np.concatenate(parts)

    earth = places([[-90, 90], [-180, 180]])
    assert np.abs(earth[:, 0]).max() <= 90 < np.abs(earth[:, 1]).max() <= 180
    assert np.array_equal(places([0, 1]), places([[0, 1], [0, 1]]))
    unit = places([0, 1])
    assert np.allclose(earth, (unit - 0.5) * [180, 360])


def test_places_that_are_none_on_a_sphere_are_refused_with_what_to_say_instead():
    sphere = {**SERVICE, "geometry": "sphere"}
    for params in (Objects.Params.model_validate({**OFFERS, "domain": [-180, 180]}),
                   ObjectSubscribe.Params.model_validate({**ASKS, "domain": [-180, 180]})):  # fmt: skip
        ((path, words),) = params.misfits(sphere)
        assert path == "domain"
        assert words.startswith("the latitude lies in -90..90, not in -180..180; `domain` takes")
        assert params.misfits(SERVICE) == []
