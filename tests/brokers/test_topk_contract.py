"""The ranked-match contract itself: what a message and a query may be, and rankings that are merged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.errors import InvalidInput
from brokers.indexes.contract import BadEvent
from brokers.indexes.topk.contract import BadQuery, Query, Ranking, answered, merged, message, ranked

from .topk_cases import INF, NAN, naive_answer, queries

filters = st.lists(
    st.tuples(st.integers(-1, 4).map(float), st.integers(0, 50), st.integers(0, 6)),
    max_size=30, unique_by=lambda scored: scored[1],
)


def as_ranking(scored):
    scores, ids, receivers = zip(*scored) if scored else ((), (), ())
    return Ranking(np.array(ids, np.int64), np.array(scores, float), np.array(receivers, np.int64))


def ranked_part(scored, query):
    return ranked(*as_ranking(scored), query)


def plain(answer):
    return answer.ids.tolist(), answer.scores.tolist(), answer.tie_at_boundary


@given(filters, queries)
def test_an_answer_is_the_definition_s(scored, query):
    assert plain(answered(ranked_part(scored, query), query)) == naive_answer(scored, query)


@given(filters, queries, st.data())
def test_rankings_of_parts_merge_to_the_ranking_of_the_union_in_any_grouping(scored, query, data):
    part_of = data.draw(st.lists(st.integers(0, 3), min_size=len(scored), max_size=len(scored)))
    parts = [ranked_part([s for s, p in zip(scored, part_of) if p == part], query) for part in range(4)]
    whole = naive_answer(scored, query)
    assert plain(answered(merged(parts, query), query)) == whole
    nested = merged([merged(parts[:2], query), merged(parts[2:], query)], query)
    assert plain(answered(nested, query)) == whole


def test_nothing_merges_to_nothing():
    assert plain(answered(merged([], Query(3)), Query(3))) == ([], [], False)


@pytest.mark.parametrize(
    ("parameters", "message_text"),
    [
        ({"k": 1.5}, "k is 1.5"),
        ({"k": True}, "k is True"),
        ({"k": 1, "threshold": -0.1}, "threshold is -0.1"),
        ({"k": 1, "threshold": NAN}, "threshold is nan"),
        ({"k": 1, "threshold": INF}, "threshold is inf"),
        ({"k": 1, "ties": "some"}, "one of deterministic, all, none"),
        ({"k": 1, "unit": "process"}, "one of filter, receiver"),
        ({"k": 1, "exclude": "me"}, "exclude is 'me'"),
        ({"k": 1, "prorate": 1}, "prorate is 1"),
    ],
)
def test_an_impossible_query_is_refused(parameters, message_text):
    with pytest.raises(BadQuery, match=message_text):
        Query(**parameters)


@pytest.mark.parametrize(
    ("values", "weights", "text"),
    [
        ([[0.0, 1.0], [2.0, 1.0]], None, "attribute 1 has low above high"),
        ([[0.0, NAN]], None, "attribute 0 has one end"),
        ([[0.0, 1.0, 2.0]], None, "shape"),
        (0.5, None, "shape"),
        (["a"], None, "numbers"),
        ([[1], [1, 2]], None, "ragged"),
        ([1.0, 2.0], [1.0], "1 weights for 2 attributes"),
        ([1.0, 2.0], [1.0, NAN], "the weight of attribute 1 is nan"),
        ([1.0, 2.0], [INF, 1.0], "the weight of attribute 0 is inf"),
    ],
)
def test_what_is_no_message_is_refused(values, weights, text):
    with pytest.raises(BadEvent, match=text):
        message(values, weights)


def test_a_weight_without_a_value_may_be_anything_and_counts_nothing():
    asked = message([1.0, NAN], [2.0, NAN])
    assert asked.weights is not None and asked.weights.tolist() == [2.0, 0.0]


def test_bad_queries_are_invalid_input():
    assert issubclass(BadQuery, InvalidInput)
