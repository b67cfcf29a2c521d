"""The room of results: what is summed over a run as it goes, whatever shard it happens on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from brokers.contract import Ints
from brokers.engine import layout as L
from brokers.engine.latency import BUCKETS


class Tallies:
    """Digests by simulated second, latencies and totals by service, and what leans on what."""

    def __init__(self, services: int, seconds: int) -> None:
        self.seconds = np.zeros(seconds, np.int64)
        self.histogram = np.zeros((services, BUCKETS), np.int64)
        self.totals = np.zeros((services, L.TOTALS), np.int64)
        self._dependencies: set[tuple[int, int]] = set()  # (change, on change)
        self._leanings: set[tuple[int, int, int]] = set()  # (service, interest, on interest)

    def arrays(self) -> dict[str, Any]:
        """What kernels add to."""
        return {"seconds": self.seconds, "histogram": self.histogram, "totals": self.totals}

    def note_dependencies(self, calls: list[tuple[Any, Any]]) -> None:
        """Changes that settle only once others do, as a protocol named them."""
        self._dependencies.update(_pairs(calls))

    def note_leanings(self, service: int, calls: list[tuple[Any, Any]]) -> None:
        """Interests that are in force only while others are, as a protocol named them."""
        self._leanings.update((service, a, b) for a, b in _pairs(calls))

    @property
    def dependencies(self) -> Ints:
        return np.array(sorted(self._dependencies), np.int64).reshape(-1, 2)

    @property
    def leanings(self) -> Ints:
        return np.array(sorted(self._leanings), np.int64).reshape(-1, 3)

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {**self.arrays(), "dependencies": self.dependencies, "leanings": self.leanings}

    def load(self, states: Sequence[dict[str, Any]]) -> None:
        """Go on with the sums of all shards; for one shard of the run only."""
        for state in states:
            self._dependencies.update(map(tuple, state["dependencies"].tolist()))
            self._leanings.update(map(tuple, state["leanings"].tolist()))
            self.histogram += state["histogram"]
            self.seconds += state["seconds"]
            longest = np.maximum(self.totals[:, L.D_LONGEST], state["totals"][:, L.D_LONGEST])
            self.totals += state["totals"]
            self.totals[:, L.D_LONGEST] = longest


def _pairs(calls: list[tuple[Any, Any]]) -> Iterator[tuple[int, int]]:
    """What protocols noted as depending on what, one pair at a time; -1 stands for nothing."""
    for first, second in calls:
        ones, others = np.broadcast_arrays(
            np.atleast_1d(np.asarray(first, np.int64)), np.atleast_1d(np.asarray(second, np.int64))
        )
        for pair in zip(ones.tolist(), others.tolist()):
            if -1 not in pair:
                yield pair
