"""Names and what they stand for: a table of strings, so that listing imports nothing.

A registry maps a name to an `Entry`. A third party's class is named `package.module:Class` wherever a
registered name may stand, or registered by an entry point of the group `brokerlab.<group>`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from brokers.errors import InvalidInput


@dataclass(frozen=True)
class Entry:
    """One registered name."""

    target: str  # "module:attribute"
    prose: str  # one line for `brokerlab list`
    facts: dict[str, Any] = field(default_factory=dict)  # e.g. {"kind": "content"}


def load(target: str) -> Any:
    """The object that "module:attribute" names."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise InvalidInput(f"{target!r} is not of the form package.module:Name")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise InvalidInput(f"{target!r}: there is no module {error.name!r} on the path") from None
        raise
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise InvalidInput(f"{target!r}: module {module_name!r} has no {attribute!r}") from None


def entries(table: Mapping[str, Entry], group: str) -> dict[str, Entry]:
    """The built-in table plus what installed packages registered under `brokerlab.<group>`."""
    from importlib.metadata import entry_points

    merged = dict(table)
    for point in entry_points(group=f"brokerlab.{group}"):
        merged.setdefault(point.name, Entry(point.value, f"from {point.dist.name if point.dist else '?'}"))
    return merged


def resolve(name: str, table: Mapping[str, Entry], what: str) -> str:
    """The target of a registered name, or of a `module:Class` given in its place."""
    if ":" in name:
        return name
    if name in table:
        return table[name].target
    close = get_close_matches(name, table, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(table))}"
    raise InvalidInput(f"no {what} named {name!r}; {hint}")
