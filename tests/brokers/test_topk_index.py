"""The ranked-match contract, held by every index, against a definition written out in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from brokers.errors import InvalidInput
from brokers.indexes.contract import BadEvent, BadSubscription, DuplicateId, UnknownId
from brokers.indexes.topk import sliced
from brokers.indexes.topk.contract import Query, message
from topology.draws import stream, uniforms

from .topk_cases import (
    INF,
    NAN,
    RANKED,
    as_rows,
    filters_of,
    index_class_of,
    messages_of,
    naive_answer,
    naive_score,
    queries,
    small_weights,
    some_weights,
)


@pytest.fixture(params=RANKED)
def index_class(request):
    return index_class_of(request.param)


def plain(answer):
    return answer.ids.tolist(), answer.scores.tolist(), answer.tie_at_boundary


def asked(low, high, weights=None):
    return message(np.array([low, high]).T.reshape(-1, 2), weights)


class IndexMachine(RuleBasedStateMachine):
    """All indexes and a dictionary go through the same inserts, deletes, changes of weights and matches."""

    held = Bundle("held")

    @initialize(attributes=st.integers(1, 4), odd=st.booleans())
    def build(self, attributes, odd):
        self.attributes = attributes
        self.weights = some_weights if odd else small_weights
        self.indexes = [index_class_of(name)(attributes) for name in RANKED]
        self.model: dict[int, tuple[list, int]] = {}  # id -> constraints, receiver
        self.spacing = 1 if attributes % 2 else 1 << 32  # dense ids, and ids of the form client << 32

    @rule(target=held, data=st.data(), count=st.integers(1, 60), receivers=st.integers(0, 9))
    def insert(self, data, count, receivers):
        # Few drawn filters, repeated: ties are the rule, and structures fill up and grow.
        drawn = data.draw(st.lists(filters_of(self.attributes, self.weights), min_size=1, max_size=6))
        start = data.draw(st.integers(0, 500))
        ids = [i * self.spacing for i in range(start, start + count) if i * self.spacing not in self.model]
        if data.draw(st.booleans()):
            ids.reverse()
        filters = [drawn[i % len(drawn)] for i in range(len(ids))]
        owners = [i % receivers for i in range(len(ids))] if receivers else ids
        given = np.array(owners, np.int64) if receivers else None
        for index in self.indexes:
            index.insert(np.array(ids, np.int64), as_rows(filters), given)
        self.model.update(zip(ids, zip(map(list, filters), owners)))
        return ids

    @rule(ids=consumes(held), keep=st.integers(0, 3))
    def delete(self, ids, keep):
        gone = [id_ for id_ in ids[keep:] if id_ in self.model]
        for index in self.indexes:
            index.delete(np.array(gone, np.int64))
        for id_ in gone:
            del self.model[id_]

    @rule(ids=held, data=st.data())
    def change_weights(self, ids, data):
        changed = [id_ for id_ in ids if id_ in self.model and self.model[id_][0]][:5]
        places = [data.draw(st.integers(0, len(self.model[id_][0]) - 1)) for id_ in changed]
        fresh = data.draw(st.lists(self.weights, min_size=len(changed), max_size=len(changed)))
        attributes = [self.model[id_][0][place][0] for id_, place in zip(changed, places)]
        for index in self.indexes:
            index.set_weights(
                np.array(changed, np.int64), np.array(attributes, np.int64), np.array(fresh, float)
            )
        for id_, place, weight in zip(changed, places, fresh):
            constraints, receiver = self.model[id_]
            replaced = [*constraints]
            replaced[place] = (*constraints[place][:3], weight)
            self.model[id_] = replaced, receiver

    @rule(data=st.data())
    def refuse_what_is_held_or_unknown(self, data):
        absent = (1 << 40) + 1
        for index in self.indexes:
            if self.model:
                some = data.draw(st.sampled_from(sorted(self.model)))
                with pytest.raises(DuplicateId, match=str(some)):
                    index.insert([absent, some], [[], []])
                with pytest.raises(UnknownId, match=str(absent)):
                    index.delete([some, absent])
                missing = {*range(self.attributes)} - {c[0] for c in self.model[some][0]}
                if missing:
                    with pytest.raises(BadSubscription, match=f"id {some} has no constraint"):
                        index.set_weights([some], [min(missing)], [1.0])
            with pytest.raises(UnknownId):
                index.set_weights([absent], [0], [1.0])

    @rule(data=st.data(), query=queries)
    def match(self, data, query):
        low, high, weights = data.draw(messages_of(self.attributes))
        scored = [
            (naive_score(constraints, low, high, weights, query.prorate), id_, receiver)
            for id_, (constraints, receiver) in self.model.items()
        ]
        expected = naive_answer(scored, query)
        for index in self.indexes:
            answer = index.match(asked(low, high, weights), query)
            assert plain(answer) == expected
            assert answer.receivers.tolist() == [self.model[id_][1] for id_ in expected[0]]
            highest = max((score for score, _, _ in scored), default=0.0)
            assert index.bound(asked(low, high, weights), query.prorate) >= max(highest, 0.0)

    @invariant()
    def every_structure_is_sound(self):
        for index in getattr(self, "indexes", []):
            index.check()
            assert len(index) == len(self.model)


class TestIndexesAgree(IndexMachine.TestCase):
    settings = settings(max_examples=80, stateful_step_count=20, deadline=None)


class SmallSegmentsMachine(IndexMachine):
    """The same with segments of the fast index so small that there are several, sorted all the time."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(sliced, "SEGMENT_SLOTS", 64)
        self.patch.setattr(sliced, "SORT_MIN", 4)
        self.patch.setattr(sliced, "SPARSE", 2)

    def teardown(self):
        self.patch.undo()


class TestIndexesAgreeOverSeveralSegments(SmallSegmentsMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def random_filters(count, attributes, constraints, width, weights, purpose="rows"):
    """Filters on distinct attributes, ranges uniform in 0..1, weights by name."""
    drawn = uniforms(stream(1, 0, purpose), 0, count * (attributes + 2 * constraints))
    order, low, weight = np.split(drawn, [count * attributes, count * (attributes + constraints)])
    chosen = np.argsort(order.reshape(count, attributes), axis=1, kind="stable")[:, :constraints]
    low = low.reshape(count, constraints) * (1 - width)
    weight = weight.reshape(count, constraints)
    weight = {
        "uniform": weight, "equal": np.ones_like(weight), "pareto": 1 / (1 - weight),
        "integers": np.floor(4 * weight), "signed": 2 * weight - 1,
    }[weights]
    return np.stack([chosen, low, low + width, weight], axis=2).reshape(count, 4 * constraints)


QUERIES = [
    Query(10), Query(100), Query(1), Query(7, ties="all"), Query(7, ties="none"), Query(5, unit="receiver"),
    Query(None, threshold=1.5), Query(12, threshold=1.0, exclude=3, prorate=True),
    Query(3, unit="receiver", ties="all", exclude=5), Query(100_000),
]


@pytest.mark.parametrize("weights", ["uniform", "equal", "pareto", "integers", "signed"])
@pytest.mark.parametrize(
    ("attributes", "constraints", "width"),
    [
        (20, 5, 0.2),
        (3, 3, 0.0),
        *(pytest.param(*each, marks=pytest.mark.full) for each in ((4, 3, 0.1), (100, 3, 0.4), (20, 10, 0.5))),
    ],
)
@pytest.mark.parametrize("name", [name for name in RANKED if name != "topk-scan"])
def test_an_index_ranks_thousands_of_filters_as_the_scan_does(
    name, attributes, constraints, width, weights
):
    count = 5_000
    rows = random_filters(count, attributes, constraints, width, weights)
    receivers = np.arange(count) % 700
    indexes = index_class_of(name)(attributes), index_class_of("topk-scan")(attributes)
    for index in indexes:
        for start in range(0, count, 1_250):
            part = slice(start, start + 1_250)
            index.insert(np.arange(count)[part], rows[part], receivers[part])
        index.delete(np.arange(0, count, 3))
        index.insert(np.arange(0, count, 6), rows[::6][::-1], receivers[::6])
        index.set_weights([1], [int(rows[1, 0])], [9.0])
    indexes[0].check()
    drawn = uniforms(stream(1, 0, "messages"), 0, 30 * attributes).reshape(10, 3, attributes)
    for number, (low, extent, given) in enumerate(drawn):
        low = np.where(extent > 0.95, NAN, low)
        values = np.stack([low, low + extent / 5], axis=1) if number % 2 else low
        sent = [None, None, given, np.floor(3 * given), np.full(attributes, 1.0)][number % 5]
        asking = message(values, sent)
        for query in QUERIES:
            found, expected = (index.match(asking, query) for index in indexes)
            assert plain(found) == plain(expected)
            assert found.receivers.tolist() == expected.receivers.tolist()
        bounds = [index.bound(asking) for index in indexes]
        assert bounds[0] >= bounds[1]


def test_none_given_and_all_zero_given_are_two_things(index_class):
    index = index_class(2)
    index.insert([1, 2], [[0, 0.0, 1.0, 2.0], [1, 0.0, 1.0, 3.0]])
    assert plain(index.match(message([0.5, 0.5]), Query(5))) == ([2, 1], [3.0, 2.0], False)
    assert plain(index.match(message([0.5, 0.5], [0.0, 0.0]), Query(5))) == ([], [], False)


def test_filters_that_are_equal_score_equally_wherever_their_constraints_stand_in_the_row(index_class):
    index = index_class(3)
    parts = [[0, 0, 1, 0.1], [1, 0, 1, 0.2], [2, 0, 1, 0.3]]
    orders = [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)]
    index.insert(range(4), [[x for p in order for x in parts[p]] for order in orders])
    assert plain(index.match(message([0.5] * 3), Query(2))) == ([0, 1], [0.1 + 0.2 + 0.3] * 2, True)


def test_ends_count_and_a_message_may_be_an_interval(index_class):
    index = index_class(1)
    index.insert([1, 2, 3], [[0, 1, 2, 1.0], [0, 4, 5, 1.0], [0, 3, 3, 1.0]])
    assert index.match(message([[2.0, 3.0]]), Query(9)).ids.tolist() == [1, 3]
    assert index.match(message([[2.5, 4.0]]), Query(9)).ids.tolist() == [2, 3]
    assert index.match(message([[-INF, INF]]), Query(9)).ids.tolist() == [1, 2, 3]


def test_prorating_takes_the_share_of_the_constraint_that_is_covered_and_points_whole(index_class):
    index = index_class(1)
    index.insert([1, 2, 3], [[0, 0.0, 4.0, 8.0], [0, 1.0, 1.0, 3.0], [0, 0.0, INF, 5.0]])
    prorated = Query(9, prorate=True)
    assert plain(index.match(message([[1.0, 2.0]]), prorated)) == ([3, 2, 1], [5.0, 3.0, 2.0], False)
    assert plain(index.match(message([1.0]), prorated)) == ([1, 3, 2], [8.0, 5.0, 3.0], False)
    assert plain(index.match(message([[4.0, 9.0]]), prorated)) == ([3], [5.0], False)


def test_a_filter_without_constraints_never_scores_but_is_held(index_class):
    index = index_class(2)
    index.insert([4, 2], np.empty((2, 0)))
    assert len(index) == 2
    assert index.match(message([0.0, 0.0]), Query(None)).ids.tolist() == []
    index.delete([4])
    index.check()


def test_a_wider_row_makes_room_and_keeps_what_was_there(index_class):
    index = index_class(6)
    index.insert([7], [[2, 0.0, 1.0, 1.0]])
    index.insert([3], [[0, 0, 1, 1, 1, 0, 1, 1, 2, 0, 1, 1, 3, 0, 1, 1, 4, 0, 1, 1, 5, 0, 1, 1]])
    index.insert([5], [[NAN] * 4 + [5, 0.0, 0.6, 2.0]])
    index.check()
    assert plain(index.match(message([0.5] * 6), Query(9))) == ([3, 5, 7], [6.0, 2.0, 1.0], False)


def test_an_empty_index_answers_nothing(index_class):
    index = index_class(3)
    index.insert([], np.empty((0, 8)))
    index.delete([])
    index.set_weights([], [], [])
    for query in QUERIES:
        assert plain(index.match(message([0, 0, 0]), query)) == ([], [], False)
    assert index.bound(message([0, 0, 0])) == 0.0
    assert len(index) == 0
    index.check()


def test_memory_grows_with_what_is_held(index_class):
    index = index_class(4)
    empty_bytes = index.memory_bytes()
    index.insert(np.arange(10_000), random_filters(10_000, 4, 2, 0.1, "uniform"))
    assert index.memory_bytes() >= empty_bytes + 10_000 * (8 + 2 * 3 * 8)


def test_counters_say_what_was_done_and_can_be_reset(index_class):
    index = index_class(2)
    index.insert([0, 1], [[0, 0.0, 0.5, 1.0], [0, 0.5, 1.0, 1.0]])
    index.match(message([0.5, 0.0]), Query(5))
    counters = index.counters.as_dict()
    assert counters["events"] == 1 and counters["matched"] == 2
    index.counters.reset()
    assert set(index.counters.as_dict().values()) == {0}


BAD_ROWS = [
    ([[NAN, 0.0, 1.0, 1.0]], "row 0: constraint 0 .* NaN"),
    ([[0, NAN, 1.0, 1.0]], "NaN"),
    ([[0, 0.0, NAN, 1.0]], "NaN"),
    ([[0, 0.0, 1.0, NAN]], "NaN"),
    ([[0, 0.6, 0.5, 1.0]], "low above high"),
    ([[2, 0.0, 1.0, 1.0]], "attributes are 0..1"),
    ([[-1, 0.0, 1.0, 1.0]], "attributes are 0..1"),
    ([[0.5, 0.0, 1.0, 1.0]], "attributes are 0..1"),
    ([[INF, 0.0, 1.0, 1.0]], "attributes are 0..1"),
    ([[1, 0.0, 1.0, INF]], "weight"),
    ([[1, 0.0, 1.0, 1, 1, 0.2, 0.3, 1]], "second on attribute 1"),
    ([[0, 0.0, 1.0]], "quadruples"),
    ([0, 0.0, 1.0, 1.0], "quadruples"),
    ([[0, 0.0, 1.0, 1.0]] * 2, "2 rows for 1 ids"),
    ([["a", "b", "c", "d"]], "pass numbers"),
    ([[0, 0.0, 1.0, 1.0], [0]], "ragged"),
]


@pytest.mark.parametrize(("rows", "text"), BAD_ROWS)
def test_a_bad_row_is_refused_and_the_index_stays_as_it_was(index_class, rows, text):
    index = index_class(2)
    index.insert([1], [[0, 0.0, 1.0, 1.0]])
    with pytest.raises(BadSubscription, match=text):
        index.insert([9], rows)
    assert plain(index.match(message([0.5, 0.5]), Query(5))) == ([1], [1.0], False)
    assert len(index) == 1
    index.check()


@pytest.mark.parametrize(
    ("ids", "receivers", "error", "text"),
    [
        ([-1], None, InvalidInput, "negative"),
        ([0.5], None, InvalidInput, "integers"),
        ([[1]], None, InvalidInput, "dimensions"),
        ([7], None, DuplicateId, "7 is in the index already"),
        ([8], [1, 2], InvalidInput, "one integer per filter"),
        ([8], [0.5], InvalidInput, "one integer per filter"),
    ],
)
def test_a_bad_id_or_receiver_is_refused_and_the_index_stays_as_it_was(
    index_class, ids, receivers, error, text
):
    index = index_class(2)
    index.insert([7], [[0, 0.0, 1.0, 1.0]])
    with pytest.raises(error, match=text):
        index.insert(ids, [[0, 0.0, 1.0, 1.0]], receivers)
    with pytest.raises(DuplicateId, match="3 is named twice"):
        index.insert([3, 3], [[], []])
    with pytest.raises(DuplicateId, match="7 is named twice"):
        index.delete([7, 7])
    assert index.match(message([1.0, 0.0]), Query(5)).ids.tolist() == [7]
    index.check()


@pytest.mark.parametrize(
    ("ids", "attributes", "weights", "text"),
    [
        ([7, 8], [0, 0], [5.0, 5.0], "id 8 is not in the index"),
        ([7], [1], [5.0], "id 7 has no constraint on attribute 1"),
        ([7], [-1], [5.0], "id 7 has no constraint on attribute -1"),
        ([7], [70_000], [5.0], "no constraint on attribute 70000"),
        ([7], [0], [NAN], "the weight for id 7 is nan"),
        ([7], [0], [INF], "the weight for id 7 is inf"),
        ([7], [0], [1.0, 2.0], "2 weights for 1 ids"),
        ([7], [0.5], [1.0], "one integer per id"),
    ],
)
def test_a_bad_change_of_weights_is_refused_and_the_index_stays_as_it_was(
    index_class, ids, attributes, weights, text
):
    index = index_class(2)
    index.insert([7], [[0, 0.0, 1.0, 1.0]])
    index.insert([9], [[0, 8.0, 9.0, 1.0, 1, 8.0, 9.0, 1.0]])  # so that 7 is padded
    with pytest.raises(InvalidInput, match=text):
        index.set_weights(ids, attributes, weights)
    assert plain(index.match(message([0.5, 0.5]), Query(5))) == ([7], [1.0], False)
    index.check()


def test_a_message_of_another_width_is_refused(index_class):
    index = index_class(2)
    with pytest.raises(BadEvent, match="3 attributes for an index of 2"):
        index.match(message([0.5] * 3), Query(1))
    with pytest.raises(BadEvent, match="3 attributes for an index of 2"):
        index.bound(message([0.5] * 3))
