"""What clients send: staged as sources emit it, admitted window by window, in order.

A source vouches for a stretch of its own choosing, usually beyond the window. What lies in the window is
merged over all sources: numbered per client in the order of its sends, given bodies and causes, and laid out
by broker. At the next window all of it has been handled, so the input lanes start empty each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.bodies import Bodies
from brokers.contract import NEVER, Emission, Ints, Kind
from brokers.engine import layout as L
from brokers.engine.causes import Causes
from brokers.engine.model import Model
from brokers.engine.movers import Movers, taken
from brokers.engine.notices import Notices
from brokers.engine.outages import Outages
from brokers.engine.reminders import Reminders, Told
from brokers.errors import ProtocolFault

_NOTHING = np.empty(0, np.int64)
_PLENTY = 1 << 17  # messages of clients that are made at once, as long as sources have said so much
_SERVICE, _TYPE, _CLIENT, _WORD, _BODY, _CAUSE = range(6)  # of what is told again
_CLIENT_UID = -1 << 63  # marks the uid of a body that a client made


class Inputs:
    """The input lanes of a shard."""

    def __init__(
        self,
        model: Model,
        brokers: int,
        kinds: Sequence[Kind],
        bodies: Bodies,
        causes: Causes,
        trace: Any,
        outages: Outages,
        lane: int = 0,
    ) -> None:
        """`lane`: which of the shards that have these bodies in common."""
        self._lane = lane
        self._outages = outages
        self.notices: Notices | None = None  # what brokers are told of faults
        self.reminders = Reminders(outages, kinds, bodies, causes)
        self._told: list[tuple[int, Told]] = []  # what clients have told in the window at hand
        self.movers: Movers | None = None  # clients that come and go
        self._model = model
        self._brokers = brokers
        self._kinds = kinds
        self._bodies = bodies
        self._causes = causes
        self._trace = trace
        self._client_broker = model.client_broker
        self.sequence = np.zeros(model.client_broker.size, np.int64)  # per client: messages sent so far
        self._staged: list[tuple[int, int, Emission]] = []
        self._first = NEVER  # the earliest time staged
        self._waiting = 0  # messages staged
        self.past_ns = (
            0  # a resumed run lets sources run again from the start and drops what lies before this
        )
        self.rows = np.zeros((1, L.INPUT), np.int64)
        self.at = np.zeros(brokers, np.int64)  # rows at[b]:end[b] are broker b's
        self.end = np.zeros(brokers, np.int64)
        self.publications = np.zeros(len(kinds), np.int64)
        self.refused = np.zeros(len(kinds), np.int64)  # publications whose broker was down
        self.changes: list[dict[str, Any]] = []

    def stage(self, service: int, source: int, emissions: list[Emission]) -> None:
        """Keep what a source emitted until its window comes."""
        for emission in emissions:
            if self.movers is not None:
                emission = self.movers.split(service, source, emission)
            self._keep(service, source, emission)

    def _keep(self, service: int, source: int, emission: Emission) -> None:
        emission = self._awaited(service, emission)
        meant = emission.time if emission.meant is None else emission.meant  # what waits is said after the end, too
        within = (emission.time >= self.past_ns) & (emission.time < NEVER) & (meant < self._model.duration_ns)
        if not within.all():
            emission = taken(emission, within)
        if emission.time.size:
            self._staged.append((service, source, emission))
            self._first = min(self._first, int(emission.time.min()))
            self._waiting += emission.time.size

    def _awaited(self, service: int, emission: Emission) -> Emission:
        """Changes wait until the broker is up that they are told; publications do not."""
        if not self._outages.any or emission.type not in self._kinds[service].changes:
            return emission
        up = self._outages.up_from(self._client_broker[emission.client], emission.time)
        return replace(emission, time=up, meant=emission.time)

    @property
    def first(self) -> int:
        """When the next thing reaches a broker from outside of the network."""
        found = self._first if self.notices is None else min(self._first, self.notices.first)
        return found if self.movers is None else min(found, self.movers.first)

    def plenty(self) -> bool:
        """Whether so much is staged that it had better be handled before there is more."""
        return self._waiting >= _PLENTY

    def arrays(self) -> dict[str, Any]:
        """What kernels see; `inputs` is replaced in every window that has any."""
        return {"inputs": self.rows, "input_at": self.at, "input_end": self.end}

    def admit(self, now: int, end: int) -> tuple[int, Ints, Ints]:
        """Lay out everything that comes before `end`; returns how many rows, the brokers they reach, and from when."""
        if self.first >= end:
            return 0, _NOTHING, _NOTHING
        for sent in () if self.movers is None else self.movers.before(end):
            self._keep(*sent)
        again = self.reminders.again(now, end)
        parts = [self._sent(now, end, *again)] if self._first < end or again[0].size else []
        if self.notices is not None:
            parts.append(self.notices.take_before(end))
        late, _ = waiting = self._waiting_rows()
        if late.size:
            parts.append(waiting)
        if not parts:
            return 0, _NOTHING, _NOTHING
        broker, columns = parts[0] if len(parts) == 1 else (np.concatenate(each, -1) for each in zip(*parts))
        keys = (columns[L.M_SEQUENCE], columns[L.I_SOURCE], columns[L.M_TIME], broker)
        order = np.lexsort(keys)
        broker, rows = broker[order], np.ascontiguousarray(columns[:, order].T)
        if not broker.size:  # nobody was there to take it
            return 0, _NOTHING, _NOTHING
        starts = np.flatnonzero(np.concatenate(([True], broker[1:] != broker[:-1])))
        holders = broker[starts]
        self.rows = rows
        self.at[:] = 0
        self.end[:] = 0
        self.at[holders] = starts
        self.end[holders] = np.append(starts[1:], len(rows))
        return len(rows) - late.size, holders, rows[starts, L.M_TIME]

    def _waiting_rows(self) -> tuple[Ints, Ints]:
        """The broker of each row, and the columns of rows, that brokers have not begun with."""
        brokers = np.flatnonzero(self.at < self.end)
        sizes = (self.end - self.at)[brokers]
        at = np.repeat(self.at[brokers] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        return np.repeat(brokers, sizes), self.rows[at].T

    def waiting_bodies(self) -> Ints:
        """Handles of the bodies in them."""
        handles: Ints = self._waiting_rows()[1][L.M_PACKED] >> 24
        return handles[handles >= 0]

    @property
    def left_over(self) -> tuple[Ints, Ints]:
        """The brokers that have not begun with something that clients sent, and since when; one for each such thing."""
        brokers, columns = self._waiting_rows()
        return brokers, columns[L.M_TIME]

    def _sent(self, now: int, end: int, again_at: Ints, again: Ints) -> tuple[Ints, Ints]:
        """What clients send before `end`: the broker of each, and the columns of input rows.

        `again`: what they tell again before `end`, and when.
        """
        parts = self._take_before(now, end)
        n = sum(e.time.size for _, _, e in parts)
        self._waiting -= n
        table = self._merge(parts, n, again_at, again)
        sequence = self._number(table[1])
        if self._outages.any:
            table, sequence = self._accepted(table, sequence)
        when, client, word, service_of, type_of, part_of, row_of = table
        key = ((self._brokers + client) << 32) | sequence
        body = np.full(when.size, -1, np.int64)
        cause = np.full(when.size, -1, np.int64)
        for group in _alike(parts):
            mine: Any = slice(None)
            if len(group.numbers) < len(parts) or again_at.size:
                mine = np.flatnonzero(np.isin(part_of, group.numbers))
            content = group.content(part_of[mine], row_of[mine])
            body[mine], cause[mine] = self._describe(
                group.service, group.type, content, when[mine], client[mine], key[mine], word[mine]
            )
        self._note_told()
        told: Any = np.flatnonzero(part_of < 0)
        body[told], cause[told] = again[row_of[told], _BODY], again[row_of[told], _CAUSE]
        sent = self._causes.counted[self._lane].counts[:, L.C_SENT]
        np.add.at(sent, cause[told[cause[told] >= 0]], 1)
        self._bodies.carry(body, 1, self._lane)
        columns = np.empty((L.INPUT, when.size), np.int64)
        columns[L.M_TIME], columns[L.M_SEQUENCE], columns[L.M_WORD] = when, sequence, word
        columns[L.M_PACKED] = (body << 24) | (type_of << 8) | service_of
        columns[L.M_CAUSE], columns[L.I_SOURCE] = cause, self._brokers + client
        return self._client_broker[client], columns

    def _accepted(self, table: Ints, sequence: Ints) -> tuple[Ints, Ints]:
        """What of it reaches a broker that is up."""
        up = self._outages.up_from(self._client_broker[table[1]], table[0]) == table[0]
        self.refused += np.bincount(table[3, ~up], minlength=self.refused.size)
        return table[:, up], sequence[up]

    def _take_before(self, now: int, end: int) -> list[tuple[int, int, Emission]]:
        parts, keep = [], []
        self._first = NEVER
        for service, source, emission in self._staged:
            due = emission.time < end
            if not due.all():
                rest = taken(emission, ~due)
                keep.append((service, source, rest))
                self._first = min(self._first, int(rest.time.min()))
                emission = taken(emission, due)
            if emission.time.size:
                if int(emission.time.min()) < now:
                    raise ProtocolFault(
                        f"service {self._model.services[service].name!r}: a source emitted for "
                        f"{int(emission.time.min())} ns when the simulation had reached {now} ns"
                    )
                parts.append((service, source, emission))
        self._staged = keep
        return parts

    def _merge(
        self, parts: list[tuple[int, int, Emission]], n: int, again_at: Ints, again: Ints
    ) -> NDArray[np.int64]:
        """All parts in one, ordered by client, then time, service, source and place in the emission.

        What waited for a broker comes in the order in which it was meant to be sent, after what is told `again`.
        """
        table = np.empty((9, n + again_at.size), np.int64)
        table[0, n:], table[1, n:], table[2, n:] = again_at, again[:, _CLIENT], again[:, _WORD]
        table[3, n:], table[4, n:], table[5, n:] = again[:, _SERVICE], again[:, _TYPE], -1
        table[6, n:], table[7:, n:] = np.arange(again_at.size), -1
        at = 0
        for number, (service, source, emission) in enumerate(parts):
            size = emission.time.size
            part = table[:, at : at + size]
            part[0], part[1], part[2] = emission.time, emission.client, emission.word
            part[3], part[4], part[5], part[6], part[7] = (
                service,
                emission.type,
                number,
                np.arange(size),
                source,
            )
            if self._outages.any:
                part[8] = emission.time if emission.meant is None else emission.meant
            at += size
        when, client, _, service_of, _, part_of, row_of, source_of, meant = table
        keys = (row_of, part_of, source_of, service_of, *([meant] if self._outages.any else []), when, client)
        return table[:7, np.lexsort(keys)]

    def _number(self, client: Ints) -> Ints:
        """Each message's number among its client's; rows are ordered by client."""
        starts = np.flatnonzero(np.concatenate(([True], client[1:] != client[:-1])))
        counts = np.diff(np.append(starts, client.size))
        sequence = self.sequence[client] + np.arange(client.size) - np.repeat(starts, counts)
        self.sequence[client[starts]] += counts
        return sequence

    def _describe(
        self, service: int, type: int, content: Any, when: Ints, client: Ints, key: Ints, word: Ints
    ) -> tuple[Ints, Ints]:
        """Make the bodies and causes of messages of a type, and note what the trace wants of them.

        `content` is a matrix or a list of objects, one for each message; None if they have no bodies.
        """
        kind, bodies = self._kinds[service], self._bodies
        broker, entity = self._client_broker[client], self._brokers + client
        values = content if isinstance(content, np.ndarray) else None
        body = np.full(when.size, -1, np.int64)
        cause = np.full(when.size, -1, np.int64)
        if values is not None:
            body[:] = bodies.add_rows(service, type, values, when, key, broker, key | _CLIENT_UID)
        elif content is not None:
            body[:] = [
                bodies.add_object(service, type, each, t, k, b, k | _CLIENT_UID)
                for each, t, k, b in zip(content, when.tolist(), key.tolist(), broker.tolist())
            ]
        if type in kind.publications:
            self.publications[service] += when.size
            if self._trace.wants("publications"):
                self._trace.write(
                    "publications",
                    publication=key,
                    time_ns=when,
                    service=service,
                    broker=broker,
                    client=entity,
                    size_bytes=np.where(body >= 0, bodies.size[np.maximum(body, 0)], 0).astype(np.int32),
                    values=values,
                )
        if type in kind.changes:
            cause[:] = self._causes.new(key)
            self._note_change(service, type, key, word, client, when, False, values)
            self._remember(service, type, when, client, word, body, key)
        return body, cause

    def _remember(
        self, service: int, type: int, when: Ints, client: Ints, word: Ints, body: Ints, change: Ints
    ) -> None:
        """Note changes that may have to be told again."""
        if not self._model.faults.forgetful:
            return
        broker = self._client_broker[client]
        for i in np.flatnonzero(self.reminders.wanted(broker, when)).tolist():
            told = Told(service, type, *(int(column[i]) for column in (client, word, body, change)))
            self._told.append((int(broker[i]), told))

    def _note_told(self) -> None:
        self.reminders.note(self._told)
        self._told = []

    def note_standing(self, service: int, emission: Emission, local: NDArray[np.bool_]) -> None:
        """Interests that stand from the start are changes settled at time 0, before everything."""
        mine = local[self._client_broker[emission.client]]
        word = emission.word[mine]
        values = None if emission.rows is None else emission.rows[mine]
        client, issued = emission.client[mine], np.full(word.size, -1, np.int64)
        self._note_change(service, emission.type, -word, word, client, issued, True, values)
        if self._model.faults.forgetful:
            self._remember_standing(service, taken(emission, mine))

    def _remember_standing(self, service: int, emission: Emission) -> None:
        """The same of what stands from the start, which has no message that brought it."""
        wanted = self.reminders.wanted(self._client_broker[emission.client], -1)
        emission = taken(emission, wanted)
        client, key = emission.client, -emission.word
        broker, before, uid = self._client_broker[client], np.full(key.size, -1, np.int64), key | _CLIENT_UID
        body = before
        if emission.rows is not None:
            made = self._bodies.add_rows(service, emission.type, emission.rows, before, key, broker, uid)
            body = made.astype(np.int64)
        elif emission.objects is not None:
            columns = zip(emission.objects, key.tolist(), broker.tolist(), uid.tolist())
            body = np.array(
                [self._bodies.add_object(service, emission.type, each, -1, *more) for each, *more in columns], np.int64
            )
        self._remember(service, emission.type, before, client, emission.word, body, key)
        self._note_told()

    def _note_change(
        self,
        service: int,
        operation: int,
        change: Ints,
        interest: Ints,
        client: Ints,
        issued_ns: Ints,
        standing: bool,
        values: Any,
    ) -> None:
        self.changes.append(
            {
                "change": change,
                "service": service,
                "operation": operation,
                "interest": interest,
                "broker": self._client_broker[client],
                "client": self._brokers + client,
                "issued_ns": issued_ns,
                "standing": standing,
                "values": values,
            }
        )

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self, local: NDArray[np.bool_]) -> dict[str, Any]:
        """What clients of local brokers have sent. Sources are not kept: they run again, up to now in vain."""
        clients = np.flatnonzero(local[self._client_broker])
        return {
            "clients": clients,
            "client_sequence": self.sequence[clients],
            "changes": [{n: v for n, v in part.items() if v is not None} for part in self.changes],
            "publications": self.publications,
            "refused": self.refused,
            "reminders": self.reminders.state(),
            "waiting": self._waiting_state(),
        }

    def _waiting_state(self) -> dict[str, Any]:
        brokers, columns = self._waiting_rows()
        uid, cause = self._bodies.uids(columns[L.M_PACKED] >> 24), self._causes.keys(columns[L.M_CAUSE])
        return {"broker": brokers, "rows": columns.T.copy(), "uid": uid, "cause": cause}

    def load(
        self,
        states: Sequence[dict[str, Any]],
        now: int,
        sums: bool,
        local: NDArray[np.bool_],
        handle_of: Mapping[int, int],
    ) -> None:
        """Take over what clients have sent until now, and with `sums` what of it belongs to the whole run."""
        self.past_ns = now
        for state in states:
            self.reminders.load(state["reminders"], self._client_broker, local, handle_of)
            self.sequence[state["clients"]] = state["client_sequence"]
            if sums:
                self.changes += [{"values": None, **part} for part in state["changes"]]
                self.publications += state["publications"]
                self.refused += state["refused"]
        self._load_waiting([state["waiting"] for state in states], local, handle_of)
        if self.notices is not None:
            self.notices.skip(now)

    def _load_waiting(
        self, states: list[dict[str, Any]], local: NDArray[np.bool_], handle_of: Mapping[int, int]
    ) -> None:
        whole = {name: np.concatenate([state[name] for state in states]) for name in states[0]}
        mine = np.flatnonzero(local[whole["broker"]])
        mine = mine[np.argsort(whole["broker"][mine], kind="stable")]
        broker, rows = whole["broker"][mine], whole["rows"][mine]
        body = np.array([handle_of.get(uid, -1) for uid in whole["uid"][mine].tolist()], np.int64)
        rows[:, L.M_PACKED] = (body << 24) | (rows[:, L.M_PACKED] & 0xFFFFFF)
        rows[:, L.M_CAUSE] = self._causes.handles(whole["cause"][mine])
        self._bodies.carry(body, 1, self._lane)
        if mine.size:
            self.rows = np.ascontiguousarray(rows)
            self.at[:] = np.searchsorted(broker, np.arange(self.at.size))
            self.end[:] = np.searchsorted(broker, np.arange(self.at.size), "right")


class _Alike:
    """Parts of one service, type and width, so that their bodies are made together."""

    def __init__(self, service: int, type: int) -> None:
        self.service = service
        self.type = type
        self.numbers: list[int] = []
        self._emissions: list[Emission] = []

    def add(self, number: int, emission: Emission) -> None:
        self.numbers.append(number)
        self._emissions.append(emission)

    def content(self, part_of: Ints, row_of: Ints) -> Any:
        """What is in these rows of parts; None if they have no bodies."""
        sizes = np.array([emission.time.size for emission in self._emissions])
        begin = np.zeros(self.numbers[-1] + 1, np.int64)
        begin[self.numbers] = np.cumsum(sizes) - sizes
        rows = begin[part_of] + row_of
        if self._emissions[0].rows is not None:
            return np.concatenate([emission.rows for emission in self._emissions])[rows]
        if self._emissions[0].objects is not None:
            objects = [each for emission in self._emissions for each in emission.objects or ()]
            return [objects[row] for row in rows.tolist()]
        return None


def _alike(parts: list[tuple[int, int, Emission]]) -> Iterable[_Alike]:
    """The parts by what makes them alike, in the order of the first of each."""
    found: dict[tuple[int, int, Any], _Alike] = {}
    for number, (service, _, emission) in enumerate(parts):
        form = emission.objects is not None if emission.rows is None else emission.rows.shape[1:]
        found.setdefault((service, emission.type, form), _Alike(service, emission.type)).add(number, emission)
    return found.values()
