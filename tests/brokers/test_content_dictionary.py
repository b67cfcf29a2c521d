"""Names and strings over the content indexes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.errors import InvalidInput
from brokers.indexes.content.dictionary import Subscriptions, Vocabulary
from brokers.indexes.content.quick_scan import QuickScan
from brokers.indexes.content.scan import Scan
from brokers.indexes.contract import BadEvent, BadSubscription, DuplicateId, UnknownId

NAMES = ["symbol", "price", "exchange"]


@pytest.fixture
def stocks():
    found = Subscriptions(QuickScan(3), NAMES)
    found.insert({
        1: {"symbol": "IBM", "price": (10, 20)},
        2: {"symbol": "IBM", "exchange": "NYSE"},
        3: {"price": (None, 15)},
        4: {},
    })
    return found


def test_strings_match_by_equality_and_numbers_by_range(stocks):
    assert stocks.match({"symbol": "IBM", "price": 12}).tolist() == [1, 3, 4]
    assert stocks.match({"symbol": "IBM", "price": 20, "exchange": "NYSE"}).tolist() == [1, 2, 4]
    ptr, ids = stocks.match_many([{"price": 15}, {}, {"exchange": "NYSE", "symbol": "IBM"}])
    assert ptr.tolist() == [0, 2, 3, 5] and ids.tolist() == [3, 4, 4, 2, 4]


def test_a_string_that_no_subscription_names_matches_nothing_and_gets_no_code(stocks):
    assert stocks.match({"symbol": "HAL", "price": 12}).tolist() == [3, 4]
    assert stocks.vocabulary.words("symbol") == ["IBM"]


def test_a_code_belongs_to_its_attribute_and_stays(stocks):
    stocks.delete([1, 2])
    stocks.insert({5: {"symbol": "HAL", "exchange": "IBM"}})
    stocks.insert({6: {"symbol": "IBM"}})
    assert stocks.vocabulary.words("symbol") == ["IBM", "HAL"]
    assert stocks.vocabulary.words("exchange") == ["NYSE", "IBM"]
    assert stocks.match({"symbol": "HAL", "exchange": "IBM"}).tolist() == [4, 5]
    assert stocks.match({"symbol": "IBM", "exchange": "HAL"}).tolist() == [4, 6]


def test_what_is_held_and_what_failed_is_told_in_words(stocks):
    assert stocks.predicate(1) == {"symbol": "IBM", "price": (10.0, 20.0)}
    assert stocks.predicate(3) == {"price": (None, 15.0)} and stocks.predicate(4) == {}
    assert stocks.explain({"symbol": "HAL", "price": 12}, 1) == {"symbol": "IBM"}
    assert stocks.explain({"price": 21, "symbol": "IBM"}, 1) == {"price": (10.0, 20.0)}
    assert stocks.explain({"price": 20, "symbol": "IBM"}, 1) == {}


def test_update_gives_an_id_another_predicate(stocks):
    stocks.update({1: {"exchange": "XETRA", "price": 7}})
    assert stocks.predicate(1) == {"exchange": "XETRA", "price": 7.0}
    assert stocks.match({"exchange": "XETRA", "price": 7}).tolist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ({"colour": "red"}, "no attribute 'colour'; attributes are symbol, price, exchange"),
        ({"symbol": (1, 2)}, "'symbol' wants .* strings there"),
        ({"price": "dear"}, "'price' wants 'dear', .* numbers there"),
        ({"price": (20, 10)}, "low above high"),
        ({"price": (1, 2, 3)}, "pass a string, a number or a pair"),
        ({"price": [1, 2]}, "pass a string, a number or a pair"),
        ({"price": ("a", 2)}, "bound 'a'"),
        ({"price": float("nan")}, "bound nan"),
        ({"price": None}, "pass a string, a number or a pair"),
    ],
)
def test_a_bad_predicate_is_refused_and_nothing_is_learned_from_its_neighbours(stocks, predicate, message):
    before = stocks.match({"symbol": "IBM", "price": 12}).tolist()
    for change in (stocks.insert, stocks.update):
        with pytest.raises(BadSubscription, match=message):
            change({3 if change == stocks.update else 8: {"symbol": "NEW"}, 9: predicate})
    assert stocks.vocabulary.words("symbol") == ["IBM"] and len(stocks) == 4
    assert stocks.match({"symbol": "IBM", "price": 12}).tolist() == before


def test_what_the_index_refuses_teaches_nothing_either(stocks):
    with pytest.raises(DuplicateId):
        stocks.insert({9: {"symbol": "NEW"}, 1: {}})
    with pytest.raises(UnknownId):
        stocks.update({9: {"symbol": "NEW"}})
    assert stocks.vocabulary.words("symbol") == ["IBM"]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"colour": "red"}, "no attribute 'colour'"),
        ({"symbol": 4}, "'symbol' is the number 4, but subscriptions have strings"),
        ({"price": "dear"}, "'price' is the string 'dear', but subscriptions have numbers"),
        ({"price": None}, "pass a number or a string, or leave it out"),
    ],
)
def test_a_bad_event_is_refused(stocks, event, message):
    with pytest.raises(BadEvent, match=message):
        stocks.match(event)


def test_names_and_index_have_to_fit():
    with pytest.raises(InvalidInput, match="named twice"):
        Vocabulary(["a", "b", "a"])
    with pytest.raises(InvalidInput, match="number of attributes"):
        Vocabulary([])
    with pytest.raises(InvalidInput, match="2 names for an index of 3 attributes"):
        Subscriptions(Scan(3), ["a", "b"])
    with pytest.raises(InvalidInput, match="holds 1 subscriptions"):
        Subscriptions(Scan.build(1, [1], [[0, 1, 2]]), ["a"])


words = st.sampled_from(["a", "b", "c", "d"])
prices = st.integers(0, 4)
wanted = st.fixed_dictionaries({}, optional={
    "symbol": words, "exchange": words,
    "price": st.one_of(prices, st.tuples(st.none() | prices, st.none() | prices).filter(
        lambda pair: None in pair or pair[0] <= pair[1]
    )),
})
told = st.fixed_dictionaries({}, optional={"symbol": words, "exchange": words, "price": prices})


def satisfies(event, predicate):
    """The definition, word by word."""
    for name, want in predicate.items():
        if name not in event:
            return False
        low, high = want if isinstance(want, tuple) else (want, want)
        if (low is not None and event[name] < low) or (high is not None and event[name] > high):
            return False
    return True


@given(st.lists(wanted, max_size=12), st.lists(told, min_size=1, max_size=6))
@settings(deadline=None)
def test_a_match_is_what_the_predicates_say(predicates, events):
    index = Subscriptions(QuickScan(3), NAMES)
    index.insert(dict(enumerate(predicates)))
    ptr, ids = index.match_many(events)
    for i, event in enumerate(events):
        expected = [j for j, predicate in enumerate(predicates) if satisfies(event, predicate)]
        assert ids[ptr[i] : ptr[i + 1]].tolist() == expected
        for j, predicate in enumerate(predicates):
            assert set(index.explain(event, j)) == {
                name for name, want in predicate.items() if not satisfies(event, {name: want})
            }
    for j, predicate in enumerate(predicates):
        held = index.predicate(j)
        assert held.keys() == predicate.keys()
        assert [satisfies(event, held) for event in events] == [satisfies(event, predicate) for event in events]
