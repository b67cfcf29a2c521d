"""What the tests of the top-k indexes share: the definition written out in plain Python, and small cases."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from brokers.indexes.registry import INDEXES
from brokers.indexes.topk.contract import Query
from brokers.registry import load

NAN, INF = math.nan, math.inf
RANKED = sorted(name for name, entry in INDEXES.items() if entry.facts["question"] == "ranked-match")


def index_class_of(name):
    return load(INDEXES[name].target)


def naive_score(constraints, low, high, weights=None, prorate=False):
    """The definition, word by word. Constraints are (attribute, low, high, weight)."""
    score = 0.0
    for attribute, lower, upper, weight in sorted(constraints):
        at, to = low[attribute], high[attribute]
        if at != at or lower > to or upper < at:
            continue
        counted = weight if weights is None else weights[attribute]
        length = upper - lower
        if prorate and math.isfinite(length) and length > 0 and at != to:
            counted *= (min(upper, to) - max(lower, at)) / length
        score += counted
    return score


def naive_answer(scored, query):
    """(ids, scores, tie at boundary) from (score, id, receiver) of all filters."""
    order = sorted(((-s, i, r) for s, i, r in scored if s > query.threshold and r != query.exclude))
    if query.unit == "receiver":
        seen = set()
        order = [o for o in order if not (o[2] in seen or seen.add(o[2]))]
    k = len(order) if query.k is None else max(0, query.k)
    tie = 0 < k < len(order) and order[k][0] == order[k - 1][0]
    kept = order[:k]
    if tie and query.ties == "all":
        kept = [o for o in order if o[0] <= order[k][0]]
    elif tie and query.ties == "none":
        kept = [o for o in order if o[0] < order[k][0]]
    return [o[1] for o in kept], [-o[0] for o in kept], tie


def as_rows(filters):
    """Lists of (attribute, low, high, weight) as padded rows."""
    width = max((len(constraints) for constraints in filters), default=0)
    rows = np.full((len(filters), 4 * width), NAN)
    for i, constraints in enumerate(filters):
        if constraints:
            rows[i, : 4 * len(constraints)] = np.array(constraints, float).ravel()
    return rows


# On a grid of few integers, borders, ties and zeros are the rule.
grid = st.integers(-1, 9).map(float)
ends = st.one_of(grid, grid, st.sampled_from([-INF, INF, 0.5, -0.0, 1e308, -1e308]))
small_weights = st.integers(-2, 4).map(float)
some_weights = st.one_of(
    small_weights, small_weights, st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1e-320, 1e300, -1e300, -0.0])
)


def filters_of(attributes, weights=some_weights):
    constraint = st.tuples(st.integers(0, attributes - 1), ends, ends, weights).map(
        lambda c: (c[0], min(c[1:3]), max(c[1:3]), c[3])
    )
    return st.lists(constraint, max_size=attributes, unique_by=lambda constraint: constraint[0])


@st.composite
def messages_of(draw, attributes):
    """(low, high, weights or None)."""
    points = draw(st.booleans())
    low, high = [], []
    for _ in range(attributes):
        if draw(st.integers(0, 5)) == 0:
            low.append(NAN)
            high.append(NAN)
            continue
        one = draw(ends)
        other = one if points else draw(ends)
        low.append(min(one, other))
        high.append(max(one, other))
    weights = None
    if draw(st.booleans()):
        weights = draw(st.one_of(
            st.just([0.0] * attributes),
            st.lists(some_weights, min_size=attributes, max_size=attributes),
        ))
    return low, high, weights


queries = st.builds(
    Query,
    k=st.one_of(st.none(), st.integers(-1, 4), st.integers(1, 60)),
    threshold=st.sampled_from([0.0, 0.0, 1.0, 2.5]),
    ties=st.sampled_from(["deterministic", "all", "none"]),
    unit=st.sampled_from(["filter", "receiver"]),
    exclude=st.one_of(st.none(), st.integers(0, 3)),
    prorate=st.booleans(),
)
