"""What a protocol that `sees_load` may read of its broker: how much waits there and in front of its links, and what was
dropped. Brokers of such protocols get their events one at a time, since each one's place in the queue is part of it.

    class Shedding(BrokerProtocol):
        sees_load = True

        def on_message(self, message):
            if self.node.load.backlog_ns(message) > 50_000_000: ...
"""

from __future__ import annotations

from typing import Protocol

from brokers.contract import Message


class Loads(Protocol):
    """The load of all brokers, as the engine knows it. Times are those of what a broker is given just now."""

    def busy_until(self, broker: int, time: int) -> int:
        """When a broker is done with all that it was given."""
        ...

    def free_from(self, broker: int, link: int, time: int) -> int:
        """When a link of a broker has sent what waits in front of it."""
        ...

    def held(self, broker: int, time: int) -> int:
        """How many messages a broker holds, where its queue is limited."""
        ...

    def dropped(self, broker: int) -> int:
        """How many found no place in its queue."""
        ...

    def dropped_ahead(self, link: int) -> int:
        """How many found none in front of a link."""
        ...


class Load:
    """The load of one broker."""

    __slots__ = ("_broker", "_of")

    def __init__(self, broker: int, of: Loads) -> None:
        self._broker = broker
        self._of = of

    def backlog_ns(self, message: Message) -> int:
        """How much work the broker still has when the message comes: what it would wait."""
        return max(self._of.busy_until(self._broker, message.time) - message.time, 0)

    def held(self, message: Message) -> int:
        """How many messages the broker holds when this one comes, where its queue is limited; 0 where it is not."""
        return self._of.held(self._broker, message.time)

    def link_backlog_ns(self, message: Message, link: int) -> int:
        """After what time a link of this broker with a bandwidth has sent what waits in front of it."""
        return max(self._of.free_from(self._broker, link, message.time) - message.time, 0)

    @property
    def dropped(self) -> int:
        """How many messages found no place in the broker's queue until now."""
        return self._of.dropped(self._broker)

    def dropped_ahead(self, link: int) -> int:
        """How many found none in front of a link until now."""
        return self._of.dropped_ahead(link)


__all__ = ["Load", "Loads"]
