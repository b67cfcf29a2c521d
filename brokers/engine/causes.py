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


class Causes:
    """The causes a shard has met. A handle is an index; a key names the change between shards and in the trace."""

    def __init__(self) -> None:
        self.counts = np.zeros((256, L.CAUSE), np.int64)  # columns C_*
        self.key = np.zeros(256, np.int64)
        self.used = 0
        self._handle_of: dict[int, int] = {}

    def new(self, keys: Ints) -> Ints:
        """Handles for changes met for the first time. O(keys)."""
        first, n = self.used, keys.size
        if first + n > self.key.size:
            size = max(2 * self.key.size, first + n)
            counts, key = np.zeros((size, L.CAUSE), np.int64), np.zeros(size, np.int64)
            counts[:first], key[:first] = self.counts[:first], self.key[:first]
            self.counts, self.key = counts, key
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

    def arrays(self) -> dict[str, Any]:
        """What kernels see; both are replaced when they grow."""
        return {"causes": self.counts, "cause_key": self.key}

    def growing(self) -> dict[str, tuple[Any, str]]:
        """Where these are."""
        return {"causes": (self, "counts"), "cause_key": (self, "key")}

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {"cause_key": self.key[: self.used], "cause_counts": self.counts[: self.used]}

    def load(self, states: Sequence[dict[str, Any]]) -> None:
        """Go on with the counts of all shards; for one shard of the run only."""
        keys = np.concatenate([state["cause_key"] for state in states])
        counts = np.concatenate([state["cause_counts"] for state in states])
        unique, at = np.unique(keys, return_inverse=True)
        handles = self.new(unique)
        for column in (L.C_SENT, L.C_HANDLED, L.C_LOST):
            np.add.at(self.counts[:, column], handles[at], counts[:, column])
        np.maximum.at(self.counts[:, L.C_FINISH], handles[at], counts[:, L.C_FINISH])
