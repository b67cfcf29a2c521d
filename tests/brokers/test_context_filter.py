"""The context-filter contract, held by every approach against the definition."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta, timezone

import msgpack
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokers.errors import InvalidInput
from brokers.indexes.context import agile, bits, cells, cells_kernels, skiplist_kernels, store_kernels
from brokers.indexes.context import filter as filter_module
from brokers.indexes.context.agile import Agile, Eager, Partial
from brokers.indexes.context.brute import Brute
from brokers.indexes.context.cells import CellFilter
from brokers.indexes.context.contract import (
    BadMessage,
    BadProfile,
    BadValue,
    Schema,
    UnknownAttribute,
    UnknownContext,
    checked_profile,
    references,
)
from brokers.indexes.context.filter import NoIndex
from brokers.indexes.context.policies import ALWAYS, Auto, Counter, Fixed
from brokers.indexes.context.warm import warm
from brokers.indexes.contract import DuplicateId, UnknownId
from brokers.indexes.registry import INDEXES
from brokers.registry import load

from . import context_cases as cases

TALKS = Schema(
    {"type": "string", "time": "date", "price": "number"},
    {"unread": "number", "location": "string", "appointment": "date"},
)
FIGURE_1 = [[
    [["message", "type"], "=", "talk announcement"],
    [["context", 1, "unread"], "<", 100],
    [["context", 1, "location"], "=", "on campus"],
    [["message", "time"], "<", ["context", 1, "appointment"]],
]]  # fmt: skip
EVERY = [Brute, NoIndex, *(lambda schema, c=c: c(schema, ["price", "time"]) for c in (Eager, Agile, CellFilter))]


@pytest.fixture(params=sorted(cases.FILTERS))
def make(request):
    return cases.FILTERS[request.param]


@pytest.fixture(params=range(len(EVERY)), ids=["brute", "noindex", "eager", "agile", "cells"])
def talks(request):
    return EVERY[request.param](TALKS)


# ---- answers -----------------------------------------------------------------------------------------


def walk(filters, seed, steps, check_every):
    """The same operations for the oracle and the filters, which have to agree."""
    draws, oracle, held = random.Random(seed), Brute(cases.SCHEMA), set()
    for step in range(steps):
        kind = draws.random()
        if kind < 0.12:
            ids = [i for i in draws.sample(range(40), 3) if i not in held]
            profiles = [cases.profile(draws) for _ in ids]
            for each in (oracle, *filters):
                each.insert(ids, profiles)
            held.update(ids)
        elif kind < 0.2 and held:
            gone = draws.choice(sorted(held))
            for each in (oracle, *filters):
                each.delete([gone])
            held.discard(gone)
        elif kind < 0.6:
            update = cases.update(draws)
            for each in (oracle, *filters):
                each.update_context(*update)
        else:
            message = cases.message(draws)
            expected = oracle.handle_message(message).tolist()
            for each in filters:
                assert each.handle_message(message).tolist() == expected
        if step % check_every == 0:
            for each in filters:
                each.check()
    for each in filters:
        assert len(each) == len(held)
        each.check()


@pytest.mark.parametrize("seed", range(2))
def test_every_approach_gives_the_oracle_s_answers(make, seed):
    walk([make()], seed, 200, 20)


@pytest.mark.full
def test_60_000_operations_miss_no_message(make):
    for seed in range(120):
        walk([make()], 1_000 + seed, 500, 100)


class FilterMachine(RuleBasedStateMachine):
    """All approaches and the oracle go through the same operations."""

    @initialize()
    def build(self):
        self.oracle = Brute(cases.SCHEMA)
        self.filters = [make() for make in cases.FILTERS.values()]
        self.held = set()

    @rule(id_=st.integers(0, 12), seed=st.integers(0, 10_000))
    def insert_or_delete(self, id_, seed):
        profile = cases.profile(random.Random(seed))
        for each in (self.oracle, *self.filters):
            if id_ in self.held:
                with pytest.raises(DuplicateId, match=str(id_)):
                    each.insert([99, id_], [profile, profile])
                each.delete([id_])
            else:
                with pytest.raises(UnknownId, match=str(id_)):
                    each.delete([id_])
                each.insert([id_], [profile])
        self.held ^= {id_}

    @rule(seed=st.integers(0, 10_000))
    def update(self, seed):
        for each in (self.oracle, *self.filters):
            each.update_context(*cases.update(random.Random(seed)))

    @rule(seed=st.integers(0, 10_000))
    def ask(self, seed):
        message = cases.message(random.Random(seed))
        expected = self.oracle.handle_message(message).tolist()
        for each in self.filters:
            assert each.handle_message(message).tolist() == expected

    @invariant()
    def everything_holds(self):
        if hasattr(self, "filters"):
            for each in self.filters:
                each.check()


TestAllApproachesAndTheOracle = FilterMachine.TestCase
TestAllApproachesAndTheOracle.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)


def test_figure_1_is_answered_as_the_paper_tells_it(talks):
    talks.insert([7], [FIGURE_1])
    talk = {"type": "talk announcement", "time": "2026-11-18T16:00"}
    assert talks.handle_message(talk).tolist() == []  # nothing is known of user 1
    talks.update_context(1, "unread", 50)
    talks.update_context(1, "location", "on campus")
    talks.update_context(1, "appointment", datetime(2026, 11, 18, 17))
    assert talks.handle_message(talk).tolist() == [7]
    talks.update_context(1, "location", "My Office")
    assert talks.handle_message(talk).tolist() == []
    talks.update_context(1, "location", "on campus")
    talks.update_context(1, "unread", 100)
    assert talks.handle_message(talk).tolist() == []
    talks.update_context(1, "unread", 99)
    assert talks.handle_message({**talk, "time": "2026-11-18T17:00"}).tolist() == []
    talks.check()


def test_a_profile_survives_msgpack_and_operands_may_stand_either_way_round():
    there = checked_profile(FIGURE_1, TALKS)
    assert checked_profile(msgpack.unpackb(msgpack.packb(FIGURE_1)), TALKS) == there
    turned = [[["context", 1, "appointment"], ">", ["message", "time"]]]
    assert checked_profile([turned], TALKS) == [there[0][3:]]
    assert references(there) == {(1, "unread"), (1, "location"), (1, "appointment")}


def test_a_conjunct_without_atoms_holds_for_every_message(talks):
    talks.insert([3], [[[]]])
    talks.insert([4], [[[[["message", "price"], "<", 0]], []]])
    assert talks.handle_message({}).tolist() == [3, 4]
    talks.check()


def test_what_is_missing_fails_whatever_the_operator(talks):
    operators = ["<", "<=", "=", "!=", ">=", ">"]
    talks.insert(range(6), [[[[["message", "price"], o, 5]]] for o in operators])
    talks.insert(range(6, 12), [[[[["message", "price"], o, ["context", 1, "unread"]]]] for o in operators])
    talks.insert(range(12, 18), [[[[["context", 2, "unread"], o, 5]]] for o in operators])
    assert talks.handle_message({}).tolist() == []
    assert talks.handle_message({"price": 5}).tolist() == [1, 2, 4]
    talks.update_context(1, "unread", 4)
    assert talks.handle_message({"price": 5}).tolist() == [1, 2, 4, 9, 10, 11]
    talks.update_context(2, "unread", 6)
    assert talks.handle_message({}).tolist() == [15, 16, 17]
    talks.update_context(1, "unread", None)
    assert talks.handle_message({"price": 5}).tolist() == [1, 2, 4, 15, 16, 17]


def test_the_whole_environment_has_to_be_covered_and_not_only_its_centre():
    schema = Schema({"m": "number"}, {"c": "number"})
    for rule_ in ("piecewise", "range"):
        index = Agile(schema, ["m"], rule_)
        index.update_context(1, "c", 10)
        index.insert([1], [[[[["message", "m"], "~", ["context", 1, "c"], 3]]]])
        index.insert([2, 3], [[[[["message", "m"], "~", value, 1]]] for value in (3, 20)])
        for value in (11, 13, 9, 6, 15):
            index.update_context(1, "c", value)
            for edge in (value - 3, value + 3):
                assert 1 in index.handle_message({"m": edge})
            index.check()


def test_conjuncts_are_merged_and_not_profiles():
    # Conjunct 1 hits on a, conjunct 2 on b; as sets of profiles the two would look like a match.
    index = Eager(cases.SCHEMA, ["a", "b"])
    pair = [[[["message", "a"], "=", 1], [["message", "b"], "=", 1]],
            [[["message", "a"], "=", 2], [["message", "b"], "=", 2]]]
    index.insert([5], [pair])
    assert index.handle_message({"a": 1, "b": 2}).tolist() == []
    assert index.counters.verified == 0  # all that counts is indexed, and exact
    assert index.handle_message({"a": 2, "b": 2}).tolist() == [5]


def test_profiles_on_dates_and_zones_agree_on_microseconds(talks):
    talks.insert([1], [[[[["message", "time"], "~", date(2026, 1, 2), 3600]]]])
    east = timezone(timedelta(hours=2))
    assert talks.handle_message({"time": datetime(2026, 1, 2, 3, 0, tzinfo=east)}).tolist() == [1]
    assert talks.handle_message({"time": "2026-01-01T23:00:00Z"}).tolist() == [1]
    assert talks.handle_message({"time": datetime(2026, 1, 1, 22, 59, 59, 999_999, UTC)}).tolist() == []


@pytest.mark.parametrize("approach", [NoIndex, *(lambda s, c=c: c(s, ["a"]) for c in (Eager, Agile, CellFilter))],
                         ids=["noindex", "eager", "agile", "cells"])
def test_values_that_float32_cannot_tell_apart_are_told_apart(approach):
    values = [2.0**24, 2.0**24 + 1, 2.0**24 + 2, -(2.0**24) - 1, 1e300, -1e300, 1e-320, 0.0]
    attributes = ["a", "b", "c"]
    schema = Schema(dict.fromkeys(attributes, "number"), {"x": "number"})
    oracle, index = Brute(schema), approach(schema)
    profiles = [
        [[[["message", name], operator, value]] + ([[["message", "a"], "<=", 2.0**24]] if name == "c" else [])]
        for name in attributes for value in values for operator in ("<", "<=", "=", "!=", ">=", ">")
    ]
    for each in (oracle, index):
        each.insert(range(len(profiles)), profiles)
    for value in values:
        for other in values:
            message = {"a": other, "b": value, "c": value}
            assert index.handle_message(message).tolist() == oracle.handle_message(message).tolist()
    index.check()


def test_the_first_attribute_that_fails_is_blamed_where_rounding_would_blame_another():
    schema = Schema({"a": "number", "b": "number"}, {"x": "number"})
    index = Agile(schema, ["a"], policy=ALWAYS)
    index.insert([1], [[[[["message", "a"], "=", ["context", 1, "x"]], [["message", "b"], "<", 0]]]])
    index.insert([2], [[[[["message", "a"], "~", 2.0**24, 50]]]])  # its ends are nodes to escalate to
    for value in (2.0**24, 2.0**24 + 1):
        index.update_context(1, "x", value)
    assert index.handle_message({"a": 2.0**24, "b": 5}).tolist() == [2]
    assert index.counters.false_positives == index.counters.shrunk == 1
    index.check()


# ---- what approaches do ---------------------------------------------------------------------------------


def numbers(count, seed=1):
    """A numeric schema, profiles of two environments around the values of their contexts, and their values."""
    schema = Schema({"m": "number", "n": "number"}, {"p": "number", "q": "number"})
    draws = np.random.Generator(np.random.PCG64(seed))
    profiles = [
        [[[["message", "m"], "~", ["context", i, "p"], 30], [["message", "n"], "~", ["context", i, "q"], 30]]]
        for i in range(count)
    ]
    return schema, profiles, draws


def test_noindex_tests_every_conjunct_and_eager_only_what_both_probes_return():
    schema, profiles, draws = numbers(200)
    scan, eager = NoIndex(schema), Eager(schema, ["m"])
    values = draws.integers(0, 1000, 400).astype(float)
    for index in (scan, eager):
        index.update_many(np.repeat(np.arange(200), 2), np.tile([0, 1], 200), values)
        index.insert(range(200), profiles)
        index.handle_message({"m": 500, "n": 500})
    assert scan.counters.verified == 200
    assert eager.counters.verified == int((abs(values[::2] - 500) <= 30).sum())


@pytest.mark.parametrize("name", ["agile piecewise full", "agile range full", "cells restless", "gbu", "partial"])
def test_batches_of_any_cut_leave_the_same_state_and_counters(name):
    schema, profiles, draws = numbers(60)
    build = {
        "agile piecewise full": lambda: Agile(schema, ["m", "n"], policy=Fixed(3)),
        "agile range full": lambda: Agile(schema, ["m", "n"], "range", policy=Auto(2)),
        "cells restless": lambda: cases.restless(schema, ["m", "n"]),
        "gbu": lambda: cases.Gbu(schema, ["m", "n"]),
        "partial": lambda: Partial(schema, ["m", "n"], (200, 700)),
    }[name]
    whole, single = build(), build()
    for index in (whole, single):
        index.update_many(np.arange(60), np.zeros(60, int), np.arange(60) * 10.0)
        index.insert(range(60), profiles)
    for _ in range(6):
        contexts, codes = draws.integers(0, 60, 80), draws.integers(0, 2, 80)
        values = draws.integers(0, 1000, 80).astype(float)
        whole.update_many(contexts, codes, values)
        for context, code, value in zip(contexts.tolist(), codes.tolist(), values.tolist()):
            single.update_context(context, "pq"[code], value)
        messages = draws.integers(0, 1000, (20, 2)).astype(float)
        ptr, ids = whole.handle_many(messages)
        for i, row in enumerate(messages):
            found = single.handle_message({"m": row[0], "n": row[1]})
            assert found.tolist() == ids[ptr[i] : ptr[i + 1]].tolist()
    assert whole.counters == single.counters
    assert whole.counters.moved > 0
    for index in (whole, single):
        index.check()


def test_always_de_escalates_what_it_sees_and_escalation_makes_updates_cheap():
    schema = Schema({"m": "number"}, {"p": "number"})
    draws = np.random.Generator(np.random.PCG64(5))
    counters = []
    for policy in (ALWAYS, Fixed(10_000)):
        index = Agile(schema, ["m"], policy=policy)
        index.update_many(np.arange(300), np.zeros(300, int), draws.integers(0, 1000, 300).astype(float))
        index.insert(range(300), [[[[["message", "m"], "~", ["context", i, "p"], 20]]] for i in range(300)])
        for _ in range(30):
            index.update_many(draws.integers(0, 300, 100), np.zeros(100, int), draws.integers(0, 1000, 100) * 1.0)
            index.handle_message({"m": int(draws.integers(0, 1000))})
        index.check()
        counters.append(index.counters)
    always, seldom = counters
    assert always.shrunk > 0 and seldom.shrunk == 0
    assert seldom.moved < always.moved  # what stays escalated moves less
    assert seldom.false_positives > always.false_positives


def test_partial_leaves_what_is_out_of_scope_to_the_post_filter():
    schema = Schema({"m": "number"}, {"p": "number"})
    index = Partial(schema, ["m"], (0, 50))
    index.insert([1, 2], [[[[["message", "m"], "<=", 40], [["message", "m"], ">=", 10]]],
                          [[[["message", "m"], "=", ["context", 1, "p"]]]]])
    index.update_context(1, "p", 100)
    assert index.handle_message({"m": 20}).tolist() == [1]
    assert index.counters.verified == 2
    index.update_context(1, "p", 45)
    index.handle_message({"m": 20})
    assert index.counters.verified == 3
    index.check()


def test_fixed_acts_on_every_nth_false_positive_over_all_messages():
    counter = Counter(Fixed(3))
    assert [counter.due(n).tolist() for n in (2, 2, 5, 0, 1)] == [[], [0], [1, 4], [], []]
    assert Counter(ALWAYS).due(3).tolist() == [0, 1, 2]


def test_auto_ignores_more_when_updates_are_many_and_fewer_when_false_positives_are():
    counter = Counter(Auto(10))
    assert counter.due(3).tolist() == [0, 1, 2]  # no updates so far: nothing is ignored
    counter.updates = 4  # 40 / false positives: 10 at the fourth, 40 / 9 at the ninth
    assert counter.due(6).tolist() == [4]
    assert counter.false_positives == 9


def test_no_caller_s_array_layout_compiles_a_kernel_again():
    warm()
    kernels = [
        kernel
        for module in (agile, bits, cells, cells_kernels, filter_module, skiplist_kernels, store_kernels)
        for kernel in vars(module).values()
        if hasattr(kernel, "signatures")
    ]
    before = [len(kernel.signatures) for kernel in kernels]
    schema, profiles, _ = numbers(3)
    for index in (NoIndex(schema), Agile(schema, ["m"]), CellFilter(schema, ["m"])):
        arrays = np.arange(6)[::2], np.zeros(3, np.int32), np.full(6, 7.0)[::2]
        messages = np.asfortranarray(np.full((2, 2), 7.0))
        for array in (*arrays, messages):
            array.flags.writeable = False
        index.insert(arrays[0], profiles)
        index.update_many(np.arange(3, dtype=np.uint8), *arrays[1:])
        index.update_many(np.arange(3)[::-1], np.ones(3, np.uint64), [7, 7, 7])
        assert index.handle_many(messages)[1].tolist() == [0, 2, 4] * 2
        index.delete(arrays[0])
    assert [len(kernel.signatures) for kernel in kernels] == before


def test_memory_per_profile_is_counted():
    schema, profiles, _ = numbers(500)
    for index in (NoIndex(schema), Agile(schema, ["m"]), CellFilter(schema, ["m"])):
        before = index.memory_bytes()
        index.insert(range(500), profiles)
        assert index.memory_bytes() - before > 500 * 2 * (16 + 48)


def test_every_registered_filter_loads():
    names = [name for name, entry in INDEXES.items() if entry.facts["question"] == "context-filter"]
    assert len(names) == 7
    for name in names:
        assert issubclass(load(INDEXES[name].target), cases.NoIndex.__mro__[2])


# ---- bad input -----------------------------------------------------------------------------------------

PRICE = ["message", "price"]
BAD_PROFILES = [
    ("x", BadProfile, "a list of conjuncts"),
    ([], BadProfile, "without conjuncts"),
    ([5], BadProfile, "conjunct 0 is a list of atoms"),
    ([[[PRICE, "<"]]], BadProfile, "conjunct 0, atom 0: .* no .left, operator, right."),
    ([[], [[PRICE, "<", 5], [PRICE, "<>", 5]]], BadProfile, "conjunct 1, atom 1: no operator '<>'"),
    ([[[PRICE, "<", 5, 1]]], BadProfile, "an epsilon goes with '~'"),
    ([[[PRICE, "~", 5]]], BadProfile, "an epsilon goes with '~'"),
    ([[[PRICE, "~", 5, -1]]], BadValue, "at least 0"),
    ([[[PRICE, "~", 5, math.nan]]], BadValue, "finite"),
    ([[[PRICE, "<", math.nan]]], BadValue, "the constant is nan"),
    ([[[PRICE, "<", 10**400]]], BadValue, "finite"),
    ([[[PRICE, "<", "5"]]], BadValue, "its type is number"),
    ([[[PRICE, "<", True]]], BadValue, "its type is number"),
    ([[[["message", "weight"], "<", 5]]], UnknownAttribute, "no message attribute 'weight'; .* type, time, price"),
    ([[[PRICE, "<", ["context", 1, "weight"]]]], UnknownAttribute, "no context attribute 'weight'"),
    ([[[PRICE, "<", ["context", 1, "location"]]]], BadProfile, "compares a number with a string"),
    ([[[PRICE, "<", ["context", -1, "unread"]]]], InvalidInput, "context -1"),
    ([[[PRICE, "<", ["context", "u", "unread"]]]], InvalidInput, "named by an integer"),
    ([[[PRICE, "<", ["client", 1]]]], BadProfile, "is no .'message', attribute. and no"),
    ([[[PRICE, "<", ["message", "price"]]]], BadProfile, "compares two message values"),
    ([[[1, "<", 2]]], BadProfile, "compares two constants"),
    ([[[["context", 1, "unread"], "<", ["context", 2, "unread"]]]], BadProfile, "compares two context values"),
    ([[[["message", "type"], "~", "a", 1]]], BadProfile, "strings have no '~'"),
    ([[[["message", "time"], "<", "tomorrow"]]], BadValue, "ISO 8601"),
    ([[[["message", "time"], "<", "9999-01-01"]]], BadValue, "between 1684 and 2255"),
]


@pytest.mark.parametrize(("profile", "error", "match"), BAD_PROFILES)
def test_a_bad_profile_is_refused_and_nothing_is_entered(talks, profile, error, match):
    talks.insert([1], [[[[PRICE, "<", 5]]]])
    with pytest.raises(error, match=f"profile 1: .*{match}|profile 1: {match}"):
        talks.insert([2, 3], [[[]], profile])
    assert len(talks) == 1 and talks.handle_message({"price": 4}).tolist() == [1]
    talks.check()


@pytest.mark.parametrize(
    ("message", "error", "match"),
    [
        ([("price", 1)], BadMessage, "mapping"),
        ({"weight": 1}, UnknownAttribute, "no message attribute 'weight'"),
        ({"price": math.nan}, BadValue, "message attribute 'price' is nan"),
        ({"price": math.inf}, BadValue, "finite"),
        ({"price": "5"}, BadValue, "its type is number"),
        ({"type": 5}, BadValue, "its type is string"),
        ({"time": 5}, BadValue, "its type is date"),
    ],
)
def test_a_bad_message_is_refused(talks, message, error, match):
    talks.insert([1], [[[]]])
    with pytest.raises(error, match=match):
        talks.handle_message(message)
    assert talks.counters.events == 0


@pytest.mark.parametrize(
    ("context", "attribute", "value", "error", "match"),
    [
        (1, "weight", 5, UnknownAttribute, "no context attribute 'weight'"),
        (1, "unread", math.nan, BadValue, "nan"),
        (1, "unread", "5", BadValue, "its type is number"),
        (1, "location", 5, BadValue, "its type is string"),
        (1, "appointment", "soon", BadValue, "ISO 8601"),
        (-1, "unread", 5, InvalidInput, "context -1"),
        (1.0, "unread", 5, InvalidInput, "named by an integer"),
    ],
)
def test_a_bad_update_is_refused_and_the_value_stays(talks, context, attribute, value, error, match):
    talks.update_context(1, "unread", 3)
    talks.insert([1], [[[[PRICE, "=", ["context", 1, "unread"]]]]])
    with pytest.raises(error, match=match):
        talks.update_context(context, attribute, value)
    assert talks.context_value(1, "unread") == 3
    assert talks.handle_message({"price": 3}).tolist() == [1]
    talks.check()


def test_an_update_to_a_context_that_nobody_refers_to_is_kept_for_those_who_come(talks):
    with pytest.raises(UnknownContext, match="context 5"):
        talks.context_value(5, "unread")
    talks.update_context(5, "unread", 8)
    assert talks.context_value(5, "unread") == 8 and talks.context_value(5, "location") is None
    talks.insert([1], [[[[PRICE, "=", ["context", 5, "unread"]]]]])
    assert talks.handle_message({"price": 8}).tolist() == [1]
    talks.delete([1])
    talks.update_context(5, "unread", 9)
    assert talks.context_value(5, "unread") == 9
    with pytest.raises(UnknownAttribute):
        talks.context_value(5, "weight")


@pytest.mark.parametrize(
    ("contexts", "codes", "values", "error", "match"),
    [
        ([0, 1], [0], [1.0, 2.0], InvalidInput, "differ in length"),
        ([0], [2], [1.0], UnknownAttribute, "0..1"),
        ([0, -1], [0, 0], [1.0, 2.0], InvalidInput, "context -1"),
        ([0.5], [0], [1.0], InvalidInput, "integers"),
        ([0, 1], [0, 0], [1.0, math.nan], BadValue, "nan is not finite"),
        ([0], [0], ["x"], BadValue, "pass numbers"),
    ],
)
def test_a_bad_batch_of_updates_is_refused_as_a_whole(contexts, codes, values, error, match):
    schema, profiles, _ = numbers(2)
    index = Agile(schema, ["m"])
    index.insert([0, 1], profiles)
    with pytest.raises(error, match=match):
        index.update_many(contexts, codes, values)
    assert index.context_value(0, "p") is None
    index.check()


def test_bad_batches_of_messages_tables_and_options_are_refused():
    schema, _, _ = numbers(2)
    index = NoIndex(schema)
    for messages in ([[1.0]], [1.0, 2.0], [["x", "y"]]):
        with pytest.raises(BadMessage):
            index.handle_many(messages)
    with pytest.raises(BadMessage, match="infinite"):
        index.handle_many([[math.inf, 0.0]])
    with pytest.raises(InvalidInput, match="without strings"):
        NoIndex(TALKS).handle_many([[1.0, 2.0, 3.0]])
    for options in ({"escalation": "up"}, {"deescalation": "down"}):
        with pytest.raises(InvalidInput, match="no rule"):
            Agile(schema, ["m"], **options)
    with pytest.raises(UnknownAttribute):
        Eager(schema, ["weight"])
    with pytest.raises(InvalidInput, match="once"):
        Eager(schema, ["m", "m"])
    with pytest.raises(InvalidInput, match="scope"):
        Partial(schema, ["m"], (5, 1))
    with pytest.raises(InvalidInput, match="at least one"):
        CellFilter(schema, [])
    for policy in (lambda: Fixed(0), lambda: Auto(0), lambda: Auto(math.nan)):
        with pytest.raises(InvalidInput):
            policy()
    with pytest.raises(InvalidInput, match="types"):
        Schema({"m": "complex"}, {})
