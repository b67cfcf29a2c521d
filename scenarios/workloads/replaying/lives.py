"""What begins and ends under a number of a client's own: each is begun once, and changed and ended while it lives.

Numbers that are left out are counted up. All of it works on whole pieces: what was begun, and what was ended, are sets
of keys in a few sorted arrays, eight bytes each, which is all that a check remembers of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Ints
from brokers.replaying import Op
from brokers.workloads.common import SUBSCRIPTIONS_PER_SOURCE

NOT_SAID = -1
_BEGINS, _CHANGES, _ENDS = "begins", "changes", "ends"

Tell = Callable[[int, str], None]  # place, what is wrong


class Keys:
    """A growing set of keys: sorted arrays, merged so that there are at most some thirty. Adding is O(log n) each."""

    def __init__(self) -> None:
        self._runs: list[Ints] = []

    def add(self, keys: Ints) -> None:
        run = np.unique(keys)
        while self._runs and self._runs[-1].size <= 2 * run.size:
            run = np.union1d(self._runs.pop(), run)
        if run.size:
            self._runs.append(run)

    def hold(self, keys: Ints) -> NDArray[np.bool_]:
        found = np.zeros(keys.size, np.bool_)
        for run in self._runs:
            place = np.searchsorted(run, keys)
            found |= run[np.minimum(place, run.size - 1)] == keys
        return found


class Counter:
    """The numbers of what clients begin, where a file does not say them: how many the client began before."""

    def __init__(self, ops: Sequence[Op], clients: int) -> None:
        self._begins = np.array([op.role == _BEGINS for op in ops], np.bool_)
        self._begun = np.zeros(clients if self._begins.any() else 0, np.int64)

    def fill(self, client: Ints, op: Ints, number: Ints) -> None:
        """Put in what is left out, in place; every client is one of the group's."""
        begins = np.flatnonzero(self._begins[op])
        if not begins.size:
            return
        who = client[begins]
        order = np.argsort(who, kind="stable")
        starts = np.searchsorted(who[order], who[order])
        before = np.empty(who.size, np.int64)
        before[order] = np.arange(who.size) - starts
        number[begins] = np.where(number[begins] == NOT_SAID, self._begun[who] + before, number[begins])
        np.add.at(self._begun, who, 1)


class Lives:
    """Whether each number is begun, changed and ended in this order."""

    def __init__(self, names: Sequence[str], ops: Sequence[Op], again: Sequence[bool]) -> None:
        """`again`: for each op, whether beginning what lives puts something else in its place."""
        self._names, self._ops, self._again = names, ops, again
        self._sorts = sorted({op.number for op in ops if op.number})
        self._begun, self._ended = Keys(), Keys()

    def check(self, client: Ints, op: Ints, number: Ints, tell: Tell) -> None:
        """Note what does not fit, and remember the piece."""
        numbered = np.array([bool(each.number) for each in self._ops], np.bool_)[op]
        sound = numbered & (number >= 0) & (number < SUBSCRIPTIONS_PER_SOURCE)
        for place in np.flatnonzero(numbered & ~sound)[:20].tolist():
            each = self._ops[op[place]]
            if number[place] == NOT_SAID:
                tell(place, f"{self._names[op[place]]} must say which `{each.number}` it is about")
            else:
                limit = f"{SUBSCRIPTIONS_PER_SOURCE:,}"
                tell(place, f"{each.number} is a number from 0, below {limit} (got {number[place]})")
        rows = np.flatnonzero(sound)
        if not rows.size:
            return
        keys = self._keys(client[rows], op[rows], number[rows])
        if not self._fits(keys, client[rows], op[rows], number[rows]):
            self._explain(rows, keys, client, op, number, tell)
        roles = np.array([_role(each) for each in self._ops], np.int64)[op[rows]]
        self._begun.add(keys[roles == 0])
        self._ended.add(keys[roles == 2])

    def _keys(self, client: Ints, op: Ints, number: Ints) -> Ints:
        sort = np.array(
            [self._sorts.index(each.number) if each.number else 0 for each in self._ops], np.int64
        )
        return (client * SUBSCRIPTIONS_PER_SOURCE + number) * len(self._sorts) + sort[op]

    def _fits(self, keys: Ints, client: Ints, op: Ints, number: Ints) -> bool:
        """Whether all of a piece fits, looked at as a whole."""
        roles = np.array([_role(each) for each in self._ops], np.int64)[op]
        again = np.array(self._again, np.bool_)[op]
        order = np.argsort(keys, kind="stable")
        keys, roles, again = keys[order], roles[order], again[order]
        first = np.concatenate(([True], keys[1:] != keys[:-1]))
        begun, ended = self._begun.hold(keys), self._ended.hold(keys)
        # The state before each: of the one above it with the same key, or what earlier pieces left.
        lives = np.where(first, begun & ~ended, False)
        fresh = np.where(first, ~begun, False)
        lives[1:] = np.where(first[1:], lives[1:], roles[:-1] != 2)
        fits = np.where(roles == 0, fresh | (lives & again), lives)
        if not fits.all():
            return False
        if len(self._sorts) > 1:  # two sorts of things share the numbers of a client
            begins = keys[roles == 0]
            for step in range(1, len(self._sorts)):
                other = begins - begins % len(self._sorts) + (begins + step) % len(self._sorts)
                if self._begun.hold(other).any() or np.isin(other, begins).any():
                    return False
        return True

    def _explain(self, rows: Ints, keys: Ints, client: Ints, op: Ints, number: Ints, tell: Tell) -> None:
        """Go through a piece one by one and say what does not fit."""
        begun: dict[int, bool] = {}
        ended: dict[int, bool] = {}
        sorts = len(self._sorts)
        unique = np.unique(np.concatenate([keys - keys % sorts + sort for sort in range(sorts)]))
        begun.update(zip(unique.tolist(), self._begun.hold(unique).tolist()))
        ended.update(zip(unique.tolist(), self._ended.hold(unique).tolist()))
        for place, key in zip(rows.tolist(), keys.tolist()):
            each, who, which = self._ops[op[place]], client[place], number[place]
            lives = begun[key] and not ended[key]
            if each.role == _BEGINS:
                base = key - key % sorts
                taken = any(begun[base + sort] for sort in range(sorts) if base + sort != key)
                if taken or (begun[key] and not (lives and self._again[op[place]])):
                    tell(place, f"client {who} has used the {each.number} number {which} before")
                begun[key] = True
            elif lives:
                ended[key] = each.role == _ENDS
            else:
                gone = "has ended already" if begun[key] else "was never begun"
                tell(place, f"{each.number} {which} of client {who} {gone}")


def _role(op: Op) -> int:
    return {_BEGINS: 0, _CHANGES: 1, _ENDS: 2}.get(op.role, 1)
