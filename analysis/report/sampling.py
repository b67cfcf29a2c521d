"""Which messages a page shows: all, or a share of them, each whole.

A message is in by a hash of its id, so that all its events are, wherever they lie in the trace.

NumPy alone: tasks of Spark get this module by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HOPS_MOST = 1_000_000  # events in a page
_ODD = np.uint64(0x9E3779B97F4A7C15)
_PARTS = 1 << 24


@dataclass(frozen=True)
class Sample:
    """A share of all messages."""

    parts: int  # of so many: _PARTS

    @classmethod
    def of(cls, rows: int, most: int = HOPS_MOST) -> Sample:
        return cls(_PARTS if rows <= most else max(1, int(_PARTS * most / rows)))

    @classmethod
    def of_run(cls, hops: int, deliveries: int, most: int = HOPS_MOST) -> Sample:
        """That of a run with so many events and deliveries."""
        return cls.of(max(hops, deliveries // 2), most)

    @property
    def share(self) -> float:
        return self.parts / _PARTS

    @property
    def whole(self) -> bool:
        return self.parts == _PARTS

    def has(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether messages with these ids are in."""
        if self.whole:
            return np.ones(ids.size, np.bool_)
        mixed = (np.abs(ids).view(np.uint64) + np.uint64(1)) * _ODD
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _ODD
        return (mixed >> np.uint64(40)) < np.uint64(self.parts)


def in_sample(sample: Sample, rows: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Events of messages in the sample: of those that they carry, or that caused them; of neither, a share."""
    if sample.whole:
        return np.ones(rows["body"].size, np.bool_)
    neither = (rows["body"] < 0) & (rows["cause"] == -1)
    return np.where(
        neither, sample.has(rows["time_ns"] ^ rows["link"]),
        ((rows["body"] >= 0) & sample.has(rows["body"])) | ((rows["cause"] != -1) & sample.has(rows["cause"])),
    )  # fmt: skip
