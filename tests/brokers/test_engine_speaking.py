"""Compiled handlers that say what no row brought: messages of their own, timers, bodies."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from brokers.compiled import Desk, fits, handler, makes, send, timer
from brokers.contract import TIMER, BrokerProtocol, Guarantees, ShardProtocol
from brokers.engine.batching import Cutting
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import ProtocolFault
from brokers.making import begin, data_of, finish
from brokers.records import Record, reader
from brokers.views import INTS
from brokers.wire.numbers import WIDEST, read_head, read_int, write_head, write_int
from protocols.conformance import REHEARSALS, check_digests, rehearse
from protocols.content.kind import PUBLISH

ASK, ANSWER, DONE, RING = range(16, 20)
MS = 1_000_000
MINE = Record("echo", {"asked": INTS})
mine_at = reader(MINE)


class PlainEcho(BrokerProtocol):
    """A broker whose client publishes asks its neighbours, who answer, and tells them a while later that it is done."""

    kind = "content"
    guarantees = Guarantees(exact=False, no_duplicates=False, fifo_per_publisher=False, only_wanted=True)
    timer_min_ns = MS

    def __init__(self, node):
        super().__init__(node)
        self.asked = 0

    def on_message(self, message):
        if message.kind == TIMER:
            for link in self.node.links:
                self.node.send(message, link, DONE, word=message.word, size=100)
        elif message.link < 0 and message.type == PUBLISH:
            self.asked += 1
            for link in self.node.links:
                self.node.send(message, link, ASK, [self.asked, -3 * self.asked])
            self.node.timer(message, MS + self.asked, RING, self.asked)
        elif message.type == ASK:
            self.node.send(message, message.link, ANSWER, [self.node.body(message)[1] * 1000])

    def on_standing(self, id, client, broker, row):
        pass

    def entries(self):
        return self.asked


@handler(MINE, speaks=True)
def echo(desk, mine, at, stop):
    asked = mine_at(mine).asked
    for i in range(at, stop):
        b = desk.broker[i]
        first, last = desk.out_start[b], desk.out_start[b + 1]
        if not fits(desk, last - first, 0) or not makes(desk, 1, 1, 3 * WIDEST):
            return i
        if desk.kind[i] == TIMER:
            for j in range(first, last):
                send(desk, i, desk.out_link[j], DONE, -1, desk.word[i], 100)
        elif desk.link[i] < 0 and desk.type[i] == PUBLISH:
            asked[b] += 1
            where = write_head(desk.bytes, begin(desk), 2)
            where = write_int(desk.bytes, write_int(desk.bytes, where, asked[b]), -3 * asked[b])
            body = finish(desk, i, ASK, where)
            for j in range(first, last):
                send(desk, i, desk.out_link[j], ASK, body, 0, -1)
            timer(desk, i, MS + asked[b], RING, asked[b], -1)
        elif desk.type[i] == ASK:
            data = data_of(desk, desk.body[i])
            _, where = read_head(data, 0)
            _, where = read_int(data, where)
            number, _ = read_int(data, where)
            where = write_int(desk.bytes, write_head(desk.bytes, begin(desk), 1), 1000 * number)
            send(desk, i, desk.link[i], ANSWER, finish(desk, i, ANSWER, where), 0, -1)
    return stop


class Echo(ShardProtocol):
    kind: ClassVar[str] = "content"
    plain, guarantees = PlainEcho, PlainEcho.guarantees
    compiled = echo
    timer_min_ns = MS

    def __init__(self, env):
        super().__init__(env)
        self.asked = np.zeros(env.brokers, np.int64)
        self.desk = Desk(env, self)

    def columns(self):
        return {"asked": self.asked}

    def stand(self, interests):
        pass

    def handle(self, batch, out):
        self.desk.decide(batch, out, 0, batch.size)

    def entries(self):
        return self.asked


@handler(MINE)
def silent(desk, mine, at, stop):
    for i in range(at, stop):
        if desk.link[i] < 0 and fits(desk, 1, 0):
            send(desk, i, desk.out_link[desk.out_start[desk.broker[i]]], ASK, -1, 0, -1)
    return stop


class Mute(Echo):
    plain, compiled = None, silent

    def handle(self, batch, out):
        self.desk.decide(batch, out, 0, batch.size)


@handler(MINE, speaks=True)
def shrill(desk, mine, at, stop):
    for i in range(at, stop):
        if desk.link[i] < 0 and desk.kind[i] != TIMER:
            if not makes(desk, 1, 0, 0):
                return i
            timer(desk, i, MS, 200, 0, -1)
    return stop


class Shrill(Echo):
    plain, compiled = None, shrill

    def handle(self, batch, out):
        self.desk.decide(batch, out, 0, batch.size)


@pytest.mark.parametrize("rehearsal", [REHEARSALS[at] for at in (2, 3, 6)], ids=lambda each: each.name)
def test_what_a_handler_says_itself_has_the_same_trace_in_every_way_of_running(rehearsal):
    model = rehearse(rehearsal, Echo)
    assert check_digests(model) == []
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, cutting=Cutting(compiled="rounds"), trace=traces)
    assert {ASK, ANSWER, DONE, RING} <= set(traces.tables()["hops"]["type"].tolist())


def test_bodies_that_handlers_made_go_with_their_last_message():
    model, found = rehearse(REHEARSALS[6], Echo), []

    def observe(shards):
        bodies = shards.shards[0].services.bodies
        found.append((bodies.made, bodies.sweep([]), len(bodies)))

    simulate(model, observe=observe)
    made, _, left = found[-1]
    assert made > 100 and left == 0


def test_a_timer_of_a_type_that_no_message_has_is_named():
    with pytest.raises(ProtocolFault, match="type 200"):
        simulate(rehearse(REHEARSALS[6], Shrill))


def test_a_handler_that_speaks_without_saying_so_is_told():
    with pytest.raises(ProtocolFault, match="was not made with `speaks`"):
        simulate(rehearse(REHEARSALS[6], Mute))
