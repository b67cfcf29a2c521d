"""The engine in this process: shards one after the other, exchanging the same blobs as actors would."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.engine.batching import Cutting
from brokers.engine.model import Model
from brokers.engine.shard import Shard, ShardResult, Standing, Window


class InlineShards:
    """Shards in this process."""

    name = "inline"

    def __init__(
        self,
        model: Model,
        assignment: NDArray[np.int32],
        trace: Callable[[int], Any],
        cutting: Cutting | None = None,
        resume: str | None = None,
    ) -> None:
        shards = int(assignment.max()) + 1
        self._traces = [trace(i) for i in range(shards)]
        self.shards: list[Shard] = []
        try:
            for i in range(shards):
                self.shards.append(Shard(model, i, assignment, self._traces[i], cutting, resume))
        except BaseException:
            for shard in self.shards:
                shard.close()
            raise
        self._blobs: list[list[bytes]] = [[b""] * shards for _ in range(shards)]

    def next_time(self) -> int:
        return min(shard.next_time() for shard in self.shards)

    def step(self, end: int, samples: range) -> list[Window]:
        """Advance all shards to `end`."""
        reports, fresh = [], []
        for i, shard in enumerate(self.shards):
            report, blobs = shard.window(end, [sent[i] for sent in self._blobs], samples)
            reports.append(report)
            fresh.append(blobs)
        self._blobs = fresh
        return reports

    def checkpoint(self, folder: str, number: int) -> int:
        """Have every shard keep its state; returns the bytes written."""
        shards = len(self.shards)
        written = sum(
            shard.checkpoint(folder, number, [sent[i] for sent in self._blobs])
            for i, shard in enumerate(self.shards)
        )
        self._blobs = [[b""] * shards for _ in range(shards)]
        return written

    def standing(self) -> list[Standing]:
        return [shard.standing() for shard in self.shards]

    def finish(self) -> list[ShardResult]:
        results = [shard.finish() for shard in self.shards]
        for trace in self._traces:
            trace.close()
        return results

    def where(self) -> list[tuple[int, str]]:
        """Process and node of each shard."""
        return [(os.getpid(), platform.node())] * len(self.shards)

    def abandon(self) -> None:
        """Drop an unfinished trace."""
        for trace in self._traces:
            trace.abort()

    def close(self) -> None:
        for shard in self.shards:
            shard.close()
