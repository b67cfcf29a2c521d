"""Words of levels as numbers, and back.

    0                  the empty word
    below 2^24         the whole number that the word spells: what workloads draw needs no table
    from 2^24 on       the word's place among all other words of the service, in order (`brokers.words`)

A word that begins with `$` has the bit `DOLLAR` beside, and its number is that of what follows where this is spelled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from brokers.errors import InvalidInput
from brokers.indexes.topics.syntax import DOLLAR
from brokers.words import KEYWORDS as LEVELS
from brokers.words import words_of

SPELLED_MAX = (1 << 24) - 1  # numbers up to here are spelled out


def is_spelled(word: str) -> bool:
    """Whether a word's number follows from its text alone."""
    digits = word.removeprefix("$")
    plain = digits.isascii() and digits.isdecimal() and digits[0] != "0" and int(digits) <= SPELLED_MAX
    return not word or plain


def code_of(place: int, word: str) -> int:
    """The number of a word that has this place among those that are not spelled out."""
    return (SPELLED_MAX + 1 + place) | (DOLLAR if word.startswith("$") else 0)


def number_of(word: str, params: Mapping[str, Any]) -> int:
    """The number of a word of a service."""
    if not word:
        return 0
    if is_spelled(word):
        return int(word.removeprefix("$")) | (DOLLAR if word[0] == "$" else 0)
    known: Sequence[str] = words_of(params).get(LEVELS, ())
    place = bisect_left(known, word)
    if place == len(known) or known[place] != word:
        raise InvalidInput(f"the word {word!r} is none of the service's")
    return code_of(place, word)


def word_of(number: int, params: Mapping[str, Any]) -> str:
    """The word that a number stands for; of one that nobody spelled, what tells it from others."""
    plain = number & ~DOLLAR
    if plain <= SPELLED_MAX:
        return "" if number == 0 else f"{'$' if number & DOLLAR else ''}{plain}"
    known: Sequence[str] = words_of(params).get(LEVELS, ())
    place = plain - SPELLED_MAX - 1
    return known[place] if place < len(known) else f"word-{place}"
