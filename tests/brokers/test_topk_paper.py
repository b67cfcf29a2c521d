"""The algorithm of the paper as it is printed (its Figure 1), and what its eight errors do.

`figure_1` is the printed algorithm, line by line, with all errors repaired but the one named. Each test has a
case that the repaired form and every index answer by the definition, and that the printed form gets wrong.
"""

from __future__ import annotations

import pytest

from brokers.indexes.topk.contract import Query, message

from .topk_cases import NAN, RANKED, as_rows, index_class_of, naive_answer, naive_score


class TreeSet:
    """Scored ids in order; `by_score` is the printed one, to which equal scores are the same element."""

    def __init__(self, by_score):
        self.by_score, self.held = by_score, []

    def add(self, id_, score):
        if not (self.by_score and any(held[0] == score for held in self.held)):
            self.held = sorted([*self.held, (score, -id_)])

    def remove_min(self):
        del self.held[0]

    def ranked(self):
        return [-id_ for _, id_ in reversed(self.held)]


def figure_1(filters, values, sent, k, printed=None):
    """`filters` by id, lists of (attribute, low, high, weight); `printed` is the error that is left in."""
    trees = {}
    for id_, constraints in filters.items():
        for attribute, low, high, weight in constraints:
            trees.setdefault(attribute, []).append((id_, low, high, weight))
    scores = {}
    overridden = sent is not None and (printed != 4 or any(sent))
    for attribute, value in enumerate(values):
        if value != value:
            continue
        tree = trees.get(attribute)
        if tree is None and printed != 1:
            continue
        matches = [(id_, weight) for id_, low, high, weight in tree if low <= value <= high]
        if overridden and printed == 3:  # lines 23 and 24: neither a loop nor a read of the score
            scores[id_] = score + sent[attribute]  # noqa: F821
            continue
        for id_, weight in matches:
            score = scores.get(id_) if printed == 2 else scores.get(id_, 0.0)
            scores[id_] = score + (sent[attribute] if overridden else weight)
    top, least = TreeSet(by_score=printed == 7), 0.0
    for id_ in scores:
        if printed != 5:
            w = scores[id_]
        if w <= 0.0 and printed != 6:
            continue
        if printed != 8:  # a heap of k instead of the lowest score so far
            top.add(id_, w)
            if len(top.held) > max(k, 0):
                top.remove_min()
        elif len(top.held) < k:
            top.add(id_, w)
            if w < least or least == 0.0:
                least = w
        elif least < w:
            top.remove_min()
            top.add(id_, w)
            least = top.held[0][0]
    return top.ranked()


ONE = [(0, 0.0, 1.0, 1.0)]
HALF = [(0, 0.0, 1.0, 0.5)]
# error: (what it is, filters, values, weights of the message, k, what the printed form does)
CASES = {
    1: ("an attribute without a tree is not skipped", {7: ONE}, [0.5, 0.5], None, 3, TypeError),
    2: ("the first score is added to nothing", {7: ONE}, [0.5], None, 3, TypeError),
    3: ("weights of the message are given to no filter in particular", {7: ONE}, [0.5], [2.0], 3, NameError),
    4: ("zeros from the sender are taken for no weights", {7: ONE}, [0.5], [0.0], 3, [7]),
    5: ("what is entered is never read", {7: ONE}, [0.5], None, 3, NameError),
    6: ("scores of zero are delivered", {7: ONE, 8: [(0, 0.0, 1.0, 0.0)]}, [0.5], None, 3, [7, 8]),
    7: ("equal scores are taken for one", {7: ONE, 8: ONE, 9: HALF}, [0.5], None, 3, [7, 9]),
    8: ("a lowest score says nothing of ties", {8: ONE, 7: ONE}, [0.5], None, 1, [8]),
}


def definition(filters, values, sent, k):
    scored = [(naive_score(c, values, values, sent), id_, id_) for id_, c in filters.items()]
    return naive_answer(scored, Query(k))[0]


@pytest.mark.parametrize("error", CASES)
def test_the_printed_form_gets_wrong_what_the_repaired_one_and_every_index_get_right(error):
    _, filters, values, sent, k, wrong = CASES[error]
    right = definition(filters, values, sent, k)
    assert figure_1(filters, values, sent, k) == right
    for name in RANKED:
        index = index_class_of(name)(len(values))
        index.insert(list(filters), as_rows(list(filters.values())))
        assert index.match(message(values, sent), Query(k)).ids.tolist() == right
    if isinstance(wrong, list):
        assert wrong != right
        assert figure_1(filters, values, sent, k, printed=error) == wrong
    else:
        with pytest.raises(wrong):
            figure_1(filters, values, sent, k, printed=error)


def test_zero_as_the_lowest_score_of_nothing_fails_for_no_places_at_all():
    with pytest.raises(IndexError):
        figure_1({7: ONE}, [0.5], None, 0, printed=8)
    assert figure_1({7: ONE}, [0.5], None, 0) == []


def test_zero_as_the_lowest_score_loses_a_filter_where_scores_of_zero_are_kept_too():
    """Errors 6 and 8 together, as printed: after a score of 0 the lowest is forgotten."""
    filters = {1: [(0, 0.0, 1.0, 0.0)], 2: [(0, 0.0, 1.0, 5.0)], 3: [(0, 0.0, 1.0, 3.0)]}
    assert definition(filters, [0.5], None, 2) == [2, 3]
    least, held = 0.0, []
    for id_, w in ((1, 0.0), (2, 5.0), (3, 3.0)):
        if len(held) < 2:
            held.append(id_)
            if w < least or least == 0.0:
                least = w
        elif least < w:
            held.append(id_)
    assert held == [1, 2]


@pytest.mark.parametrize("name", RANKED)
def test_an_attribute_that_the_message_does_not_have_counts_nothing_even_if_weighted(name):
    index = index_class_of(name)(2)
    index.insert([1], as_rows([[(0, 0.0, 1.0, 1.0), (1, 0.0, 1.0, 1.0)]]))
    assert index.match(message([0.5, NAN], [2.0, 4.0]), Query(1)).scores.tolist() == [2.0]
