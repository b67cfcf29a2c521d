"""What changes set in motion, counted so that settling needs no detection.

Every control message and timer carries the handle of the change that caused it. Per shard and cause: how
many were sent, handled and lost, and the latest finish. A change is settled when, summed over all shards,
sent + 1 = handled: the one is the message with which the client issued it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from brokers.bodies import named
from brokers.contract import Ints
from brokers.engine import layout as L


class Counted:
    """What a shard has counted of each cause: columns C_*."""

    def __init__(self) -> None:
        self.counts = np.zeros((256, L.CAUSE), np.int64)


class Causes:
    """The causes that a shard has met, or several in one process.

    A handle is an index; a key names the change between shards and in the trace.
    """

    def __init__(self, shards: int = 1) -> None:
        """`shards`: how many have these causes in common."""
        self.counted = [Counted() for _ in range(shards)]
        self.key = np.zeros(256, np.int64)
        self.used = 0
        self._handle_of: dict[int, int] = {}

    def new(self, keys: Ints) -> Ints:
        """Handles for changes met for the first time. O(keys)."""
        first, n = self.used, keys.size
        if first + n > self.key.size:
            size = max(2 * self.key.size, first + n)
            key = np.zeros(size, np.int64)
            key[:first] = self.key[:first]
            self.key = key
            for each in self.counted:
                counts = np.zeros((size, L.CAUSE), np.int64)
                counts[:first] = each.counts[:first]
                each.counts = counts
        handles = np.arange(first, first + n)
        self.key[handles] = keys
        self.used += n
        self._handle_of.update(zip(keys.tolist(), handles.tolist()))
        return handles

    def keys(self, handles: Ints) -> Ints:
        """The keys of handles; -1 for none."""
        return named(self.key, handles)

    def handles(self, keys: Ints) -> Ints:
        """The handles of keys, made where they are new; -1 for none."""
        known = keys != -1
        fresh = [k for k in np.unique(keys[known]).tolist() if k not in self._handle_of]
        self.new(np.array(fresh, np.int64))
        out = np.full(keys.size, -1, np.int64)
        out[known] = [self._handle_of[k] for k in keys[known].tolist()]
        return out

    def growing(self, shard: int = 0) -> dict[str, tuple[Any, str]]:
        """Where those are that kernels see; both are replaced when they grow."""
        return {"causes": (self.counted[shard], "counts"), "cause_key": (self, "key")}

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self, shard: int = 0) -> dict[str, Any]:
        """What a shard counted, of each cause it may have met."""
        counts = self.counted[shard].counts
        return {"cause_key": self.key[: self.used].copy(), "cause_counts": counts[: self.used].copy()}

    def load(self, states: Sequence[dict[str, Any]]) -> None:
        """Go on with the counts of all shards; for one shard of the run only, which is the first."""
        keys = np.concatenate([state["cause_key"] for state in states])
        counts = np.concatenate([state["cause_counts"] for state in states])
        unique, at = np.unique(keys, return_inverse=True)
        handles = self.handles(unique)
        mine = self.counted[0].counts
        for column in (L.C_SENT, L.C_HANDLED, L.C_LOST):
            np.add.at(mine[:, column], handles[at], counts[:, column])
        np.maximum.at(mine[:, L.C_FINISH], handles[at], counts[:, L.C_FINISH])
