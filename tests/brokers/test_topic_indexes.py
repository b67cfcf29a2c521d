"""Every registered index of topic filters against the definition: the tables, small worlds, random histories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId
from brokers.indexes.registry import INDEXES
from brokers.indexes.topics.contract import padded
from brokers.indexes.topics.level_kernels import put_in_order
from brokers.indexes.topics.syntax import (
    DOLLAR,
    HASH,
    PLUS,
    SYNTAXES,
    WORD_MAX,
    BadFilter,
    BadName,
    matches,
)
from brokers.indexes.topics.trie import Trie
from brokers.indexes.topics.vocabulary import Vocabulary
from brokers.registry import load
from tests.brokers.topic_cases import VALID

NAN = float("nan")
TOPICS = sorted(name for name, entry in INDEXES.items() if entry.facts["question"] == "topic-match")
CLASSES = [load(INDEXES[name].target) for name in TOPICS]


@pytest.fixture(params=TOPICS)
def index_class(request):
    return load(INDEXES[request.param].target)


@pytest.fixture(params=SYNTAXES)
def syntax(request):
    return request.param


def expected(model, name, syntax):
    """By the definition, from a dictionary of filters."""
    return sorted(id_ for id_, filter in model.items() if matches(filter, name, SYNTAXES[syntax]))


def assert_same_answers(index, model, names):
    """Name by name, in a batch of levels and of floats, and singly."""
    rows = padded(names)
    ptr, found = index.match_many(rows)
    assert ptr.dtype == found.dtype == np.int64 and len(ptr) == len(names) + 1
    for i, name in enumerate(names):
        assert found[ptr[i] : ptr[i + 1]].tolist() == expected(model, name, index.syntax.name)
    floats = np.where(rows == -3, NAN, rows.astype(np.float64))
    again = index.match_many(floats)
    assert np.array_equal(again[0], ptr) and np.array_equal(again[1], found)
    if names:
        assert index.match(rows[0]).tolist() == found[: ptr[1]].tolist()


# ---- the tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "text", "name", "answer"), VALID)
def test_each_case_of_the_tables_alone_and_among_others(index_class, which, text, name, answer):
    words, rules = Vocabulary(which), SYNTAXES[which]
    others = [rules.subscription(filter).filter for syntax, filter, _, _ in VALID if syntax == which]
    alone = index_class.build(which, [7], words.filters([rules.subscription(text).filter]))
    among = index_class.build(which, np.arange(len(others)), words.filters(others))
    assert alone.match_many(words.names([name]))[1].tolist() == [7] * answer
    place = others.index(rules.subscription(text).filter)
    assert (place in among.match_many(words.names([name]))[1]) is answer


# ---- small worlds ------------------------------------------------------------------------------------


def random_levels(rng, words, wildcards, depth):
    """A filter or a name of few words, so that much is shared."""
    levels = rng.integers(0, words, int(rng.integers(1, depth + 1)))
    levels = np.where((levels == words - 1) & (rng.random(levels.size) < 0.5), levels | DOLLAR, levels)
    if wildcards:
        levels[rng.random(levels.size) < rng.random()] = PLUS
        if rng.random() < 0.4:
            levels[-1] = HASH
    return levels.tolist()


def test_small_worlds_are_answered_by_the_definition(index_class, syntax):
    rng = np.random.Generator(np.random.PCG64(3))
    for _ in range(60):
        words, depth, count = int(rng.integers(1, 5)), int(rng.integers(1, 7)), int(rng.integers(0, 60))
        ids = rng.choice(1 << 40, count, replace=False) << int(rng.integers(0, 23))
        model = {id_: random_levels(rng, words, True, depth) for id_ in ids.tolist()}
        index = index_class.build(syntax, ids, padded(list(model.values())))
        assert_same_answers(index, model, [random_levels(rng, words + 1, False, depth + 1) for _ in range(40)])
        index.check()


def test_an_index_that_lived_answers_as_one_that_was_just_built(index_class, syntax):
    rng = np.random.Generator(np.random.PCG64(5))
    for _ in range(8):
        filters = [random_levels(rng, 3, True, 5) for _ in range(400)]
        rows, ids = padded(filters), np.arange(400) * 3
        index = index_class(syntax)
        names = [random_levels(rng, 4, False, 5) for _ in range(20)]
        for part in np.array_split(rng.permutation(400), 7):
            index.insert(ids[part], rows[part])
            index.match(np.array(names[0]))
        gone = rng.random(400) < 0.4
        index.delete(ids[gone])
        moved = ~gone & (rng.random(400) < 0.4)
        rows[moved] = rows[moved][::-1]
        index.update(ids[moved], rows[moved])
        index.check()
        model = {int(id_): [n for n in row if n > -3] for id_, row in zip(ids[~gone], rows[~gone].tolist())}
        assert len(index) == len(model)
        assert_same_answers(index, model, names)
        index.delete(rng.permutation(ids[~gone]))
        index.check()
        assert len(index) == 0 and index.match(np.array(names[0])).size == 0


def test_words_may_be_as_large_as_numbers_are(index_class, syntax):
    rng = np.random.Generator(np.random.PCG64(4))
    edges = [0, 1, DOLLAR - 1, DOLLAR, DOLLAR + 1, WORD_MAX - 1, WORD_MAX]
    for _ in range(20):
        drawn = rng.choice([*edges, PLUS], (60, 3))
        model = dict(zip((rng.permutation(60) + (1 << 62)).tolist(), drawn.tolist()))
        index = index_class.build(syntax, list(model), drawn)
        assert_same_answers(index, model, rng.choice(edges, (40, 3)).tolist())
        index.check()


def test_a_long_life_of_single_changes_leaves_nothing_behind(index_class, syntax):
    rng = np.random.Generator(np.random.PCG64(7))
    index, model, fresh, most = index_class(syntax), {}, 0, 0
    for step in range(3000):
        growing = step // 500 % 2 == 0
        if not model or rng.random() < (0.7 if growing else 0.3):
            id_, fresh = (fresh, fresh + 1) if rng.random() < 0.8 else (fresh + 10_000, fresh + 1)
            model[id_] = random_levels(rng, 4, True, 7)
            index.insert([id_], padded([model[id_]]))
        else:
            id_ = rng.choice(list(model)).item()
            index.delete([id_])
            del model[id_]
        if step % 100 == 99:
            index.check()
            assert_same_answers(index, model, [random_levels(rng, 4, False, 7) for _ in range(5)])
            most = max(most, len(model))
    assert most > 150
    index.delete(list(model))
    index.check()


def test_a_name_that_meets_very_many_nodes_is_answered_as_others_are(index_class, syntax):
    rng = np.random.Generator(np.random.PCG64(10))
    filters = [random_levels(rng, 2, True, 12) for _ in range(2000)]
    filters += [[1 | DOLLAR, *(0 if bits >> level & 1 else PLUS for level in range(9))] for bits in range(1 << 9)]
    model = dict(enumerate(filters))
    index = index_class.build(syntax, list(model), padded(filters))
    names = [[0] * 12, [1 | DOLLAR] + [0] * 9, *(random_levels(rng, 2, False, 12) for _ in range(30)), [7, 7]]
    for _ in range(20):  # an index may change its ways
        assert_same_answers(index, model, names[:3])
    assert_same_answers(index, model, names)
    assert_same_answers(index, model, names[::-1])


def test_the_trie_goes_back_to_its_tree_when_names_meet_few_nodes_again():
    both = [[1 if bits >> level & 1 else PLUS for level in range(10)] for bits in range(1 << 10)]
    index = Trie.build("mqtt", np.arange(len(both)), padded(both))

    def compared(name):
        index.counters.reset()
        index.match(np.array(name))
        return index.counters.verified

    light = [2] * 3
    assert compared(light) < 10
    assert compared([1] * 10) >= len(both) - 1  # one of them has no wildcard
    assert compared(light) == len(both) - 1
    assert min(compared(light) for _ in range(20)) < 10


def test_one_filter_may_have_very_many_ids_in_any_order(index_class, syntax):
    rng = np.random.Generator(np.random.PCG64(6))
    ids = rng.permutation(3000) * 7
    index = index_class.build(syntax, ids, np.tile([1, PLUS], (3000, 1)))
    index.insert([1, 5], [[1, HASH], [1, 2]])
    assert index.match([1, 2]).tolist() == sorted([*ids.tolist(), 1, 5])
    index.delete(ids[:1700])
    index.check()
    index.insert(ids[:900], np.tile([1, PLUS], (900, 1)))
    index.check()
    assert index.match([1, 2]).tolist() == sorted([*ids[:900].tolist(), *ids[1700:].tolist(), 1, 5])


@pytest.mark.parametrize("deep", [64, 300])
def test_filters_may_be_deep(index_class, syntax, deep):
    chain = [[1] * size + [HASH] for size in range(deep)] + [[PLUS] * deep, [1] * deep, [1] * (deep - 1) + [2]]
    model = dict(enumerate(chain))
    index = index_class.build(syntax, list(model), padded(chain))
    index.check()
    assert_same_answers(index, model, [[1] * deep, [1] * (deep // 2), [1] * (deep + 1), [1] * (deep - 1) + [2]])
    index.delete(list(model)[::2])
    index.check()
    assert_same_answers(index, {k: v for k, v in model.items() if k % 2}, [[1] * deep, [1]])


def test_both_branches_everywhere_are_found(index_class, syntax):
    both = [[1 if bits >> level & 1 else PLUS for level in range(9)] for bits in range(1 << 9)]
    index = index_class.build(syntax, np.arange(len(both)), padded(both))
    assert index.match([1] * 9).size == len(both)
    assert index.match([1] * 8 + [2]).size == len(both) // 2
    assert index.match([2] * 9).tolist() == [0]


@pytest.mark.parametrize("shape", ["close", "far", "runs", "few"])
def test_answers_are_put_in_order(shape):
    rng = np.random.Generator(np.random.PCG64(8))
    for size in (0, 1, 2, 23, 24, 25, 100, 1000):
        apart = {"close": 2, "far": 1 << 50, "runs": 1 << 40, "few": 1 << 62}[shape]
        ids = np.unique(rng.integers(0, apart, size) if shape != "close" else rng.permutation(2 * size)[:size])
        mixed = rng.permutation(ids)
        if shape == "runs":
            mixed = np.concatenate([np.sort(part) for part in np.array_split(mixed, 7)])
        ptr = np.array([0, mixed.size], np.int64)
        put_in_order(ptr, mixed)
        assert np.array_equal(mixed, ids)


# ---- what tables ask ---------------------------------------------------------------------------------


def test_late_matches_are_those_of_the_log_that_came_since(index_class, syntax):
    rng = np.random.Generator(np.random.PCG64(9))
    filters = [random_levels(rng, 3, True, 4) for _ in range(50)]
    rows = padded(filters).astype(np.float64)
    rows[rows == -3] = NAN
    log, since = rng.permutation(50)[:30], np.array([-2, 0, 7, 29, 30])
    names = [random_levels(rng, 3, False, 4) for _ in since]
    values = padded(names).astype(np.float64)
    values[values == -3] = NAN
    name, id_ = index_class(syntax).late_matches(values, since, log, rows)
    assert set(zip(name.tolist(), id_.tolist())) == {
        (i, int(one)) for i, start in enumerate(since.tolist()) for one in log[max(start, 0) :]
        if matches(filters[one], names[i], SYNTAXES[syntax])
    }  # fmt: skip


def test_nothing_asked_of_nothing_is_answered_with_nothing(index_class, syntax):
    index = index_class(syntax)
    ptr, ids = index.match_many(np.empty((0, 3)))
    assert ptr.tolist() == [0] and ids.size == 0
    assert index.match([1, 2]).size == 0
    index.insert([], [])
    index.delete([])
    index.check()
    none = np.empty(0, np.int64)
    assert [one.size for one in index.late_matches(np.empty((0, 2)), none, none, np.empty((0, 2)))] == [0, 0]


# ---- random histories --------------------------------------------------------------------------------

word = st.sampled_from([0, 1, 2, 3 | DOLLAR])
level = st.one_of(word, st.just(PLUS))
filters = st.one_of(
    st.lists(level, min_size=1, max_size=4),
    st.lists(level, max_size=4).map(lambda levels: [*levels, HASH]),
)
names = st.lists(word, min_size=1, max_size=5)


class Histories(RuleBasedStateMachine):
    """Every index goes through the same inserts, deletes, updates and matches, beside a dictionary."""

    @initialize(syntax=st.sampled_from(sorted(SYNTAXES)))
    def build(self, syntax):
        self.indexes = [index_class(syntax) for index_class in CLASSES]
        self.model: dict[int, list[int]] = {}

    @rule(drawn=st.lists(filters, min_size=1, max_size=4), start=st.integers(0, 60), count=st.integers(1, 25),
          apart=st.sampled_from([1, 1 << 32]))
    def insert(self, drawn, start, count, apart):
        ids = [i * apart for i in range(start, start + count) if i * apart not in self.model][::-1]
        rows = [drawn[i % len(drawn)] for i in range(len(ids))]
        for index in self.indexes:
            index.insert(ids, padded(rows))
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
    @rule(filter=filters, every=st.integers(1, 5))
    def update(self, filter, every):
        ids = sorted(self.model)[::every]
        for index in self.indexes:
            index.update(ids, padded([filter] * len(ids)))
        self.model.update(dict.fromkeys(ids, filter))

    @rule()
    def refuse(self):
        absent, held = (1 << 41) + 1, next(iter(self.model), None)
        for index in self.indexes:
            with pytest.raises(BadFilter):
                index.insert([absent], [[HASH, 1]])
            with pytest.raises(UnknownId):
                index.delete([absent])
            if held is not None:
                with pytest.raises(DuplicateId):
                    index.insert([absent, held], [[1], [1]])
                with pytest.raises(UnknownId):
                    index.update([held, absent], [[1], [1]])
                with pytest.raises(BadFilter):
                    index.update([held], [[-7]])

    @rule(asked=st.lists(names, max_size=4))
    def match(self, asked):
        for index in self.indexes:
            assert_same_answers(index, self.model, asked)

    @rule()
    def rows(self):
        ids = sorted(self.model)
        for index in self.indexes:
            found = [[n for n in row if n > -3] for row in index.rows(ids).tolist()]
            assert found == [self.model[id_] for id_ in ids]

    @invariant()
    def every_structure_is_sound(self):
        for index in getattr(self, "indexes", []):
            index.check()
            assert len(index) == len(self.model) and index.memory_bytes() > 0


class TestHistories(Histories.TestCase):
    settings = settings(max_examples=80, stateful_step_count=25, deadline=None)


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[1, 2], [HASH, 1]], "row 1 of the filters, level 1: what stands for all that is left comes last"),
        ([[1, 2], [NAN, 1]], "row 1 of the filters, level 1: there is no level"),
        ([[NAN, NAN], [1, 1]], "row 0 of the filters, level 1: there is no level"),
        ([[1, NAN, 2], [1, 1, 1]], "level 3: 2 stands behind padding"),
        ([[1, 2], [1, 1.5]], "row 1 of the filters, level 2: 1.5 is no word"),
        ([[1, 2], [1, -4]], "-4 is no word"),
        ([[1, 2], [1, float(1 << 31)]], "no word"),
        ([[1, 2], [1, float("inf")]], "inf is no word"),
        ([[1, 2]], "1 filters for 2 ids"),
        ([1, 2], "1 dimensions"),
        ([["a"], ["b"]], "pass numbers"),
        ([[1], [1, 2]], "ragged"),
        ([[], []], "no level"),
    ],
)
def test_bad_rows_are_refused_and_nothing_changes(index_class, syntax, rows, said):
    index = index_class(syntax)
    index.insert([1, 2], [[1, 1], [2, 2]])
    for change, ids in ((index.insert, [5, 6]), (index.update, [1, 2])):
        with pytest.raises(BadFilter, match=said):
            change(ids, rows)
    index.check()
    assert index.match([1, 1]).tolist() == [1] and len(index) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ([PLUS, 1], "level 1: a wildcard"),
        ([1, HASH], "level 2: a wildcard"),
        ([0.5], "0.5 is no word"),
        ([NAN], "no level"),
    ],
)
def test_bad_names_are_refused(index_class, syntax, name, said):
    index = index_class(syntax)
    with pytest.raises(BadName, match=said):
        index.match(name)


def test_an_index_of_another_syntax_is_refused(index_class):
    with pytest.raises(InvalidInput, match="mqtt, nats"):
        index_class("amqp")


@pytest.mark.parametrize(
    ("ids", "error"), [([1, 77], UnknownId), ([1, 1], DuplicateId), ([-1, 2], InvalidInput)]
)
def test_a_bad_update_changes_nothing(index_class, syntax, ids, error):
    index = index_class(syntax)
    index.insert([1, 2], [[1], [2]])
    with pytest.raises(error):
        index.update(ids, [[3], [3]])
    with pytest.raises(UnknownId, match="4"):
        index.rows([4])
    index.check()
    assert index.match([1]).tolist() == [1] and index.match([3]).size == 0
