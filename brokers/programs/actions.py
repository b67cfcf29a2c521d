"""What a program answers to a batch: actions, each looked at before it counts.

The first that cannot be done is refused with what was said, so that its author finds it: `Refused` has the event.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from brokers.contract import NEVER, Batch, Ints, ShardEnv
from brokers.errors import InvalidInput
from brokers.node import Outgoing
from brokers.out import SAME, TYPE_MAX, Out

_SHOWN = 160  # letters of an action
_INT_MAX = (1 << 63) - 1
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class Refused(Exception):
    """An action that cannot be done: why, and which event it is about (-1: none that there is)."""

    def __init__(self, why: str, event: int = -1) -> None:
        super().__init__(why)
        self.event = event


class Actions:
    """Carries out what a program answers."""

    def __init__(self, env: ShardEnv, timer_min_ns: int) -> None:
        self._env = env
        self._timer_min_ns = timer_min_ns
        self._source: list[int] = env.links.source.tolist()  # by link
        self._clients = env.client_broker.size
        self._outgoing = Outgoing(env)
        self._brokers: list[int] = []  # by event of the batch
        self._out: Out
        self.entries: Ints = np.zeros(env.brokers, np.int64)
        self._known: dict[str, Callable[..., None]] = {
            "forward": self._forward, "deliver": self._deliver, "send": self._send, "send_row": self._send_row,
            "timer": self._timer, "cost": self._cost, "work": self._work, "entries": self._entries,
            "depends": self._depends, "leans": self._leans,
        }  # fmt: skip

    def carry_out(self, batch: Batch, out: Out, actions: Any) -> None:
        """Do everything that was answered to a batch, or raise Refused."""
        if type(actions) is not list:
            raise Refused(f"`actions` is no list but {_shown(actions)}")
        self._brokers, self._out = batch.broker.tolist(), out
        self._outgoing.out = out
        known = self._known
        for action in actions:
            try:
                known[action[0]](*action[1:])
            except Refused as refused:
                event = action[1] if action[0] not in ("depends", "leans") else -1
                there = type(event) is int and 0 <= event < len(self._brokers)
                raise Refused(f"{refused} (it said {_shown(action)})", event if there else -1) from None
            except (TypeError, KeyError, IndexError) as error:
                raise Refused(self._malformed(action)) from error
        self._outgoing.hand_on()

    def _malformed(self, action: Any) -> str:
        """Why what stands in the place of an action is none."""
        if type(action) is not list or not action or type(action[0]) is not str:
            return f'an action is a list that begins with its name, as ["forward", 0, 7] (it said {_shown(action)})'
        if action[0] not in self._known:
            return f"there is no action {action[0]!r:.40}; there are {', '.join(self._known)}"
        return f"{action[0]!r} {_TAKES[action[0]]} (it said {_shown(action)})"

    # ---- what there is to do -------------------------------------------------------------------------

    def _broker(self, event: int) -> int:
        """The broker of an event."""
        if type(event) is not int or not 0 <= event < len(self._brokers):
            raise Refused(f"there is no event {event!r:.40}; those asked about are 0 to {len(self._brokers) - 1}")
        return self._brokers[event]

    def _check_link(self, event: int, link: int) -> None:
        broker = self._broker(event)
        if type(link) is not int or not 0 <= link < len(self._source) or self._source[link] != broker:
            mine = [number for number, source in enumerate(self._source) if source == broker]
            known = f"{', '.join(map(str, mine[:8]))}{', ...' if len(mine) > 8 else ''}" or "none"
            raise Refused(f"{link!r:.40} is no link of broker {broker}, whose links are {known}")

    def _forward(self, event: int, link: int) -> None:
        self._check_link(event, link)
        self._outgoing.send_event.append(event)
        self._outgoing.send_link.append(link)

    def _deliver(self, event: int, client: int) -> None:
        broker = self._broker(event)
        if type(client) is not int or not 0 <= client < self._clients:
            raise Refused(f"there is no client {client!r:.40}; there are 0 to {self._clients - 1}")
        if self._env.client_broker[client] != broker:
            raise Refused(f"client {client} is at broker {self._env.client_broker[client]}, not at {broker}")
        a = self._outgoing
        a.deliver_event.append(event)
        a.deliver_client.append(client)
        a.deliver_body.append(int(self._body_of(event)))

    def _send(self, event: int, link: int, type: Any, word: Any = 0, body: Any = None, cause: Any = SAME) -> None:
        self._check_link(event, link)
        _check_type(type)
        handle = -1
        if body is not None:
            try:
                handle = self._out.body(body, type, event)
            except InvalidInput as error:
                raise Refused(f"its body cannot be sent: {error}") from None
        self._put(event, link, type, handle, _number(word, "word"), cause)

    def _send_row(self, event: int, link: int, type: Any, word: Any, row: Any, cause: Any = SAME) -> None:
        self._check_link(event, link)
        _check_type(type)
        bodies = self._env.bodies
        numbers = _row(row)[None, :]
        named = bodies.stands_for(int(self._body_of(event)))
        handle = int(bodies.add_rows(self._env.service, type, numbers, *named)[0])
        self._put(event, link, type, handle, _number(word, "word"), cause)

    def _put(self, event: int, link: int, type: int, handle: int, word: int, cause: Any) -> None:
        a = self._outgoing
        a.detail[len(a.send_event)] = (type, handle, word, -1, self._cause(cause))
        a.send_event.append(event)
        a.send_link.append(link)

    def _timer(self, event: int, delay_ns: Any, type: Any, word: Any = 0, cause: Any = SAME) -> None:
        self._broker(event)
        _check_type(type)
        if self._timer_min_ns >= NEVER:
            raise Refused("it said of itself that it sets no timers; answer hello with `timer_min_ns`")
        delay = _number(delay_ns, "delay_ns")
        if not self._timer_min_ns <= delay < NEVER:
            raise Refused(f"a timer of {delay} ns is below its `timer_min_ns` of {self._timer_min_ns} ns")
        self._out.timer(event, delay, type, _number(word, "word"), -1, self._cause(cause))

    def _cost(self, event: int, ns: Any) -> None:
        self._broker(event)
        self._out.cost(event, _count(ns, "ns"))

    def _work(self, event: int, entries: Any, matches: Any = 0) -> None:
        self._broker(event)
        self._out.work(event, _count(entries, "entries"), _count(matches, "matches"))

    def _entries(self, event: int, count: Any) -> None:
        self.entries[self._broker(event)] = _count(count, "count")

    def _depends(self, change: Any, on: Any) -> None:
        self._out.depends(_number(change, "change"), _number(on, "on"))

    def _leans(self, interest: Any, on: Any) -> None:
        self._out.leans(_number(interest, "interest"), _number(on, "on"))

    # ---- pieces of it --------------------------------------------------------------------------------

    def _body_of(self, event: int) -> Any:
        return self._out._batch.body[event]

    def _cause(self, cause: Any) -> int:
        return self._outgoing.cause_handle(SAME if cause is SAME else _number(cause, "cause"))


_TAKES = {
    "forward": "takes the event and the link", "deliver": "takes the event and the client",
    "send": "takes event, link, type, and perhaps word, body and cause",
    "send_row": "takes event, link, type, word, row, and perhaps the cause",
    "timer": "takes event, delay in ns, type, and perhaps word and cause", "cost": "takes the event and ns",
    "work": "takes the event, entries looked at, and perhaps matches found",
    "entries": "takes the event and a count", "depends": "takes two changes", "leans": "takes two interests",
}  # fmt: skip


def _check_type(type_: Any) -> None:
    if type(type_) is not int or not 0 <= type_ <= TYPE_MAX:
        raise Refused(f"the type is {type_!r:.40}; there are 0 to {TYPE_MAX}, those of a protocol's own from 16 on")


def _number(value: Any, what: str) -> int:
    """A whole number of 64 bits, or a text of its digits."""
    if type(value) is str and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -_INT_MAX <= value <= _INT_MAX:
        raise Refused(f"`{what}` is {value!r:.40}, which is no whole number of 64 bits")
    return value


def _count(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < NEVER:
        raise Refused(f"`{what}` is {value!r:.40}, which is no count")
    return value


def _row(row: Any) -> Any:
    """Numbers, with None for what is missing."""
    if type(row) is not list or not row or not all(each is None or type(each) in (int, float) for each in row):
        raise Refused("a row is a list of numbers, and null where there is none")
    try:
        return np.array([np.nan if each is None else each for each in row], np.float64)
    except OverflowError:
        raise Refused("a number of the row is too large") from None


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "what is nested too deeply"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
