"""Text of names and filters: what is one, what covers what, and what they have in common."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.errors import InvalidInput
from brokers.indexes.topics.contract import padded
from brokers.indexes.topics.level_kernels import row_covers, row_has_name
from brokers.indexes.topics.syntax import (
    DOLLAR,
    HASH,
    MQTT,
    NATS,
    PLUS,
    SYNTAXES,
    BadFilter,
    BadName,
    Subscription,
    covers,
    intersection,
    intersects,
    matches,
    mqtt_in_nats,
    syntax_named,
)
from brokers.indexes.topics.vocabulary import Vocabulary
from tests.brokers.topic_cases import INVALID, VALID, has

BOTH = pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=SYNTAXES)


def numbers(syntax, *filters):
    """Filters in numbers, of one vocabulary."""
    words = Vocabulary(syntax)
    return [[level for level in row if level > -3] for text in filters for row in words.filters([text]).tolist()]


def small_filters(depth=3):
    """All filters of up to so many levels over two words and one with `$`."""
    levels = (PLUS, 1, 2, 3 | DOLLAR)
    for size in range(depth + 1):
        for start in product(levels, repeat=size):
            if start:
                yield start
            yield (*start, HASH)


def small_names(depth=4):
    """All names of up to so many levels; the word 9 is none of the filters'."""
    return [name for size in range(1, depth + 1) for name in product((1, 2, 3 | DOLLAR, 9), repeat=size)]


# ---- what is a name, what is a filter ----------------------------------------------------------------


@pytest.mark.parametrize(("syntax", "text", "name", "answer"), VALID)
def test_each_case_of_the_tables_is_answered_as_it_says(syntax, text, name, answer):
    rules, words = SYNTAXES[syntax], Vocabulary(syntax)
    filter = rules.subscription(text).filter
    row, asked = words.filters([filter])[0], words.names([name])[0]
    assert matches(row.tolist(), asked.tolist(), rules) is answer
    assert row_has_name.py_func(row, asked, rules is MQTT) == answer
    assert has(syntax, filter, name) is answer


@pytest.mark.parametrize(("syntax", "text"), INVALID)
def test_each_filter_that_the_tables_call_invalid_is_refused(syntax, text):
    with pytest.raises(BadFilter):
        SYNTAXES[syntax].subscription(text)


@pytest.mark.parametrize(
    ("syntax", "text", "said"),
    [
        (MQTT, "a/b#", r"'b#' as level 2; '#' stands for whole levels"),
        (MQTT, "a/#/b", r"'#' as level 2 of 3; .* comes last"),
        (MQTT, "", "empty"),
        (MQTT, "a\0b", r"U\+0000 at place 2"),
        (MQTT, "a/\ud800", "half a surrogate pair at place 3"),
        (MQTT, "a" * 65_536, "65,536 bytes"),
        (MQTT, "ä" * 32_768, "65,536 bytes"),
        (MQTT, 7, "is text, not 7"),
        (MQTT, "$share//t", "no name of a group"),
        (MQTT, "$share/g", "no filter after its group 'g'"),
        (MQTT, "$share/g#/t", "'#' in the name of its group"),
        (MQTT, "$share/g/a/#/b", "comes last"),
        (NATS, "foo.>.bar", r"'>' as level 2 of 3"),
        (NATS, "foo..bar", "nothing as level 2"),
        (NATS, "foo.b r", "blank in level 2"),
    ],
)
def test_a_bad_filter_is_refused_with_its_place_and_the_rule(syntax, text, said):
    with pytest.raises(BadFilter, match=said):
        syntax.subscription(text)


@pytest.mark.parametrize(
    ("syntax", "text", "said"),
    [
        (MQTT, "a/+", r"'\+' as level 2; names have no wildcards"),
        (MQTT, "a#/b", "'a#' as level 1"),
        (NATS, "a.>", "'>' as level 2"),
        (NATS, "a.", "nothing as level 2"),
    ],
)
def test_a_bad_name_is_refused_with_its_place_and_the_rule(syntax, text, said):
    with pytest.raises(BadName, match=said):
        syntax.levels_of_name(text)


def test_the_longest_filter_is_one():
    assert MQTT.levels_of_filter("a" * 65_535) == ["a" * 65_535]
    assert len(MQTT.levels_of_filter("/" * 65_535)) == 65_536


def test_a_group_is_told_from_its_filter():
    assert MQTT.subscription("$share/g/a/#") == Subscription("g", "a/#")
    assert MQTT.subscription("$share/g//a") == Subscription("g", "/a")
    assert MQTT.subscription("$share") == Subscription(None, "$share")
    assert MQTT.subscription("$shared/g/a") == Subscription(None, "$shared/g/a")
    assert NATS.subscription("$share.g.a") == Subscription(None, "$share.g.a")


def test_what_is_a_wildcard_in_one_syntax_is_a_word_in_the_other():
    assert numbers(MQTT, "*/>") == [[1, 2]]
    assert numbers(NATS, "+.#") == [[1, 2]]


def test_a_syntax_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InvalidInput, match="mqtt, nats"):
        syntax_named("amqp")


@given(st.lists(st.text("ab+#$", max_size=3), min_size=1, max_size=5).map("/".join))
def test_a_filter_in_numbers_is_spelled_as_it_was(text):
    words = Vocabulary("mqtt")
    try:
        rows = words.filters([text])
    except BadFilter:
        levels = text.split("/")
        assert not text or "#" in levels[:-1] or any(len(w) > 1 and set(w) & set("+#") for w in levels)
    else:
        assert words.texts(rows) == [text]
        assert [bool(level & DOLLAR) for level in rows[0].tolist() if level >= 0] == [
            word.startswith("$") for word in text.split("/") if word not in ("+", "#")
        ]


def test_words_that_no_filter_has_do_not_fill_a_vocabulary():
    words = Vocabulary("mqtt")
    words.filters(["a/b"])
    before = len(words)
    (row,) = words.names(["$new/other/a"])
    assert len(words) == before and row[0] & DOLLAR and not row[1] & DOLLAR


# ---- mqtt in nats ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("a/b", ["a.b"]), ("a/+/c", ["a.*.c"]), ("a/#", ["a", "a.>"]), ("#", [">"]),
        ("/a", ["/.a"]), ("a/", ["a./"]), ("a//b", ["a./.b"]), ("/#", ["/", "/.>"]),
    ],
)  # fmt: skip
def test_mqtt_is_said_in_nats(text, subjects):
    assert mqtt_in_nats(text) == subjects


@pytest.mark.parametrize("text", ["a.b/c", "a/*", ">", "a b"])
def test_what_nats_cannot_say_is_refused(text):
    with pytest.raises(BadFilter, match="no plain word in NATS"):
        mqtt_in_nats(text)


TEXT = st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=4).map("/".join).filter(bool)
FILTER = st.lists(st.sampled_from(["", "a", "b", "+"]), max_size=3).flatmap(
    lambda words: st.sampled_from([text for text in ("/".join(words), "/".join([*words, "#"])) if text])
)


@given(FILTER, TEXT)
def test_a_filter_said_in_nats_has_the_same_names(filter, name):
    (subject,) = mqtt_in_nats(name)
    assert any(has("nats", one, subject) for one in mqtt_in_nats(filter)) is has("mqtt", filter, name)


# ---- covering and intersection -----------------------------------------------------------------------


@BOTH
def test_what_covers_what_is_as_the_names_say_but_for_one_pair(syntax):
    names = small_names()
    had = {f: frozenset(n for n in names if matches(f, n, syntax)) for f in small_filters()}
    missed = set()
    for outer, inner in product(had, repeat=2):
        told = covers(outer, inner, syntax)
        assert not told or had[outer] >= had[inner]
        if not told and had[outer] >= had[inner]:
            missed.add((outer, inner))
    assert missed == ({((PLUS, HASH), (HASH,))} if syntax is MQTT else set())


@BOTH
def test_what_two_filters_have_in_common_is_as_the_names_say(syntax):
    names = small_names()
    had = {f: frozenset(n for n in names if matches(f, n, syntax)) for f in small_filters()}
    for one, other in product(had, repeat=2):
        common = intersection(one, other, syntax)
        assert intersects(one, other, syntax) is bool(had[one] & had[other])
        assert (frozenset() if common is None else had[tuple(common)]) == had[one] & had[other]


@BOTH
def test_compiled_covering_is_the_same(syntax):
    filters = list(small_filters())
    rows = padded([list(one) for one in filters])
    rng = np.random.Generator(np.random.PCG64(2))
    for i, j in rng.integers(0, len(filters), (4000, 2)).tolist():
        assert row_covers.py_func(rows[i], rows[j], syntax is MQTT) == covers(filters[i], filters[j], syntax)


@pytest.mark.parametrize(
    ("syntax", "one", "other", "common"),
    [
        (MQTT, "t/global/#", "t/+/1/+", "t/global/1/+"),
        (MQTT, "1/+/3/+/5/#", "+/2/+/4/+", "1/2/3/4/5"),
        (MQTT, "t/local/1/+", "t/local/+", None),
        (MQTT, "$SYS/broker", "#", None),
        (MQTT, "a/#", "a", "a"),
        (NATS, "foo.*", "*.foo", "foo.foo"),
        (NATS, "foo.bar.>", "*.bar.foo", "foo.bar.foo"),
        (NATS, "foo.*", "foo.*.bar.>", None),
        (NATS, "a.>", "a", None),
    ],
)
def test_examples_of_intersections(syntax, one, other, common):
    words = Vocabulary(syntax)
    a, b = (words.filters([text])[0].tolist() for text in (one, other))
    for found in (intersection(a, b, syntax), intersection(b, a, syntax)):
        assert (None if found is None else words.spelled(found)) == common


def test_two_filters_may_overlap_where_neither_covers_the_other():
    a, b = numbers(MQTT, "a/+", "+/b")
    assert intersects(a, b, MQTT) and not covers(a, b, MQTT) and not covers(b, a, MQTT)
