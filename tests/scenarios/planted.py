"""Subscription forwarding with a bug planted in each; what the hunt has to find, beside `PlainSubscription` itself."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np

from brokers.contract import TIMER
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.subscription import PlainSubscription, client_of

_TICK = 99


class ForgetsToWithdraw(PlainSubscription):
    """A withdrawal is not passed on."""

    def _leave(self, message: Any, id: int, via: int) -> None:
        self.came_by[id].discard(via)
        if not self.came_by[id]:
            del self.came_by[id], self.sent_over[id]
            self.node.table.remove(id)


class ForgetsALink(PlainSubscription):
    """A subscription goes over two links at most."""

    def passes_on(self, message: Any, id: int, link: int) -> bool:
        return len(self.sent_over[id]) < 2


class ForwardsTwice(PlainSubscription):
    """What is withdrawn and subscribed by another at one time is forwarded once more."""

    def on_message(self, message: Any) -> None:
        super().on_message(message)
        if message.type == PUBLISH and message.link >= 0 and len(self.came_by) > 1:
            self._publish(message)


class KeepsBodies(PlainSubscription):
    """A body that is kept is never dropped."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.kept: list[Any] = []

    def on_message(self, message: Any) -> None:
        if message.type == SUBSCRIBE and message.link < 0:
            self.kept.append(self.node.keep(message))
        super().on_message(message)


class SharesState(PlainSubscription):
    """What one broker knows, all of them know."""

    met: ClassVar[dict[int, int]] = {}

    def on_message(self, message: Any) -> None:
        if message.type == SUBSCRIBE:
            self.met[message.word] = self.node.broker
        super().on_message(message)


class CountsStretches(PlainSubscription):
    """Of a stretch of publications the last one is forgotten, if there are several."""

    def on_run(self, run: Any) -> None:
        messages = run.messages()
        late = len(messages) > 1 and messages[0].type == PUBLISH
        for message in messages[: -1 if late else None]:
            self.on_message(message)


class TicksForEver(PlainSubscription):
    """A timer that nobody stops."""

    timer_min_ns = 1_000_000
    remade: ClassVar[tuple[str, ...]] = ("handing",)

    def on_message(self, message: Any) -> None:
        if message.kind == TIMER and message.type == _TICK:
            self.node.timer(message, 500_000_000, _TICK)
            return
        if message.type == SUBSCRIBE and message.link < 0:
            self.node.timer(message, 500_000_000, _TICK)
        super().on_message(message)


class LeavesOutEnds(PlainSubscription):
    """`<` for `<=` at the lower end of a range."""

    def on_message(self, message: Any) -> None:
        if message.type == PUBLISH and self._at_an_end(message):
            return
        super().on_message(message)

    def _at_an_end(self, message: Any) -> bool:
        values = self.node.row(message.body)
        for id_ in self.node.table.match(message.body):
            row = np.reshape(self.node.table.interest(id_)[1], (-1, 3))
            if any(values[int(a)] == low for a, low, _ in row if a == a):
                return True
        return False


class ForgetsOnCheckpoints(PlainSubscription):
    """What went over links is not kept."""

    remade: ClassVar[tuple[str, ...]] = ("handing", "timer_min_ns", "sent_over")

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.sent_over = {id_: set() for id_ in self.came_by}


class AnswersItself(PlainSubscription):
    """A publication goes back where it came from."""

    def on_message(self, message: Any) -> None:
        if message.type == PUBLISH:
            for link in self.node.links:
                self.node.forward(message, link)
        super().on_message(message)


class TrustsWithdrawals(PlainSubscription):
    """It stumbles over the withdrawal of what has no second client."""

    def _unsubscribe(self, message: Any) -> None:
        others = [
            id_
            for id_ in self.came_by
            if client_of(self.node.env, id_) != client_of(self.node.env, message.word)
        ]
        assert others or message.type != UNSUBSCRIBE, "somebody is left"
        super()._unsubscribe(message)


class SharesDefaults(PlainSubscription):
    """What one broker knows, all of them know: by an argument's default."""

    def on_message(self, message: Any, met: dict[int, int] = {}) -> None:  # noqa: B006
        met[message.word] = message.time
        super().on_message(message)


class SharesAClosure(PlainSubscription):
    """By what a function has around it."""

    def _counting() -> Any:  # type: ignore[misc]
        met: list[int] = []

        def on_message(self: Any, message: Any) -> None:
            met.append(message.word)
            PlainSubscription.on_message(self, message)

        return on_message

    on_message = _counting()


class _Book:
    def __init__(self) -> None:
        self.met: dict[int, int] = {}


_BOOK = _Book()


class SharesARecord(PlainSubscription):
    """By a record in a variable of the module."""

    def on_message(self, message: Any) -> None:
        _BOOK.met[message.word] = message.time
        super().on_message(message)


class SharesAnObject(PlainSubscription):
    """By something that no class or module has: the node's common store, in which a list is put."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.met = node.shared.setdefault("book", {"met": []})["met"]

    def on_message(self, message: Any) -> None:
        self.met.append(message.word)
        super().on_message(message)


class ChangesBodies(PlainSubscription):
    """Passes on what it was sent, with something put into it."""

    def on_message(self, message: Any) -> None:
        if message.type == _TICK:
            way = self.node.body(message)
            way.append(self.node.broker)
            return
        super().on_message(message)
        if message.type == SUBSCRIBE:
            for link in self.node.links:
                if link != message.link:
                    self.node.send(message, link, _TICK, [1])


class GoesBySets(PlainSubscription):
    """Sends in the order of a set of text."""

    def on_message(self, message: Any) -> None:
        super().on_message(message)
        if message.type == SUBSCRIBE and message.link < 0:
            for name in {f"name {i}" for i in range(20)}:
                for link in self.node.links:
                    self.node.send(message, link, _TICK, word=int(name.split()[1]))


class Dies(PlainSubscription):
    """Ends its process."""

    def on_message(self, message: Any) -> None:
        os._exit(7)


FOUND_BY = {
    ForgetsToWithdraw: {"leaks", "budget"},
    ForgetsALink: {"delivery"},
    ForwardsTwice: {"delivery", "budget"},
    KeepsBodies: {"leaks"},
    SharesState: {"isolation"},
    SharesDefaults: {"isolation"},
    SharesAClosure: {"isolation"},
    SharesARecord: {"isolation"},
    SharesAnObject: {"apart"},
    ChangesBodies: {"apart"},
    CountsStretches: {"delivery", "cutting"},
    TicksForEver: {"quiet", "storm"},
    LeavesOutEnds: {"delivery"},
    ForgetsOnCheckpoints: {"resuming"},
    AnswersItself: {"storm", "budget"},
    TrustsWithdrawals: {"fails"},
}
