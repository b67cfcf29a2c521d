"""Keywords: strings outside, small integers inside.

A `Vocabulary` numbers strings in the order in which it first sees them. It may be shared by several indexes,
so that what one of them encoded is understood by the others. Numbers never show in an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput

Words = NDArray[np.int32]


class BadKeywords(InvalidInput):
    """Keywords that are no non-empty set of strings."""


class KeywordSets(NamedTuple):
    """Encoded keywords: set i is words[ptr[i]:ptr[i + 1]], ascending and distinct."""

    ptr: NDArray[np.int64]
    words: Words


class Vocabulary:
    """Distinct strings and their numbers, 0 and up."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._strings: list[str] = []

    def __len__(self) -> int:
        return len(self._strings)

    def string(self, word: int) -> str:
        """The string of a number. O(1)."""
        return self._strings[word]

    def number(self, string: str) -> int:
        """The number of a string, -1 if it was never encoded. O(1)."""
        return self._number_of.get(string, -1)

    def encode(self, sets: Iterable[Iterable[str]]) -> KeywordSets:
        """Number the keywords of each set; new strings are entered once all sets are known to be good."""
        checked = _checked(sets)
        for strings in checked:
            for string in strings:
                if string not in self._number_of:
                    self._number_of[string] = len(self._strings)
                    self._strings.append(string)
        return self.known(checked)

    def known(self, sets: Iterable[Iterable[str]]) -> KeywordSets:
        """As `encode`, but strings that are not in the vocabulary are left out and not entered."""
        number_of = self._number_of
        numbers = [
            sorted(number_of[string] for string in strings if string in number_of)
            for strings in _checked(sets)
        ]
        ptr = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum([len(words) for words in numbers], out=ptr[1:])
        return KeywordSets(ptr, np.fromiter((w for words in numbers for w in words), np.int32, int(ptr[-1])))


def checked_sets(sets: KeywordSets, words: int, what: str) -> KeywordSets:
    """Sets that somebody encoded, in one layout, or BadKeywords. O(keywords)."""
    if _laid_out(sets.ptr, np.int64) and _laid_out(sets.words, np.int32) and _ascend(sets.ptr, sets.words, words):
        return KeywordSets(sets.ptr, sets.words)
    ptr, numbers = np.asarray(sets.ptr), np.asarray(sets.words)
    if ptr.ndim != 1 or ptr.size == 0 or ptr.dtype.kind not in "iu" or numbers.ndim != 1:
        raise BadKeywords(f"the keywords of {what} are no encoded sets; use Vocabulary.encode")
    if numbers.size and numbers.dtype.kind not in "iu":
        raise BadKeywords(f"the keywords of {what} are of type {numbers.dtype}; use Vocabulary.encode")
    lengths = np.diff(ptr)
    if ptr[0] != 0 or ptr[-1] != numbers.size or (lengths < 0).any():
        raise BadKeywords(f"the pointers of the keywords of {what} do not ascend from 0 to {numbers.size}")
    if (lengths == 0).any():
        raise BadKeywords(f"row {int(np.argmin(lengths))} of {what} has no keywords; give at least one")
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < words):
        raise BadKeywords(f"the keywords of {what} hold a number outside of the vocabulary's 0..{words - 1}")
    inside = np.ones(numbers.size, np.bool_)
    inside[ptr[:-1]] = False  # the first of each set has nothing before it
    if (np.diff(numbers, prepend=-1)[inside] <= 0).any():
        raise BadKeywords(f"the keywords of {what} do not ascend within each set; use Vocabulary.encode")
    return KeywordSets(np.require(ptr, np.int64, ["C", "W"]), np.require(numbers, np.int32, ["C", "W"]))


def _laid_out(array: Any, dtype: type) -> bool:
    """Whether this is a column as kernels take it."""
    return type(array) is np.ndarray and array.dtype == dtype and array.ndim == 1 and array.flags.carray


@njit(cache=True)
def _ascend(ptr, numbers, words):
    """Whether these are sets of numbers below `words`, none empty, each ascending and distinct."""
    if ptr.size == 0 or ptr[0] != 0 or ptr[-1] != numbers.size:
        return False
    for i in range(ptr.size - 1):
        if not 0 <= ptr[i] < ptr[i + 1] <= numbers.size:
            return False
        last = -1
        for j in range(ptr[i], ptr[i + 1]):
            if numbers[j] <= last or numbers[j] >= words:
                return False
            last = numbers[j]
    return True


def _checked(sets: Any) -> list[set[str]]:
    if isinstance(sets, str) or not isinstance(sets, Iterable):
        raise BadKeywords(f"keywords are {sets!r}; pass one set of strings per row")
    found = []
    for row, strings in enumerate(sets):
        if isinstance(strings, str) or not isinstance(strings, Iterable):
            raise BadKeywords(f"row {row}: keywords are {strings!r}; pass a set of strings")
        distinct = set(strings)
        if not distinct:
            raise BadKeywords(f"row {row} has no keywords; give at least one")
        for string in distinct:
            if not isinstance(string, str) or not string:
                raise BadKeywords(f"row {row}: keyword {string!r} is no non-empty string")
        found.append(distinct)
    return found
