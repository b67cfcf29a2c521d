"""A protocol over the arrays of a shard whose service has a server: the server is an object in the author's view.

The protocol decides for the brokers and passes over what reaches the server, `env.server`; that class which it names
in `server` decides for it. Either may be missing on a shard; what they keep has the same form on all. A handler in
compiled code is not asked: it knows nothing of servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from brokers.columns import check_columns
from brokers.contract import Batch, Interests, Ints, ShardEnv, ShardProtocol
from brokers.engine.adaptor import PlainAdaptor
from brokers.out import Out

_PARTS = frozenset({"brokers", "server"})


class Served(ShardProtocol):
    """See the module."""

    def __init__(self, env: ShardEnv, protocol: type[ShardProtocol]) -> None:
        super().__init__(env)
        self.kind = protocol.kind  # type: ignore[misc]
        self.rest = protocol(env)
        self.office = PlainAdaptor(env, protocol, server_only=True)
        self.drops_told_ns = protocol.drops_told_ns  # type: ignore[misc]
        self._here = bool(env.local[env.server])

    def timer_min_by_broker(self) -> Ints:
        return np.minimum(self.rest.timer_min_by_broker(), self.office.timer_min_by_broker())

    def stand(self, interests: Interests) -> None:
        self.rest.stand(interests)
        self.office.stand(interests)

    def first_timers(self) -> list[tuple[int, int, int, int]]:
        return [*self.rest.first_timers(), *self.office.first_timers()]

    def handle(self, batch: Batch, out: Out) -> None:
        at_server = int((batch.broker == self.env.server).sum()) if self._here else 0
        if at_server < batch.size:
            self.rest.handle(batch, out)
        if at_server:
            self.office.handle(batch, out)

    def held(self) -> list[int]:
        return [*np.asarray(self.rest.held(), np.int64).tolist(), *self.office.held()]

    def entries(self) -> Ints:
        return self.rest.entries() + self.office.entries()

    def describe(self, broker: int) -> dict[str, Any]:
        return (self.office if broker == self.env.server else self.rest).describe(broker)

    def state(self) -> dict[str, Any]:
        return {"brokers": self.rest.state(), "server": self.office.state()}

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        for state in states:
            check_columns(state, {}, others=_PARTS)
        self.rest.load([state["brokers"] for state in states], handle_of)
        self.office.load([state["server"] for state in states], handle_of)
