"""The audit of the kind `context` in plain Python, for the conformance kit.

A value was possible for a publication if it had been issued by its end, and none that came after it had settled
before it was sent; that a value was not known, until the first had settled. A profile counts, may count, or does
not, as an interest of the kind `content` does. The pair of publication and client is allowed if a profile that may
count holds under some choice of possible values, and forced if one that counts holds under all of them. All
choices are gone through; where they are too many, the pair is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from brokers.contract import Guarantees
from brokers.indexes.context.contract import Profile, checked_profile, references
from protocols.context.kind import SUBSCRIBE, UPDATE, Context, value_of
from protocols.judging import Audit, judge_pairs, published
from protocols.standing import Span, Standing, Tables

CHOICES_MAX = 4096

Value = tuple[int, str]


class History(Standing):
    """What stood when: profiles, and values."""

    def __init__(self, tables: Tables, kind: Context, service: int, guarantees: Guarantees) -> None:
        super().__init__(tables, kind, service, guarantees)
        self.profiles = [
            (version, checked_profile(kind.profile(version.values), kind.schema))
            for version in self.versions
            if version.type == SUBSCRIBE
        ]
        self._values: dict[Value, int] = {}  # the words of those that were ever said
        self._said: dict[int, float | None] = {}
        for version in self.versions:
            if version.type == UPDATE:
                context, attribute = value_of(version.word)
                self._values[context, str(attribute)] = version.word
                _, _, self._said[version.change] = kind.update(version.values)

    def choices(self, value: Value, span: Span) -> list[float | None]:
        """What a context's value may have been."""
        word = self._values.get(value, -1)
        possible = (each for each in reversed(self.of.get(word, ())) if self.possible(each, span))
        unknown = [None] if self.absent(word, span) else []
        return list(dict.fromkeys([*(self._said[each.change] for each in possible), *unknown]))


def judge(tables: Tables, kind: Context, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * profiles * choices of values)."""
    found = Audit.of(tables, guarantees)
    history = History(tables, kind, service, guarantees)
    asking = {version.client for version, _ in history.profiles}
    for p in published(found, tables, kind, service):
        message = kind.message(np.asarray(p.values))
        must, excused, may = set(), set(), set()
        for version, profile in history.profiles:
            if not history.possible(version, p):
                continue
            some, all_ = holds(history, profile, message, p)
            if not some:
                continue
            may.add(version.client)
            if all_ and history.certain(version, p) and not p.lost:
                must.add(version.client)
            elif all_ and history.certain(version, p, forgive=True):
                excused.add(version.client)
        judge_pairs(found, p, must, may, excused, asking)
    return found


def holds(history: History, profile: Profile, message: Mapping[str, Any], span: Span) -> tuple[bool, bool]:
    """Whether a profile holds under some choice of possible values, and whether under all."""
    named = sorted(references(profile))
    possible = [history.choices(value, span) for value in named]
    if prod(len(values) for values in possible) > CHOICES_MAX:
        return True, False
    answers = {
        any(all(atom.holds(message, contexts) for atom in conjunct) for conjunct in profile)
        for contexts in choices_of(named, possible)
    }
    return True in answers, False not in answers


def choices_of(named: list[Value], possible: list[list[float | None]]) -> Iterator[dict[Value, float | str]]:
    for choice in product(*possible):
        yield {value: known for value, known in zip(named, choice) if known is not None}
