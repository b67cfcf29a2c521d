"""spatial in the shard's view: objects, heads, and summaries that shrink in compiled code, all else message by message.

`Summarised` has the rules. What brokers were told and have told lies in tables beside the keywords that are wanted and
asked for, each summary in a row of boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from brokers.columns import BadState, Column
from brokers.compiled import Desk, Handler
from brokers.contract import Batch, BrokerProtocol, Interests, Ints, Ints32, ShardEnv
from brokers.errors import ProtocolFault
from brokers.indexes.spatial.summary import Summary, boxes_of
from brokers.out import SAME, Out
from brokers.records import Record
from protocols.spatial import summary_kernels as kernels
from protocols.spatial import walk_kernels
from protocols.spatial.kernels import WORD_BITS
from protocols.spatial.keyword_shard import KeywordShard
from protocols.spatial.kind import EXPIRE, PUBLISH, head_bytes
from protocols.spatial.known import keys_of
from protocols.spatial.reach import (
    Reach,
    covers,
    grown,
    packed,
    packed_bytes,
    rounded,
    unpacked,
)
from protocols.spatial.shard import Told
from protocols.spatial.summarised import (
    HEAD,
    ROOM,
    SHRINK,
    STANDING,
    SUMMARY,
    WIDER,
    Options,
    Summarised,
)
from protocols.spatial.summary_kernels import (
    AS_HEAD,
    AS_IT_CAME,
    BOXES_MOST,
    BYTES_WANTED,
    LOSSY,
    NOTES,
    ROWS_FREE,
    SAID,
)

_WORD = (1 << WORD_BITS) - 1
_BY_ROW = ("rings", "row_cause", "heard_start", "heard_end")
_NUMBERS = ("told_grown", "saved", "stake", "let_in", "looked")  # of what was told, beside the summary
_TOLD = ("told", *_NUMBERS, "told_word", "told_next", "told_prev")
_ROWS = ("boxes", "box", "reach", "row_free")


class _WalkDesk(Desk):
    """A desk whose handler sends heads of objects and summaries too."""

    def _room(self, sends: int, deliveries: int, timers: int) -> None:
        super()._room(sends, deliveries, timers)
        self._protocol.more["sent_as"] = np.zeros(sends, np.int32)
        self._protocol.more["said_end"] = np.zeros(sends, np.int64)
        self._protocol.known.moved()

    def hand_on(self, batch: Batch, out: Out, event: Ints, link: Ints) -> None:
        sent_as = self._protocol.more["sent_as"][: event.size]
        if (sent_as == AS_IT_CAME).all():
            out.forward(event, link)
            return
        type_, body = batch.type[event].astype(np.int64), batch.body[event].astype(np.int64)
        word, size = batch.word[event], np.full(event.size, -1, np.int64)
        cause = np.full(event.size, SAME, np.int64)
        as_head = sent_as == AS_HEAD
        if as_head.any():
            type_[as_head], size[as_head] = HEAD, self._protocol.head_sizes(body[as_head])
        told = sent_as >= 0
        if told.any():
            type_[told], word[told], cause[told] = SUMMARY, 0, -1
            body[told] = self._protocol.bodies_said(body[told])
        out.send(event, link, type_, body, word, size, cause)


class SummarisedShard(KeywordShard):
    """spatial over the brokers of a shard."""

    plain: ClassVar[type[BrokerProtocol] | None] = Summarised
    Options: ClassVar[type[BaseModel] | None] = Options
    compiled: ClassVar[Handler | None] = None  # the engine's loop knows no heads
    record: ClassVar[Record] = kernels.RECORD
    swift = (PUBLISH, EXPIRE, HEAD, SUMMARY, SHRINK)
    carriers = (PUBLISH, HEAD)

    def __init__(self, env: ShardEnv) -> None:
        self.boxes: int = env.options.boxes
        self._axes = 0
        self.more: dict[str, NDArray[Any]] = {}
        super().__init__(env)

    @property
    def timer_min_ns(self) -> int:
        return int(self.env.options.shrink_every)

    def extra(self) -> dict[str, NDArray[Any]]:
        """What the record has beside that of the other protocols."""
        env, axes = self.env, 2 if self.service.geometry == "plane" else 3
        self._axes = axes
        wide = dict.fromkeys((*_NUMBERS, *_BY_ROW, "leaning", "leans_on"), np.int64)
        names = ("far", *_TOLD, "boxes", "row_free", *_BY_ROW, "leaning", "leans_on")
        links = env.links.source.size
        self.more = {
            **{name: np.zeros(0, wide.get(name, np.int32)) for name in names},
            "told_first": np.full(links, -1, np.int32), "told_last": np.full(links, -1, np.int32),
            "box": np.zeros((0, self.boxes * 2 * axes)), "reach": np.zeros((0, self.boxes)),
            "stale": np.zeros(env.brokers, np.bool_), "timed": np.zeros(env.brokers, np.bool_),
            "sent_as": np.zeros(0, np.int32), "said_end": np.zeros(0, np.int64),
            "said": np.zeros(1024, np.uint8), "heard": np.zeros(1024, np.uint8), "notes": np.zeros(NOTES, np.int64),
        }  # fmt: skip
        self.more["leaning"], self.more["leans_on"] = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self.notes = self.more["notes"]
        self.notes[LOSSY], self.notes[BOXES_MOST] = bool((env.overlay.loss > 0).any()), self.boxes
        return self.more

    def new_desk(self) -> Desk:
        return _WalkDesk(self.env, self, walk_kernels.walk)

    def head_sizes(self, bodies: Ints) -> list[int]:
        """On the wire, of the heads of these objects."""
        objects = self.known.objects
        numbers = self.known.arrays["body_object"][bodies].tolist()
        return [head_bytes(thing.words) for thing in map(objects.__getitem__, numbers) if thing is not None]

    def bodies_said(self, about: Ints) -> Ints32:
        """Bodies of the summaries that the handler wrote, each because of a message with such a body."""
        bodies, ends = self.env.bodies, self.more["said_end"][: self.notes[SAID]].tolist()
        data = self.more["said"][: ends[-1]].tobytes()
        encoded = [data[first:last] for first, last in zip([0, *ends], ends)]
        self.notes[SAID] = 0
        return bodies.add_encoded(self.env.service, SUMMARY, encoded, *bodies.all_stand_for(about))

    # ---- tables ------------------------------------------------------------------------------------------

    def _fit(self, names: Iterable[str], size: int) -> None:
        """Room for so many."""
        more = self.more
        for name in names:
            old = more[name]
            if len(old) < size:
                nothing = -1 if name in ("far", "told") else 0
                more[name] = np.full((max(size, 2 * len(old)), *old.shape[1:]), nothing, old.dtype)
                more[name][: len(old)] = old
                self.known.moved()

    def _make_rows(self, wanted: int) -> None:
        """Room for so many more summaries."""
        free, old = int(self.notes[ROWS_FREE]), len(self.more["boxes"])
        if free < wanted:
            self._fit(_ROWS, old + wanted - free)
            size = len(self.more["boxes"])
            self.more["row_free"][free : free + size - old] = np.arange(old, size)
            self.notes[ROWS_FREE] = free + size - old

    def _reach(self, name: str, slot: int) -> Reach:
        """What was told, or heard."""
        row, more = int(self.more[name][slot]), self.more
        if row < 0:
            return None
        count = int(more["boxes"][row])
        return Summary(more["box"][row, : 2 * self._axes * count].reshape(count, -1), more["reach"][row, :count])

    def _set(self, name: str, slot: int, reach: Reach) -> None:
        column = self.more[name]
        if reach is not None:
            self._make_rows(1)
            walk_kernels.put(self.known.record, column, slot, reach.boxes, reach.squared)
        elif column[slot] >= 0:
            self.more["row_free"][self.notes[ROWS_FREE]] = column[slot]
            self.notes[ROWS_FREE] += 1
            column[slot] = -1

    def _begin_told(self, links: Ints, words: Ints, change: int) -> None:
        """Neighbours were asked for keywords that they were not asked for before: anything may matter."""
        self._fit(_TOLD, self.known.asked.used)
        slots = self.known.asked.find(keys_of(links, words))
        self.more["told"][slots] = -1
        self.more["told_grown"][slots] = change
        for name in _NUMBERS[1:]:
            self.more[name][slots] = 0
        kernels.list_told(self.known.record, links, words, slots)

    def asked_for(self, told: Told, link: int, keys: Ints, fresh: set[int]) -> None:
        for key in keys.tolist():
            if key not in fresh:  # asked again: it takes it anew that anything may matter
                slot = int(self.known.asked.find(np.array([key]))[0])
                self._set("told", slot, None)
                self.more["told_grown"][slot] = told.cause
                for name in _NUMBERS[1:]:
                    self.more[name][slot] = 0
        new = np.array([key for key in keys.tolist() if key in fresh], np.int64)
        self._begin_told(np.full(new.size, link), new & _WORD, told.cause)

    def taken_back(self, link: int, keys: Ints) -> None:
        slots = self.known.asked.find(keys)
        slots = slots[slots >= 0]
        for slot in slots.tolist():
            self._set("told", slot, None)
        kernels.unlist_told(self.known.record, link, slots)

    # ---- messages ----------------------------------------------------------------------------------------

    def handle(self, batch: Batch, out: Out) -> None:
        self._fit(_BY_ROW, batch.size)
        self.more["row_cause"][: batch.size] = self.env.causes.keys(batch.cause.astype(np.int64))
        self._lay_heard(batch)
        super().handle(batch, out)

    def _lay_heard(self, batch: Batch) -> None:
        """Show the handler the bodies of the summaries that came."""
        rows, more = np.flatnonzero(batch.type == SUMMARY), self.more
        if rows.size:
            encoded = list(map(self.env.bodies.encoded, batch.body[rows].tolist()))
            ends = np.cumsum(list(map(len, encoded)))
            self._fit(("heard",), int(ends[-1]))
            more["heard"][: ends[-1]] = np.frombuffer(b"".join(encoded), np.uint8)
            more["heard_end"][rows] = ends
            more["heard_start"][rows[0]], more["heard_start"][rows[1:]] = 0, ends[:-1]

    def reached(self, row: int, stop: int) -> tuple[int, bool]:
        notes, more = self.notes, self.more
        rings, leanings, leanings_wanted, count, object_, _, rows, size = notes[: BYTES_WANTED + 1].tolist()
        notes[: BYTES_WANTED + 1] = 0
        if rings:
            self.out.timer(more["rings"][:rings].copy(), self.timer_min_ns, SHRINK, 0, -1, -1)
        if leanings:
            self.out.depends(more["leaning"][:leanings].copy(), more["leans_on"][:leanings].copy())
        if leanings_wanted or rows or size:
            self._fit(("leaning", "leans_on"), 2 * leanings_wanted)
            self._fit(("said",), size)
            self._make_rows(rows)
            return row, False
        if not count:
            return row, row < stop
        told = self.told(row)
        self.grow(told, -1, self._summaries(self.known.arrays["found"][:count].astype(np.int64)))
        for link in self.ways(told.broker, told.link, object_):
            self.out.send(told.row, link, EXPIRE, word=told.word)
        return row + 1, False

    def _one(self, row: int) -> None:
        super()._one(row)
        self._ring(row)

    def _ring(self, row: int) -> None:
        """Have a summary looked at later, if one may have become worth telling."""
        more, broker = self.more, self.batch.broker[row]
        if more["stale"][broker] and not more["timed"][broker]:
            more["timed"][broker] = True
            self.out.timer(row, self.timer_min_ns, SHRINK, 0, -1, -1)

    def hear(self, told: Told) -> None:
        if told.type == SUMMARY:
            self.hear_summary(told, self.env.bodies.object(told.body))
        elif told.type == WIDER:
            self.hear_wider(told, self.env.bodies.object(told.body))
        else:
            super().hear(told)

    def learned(self, told: Told, objects: Ints) -> None:
        kernels.count_heads(self.known.record, told.broker, told.link, objects)

    def forget(self, told: Told, head: int) -> None:
        poorer = kernels.concerned(self.known.record, told.broker, head)
        super().forget(told, head)
        if poorer.size:
            self.grow(told, -1, self._summaries(poorer))

    # ---- what grows ------------------------------------------------------------------------------------

    def _summaries(self, slots: Ints) -> dict[int, Summary]:
        """By keyword, where subscriptions are and how far they reach."""
        ids = self.known.sub_id
        slots = np.array(sorted(slots.tolist(), key=ids.__getitem__), np.int64)
        arrays = self.known.arrays
        return boxes_of(arrays["sub_word"][slots], arrays["sub_point"][slots], self._squared(slots))

    def _squared(self, slots: Ints) -> NDArray[np.float64]:
        """Squared k-th distances."""
        k, arrays = self.service.k_max, self.known.arrays
        found: NDArray[np.float64] = np.where(arrays["held"][slots] >= k, arrays["squared"][slots, k - 1], np.inf)
        return found

    def _asked_before(self, broker: int, words: Iterable[int]) -> set[int]:
        """Of these keywords on any link, those that are asked for."""
        keys = keys_of(np.array(self.links(broker), np.int64)[:, None], np.array(words, np.int64)).ravel()
        return set(keys[self.known.asked.find(keys) >= 0].tolist())

    def came(self, told: Told, slot: int) -> None:
        before = self._asked_before(told.broker, self.known.sub_words[slot])
        super().came(told, slot)
        self.grow(told, -1, self._summaries(np.array([slot])), before)

    def grow(self, told: Told, came_by: int, parts: Mapping[int, Reach], only: set[int] | None = None) -> None:
        """Subscriptions on this side reach this far now: tell neighbours who do not know."""
        words = np.array(list(parts), np.int64)
        for link in self.links(told.broker):
            if link == came_by:
                continue
            keys = keys_of(link, words)
            slots = self.known.asked.find(keys)
            said = []
            for key, slot, part in zip(keys.tolist(), slots.tolist(), parts.values()):
                known = slot >= 0 and (only is None or key in only)
                if known and self._outgrown(told, slot, part):
                    said.append([key & _WORD, packed(self._widen(told, slot, part, came_by))])
            if said:
                self.send(told, link, WIDER, said)

    def _outgrown(self, told: Told, slot: int, part: Reach) -> bool:
        """Whether a neighbour has to be told; else the change leans on the one that grew what was told."""
        if not covers(self._reach("told", slot), part):
            return True
        if self.lossy:
            return told.cause >= 0
        change = int(self.more["told_grown"][slot])
        if change not in (STANDING, told.cause):
            self.out.depends(told.cause, change)
        return False

    def _widen(self, told: Told, slot: int, part: Reach, came_by: int) -> Reach:
        """Note what a neighbour is told, and say what that is."""
        if part is not None and came_by < 0:
            part = rounded(part, ROOM)
        more = self.more
        more["saved"][slot] -= packed_bytes(part)
        if more["saved"][slot] < -more["stake"][slot]:
            part = None
        self._set("told", slot, grown(self._reach("told", slot), part, self.boxes))
        if told.cause >= 0:
            more["told_grown"][slot] = told.cause
        return part

    def _parts(self, told: Told, said: list[Any]) -> dict[int, tuple[int, Reach]]:
        """By keyword that a neighbour wants: its slot, and what the neighbour says of it."""
        slots = self.known.wants.find(keys_of(told.link, [word for word, _ in said])).tolist()
        return {
            word: (slot, unpacked(data, self._axes)) for (word, data), slot in zip(said, slots) if slot >= 0
        }

    def hear_wider(self, told: Told, said: list[Any]) -> None:
        parts = self._parts(told, said)
        for slot, part in parts.values():
            self._set("far", slot, grown(self._reach("far", slot), part, self.boxes))
        self.grow(told, told.link, {word: part for word, (_, part) in parts.items()})

    # ---- what shrinks ----------------------------------------------------------------------------------

    def hear_summary(self, told: Told, said: list[Any]) -> None:
        """Where links lose messages: it may lie within something that never came."""
        if not self.lossy:
            raise ProtocolFault("a neighbour told of summaries that cannot be read")
        parts = self._parts(told, said)
        for slot, part in parts.values():
            self._set("far", slot, part)
        self.grow(told, told.link, {word: part for word, (_, part) in parts.items()})
        self.notes[LOSSY] = False
        at, left = told.row, False
        while at == told.row and not left:
            at, left = self.reached(self._desk.reach(self.batch, self.out, at, at + 1), at + 1)
        self.notes[LOSSY] = True

    # ---- who wants what --------------------------------------------------------------------------------

    def hear_want(self, told: Told, said: dict[str, Any]) -> None:
        words = said["words"]
        before = self._asked_before(told.broker, words)
        super().hear_want(told, said)
        self._fit(("far",), self.known.wants.used)
        for slot in self.known.wants.find(keys_of(told.link, words)).tolist():
            self._set("far", slot, None)
        self.grow(told, told.link, dict.fromkeys(words), before)

    def hear_unwant(self, told: Told, words: list[int]) -> None:
        slots = self.known.wants.find(keys_of(told.link, words))
        for slot in slots[slots >= 0].tolist():
            self._set("far", slot, None)
        super().hear_unwant(told, words)
        self.more["stale"][told.broker] = True

    def left(self, told: Told, slot: int, words: tuple[int, ...]) -> None:
        super().left(told, slot, words)
        self.more["stale"][told.broker] = True

    def hear_heads(self, told: Told, said: dict[str, Any]) -> None:
        super().hear_heads(told, said)
        self.more["stale"][told.broker] = True

    # ---- what stands from the start, and what is kept ----------------------------------------------------

    def stand(self, interests: Interests) -> None:
        super().stand(interests)
        self._fit(("far",), self.known.wants.used)

    def stood(self, links: Ints, words: Ints, first: Ints) -> None:
        order = np.lexsort((words, first))
        self._begin_told(links[order], words[order], STANDING)

    def state(self) -> dict[str, Any]:
        known, more = self.known, self.more
        state = super().state()
        wanted = known.wants.find(keys_of(state["want_link"], state["want_word"]))
        asked = known.asked.find(keys_of(state["asked_link"], state["asked_word"]))
        order = np.zeros(known.asked.used, np.int64)
        for link in np.unique(state["asked_link"]).tolist():
            slots = kernels.told_over(known.record, link, True)
            order[slots] = np.arange(slots.size)
        told = [*(more[name][asked].astype(np.int64) for name in _NUMBERS), order[asked]]
        return {
            **state, "told": np.array(told, np.int64).reshape(len(told), -1).T.copy(),
            **self._boxes_of("told", asked), **self._boxes_of("far", wanted),
            **{name: np.flatnonzero(more[name]).astype(np.int64) for name in ("stale", "timed")},
        }  # fmt: skip

    def _boxes_of(self, name: str, slots: Ints) -> dict[str, Any]:
        """The summaries in these slots, side by side; -1 boxes where anything may matter."""
        found = [self._reach(name, slot) for slot in slots.tolist()]
        known = [reach for reach in found if reach is not None]
        return {
            f"{name}_boxes": np.array([-1 if reach is None else len(reach.squared) for reach in found], np.int64),
            f"{name}_box": np.concatenate([np.zeros((0, 2 * self._axes)), *(reach.boxes for reach in known)]),
            f"{name}_reach": np.concatenate([np.zeros(0), *(reach.squared for reach in known)]),
        }

    def state_columns(self) -> dict[str, Column]:
        columns = super().state_columns()
        for name, owners in (("told", "asked"), ("far", "wants")):
            columns[f"{name}_boxes"] = Column("i8", (owners,), -1, "boxes")
            columns[f"{name}_box"] = Column("f8", (f"{name} boxes", 2 * self._axes))
            columns[f"{name}_reach"] = Column("f8", (f"{name} boxes",), 0)
        brokers = Column("i8", (None,), 0, "brokers")
        return {**columns, "told": Column("i8", ("asked", len(_NUMBERS) + 1)), "stale": brokers, "timed": brokers}

    def sizes(self) -> dict[str, int]:
        return {**super().sizes(), "boxes": self.boxes + 1}

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        super().load(states, handle_of)
        known, more = self.known, self.more
        self._fit(("far",), known.wants.used)
        self._fit(_TOLD, known.asked.used)
        source = self.env.links.source
        for state in states:
            for name in ("stale", "timed"):
                more[name][state[name]] = self.env.local[state[name]]
            for name, table, links, words in (
                ("told", known.asked, state["asked_link"], state["asked_word"]),
                ("far", known.wants, state["want_link"], state["want_word"]),
            ):
                counts = state[f"{name}_boxes"]
                if np.maximum(counts, 0).sum() != len(state[f"{name}_reach"]):
                    raise BadState("summaries have more boxes than there are, or fewer")
                ends = np.cumsum(np.maximum(counts, 0))
                mine = np.flatnonzero(self.env.local[source[links]])
                slots = table.find(keys_of(links[mine], words[mine]))
                for at, slot in zip(mine.tolist(), slots.tolist()):
                    if counts[at] >= 0:
                        part = slice(ends[at] - counts[at], ends[at])
                        self._set(name, slot, Summary(state[f"{name}_box"][part], state[f"{name}_reach"][part]))
                if name == "told":
                    for column, numbers in zip(_NUMBERS, state["told"].T):
                        more[column][slots] = numbers[mine]
                    order = np.argsort(state["told"][mine, -1], kind="stable")
                    kernels.list_told(known.record, links[mine][order], words[mine][order], slots[order])
