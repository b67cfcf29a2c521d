"""The room of brokers: how far each may run and has run, what it did, and what waits in its service queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Ints
from brokers.engine import layout as L
from brokers.engine.outages import Outages


class Queues:
    """The brokers of a model, those of a shard among them `local`. Arrays are by broker."""

    def __init__(
        self, local: NDArray[np.bool_], patience_ns: Ints, shortest_timer_ns: Ints, outages: Outages
    ) -> None:
        brokers = local.size
        self._outages = outages
        self.local = np.ascontiguousarray(local)
        self.broker_state = np.zeros((brokers, L.BROKER_STATE), np.int64)
        self.next_time = np.full(brokers, NEVER, np.int64)
        self.frontier = np.zeros(brokers, np.int64)  # everything before it was handled
        self._horizon = np.zeros(brokers, np.int64)
        self._patience = patience_ns
        self._shortest_timer = shortest_timer_ns
        self._unfinished: list[tuple[NDArray[Any], Ints]] = []

    def arrays(self) -> dict[str, Any]:
        """What kernels see of the brokers."""
        return {
            "broker_state": self.broker_state, "next_time": self.next_time, "horizon": self._horizon,
            "frontier": self.frontier, "local": self.local, "patience": self._patience,
            "shortest_timer": self._shortest_timer,
        }  # fmt: skip

    @property
    def mine(self) -> Ints:
        return np.flatnonzero(self.local)

    @property
    def handled(self) -> int:
        """Events that local brokers have handled."""
        return int(self.broker_state[:, L.B_HANDLED].sum())

    def earliest(self) -> int:
        """The next event known of."""
        return int(self.next_time.min(initial=NEVER))

    def expect(self, brokers: Any, times: Any) -> None:
        """Something reaches these brokers at these times."""
        np.minimum.at(self.next_time, brokers, times)

    def number(self, broker: int) -> int:
        """The number of the next thing that a broker sends or sets."""
        number = int(self.broker_state[broker, L.B_SEQUENCE])
        self.broker_state[broker, L.B_SEQUENCE] += 1
        return number

    def note_unfinished(self, broker: NDArray[Any], time: Ints, finish: Ints) -> None:
        """Remember until when brokers serve what they have handled at these times."""
        self._unfinished.append((broker.copy(), self._outages.served_until(broker, time, finish).copy()))

    def forget_finished(self, at: int) -> None:
        """Forget batches of which all was finished at time `at`."""
        self._unfinished = [part for part in self._unfinished if (part[1] > at).any()]

    def lengths(self, at: int) -> Ints:
        """How many handled messages of each broker are not finished at time `at`, which only rises."""
        broker, finish = self._open(at)
        self._unfinished = [(broker, finish)] if broker.size else []
        return np.bincount(broker, minlength=self.local.size).astype(np.int64)

    def backlog_ns(self, at: int) -> Ints:
        """Service time that each broker still owes at time `at` for what it has handled."""
        return np.maximum(self._outages.busy_until(self.broker_state, at) - at, 0)

    @property
    def idle(self) -> bool:
        """Whether all that was noted as unfinished was finished when last looked at."""
        return not self._unfinished

    def _open(self, at: int) -> tuple[NDArray[Any], Ints]:
        """(broker, finish) of what is not finished at a time."""
        parts = [(broker[finish > at], finish[finish > at]) for broker, finish in self._unfinished]
        return (
            np.concatenate([np.empty(0, np.int32), *(broker for broker, _ in parts)]),
            np.concatenate([np.empty(0, np.int64), *(finish for _, finish in parts)]),
        )

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self, now: int) -> dict[str, Any]:
        """What local brokers did, and what waits in their queues at a window's border."""
        broker, finish = self._open(now)
        return {
            "brokers": self.mine,
            "broker_state": self.broker_state[self.mine],
            "unfinished_broker": broker,
            "unfinished_finish": finish,
        }

    def load(self, states: Sequence[dict[str, Any]], now: int) -> None:
        """Take over, from the states of all shards, what belongs to local brokers."""
        self.frontier[:] = now
        self._horizon[:] = now
        for state in states:
            mine = self.local[state["brokers"]]
            self.broker_state[state["brokers"][mine]] = state["broker_state"][mine]
            mine = self.local[state["unfinished_broker"]]
            self._unfinished.append((state["unfinished_broker"][mine], state["unfinished_finish"][mine]))
