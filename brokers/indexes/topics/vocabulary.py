"""Words in numbers and back, for those who come with text.

A service of a simulation has its words before it runs and numbers of its own; an index used as a library takes these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brokers.indexes.topics.contract import Rows, checked_syntax, padded
from brokers.indexes.topics.syntax import DOLLAR, Syntax

_UNKNOWN = DOLLAR - 1  # a word that no filter has, so that names do not fill the table


class Vocabulary:
    """The words of filters, each with a number of its own in the order in which they came."""

    def __init__(self, syntax: str | Syntax = "mqtt") -> None:
        self.syntax = checked_syntax(syntax)
        self._number = {"": 0}
        self._word = {0: ""}

    def __len__(self) -> int:
        return len(self._number)

    def filters(self, texts: Iterable[str]) -> Rows:
        """Filters as an index takes them; new words get numbers. BadFilter if one is none."""
        return padded([self.syntax.filter_in_numbers(text, self._learned) for text in texts])

    def names(self, texts: Iterable[str]) -> Rows:
        """Names as an index takes them; all words that no filter has share one number. BadName if one is none."""
        return padded([self.syntax.name_in_numbers(text, self._known) for text in texts])

    def texts(self, rows: Rows) -> list[str]:
        """The text of filters, from rows of numbers."""
        return [self.spelled(row) for row in rows.tolist()]

    def spelled(self, levels: Sequence[float]) -> str:
        """The text of one filter."""
        return self.syntax.spelled(levels, self._word.__getitem__)

    def _learned(self, word: str) -> int:
        number = self._number.get(word)
        if number is None:
            number = len(self._number) | self._mark(word)
            self._number[word], self._word[number] = number, word
        return number

    def _known(self, word: str) -> int:
        return self._number.get(word, _UNKNOWN | self._mark(word))

    def _mark(self, word: str) -> int:
        return DOLLAR if word.startswith("$") else 0
