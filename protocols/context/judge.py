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
from protocols.context.kind import SUBSCRIBE, UNSUBSCRIBE, UPDATE, Context, value_of
from protocols.judging import Audit, Changes, Tables, judge_pairs, published

CHOICES_MAX = 4096

Value = tuple[int, str]


class _History(Changes):
    """The changes of a service: profiles, values, and from when each could be relied on."""

    def __init__(self, tables: Tables, kind: Context, service: int, guarantees: Guarantees) -> None:
        super().__init__(tables, service, guarantees)
        self.profiles: dict[int, tuple[int, Profile]] = {}  # change -> client, profile
        self.values: dict[Value, list[tuple[int, float | None]]] = {}  # in order: change, value
        begins: dict[int, int] = {}
        table = tables["changes"]
        for row in self.rows:
            change, word, operation = (int(table[n][row]) for n in ("change", "interest", "operation"))
            if operation == UPDATE:
                context, attribute = value_of(word)
                _, _, value = kind.update(np.asarray(table["values"][row]))
                self.values.setdefault((context, str(attribute)), []).append((change, value))
            elif operation == SUBSCRIBE:
                begins[word] = change
                profile = kind.profile(np.asarray(table["values"][row]))
                self.profiles[change] = int(table["client"][row]), checked_profile(profile, kind.schema)
            elif operation == UNSUBSCRIBE and word in begins:
                self.end[begins[word]] = change

    def possible(self, value: Value, sent: int, end: int) -> list[float | None]:
        """What a context's value may have been."""
        found: list[float | None] = []
        for change, known in reversed(self.values.get(value, ())):
            if self.issued[change] > end:
                continue
            if known not in found:
                found.append(known)
            if self.settled_before(change, sent, end):
                return found
        return found if None in found else [*found, None]


def judge(tables: Tables, kind: Context, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * profiles * choices of values)."""
    found = Audit.of(tables, guarantees)
    history = _History(tables, kind, service, guarantees)
    asking = {client for client, _ in history.profiles.values()}
    for p in published(found, tables, service):
        message = kind.message(np.asarray(p.values))
        must, excused, may = set(), set(), set()
        for change, (client, profile) in history.profiles.items():
            over = history.end.get(change)
            if history.issued[change] > p.end or (
                over is not None and history.settled_before(over, p.sent, p.end)
            ):
                continue
            some, all_ = _holds(history, profile, message, p.sent, p.end)
            if not some:
                continue
            may.add(client)
            if not all_ or history.ended(change) <= p.end:
                continue
            if history.settled_before(change, p.sent, p.end) and not p.lost:
                must.add(client)
            elif history.settled_before(change, p.sent, p.end, forgive=True):
                excused.add(client)
        judge_pairs(found, p, must, may, excused, asking)
    return found


def _holds(
    history: _History, profile: Profile, message: Mapping[str, Any], sent: int, end: int
) -> tuple[bool, bool]:
    """Whether a profile holds under some choice of possible values, and whether under all."""
    named = sorted(references(profile))
    possible = [history.possible(value, sent, end) for value in named]
    if prod(len(values) for values in possible) > CHOICES_MAX:
        return True, False
    answers = {
        any(all(atom.holds(message, contexts) for atom in conjunct) for conjunct in profile)
        for contexts in _choices(named, possible)
    }
    return True in answers, False not in answers


def _choices(named: list[Value], possible: list[list[float | None]]) -> Iterator[dict[Value, float | str]]:
    for choice in product(*possible):
        yield {value: known for value, known in zip(named, choice) if known is not None}
