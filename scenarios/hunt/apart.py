"""The judge that looks at every broker after each message: what one handles changes no other, and no message.

The protocol runs in its author's view, one object per broker. For the first few hundred messages, before and after a
broker handles one, what the others remember (their attributes, without those that are `remade`) and what it carries are
written down and compared. So it does not matter by what way brokers have something in common: a class, a module, a
default argument, a closure, a set that came in a message.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from brokers.contract import BrokerProtocol, Message
from brokers.engine.simulate import simulate
from brokers.errors import Interrupted
from scenarios.hunt.running import EVENTS_MOST, Outcome
from scenarios.hunt.shared import Shared

_NAME = "Watched"  # under which the engine finds the class, in this module
_CHECKED_AT_END = 500  # bodies
_LOOKED_AT = 400  # messages of a run, from the first: what comes later is handled unwatched


def apart(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What a broker changed that is not its own."""
    protocol = outcome.model.services[0].protocol_class
    plain = protocol if issubclass(protocol, BrokerProtocol) else protocol.plain
    if outcome.failed or plain is None:
        return
    watch = _Watch(outcome.model.overlay.names)
    setattr(sys.modules[__name__], _NAME, _watched(plain, watch))
    (spec,) = outcome.model.services
    spec = replace(spec, protocol_target=f"{__name__}:{_NAME}", view="message")
    shared = Shared(plain)
    try:
        simulate(replace(outcome.model, services=[spec], messages_max=EVENTS_MOST))
        watch.last_look()
    except Interrupted:
        raise KeyboardInterrupt from None
    except Exception:  # of the protocol: this is for the judge `fails`
        return
    finally:
        shared.changed()
    yield from watch.found.items()


def _watched(plain: Any, watch: _Watch) -> Any:
    """The same protocol, watched."""

    class Watched(plain):
        on_run = None

        def __init__(self, node: Any) -> None:
            super().__init__(node)
            watch.begun(self)

        def on_message(self, message: Message) -> None:
            watch.around(self, message, super().on_message)

        def on_standing(self, *standing: Any) -> None:
            super().on_standing(*standing)
            watch.begun(self)

        def first_timers(self) -> list[tuple[int, int, int]]:
            timers = super().first_timers()
            watch.begun(self)
            return list(timers)

    if plain.drops_told_ns:
        Watched.on_drop = lambda self, message: watch.around(self, message, super(Watched, self).on_drop)
    if plain.on_fault is not None:
        Watched.on_fault = lambda self, message: watch.around(self, message, super(Watched, self).on_fault)
    return Watched


class _Watch:
    """What all brokers remember, as it was after the last message."""

    def __init__(self, names: Any) -> None:
        self.found: dict[str, str] = {}  # sort -> sentence, the first of each
        self._names = names
        self._looked = 0  # at so many messages
        self._brokers: dict[int, Any] = {}
        self._known: dict[int, dict[str, bytes]] = {}
        self._silent: set[str] = set()  # attributes that cannot be written down
        self._bodies: dict[int, tuple[Any, bytes, str]] = {}  # by the id of what was seen of a body, which is kept

    def begun(self, broker: Any) -> None:
        """A broker is there, there again, or has been given something."""
        self._brokers[broker.node.broker] = broker
        self._known[broker.node.broker] = self._written(broker)

    def around(self, broker: Any, message: Message, handle: Callable[[Message], None]) -> None:
        """Have a broker handle a message, and look what that changed."""
        self._looked += 1
        if self._looked > _LOOKED_AT:
            handle(message)
            return
        here = broker.node.broker
        self._brokers[here] = broker
        about = f"{self._names[here]} handled a message of type {message.type} at {message.time} ns"
        self._look_at_body(broker.node, message, about)
        handle(message)
        for other, thing in self._brokers.items():
            now = self._written(thing)
            if other != here:
                for name, was in self._known[other].items():
                    if now.get(name, was) != was and "state" not in self.found:
                        self.found["state"] = f"{name!r} of broker {self._names[other]} changed when {about}"
            self._known[other] = now
        self._look_at_body(broker.node, message, about)

    def _look_at_body(self, node: Any, message: Message, about: str) -> None:
        if message.body < 0 or len(self._bodies) >= _CHECKED_AT_END:
            return
        body = node.env.bodies.object(message.body)
        if not isinstance(body, dict | list):
            return
        known = self._bodies.setdefault(id(body), (body, self._bytes(body), about))
        if self._bytes(body) != known[1]:
            self._changed_body(about)

    def _changed_body(self, about: str) -> None:
        told = f"what a message carries was changed in place when {about}: all who get it share it"
        self.found.setdefault("body", told)

    def last_look(self) -> None:
        """What was kept of a message may have been changed later."""
        for body, was, about in self._bodies.values():
            if self._bytes(body) != was:
                self._changed_body(f"{about}, or later")

    # ---- writing down ----------------------------------------------------------------------------------

    def _written(self, broker: Any) -> dict[str, bytes]:
        """Every attribute of a broker, as bytes."""
        left_out = {"node"}.union(*(vars(kind).get("remade", ()) for kind in type(broker).__mro__))
        found = {}
        for name, value in vars(broker).items():
            if name not in left_out and name not in self._silent:
                try:
                    found[name] = self._bytes(value, broker.node)
                except Exception:  # nobody can pickle everything
                    self._silent.add(name)
        return found

    def _bytes(self, value: Any, node: Any = None) -> bytes:
        into = BytesIO()
        _Pickler(into, node).dump(value)
        return into.getvalue()


class _Pickler(pickle.Pickler):
    """Writes what a protocol made itself; of what is the engine's, or follows from the overlay, that it is there."""

    def __init__(self, into: Any, node: Any) -> None:
        super().__init__(into, 5)
        self._common = {} if node is None else {id(each) for each in node.shared.values()}

    def persistent_id(self, thing: Any) -> Any:
        if _known_of(type(thing)).of_the_engine or id(thing) in self._common or callable(thing):
            return id(thing)
        return None

    def reducer_override(self, thing: Any) -> Any:
        """Without what a record works out once, when somebody asks for it."""
        worked_out = _known_of(type(thing)).worked_out
        if not worked_out or not hasattr(thing, "__dict__"):
            return NotImplemented
        kept = {name: value for name, value in vars(thing).items() if name not in worked_out}
        return object.__new__, (type(thing),), kept


class _Known(NamedTuple):
    """What is asked of a class for each of its objects."""

    of_the_engine: bool
    worked_out: tuple[str, ...]  # the attributes that it works out once


_KNOWN: WeakKeyDictionary[type, _Known] = WeakKeyDictionary()  # a watched protocol is another class in every run


def _known_of(kind: type) -> _Known:
    known = _KNOWN.get(kind)
    if known is None:
        every = (item for base in kind.__mro__ for item in vars(base).items())
        worked_out = tuple(name for name, each in every if isinstance(each, cached_property))
        known = _KNOWN[kind] = _Known(kind.__module__.startswith("brokers."), worked_out)
    return known
