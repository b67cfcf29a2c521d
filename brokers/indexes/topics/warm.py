"""Compile the kernels of every index of topic filters, or load them from the cache."""

from __future__ import annotations

import numpy as np

from brokers.indexes.topics.scan import Scan
from brokers.indexes.topics.skipping import Skipping
from brokers.indexes.topics.syntax import HASH, PLUS, SYNTAXES
from brokers.indexes.topics.trie import Trie

_DEEP = 40


def warm() -> None:
    """A short life of each that has kernels: it grows, is asked in numbers of both types, and loses all again."""
    for syntax in SYNTAXES:
        for make in (Scan, Skipping, Trie):
            index = make(syntax)
            rows = np.concatenate([_words(), _both(), _deep()])
            ids = np.arange(len(rows)) << 40
            index.insert(ids, rows)
            index.insert(ids + 1, rows)
            index.match(np.array([1, 2, 3, 4, 5, 6, 7, 8], np.int32))
            index.match(np.ones(8))
            index.late_matches(np.ones((1, 2)), np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones((1, 2)))
            index.rows(ids[:1])
            index.check()
            index.delete(np.concatenate([ids, ids + 1]))


def _words() -> np.ndarray:
    """Filters that share beginnings."""
    rows = np.tile(np.arange(1, _DEEP + 1), (100, 1))
    rows[:, 6] = np.arange(100)
    rows[:, 0] = PLUS
    return rows


def _both() -> np.ndarray:
    """Filters of which one name has many, so that all are compared."""
    rows = np.full((256, _DEEP), -3)
    rows[:, :8] = np.where(np.arange(256)[:, None] >> np.arange(8) & 1, 1, PLUS)
    return rows


def _deep() -> np.ndarray:
    """A chain of filters."""
    rows = np.full((_DEEP, _DEEP), -3)
    for size, row in enumerate(rows):
        row[:size] = 1
        row[size] = HASH
    return rows
