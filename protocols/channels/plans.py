"""What the server computes aside: a plan for the queries of a period, and the answers that it makes it send.

`plan_all` is a pure function of plain data, as `brokers.aside` asks. Queries of different periods are planned apart:
they are rarely due together, and a merged query would drag along those that are not.

Modes:
    unicast     every query is answered by itself, to its client alone
    identical   equal queries are answered once
    merged      queries are merged by an algorithm; each merged query goes to those who want some of it
    channels    clients are divided over a fixed number of channels; a client hears all that is sent on its own

A channel is known by who listens, so in the first three modes there is one for each set of clients that want the
same merged query; in the last by its number.

A mended plan is that before with the changes since: merged sets, and in mode `channels` also who listens to which,
stay as they are but where the changes make others better.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from brokers.columns import BadState, Column, check_columns
from brokers.indexes.contract import Ids
from brokers.planning.allocation import Allocation, allocate_on, channel_merging, k_means
from brokers.planning.answers import Answer, answer_message
from brokers.planning.model import Costs, Queries
from brokers.planning.plan import Plan, merged_query
from brokers.planning.planner import ALGORITHMS, plan
from brokers.planning.problem import BoxProblem
from brokers.planning.procedures import Piece
from brokers.planning.replan import DRIFT, Allocator, ChannelReplanner, Replanner
from brokers.planning.sizes import Area, Count, Database, Histogram, Size
from brokers.planning.stronger import allocate
from protocols.channels.database import database_of

_QUERIES = {
    "ids": Column("i8", ("queries",), low=0),
    "clients": Column("i8", ("queries",), low=0),
    "low": Column("f8", ("queries", "axes")),
    "high": Column("f8", ("queries", "axes")),
}
ALLOCATORS: dict[str, Callable[..., Allocation]] = {"k-means": k_means, "channel-merging": channel_merging,
                                                    "stronger": allocate}  # fmt: skip


class Constants(BaseModel):
    """The constants of the cost model; by default those of Figure 12 of the source, times 10^5."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    message: Annotated[float, Field(ge=0, description="K_M, per merged query")] = 365.0
    transmit: Annotated[float, Field(ge=0, description="K_T, per object sent")] = 3.25
    irrelevant: Annotated[float, Field(ge=0, description="K_U, per object that a query receives in vain")] = 0.16
    share: Annotated[float, Field(ge=0, description="K_S, per object that a client overhears")] = 0.16

    def costs(self) -> Costs:
        """As the planning library takes them."""
        return Costs(self.message, self.transmit, self.irrelevant, share=self.share)

    @model_validator(mode="after")
    def _some(self) -> Constants:
        if not any((self.message, self.transmit, self.irrelevant, self.share)):
            raise ValueError("all constants are 0, so that every plan costs the same; set at least one")
        return self


class Options(BaseModel):
    """Options of the protocol `channels`: how the server plans."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={"examples": [{"mode": "channels", "channels": 2, "weights": [1.0, 3.0]}]},
    )

    mode: Annotated[
        Literal["unicast", "identical", "merged", "channels"], Field(description="what is merged, and who hears it")
    ] = "merged"
    algorithm: Annotated[
        str,
        Field(description="merged: one of brokers.planning", examples=["separate", "branch-and-bound", "clustering"]),
    ] = "pair-merging"
    procedure: Annotated[
        Literal["rectangle", "polygon", "exact"], Field(description="what is asked in place of a set of queries")
    ] = "rectangle"
    channels: Annotated[int, Field(ge=1, le=10_000, description="channels: how many")] = 10
    allocator: Annotated[
        Literal["k-means", "channel-merging", "stronger"], Field(description="channels: who listens to which")
    ] = "k-means"
    weights: Annotated[
        list[Annotated[float, Field(gt=0)]] | None,
        Field(description="channels: what each costs, as a multiple; default: all the same"),
    ] = None
    extractor: Annotated[
        Literal["query", "tags"], Field(description="clients find their objects by the query, or by tags on them")
    ] = "query"
    sizes: Annotated[
        Literal["area", "histogram", "count"], Field(description="how objects in a box are estimated")
    ] = "count"
    costs: Annotated[Constants, Field(description="constants of the cost model")] = Constants()
    replan: Annotated[
        Literal["fresh", "mended"], Field(description="a plan is made anew, or that before is mended")
    ] = "fresh"
    drift: Annotated[
        float, Field(ge=0, description="mended: how far the cost may drift before a plan is made anew")
    ] = DRIFT
    anew_every: Annotated[
        int | None, Field(ge=1, description="mended: after so many changes a plan is made anew; default: by drift only")
    ] = None
    replan_every_ms: Annotated[
        int, Field(ge=0, le=86_400_000, description="changes are planned at multiples of this; 0: at once")
    ] = 0
    planning_base_us: Annotated[int, Field(ge=0, le=10**9, description="planning takes this")] = 1000
    planning_per_pair_ns: Annotated[
        int, Field(ge=0, le=10**9, description="and this per pair of queries compared")
    ] = 100

    @model_validator(mode="after")
    def _fit_together(self) -> Options:
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"no algorithm {self.algorithm!r}; there are {', '.join(sorted(ALGORITHMS))}")
        plain = (self.algorithm, self.procedure) == ("pair-merging", "rectangle")
        if self.replan == "mended" and not (plain and self.mode in ("merged", "channels")):
            raise ValueError(
                "only plans of mode `merged` or `channels`, by `pair-merging` into a `rectangle`, are mended"
            )
        if self.weights is not None and self.mode != "channels":
            raise ValueError(f"`weights` are those of channels; in mode `{self.mode}` there are none to choose from")
        if self.weights is not None and len(self.weights) != self.channels:
            raise ValueError(f"{len(self.weights)} weights for {self.channels} channels; give one per channel")
        return self


class Job(NamedTuple):
    """What is to be planned: the queries of a period, and the plan before, if there was one."""

    period_ns: int
    queries: Queries
    before: Planned | None


class Sent:
    """A merged query: the channel it goes on, who listens there (client numbers), and its answer, once it is due."""

    __slots__ = ("_answer", "_make", "body", "channel", "listeners")

    def __init__(self, channel: tuple[Any, ...], listeners: tuple[int, ...], make: Callable[[], Answer]) -> None:
        self.channel, self.listeners = channel, listeners
        self._make = make
        self._answer: Answer | None = None
        self.body: dict[str, Any] | None = None  # of the last message with it; of the next, only the round is another

    @property
    def answer(self) -> Answer:
        """Made when it is asked for first: many plans are replaced before their first round."""
        if self._answer is None:
            self._answer = self._make()
        return self._answer


@dataclass(frozen=True, eq=False)
class Planned:
    """The plan for a period."""

    period_ns: int
    queries: Queries
    sent: list[Sent]
    parts: dict[int, int]  # query -> in how many messages there is something for it
    cost: float
    size: float  # objects sent per round, by the model
    irrelevant: float  # objects received in vain per round, over all queries, by the model
    replanner: Replanner | ChannelReplanner | None


def pairs(jobs: list[Job], mended: bool) -> int:
    """Pairs of queries that planning compares; what it is charged for."""
    count = 0
    for job in jobs:
        n = len(job.queries)
        if mended and job.before is not None:
            gone, come = _difference(job.before.queries, job.queries)
            count += (len(gone) + len(come)) * n
        else:
            count += n * (n - 1) // 2
    return count


def expected_planning_s(options: Options, rounds: list[tuple[float, float, float]]) -> float:
    """How long planning takes in the mean, with so many queries of each (period, queries, queries apart)."""
    compared = max((n * n / 2 for _, n, _ in rounds), default=0.0)
    took_s = options.planning_base_us / 1e6 + options.planning_per_pair_ns / 1e9 * compared
    return max(took_s, options.replan_every_ms / 1e3)


def plan_all(options: dict[str, Any], params: dict[str, Any], seed: int, jobs: list[Job]) -> list[Planned]:
    """A plan for each period."""
    chosen, database = Options.model_validate(options), database_of(params)
    return [_plan(chosen, database, seed, job) for job in jobs]


def _plan(options: Options, database: Database, seed: int, job: Job) -> Planned:
    queries = job.queries
    if not len(queries):
        return Planned(job.period_ns, queries, [], {}, 0.0, 0.0, 0.0, None)
    replanner = None
    if options.replan == "mended":
        replanner = _mended(options, _size(options.sizes, database), seed, job)
    return _planned(options, database, seed, job.period_ns, queries, replanner)


def _planned(
    options: Options,
    database: Database,
    seed: int,
    period_ns: int,
    queries: Queries,
    replanner: Replanner | ChannelReplanner | None,
) -> Planned:
    """The plan for queries: that of a replanner, or a fresh one."""
    costs, size = options.costs.costs(), _size(options.sizes, database)
    listening: dict[int, tuple[int, ...]] = {}
    if options.mode == "channels":
        if isinstance(replanner, ChannelReplanner):
            allocation = replanner.allocation()
        else:
            allocation = _allocation(options, BoxProblem(queries, costs, size, options.procedure), seed)
        found = allocation.plan
        listening = {
            k: tuple(allocation.clients[allocation.channel == k].tolist()) for k in set(allocation.channel.tolist())
        }
    elif isinstance(replanner, Replanner):
        found = replanner.plan()
    else:
        algorithm = {"unicast": "separate", "identical": "identical"}.get(options.mode, options.algorithm)
        found = plan(BoxProblem(queries, costs, size, options.procedure), algorithm, seed, bounded=False)
    sent, parts = _messages(found, database, options.extractor == "tags", period_ns, listening)
    return Planned(period_ns, queries, sent, parts, found.cost, *_estimates(found), replanner)


def _messages(
    found: Plan, database: Database, tagged: bool, period_ns: int, listening: dict[int, tuple[int, ...]]
) -> tuple[list[Sent], dict[int, int]]:
    """The merged queries of a plan, and in how many of them there is something for each query."""
    problem = found.problem
    assert isinstance(problem, BoxProblem)
    sent: list[Sent] = []
    parts: dict[int, int] = {}
    ids, clients = problem.queries.ids.tolist(), problem.queries.clients.tolist()
    channels = found.channel.tolist()
    for number, members in enumerate(found.sets()):
        # A set that becomes one box is its own piece, and is looked at more closely only when it is sent.
        pieces: list[Piece | None] = [None] if problem.bounding else [*problem.pieces(members)]
        for piece in pieces:
            rows = (members if piece is None else piece.members).tolist()
            for row in rows:
                parts[ids[row]] = parts.get(ids[row], 0) + 1
            make = partial(_answered, problem, members, piece, len(sent), channels[number], database, tagged)
            if listening:
                sent.append(Sent(("channel", period_ns, channels[number]), listening[channels[number]], make))
            else:
                here = tuple(sorted({clients[row] for row in rows}))
                sent.append(Sent(here, here, make))
    return sent, parts


def _answered(
    problem: BoxProblem, members: Ids, piece: Piece | None, number: int, channel: int, database: Database, tagged: bool
) -> Answer:
    chosen = problem.pieces(members)[0] if piece is None else piece
    return answer_message(merged_query(problem, chosen, number, channel), database, tagged)


def state_of(planned: Planned) -> dict[str, Any]:
    """What a plan is made anew from, as plain data: its queries, and what a replanner remembers."""
    replanner = planned.replanner
    return {**queries_as_data(planned.queries), "replanner": None if replanner is None else replanner.state()}


def plan_again(options: Options, params: dict[str, Any], seed: int, period_ns: int, state: Any) -> Planned:
    """The plan whose `state_of` this is. Planning is pure, so it is the same."""
    database, replanner = database_of(params), None
    if type(state) is not dict or "replanner" not in state:
        raise BadState("a plan has no replanner, not even None")
    kept = state.pop("replanner")
    queries = queries_of_data(state, len(params["axes"]))
    if options.replan == "mended":
        replanner = _new_replanner(options, _size(options.sizes, database), seed, queries.dimensions)
        replanner.load(kept)
        if not np.array_equal(replanner.queries().ids, np.sort(queries.ids)):
            raise BadState("a plan was mended for other queries than its own")
    return _planned(options, database, seed, period_ns, queries, replanner)


def queries_as_data(queries: Queries) -> dict[str, Any]:
    return {"ids": queries.ids, "clients": queries.clients, "low": queries.low, "high": queries.high}


def queries_of_data(state: Any, axes: int) -> Queries:
    """Queries out of a file, checked."""
    columns = check_columns(state, _QUERIES, {"axes": axes})
    return Queries.of(columns["low"], columns["high"], columns["clients"], columns["ids"])


def _size(name: str, database: Database) -> Size:
    if name == "count":
        return Count(database)
    if name == "histogram":
        return Histogram(database.points)
    extent = database.points.max(axis=0) - database.points.min(axis=0)
    return Area(len(database) / float(np.where(extent > 0, extent, 1.0).prod()))


def _allocation(options: Options, problem: BoxProblem, seed: int) -> Allocation:
    """Clients on channels."""

    def merge(part: BoxProblem) -> Plan:
        return plan(part, options.algorithm, seed, bounded=False)

    plain = options.algorithm == "pair-merging"
    allocator = _allocator(options, seed)
    return allocate_on(problem, options.channels, allocator, options.weights, None if plain else merge)


def _allocator(options: Options, seed: int) -> Allocator:
    chosen = ALLOCATORS[options.allocator]
    return chosen if options.allocator == "channel-merging" else partial(chosen, seed=seed)


def _new_replanner(options: Options, size: Size, seed: int, dimensions: int) -> Replanner | ChannelReplanner:
    costs, when = options.costs.costs(), (options.drift, options.anew_every)
    if options.mode == "channels":
        return ChannelReplanner(
            costs, options.channels, size, dimensions, options.weights, _allocator(options, seed), *when
        )
    return Replanner(costs, size, dimensions, *when)


def _mended(options: Options, size: Size, seed: int, job: Job) -> Replanner | ChannelReplanner:
    """The replanner of the plan before, after the changes since; the one before stays as it is."""
    before = job.before
    if before is None or before.replanner is None:
        replanner = _new_replanner(options, size, seed, job.queries.dimensions)
        replanner.add(job.queries)
        return replanner
    # The objects are the same for ever, so their table is not copied.
    replanner = deepcopy(before.replanner, {id(before.replanner.size): before.replanner.size})
    gone, come = _difference(before.queries, job.queries)
    if len(gone):
        replanner.remove(before.queries.ids[gone])
    if len(come):
        replanner.add(job.queries.subset(come))
    return replanner


def _difference(before: Queries, now: Queries) -> tuple[Any, Any]:
    """Rows of queries that are not among the others as they are: of those before, and of those now."""

    def keys(queries: Queries) -> list[tuple[Any, ...]]:
        numbers = np.hstack([queries.low, queries.high]).tolist()
        return [(id_, *row) for id_, row in zip(queries.ids.tolist(), numbers)]

    old, new = keys(before), keys(now)
    old_set, new_set = set(old), set(new)
    gone = [row for row, key in enumerate(old) if key not in new_set]
    come = [row for row, key in enumerate(new) if key not in old_set]
    return np.array(gone, np.int64), np.array(come, np.int64)


def _estimates(found: Plan) -> tuple[float, float]:
    """Objects sent, and objects received in vain, per round, by the model of sizes."""
    sent = received = 0.0
    sets, problem = found.sets(), found.problem
    if isinstance(problem, BoxProblem) and problem.bounding and sets:
        each = list(zip(*(column.tolist() for column in problem.hulls(sets))))
    else:
        each = [(estimate.size, estimate.received) for estimate in map(problem.estimate, sets)]
    for size, got in each:
        sent += size
        received += got
    return sent, received - float(problem.sizes.sum())
