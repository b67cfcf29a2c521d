"""Predicates with names and strings, over any content index.

The indexes know numbered attributes and floats. A `Vocabulary` gives attributes names and strings numbers: a
string becomes a code that belongs to its attribute, counted up in the order in which subscriptions first name
it and never given to another, and a constraint on it the point range [code, code]. A string that no
subscription has named equals none of them, so an event that carries it has no value there.

`Subscriptions` is an index that is spoken to in predicates:

    {"symbol": "IBM", "price": (10, 20)}        price in 10..20, both included; None leaves a side open
    {"symbol": "IBM", "volume": 500}            equality
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np

from brokers.errors import InvalidInput
from brokers.indexes.content.contract import ContentIndex, Floats, checked_attributes
from brokers.indexes.contract import BadEvent, BadSubscription, Ids

Bound = float | None
Wanted = str | float | tuple[Bound, Bound]
Predicate = Mapping[str, Wanted]
Event = Mapping[str, str | float]


class Draft(NamedTuple):
    """Rows, and what a vocabulary learns if they are taken."""

    rows: Floats
    codes: dict[int, dict[str, int]]  # of new strings, by attribute
    numeric: set[int]  # attributes that are constrained by numbers


class Vocabulary:
    """Names of attributes, and the codes of their strings. An attribute has strings or numbers, not both."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._number = {name: i for i, name in enumerate(self.names)}
        if len(self._number) < len(self.names):
            raise InvalidInput(f"an attribute is named twice in {', '.join(self.names)}")
        checked_attributes(len(self.names))
        self._codes: list[dict[str, int]] = [{} for _ in self.names]
        self._numeric = [False] * len(self.names)  # whether a subscription constrained it by numbers

    def words(self, name: str) -> list[str]:
        """The strings that subscriptions have named for an attribute; the place of each is its code."""
        return list(self._codes[self._attribute(name, InvalidInput)])

    def rows(self, predicates: Iterable[Predicate]) -> Floats:
        """Subscriptions as the content contract takes them; new strings get codes. O(constraints).

        If a predicate is refused, nothing has been learned from the others.
        """
        draft = self.draft(predicates)
        self.learn(draft)
        return draft.rows

    def draft(self, predicates: Iterable[Predicate]) -> Draft:
        """The same without learning from it yet."""
        draft = Draft(np.empty((0, 0)), {}, set())
        triples = [self._triples(predicate, draft) for predicate in predicates]
        width = max(map(len, triples), default=0)
        rows = np.full((len(triples), 3 * width), np.nan)
        for row, found in zip(rows, triples):
            row[: 3 * len(found)] = np.array(found).ravel()
        return draft._replace(rows=rows)

    def learn(self, draft: Draft) -> None:
        """Take over the codes of a draft of this vocabulary, made since it last learned."""
        for attribute, codes in draft.codes.items():
            self._codes[attribute].update(codes)
        for attribute in draft.numeric:
            self._numeric[attribute] = True

    def events(self, events: Iterable[Event]) -> Floats:
        """Events as the content contract takes them: NaN where a value is missing or an unknown string."""
        parsed = [self._values(event) for event in events]
        return np.array(parsed, np.float64).reshape(len(parsed), len(self.names))

    def predicate(self, row: Floats) -> dict[str, Wanted]:
        """What a row of the index says, in words."""
        found: dict[str, Wanted] = {}
        for attribute, low, high in row.reshape(-1, 3).tolist():
            if attribute == attribute:
                found[self.names[int(attribute)]] = self._wanted(int(attribute), low, high)
        return found

    def _triples(self, predicate: Predicate, draft: Draft) -> list[tuple[float, float, float]]:
        triples = []
        for name, wanted in predicate.items():
            attribute = self._attribute(name, BadSubscription)
            known, fresh = self._codes[attribute], draft.codes.get(attribute, {})
            numeric = self._numeric[attribute] or attribute in draft.numeric
            if isinstance(wanted, str):
                if numeric:
                    raise BadSubscription(f"{name!r} wants {wanted!r}, but other subscriptions have numbers there")
                code = known.get(wanted, fresh.get(wanted, len(known) + len(fresh)))
                if wanted not in known:
                    draft.codes.setdefault(attribute, {})[wanted] = code
                low = high = float(code)
            else:
                if known or fresh:
                    raise BadSubscription(f"{name!r} wants {wanted!r}, but other subscriptions have strings there")
                low, high = _ends(name, wanted)
                draft.numeric.add(attribute)
            triples.append((float(attribute), low, high))
        return triples

    def _values(self, event: Event) -> list[float]:
        values = [math.nan] * len(self.names)
        for name, value in event.items():
            attribute = self._attribute(name, BadEvent)
            if isinstance(value, str):
                if self._numeric[attribute]:
                    raise BadEvent(f"{name!r} is the string {value!r}, but subscriptions have numbers there")
                values[attribute] = float(self._codes[attribute].get(value, math.nan))
            elif not isinstance(value, Real):
                raise BadEvent(f"{name!r} is {value!r}; pass a number or a string, or leave it out")
            elif self._codes[attribute]:
                raise BadEvent(f"{name!r} is the number {value}, but subscriptions have strings there")
            else:
                values[attribute] = float(value)
        return values

    def _wanted(self, attribute: int, low: float, high: float) -> Wanted:
        words = list(self._codes[attribute])
        if words:
            return words[int(low)]
        if low == high:
            return low
        return (None if low == -math.inf else low, None if high == math.inf else high)

    def _attribute(self, name: str, error: type[InvalidInput]) -> int:
        if name not in self._number:
            raise error(f"no attribute {name!r}; attributes are {', '.join(self.names)}")
        return self._number[name]


class Subscriptions:
    """A content index that is spoken to in predicates and named values."""

    def __init__(self, index: ContentIndex, names: Sequence[str]) -> None:
        """`index` is empty; `names` are those of its attributes, in order."""
        self.vocabulary = Vocabulary(names)
        if len(self.vocabulary.names) != index.attributes or len(index):
            raise InvalidInput(
                f"{len(self.vocabulary.names)} names for an index of {index.attributes} attributes that holds "
                f"{len(index)} subscriptions; pass one name each, and an empty index"
            )
        self.index = index

    def __len__(self) -> int:
        return len(self.index)

    def insert(self, predicates: Mapping[int, Predicate]) -> None:
        """Add subscriptions, predicates by id."""
        draft = self.vocabulary.draft(predicates.values())
        self.index.insert(list(predicates), draft.rows)
        self.vocabulary.learn(draft)

    def update(self, predicates: Mapping[int, Predicate]) -> None:
        """Give ids that are held other predicates."""
        draft = self.vocabulary.draft(predicates.values())
        self.index.update(list(predicates), draft.rows)
        self.vocabulary.learn(draft)

    def delete(self, ids: Iterable[int]) -> None:
        """Remove subscriptions by id. Their strings keep their codes."""
        self.index.delete(list(ids))

    def predicate(self, id_: int) -> dict[str, Wanted]:
        """What is held under an id."""
        return self.vocabulary.predicate(self.index.rows([id_])[0])

    def match(self, event: Event) -> Ids:
        """The ids that an event matches, ascending."""
        return self.index.match(self.vocabulary.events([event])[0])

    def match_many(self, events: Iterable[Event]) -> tuple[Ids, Ids]:
        """Ids per event, as the contract's `match_many` gives them."""
        return self.index.match_many(self.vocabulary.events(events))

    def explain(self, event: Event, id_: int) -> dict[str, Wanted]:
        """The part of a held predicate that the event does not satisfy; empty where it matches."""
        failed = self.index.explain(self.vocabulary.events([event])[0], id_)
        return self.vocabulary.predicate(np.array([(f.attribute, f.low, f.high) for f in failed], np.float64).ravel())


def _ends(name: str, wanted: object) -> tuple[float, float]:
    """The range that a number or a pair of bounds asks for."""
    if isinstance(wanted, Real):
        wanted = (wanted, wanted)
    if not isinstance(wanted, tuple) or len(wanted) != 2:
        raise BadSubscription(f"{name!r} wants {wanted!r}; pass a string, a number or a pair (low, high)")
    ends = []
    for bound, open_end in zip(wanted, (-math.inf, math.inf)):
        if bound is not None and (not isinstance(bound, Real) or bound != bound):
            raise BadSubscription(f"{name!r} has the bound {bound!r}; pass a number, or None for an open side")
        ends.append(open_end if bound is None else float(bound))
    low, high = ends
    if low > high:
        raise BadSubscription(f"{name!r} wants {low:g}..{high:g}, low above high; swap them")
    return low, high
