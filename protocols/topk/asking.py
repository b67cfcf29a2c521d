"""The protocols that ask, over all brokers of a shard at once: the shard's view of `topk-gather` and `topk-bounded`.

What brokers remember are arrays (`HomeFilters`, `Cases`, `Snapshots`), and one kernel decides on a batch in order
(`asking_kernels.decide`). Python comes before it, to read what other shards say and to have room; and after it, for
what happens once per publication or change: the decision of the broker where a publication entered, and what a broker
says of its bound. Bodies that the kernel wants are encoded together.

A broker is only ever shown what it has been told: filters stand at their own broker alone, a question belongs to one
broker, and of each bound a broker has the snapshot that reached it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, TIMER, Batch, Floats, Interests, Ints, ShardEnv, ShardProtocol
from brokers.indexes.topk.contract import Answer, Ranking, answered
from brokers.out import Out
from brokers.records import Held
from protocols.topk import asking_record as A
from protocols.topk.asking_bodies import encoded
from protocols.topk.asking_kernels import decide, survey
from protocols.topk.asking_state import load, state
from protocols.topk.bound_kernels import stand
from protocols.topk.cases import Cases
from protocols.topk.home_filters import SCANNED_MOST, HomeFilters
from protocols.topk.kind import PUBLISH, TopK
from protocols.topk.serving import Serving, by_number, tree_of
from protocols.topk.snapshots import Snapshots


class Root:
    """A publication that entered here and is not decided."""

    __slots__ = ("body", "broker", "found", "row")

    def __init__(self, broker: int, body: int, row: Floats, found: Ranking | None = None) -> None:
        self.broker, self.body, self.row, self.found = broker, body, row, found


class Asking(ShardProtocol):
    """See the module. A subclass says whether there are bounds."""

    kind: ClassVar[str] = "topk"
    state_version: ClassVar[int] = 2  # 1 was that of the author's view
    bounded: ClassVar[bool] = False

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        assert isinstance(env.kind, TopK)
        self.topk = env.kind
        params, options = env.kind.params, env.options
        self.lossy = bool((env.overlay.loss > 0).any())
        self.now = np.zeros(A.COUNTS, np.int64)
        self.filters = HomeFilters(env)
        self.snapshots = Snapshots(env, options.cells if self.bounded else 0, self.now)
        self.cases = Cases(env, self.snapshots, self.now)
        self.roots: dict[int, Root] = {}  # by publication
        self.order: dict[int, list[int]] = {}  # publisher -> publications not yet decided, in order
        self.decided = np.zeros(env.brokers, np.int64)
        self._said = np.array([
            params["k"], params["ties"] == "all", params["unit"] == "receiver", params["prorate"],
            params["exclude_publisher"], self.bounded, options.at_once if self.bounded else 1, self.lossy,
            SCANNED_MOST, self.snapshots.cells,
        ], np.int64)  # fmt: skip
        self._real = np.array([params["threshold"], self.snapshots.low, self.snapshots.scale])
        self._tree = tree_of(env)
        self._degree = np.diff(env.links.out_start)
        self._answers = _answers(64, 64)
        self._rows = _rows(64)
        self._record: Held | None = None
        self._bodies_shown = 0
        self._charging = bool(env.cost.per_entry or env.cost.per_match)
        self._why = np.zeros(1, np.int64)

    @property
    def timer_min_ns(self) -> int:
        limit: int = self.env.options.give_up if self.lossy else NEVER
        return min(limit, self.env.options.lower_every) if self.bounded else limit

    # ---- what stands -----------------------------------------------------------------------------------

    def stand(self, interests: Interests) -> None:
        assert interests.rows is not None
        filters = self.filters
        slots = filters.put(interests.id, interests.rows)
        if self.bounded:
            homes = self.env.client_broker[interests.client].astype(np.int64)
            snapshots = self.snapshots.standing(homes)
            self._show_renewed()
            assert self._record is not None
            stand(self._record.address, slots, snapshots[homes])
        filters.settle(slots)

    # ---- a batch ---------------------------------------------------------------------------------------

    def handle(self, batch: Batch, out: Out) -> None:
        size = batch.size
        if size > self._rows["word"].size:
            self._rows = _rows(2 * size)
            self._show(self._rows)
        for name in _GIVEN:
            self._rows[name][:size] = getattr(batch, name)
        self._show_renewed()
        assert self._record is not None
        survey(self._record.address, size)
        self._make_ready(batch)
        self._show_renewed()
        at = 0
        while at < size:
            at = decide(self._record.address, at, size, self._why)
            if at < size:
                self._help(batch, at)
                self._show_renewed()
        self._answer(batch, out)
        self.filters.tidy()
        if done := int(self.now[A.DONE]):
            self.cases.close(self._answers["done"][:done])

    def _make_ready(self, batch: Batch) -> None:
        """Have what the kernel needs."""
        now = self.now
        changes, lowered, begun, todo, served, sends = now[A.CHANGES : A.SENDS_MOST + 1].tolist()
        self.cases.pack()
        if changes:
            slot, fresh = self._rows["slot"][: batch.size], self._rows["fresh"][: batch.size]
            changing = np.flatnonzero((batch.type > PUBLISH) & (batch.type < A.DELIVERY))
            self.filters.expect(batch, changing, int(now[A.TOUCHED]), slot, fresh)
        if self.bounded and changes + lowered:
            self.snapshots.reserve(changes + lowered)
        if begun:
            self.cases.reserve_opens(begun)
        for row in self._rows["todo"][:todo].tolist():
            served += self._look_at(batch, row)
        rows = max(served, batch.size)
        if sends > self._answers["send_event"].size or rows > self._answers["deliver_event"].size:
            self._answers = _answers(2 * sends, 2 * rows)
            self._show(self._answers)

    def _look_at(self, batch: Batch, row: int) -> int:
        """Take on a case that is new, read a body from elsewhere; returns how many may be served because of it."""
        cases, bodies, type_, body = self.cases, self.env.bodies, int(batch.type[row]), int(batch.body[row])
        if self._rows["case"][row] < 0 and type_ in (PUBLISH, A.QUESTION):
            key = int(bodies.key[body])
            known = int(cases.case_of.find(np.array([key]))[0])
            self._rows["case"][row] = known if known >= 0 else cases.take_on(key, self._row_of(body))
        if cases.noted[body] != bodies.generation[body] and type_ != PUBLISH:
            if type_ == A.QUESTION and self.bounded:
                cases.note(body, 0, -1, bodies.object(body)["floor"])
            elif type_ == A.ANSWER:
                said = bodies.object(body)
                ids, scores = np.array(said["ids"], np.int64), np.array(said["scores"], np.float64)
                cases.note(body, cases.keep_ranking(ids, scores), ids.size)
            elif type_ == A.DELIVERY:
                to = bodies.object(body)["to"]
                self._note_recipients(body, [client - self.env.entity_base for client, _ in to])
        return int(cases.body_count[body]) if type_ == A.DELIVERY else 0

    def _row_of(self, body: int) -> Floats:
        """The publication that a question is about."""
        bodies = self.env.bodies
        if bodies.row[body] >= 0:
            row: Floats = bodies.values(np.array([body], np.int32))[0]
            return row
        return np.array(bodies.object(body)["values"], np.float64)

    def _note_recipients(self, body: int, clients: Sequence[int]) -> None:
        """Note whom a delivery names, and the numbers of their brokers in the tree, ascending."""
        self.cases.reserve_bodies()
        who, number = by_number(self.env, self._tree, clients)
        self.cases.note(body, self.cases.keep_ranking(who, number.astype(np.float64)), who.size)

    def _show(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Have the kernels see these arrays."""
        if self._record is not None:
            self._record.follow(arrays)

    def _show_renewed(self) -> None:
        """Have the kernels see all arrays as they are now."""
        rooms, bodies = (self.filters, self.cases, self.snapshots), self.env.bodies
        if self._bodies_shown != bodies.capacity:
            self._bodies_shown = bodies.capacity
            self.cases.reserve_bodies()
        if self._record is None:
            links = self.env.links
            always = {
                "said": self._said, "said_real": self._real, "now": self.now, "out_start": links.out_start,
                "out_link": links.out_link, "target": links.target, **self._tree, **self._rows, **self._answers,
            }  # fmt: skip
            arrays: dict[str, NDArray[Any]] = {"generation": bodies.generation, "body_key": bodies.key}
            for room in rooms:
                arrays |= room.columns()
            self._record = A.ASKING.of({**always, **arrays})
        for room in rooms:
            if room.renewed:
                self._record.follow(room.columns())
                room.renewed = False
        self._record.follow({"generation": bodies.generation, "body_key": bodies.key})

    def _help(self, batch: Batch, at: int) -> None:
        """Do what the kernel stopped for."""
        why, now = int(self._why[0]), self.now
        if why == A.ROOM:
            self.cases.room(int(now[A.WANTED]))
        elif why == A.READ:
            handle = int(batch.body[at])
            snapshot, home = self.snapshots.hear(int(batch.broker[at]), self.env.bodies.object(handle))
            self._hold(handle, snapshot, home)
        else:
            self.filters.note_touched(int(now[A.TOUCHED]))
            now[A.TOUCHED] = 0
            case = int(self._rows["case"][at])
            row = self.cases.row[case]
            assert row is not None
            query = self.topk.query(int(self.cases.publisher[case]))
            found = self.filters.best(int(batch.broker[at]), self.topk.asked(row), query)
            used = int(now[A.USED])
            self.cases.keep_ranking(found.ids, found.scores)
            now[A.USED] = used  # the kernel takes it from there
            now[A.GIVEN], now[A.GIVEN_COUNT] = at, found.ids.size

    def _hold(self, body: int, snapshot: int, home: int) -> None:
        """A message brings a snapshot."""
        self.snapshots.uses[snapshot] += 1
        self.snapshots.hold(body, int(self.env.bodies.generation[body]), snapshot)
        self.cases.note(body, snapshot, home)

    # ---- answers ---------------------------------------------------------------------------------------

    def _answer(self, batch: Batch, out: Out) -> None:
        """Hand on what the kernel decided, and decide what is left to Python."""
        now, said = self.now, self._answers
        sends, delivered, limits, lowered, ranked, made, logged = now[A.SENDS : A.LOGGED + 1].tolist()
        if sends:
            event, link, type_, body, word = (said[name][:sends].copy() for name in _SEND)
            if made:
                wanted = body < -1
                body[wanted] = self._make(batch, made)[-2 - body[wanted]]
            out.send(event, link, type_, body, word)
        if ranked and self._charging:
            out.work(*(said[name][:ranked].copy() for name in ("ranked_event", "ranked_entries", "ranked_matches")))
        if limits:
            late = said["limit_event"][:limits].copy()
            word = self.cases.key[self._rows["case"][late]]
            out.timer(late, self.env.options.give_up, A.TOO_LATE, word, batch.body[late].astype(np.int64))
        if lowered:
            out.timer(said["lower_event"][:lowered].copy(), self.env.options.lower_every, A.LOWER, cause=-1)
        serving = Serving()
        if delivered:
            event = said["deliver_event"][:delivered].copy()
            serving.add(event, said["deliver_client"][:delivered].copy(), batch.body[event].astype(np.int64))
        if logged:
            for event, what, a, b, c in zip(*(said[name][:logged].tolist() for name in _LOG)):
                if what == A.PUBLISHED:
                    self._published(batch, event)
                elif what == A.CONCLUDED:
                    self._conclude(out, serving, event, int(self.cases.key[a]), b, c)
                else:
                    self._bound_changed(batch, out, event, what == A.RAISED, a, b)
        serving.hand_on(out)

    def _make(self, batch: Batch, made: int) -> NDArray[np.int32]:
        """Make the bodies that the kernel wants; returns their handles."""
        cases, bodies = self.cases, self.env.bodies
        event, case, start, count, floor = (self._answers[name][:made] for name in _MADE)
        data = encoded(case, start, count, floor, cases.ids, cases.scores, cases.texts, cases.text_sizes)
        types = np.where(count < 0, A.QUESTION, A.ANSWER)
        handles = bodies.add_encoded(self.env.service, types, data, *bodies.all_stand_for(batch.body[event]))
        cases.reserve_bodies()
        cases.noted[handles] = bodies.generation[handles]
        cases.body_start[handles], cases.body_count[handles], cases.body_floor[handles] = start, count, floor
        return handles

    def _published(self, batch: Batch, event: int) -> None:
        """A publication entered here."""
        bodies, body = self.env.bodies, int(batch.body[event])
        publication = int(bodies.key[body])
        self.order.setdefault(publication >> 32, []).append(publication)
        self.roots[publication] = Root(int(batch.broker[event]), body, self._row_of(body))

    def _conclude(
        self, out: Out, serving: Serving, event: int, publication: int, start: int, count: int
    ) -> None:
        """The root has heard from all: decide, once what the publisher sent before is decided."""
        ids = self.cases.ids[start : start + count].copy()
        self.roots[publication].found = Ranking(ids, self.cases.scores[start : start + count].copy(), ids >> 32)
        publisher = publication >> 32
        waiting = self.order[publisher]
        while waiting and (found := self.roots[waiting[0]].found) is not None:
            first = waiting.pop(0)
            root = self.roots.pop(first)
            self._decide(out, serving, event, first, answered(found, self.topk.query(publisher)), root)
        if not waiting:
            del self.order[publisher]

    def _decide(
        self, out: Out, serving: Serving, event: int, publication: int, answer: Answer, root: Root
    ) -> None:
        """The answer is known where the publication entered."""
        self.decided[root.broker] += 1
        serving.decided(
            self.env, self._tree, out, event, root.broker, answer, publication, root.body, root.row,
            self._note_recipients,
        )

    def _bound_changed(self, batch: Batch, out: Out, event: int, raised: bool, before: int, after: int) -> None:
        """A change or a lowering altered the bound of its broker, or did not."""
        env, bounds, here = self.env, self.snapshots, int(batch.broker[event])
        if batch.kind[event] != TIMER:
            cause = batch.cause[event : event + 1].astype(np.int64)
            change = int(env.causes.keys(cause)[0])
            if raised:
                bounds.last_raise[here] = change
            elif bounds.last_raise[here] >= 0:
                out.depends(change, int(bounds.last_raise[here]))
        if not raised:
            return
        links = env.links.out_link[env.links.out_start[here] : env.links.out_start[here + 1]]
        links = links[self._tree["in_tree"][links]].astype(np.int64)
        if links.size:
            body = out.body(bounds.told(here, before, after, self.lossy), A.REFRESH, event)
            self.cases.reserve_bodies()
            self._hold(body, after, here)
            out.send(np.full(links.size, event), links, A.REFRESH, body)
        bounds.drop(before)
        bounds.drop(after)

    def in_tree(self, link: int) -> bool:
        """Whether the tree has this link."""
        return bool(self._tree["in_tree"][link])

    # ---- what is known ---------------------------------------------------------------------------------

    def held(self) -> list[int]:
        return [root.body for root in self.roots.values()]

    def entries(self) -> Ints:
        return self.filters.count

    def describe(self, broker: int) -> dict[str, Any]:
        return {
            "filters": int(self.filters.count[broker]), "decided": int(self.decided[broker]),
            "open": int(np.count_nonzero(self.cases.at[:, broker] >= 0)),
        }  # fmt: skip

    def memory_bytes(self) -> int:
        """Bytes of what the shard holds."""
        return self.filters.memory_bytes() + self.cases.memory_bytes() + self.snapshots.memory_bytes()

    def state(self) -> dict[str, Any]:
        return state(self)

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        load(self, states, handle_of)


_GIVEN = ("broker", "kind", "type", "link", "word", "body")
_SEND = ("send_event", "send_link", "send_type", "send_body", "send_word")
_MADE = ("made_event", "made_case", "made_start", "made_count", "made_floor")
_LOG = ("log_event", "log_what", "log_a", "log_b", "log_c")


def _rows(size: int) -> dict[str, NDArray[Any]]:
    """Room for the rows of a batch."""
    return {
        **{name: np.empty(size, np.int32) for name in A.ROWS if name != "word"},
        "word": np.empty(size, np.int64), "todo": np.empty(size, np.int64),
    }  # fmt: skip


def _answers(sends: int, rows: int) -> dict[str, NDArray[Any]]:
    """Room for what the kernel answers."""
    by_send = (*_SEND, *_MADE[:-1])
    by_row = (
        "limit_event", "lower_event", "ranked_event", "ranked_entries", "ranked_matches", "deliver_event",
        "deliver_client", "done",
    )  # fmt: skip
    return {
        **{name: np.empty(sends, np.int64) for name in by_send}, "made_floor": np.empty(sends),
        **{name: np.empty(rows, np.int64) for name in by_row}, **{name: np.empty(2 * rows, np.int64) for name in _LOG},
    }  # fmt: skip
