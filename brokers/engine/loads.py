"""The load of brokers, for protocols that see it: read where the engine keeps it."""

from __future__ import annotations

from brokers.contract import Ints
from brokers.engine import layout as L
from brokers.engine.crowding import Crowding
from brokers.engine.outages import Outages


class LoadsOfShard:
    """`brokers.load.Loads` of a shard. All that came before is settled when a protocol asks."""

    def __init__(self, broker_state: Ints, link_state: Ints, outages: Outages, crowding: Crowding) -> None:
        self._brokers, self._links = broker_state, link_state
        self._outages, self._crowding = outages, crowding

    def busy_until(self, broker: int, time: int) -> int:
        return min(int(self._brokers[broker, L.B_BUSY]), self._fell(broker, time))

    def free_from(self, broker: int, link: int, time: int) -> int:
        return min(int(self._links[link, L.L_FREE]), self._fell(broker, time))

    def held(self, broker: int, time: int) -> int:
        return self._crowding.held(broker, time)

    def dropped(self, broker: int) -> int:
        return int(self._brokers[broker, L.B_DROPPED])

    def dropped_ahead(self, link: int) -> int:
        return int(self._links[link, L.L_DROPPED])

    def _fell(self, broker: int, time: int) -> int:
        """When a broker crashed last, if it has done nothing since: what it had to do then, it never does."""
        return self._outages.fell(self._brokers, broker, time)


__all__ = ["LoadsOfShard"]
