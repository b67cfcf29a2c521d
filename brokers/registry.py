"""Names and what they stand for: a table of strings, so that listing imports nothing.

A registry maps a name to an `Entry`. Installed packages add to it by entry points of the group `brokerlab.<group>`.
What of it a file may name, and what of that may run, is decided in `brokers.names`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from brokers.errors import BrokerlabError, InvalidInput


@dataclass(frozen=True)
class Entry:
    """One registered name."""

    target: str  # "module:attribute"
    prose: str  # one line for `brokerlab list`
    facts: dict[str, Any] = field(default_factory=dict)  # e.g. {"kind": "content"}


def load(target: str) -> Any:
    """The object that "module:attribute" names. Importing runs code: only for targets that code names itself."""
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


def imported(target: str) -> Any:
    """The same of what others wrote: InvalidInput whatever their module does while it is imported."""
    try:
        return load(target)
    except BrokerlabError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"{target!r} cannot be imported: {type(error).__name__}: {error}") from error


def entries(table: Mapping[str, Any], group: str) -> dict[str, Entry]:
    """The built-in table plus what installed packages registered under `brokerlab.<group>`."""
    merged = {
        name: each if isinstance(each, Entry) else Entry(each.target, each.prose) for name, each in table.items()
    }
    for name, entry in installed(group):
        merged.setdefault(name, entry)
    return merged


def installed(group: str) -> list[tuple[str, Entry]]:
    """What installed packages registered under `brokerlab.<group>`."""
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _installed(group: str, path: tuple[str, ...]) -> list[tuple[str, Entry]]:
    """The entry points of a group; `path` is where they were looked for, since looking takes milliseconds."""
    from importlib.metadata import entry_points

    return [
        (point.name, Entry(_without_extras(point.value), f"from {point.dist.name if point.dist else '?'}"))
        for point in entry_points(group=f"brokerlab.{group}")
    ]


def _without_extras(value: str) -> str:
    return value.partition("[")[0].replace(" ", "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A guess if there is a near one, else the list."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names)}" if names else "there are none"
