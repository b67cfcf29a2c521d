"""The bounds of `topk-bounded` over all brokers of a shard: each state of a broker's bound once, and who knows which.

In the author's view every broker has a copy of every bound. But what a broker knows of another is always what that
one told at some time (`Bounds`): links are FIFO and a tree has one way, and where links lose messages a bound is told
whole. So the shard keeps these states, *snapshots*, and for each of its brokers a number per other broker. A snapshot
that nobody knows any more, and no message brings, is used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Floats, Ints, Ints32, ShardEnv
from brokers.indexes.space import grown
from protocols.topk.asking_record import SNAPSHOTS_FREE
from protocols.topk.bound_kernels import give_up
from protocols.topk.rooms import Room

_STATE = {
    "broker": Column("i8", ("here",), low=0, high="brokers"),
    "known": Column("i4", ("here", "brokers"), low=0, high="snapshots"),
    "units": Column("i1", ("snapshots", "cells"), low=0, high=32),
    "unit": Column("f8", ("snapshots",), low=0),
    "most": Column("i8", ("snapshots",), low=0),
    "top": Column("f8", ("snapshots",), low=0),
    "stale": Column("?", ("here",)),
    "last_raise": Column("i8", ("here",), low=-1),
}


class Snapshots(Room):
    """See the module. Where bounds are not asked for, there is a single empty one."""

    def __init__(self, env: ShardEnv, cells: int, now: Ints) -> None:
        """`now` counts what kernels take of the stack of free ones."""
        self._env, self._now = env, now
        kind: Any = env.kind
        self.cells = cells
        low, high = kind.params["domain"]
        self.low, self.scale = low, cells / (high - low) if cells else 0.0
        local = np.flatnonzero(env.local)
        here, brokers = (local.size, env.brokers) if cells else (1, 1)
        self._local = local
        self.row_of = np.zeros(env.brokers, np.int32)
        if cells:
            self.row_of[local] = np.arange(local.size)
        self.known = np.zeros((here, brokers), np.int32)
        self.units = np.zeros((1, kind.attributes * cells), np.uint8)  # 0: no range touches the cell
        self.unit, self.most, self.top = np.zeros(1), np.zeros(1, np.int64), np.zeros(1)
        self.uses = np.full(1, self.known.size, np.int64)
        self.free = np.zeros(1, np.int64)
        self.stale = np.zeros(env.brokers, np.bool_)  # whether a lowering is due
        self.last_raise = np.full(env.brokers, -1, np.int64)  # the change that last raised the bound of a broker
        self._reserved = 0  # free ones that the batch may take
        self._held: list[tuple[int, int, int]] = []  # (body, its generation, the snapshot it brings)

    def columns(self) -> dict[str, NDArray[Any]]:
        return {
            "row_of": self.row_of, "known": self.known, "units": self.units, "unit": self.unit, "most": self.most,
            "top": self.top, "uses": self.uses, "snapshot_free": self.free, "stale": self.stale,
        }  # fmt: skip

    def reserve(self, count: int) -> None:
        """Have so many free ones for a batch."""
        self._reserved = count
        self._need(count)

    def _need(self, count: int) -> None:
        if count > self._now[SNAPSHOTS_FREE]:
            self._tidy()
        had = int(self._now[SNAPSHOTS_FREE])
        if count <= had:
            return
        old = self.unit.size
        size = old + max(count - had, old)
        self.units = grown(self.units, (size, self.units.shape[1]), 0)
        self.unit, self.top = grown(self.unit, (size,), 0.0), grown(self.top, (size,), 0.0)
        self.most, self.uses = grown(self.most, (size,), 0), grown(self.uses, (size,), 0)
        self.free = grown(self.free, (size,), 0)
        self.free[had : had + size - old] = np.arange(size - 1, old - 1, -1)
        self._now[SNAPSHOTS_FREE] = had + size - old

    def _take(self) -> int:
        self._need(self._reserved + 1)
        self._now[SNAPSHOTS_FREE] -= 1
        return int(self.free[self._now[SNAPSHOTS_FREE]])

    def cells_of(self, values: Floats) -> Ints32:
        """The cell of each value; of none the first."""
        place = np.clip(np.floor((values - self.low) * self.scale), 0, self.cells - 1)
        return np.nan_to_num(place).astype(np.int32)

    # ---- what is told ----------------------------------------------------------------------------------

    def told(self, broker: int, before: int, after: int, whole: bool) -> dict[str, Any]:
        """What a broker says of its bound: what of it changed, or all of it."""
        units = self.units[after].reshape(-1, self.cells)
        changed = (units != self.units[before].reshape(-1, self.cells)).any(axis=1)
        attributes = range(len(units)) if whole else np.flatnonzero(changed).tolist()
        return {
            "broker": broker, "at": [[a, units[a].tobytes()] for a in attributes],
            "unit": float(self.unit[after]), "most": int(self.most[after]), "top": float(self.top[after]),
        }  # fmt: skip

    def hear(self, listener: int, said: dict[str, Any]) -> tuple[int, int]:
        """Make a snapshot of what a broker of another shard says: (it, whose bound it is)."""
        home = said["broker"]
        if not 0 <= home < self._env.brokers:
            raise BadState(f"a bound of broker {home}, which is not there")
        fresh, before = self._take(), int(self.known[self.row_of[listener], home])
        self.units[fresh] = self.units[before]
        units = self.units[fresh].reshape(-1, self.cells)
        for attribute, bits in said["at"]:
            units[attribute] = np.frombuffer(bits, np.uint8)
        self.unit[fresh], self.most[fresh], self.top[fresh] = said["unit"], said["most"], said["top"]
        return fresh, home

    def hold(self, body: int, generation: int, snapshot: int) -> None:
        """A message brings it: it is held as long as the body lives."""
        self._held.append((body, generation, snapshot))

    def drop(self, snapshot: int) -> None:
        give_up(self.uses, self.free, self._now, snapshot)

    def _tidy(self) -> None:
        """Let go of what no message brings any more."""
        bodies = self._env.bodies
        left = []
        for body, generation, snapshot in self._held:
            if bodies.generation[body] == generation:
                left.append((body, generation, snapshot))
            else:
                self.drop(snapshot)
        self._held = left

    # ---- what stands, and checkpoints ------------------------------------------------------------------

    def standing(self, homes: Ints) -> Ints:
        """The snapshot of each broker, one of its own for those that are named; before anything was told."""
        for home in np.unique(homes).tolist():
            before = int(self.known[0, home]) if len(self.known) else 0
            if before == 0:
                fresh = self._take()
                self.known[:, home] = fresh
                self.uses[0] -= len(self.known)
                self.uses[fresh] = max(1, len(self.known))
        return self.known[0].astype(np.int64) if len(self.known) else np.zeros(self._env.brokers, np.int64)

    def state(self) -> dict[str, Any]:
        live, known = np.unique(self.known, return_inverse=True)
        return {
            "broker": self._local, "known": known.reshape(self.known.shape).astype(np.int32),
            "units": self.units[live].astype(np.int8), "unit": self.unit[live], "most": self.most[live],
            "top": self.top[live], "stale": self.stale[self._local], "last_raise": self.last_raise[self._local],
        }  # fmt: skip

    def load(self, states: Sequence[Any]) -> None:
        seen = np.zeros(self._env.brokers, np.int64)
        for state in states:
            sizes = {"brokers": self._env.brokers, "cells": self.units.shape[1]}
            check_columns(state, _STATE, {**sizes, "snapshots": len(state["unit"])} if "unit" in state else sizes)
            if not (np.isfinite(state["unit"]).all() and np.isfinite(state["top"]).all()):
                raise BadState("a bound is no number")
            np.add.at(seen, state["broker"], 1)
            mine = self._env.local[state["broker"]]
            broker, known = state["broker"][mine], state["known"][mine]
            needed, known = np.unique(known, return_inverse=True)
            fresh = np.array([self._take() for _ in needed], np.int64)
            for name in ("units", "unit", "most", "top"):
                getattr(self, name)[fresh] = state[name][needed]
            rows = self.row_of[broker]
            self.known[rows] = fresh[known.reshape(rows.size, -1)] if rows.size else self.known[rows]
            self.stale[broker], self.last_raise[broker] = state["stale"][mine], state["last_raise"][mine]
        if (seen[self._local] != 1).any():
            raise BadState("a broker's bounds are missing, or there twice")
        self.uses[:] = np.bincount(self.known.ravel(), minlength=self.uses.size)
        self.uses[0] += 1  # the empty one is never used again
