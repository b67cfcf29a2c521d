"""Every index under every option, with the numbers at the edges of float64: largest, smallest, infinite, -0.0.

Whatever the definition says of them an index says too, without a warning; and it says it at all: a kernel that goes
round without end has a bound that raises (`tests/test_kernels.py`).
"""

from __future__ import annotations

import inspect
import math
import random
import warnings
from itertools import product

import numpy as np
import pytest

from brokers.indexes.content import compiled
from brokers.indexes.content.contract import verify
from brokers.indexes.context.brute import Brute
from brokers.indexes.context.contract import OPERATORS, Schema
from brokers.indexes.context.policies import ALWAYS, Auto, Fixed
from brokers.indexes.registry import INDEXES
from brokers.indexes.spatial.geometry import PLANE_MAX
from brokers.indexes.topk.contract import WEIGHT_MAX, Query, message
from brokers.registry import load

from .spatial_cases import Oracle, World, split
from .topk_cases import naive_answer, naive_score

MAX, TINY, NORMAL, INF = 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, math.inf
FINITE = [
    MAX, -MAX, np.nextafter(MAX, 0), MAX / 2, -MAX / 2, 1e300, -1e300, 2.0**53 + 2, 1.0, np.nextafter(1, 2), 0.5,
    NORMAL, TINY, -TINY, 0.0, -0.0, -1.0, 1e-300,
]  # fmt: skip
ALL = [*FINITE, INF, -INF]
NARROW = [0.0, -0.0, TINY, -TINY, NORMAL]  # a span of which is next to nothing


def ends_of(seed):
    """What ranges begin and end with: anything, or what lies next to zero."""
    return NARROW if seed % 3 == 2 else ALL


OPTIONS = {
    "scan": [{}],
    "quick_scan": [{}],
    "counting": [{}],
    "cells": [{}],
    "tama": [{}, {"levels": 1}, {"levels": 16}],
    "rein": [{}, {"buckets": 1}, {"buckets": 7}],
    "htree": [
        {}, {"levels": 1, "cells": 2}, {"levels": 2, "cells": 5, "domain": "cdf"}, {"indexed": [0]},
        {"division": "disjoint"}, {"domain": (-MAX / 2, MAX / 2)}, {"domain": (0.0, TINY)}, {"budget_bytes": 4096},
        {"scans": False}, {"follows": False},
    ],
    "topk-scan": [{}],
    "topk-quick": [{}],
    "topk-trees": [{}],
    "topk-fagin": [{}],
    "topk-sliced": [{}],
    "spatial-brute": [{"geometry": g} for g in ("plane", "sphere")],
    "part": [
        {"geometry": g, **more} for g in ("plane", "sphere")
        for more in ({}, {"fan_out": 4, "group_size": 2}, {"check": "delta"})
    ],
    "b-part": [
        {"geometry": g, **more} for g in ("plane", "sphere")
        for more in ({}, {"fan_out": 4, "group_size": 2, "batch_max": 2, "spread": 0.0}, {"check": "delta"})
    ],
    "materialised": [
        {"geometry": g, **more} for g in ("plane", "sphere")
        for more in ({}, {"k_max": 5, "fan_out": 4, "group_size": 2})
    ],
    "context-brute": [{}],
    "context-noindex": [{}],
    "context-eager": [{}, {"seed": 3}],
    "context-partial": [
        {"scope": scope, "seed": s} for s, scope in enumerate(((-1.0, 1.0), (-MAX, MAX), (MAX, MAX), (-INF, INF)))
    ],
    "context-gbu": [{}, {"seed": 3}],
    "context-agile": [
        {"escalation": e, "deescalation": d, "policy": policy, "seed": seed}
        for seed, (e, d, policy) in enumerate(
            product(("piecewise", "range"), ("full", "step"), (ALWAYS, Fixed(2), Auto(3.0)))
        )
    ],
    "context-cells": [{}, {"eager": True}],
    "topic-scan": [{"syntax": s} for s in ("mqtt", "nats")],  # these in test_topic_indexes.py
    "topic-skipping": [{"syntax": s} for s in ("mqtt", "nats")],
    "trie": [{"syntax": s} for s in ("mqtt", "nats")],
}  # fmt: skip
LEFT_OUT = {"self", "attributes", "schema", "indexed", "vocabulary", "verify"}  # what a caller always says, or sees


def cases(question):
    """(name, options) of all indexes that answer a question."""
    return [
        pytest.param(name, options, id=" ".join([name, *(f"{key}={value}" for key, value in options.items())]))
        for name, entry in INDEXES.items()
        if entry.facts["question"] == question
        for options in OPTIONS[name]
    ]


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_every_option_of_every_index_is_tried():
    assert set(OPTIONS) == set(INDEXES)
    for name, tried in OPTIONS.items():
        known = set(inspect.signature(load(INDEXES[name].target).__init__).parameters) - LEFT_OUT
        assert known <= {key for options in tried for key in options}, name


# ---- ranges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), cases("content-match"))
def test_ranges_with_extreme_ends_are_answered_by_the_definition(name, options, monkeypatch):
    monkeypatch.setattr(compiled, "CHANGES_MIN", 3)
    for seed in range(6):
        rng = np.random.Generator(np.random.PCG64(seed))
        count, attributes = int(rng.integers(1, 150)), 3
        ends = np.sort(rng.choice(ends_of(seed), (count, attributes, 2)), axis=2)
        ends[rng.random((count, attributes)) < 0.3, 1] = INF
        chosen = np.tile(np.arange(attributes, dtype=float), (count, 1))
        rows = np.concatenate([chosen[..., None], ends], axis=2)
        rows[rng.random((count, attributes)) < 0.4] = np.nan
        rows = rows.reshape(count, 3 * attributes)
        events = rng.choice([*ALL, np.nan], (60, attributes))
        ids = rng.permutation(count)
        index = load(INDEXES[name].target)(attributes, **options)
        first = count // 2
        index.insert(ids[:first], rows[:first])
        index.match_many(events[:5])
        index.insert(ids[first:], rows[first:])
        gone = np.zeros(count, np.bool_)
        for step in range(3):
            index.check()
            ptr, found = index.match_many(events)
            for i, event in enumerate(events):
                expected = np.sort(ids[verify(event, rows) & ~gone])
                assert np.array_equal(found[ptr[i] : ptr[i + 1]], expected), (seed, step, event)
            leaving = ~gone & (rng.random(count) < 0.3)
            index.delete(ids[leaving])
            gone |= leaving


# ---- weights -----------------------------------------------------------------------------------------

WEIGHTS = [WEIGHT_MAX, -WEIGHT_MAX, TINY, -TINY, NORMAL, 1.0, -1.0, 0.0, -0.0, 1e-300, 1e16, 0.1]


@pytest.mark.parametrize(("name", "options"), cases("ranked-match"))
def test_filters_with_extreme_ends_and_weights_are_ranked_by_the_definition(name, options):
    for seed in range(6):
        rng = np.random.Generator(np.random.PCG64(seed))
        count, attributes = int(rng.integers(1, 80)), 3
        ends = np.sort(rng.choice(ends_of(seed), (count, attributes, 2)), axis=2)
        weight = rng.choice(WEIGHTS, (count, attributes))
        chosen = np.tile(np.arange(attributes, dtype=float), (count, 1))
        rows = np.concatenate([chosen[..., None], ends, weight[..., None]], axis=2)
        rows[rng.random((count, attributes)) < 0.3] = np.nan
        index = load(INDEXES[name].target)(attributes, **options)
        index.insert(np.arange(count), rows.reshape(count, 4 * attributes))
        held = {
            i: [(int(a), low, high, w) for a, low, high, w in row.tolist() if a == a]
            for i, row in enumerate(rows)
        }
        for _ in range(12):
            low, high = np.sort(rng.choice(ALL, (2, attributes)), axis=0)
            if rng.random() < 0.5:
                high = low
            sent = rng.choice(WEIGHTS, attributes) if rng.random() < 0.5 else None
            query = Query(int(rng.integers(1, 9)), prorate=bool(rng.random() < 0.5))
            asked = message(np.stack([low, high], axis=1), sent)
            weights = None if sent is None else sent.tolist()
            scored = [
                (naive_score(held[i], low.tolist(), high.tolist(), weights, query.prorate), i, i) for i in held
            ]
            answer = index.match(asked, query)
            ids, scores, tie = naive_answer(scored, query)
            assert answer.ids.tolist() == ids, (seed, low, high, sent, query)
            assert answer.scores.tolist() == scores
            assert answer.tie_at_boundary == tie
            assert max([0.0, *(s for s, _, _ in scored)]) <= index.bound(asked, query.prorate)
        leaving = np.flatnonzero(rng.random(count) < 0.5)
        index.delete(leaving)
        index.check()


# ---- contexts ----------------------------------------------------------------------------------------

SCHEMA = Schema({"a": "number", "b": "number"}, {"x": "number", "y": "number"})


def extreme_atom(draws):
    """One comparison over two message attributes and two values of three contexts."""
    sides = [["message", draws.choice("ab")], ["context", draws.randrange(3), draws.choice("xy")], draws.choice(FINITE)]
    pair = [sides[i] for i in draws.choice([(0, 1), (0, 1), (0, 2), (1, 2)])]
    operator = draws.choice(OPERATORS)
    more = [abs(draws.choice(FINITE))] if operator == "~" else []
    return [pair[0], operator, pair[1], *more]


@pytest.mark.parametrize(("name", "options"), cases("context-filter"))
def test_profiles_over_extreme_values_are_filtered_by_the_definition(name, options):
    for seed in range(4):
        draws = random.Random(seed)
        oracle = Brute(SCHEMA)
        given = dict(options)
        filter_class = load(INDEXES[name].target)
        if "indexed" in inspect.signature(filter_class.__init__).parameters:
            given["indexed"] = ["a", "b"][: 1 + seed % 2]
        index = filter_class(SCHEMA, **given)
        next_id, held = 0, []
        for step in range(250):
            act = draws.random()
            if act < 0.25:
                profiles = [
                    [[extreme_atom(draws) for _ in range(draws.randrange(4))]]
                    for _ in range(draws.randrange(1, 4))
                ]
                ids = list(range(next_id, next_id + len(profiles)))
                next_id += len(profiles)
                held += ids
                for each in (oracle, index):
                    each.insert(ids, profiles)
            elif act < 0.3 and held:
                gone = [held.pop(draws.randrange(len(held)))]
                for each in (oracle, index):
                    each.delete(gone)
            elif act < 0.65:
                value = None if draws.random() < 0.05 else draws.choice(FINITE)
                context, attribute = draws.randrange(3), draws.choice("xy")
                for each in (oracle, index):
                    each.update_context(context, attribute, value)
            else:
                asked = {attribute: draws.choice(FINITE) for attribute in "ab" if draws.random() < 0.9}
                expected = oracle.handle_message(asked)
                assert np.array_equal(index.handle_message(asked), expected), (seed, step, asked)
        index.check()


# ---- places ------------------------------------------------------------------------------------------

PLACES = [PLANE_MAX, -PLANE_MAX, PLANE_MAX / 2, 1e75, -1e75, 1.0, -1.0, NORMAL, TINY, -TINY, 0.0, -0.0, 1e-200]
LATITUDES = [90.0, -90.0, 89.99999999999999, TINY, -0.0, 0.0, 45.0]
LONGITUDES = [180.0, -180.0, TINY, -0.0, 179.99999999999997]


def extreme_world(seed, geometry):
    """Places at the edges of what a geometry allows, some of them shared; a part leaves again."""
    rng = np.random.Generator(np.random.PCG64(seed))

    def places(count):
        if geometry == "sphere":
            return np.stack([rng.choice(LATITUDES, count), rng.choice(LONGITUDES, count)], axis=1)
        return rng.choice(PLACES, (count, 2))

    def keywords(count):
        return [set(rng.choice(list("abc"), rng.integers(1, 4)).tolist()) for _ in range(count)]

    world, next_id = World(geometry), 0
    for name, held in (("objects", world.objects), ("subscriptions", world.subscriptions)):
        count = int(rng.integers(10, 60))
        ids, rows = list(range(next_id, next_id + count)), (places(count), keywords(count))
        next_id += count
        world.steps.append((f"insert_{name}", (ids, *rows)))
        held.update(zip(ids, zip(rows[0].tolist(), rows[1])))
    gone = [id_ for id_ in world.objects if rng.random() < 0.3]
    world.steps.append(("expire_objects", (gone,)))
    for id_ in gone:
        del world.objects[id_]
    asked = 6
    world.asked = (
        list(range(10**6, 10**6 + asked)), places(asked), keywords(asked), rng.integers(1, 6, asked),
        rng.choice([1.0, 1.5, 1e10, 1e300], asked),
    )  # fmt: skip
    return world


@pytest.mark.parametrize(("name", "options"), cases("reverse-topk"))
def test_places_at_the_edges_of_the_plane_and_the_globe_are_ranked_by_the_definition(name, options):
    for seed in range(25):
        world = extreme_world(seed, options["geometry"])
        index = world.fill(load(INDEXES[name].target)(**options))
        index.check()
        answers = split(index.reverse(index.queries(*world.asked)))
        assert Oracle(world).wrong(answers) is None, seed
