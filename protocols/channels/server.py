"""The server: it knows all queries, plans, and answers every round.

Rules:
- A change of a query opens a batch; those that come until planning begins join it, and depend on the one that
  opened it, which is the cause of all that follows. Planning begins at once, or at the next multiple of
  `replan_every_ms`, but never before the planning under way is done.
- Planning takes simulated time, named by the options before it begins, and is computed aside meanwhile. Then the plan
  is in force: the server tells the brokers who listens to which channel, and answers by it from then on.
- Links keep their order, so an answer never overtakes the news of the plan it belongs to. What a plan changes for
  others than those whose change led to it, nobody can see.
- A period has rounds at its multiples, from the moment planning for it begins until none of its queries is left.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, ClassVar, cast

import numpy as np

from brokers.aside import Aside
from brokers.contract import TIMER, BrokerProtocol, Message
from brokers.node import Body
from brokers.planning.model import Queries
from brokers.wire import Encoded, encode_body
from protocols.channels.answers import body_of, size_bytes
from protocols.channels.database import marks
from protocols.channels.kind import SUBSCRIBE, Asked, Channels
from protocols.channels.listening import rows_of
from protocols.channels.plans import (
    Job,
    Options,
    Planned,
    pairs,
    plan_again,
    plan_all,
    queries_as_data,
    queries_of_data,
    state_of,
)

LISTEN, ANSWER, ROUND, BEGIN, PLANNED = 16, 17, 18, 19, 20
TIMER_NS_MIN = 1_000_000


class Server(BrokerProtocol):
    """See the module."""

    kind: ClassVar[str] = "channels"
    timer_min_ns = TIMER_NS_MIN
    keeps: ClassVar[tuple[Any, ...]] = (Asked,)
    remade: ClassVar[tuple[str, ...]] = ("under_way", "plans")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.queries: dict[int, Asked] = {}
        self.stale: set[int] = set()  # periods whose queries have changed since planning for them began
        self.gathering = False  # whether a batch of changes is open
        self.batch = -1  # the change that opened it; -1 where a client told again what it had told before
        self.busy_until_ns = 0
        self.under_way: Aside | None = None
        self.began_ns = 0
        self.plans: dict[int, Planned] = {}  # by period
        self.plan_number = 0
        self.rounds: set[int] = set()  # periods whose next round has a timer
        self.numbers: dict[tuple[Any, ...], int] = {}  # channel -> its number
        self.numbered = 0
        self.sent = 0
        self.opening = False  # queries that stand from the start are still to be planned
        self.described = False  # the database is in the trace
        self.service.database()  # so that what is wrong with it is told before anything runs

    @property
    def service(self) -> Channels:
        return cast(Channels, self.node.env.kind)

    @property
    def options(self) -> Options:
        return cast(Options, self.node.env.options)

    def on_message(self, message: Message) -> None:
        self.describe_objects(message)
        if message.kind != TIMER:
            self.change(message)
        elif message.type == ROUND:
            self.round(message)
        elif message.type == BEGIN:
            self.begin(message)
        elif message.type == PLANNED:
            self.install(message)

    # ---- queries ---------------------------------------------------------------------------------------

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        self.queries[id] = self.service.asked(row, id)
        self.opening = True

    def first_timers(self) -> list[tuple[int, int, int]]:
        self.rounds = {asked.period_ns for asked in self.queries.values()}
        return [(period, ROUND, period) for period in sorted(self.rounds) if period < self.node.env.duration_ns]

    def change(self, message: Message) -> None:
        """A query came, went, or is another one now."""
        id_ = message.word
        before = self.queries.pop(id_, None)
        if before is not None:
            self.stale.add(before.period_ns)
        if message.type == SUBSCRIBE:
            asked = self.queries[id_] = self.service.asked(self.node.row(message.body), id_)
            self.stale.add(asked.period_ns)
        if self.gathering:
            self.node.depends(message.cause, self.batch)
            return
        self.gathering, self.batch = True, message.cause
        every = self.options.replan_every_ms * 1_000_000
        earliest = max(message.time + TIMER_NS_MIN, self.busy_until_ns)
        begin = earliest if every == 0 else earliest + -earliest % every
        self.node.timer(message, begin - message.time, BEGIN)

    # ---- plans -----------------------------------------------------------------------------------------

    def begin(self, message: Message) -> None:
        """Begin to plan for the periods whose queries have changed."""
        jobs = self.jobs(sorted(self.stale))
        options = self.options
        cost = options.planning_base_us * 1000 + options.planning_per_pair_ns * pairs(jobs, options.replan == "mended")
        cost = max(cost, TIMER_NS_MIN)
        self.stale.clear()
        self.gathering, self.batch = False, -1
        self.began_ns, self.busy_until_ns = message.time, message.time + cost
        self.under_way = Aside(plan_all, *self.arguments(jobs))
        self.node.timer(message, cost, PLANNED)
        for job in jobs:
            if job.period_ns not in self.rounds and len(job.queries):
                self.set_round(message, job.period_ns)

    def install(self, message: Message) -> None:
        assert self.under_way is not None
        planned, self.under_way = self.under_way.result(), None
        self.take(message, planned, self.began_ns)

    def open(self, message: Message) -> None:
        """Plan for what stands from the start, as if that had been done long ago."""
        self.opening = False
        periods = sorted({asked.period_ns for asked in self.queries.values()})
        self.take(message, plan_all(*self.arguments(self.jobs(periods))), message.time)

    def jobs(self, periods: list[int]) -> list[Job]:
        ids = sorted(self.queries)
        d = self.service.dimensions
        found = []
        for period in periods:
            mine = [id_ for id_ in ids if self.queries[id_].period_ns == period]
            numbers = np.array(mine, np.int64)
            low = np.array([self.queries[id_].low for id_ in mine], np.float64).reshape(-1, d)
            high = np.array([self.queries[id_].high for id_ in mine], np.float64).reshape(-1, d)
            queries = Queries(numbers, (numbers >> 32) - self.node.env.entity_base, low, high)
            found.append(Job(period, queries, self.plans.get(period)))
        return found

    def arguments(self, jobs: list[Job]) -> tuple[Any, ...]:
        return self.options.model_dump(), self.service.params, self.node.env.seed, jobs

    def take(self, message: Message, planned: list[Planned], began_ns: int) -> None:
        """Plans are in force from now on: number their channels, and tell who listens where."""
        for plan in planned:
            self.plans.pop(plan.period_ns, None)
            if len(plan.queries):
                self.plans[plan.period_ns] = plan
        listeners: dict[tuple[Any, ...], tuple[int, ...]] = {}
        for _, plan in sorted(self.plans.items()):
            listeners.update((each.channel, each.listeners) for each in plan.sent)
        for channel in listeners:
            if channel not in self.numbers:
                self.numbers[channel] = self.numbered
                self.numbered += 1
        self.numbers = {channel: number for channel, number in self.numbers.items() if channel in listeners}
        body = Encoded(_who_listens([(self.numbers[channel], clients) for channel, clients in listeners.items()]))
        self.node.send(message, self.node.links[0], LISTEN, body)
        for plan in planned:
            self.record_plan(message, plan, began_ns)
        self.plan_number += 1

    # ---- rounds ----------------------------------------------------------------------------------------

    def set_round(self, message: Message, period_ns: int) -> None:
        """Set a timer for the next round of a period, unless the run ends before."""
        earliest = message.time + TIMER_NS_MIN
        at = earliest + -earliest % period_ns
        if at < self.node.env.duration_ns:
            self.rounds.add(period_ns)
            self.node.timer(message, at - message.time, ROUND, period_ns, cause=-1)
        else:
            self.rounds.discard(period_ns)

    def round(self, message: Message) -> None:
        """Run the merged queries of a period, and send each answer on its channel."""
        if self.opening:
            self.open(message)
        period = message.word
        planned = self.plans.get(period)
        if planned is not None:
            self.node.work(message, len(planned.sent), sum(len(each.answer.objects) for each in planned.sent))
            self.send_answers(message, planned)
        if any(asked.period_ns == period for asked in self.queries.values()):
            self.set_round(message, period)
        else:
            self.rounds.discard(period)

    def send_answers(self, message: Message, planned: Planned) -> None:
        """Each on its channel."""
        node, period, number = self.node, planned.period_ns, message.time // planned.period_ns
        object_bytes = self.service.params["object_bytes"]
        rows = []
        for each in planned.sent:
            answer, channel = each.answer, self.numbers[each.channel]
            publication = (node.broker << 32) | self.sent
            self.sent += 1
            if each.body is None:
                body = body_of(answer, period, number, planned.parts)
                each.body = {**body, "header": Encoded(encode_body(body["header"]))}
            each.body["round"] = number
            size = size_bytes(answer, object_bytes)
            # A publication of the server's own, so that deliveries count for it, and their latency from now.
            handle = node.env.bodies.add_object(
                node.env.service, ANSWER, each.body, message.time, publication, node.broker
            )
            node.send(message, node.links[0], ANSWER, Body(handle), channel, size, cause=-1)
            lines, objects = len(answer.message.header), len(answer.objects)
            rows.append((publication, channel, lines, len(each.listeners), objects, size))
        if rows:
            names = ("publication", "channel", "queries", "listeners", "objects", "size_bytes")
            columns = dict(zip(names, np.array(rows, np.int64).T))
            node.record(message, "answers", period_ns=period, round=number, **columns)

    # ---- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        jobs = None
        if self.under_way is not None:
            jobs = {job.period_ns: queries_as_data(job.queries) for job in self.under_way.arguments[-1]}
        plans = {period: state_of(planned) for period, planned in self.plans.items()}
        return {**super().state(), "jobs": jobs, "planned": plans}

    def load(self, state: dict[str, Any]) -> None:
        """Plans follow from their queries, and so does the work aside: both are made again."""
        jobs, planned = state.pop("jobs"), state.pop("planned")
        super().load(state)
        params, seed, axes = self.service.params, self.node.env.seed, self.service.dimensions
        for id_, asked in self.queries.items():
            ends = np.stack([asked.low, asked.high], axis=1).ravel()
            self.service.asked(np.array([asked.period_ns, *ends], np.float64), id_)
        for period, kept in planned.items():
            self.plans[period] = plan_again(self.options, params, seed, period, kept)
        if jobs is not None:
            again = [
                Job(period, queries_of_data(queries, axes), self.plans.get(period)) for period, queries in jobs.items()
            ]
            self.under_way = Aside(plan_all, *self.arguments(again))

    # ---- traces ----------------------------------------------------------------------------------------

    def describe_objects(self, message: Message) -> None:
        """Write the database into the trace, once."""
        if self.described:
            return
        self.described = True
        database = self.service.database()
        columns = {"object": database.ids, "mark": marks(database.ids), "point": database.points}
        self.node.record(message, "objects", **columns)

    def record_plan(self, message: Message, plan: Planned, began_ns: int) -> None:
        self.node.record(
            message, "plans", plan=self.plan_number, began_ns=began_ns, cause=message.cause,
            period_ns=plan.period_ns, queries=len(plan.queries), merged=len(plan.sent),
            channels=len({each.channel for each in plan.sent}), cost=plan.cost, sent=plan.size,
            irrelevant=plan.irrelevant,
        )  # fmt: skip

    def entries(self) -> int:
        return len(self.queries)

    def describe(self) -> dict[str, Any]:
        return {
            "queries": len(self.queries),
            "plans": self.plan_number,
            "merged": {period: len(plan.sent) for period, plan in sorted(self.plans.items())},
            "channels": len(self.numbers),
        }


def _who_listens(channels: list[tuple[int, tuple[int, ...]]]) -> bytes:
    """What brokers are told: each client with its channels, both ascending."""
    sizes = [len(clients) for _, clients in channels]
    client = np.fromiter(chain.from_iterable(clients for _, clients in channels), np.int64, sum(sizes))
    number = np.repeat(np.array([number for number, _ in channels], np.int64), sizes)
    order = np.lexsort((number, client))
    named, start = np.unique(client[order], return_index=True)
    return rows_of(named, np.append(start, client.size), number[order])
