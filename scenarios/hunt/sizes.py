"""How much a protocol remembers: the things in its containers, counted by the attribute under which they lie.

An attribute is named by its way from the broker, as `routes.seen`. Each thing counts once, a number or text as one, an
array by its size: what a container has room for is not asked, so that a list, a dictionary or a set tells what it
holds. A deque with a bound counts as that bound. What is the engine's or follows from the model is passed over.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from brokers.bodies import Bodies
from brokers.contract import BrokerProtocol, ShardEnv
from brokers.engine.adaptor import PlainAdaptor
from brokers.engine.served import Served
from brokers.node import Node, Outgoing

_ATOMS = (int, float, complex, str, bool, type(None), np.generic)
_GIVEN = (ShardEnv, Node, Outgoing, Bodies, type)  # to a protocol: not what it remembers
_NOT_ITS_OWN = ("brokers.engine.", "topology.", "builtins", "numba.", "weakref")

Sizes = Counter[str]
ALL = -1


def sizes_of(protocol: Any) -> dict[int, Sizes]:
    """Of the protocol of a shard, by broker; under `ALL` of one that serves arrays, all brokers as one."""
    if isinstance(protocol, Served):
        return {**sizes_of(protocol.rest), **sizes_of(protocol.office)}
    if isinstance(protocol, PlainAdaptor):
        return {number: _of_broker(each, protocol.shared) for number, each in protocol.brokers.items()}
    return {ALL: _counted(protocol, set())}


def _of_broker(broker: BrokerProtocol, shared: Mapping[str, Any]) -> Sizes:
    found = _counted(broker, {id(each) for each in shared.values()})
    found["node.store"] += len(broker.node.store)
    return found


def _counted(owner: Any, seen: set[int]) -> Sizes:
    """The things under each attribute of an object, and of the objects that are its attributes."""
    found: Sizes = Counter()
    ahead = [("", owner)]
    while ahead:
        path, thing = ahead.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        for name, value in _attributes(thing):
            inside = f"{path}.{name}" if path else name
            if _remembers(value):
                ahead.append((inside, value))
            else:
                found[inside] += _things(value, seen)
    return found


def _things(value: Any, seen: set[int]) -> int:
    """How many things are in a value, and in what is in it."""
    count, ahead = 0, [value]
    while ahead:
        each = ahead.pop()
        if isinstance(each, _ATOMS):
            count += 1
        elif isinstance(each, bytes | bytearray):
            count += 1 + len(each)
        elif id(each) not in seen and not isinstance(each, _GIVEN) and not callable(each):
            seen.add(id(each))
            if isinstance(each, np.ndarray):
                count += each.size
            elif isinstance(each, deque) and each.maxlen is not None:
                count += 1 + each.maxlen
            elif isinstance(each, Mapping):
                count += 1
                ahead += [*each.keys(), *each.values()]
            elif isinstance(each, list | tuple | set | frozenset | deque):
                count += 1
                ahead += each
            else:
                count += 1
                ahead += [inner for _, inner in _attributes(each)] if _remembers(each) else ()
    return count


def _remembers(thing: Any) -> bool:
    """Whether it is an object of a protocol's own, or of what protocols are made of."""
    kind = type(thing)
    if isinstance(thing, _GIVEN) or callable(thing) or isinstance(thing, Mapping | list | tuple | set | frozenset):
        return False
    return not kind.__module__.startswith(_NOT_ITS_OWN) and bool(hasattr(thing, "__dict__") or _slots(kind))


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for name in _slots(type(thing)):
        if hasattr(thing, name):
            yield name, getattr(thing, name)


def _slots(kind: type) -> list[str]:
    said = (_said(vars(base).get("__slots__", ())) for base in kind.__mro__)
    return [name for names in said for name in names if not name.startswith("__")]


def _said(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
