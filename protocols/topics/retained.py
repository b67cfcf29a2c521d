"""What a broker keeps of retained publications: the last of each name.

Of two publications of one name the later one is the last: by the time at which its client sent it, then by its id. All
brokers see both with the publication, so they agree on the last of what has come to them in whatever order it came. An
empty one is kept as any other, since what it took back may be on its way yet; it is nothing to whoever subscribes. So
a broker holds as many entries as names were ever retained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from brokers.indexes.topics.syntax import Syntax, matches

Name = tuple[int, ...]
Last = tuple[int, int, bool]  # when it was sent, its id, and whether it is empty: in the order of the first two
Kept = dict[Name, Last]


def keep(kept: Kept, name: Name, last: Last) -> bool:
    """Take it over unless a later one is kept; whether it was."""
    if name in kept and kept[name] >= last:
        return False
    kept[name] = last
    return True


def found(kept: Kept, filter: list[int], syntax: Syntax) -> list[tuple[Last, Name]]:
    """What is kept under the names that a filter has, in the order in which it was sent. O(names)."""
    return sorted((last, name) for name, last in kept.items() if not last[2] and matches(filter, name, syntax))


def ids(kept: Kept) -> list[int]:
    """All that is kept, by id: what two brokers compare, since an id stands for name and time as well."""
    return sorted(id_ for _, id_, _ in kept.values())


def written(kept: Kept, known: Iterable[int]) -> list[list[Any]]:
    """What is kept beside what is known by id, as plain data."""
    there = frozenset(known)
    return [[*last, *name] for name, last in sorted(kept.items()) if last[1] not in there]


def read(rows: Iterable[list[Any]]) -> Iterator[tuple[Name, Last]]:
    """What `written` made."""
    for sent, id_, empty, *name in rows:
        yield tuple(name), (sent, id_, bool(empty))
