"""Brute: every profile evaluated by the definition, atom by atom, in plain Python. The oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from brokers.indexes.context.contract import (
    ContextFilter,
    Profile,
    Schema,
    UnknownContext,
    Value,
    checked_context,
    checked_message,
    checked_profiles,
    checked_value,
    references,
)
from brokers.indexes.contract import DuplicateId, Ids, UnknownId, WorkCounters, checked_ids, claim


class Brute(ContextFilter):
    """Dictionaries. Message O(atoms held), update O(1)."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.counters = WorkCounters()
        self._profiles: dict[int, Profile] = {}
        self._values: dict[tuple[int, str], Value] = {}
        self._contexts: set[int] = set()

    def __len__(self) -> int:
        return len(self._profiles)

    def insert(self, ids: Any, profiles: Sequence[Any]) -> None:
        """Add profiles. O(atoms)."""
        fresh = checked_ids(ids).tolist()
        checked = checked_profiles(profiles, self.schema, len(fresh))
        for id_ in fresh:
            if id_ in self._profiles:
                raise DuplicateId(f"id {id_} is in the index already; delete it first")
        self._profiles.update(zip(fresh, checked))
        for profile in checked:
            self._contexts.update(context for context, _ in references(profile))

    def delete(self, ids: Any) -> None:
        """Remove profiles. O(1) each."""
        gone = checked_ids(ids).tolist()
        for id_ in gone:
            if id_ not in self._profiles:
                raise UnknownId(f"id {id_} is not in the index")
        for id_ in gone:
            del self._profiles[id_]

    def handle_message(self, message: Mapping[str, Any]) -> Ids:
        """The ids of the profiles that hold. O(atoms held)."""
        asked = checked_message(message, self.schema)
        found = [
            id_
            for id_, profile in self._profiles.items()
            if any(all(atom.holds(asked, self._values) for atom in conjunct) for conjunct in profile)
        ]
        self.counters.events += 1
        self.counters.verified += len(self._profiles)
        self.counters.matched += len(found)
        return np.array(sorted(found), np.int64)

    def update_context(self, context: int, attribute: str, value: Any) -> None:
        """Set a value. O(1)."""
        number, type_ = checked_context(context), self.schema.context_type(attribute)
        if value is None:
            self._values.pop((number, attribute), None)
        else:
            self._values[number, attribute] = checked_value(value, type_, f"context attribute {attribute!r}")
        self._contexts.add(number)

    def context_value(self, context: int, attribute: str) -> Value | None:
        """The value as it is now. O(1)."""
        self.schema.context_type(attribute)
        if checked_context(context) not in self._contexts:
            raise UnknownContext(f"no profile and no update has named context {context}")
        return self._values.get((context, attribute))

    def memory_bytes(self) -> int:
        """About 250 bytes per atom, and 100 per value."""
        atoms = sum(len(conjunct) for profile in self._profiles.values() for conjunct in profile)
        return 250 * atoms + 100 * len(self._values)

    def check(self) -> None:
        """Every invariant."""
        named = {context for profile in self._profiles.values() for context, _ in references(profile)}
        claim(named <= self._contexts, "every context that a profile names is known")
        claim({context for context, _ in self._values} <= self._contexts, "every value has a known context")
