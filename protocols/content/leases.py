"""Leases: what a broker knows of a subscription is gone unless it is renewed, so whatever went wrong heals by itself.

Rules:
- Subscriptions go everywhere, along one tree. An entry, a subscription with the link that it came by, stands for
  `lease` after it was last refreshed. It is refreshed whenever the subscription comes that way again.
- Every `renew`, counted from the first time, the subscription goes out anew from the broker of its client, and every
  broker passes it on, whatever it knew. With what it asks for comes what it ought to be: a broker that knows it
  otherwise takes the new.
- A lease is counted in `steps`. Every broker takes one off all its entries at the same rhythm, and drops what has none
  left; what claims to have more than there are is cut to that first. So an entry stands for at most `lease`, and for at
  least all steps but one.
- A withdrawal goes everywhere at once, or with `withdraw: false` nowhere: then it is not renewed, and runs out.
- A client gets only what a subscription of its own asks for, whatever brokers believe.

Who renews is the broker of the client, in its place. A client that said every time that it is still there would issue a
change each time, and changes are what is judged. So a broker has two sorts of memory: what its own clients want, which
is the clients' to know and is told again after a crash; and entries, which are anybody's to spoil.

Theory. Entries that should be there are refreshed at least every `renew`, give or take what delays vary by on the
longest way, J. So nothing right runs out as long as all steps but one take longer than `renew` + J; or with `tries`
renewals in one lease, of which all but one may be lost, than `tries` times `renew` + J. That is checked for jitter;
what waits in queues comes on top, and nobody knows it beforehand. It is the variation that counts: a delay that stays
the same moves all refreshes alike.

Nothing that a broker does with a renewal depends on what it knew. So after whatever spoilt its entries, wrong ones are
gone after `lease`, and right ones are there after `renew` and the way from the client's broker: all is as it should be
max(lease, renew + way) later. With one tree for all, no spoilt entry can send anything round for ever. Meanwhile
nothing is owed: who is out of reach for longer than a lease is forgotten (`lets_go`), and so is one whose renewals are
lost, which on links that lose messages is never quite impossible.

In the mean, with subscriptions that come at rate a and live exponentially with rate m on a tree of B brokers, each
being renewed from its start and none withdrawn, there are a B (lease - step / 2 + renew / (e^(m renew) - 1)) entries,
and a (B - 1) / (1 - e^(-m renew)) subscriptions and renewals go over links per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from brokers.contract import (
    FIRST_PROTOCOL_TYPE,
    TIMER,
    BrokerProtocol,
    Demand,
    Guarantees,
    LinkTable,
    Message,
)
from brokers.promises import Faced, Recovery
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.resync import WAITING_NS
from protocols.content.subscription import LOCAL, client_of
from protocols.expected import to_all, to_wanted
from protocols.routes import Routes, shared_tree
from topology.distances import distances, neighbours
from topology.units import PositiveDuration

RENEW, STEP = FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 1  # timers
_SECOND = 1_000_000_000


class Options(BaseModel):
    """Options of `leases`."""

    model_config = ConfigDict(extra="forbid")

    lease: Annotated[
        PositiveDuration,
        Field(examples=["700 ms", "1 s"], description="an entry stands for so long after it was last refreshed"),
    ] = _SECOND
    renew: Annotated[
        PositiveDuration,
        Field(examples=["200 ms", "300 ms"], description="every subscription is told everybody anew so often"),
    ] = 3 * _SECOND // 10
    steps: Annotated[
        int, Field(ge=2, le=10_000, description="in which a lease is counted; it may end a step early")
    ] = 20
    tries: Annotated[
        int, Field(ge=1, le=1000, description="renewals in a lease, of which all but one may be lost")
    ] = 1
    withdraw: Annotated[
        bool, Field(description="whether a withdrawal is told everybody; if not, what is not renewed runs out")
    ] = True
    recover_within: Annotated[
        PositiveDuration | None,
        Field(
            description="what is promised under faults: how long after the last all is exact again; by default "
            "a lease, the longest way, and a second for queues"
        ),
    ] = None

    @model_validator(mode="after")
    def _outlives_renewals(self) -> Options:
        if self.lease < self.steps:
            raise ValueError(f"a `lease` of {self.lease} ns has no {self.steps} `steps` of whole nanoseconds")
        if self.surely <= self.tries * self.renew:
            raise ValueError(f"{_too_short(self)} (got {_ms(self.lease)})")
        return self

    @property
    def step(self) -> int:
        """How long a step takes."""
        return self.lease // self.steps

    @property
    def surely(self) -> int:
        """For how long an entry stands at least."""
        return (self.steps - 1) * self.step


def _ms(ns: float) -> str:
    return f"{ns / 1e6:g} ms"


def _too_short(options: Options, varies_ns: int = 0) -> str:
    least = (options.tries * options.renew + varies_ns) * options.steps / (options.steps - 1)
    renewals = "`renew`" if options.tries == 1 else f"{options.tries} times `renew`"
    also = f" and the {_ms(varies_ns)} by which delays vary on the longest way" if varies_ns else ""
    return (
        f"`lease`, less one of its {options.steps} `steps`, has to be longer than {renewals}{also}, or entries run out "
        f"between renewals: make it longer than {_ms(least)}"
    )


class Leases(BrokerProtocol):
    """One broker whose entries are leased."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")
    Options: ClassVar[type[BaseModel] | None] = Options
    remade: ClassVar[tuple[str, ...]] = ("timer_min_ns",)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        options = node.options
        self.timer_min_ns = min(options.step, options.renew)
        self.routes = shared_tree(node)
        self.ways = [link for link in node.links if self.routes.in_tree[link]]
        self.wanted: dict[int, list[Any]] = {}  # subscription of a client here -> its row, when it is to be renewed
        self.leases: dict[int, dict[int, int]] = {}  # subscription -> link it came by, or LOCAL -> steps left

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        """Where links lose messages, renewals may be lost one after the other, and entries run out."""
        return Guarantees(exact=not np.any(overlay.loss))

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        """What was on its way when the last fault was over may refresh something wrong once more."""
        within = options.lease + (1 if overlay.is_tree else 2) * faced.way_ns + WAITING_NS
        return Recovery(options.recover_within or within, heals_loss=True, lets_go=True)

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        varies = varies_ns(overlay)
        if options.surely > options.tries * options.renew + varies:
            return []
        return [("options.lease", f"is {_ms(options.lease)}; {_too_short(options, varies)}")]

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        options = demand.options
        renewals = demand.interests * _SECOND / options.renew
        timers = float(renewals.sum()) + demand.overlay.brokers * _SECOND / options.step
        return to_all(demand, demand.changes + renewals) + timers + to_wanted(demand, demand.share)

    # ---- messages --------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            if message.type == STEP:
                self._step(message)
            else:
                self._renew(message)
        elif message.type == PUBLISH:
            self._publish(message)
        elif message.type == SUBSCRIBE:
            row = self.node.row(message.body)
            if message.link == LOCAL:
                self.wanted[message.word] = [row, 0]
                self._renew_later(message)
            self._refresh(message.word, message.link, row)
            self._pass_on(message)
        elif message.type == UNSUBSCRIBE:
            self.wanted.pop(message.word, None)
            if self.node.options.withdraw:
                self._end(message.word, message.link)
                self._pass_on(message)

    def _pass_on(self, message: Message) -> None:
        for link in self.ways:
            if link != message.link:
                self.node.forward(message, link)

    def _publish(self, message: Message) -> None:
        node = self.node
        matched = node.table.match(message.body)
        came_by = [self.leases.get(id_, {}) for id_ in matched]
        count = 0
        for link in self.ways:
            behind = 0 if link == message.link else sum(link in links for links in came_by)
            if behind:
                node.forward(message, link)
            count += behind
        own = [id_ for id_, links in zip(matched, came_by) if LOCAL in links and id_ in self.wanted]
        for client in sorted({client_of(node.env, id_) for id_ in own}):
            node.deliver(message, client)
        node.work(message, self.entries(), count + len(own))

    # ---- entries ---------------------------------------------------------------------------------------

    def _refresh(self, id: int, via: int, row: Any) -> None:
        """A subscription came that way, or came again."""
        table = self.node.table
        if id in table and not _same(table.interest(id)[1], row):
            table.remove(id)
        table.add(id, client_of(self.node.env, id), row, None)
        self.leases.setdefault(id, {})[via] = self.node.options.steps

    def _end(self, id: int, via: int) -> None:
        links = self.leases.get(id, {})
        links.pop(via, None)
        if not links:
            self.leases.pop(id, None)
            self.node.table.remove(id)

    def _step(self, message: Message) -> None:
        """Take a step off every entry, and make good what cannot be."""
        steps, table = self.node.options.steps, self.node.table
        there = {LOCAL, *self.ways}
        for id_, links in list(self.leases.items()):
            left = {via: min(has, steps) - 1 for via, has in links.items() if via in there}
            self.leases[id_] = {via: has for via, has in left.items() if has > 0}
            if not self.leases[id_] or id_ not in table:
                del self.leases[id_]
        for id_ in [known for known in table.tags if known not in self.leases]:
            table.remove(id_)
        self._again(message, self.node.options.step, STEP)

    # ---- renewals, in the place of clients here --------------------------------------------------------

    def _renew(self, message: Message) -> None:
        row, due = self.wanted.get(message.word, (None, 0))
        if row is None or message.time < due:  # the timer is of one that was withdrawn
            return
        self._refresh(message.word, LOCAL, row)
        for link in self.ways:
            self.node.send_row(message, link, SUBSCRIBE, row, word=message.word, cause=-1)
        self._renew_later(message)

    def _renew_later(self, message: Message) -> None:
        self.wanted[message.word][1] = message.time + self.node.options.renew
        self._again(message, self.node.options.renew, RENEW, message.word)

    def _again(self, message: Message, delay_ns: int, type: int, word: int = 0) -> None:
        if message.time + delay_ns < self.node.env.duration_ns:  # nobody does anything after that
            self.node.timer(message, delay_ns, type, word, cause=-1)

    def first_timers(self) -> list[tuple[int, int, int]]:
        options = self.node.options
        return [(options.step, STEP, 0), *((options.renew, RENEW, id_) for id_ in sorted(self.wanted))]

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        mask = self.node.shared.setdefault("masks", self.routes.masks())[broker]
        via = LOCAL
        for link in self.ways:
            if mask[(link ^ 1) >> 6] >> np.uint64((link ^ 1) & 63) & np.uint64(1):
                via = link
        if via == LOCAL:
            self.wanted[id] = [row, self.node.options.renew]
        self._refresh(id, via, row)

    # ---- what is to be seen ----------------------------------------------------------------------------

    def entries(self) -> int:
        return sum(map(len, self.leases.values()))

    def describe(self) -> dict[str, Any]:
        names = self.node.env.overlay.names
        of = {link: names[self.node.neighbour(link)] for link in self.node.links} | {LOCAL: "a client"}
        return {
            "subscriptions": {
                str(id_): {of.get(via, str(via)): f"{left} steps left" for via, left in sorted(links.items())}
                for id_, links in sorted(self.leases.items())
            }
        }


def _same(one: Any, other: Any) -> bool:
    """Whether two rows are, but for NaN behind the shorter one."""
    one, other = np.asarray(one), np.asarray(other)
    return np.array_equal(one[one == one], other[other == other])


def varies_ns(overlay: Any) -> int:
    """By how much the delay on the longest way along the tree may vary, by jitter."""
    jitter = np.asarray(overlay.jitter_ns, np.int64)
    if not jitter.any():
        return 0
    link_a, link_b = np.asarray(overlay.link_a), np.asarray(overlay.link_b)
    if not overlay.is_tree:
        used = Routes(LinkTable.of(overlay), False, np.array([0], np.int32), False).in_tree[::2]
        link_a, link_b, jitter = link_a[used], link_b[used], jitter[used]
    near = neighbours(link_a, link_b, jitter)
    end = list(distances(near, 0))[-1]  # the farthest from anywhere is an end of the longest way
    return max(distances(near, end).values())
