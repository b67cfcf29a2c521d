"""Words of attributes that hold text: each stands for its place among all words of its attribute, in order.

The numbers follow from the set of words alone, so every shard and engine has the same, and ranges of words, such
as all that begin alike, are ranges of numbers. A run collects the words of a service before it begins and hands
them to the kind as the parameter `words`; the trace keeps them as the table `words`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from brokers.schema import Column, Table

KEYWORDS = -1  # the place of an attribute, for words that belong to none
PARAMETER = "words"  # of a kind: {attribute: words in order}
_LAST = "\U0010ffff"

Words = Mapping[int, Sequence[str]]

WORDS: dict[str, Table] = {
    "words": Table(
        "The text behind the numbers of attributes that hold text: one row per word. Only where a service has any.",
        "deliveries",
        (
            Column("service", "int16", "number of the service in the scenario"),
            Column("attribute", "int32", "number of the attribute (-1: keywords)"),
            Column("code", "int64", "the number that stands for the word in `values`"),
            Column("text", "string", "the word"),
        ),
    )
}


def words_of(params: Mapping[str, Any]) -> Words:
    """The words of a service, by attribute."""
    found: Words = params.get(PARAMETER) or {}
    return found


def word_of(words: Words, attribute: int, code: float | None) -> Any:
    """The word that a number stands for; what stands for none is told as it is."""
    known = words.get(attribute)
    if known is None or code is None or not (0 <= code < len(known) and code == int(code)):
        return code
    return known[int(code)]


def words_in(run: Any, service: int) -> dict[str, Any]:
    """The parameter `words` of a service, from the trace of a run; nothing where it has none."""
    if "words" not in run.tables():
        return {}
    found: dict[int, list[str]] = {}
    rows = run.read("words")
    for number, attribute, text in zip(*(rows[name].to_pylist() for name in ("service", "attribute", "text"))):
        if number == service:
            found.setdefault(attribute, []).append(text)
    return {PARAMETER: {attribute: sorted(found[attribute]) for attribute in sorted(found)}} if found else {}


def beginning_with(words: Sequence[str], prefix: str) -> tuple[int, int]:
    """The first and the last code of the words that begin so; the last is below the first if there is none."""
    return bisect_left(words, prefix), bisect_left(words, prefix + _LAST) - 1


def rows_of(services: Sequence[Any]) -> tuple[list[int], list[int], list[int], list[str]]:
    """The table `words` as columns, from the services of a model."""
    rows = [
        (number, attribute, service.kind_class.code_of(place, word), word)
        for number, service in enumerate(services)
        for attribute, words in sorted(words_of(service.params).items())
        for place, word in enumerate(words)
    ]
    service, attribute, code, text = ([row[i] for row in rows] for i in range(4))
    return service, attribute, code, text  # type: ignore[return-value]
