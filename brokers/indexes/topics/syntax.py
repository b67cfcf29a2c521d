"""Names with levels and filters over them, as MQTT 5 and NATS have them: text, rules, and numbers.

A name is levels with a separator between them. A filter is levels too, some of them wildcards: `one` stands for exactly
one level, `rest` for all that are left. The two syntaxes differ in this:

|                       | mqtt                          | nats                         |
|-----------------------|-------------------------------|------------------------------|
| separator, one, rest  | `/`, `+`, `#`                 | `.`, `*`, `>`                |
| empty levels          | count, and differ             | are refused, blanks as well  |
| `rest` stands for     | zero or more: `a/#` has `a`   | one or more                  |
| `$` rule              | a filter that begins with a   | none                         |
|                       | wildcard has no name that     |                              |
|                       | begins with `$`               |                              |
| wildcards in a word   | are refused: `a#`             | are plain: `foo*`            |

Groups stand in the text of MQTT only, as `$share/group/filter`; in NATS the group is a word beside the subject.

Indexes know no text. A level is a number: its word's, 0 for the empty word, with the bit `DOLLAR` where the word
begins with `$`; `PLUS` and `HASH` for the wildcards; `PADDING` behind the last level where rows have one width (NaN
where rows are floats). `matches` is the one definition of a match: every index is held to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from brokers.errors import InvalidInput

DOLLAR = 1 << 30  # set in the number of a word that begins with `$`
PLUS, HASH, PADDING = -1, -2, -3
WORD_MAX = (1 << 31) - 1

_BYTES_MAX = 65_535  # of a name or filter: MQTT writes its length as two bytes
_SHARE = "$share/"

Levels = Sequence[int]


class BadFilter(InvalidInput):
    """Text or numbers that are no filter of the syntax."""


class BadName(InvalidInput):
    """Text or numbers that are no name of the syntax."""


class Subscription(NamedTuple):
    """What a client asks for: a filter, and the group it asks with, if any."""

    group: str | None
    filter: str


@dataclass(frozen=True)
class Syntax:
    """One of the two; the methods take text and refuse it with an error that names the level and the rule."""

    name: str
    separator: str
    one: str
    rest: str
    rest_may_be_empty: bool  # whether `rest` also stands for no level
    dollar_rule: bool  # whether a leading wildcard leaves out names that begin with `$`
    empty_levels: bool
    wildcards_within_words: bool

    def levels_of_name(self, text: str) -> list[str]:
        """The words of a name that something is published under; it has no wildcards."""
        words = self._split(text, "name", BadName)
        for place, word in enumerate(words, 1):
            if word in (self.one, self.rest) or (not self.wildcards_within_words and self._wildcard_in(word)):
                raise BadName(
                    f"the name {text!r} has {word!r} as level {place}; names have no wildcards, filters do"
                )
        return words

    def levels_of_filter(self, text: str) -> list[str]:
        """The words of a filter, wildcards as they are spelled. A group is no part of it: see `subscription`."""
        words = self._split(text, "filter", BadFilter)
        for place, word in enumerate(words, 1):
            if word == self.rest and place < len(words):
                raise BadFilter(
                    f"the filter {text!r} has {word!r} as level {place} of {len(words)}; "
                    "it stands for all that is left, so it comes last"
                )
            wildcard = None if self.wildcards_within_words or len(word) == 1 else self._wildcard_in(word)
            if wildcard:
                raise BadFilter(
                    f"the filter {text!r} has {word!r} as level {place}; {wildcard!r} stands for whole levels: "
                    f"write it alone between {self.separator!r}"
                )
        return words

    def subscription(self, text: str) -> Subscription:
        """A filter with its group where the text names one; both are checked."""
        if not self._names_group(text):
            self.levels_of_filter(text)
            return Subscription(None, text)
        _, group, *rest = text.split(self.separator, 2)
        shape = f"a shared subscription is {_SHARE}group/filter"
        if not group:
            raise BadFilter(f"{text!r} has no name of a group after {_SHARE}; {shape}")
        wildcard = self._wildcard_in(group)
        if wildcard:
            raise BadFilter(f"{text!r} has {wildcard!r} in the name of its group, {group!r}; wildcards are for filters")
        if not rest or not rest[0]:
            raise BadFilter(f"{text!r} has no filter after its group {group!r}; {shape}")
        self.levels_of_filter(rest[0])
        return Subscription(group, rest[0])

    def name_in_numbers(self, text: str, number: Callable[[str], int]) -> list[int]:
        """A name as an index takes it; `number` gives each word its own."""
        return [number(word) for word in self.levels_of_name(text)]

    def filter_in_numbers(self, text: str, number: Callable[[str], int]) -> list[int]:
        """A filter as an index takes it."""
        wildcards = {self.one: PLUS, self.rest: HASH}
        return [wildcards[word] if word in wildcards else number(word) for word in self.levels_of_filter(text)]

    def spelled(self, levels: Sequence[float], word: Callable[[int], str]) -> str:
        """The text of a name or filter in numbers, without its padding; `word` is what a number stands for."""
        wildcards = {PLUS: self.one, HASH: self.rest}
        there = [int(level) for level in levels if level == level and level != PADDING]
        return self.separator.join(wildcards[level] if level < 0 else word(level) for level in there)

    def _split(self, text: str, what: str, error: type[InvalidInput]) -> list[str]:
        if not isinstance(text, str):
            raise error(f"a {what} is text, not {text!r}")
        if not text:
            raise error(f"the {what} is empty; it has at least one character")
        if "\0" in text:
            raise error(f"the {what} {text!r} has the character U+0000 at place {text.index(chr(0)) + 1}; leave it out")
        try:
            size = len(text.encode())
        except UnicodeEncodeError as bad:
            half = f"half a surrogate pair at place {bad.start + 1}"
            raise error(f"the {what} {text!r} has {half}; UTF-8 has none") from None
        if size > _BYTES_MAX:
            raise error(f"the {what} {text[:40]!r}… takes {size:,} bytes of UTF-8; there are at most {_BYTES_MAX:,}")
        words = text.split(self.separator)
        if not self.empty_levels:
            self._refuse_empty(text, words, what, error)
        return words

    def _refuse_empty(self, text: str, words: list[str], what: str, error: type[InvalidInput]) -> None:
        for place, word in enumerate(words, 1):
            if not word:
                raise error(f"the {what} {text!r} has nothing as level {place}; {self.name} has no empty levels")
            if any(character.isspace() for character in word):
                raise error(f"the {what} {text!r} has a blank in level {place}, {word!r}; {self.name} allows none")

    def _wildcard_in(self, word: str) -> str | None:
        return next((character for character in word if character in (self.one, self.rest)), None)

    def _names_group(self, text: str) -> bool:
        return self is MQTT and isinstance(text, str) and text.startswith(_SHARE)


MQTT = Syntax("mqtt", "/", "+", "#", True, True, True, False)
NATS = Syntax("nats", ".", "*", ">", False, False, False, True)
SYNTAXES = {syntax.name: syntax for syntax in (MQTT, NATS)}


def syntax_named(name: str | Syntax) -> Syntax:
    """A syntax by its name, or itself."""
    if isinstance(name, Syntax):
        return name
    if name not in SYNTAXES:
        raise InvalidInput(f"there is no syntax {name!r}; there are: {', '.join(SYNTAXES)}")
    return SYNTAXES[name]


def mqtt_in_nats(text: str) -> list[str]:
    """The NATS subjects that together have what a filter (or name) of MQTT has, but for the `$` rule, which NATS lacks.

    A filter that ends in `/#` needs two, since `>` does not stand for nothing. An empty level becomes the word `/`.
    """
    words = MQTT.levels_of_filter(text)
    for place, word in enumerate(words, 1):
        if word in (NATS.one, NATS.rest) or "." in word or any(character.isspace() for character in word):
            raise BadFilter(f"{text!r} has {word!r} as level {place}, which is no plain word in NATS; rename it")
    spelled = [{"": "/", MQTT.one: NATS.one, MQTT.rest: NATS.rest}.get(word, word) for word in words]
    subjects = [".".join(spelled)]
    if words[-1] == MQTT.rest and len(words) > 1:
        subjects.insert(0, ".".join(spelled[:-1]))
    return subjects


def matches(filter: Levels, name: Levels, syntax: Syntax) -> bool:
    """The definition: whether the filter has the name; both in numbers, without padding."""
    if syntax.dollar_rule and filter[0] < 0 and name[0] & DOLLAR:
        return False
    for place, level in enumerate(filter):
        if level == HASH:
            return syntax.rest_may_be_empty or place < len(name)
        if place == len(name) or level not in (PLUS, name[place]):
            return False
    return len(filter) == len(name)


def covers(outer: Levels, inner: Levels, syntax: Syntax) -> bool:
    """Whether `outer` has every name that `inner` has, by comparing them level by level.

    True is always so. It is told of every pair where it is so but one: `+/#` of MQTT has all that `#` has, since a name
    has a level at least.
    """
    if syntax.dollar_rule and outer[0] < 0 and inner[0] >= DOLLAR:
        return False
    for place, level in enumerate(outer):
        if level == HASH:
            return syntax.rest_may_be_empty or place < len(inner)
        if place == len(inner) or inner[place] == HASH or level not in (PLUS, inner[place]):
            return False
    return len(outer) == len(inner)


def intersection(one: Levels, other: Levels, syntax: Syntax) -> list[int] | None:
    """The filter that has the names that both have; None if there is no such name. Exact."""
    if syntax.dollar_rule and (one[0] < 0 <= DOLLAR <= other[0] or other[0] < 0 <= DOLLAR <= one[0]):
        return None
    common: list[int] = []
    for a, b in zip(one, other):
        if HASH in (a, b):
            break
        if a != b and PLUS not in (a, b):
            return None
        common.append(max(a, b))
    rest, other_rest = list(one[len(common) :]), list(other[len(common) :])
    for left, right in ((rest, other_rest), (other_rest, rest)):
        if left == [HASH] and (right or syntax.rest_may_be_empty):
            return common + right
    return None if rest or other_rest else common


def intersects(one: Levels, other: Levels, syntax: Syntax) -> bool:
    """Whether there is a name that both have. Exact."""
    return intersection(one, other, syntax) is not None
