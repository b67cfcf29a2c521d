"""The filter: contexts, then indexes, then merge, then post-filter.

What the approaches share is here, and NOINDEX, which is all of it and no more: every conjunct is a candidate.
An approach says which conjuncts are candidates for a message (`_candidates`), hears what conjuncts ask of
indexed attributes after an update (`_asked_anew`) and which candidates failed there (`_false_positives`).

An entry of an index is a conjunct: what all its atoms on the attribute ask together. So the merge decides per
conjunct, and a conjunct without indexed atoms is always a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.context.contract import (
    Atom,
    BadMessage,
    BadValue,
    ContextFilter,
    Schema,
    UnknownAttribute,
    UnknownContext,
    Value,
    checked_context,
    checked_message,
    checked_profiles,
    checked_value,
)
from brokers.indexes.context.store import Floats, Store
from brokers.indexes.context.table import ProfileTable, from_profiles, is_textual, key_of
from brokers.indexes.contract import DuplicateId, Ids, UnknownId, WorkCounters, checked_ids, claim


@dataclass
class FilterCounters(WorkCounters):
    """`verified` counts candidates that were post-filtered, `probed` the entries that probes read."""

    updates: int = 0  # context values set
    touched: int = 0  # entries of indexes that these concerned
    moved: int = 0  # of these, entries whose region had to move: index updates, escalations
    shrunk: int = 0  # entries de-escalated, or taken back
    parked: int = 0  # entries that cells follow no longer
    renewed: int = 0  # times that cells made the rows of an attribute anew
    false_positives: int = 0  # candidates that failed on an indexed attribute


class Filter(ContextFilter):
    """NOINDEX. Message O(conjuncts), update O(atoms bound to the value)."""

    counters: FilterCounters

    def __init__(self, schema: Schema, indexed: Iterable[str] = (), scanned: bool = False) -> None:
        self.schema = schema
        self.indexed = tuple(indexed)
        for attribute in self.indexed:
            schema.message_type(attribute)
        if len(set(self.indexed)) < len(self.indexed) or len(self.indexed) > 250:
            raise InvalidInput(f"indexed attributes {self.indexed}: name each once, and at most 250")
        self.counters = FilterCounters()
        self.store = Store(schema, self.indexed, scanned or not self.indexed)
        self._message_codes = {name: i for i, name in enumerate(schema.message)}
        self._context_codes = {name: i for i, name in enumerate(schema.context)}
        self._textual: dict[int, list[Atom]] = {}  # conjunct -> its atoms on strings
        self._strings: dict[tuple[int, str], Value] = {}
        self._out = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self.store.profiles)

    # ---- profiles ----

    def insert(self, ids: Any, profiles: Sequence[Any]) -> None:
        """Add profiles. O(atoms), and what the indexes cost."""
        fresh = checked_ids(ids)
        checked = checked_profiles(profiles, self.schema, len(fresh))
        self._refuse_known(fresh)
        slots = self._enter(fresh, from_profiles(checked, self.schema))
        conjuncts = [conjunct for profile in checked for conjunct in profile]
        for slot, conjunct in zip(slots.tolist(), conjuncts):
            textual = [atom for atom in conjunct if is_textual(atom, self.schema)]
            if textual:
                self._textual[slot] = textual

    def insert_table(self, ids: Any, table: ProfileTable) -> None:
        """Add profiles that are flat arrays already; the schema has no strings. O(atoms), and the indexes."""
        fresh = checked_ids(ids)
        self._refuse_strings("profiles of a table")
        table.check(self.schema)
        if len(table) != len(fresh):
            raise InvalidInput(f"{len(table)} profiles for {len(fresh)} ids; pass one profile per id")
        self._refuse_known(fresh)
        self._enter(fresh, table)

    def delete(self, ids: Any) -> None:
        """Remove profiles. O(atoms), and what the indexes cost."""
        gone = checked_ids(ids)
        missing = self.store.profiles.find(gone) < 0
        if missing.any():
            raise UnknownId(f"id {gone[missing][0]} is not in the index")
        slots = self.store.delete(gone)
        self._left(slots)
        if self._textual:
            for slot in slots.tolist():
                self._textual.pop(slot, None)

    def _enter(self, ids: Ids, table: ProfileTable) -> NDArray[np.int64]:
        slots = self.store.insert(ids, table)
        if self.store.conjuncts_used > len(self._out):
            self._out = np.empty(len(self.store.start) + 1, np.int32)
        self._entered(slots)
        return slots

    def _refuse_known(self, ids: Ids) -> None:
        known = self.store.profiles.find(ids) >= 0
        if known.any():
            raise DuplicateId(f"id {ids[known][0]} is in the index already; delete it first")

    # ---- messages ----

    def handle_message(self, message: Mapping[str, Any]) -> Ids:
        """The ids of the profiles that the message satisfies."""
        asked = checked_message(message, self.schema)
        values = np.full(len(self._message_codes) + 1, np.nan)
        for attribute, value in asked.items():
            values[self._message_codes[attribute]] = key_of(value)
        values[-1] = 0.0
        return self._answer(values, asked)

    def handle_many(self, messages: Any) -> tuple[Ids, Ids]:
        """Messages float64[n, attributes], NaN where missing -> (ptr int64[n + 1], ids), one after the other."""
        self._refuse_strings("messages as arrays")
        array = _as_numbers(messages, BadMessage, "messages")
        if array.ndim != 2 or array.shape[1] != len(self._message_codes):
            raise BadMessage(f"messages have shape {array.shape}; pass {len(self._message_codes)} values each")
        wide, finite = _widened(array)
        if not finite:
            raise BadMessage("a message has an infinite value; numbers are finite, NaN where missing")
        found = [self._answer(values, {}) for values in wide]
        ptr = np.zeros(len(found) + 1, np.int64)
        for i, ids in enumerate(found):
            ptr[i + 1] = ptr[i] + len(ids)
        return ptr, np.concatenate(found) if found else np.empty(0, np.int64)

    def _answer(self, values: Floats, asked: Mapping[str, Value]) -> Ids:
        candidates = self._candidates(values)
        held, failed, tested = self._verified(candidates, values)
        counters = self.counters
        counters.events += 1
        counters.verified += tested
        if self._textual:
            held = np.array([slot for slot in held.tolist() if self._text_holds(slot, asked)], np.int64)
        if len(failed):
            counters.false_positives += len(failed)
            self._false_positives(failed)
        ids = _distinct(self.store.owner, held)
        counters.matched += len(ids)
        return ids

    def _text_holds(self, slot: int, asked: Mapping[str, Value]) -> bool:
        return all(atom.holds(asked, self._strings) for atom in self._textual.get(slot, ()))

    # ---- contexts ----

    def update_context(self, context: int, attribute: str, value: Any) -> None:
        """Set a value. O(atoms bound to it), and what the indexes cost."""
        number, type_ = checked_context(context), self.schema.context_type(attribute)
        key = np.nan
        if value is not None:
            checked = checked_value(value, type_, f"context attribute {attribute!r}")
            key = key_of(checked)
            if type_ == "string":
                self._strings[number, attribute] = checked
        elif type_ == "string":
            self._strings.pop((number, attribute), None)
        self._set(np.array([number]), np.array([self._context_codes[attribute]]), np.array([key]))

    def update_many(self, contexts: Any, attributes: Any, values: Any) -> None:
        """Set values, one after the other: contexts int64[n], attributes int[n] in the schema's order, float64[n].

        The same as `update_context` for each, at some 10 million a second where no index has to change.
        """
        self._refuse_strings("context values as arrays")
        numbers = _as_numbers(values, BadValue, "context values")
        named = [np.asarray(array) for array in (contexts, attributes)]
        if any(array.dtype.kind not in "iu" and array.size for array in named):
            raise InvalidInput("contexts and attributes are arrays of integers")
        if numbers.ndim != 1 or any(array.shape != numbers.shape for array in named):
            raise InvalidInput("contexts, attributes and values differ in length; pass one of each per update")
        if numbers.size == 0:
            return
        rows, codes = (np.require(array, np.int64, ["C", "W"]) for array in named)
        wrong = _first_wrong(rows, codes, numbers, len(self._context_codes))
        if wrong >= 0:
            if not math.isfinite(numbers[wrong]):
                raise BadValue(f"value {numbers[wrong]} is not finite; no update of the batch counts")
            if rows[wrong] < 0:
                raise InvalidInput(f"context {named[0][wrong]} lies outside 0..2**63 - 1")
            raise UnknownAttribute(
                f"no context attribute {named[1][wrong]}; they are 0..{len(self._context_codes) - 1}"
            )
        self._set(rows, codes, numbers)

    def context_value(self, context: int, attribute: str) -> Value | None:
        """The value as it is now. O(1)."""
        self.schema.context_type(attribute)
        number = checked_context(context)
        row = int(self.store.rows(np.array([number]), make=False)[0])
        if row < 0:
            raise UnknownContext(f"no profile and no update has named context {number}")
        if self.schema.context[attribute] == "string":
            return self._strings.get((number, attribute))
        cell = row * len(self._context_codes) + self._context_codes[attribute]
        value = float(self.store.cells["value"][cell])
        return None if value != value else value

    def _set(self, contexts: NDArray[np.int64], attributes: NDArray[np.int64], values: Floats) -> None:
        keys = self.store.rows(contexts, make=True)
        keys *= len(self._context_codes)
        keys += attributes
        entries, asked = self._updated(keys, values)
        self.counters.updates += len(values)
        self.counters.touched += len(entries)
        if len(entries):
            self._asked_anew(entries, asked)

    # ---- what an approach decides ----

    def _entered(self, slots: NDArray[np.int64]) -> None:
        """Conjuncts came."""

    def _left(self, slots: NDArray[np.int64]) -> None:
        """Conjuncts went."""

    def _candidates(self, values: Floats) -> NDArray[np.int32]:
        """The conjuncts to be post-filtered, each once."""
        # The scan is the first half of the post-filter: every conjunct counts as tested.
        count = self.store.scan(values, self._out)
        self.counters.verified += self.store.conjuncts_held - count
        return self._out[:count]

    def _verified(
        self, candidates: NDArray[np.int32], values: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """What `Store.verify` says of the candidates."""
        return self.store.verify(candidates, values, self._exact())

    def _exact(self) -> bool:
        """Whether a candidate is known to hold on all indexed attributes."""
        return False

    def _updated(self, keys: NDArray[np.int64], values: Floats) -> tuple[NDArray[np.int64], Floats]:
        """What `Store.update` says of these values."""
        return self.store.update(keys, values)

    def _asked_anew(self, entries: NDArray[np.int64], asked: Floats) -> None:
        """Rows of (index, conjunct) now ask for [low, high]."""

    def _false_positives(self, failed: NDArray[np.int64]) -> None:
        """Rows of (index, conjunct) were candidates, and failed there."""

    # ---- the rest ----

    def memory_bytes(self) -> int:
        """Bytes of all arrays, and about 100 per string."""
        return self.store.memory_bytes() + self._out.nbytes + 100 * (len(self._strings) + len(self._textual))

    def check(self) -> None:
        """Every invariant. O(atoms), and what the indexes cost."""
        self.store.check()
        held = set(np.flatnonzero(self.store.count[: self.store.conjuncts_used] >= 0).tolist())
        claim(set(self._textual) <= held, "only held conjuncts have texts")

    def _refuse_strings(self, what: str) -> None:
        if "string" in (*self.schema.message.values(), *self.schema.context.values()):
            raise InvalidInput(f"{what} are for schemas without strings; pass plain data, one at a time")


class NoIndex(Filter):
    """NOINDEX under its own name: no attribute is indexed."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)


def _as_numbers(values: Any, error: type[InvalidInput], what: str) -> Floats:
    try:
        array = np.asarray(values)
    except ValueError:
        raise error(f"{what} are ragged; pass an array of numbers") from None
    if array.dtype.kind not in "iuf" and array.size:
        raise error(f"{what} are of type {array.dtype}; pass numbers")
    return np.require(array, np.float64, ["C", "W"])


@njit(cache=True)
def _widened(messages):
    """Messages with one more value, which is 0; whether none is infinite."""
    wide = np.zeros((messages.shape[0], messages.shape[1] + 1))
    finite = True
    for i in range(messages.shape[0]):
        for a in range(messages.shape[1]):
            wide[i, a] = messages[i, a]
            finite &= not np.isinf(messages[i, a])
    return wide, finite


@njit(cache=True)
def _first_wrong(contexts, attributes, values, attribute_end):
    """The first update whose value is not finite, or whose context or attribute cannot be; -1 if there is none."""
    for i in range(values.size):
        good = np.isfinite(values[i]) and contexts[i] >= 0 and 0 <= attributes[i] < attribute_end
        if not good:
            return i
    return -1


@njit(cache=True)
def _distinct(owner, conjuncts):
    """The profiles of these conjuncts, ascending, each once."""
    out = np.empty(conjuncts.size, np.int64)
    for i in range(conjuncts.size):
        out[i] = owner[conjuncts[i]]
    out.sort()
    n = 0
    for i in range(out.size):
        if i == 0 or out[i] != out[n - 1]:
            out[n] = out[i]
            n += 1
    return out[:n]
