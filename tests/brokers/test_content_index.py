"""The content-match contract, held by every index, against a definition written out in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from brokers.errors import InvalidInput
from brokers.indexes.content.cells import CellBitset
from brokers.indexes.content.contract import verify
from brokers.indexes.content.scan import Scan
from brokers.indexes.contract import BadEvent, BadSubscription, DuplicateId, UnknownId
from brokers.indexes.ids import IdMap
from brokers.indexes.registry import INDEXES
from brokers.registry import load
from topology.draws import stream, uniforms

NAN, INF = math.nan, math.inf
CONTENT = sorted(name for name, entry in INDEXES.items() if entry.facts["question"] == "content-match")


@pytest.fixture(params=CONTENT)
def index_class(request):
    return load(INDEXES[request.param].target)


def naive_match(event, ranges):
    """The definition, word by word."""
    return all(event[a] == event[a] and low <= event[a] <= high for a, low, high in ranges)


def as_rows(subscriptions):
    """Lists of (attribute, low, high) as padded rows."""
    width = max((len(ranges) for ranges in subscriptions), default=0)
    rows = np.full((len(subscriptions), 3 * width), NAN)
    for i, ranges in enumerate(subscriptions):
        if ranges:
            rows[i, : 3 * len(ranges)] = np.array(ranges, float).ravel()
    return rows


# On a grid of few integers, borders and ties are the rule.
grid = st.integers(-1, 9).map(float)
ends = st.one_of(grid, grid, st.sampled_from([-INF, INF, 0.5, -0.0]))
values = st.one_of(grid, grid, st.sampled_from([NAN, INF, -INF, 4.5, 1e308, -1e308]))


def subscriptions_of(attributes):
    range_ = st.tuples(st.integers(0, attributes - 1), ends, ends).map(
        lambda triple: (triple[0], min(triple[1:]), max(triple[1:]))
    )
    return st.lists(range_, max_size=attributes, unique_by=lambda triple: triple[0])


def events_of(attributes):
    return st.lists(values, min_size=attributes, max_size=attributes)


@given(st.data(), st.integers(1, 4))
def test_verify_is_the_definition_for_one_event_and_for_one_per_row(data, attributes):
    subscriptions = data.draw(st.lists(subscriptions_of(attributes), max_size=8))
    events = data.draw(st.lists(events_of(attributes), min_size=len(subscriptions) + 1,
                                max_size=len(subscriptions) + 1))
    rows = as_rows(subscriptions)
    assert verify(events[0], rows).tolist() == [naive_match(events[0], ranges) for ranges in subscriptions]
    paired = np.array(events[1:]).reshape(-1, attributes)
    assert verify(paired, rows).tolist() == [naive_match(e, s) for e, s in zip(events[1:], subscriptions)]


class IndexMachine(RuleBasedStateMachine):
    """All indexes and a dictionary go through the same inserts, deletes and matches."""

    held = Bundle("held")

    @initialize(attributes=st.integers(1, 4))
    def build(self, attributes):
        self.attributes = attributes
        self.indexes = [Scan(attributes), CellBitset(attributes)]
        self.model: dict[int, list] = {}
        self.spacing = 1 if attributes % 2 else 1 << 32  # dense ids, and ids of the form client << 32

    @rule(target=held, data=st.data(), count=st.integers(1, 40))
    def insert(self, data, count):
        # Few drawn rows, repeated, so that segments fill up and grow.
        drawn = data.draw(st.lists(subscriptions_of(self.attributes), min_size=1, max_size=6))
        start = data.draw(st.integers(0, 500))
        ids = [i * self.spacing for i in range(start, start + count) if i * self.spacing not in self.model]
        if data.draw(st.booleans()):
            ids.reverse()
        subscriptions = [drawn[i % len(drawn)] for i in range(len(ids))]
        for index in self.indexes:
            index.insert(np.array(ids, np.int64), as_rows(subscriptions))
        self.model.update(zip(ids, subscriptions))
        return ids

    @rule(ids=consumes(held), keep=st.integers(0, 3))
    def delete(self, ids, keep):
        gone = [id_ for id_ in ids[keep:] if id_ in self.model]
        for index in self.indexes:
            index.delete(np.array(gone, np.int64))
        for id_ in gone:
            del self.model[id_]

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
            with pytest.raises(UnknownId):
                index.delete([absent])

    @rule(data=st.data())
    def match(self, data):
        events = data.draw(st.lists(events_of(self.attributes), max_size=5))
        expected = [[i for i in sorted(self.model) if naive_match(event, self.model[i])] for event in events]
        for index in self.indexes:
            ptr, ids = index.match_many(np.array(events, float).reshape(-1, self.attributes))
            assert [ids[ptr[i] : ptr[i + 1]].tolist() for i in range(len(events))] == expected
            if events:
                assert index.match(events[0]).tolist() == expected[0]

    @invariant()
    def every_structure_is_sound(self):
        for index in getattr(self, "indexes", []):
            index.check()
            assert len(index) == len(self.model)


class TestIndexesAgree(IndexMachine.TestCase):
    settings = settings(max_examples=80, stateful_step_count=20, deadline=None)


def uniform_rows(count, attributes, ranges, width, purpose):
    """Subscriptions on distinct attributes, uniform in 0..1."""
    drawn = uniforms(stream(1, 0, purpose), 0, count * (attributes + ranges))
    order = np.argsort(drawn[: count * attributes].reshape(count, attributes), axis=1, kind="stable")
    low = drawn[count * attributes :].reshape(count, ranges) * (1 - width)
    return np.stack([order[:, :ranges], low, low + width], axis=2).reshape(count, 3 * ranges)


@pytest.mark.parametrize(
    ("attributes", "ranges", "width"), [(20, 5, 0.3), (4, 2, 0.1), (3, 3, 0.0), (200, 2, 0.4)]
)
def test_an_index_finds_what_verify_finds_in_thousands_of_rows(index_class, attributes, ranges, width):
    rows = uniform_rows(5_000, attributes, ranges, width, "rows")
    events = uniforms(stream(1, 0, "events"), 0, 40 * attributes).reshape(40, attributes)
    events[::7, 0] = NAN
    events[1::5] = np.where(np.arange(attributes) % 2, events[1::5], 1.5)  # outside of every range
    index = index_class(attributes)
    for start in range(0, 5_000, 1_250):
        index.insert(np.arange(start, start + 1_250), rows[start : start + 1_250])
    index.delete(np.arange(0, 5_000, 3))
    index.insert(np.arange(0, 5_000, 6), rows[::6])
    held = np.setdiff1d(np.arange(5_000), np.setdiff1d(np.arange(0, 5_000, 3), np.arange(0, 5_000, 6)))
    ptr, ids = index.match_many(events)
    for i, event in enumerate(events):
        expected = held[verify(event, rows[held])]
        assert np.array_equal(ids[ptr[i] : ptr[i + 1]], expected)
        assert np.array_equal(index.match(event), expected)
    index.check()


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_skewed_values_of_any_scale_are_matched_exactly(index_class, scale):
    u = uniforms(stream(2, 0, "skew"), 0, 4_000)
    low = scale * u[:2_000] ** 9
    rows = np.stack([np.zeros(2_000), low, low * 1.01], axis=1)
    index = index_class(1)
    index.insert(np.arange(2_000), rows)
    for value in low[::100]:
        assert np.array_equal(index.match([value]), np.flatnonzero(verify([value], rows)))


def test_a_wider_row_widens_the_records_and_keeps_what_was_there(index_class):
    index = index_class(6)
    index.insert([7], [[2, 0.0, 1.0]])
    index.insert([3], [[0, 0, 1, 1, 0, 1, 2, 0, 1, 3, 0, 1, 4, 0, 1, 5, 0, 1]])
    index.insert([5], [[NAN] * 18])
    index.check()
    assert index.match([0.5] * 6).tolist() == [3, 5, 7]
    assert index.match([0.5, 0.5, 0.5, 2.0, 0.5, 0.5]).tolist() == [5, 7]
    assert index.match([NAN] * 6).tolist() == [5]


def test_padding_may_stand_anywhere_in_a_row(index_class):
    index = index_class(2)
    index.insert([1], [[NAN, NAN, NAN, 1, 0.0, 1.0]])
    assert index.match([9.0, 1.0]).tolist() == [1]
    assert index.match([9.0, 1.1]).tolist() == []
    index.check()


def test_an_empty_index_and_an_empty_batch_answer_nothing(index_class):
    index = index_class(3)
    index.insert([], np.empty((0, 6)))
    index.delete([])
    assert index.match([0, 0, 0]).tolist() == []
    ptr, ids = index.match_many(np.empty((0, 3)))
    assert ptr.tolist() == [0] and ids.tolist() == []
    assert len(index) == 0
    index.check()


def test_a_row_without_ranges_matches_every_event(index_class):
    index = index_class(2)
    index.insert([4, 2], np.empty((2, 0)))
    assert index.match([NAN, NAN]).tolist() == [2, 4]


def test_counters_say_what_was_done_and_can_be_reset(index_class):
    index = index_class(2)
    index.insert([0, 1], [[0, 0.0, 0.5], [0, 0.5, 1.0]])
    index.match_many([[0.5, 0.0], [0.7, 0.0]])
    counters = index.counters.as_dict()
    assert counters["events"] == 2 and counters["matched"] == 3
    assert counters["verified"] >= counters["matched"]
    index.counters.reset()
    assert set(index.counters.as_dict().values()) == {0}


def test_memory_grows_with_what_is_held(index_class):
    index = index_class(4)
    empty_bytes = index.memory_bytes()
    index.insert(np.arange(10_000), uniform_rows(10_000, 4, 2, 0.1, "memory"))
    assert index.memory_bytes() >= empty_bytes + 10_000 * (8 + 2 * 2 * 8)


def test_read_only_and_strided_arrays_are_taken_as_they_are(index_class):
    rows = np.frombuffer(np.array([[0, 0.0, 1.0], [1, 0.0, 0.2]]).tobytes()).reshape(2, 3)
    event = np.frombuffer(np.array([[0.1, 0.9, 0.5, 0.9]]).tobytes())[::2]
    index = index_class(2)
    index.insert(np.arange(4)[::2], rows)
    assert index.match(event).tolist() == [0]
    assert index.match_many(event[None, :])[1].tolist() == [0]


BAD_ROWS = [
    ([[NAN, 0.0, 1.0]], "row 0: range 0 .* NaN"),
    ([[0, NAN, 1.0]], "NaN"),
    ([[0, 0.0, NAN]], "NaN"),
    ([[0, 0.6, 0.5]], "low above high"),
    ([[2, 0.0, 1.0]], "attributes are 0..1"),
    ([[-1, 0.0, 1.0]], "attributes are 0..1"),
    ([[0.5, 0.0, 1.0]], "attributes are 0..1"),
    ([[INF, 0.0, 1.0]], "attributes are 0..1"),
    ([[1, 0.0, 1.0, 1, 0.2, 0.3]], "attribute 1 twice"),
    ([[0, 0.0]], "triples"),
    ([0, 0.0, 1.0], "triples"),
    ([[0, 0.0, 1.0], [0, 0.0, 1.0]], "2 rows for 1 ids"),
    ([["a", "b", "c"]], "pass numbers"),
    ([[0, 0.0, 1.0], [0]], "ragged"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS)
def test_a_bad_row_is_refused_and_the_index_stays_as_it_was(index_class, rows, message):
    index = index_class(2)
    index.insert([1], [[0, 0.0, 1.0]])
    with pytest.raises(BadSubscription, match=message):
        index.insert([9], rows)
    assert len(index) == 1
    assert index.match([0.5, 0.5]).tolist() == [1]
    index.check()


def test_one_bad_row_among_good_ones_is_named_and_none_is_entered(index_class):
    index = index_class(2)
    with pytest.raises(BadSubscription, match=r"row 2: range 1 \[1, 3, 2\]"):
        index.insert([0, 1, 2], [[0, 0, 1, NAN, NAN, NAN], [1, 0, 1, 0, 0, 1], [0, 0, 1, 1, 3, 2]])
    assert len(index) == 0
    index.check()


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([-1], InvalidInput, "negative"),
        ([0.5], InvalidInput, "integers"),
        ([[1]], InvalidInput, "dimensions"),
        (np.array([2**63], np.uint64), InvalidInput, "above"),
        ([7], DuplicateId, "7 is in the index already"),
    ],
)
def test_a_bad_id_is_refused_and_the_index_stays_as_it_was(index_class, ids, error, message):
    index = index_class(2)
    index.insert([7], [[0, 0.0, 1.0]])
    with pytest.raises(error, match=message):
        index.insert(ids, [[0, 0.0, 1.0]])
    with pytest.raises(DuplicateId, match="3 is named twice"):
        index.insert([3, 3], [[], []])
    with pytest.raises(DuplicateId, match="7 is named twice"):
        index.delete([7, 7])
    assert index.match([1.0, 0.0]).tolist() == [7]
    index.check()


@pytest.mark.parametrize("event", [[0.5], [0.5, 0.5, 0.5], [[0.5, 0.5]], ["a", "b"], 0.5])
def test_an_event_of_another_shape_or_type_is_refused(index_class, event):
    with pytest.raises(BadEvent):
        index_class(2).match(event)


@pytest.mark.parametrize("attributes", [0, -1, 2.0, True, "4", 40_000])
def test_an_impossible_number_of_attributes_is_refused(index_class, attributes):
    with pytest.raises(InvalidInput, match="number of attributes"):
        index_class(attributes)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=200), st.sampled_from([1, 8, 1 << 32]))
@settings(deadline=None)
def test_the_id_map_is_a_dictionary(steps, spacing):
    table, model = IdMap(), {}
    for slot, (add, number) in enumerate(steps):
        id_ = number * spacing
        one = np.array([id_])
        if add and id_ not in model:
            table.add(one, np.array([slot]))
            model[id_] = slot
        elif not add and id_ in model:
            table.remove(one)
            del model[id_]
    table.check()
    everything = np.arange(31) * spacing
    assert table.find(everything).tolist() == [model.get(int(id_), -1) for id_ in everything]
    assert len(table) == len(model)
