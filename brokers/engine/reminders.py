"""What clients tell again: a broker that comes back without what it knew hears what its clients had told it.

A client keeps what it wants, whatever becomes of its broker. At the restart it says again all that stands: interests
that it has not withdrawn, and the last of its values, in the order in which it said them, with the same body and as
part of the same change. What it has published it does not publish again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from brokers.bodies import Bodies
from brokers.columns import BadState, Column, check_columns
from brokers.contract import NEVER, Ints, Kind
from brokers.engine import layout as L
from brokers.engine.causes import Causes
from brokers.engine.outages import Outages

_EVERY = -1  # in the place of a type: ids of interests are their own, whatever their type
_TOLD = ("service", "type", "client", "word", "body", "change")
_COLUMNS = {
    "service": Column("i8", ("told",), 0, "services"),
    "type": Column("i8", ("told",), 0, 128),
    "client": Column("i8", ("told",), 0, "clients"),
    "word": Column("i8", ("told",)),
    "body": Column("i8", ("told",)),  # its uid; -1 for none
    "change": Column("i8", ("told",)),  # its id; negative for what stood from the start
}


class Told(NamedTuple):
    """What a client has told its broker, and nothing has ended."""

    service: int
    type: int
    client: int
    word: int
    body: int
    change: int


class Reminders:
    """What stands at the brokers of a shard that are going to forget it."""

    def __init__(self, outages: Outages, kinds: Sequence[Kind], bodies: Bodies, causes: Causes) -> None:
        self._kinds, self._bodies, self._causes = kinds, bodies, causes
        ends, first = outages.forgets.table[L.Z_END], outages.forgets.first
        broker = np.repeat(np.arange(first.size - 1), np.diff(first))
        due = sorted((end, b) for end, b in zip(ends.tolist(), broker.tolist()) if end < NEVER)
        self._due = due
        self._times = np.array([time for time, _ in due], np.int64)
        self._last = np.full(first.size - 1, -1, np.int64)  # by broker, when it forgets for the last time
        for time, b in due:
            self._last[b] = time
        self._standing: dict[int, dict[tuple[int, int, int, int], Told]] = {}

    def next_after(self, time: int) -> int:
        """When the next broker comes back after a time; NEVER if none does."""
        at = int(np.searchsorted(self._times, time, "right"))
        return int(self._times[at]) if at < self._times.size else NEVER

    def wanted(self, brokers: Any, times: Any) -> Any:
        """Which changes of clients of these brokers may have to be told again."""
        return self._last[brokers] > times

    def note(self, told: list[tuple[int, Told]]) -> None:
        """Clients have told their brokers of changes; those of a client have rising numbers."""
        for broker, each in sorted(told, key=lambda pair: pair[1].change):
            self._note(broker, each)

    def _note(self, broker: int, told: Told) -> None:
        kind, standing = self._kinds[told.service], self._standing.setdefault(broker, {})
        if told.type in kind.revocations:
            standing.pop((told.service, _EVERY, told.client, told.word), None)
        elif told.type in kind.publications:
            return
        elif told.type in kind.interests:
            standing[told.service, _EVERY, told.client, told.word] = told
        elif told.type in kind.replacements:
            standing[told.service, told.type, told.client, told.word] = told

    def again(self, since: int, until: int) -> tuple[Ints, Ints]:
        """What is told again from `since` until before `until`: when, and a row of it each, with handles of changes."""
        first, last = np.searchsorted(self._times, (since, until)).tolist()
        times: list[int] = []
        rows: list[Told] = []
        for time, broker in self._due[first:last]:
            standing = self._standing.get(broker, {})
            if self._last[broker] <= time:
                self._standing.pop(broker, None)
            times += [time] * len(standing)
            rows += sorted(standing.values(), key=lambda told: (told.client, told.service, told.change))
        table = np.array(rows, np.int64).reshape(-1, len(_TOLD))
        change = table[:, _TOLD.index("change")]
        change[:] = self._causes.handles(np.where(change < 0, -1, change))  # none is of what stood from the start
        return np.array(times, np.int64), table

    def held(self) -> list[int]:
        """Handles of the bodies that may be needed again."""
        return [told.body for standing in self._standing.values() for told in standing.values() if told.body >= 0]

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Ints]:
        """All that stands, by ids of the model."""
        told = [each for standing in self._standing.values() for each in standing.values()]
        columns = dict(zip(_TOLD, np.array(told, np.int64).reshape(-1, len(_TOLD)).T.copy()))
        columns["body"] = self._bodies.uids(columns["body"])
        return columns

    def load(self, state: Mapping[str, Any], client_broker: Any, mine: Any, handle_of: Mapping[int, int]) -> None:
        """Take over what stands at the brokers that are `mine`."""
        client = state["client"]
        for row in np.flatnonzero(mine[client_broker[client]]).tolist():
            uid = int(state["body"][row])
            if uid != -1 and uid not in handle_of:
                raise BadState(f"a client may have to tell of body {uid} again, which the checkpoint does not have")
            told = [int(state[name][row]) for name in _TOLD]
            self._note(int(client_broker[client[row]]), Told(*told)._replace(body=handle_of.get(uid, -1)))


def check_reminders(state: Any, services: int, clients: int) -> None:
    """Refuse what is none."""
    check_columns(state, _COLUMNS, {"services": services, "clients": clients})


__all__ = ["Reminders", "Told", "check_reminders"]
