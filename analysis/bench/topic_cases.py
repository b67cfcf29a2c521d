"""Filters and names to measure with: drawn over a tree of words, and data that an index finds hard.

Each hard case is what it is by construction; none is taken from an index's own idea of what is easy. `1` is a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.topics.syntax import HASH, PADDING, PLUS

Rows = NDArray[np.int32]
Drawn = Callable[[np.random.Generator, int], Rows]

_WORDS = (8, 50, 200, 100, 20, 10)  # of each level, below every word of the one before
_APART = 1000  # the numbers of two levels' words


@dataclass(frozen=True)
class Tree:
    """Names over a tree of words, and filters that are such names, some with a level for a wildcard."""

    wild: float  # share of filters with a wildcard
    popularity: float = 1.0  # words are drawn from a power of this: above 1 the first ones are met more often
    hash_from: int = 3  # levels before a `#`

    def names(self, rng: np.random.Generator, count: int) -> Rows:
        depth = rng.integers(3, len(_WORDS) + 1, count)
        levels = [
            (rng.random(count) ** self.popularity * words).astype(np.int32) + _APART * level
            for level, words in enumerate(_WORDS, 1)
        ]
        rows = np.stack(levels, axis=1)
        rows[np.arange(len(_WORDS)) >= depth[:, None]] = PADDING
        return rows

    def filters(self, rng: np.random.Generator, count: int) -> Rows:
        rows = self.names(rng, count)
        wild = np.flatnonzero(rng.random(count) < self.wild)
        depth = (rows[wild] != PADDING).sum(axis=1)
        cut = rng.random(wild.size) < 0.4
        one, rest = wild[~cut], wild[cut]
        rows[one, rng.integers(0, depth[~cut])] = PLUS
        at = np.minimum(rng.integers(0, depth[cut]) + self.hash_from, depth[cut] - 1)
        rows[rest, at] = HASH
        rows[rest] = np.where(np.arange(len(_WORDS)) > at[:, None], PADDING, rows[rest])
        return rows


LITERAL, TENTH = Tree(0.0), Tree(0.1)
MANY_ANSWERS = Tree(0.1, popularity=2.0, hash_from=2)


@dataclass(frozen=True)
class HardTopics:
    """Filters, and the names that they are asked with."""

    filters: Drawn
    names: Drawn
    count_most: int = 1_000_000
    any_ids: bool = False  # whether ids come in no order and far apart


def _ones(depth: int) -> Drawn:
    return lambda rng, count: np.ones((count, depth), np.int32)


def _deep_chains(rng: np.random.Generator, count: int) -> Rows:
    """`#`, `1/#`, `1/1/#` and so on."""
    size = (np.arange(count) % 64)[:, None]
    levels = np.arange(65)
    return np.where(levels < size, 1, np.where(levels == size, HASH, PADDING)).astype(np.int32)


def _all_plus(rng: np.random.Generator, count: int) -> Rows:
    """`+`, `+/+`, `+/+/+` and so on."""
    return np.where(np.arange(64) <= (np.arange(count) % 64)[:, None], PLUS, PADDING).astype(np.int32)


def _every_branch(rng: np.random.Generator, count: int) -> Rows:
    """All ways to write `1` or `+` on each of 20 levels."""
    return np.where(np.arange(count)[:, None] >> np.arange(20) & 1, 1, PLUS).astype(np.int32)


def _hot(word: int) -> Drawn:
    return lambda rng, count: np.tile(np.array([1, word, 1], np.int32), (count, 1))


def _deep(words: int) -> Drawn:
    """64 levels of some word or `+`."""
    return lambda rng, count: np.where(
        rng.random((count, 64)) < 0.5, rng.integers(1, words + 1, (count, 64)), PLUS
    ).astype(np.int32)  # fmt: skip


def _pairs(rng: np.random.Generator, count: int) -> Rows:
    """64 levels, the same for two, which part at the last."""
    rows = np.repeat(_deep(1)(rng, -(-count // 2)), 2, axis=0)[:count]
    rows[:, -1] = 1 + np.arange(count) % 2
    return rows


def _last_differs(rng: np.random.Generator, count: int) -> Rows:
    rows = np.full((count, 6), PLUS, np.int32)
    rows[:, -1] = 1 + np.arange(count)
    return rows


def _few_words(rng: np.random.Generator, count: int) -> Rows:
    """Six levels of two words and `+`: very many ids for each filter."""
    return np.where(rng.random((count, 6)) < 0.5, rng.integers(1, 3, (count, 6)), PLUS).astype(np.int32)


def _two_words(depth: int) -> Drawn:
    return lambda rng, count: rng.integers(1, 3, (count, depth)).astype(np.int32)


HARD = {
    "deep # chains": HardTopics(_deep_chains, _ones(64)),
    "all +": HardTopics(_all_plus, lambda rng, count: np.where(
        np.arange(64) <= (np.arange(count) % 64)[:, None], 1, PADDING).astype(np.int32)),
    "every branch": HardTopics(_every_branch, _ones(20)),
    "one hot filter": HardTopics(_hot(PLUS), _ones(3), 100_000),
    "one hot filter, ids in no order": HardTopics(_hot(PLUS), _ones(3), 100_000, True),
    "one hot name": HardTopics(_hot(1), _ones(3), 100_000),
    "64 levels, one name has all": HardTopics(_deep(1), _ones(64), 200_000),
    "64 levels, two words": HardTopics(_deep(2), _two_words(64), 200_000),
    "64 levels, two by two": HardTopics(_pairs, _ones(64), 200_000),
    "everything is #": HardTopics(lambda rng, count: np.full((count, 1), HASH, np.int32), _ones(3)),
    "the last level differs": HardTopics(_last_differs, _ones(6)),
    "few words": HardTopics(_few_words, _two_words(6)),
}  # fmt: skip
