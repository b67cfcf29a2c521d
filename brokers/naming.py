"""Numbers of clients and names of messages, as people say and read them.

Inside, and in the tables of a trace, brokers, servers and clients share one row of *entity ids*, so that order and
digest need one number only; the clients' come last. Outside, in every command, a client has its number, from 0. A
message is the n-th of a client: 37#5 is the sixth of client 37. Its id is the entity id << 32 | number.
"""

from __future__ import annotations

import re

from brokers.errors import InvalidInput

_NAME = re.compile(r"(\d{1,10})#(\d{1,10})")


def message_name(id: int, nodes: int) -> str:
    """37#5 for the sixth message of client 37, in a network of so many brokers and servers; else the id itself."""
    return f"{(id >> 32) - nodes}#{id & 0xFFFFFFFF}" if id >> 32 >= nodes else str(id)


def message_id(name: str, nodes: int) -> int:
    """The id behind 37#5, or the id itself."""
    pair = _NAME.fullmatch(name)
    if pair is not None:
        return int(pair[1]) + nodes << 32 | int(pair[2])
    if re.fullmatch(r"\d{1,19}", name):
        return int(name)
    raise InvalidInput(f"{name!r} names no message: give its id, or client#number, as in 37#5")


def entity_name(entity: int, nodes: int) -> str:
    """Who an entity id means: broker 3, or client 37."""
    return f"broker {entity}" if entity < nodes else f"client {entity - nodes}"
