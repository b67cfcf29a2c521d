"""A tree of topics that workloads draw from: names by number, the lower the more popular, and filters over them.

The digits of a topic's number are its words, so popular topics lie all over the tree and names have beginnings in
common. Depths go round from the least to the most. Which topic is
drawn follows Zipf's law, but for the share of the hot ones, which lie at the front.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import Floats, Ints
from brokers.indexes.topics.syntax import HASH, PLUS
from brokers.workloads.common import Parameters, WholeRange
from topology.draws import power_weights, uniform_each
from topology.units import Fraction

USUALLY_WILD = 0.1  # the share of filters with wildcards, unless it is said
_TOPICS_MAX = 10_000_000


class TreeParameters(Parameters):
    """Which topics there are, and how popular they are."""

    topics: int = Field(1000, ge=1, le=_TOPICS_MAX, description="how many names there are in the tree")
    depth: WholeRange = Field((3, 3), description="levels of a name")
    branching: int = Field(10, ge=1, le=1 << 20, description="different words at each level, but for the last")
    popularity: float = Field(1.0, ge=0, le=20, description="Zipf exponent over the topics; 0: all alike")
    hot: int = Field(1, ge=1, le=_TOPICS_MAX, description="how many topics are hot, all alike")
    hot_share: Fraction = Field(0.0, description="which share goes to the hot topics, beside what Zipf gives them")

    @model_validator(mode="after")
    def _bounds(self) -> TreeParameters:
        if self.depth[0] < 1:
            raise ValueError("`depth` must be at least 1 (got 0)")
        if self.hot > self.topics:
            raise ValueError(f"`hot` is {self.hot}, and there are {self.topics} topics")
        return self

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        most = service_params.get("levels", 0)
        if self.depth[1] > most:
            return [("depth", f"the service has names of at most {most} levels, by its `levels` (got {self.depth[1]})")]
        return []


class FilterParameters(TreeParameters):
    """What is asked for."""

    wildcards: Fraction | None = Field(
        None, description="which share of the filters has wildcards; by default 0.1, and 0 where the service has none"
    )
    rest: Fraction = Field(
        0.5, description="which share of those ends in the wildcard for all that is left; the others have one within"
    )


class Tree:
    """Draws names and filters, from streams of draws: one for each, of which the first few draws are taken."""

    def __init__(self, params: TreeParameters) -> None:
        self._params = params
        self._weights = power_weights(params.topics, params.popularity)

    def names(self, keys: NDArray[np.uint64], numbers: Ints) -> Floats:
        """Draw number `numbers[i]` of stream `keys[i]`: rows of levels, padded with NaN."""
        hot = uniform_each(keys, 4 * numbers) < self._params.hot_share
        place = uniform_each(keys, 4 * numbers + 1)
        by_popularity = np.searchsorted(self._weights, place, side="right")
        return self.topics(np.where(hot, np.floor(place * self._params.hot).astype(np.int64), by_popularity))

    def filters(self, keys: NDArray[np.uint64], numbers: Ints) -> Floats:
        """The same with wildcards in a share of them."""
        params = self._params
        assert isinstance(params, FilterParameters)
        rows = self.names(keys, numbers)
        wild, where = uniform_each(keys, 4 * numbers + 2), uniform_each(keys, 4 * numbers + 3)
        depth = np.count_nonzero(~np.isnan(rows), axis=1)
        share = USUALLY_WILD if params.wildcards is None else params.wildcards
        to_the_rest = wild < share * params.rest
        first = np.where(to_the_rest & (depth > 1), 1, 0)  # the rest is what is left after a word
        level = first + np.floor(where * (depth - first)).astype(np.int64)
        within = ~to_the_rest & (wild < share)
        rows[within, level[within]] = PLUS
        place = np.arange(rows.shape[1])
        rows[to_the_rest[:, None] & (place > level[:, None])] = np.nan
        rows[to_the_rest, level[to_the_rest]] = HASH
        return rows

    def topics(self, number: Ints) -> Floats:
        """The names of topics by their numbers."""
        low, high = self._params.depth
        depth = low + number % (high - low + 1)
        rows = np.full((number.size, high), np.nan)
        left = number // (high - low + 1)
        for level in range(high):
            last = level == depth - 1
            rows[level < depth, level] = 1.0 + np.where(last, left, left % self._params.branching)[level < depth]
            left = left // self._params.branching
        return rows
