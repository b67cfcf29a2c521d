"""Clients that come and go: what they would send becomes what they send where they are.

Sources know nothing of it: they say what a client does as if it were always there. Here each act goes to the stay in
which it falls. Publications of a client that is away do not happen, and are counted. What it asks for is kept: it is
withdrawn at the end of a stay and asked for anew when the next begins, as it stands then; what it would change while
away is changed when it is back.

- An act at the instant of an arrival is part of it: what arrives is what stands after all that happened until then.
- What a client published as a change, an object say, is the network's: it is not published again, and whoever published
  it ends it, wherever the client is by then.
- A value (what is replaced, and no interest) stays as it was while its client is away. It is told where its client was
  placed, wherever that is by then: from two brokers, the old value could overtake the new.

Every shard at whose brokers a client ever is runs its sources, and takes of what they say what falls to its brokers.
So nothing is handed over between shards, and a resumed run finds out by itself what stood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Emission, Ints, Kind
from brokers.stays import Stays, withdrawal

_OWN = 0xFFFFFFFF  # of the id of an interest, its number among those of its client
Sent = tuple[int, int, Emission]  # service, source, what


class _Wish(NamedTuple):
    """What a client asks for, or has said, in one service."""

    source: int
    type: int
    content: Any  # a row, an object, or None
    asked: bool  # an interest, and no value


class _Act(NamedTuple):
    """A change that a client makes."""

    time: int
    service: int
    source: int
    part: int  # number of the emission
    place: int  # in it
    client: int
    type: int
    word: int
    content: Any


class Movers:
    """The clients that come and go, as far as they are ever at brokers of a shard."""

    def __init__(
        self, stays: Stays, kinds: Sequence[Kind], local: NDArray[np.bool_], client_broker: NDArray[np.int32],
        duration_ns: int,
    ) -> None:
        self._stays, self._kinds, self._local, self._broker_of = stays, kinds, local, client_broker
        self._entities = local.size
        self._moving = np.zeros(client_broker.size, np.bool_)
        self._moving[: stays.clients] = stays.moving
        self._counted = local[client_broker[: stays.clients]]  # who is absent is counted where it was placed
        self._duration = duration_ns
        here = np.zeros(stays.clients, np.bool_)
        here[stays.client[local[stays.broker]]] = True
        self.carried = here | (self._counted & stays.moving)  # whose sources this shard runs
        mine = np.flatnonzero(self.carried[stays.client])
        edges = np.concatenate((stays.end[mine], stays.begin[mine]))
        rows, ends = np.tile(mine, 2), np.repeat([True, False], mine.size)
        due = np.flatnonzero((edges < duration_ns) & ((edges > 0) | ends))
        order = due[np.lexsort((stays.client[rows[due]], ~ends[due], edges[due]))]
        self._edges, self._rows, self._ends = edges[order], rows[order], ends[order]
        self._at = 0  # the edges before are past
        felt = local[stays.broker[self._rows]] | self._counted[stays.client[self._rows]]
        self._ahead = np.minimum.accumulate(np.where(felt, self._edges, NEVER)[::-1])[::-1]
        self._held: list[_Act] = []
        self._held_from = NEVER  # the time of the first of them
        self._parts = 0
        self._there: dict[int, int] = {}  # client -> the row of its stay
        at_first = stays.at(np.arange(stays.clients), np.zeros(stays.clients, np.int64))
        for client in np.flatnonzero(self.carried & (at_first >= 0)).tolist():
            self._there[client] = int(at_first[client])
        self._wishes: dict[tuple[int, int], dict[int, _Wish]] = {}  # (client, service) -> word -> wish
        self._unsaid: set[tuple[int, int, int]] = set()  # values that changed while their client was away
        self._published: dict[tuple[int, int], int] = {}  # (service, word) -> row of the stay that published it
        self.absent = np.zeros(len(kinds), np.int64)  # publications of clients that were away

    # ---- taking in -------------------------------------------------------------------------------------

    def split(self, service: int, source: int, emission: Emission) -> Emission:
        """What of an emission is sent as it is; the rest is kept, or falls to a stay."""
        moving = self._moving[emission.client]
        if not moving.any():
            return emission
        if emission.type not in self._kinds[service].changes:
            return self._placed(service, emission, moving)
        self._parts += 1
        at = np.flatnonzero(moving)
        contents = _contents(emission, at)
        for place, (time, client, word) in enumerate(
            zip(emission.time[at].tolist(), emission.client[at].tolist(), emission.word[at].tolist())
        ):
            act = _Act(time, service, source, self._parts, place, client, emission.type, word, contents[place])
            self._held.append(act)
        self._held_from = min(self._held_from, int(emission.time[at].min()))
        return taken(emission, ~moving)

    def _placed(self, service: int, emission: Emission, moving: NDArray[np.bool_]) -> Emission:
        """Publications that are no changes, by the stays in which they fall."""
        row = np.full(moving.size, -1, np.int64)
        row[moving] = self._stays.at(emission.client[moving], emission.time[moving])
        away = moving & (row < 0)
        counted = self._counted[emission.client[away]] & (emission.time[away] < self._duration)
        self.absent[service] += np.count_nonzero(counted)
        sent = ~away
        sent[row >= 0] = self._local[self._stays.broker[row[row >= 0]]]
        found = taken(emission, sent)
        row = row[sent]
        found.client = np.where(row >= 0, self._stays.number[np.maximum(row, 0)], found.client)
        return found

    def standing(self, service: int, source: int, emission: Emission) -> Emission:
        """What of interests that stand at time 0 does stand, at the stays that begin then."""
        moving = self._moving[emission.client]
        if not moving.any():
            return emission
        at = np.flatnonzero(moving)
        row = np.full(moving.size, -1, np.int64)
        row[moving] = self._stays.at(emission.client[moving], np.zeros(at.size, np.int64))
        contents = _contents(emission, at)
        for place, (client, word) in enumerate(zip(emission.client[at].tolist(), emission.word[at].tolist())):
            if self.carried[client]:
                self._remember(_Act(0, service, source, 0, place, client, emission.type, word, contents[place]))
        if emission.type not in self._kinds[service].interests:
            return emission
        found, row = taken(emission, ~moving | (row >= 0)), row[~moving | (row >= 0)]
        stay = self._stays.number[np.maximum(row, 0)]
        found.word = np.where(row >= 0, self._renamed(found.word, found.client, stay), found.word)
        found.client = np.where(row >= 0, stay, found.client)
        return found

    # ---- what they send --------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """When the next of them may act."""
        edge = int(self._ahead[self._at]) if self._at < self._ahead.size else NEVER
        return min(edge, self._held_from)

    def before(self, end: int) -> list[Sent]:
        """What they send before a time; everything they do until then has been said."""
        acts = []
        if self._held_from < end:
            acts = sorted(act for act in self._held if act.time < end)
            self._held = [act for act in self._held if act.time >= end]
            self._held_from = min((act.time for act in self._held), default=NEVER)
        last = int(np.searchsorted(self._edges, end))
        out = _Outgoing()
        at = 0
        for edge in range(self._at, last):
            time = int(self._edges[edge])
            # What is done at the instant of an arrival or a departure belongs to whoever is there afterwards.
            while at < len(acts) and acts[at].time < time:
                self._act(acts[at], out)
                at += 1
            row = int(self._rows[edge])
            if self._ends[edge]:
                self._leave(row, time, out)
                continue
            client = int(self._stays.client[row])
            same = at
            while same < len(acts) and acts[same].time == time:
                same += 1
            mine = [act for act in acts[at:same] if act.client == client]
            acts[at:same] = [act for act in acts[at:same] if act.client != client]
            self._arrive(row, time, mine, out)
        self._at = last
        for act in acts[at:]:
            self._act(act, out)
        return out.sent()

    def _act(self, act: _Act, out: _Outgoing) -> None:
        """A change at no arrival of its client."""
        kind = self._kinds[act.service]
        row = self._there.get(act.client)
        if act.type in kind.publications:
            if row is None:
                self.absent[act.service] += int(self._counted[act.client] and act.time < self._duration)
                return
            self._published[act.service, act.word] = row
        elif act.type in kind.revocations and (act.service, act.word) in self._published:
            row = self._published.pop((act.service, act.word))
        else:
            known = self._remember(act)
            if act.type in kind.revocations and not known:
                return  # it ends what never was published, the client being away
        if row is not None:
            self._send(act, row, out)

    def _send(self, act: _Act, row: int, out: _Outgoing) -> None:
        """Under the number of a stay; ids of interests hold whose they are, other words stay as they are."""
        kind, stay, word = self._kinds[act.service], int(self._stays.number[row]), act.word
        if act.type not in kind.interests | kind.revocations | kind.publications:
            stay = act.client
        if not self._local[self._broker_of[stay]]:
            return
        if word >> 32 == self._entities + act.client:
            word = (self._entities + stay) << 32 | word & _OWN
        out.add(act, stay, word)

    def _leave(self, row: int, time: int, out: _Outgoing) -> None:
        client = int(self._stays.client[row])
        self._there.pop(client, None)
        for service, kind in enumerate(self._kinds):
            for word, wish in self._wishes.get((client, service), {}).items():
                ending = withdrawal(kind, wish.type) if wish.asked else None
                if ending is not None:
                    self._send(_Act(time, service, wish.source, 0, 0, client, ending, word, None), row, out)

    def _arrive(self, row: int, time: int, acts: list[_Act], out: _Outgoing) -> None:
        """What a client asks for when it comes: as it stands after what it does at that instant."""
        client = int(self._stays.client[row])
        published = {(act.service, act.word) for act in acts if act.type in self._kinds[act.service].publications}
        for act in acts:
            if (act.service, act.word) not in published:
                self._act(act, out)  # as if still away, so that it is said now
        self._there[client] = row
        for act in acts:
            if (act.service, act.word) in published:  # and its end, if that is at this instant too
                self._act(act, out)
        for service in range(len(self._kinds)):
            for word, wish in self._wishes.get((client, service), {}).items():
                if not wish.asked and (client, service, word) not in self._unsaid:
                    continue
                self._unsaid.discard((client, service, word))
                self._send(_Act(time, service, wish.source, 0, 0, client, wish.type, word, wish.content), row, out)

    def _remember(self, act: _Act) -> bool:
        """Take note of what a change makes a client ask for; whether there was anything of that word."""
        kind = self._kinds[act.service]
        wishes = self._wishes.setdefault((act.client, act.service), {})
        known = wishes.get(act.word)
        if act.type in kind.revocations:
            wishes.pop(act.word, None)
        else:
            asked = act.type in kind.interests
            type_ = known.type if known is not None and asked else act.type
            wishes[act.word] = _Wish(act.source, type_, act.content, asked)
            if not asked and act.client not in self._there:
                self._unsaid.add((act.client, act.service, act.word))
        return known is not None

    def _renamed(self, word: Ints, client: Ints, stay: Ints) -> Ints:
        """Ids of interests hold whose they are; other words stay."""
        own = word >> 32 == self._entities + client
        return np.where(own, ((self._entities + stay) << 32) | (word & _OWN), word)


class _Outgoing:
    """Changes that are sent, by what can be one emission."""

    def __init__(self) -> None:
        self._parts: dict[tuple[int, int, int, int, Any], list[tuple[int, int, int, Any]]] = {}

    def add(self, act: _Act, stay: int, word: int) -> None:
        form = act.content.shape if isinstance(act.content, np.ndarray) else act.content is not None
        key = (act.service, act.source, act.part, act.type, form)
        self._parts.setdefault(key, []).append((act.time, stay, word, act.content))

    def sent(self) -> list[Sent]:
        """All of it; of one source in the order in which it emitted."""
        found = []
        for key in sorted(self._parts, key=lambda key: (key[:4], str(key[4]))):
            service, source, _, type_, form = key
            times, stays, words, contents = zip(*self._parts[key])
            time, stay, word = (np.array(column, np.int64) for column in (times, stays, words))
            rows = np.array(contents) if isinstance(form, tuple) else None
            objects = list(contents) if form is True else None
            found.append((service, source, Emission(type_, time, stay, word, rows, objects)))
        return found


def _contents(emission: Emission, at: Ints) -> list[Any]:
    if emission.rows is not None:
        return list(emission.rows[at])
    if emission.objects is not None:
        return [emission.objects[i] for i in at.tolist()]
    return [None] * at.size


def taken(emission: Emission, mask: NDArray[np.bool_]) -> Emission:
    """The rows of an emission that a mask names."""
    at = np.flatnonzero(mask)
    return Emission(
        emission.type,
        emission.time[at],
        emission.client[at],
        emission.word[at],
        None if emission.rows is None else emission.rows[at],
        None if emission.objects is None else [emission.objects[i] for i in at.tolist()],
        None if emission.meant is None else emission.meant[at],
    )
