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

from brokers.contract import NEVER, Guarantees
from brokers.indexes.context.contract import Profile, checked_profile, references
from protocols.conformance import Audit, handled_last, judge_order, message_name
from protocols.context.kind import SUBSCRIBE, UNSUBSCRIBE, UPDATE, Context, value_of

CHOICES_MAX = 4096

Value = tuple[int, str]


class _History:
    """The changes of a service: profiles, values, and from when each could be relied on."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], kind: Context, service: int, losses: bool) -> None:
        self.issued: dict[int, int] = {}
        self.settled: dict[int, int] = {}
        self.spoilt: set[int] = set()
        self.profiles: dict[int, tuple[int, Profile]] = {}  # change -> client, profile
        self.values: dict[Value, list[tuple[int, float | None]]] = {}  # in order: change, value
        self.end: dict[int, int] = {}  # change that begins a profile -> the one that ends it
        self._leans: dict[int, list[int]] = {}
        begins: dict[int, int] = {}
        table = tables["changes"]
        mine = np.flatnonzero(table["service"] == service)
        for row in mine[np.lexsort((table["change"][mine], table["issued_ns"][mine]))].tolist():
            change, word, operation = (int(table[n][row]) for n in ("change", "interest", "operation"))
            issued, settled = int(table["issued_ns"][row]), int(table["settled_ns"][row])
            self.issued[change] = issued
            self.settled[change] = -1 if issued < 0 else NEVER if settled < 0 else settled
            if losses and table["lost"][row]:
                self.spoilt.add(change)
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
        leans = tables["dependencies"]
        for change, on in zip(leans["change"].tolist(), leans["depends_on"].tolist()):
            self._leans.setdefault(change, []).append(on)

    def settled_before(self, change: int, sent: int, end: int, forgive: bool = False) -> bool:
        """Whether a change, and all it leans on, had settled before `sent`, and stood until `end`."""
        seen, ahead = set(), [change]
        while ahead:
            one = ahead.pop()
            if one in seen:
                continue
            seen.add(one)
            if self.settled.get(one, NEVER) >= sent or (one in self.spoilt and not forgive):
                return False
            for on in self._leans.get(one, ()):
                ahead.append(on)
                if on in self.end and self.issued[self.end[on]] <= end:
                    ahead.append(self.end[on])
        return True

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


def judge(tables: Mapping[str, Mapping[str, Any]], kind: Context, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * profiles * choices of values)."""
    found = Audit(guarantees)
    losses = not guarantees.under_loss
    history = _History(tables, kind, service, losses)
    lost = set(tables["losses"]["body"][tables["losses"]["service"] == service].tolist()) if losses else set()
    last = handled_last(tables)
    deliveries = tables["deliveries"]
    mine = deliveries["service"] == service
    publication, client = (deliveries[name][mine].tolist() for name in ("publication", "client"))
    got: dict[int, list[int]] = {}
    for p, c in zip(publication, client):
        got.setdefault(p, []).append(c)
    found.deliveries = len(publication)
    published = tables["publications"]
    for row in np.flatnonzero(published["service"] == service).tolist():
        p, sent = int(published["publication"][row]), int(published["time_ns"][row])
        found.publications += 1
        end = max(last.get(p, sent), sent)
        message = kind.message(np.asarray(published["values"][row]))
        _judge(found, history, message, p, sent, end, got.pop(p, []), p in lost)
    for p in got:
        found.unwanted.add(f"publication {message_name(p)}, which nobody published")
    judge_order(found, publication, client, *(deliveries[n][mine].tolist() for n in ("published_ns", "time_ns")))
    return found


def _judge(
    found: Audit, history: _History, message: Mapping[str, Any],
    p: int, sent: int, end: int, got: list[int], lost: bool,
) -> None:  # fmt: skip
    """All pairs of one publication."""
    must, excused, may = set(), set(), set()
    for change, (client, profile) in history.profiles.items():
        over = history.end.get(change)
        if history.issued[change] > end or (over is not None and history.settled_before(over, sent, end)):
            continue
        some, all_ = _holds(history, profile, message, sent, end)
        if not some:
            continue
        may.add(client)
        if not all_ or (over is not None and history.issued[over] <= end):
            continue
        if history.settled_before(change, sent, end) and not lost:
            must.add(client)
        elif history.settled_before(change, sent, end, forgive=True):
            excused.add(client)
    for client in sorted(must - set(got)):
        found.missed.add(f"client {client} got nothing of publication {message_name(p)}, sent at {sent} ns")
    for client in sorted(set(got)):
        if client not in may:
            found.unwanted.add(
                f"client {client} got publication {message_name(p)}, sent at {sent} ns, which it did not ask for"
            )
        if got.count(client) > 1:
            found.duplicated.add(f"client {client} got publication {message_name(p)} {got.count(client)} times")
    found.forced_yes += len(must)
    found.free += len(may - must)
    found.excused += len((may & excused) - must)
    found.forced_no += len({client for client, _ in history.profiles.values()} - may)


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
