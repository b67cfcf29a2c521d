"""Searches for the best filters that give up: the scan answers, is asked first for a while, and no answer shows it."""

from __future__ import annotations

import numpy as np

from brokers.indexes.topk import sliced, trials
from brokers.indexes.topk.contract import Query, message
from brokers.indexes.topk.quick import Quick
from brokers.indexes.topk.sliced import Sliced
from brokers.indexes.topk.trials import Trials


def filters(rng, count):
    """One wide constraint that counts for, five of half of all values that count against."""
    rows = np.empty((count, 6, 4))
    rows[:, :, 0] = np.arange(6)
    rows[:, :, 1] = 0.5 * rng.random((count, 6))
    rows[:, :, 2] = rows[:, :, 1] + 0.5
    rows[:, :, 3] = -rng.random((count, 6))
    rows[:, 0, 1:] = 0.0, 1.0, 0.05
    return rows.reshape(count, 24)


def both(count=6_000):
    rows = filters(np.random.default_rng(1), count)
    made = Sliced(6), Quick(6)
    for index in made:
        index.insert(np.arange(count), rows, np.arange(count) % 7)
    return made


def assert_same(fast, scan, asked, query):
    found, expected = fast.match(asked, query), scan.match(asked, query)
    for one, two in zip(found, expected):
        assert np.array_equal(one, two)


def test_answers_are_the_scans_whether_a_search_gives_up_or_is_not_begun(monkeypatch):
    fast, scan = both()
    searches = []
    search = Sliced._search
    monkeypatch.setattr(Sliced, "_search", lambda *a: searches.append(search(*a)[0]) or search(*a))
    rng = np.random.default_rng(2)
    queries = (Query(50), Query(50, unit="receiver"), Query(None), Query(3, ties="all"), Query(50, exclude=3))
    for turn in range(12):
        asked = message(rng.random(6), rng.random(6) - 0.8 if turn % 3 == 2 else None)
        for query in queries:
            assert_same(fast, scan, asked, query)
    assert -1 in searches
    assert len(searches) < 12 * len(queries)
    fast.check()


def test_a_search_that_pays_is_never_replaced():
    rows = filters(np.random.default_rng(3), 6_000)
    rows[:, 3::4] = np.abs(rows[:, 3::4])
    rows[:, 2::4] = rows[:, 1::4] + 0.01
    fast, scan = Sliced(6), Quick(6)
    for index in (fast, scan):
        index.insert(np.arange(6_000), rows)
    for value in np.random.default_rng(4).random((20, 6)):
        assert_same(fast, scan, message(value), Query(5))
    assert not fast._trials._pauses
    assert fast.counters.verified < 20 * 6_000


def test_after_each_search_that_gives_up_twice_as_many_messages_are_scanned_for_and_kinds_are_apart():
    known, asked = Trials(), message(np.zeros(2))
    many, few = Query(100), Query(2)
    tried = []
    for turn in range(400):
        if not known.scan(asked, many):
            tried.append(turn)
            assert known.paid(asked, many, False) is False
        assert not known.scan(asked, few) and known.paid(asked, few, True)
    gaps = np.diff(tried)
    assert gaps[:3].tolist() == [3, 5, 9] and gaps.max() == trials.PAUSE_MOST + 1
    while known.scan(asked, many):
        pass
    assert known.paid(asked, many, True) and not known.scan(asked, many)


def test_few_filters_are_searched_whatever_it_costs():
    fast, scan = both(sliced.LIMIT_MIN // 4)
    for value in np.random.default_rng(5).random((6, 6)):
        assert_same(fast, scan, message(value), Query(50))
    assert not fast._trials._pauses
