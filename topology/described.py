"""Candidates that are described and not listed: any two brokers without a link may get one.

A link that is listed has a number, and a row in every array by link. Of n brokers all pairs are n² / 2, so these have a
number and nothing else: what such a link is like follows from its two ends, and whoever opens one makes its row.

    numbers      0 ..................... links   first ............................. first + nodes²
                 the directed links there are    first + source * nodes + target

Numbers depend on no order in which links arise, nor on how brokers are cut into shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topology.errors import TopologyError
from topology.linking import delays_between
from topology.links import ConstantDelay, Delay, GeographyDelay
from topology.numbers import Numbers

NUMBERS_MAX = 2**31 - 1  # a link is an int32 in batches and in the trace


@dataclass(frozen=True, eq=False)
class Described:
    """What links between brokers are like that have none."""

    delay: Delay
    seed: int
    position: NDArray[np.float64]
    on_globe: bool

    def delays(self, source: Any, target: Any) -> NDArray[np.int64]:
        """By pair, the delay of the link: the same either way, and as it would be if it were listed."""
        low, high = np.minimum(source, target), np.maximum(source, target)
        return delays_between(self.delay, low, high, self.position, self.on_globe, self.seed, [])

    @property
    def shortest_ns(self) -> int:
        """No link has a shorter delay."""
        if isinstance(self.delay, ConstantDelay):
            return self.delay.delay
        return self.delay.delay_min if isinstance(self.delay, GeographyDelay) else self.delay.low


def refuse_too_many(numbers: Numbers) -> None:
    """TopologyError where numbers of links would not fit."""
    if numbers.end > NUMBERS_MAX:
        raise TopologyError(
            f"links: latent.all: {numbers.nodes} brokers have more pairs than links can be numbered; "
            "it takes 46,000 brokers at most"
        )
