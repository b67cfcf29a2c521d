"""What a broker keeps where a crash does not reach it: plain data by name, written at a cost.

    node.store.put(message, "epoch", 7)   # charges the cost model's `per_write`
    node.store.get("epoch", 0)            # 7, after a crash with `state: stored` too

What is written stands from the time of its message on. What is read is made anew each time: changing it changes
nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from brokers.columns import BadState
from brokers.contract import Message
from brokers.errors import InvalidInput, WireError
from brokers.wire.bodies import decode_body, encode_body

Name = str | int


class Store:
    """The store of one broker and service."""

    __slots__ = ("_charge", "_kept")

    def __init__(self, charge: Callable[[Message], None]) -> None:
        """`charge` is told of each message because of which something is written."""
        self._charge = charge
        self._kept: dict[Name, bytes] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: Name) -> bool:
        return name in self._kept

    def __iter__(self) -> Iterator[Name]:
        """The names, in the order in which they were first written."""
        return iter(self._kept)

    def get(self, name: Name, default: Any = None) -> Any:
        """What stands under a name."""
        return decode_body(self._kept[name]) if name in self._kept else default

    def put(self, message: Message, name: Name, value: Any) -> None:
        """Write plain data under a name."""
        self._kept[_checked(name)] = encode_body(value)
        self._charge(message)

    def remove(self, message: Message, name: Name) -> None:
        """Have nothing under a name any more; the same cost, if there was something."""
        if self._kept.pop(name, None) is not None:
            self._charge(message)

    def take_over(self, other: Store) -> None:
        """Have what another store has."""
        self._kept = dict(other._kept)

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> list[list[Any]]:
        """Names and what stands there, encoded."""
        return [[name, data] for name, data in self._kept.items()]

    def load(self, state: Any) -> None:
        """Take over what `state` gave, out of a file that anybody may have written."""
        if type(state) is not list:
            raise BadState("its store is no list")
        self._kept = {}
        for each in state:
            pair = type(each) is list and len(each) == 2
            if not pair or type(each[0]) not in (str, int) or type(each[1]) is not bytes:
                raise BadState("its store has an entry that is no name with bytes")
            try:
                decode_body(each[1])
            except WireError as why:
                raise BadState(f"its store has no plain data under {each[0]!r:.60}") from why
            self._kept[each[0]] = each[1]


def _checked(name: Name) -> Name:
    if type(name) not in (str, int):
        raise InvalidInput(f"node.store: {name!r:.60} is no name; a name is text or a whole number")
    encode_body(name)  # or it could not be kept in a checkpoint
    return name


__all__ = ["Store"]
