"""A broker is told of what found no place in front of its links: of each message once, in every way of running."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from brokers.compiled import Desk, fits, forward, handler
from brokers.contract import NEVER, TIMER, Guarantees, ShardProtocol
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT, LOST, NO_PLACE_AHEAD, Crash, Schedule
from brokers.limits import TOLD, Limits, of_dropped
from brokers.records import Record, reader
from brokers.views import INTS
from protocols.conformance import check_digests, rehearse
from protocols.content.flooding import PlainFlooding
from protocols.content.kind import PUBLISH
from protocols.rehearsing import NARROW, REHEARSALS, rehearsals_for
from tests.brokers.test_engine_checkpoint import continued, folder_for, stopped_at, undisturbed

MS = 1_000_000


class Told(PlainFlooding):
    """Floods; sends what was dropped once more, with a type of its own, and counts."""

    drops_told_ns: ClassVar[int] = 3 * MS
    AGAIN: ClassVar[int] = 40

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.told: list[tuple[int, int, int, int]] = []

    def on_message(self, message: Any) -> None:
        if message.type != self.AGAIN:
            super().on_message(message)

    def on_drop(self, message: Any) -> None:
        self.told.append((message.time, message.link, message.type, self.node.key(message)))
        if message.type != self.AGAIN:
            self.node.send(message, message.link, self.AGAIN)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "told": self.told}


def dropped(model: Any, **how: Any) -> tuple[Counter[Any], Counter[Any]]:
    """(what brokers were told: when, link, type, body; what was lost in front of links, so many ms later)."""
    told: Counter[Any] = Counter()

    def observe(shards: Any) -> None:
        for shard in shards.shards:
            (protocol,) = shard.services.protocols
            for broker in protocol.brokers:
                told.update(tuple(each) for each in protocol.describe(broker)["told"])

    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces, observe=observe, **how)
    losses = traces.tables()["losses"]
    ahead = losses["reason"] == NO_PLACE_AHEAD
    after = model.services[0].protocol_class.drops_told_ns
    columns = (losses["time_ns"] + after, losses["link"], losses["type"], losses["body"])
    return told, Counter(zip(*(column[ahead].tolist() for column in columns)))


def limited(protocol: Any = Told, limits: Limits = NARROW.limits, **more: Any) -> Any:
    return replace(rehearse(NARROW, protocol), limits=limits, **more)


@pytest.mark.parametrize("limits", [NARROW.limits, Limits(bytes=150)], ids=["messages", "bytes"])
def test_a_broker_is_told_of_each_message_that_found_no_place(limits):
    told, lost = dropped(limited(limits=limits))
    assert told == lost and sum(lost.values()) > 50
    assert {type_ for _, _, type_, _ in lost} > {Told.AGAIN}  # those that it sends again may be dropped too


def test_what_tells_is_a_timer_that_names_link_and_type():
    model = limited()
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    hops = traces.tables()["hops"]
    mine = (hops["kind"] == TIMER) & (hops["type"] == TOLD)
    assert mine.any()
    source = np.stack([model.overlay.link_a, model.overlay.link_b], 1).ravel()
    links = [of_dropped(word)[0] for word in hops["word"][mine].tolist()]
    assert source[links].tolist() == hops["broker"][mine].tolist()


def test_it_is_the_same_in_every_way_of_running():
    assert check_digests(limited()) == []


def test_a_run_that_is_stopped_goes_on_to_tell(tmp_path):
    whole, _ = undisturbed(tmp_path / "whole", limited())
    new = folder_for(tmp_path / "stopped", limited())
    stopped_at(0.4, limited(), new.path, 2)
    assert continued(limited(), new.path, 3).digest == whole.digest


def test_it_is_the_same_where_queues_are_limited_and_brokers_crash():
    faults = Schedule((Crash(1, 60 * MS, 120 * MS, LOST), Crash(2, 80 * MS, 140 * MS, KEPT), Crash(3, 100 * MS, NEVER)))
    for full in range(3):
        limits = Limits((4,) * 8, full, messages=2)
        assert check_digests(limited(limits=limits, faults=faults)) == []


def test_who_crashes_before_it_is_told_hears_it_later_or_never():
    """Never if it does not know what it knew."""
    class Slowly(Told):
        drops_told_ns = 60 * MS

    source = np.stack([limited().overlay.link_a, limited().overlay.link_b], 1).ravel()
    at, link, *_ = min(dropped(limited(Slowly))[1])
    broker, begin, end = int(source[link]), at - 10 * MS, at + 40 * MS  # what waited has left by then
    for state in (KEPT, LOST):
        told, lost = dropped(limited(Slowly, faults=Schedule((Crash(broker, begin, end, state),))))
        before = [time for time, link, *_ in lost.elements() if source[link] == broker and time - 60 * MS < begin]
        late = [time for time in before if time >= begin]
        heard = [time for time, link, *_ in told.elements() if source[link] == broker and time <= end]
        assert late and sorted(heard) == ([max(time, end) for time in sorted(late)] if state == KEPT else [])


def test_who_does_not_ask_is_told_nothing_and_nobody_is_without_limits():
    class Deaf(Told):
        drops_told_ns = 0

    told, lost = dropped(limited(Deaf))
    assert not told and lost
    assert dropped(limited(limits=Limits()))[0] == Counter()
    asking, deaf = (simulate(rehearse(REHEARSALS[2], each)).digest for each in (Told, Deaf))
    assert asking == deaf


def test_the_kit_rehearses_it_with_who_is_told():
    assert rehearsals_for(Told)[:-1] == rehearsals_for(PlainFlooding) == REHEARSALS
    assert rehearsals_for(Told)[-1] is NARROW


MINE = Record("counts drops", {"told": INTS})
mine_at = reader(MINE)


@handler(MINE)
def decide(desk, mine, at, stop):
    me = mine_at(mine)
    for i in range(at, stop):
        if desk.kind[i] == TIMER:
            me.told[desk.broker[i]] += 1
        elif desk.type[i] == PUBLISH:
            first, last = desk.out_start[desk.broker[i]], desk.out_start[desk.broker[i] + 1]
            if not fits(desk, last - first, 0):
                return i
            for j in range(first, last):
                if desk.out_link[j] != desk.link[i]:
                    forward(desk, i, desk.out_link[j])
    return stop


class Compiled(ShardProtocol):
    """Passes on to all, delivers to nobody, and counts what it is told."""

    kind: ClassVar[str] = "content"
    guarantees = Guarantees(exact=False)
    drops_told_ns: ClassVar[int] = 3 * MS
    compiled = decide

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.told = np.zeros(env.brokers, np.int64)
        self.desk = Desk(env, self)

    def columns(self) -> Any:
        return {"told": self.told}

    def handle(self, batch: Any, out: Any) -> None:
        self.desk.decide(batch, out, 0, batch.size)

    def entries(self) -> Any:
        return self.told


def test_a_compiled_handler_is_told_too():
    model = limited(Compiled)
    assert check_digests(model) == []
    counts: list[int] = []

    def observe(shards: Any) -> None:
        counts.append(int(shards.shards[0].services.protocols[0].told.sum()))

    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces, observe=observe)
    assert counts == [int((traces.tables()["losses"]["reason"] == NO_PLACE_AHEAD).sum())] and counts[0] > 50
