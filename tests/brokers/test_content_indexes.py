"""Every registered content index against the definition: many small cases, and random histories."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brokers.errors import InvalidInput
from brokers.indexes.content import compiled
from brokers.indexes.content.compiled import CompiledIndex
from brokers.indexes.content.contract import FailedRange, verify
from brokers.indexes.contract import BadEvent, BadSubscription, DuplicateId, UnknownId
from brokers.indexes.registry import INDEXES
from brokers.registry import load

NAN, INF = math.nan, math.inf
CONTENT = sorted(name for name, entry in INDEXES.items() if entry.facts["question"] == "content-match")
CLASSES = [load(INDEXES[name].target) for name in CONTENT]


EARLY = [f"{name} compiled early" for name, one in zip(CONTENT, CLASSES) if issubclass(one, CompiledIndex)]


@pytest.fixture(params=CONTENT + EARLY)
def index_class(request, monkeypatch):
    """Each index; those that compile also from few changes on, since small tables would only ever wait."""
    name, _, early = request.param.partition(" ")
    if early:
        monkeypatch.setattr(compiled, "CHANGES_MIN", 3)
    return load(INDEXES[name].target)


# ---- many small cases --------------------------------------------------------------------------------


def random_values(rng, shape, kind):
    """On a grid of few integers, where borders and ties are the rule, or floats, with odd ones among them."""
    values = rng.integers(0, 8, shape) / 7 if kind == "grid" else rng.random(shape)
    odd = rng.random(shape)
    values[odd < 0.03] = INF
    values[(odd >= 0.03) & (odd < 0.06)] = -INF
    values[(odd >= 0.06) & (odd < 0.07)] = -0.0
    return values


def random_table(rng, kind):
    """(attributes, rows): up to 40 subscriptions with up to all attributes constrained, points among them."""
    attributes, count = int(rng.integers(1, 7)), int(rng.integers(0, 41))
    chosen = np.argsort(rng.random((count, attributes)), axis=1).astype(float)
    ends = np.sort(random_values(rng, (count, attributes, 2), kind), axis=2)
    ends[..., 1] = np.where(rng.random((count, attributes)) < 0.2, ends[..., 0], ends[..., 1])
    rows = np.concatenate([chosen[..., None], ends], axis=2)
    rows[rng.random((count, attributes)) < rng.random()] = NAN
    return attributes, rows.reshape(count, 3 * attributes)


def assert_same_answers(index, ids, rows, events):
    """By `verify`, event by event, singly and as a batch."""
    ptr, found = index.match_many(events)
    assert ptr.dtype == found.dtype == np.int64 and len(ptr) == len(events) + 1
    for i, event in enumerate(events):
        expected = np.sort(ids[verify(event, rows)])
        assert np.array_equal(found[ptr[i] : ptr[i + 1]], expected)
        if i % 8 == 0:
            assert np.array_equal(index.match(event), expected)


@pytest.mark.parametrize("kind", ["grid", "floats"])
def test_fifteen_thousand_small_questions_are_answered_by_the_definition(index_class, kind):
    rng = np.random.Generator(np.random.PCG64(4))
    for _ in range(125):
        attributes, rows = random_table(rng, kind)
        ids = rng.choice(1 << 40, len(rows), replace=False) << int(rng.integers(0, 23))
        events = random_values(rng, (60, attributes), kind)
        # Half of the events take ends of the table, which floats would hardly meet.
        ends = rows.reshape(-1, 3)[:, 1:].ravel()
        ends = ends[np.isfinite(ends)]
        if ends.size:
            events[::2] = rng.choice(ends, events[::2].shape)
        events[rng.random(events.shape) < 0.05] = NAN
        index = index_class.build(attributes, ids, rows)
        assert_same_answers(index, ids, rows, events)
        index.check()


def test_an_index_that_lived_answers_as_one_that_was_just_built(index_class):
    rng = np.random.Generator(np.random.PCG64(5))
    for _ in range(12):
        _, rows = random_table(rng, "grid")
        rows = np.repeat(rows, 20, axis=0)
        attributes = rows.shape[1] // 3
        ids, events = np.arange(len(rows)) * 3, random_values(rng, (20, attributes), "grid")
        index = index_class(attributes)
        for part in np.array_split(rng.permutation(len(rows)), 7):
            index.insert(ids[part], rows[part])
            index.match(events[0])
        gone = rng.random(len(rows)) < 0.4
        index.delete(ids[gone])
        moved = ~gone & (rng.random(len(rows)) < 0.4)
        rows[moved] = rows[moved][::-1]
        index.update(ids[moved], rows[moved])
        index.check()
        assert len(index) == int((~gone).sum())
        assert_same_answers(index, ids[~gone], rows[~gone], events)
        index.delete(rng.permutation(ids[~gone]))
        index.check()
        assert len(index) == 0 and index.match(events[0]).size == 0


# ---- random histories --------------------------------------------------------------------------------

grid = st.integers(-1, 6).map(float)
ends = st.one_of(grid, grid, st.sampled_from([-INF, INF, 0.5, -0.0, 1e308, -1e308]))
values = st.one_of(grid, grid, st.sampled_from([NAN, INF, -INF, 4.5, 1e308]))


@st.composite
def subscription(draw, attributes):
    """A row with room for all attributes; padding may stand anywhere."""
    row = np.full((attributes, 3), NAN)
    for place, attribute in enumerate(draw(st.permutations(range(attributes)))):
        if draw(st.booleans()):
            row[place] = attribute, *sorted((draw(ends), draw(ends)))
    return row.ravel()


class Histories(RuleBasedStateMachine):
    """Every index goes through the same inserts, deletes, updates and matches, beside a dictionary."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(compiled, "CHANGES_MIN", 5)

    def teardown(self):
        self.patch.undo()

    @initialize(attributes=st.integers(1, 4))
    def build(self, attributes):
        self.attributes = attributes
        self.indexes = [index_class(attributes) for index_class in CLASSES]
        self.model: dict[int, np.ndarray] = {}

    def table(self):
        rows = np.array(list(self.model.values())).reshape(-1, 3 * self.attributes)
        return np.array(list(self.model), np.int64), rows

    @rule(data=st.data(), start=st.integers(0, 60), count=st.integers(1, 25), apart=st.sampled_from([1, 1 << 32]))
    def insert(self, data, start, count, apart):
        drawn = data.draw(st.lists(subscription(self.attributes), min_size=1, max_size=4))
        ids = [i * apart for i in range(start, start + count) if i * apart not in self.model]
        rows = np.array([drawn[i % len(drawn)] for i in range(len(ids))]).reshape(-1, 3 * self.attributes)
        for index in self.indexes:
            index.insert(ids, rows)
        self.model.update(zip(ids, rows))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), every=st.integers(1, 4))
    def delete(self, data, every):
        gone = data.draw(st.permutations(sorted(self.model)))[::every]
        for index in self.indexes:
            index.delete(gone)
        for id_ in gone:
            del self.model[id_]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), every=st.integers(1, 5))
    def update(self, data, every):
        ids = sorted(self.model)[::every]
        rows = np.tile(data.draw(subscription(self.attributes)), (len(ids), 1))
        for index in self.indexes:
            index.update(ids, rows)
        self.model.update(zip(ids, rows))

    @rule()
    def refuse(self):
        absent, bad = (1 << 41) + 1, np.tile([0.0, 2.0, 1.0], (1, 1))
        held = next(iter(self.model), None)
        for index in self.indexes:
            with pytest.raises(BadSubscription):
                index.insert([absent], bad)
            with pytest.raises(UnknownId):
                index.delete([absent])
            if held is not None:
                with pytest.raises(DuplicateId):
                    index.insert([absent, held], [[], []])
                with pytest.raises(UnknownId):
                    index.update([held, absent], [[], []])
                with pytest.raises(BadSubscription):
                    index.update([held], bad)

    @rule(data=st.data(), count=st.integers(0, 4))
    def match(self, data, count):
        event = st.lists(values, min_size=self.attributes, max_size=self.attributes)
        events = np.array([data.draw(event) for _ in range(count)]).reshape(-1, self.attributes)
        ids, rows = self.table()
        for index in self.indexes:
            assert_same_answers(index, ids, rows, events)

    @invariant()
    def every_structure_is_sound(self):
        for index in getattr(self, "indexes", []):
            index.check()
            assert len(index) == len(self.model)


class TestHistories(Histories.TestCase):
    settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


# ---- update, rows, explain, refusals -----------------------------------------------------------------


def test_rows_gives_back_what_was_inserted(index_class):
    index = index_class(3)
    index.insert([5, 2], [[2, 0.0, 1.0, 0, -INF, 3.0], [NAN] * 6])
    rows = index.rows([2, 5])
    ranges = [{tuple(r) for r in row.reshape(-1, 3).tolist() if r[0] == r[0]} for row in rows]
    assert ranges == [set(), {(2, 0.0, 1.0), (0, -INF, 3.0)}]
    with pytest.raises(UnknownId, match="4"):
        index.rows([4])


def test_explain_names_the_ranges_that_failed(index_class):
    index = index_class(3)
    index.insert([8], [[0, 0.0, 1.0, 2, 5.0, 6.0]])
    assert index.explain([0.5, NAN, 5.5], 8) == []
    (failed,) = index.explain([0.5, NAN, 7.0], 8)
    assert failed == FailedRange(2, 5.0, 6.0, 7.0)
    missing = {f.attribute: f for f in index.explain([NAN, 0.0, 7.0], 8)}
    assert set(missing) == {0, 2} and "missing" in str(missing[0])
    with pytest.raises(UnknownId, match="9"):
        index.explain([0.5, 0.0, 5.5], 9)
    with pytest.raises(BadEvent):
        index.explain([0.5], 8)


@pytest.mark.parametrize(
    ("ids", "rows", "error"),
    [
        ([1, 77], [[0, 0.0, 0.1], [0, 0.0, 0.1]], UnknownId),
        ([1, 1], [[0, 0.0, 0.1], [0, 0.0, 0.1]], DuplicateId),
        ([1, 2], [[0, 0.0, 0.1], [0, 0.2, 0.1]], BadSubscription),
        ([1, 2], [[0, 0.0, 0.1], [5, 0.0, 0.1]], BadSubscription),
        ([1, 2], [[0, 0.0, 0.1], [0, NAN, 0.1]], BadSubscription),
        ([1, 2], [[0, 0.0, 0.1]], BadSubscription),
        ([-1], [[0, 0.0, 0.1]], InvalidInput),
    ],
)
def test_a_bad_update_changes_nothing(index_class, ids, rows, error):
    index = index_class(2)
    index.insert([1, 2], [[0, 0.0, 1.0], [1, 0.0, 1.0]])
    with pytest.raises(error):
        index.update(ids, rows)
    index.check()
    assert index.match([0.5, 0.5]).tolist() == [1, 2]


def test_after_all_are_gone_the_index_takes_new_ones(index_class):
    index = index_class(2)
    for turn in range(3):
        rows = np.tile([0, turn, turn + 0.5, 1, 0.0, 9.0], (600, 1))
        index.insert(np.arange(600), rows)
        assert index.match([turn + 0.25, 3.0]).tolist() == list(range(600))
        assert index.match([turn - 0.25, 3.0]).size == 0
        index.delete(np.arange(600)[::-1])
        assert len(index) == 0 and index.match([turn + 0.25, 3.0]).size == 0
        index.check()
