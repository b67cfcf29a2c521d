"""Publications that brokers of a shard are asked about, and what those have in hand: arrays for `asking_kernels`.

Rankings lie behind each other in `ids` and `scores`. Whoever has one says where: an open question, or a message body.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Floats, Ints, ShardEnv
from brokers.indexes.ids import IdMap
from brokers.indexes.space import grown
from brokers.wire import encode_body
from protocols.topk.asking_record import ANSWER, DELIVERY, OPEN_FREE, USED
from protocols.topk.rooms import Room
from protocols.topk.snapshots import Snapshots

_CASES, _OPENS, _RANKED = 16, 64, 1 << 12


class Cases(Room):
    """See the module."""

    def __init__(self, env: ShardEnv, snapshots: Snapshots, now: Ints) -> None:
        self._env, self._snapshots, self._now = env, snapshots, now
        self._kind: Any = env.kind
        m: int = env.kind.params["attributes"]
        self.case_of = IdMap()
        self._free: list[int] = list(range(_CASES - 1, -1, -1))
        self.key, self.publisher = np.full(_CASES, -1, np.int64), np.zeros(_CASES, np.int64)
        self.low, self.high, self.sent = (np.full((_CASES, m), np.nan) for _ in range(3))
        self.weighs = np.zeros(_CASES, np.bool_)
        self.first_cell, self.last_cell = (np.zeros((_CASES, m), np.int32) for _ in range(2))
        self.opens = np.zeros(_CASES, np.int64)
        self.at = np.full((_CASES, env.brokers), -1, np.int32)
        self.branch = np.zeros((_CASES, env.brokers), np.uint8)
        self.limit = np.zeros((_CASES, env.brokers))
        self.row: list[Floats | None] = [None] * _CASES  # the publication as it was sent
        self.texts, self.text_sizes = np.zeros((_CASES, 0), np.uint8), np.zeros(_CASES, np.int64)  # as questions say it
        self.open_case, self.parent = np.full(_OPENS, -1, np.int64), np.zeros(_OPENS, np.int64)
        self.start, self.held, self.pending = (np.zeros(_OPENS, np.int64) for _ in range(3))
        self.floor, self.open_free = np.zeros(_OPENS), np.arange(_OPENS - 1, -1, -1)
        now[OPEN_FREE] = _OPENS
        self.ids, self.scores = np.zeros(_RANKED, np.int64), np.zeros(_RANKED)
        self.noted = np.full(0, -1, np.int32)  # by body: the generation in which it was noted
        self.body_start, self.body_count = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.body_floor = np.zeros(0)

    def columns(self) -> dict[str, NDArray[Any]]:
        return {
            "case_keys": self.case_of.keys, "case_slots": self.case_of.slots,
            "key": self.key, "publisher": self.publisher, "low": self.low, "high": self.high, "sent": self.sent,
            "weighs": self.weighs, "first_cell": self.first_cell, "last_cell": self.last_cell, "opens": self.opens,
            "at": self.at, "branch": self.branch, "limit": self.limit, "open_case": self.open_case,
            "parent": self.parent, "floor": self.floor, "start": self.start, "held": self.held,
            "pending": self.pending, "open_free": self.open_free, "ids": self.ids, "scores": self.scores,
            "noted": self.noted, "body_start": self.body_start, "body_count": self.body_count,
            "body_floor": self.body_floor,
        }  # fmt: skip

    # ---- cases -----------------------------------------------------------------------------------------

    def take_on(self, key: int, row: Floats) -> int:
        """A new case."""
        if not self._free:
            self._more_cases()
        c = self._free.pop()
        asked = self._kind.asked(row)
        self.key[c], self.publisher[c], self.row[c] = key, key >> 32, row
        self.low[c], self.high[c] = asked.low, asked.high
        self.weighs[c] = asked.weights is not None
        if asked.weights is not None:
            self.sent[c] = asked.weights
        if self._snapshots.cells:
            self.first_cell[c] = self._snapshots.cells_of(asked.low)
            self.last_cell[c] = self._snapshots.cells_of(asked.high)
            self._spell(c, row)
        self.renewed = True  # `case_of` may have other arrays
        self.case_of.add(np.array([key]), np.array([c]))
        return c

    def _more_cases(self) -> None:
        old, (_, m), brokers = self.key.size, self.low.shape, self.at.shape[1]
        size = 2 * old
        self.key, self.publisher = grown(self.key, (size,), -1), grown(self.publisher, (size,), 0)
        self.low, self.high, self.sent = (grown(each, (size, m), np.nan) for each in (self.low, self.high, self.sent))
        self.weighs = grown(self.weighs, (size,), False)
        self.first_cell, self.last_cell = (grown(each, (size, m), 0) for each in (self.first_cell, self.last_cell))
        self.opens, self.at = grown(self.opens, (size,), 0), grown(self.at, (size, brokers), -1)
        self.branch, self.limit = grown(self.branch, (size, brokers), 0), grown(self.limit, (size, brokers), 0.0)
        self.row += [None] * old
        self.texts = grown(self.texts, (size, self.texts.shape[1]), 0)
        self.text_sizes = grown(self.text_sizes, (size,), 0)
        self._free = list(range(size - 1, old - 1, -1))

    def close(self, cases: Ints) -> None:
        """Forget those of these that no broker here has open."""
        cases = np.unique(cases)  # one may have been opened here again, and closed again
        done = cases[(self.opens[cases] == 0) & (self.key[cases] >= 0)]
        if done.size:
            self.case_of.remove(self.key[done])
            self.key[done] = -1
            for c in done.tolist():
                self.row[c] = None
            self._free += done.tolist()

    def _spell(self, case: int, row: Floats) -> None:
        """Have the publication's numbers as they stand encoded in a question."""
        text = np.frombuffer(encode_body({"values": row.tolist()})[1:], np.uint8)
        if text.size > self.texts.shape[1]:
            self.texts = grown(self.texts, (len(self.texts), text.size), 0)
        self.texts[case, : text.size], self.text_sizes[case] = text, text.size

    # ---- open questions, and rankings --------------------------------------------------------------------

    def reserve_opens(self, count: int) -> None:
        """Have so many free places."""
        had = int(self._now[OPEN_FREE])
        if count > had:
            old = self.open_case.size
            size = old + max(count - had, old)
            self.open_case = grown(self.open_case, (size,), -1)
            for name in ("parent", "start", "held", "pending", "floor", "open_free"):
                setattr(self, name, grown(getattr(self, name), (size,), 0))
            self.open_free[had : had + size - old] = np.arange(size - 1, old - 1, -1)
            self._now[OPEN_FREE] = had + size - old

    def reserve_bodies(self) -> None:
        """Have a place for every body."""
        capacity = self._env.bodies.capacity
        if self.noted.size < capacity:
            self.noted = grown(self.noted, (capacity,), -1)
            for name in ("body_start", "body_count", "body_floor"):
                setattr(self, name, grown(getattr(self, name), (capacity,), 0))

    def room(self, wanted: int) -> None:
        """Make room for so many ids; nothing is moved."""
        size = max(2 * self.ids.size, int(self._now[USED]) + wanted)
        self.ids, self.scores = grown(self.ids, (size,), 0), grown(self.scores, (size,), 0.0)

    def keep_ranking(self, ids: Any, scores: Any) -> int:
        """Lay a ranking down; returns where."""
        start, count = int(self._now[USED]), len(ids)
        if start + count > self.ids.size:
            self.room(count)
        self.ids[start : start + count], self.scores[start : start + count] = ids, scores
        self._now[USED] = start + count
        return start

    def note(self, body: int, start: int, count: int, floor: float = 0.0) -> None:
        """Note what a body says."""
        self.noted[body] = self._env.bodies.generation[body]
        self.body_start[body], self.body_count[body], self.body_floor[body] = start, count, floor

    def pack(self) -> None:
        """Drop the rankings that nobody has any more, once they take half of the room."""
        used = int(self._now[USED])
        if 2 * used <= self.ids.size:
            return
        bodies = self._env.bodies
        size = min(self.noted.size, bodies.capacity)
        told = (self.noted[:size] == bodies.generation[:size]) & bodies.alive[:size] & (self.body_count[:size] > 0)
        told &= (bodies.service[:size] == self._env.service) & np.isin(bodies.type[:size], (ANSWER, DELIVERY))
        body, mine = np.flatnonzero(told), np.flatnonzero((self.open_case >= 0) & (self.held > 0))
        start = np.concatenate((self.body_start[body], self.start[mine]))
        count = np.concatenate((self.body_count[body], self.held[mine]))
        total = int(count.sum())
        begins = np.cumsum(count) - count
        take = np.repeat(start - begins, count) + np.arange(total)
        self.ids[:total], self.scores[:total] = self.ids[take], self.scores[take]
        self.body_start[body], self.start[mine] = begins[: body.size], begins[body.size :]
        self._now[USED] = total
        if 2 * total > self.ids.size // 2:
            self.room(total)
