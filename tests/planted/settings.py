"""A minimal setting as plain data, and the checks that look at what came of it.

    setting = Setting(links=((0, 1),), clients=(0, 1), script=((10, 0, "+"), (50, 1, "!")))

A script has a row for each action: the time in ms, a client, and "+", "-" or "!": it subscribes, takes that back, or
publishes what everybody wants. The last publication is the probe: all who want it then have to get it, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from brokers.engine.model import Model
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import NeverQuiet
from brokers.faults import NEVER, NOTHING, Crash, Cut, Schedule
from brokers.limits import Limits
from protocols.conformance import join, overlay_of
from protocols.dropping import unrelenting

MS = 1_000_000
RANGE, VALUES = [0, 0.2, 0.8], [0.5, 0.0, 0.0, 0.0]


@dataclass(frozen=True)
class Setting:
    """Brokers, links, clients, what these do, and what fails."""

    links: tuple[tuple[int, int], ...]
    clients: tuple[int, ...]  # the broker of each
    script: tuple[tuple[float, int, str], ...]
    faults: Schedule = NOTHING
    entries: int = 0  # of a scenario's schedule that say these faults
    slow: tuple[int, ...] = ()  # brokers whose links carry little
    bits: int = 1_000  # which that is, per second
    room: int = 0  # for so many messages in front of each link; 0: for all
    duration_ms: float = 400
    delay_ms: float = 1

    @property
    def brokers(self) -> int:
        return 1 + max(map(max, self.links))

    @property
    def size(self) -> int:
        """What a shrunk case is compared with."""
        return self.brokers + len(self.links) + len(self.clients) + len(self.script) + self.entries

    def model(self, protocol: type) -> Model:
        """The setting for one protocol."""
        delay_ns = int(self.delay_ms * MS)
        net = join(protocol, list(self.links), self.clients, delay_ns)
        asked: dict[int, int] = {}
        number = [0] * len(self.clients)
        for at_ms, client, what in self.script:
            at_ns = int(at_ms * MS)
            if what == "!":
                net.send(client, "publish", VALUES, at_ns=at_ns)
            elif what == "+":
                asked[client] = net.interest(client, number[client])
                net.send(client, "subscribe", RANGE, word=asked[client], at_ns=at_ns)
            else:
                net.send(client, "unsubscribe", word=asked[client], at_ns=at_ns)
            number[client] += 1
        model = replace(
            net.model(), faults=self.faults, duration_ns=int(self.duration_ms * MS), messages_max=20_000,
            limits=Limits(messages=self.room),
        )  # fmt: skip
        if self.slow:
            bits = [self.bits if set(link) & set(self.slow) else 0 for link in self.links]
            model = replace(model, overlay=overlay_of(self.links, delay_ns, bandwidth_bps=bits))
        return model


class Ran:
    """What came of a setting."""

    def __init__(self, setting: Setting, protocol: type) -> None:
        self.setting = setting
        self.model = setting.model(protocol)
        self.left: list[int] = []
        self.described: list[dict[str, Any]] = []
        traces = MemoryTraces("full", tables_of(self.model))
        self.endless = False
        try:
            simulate(self.model, trace=traces, observe=self._observe)
        except NeverQuiet:
            self.endless = True
        self.tables = traces.tables()

    def _observe(self, shards: Any) -> None:
        protocol = shards.shards[0].services.protocols[0]
        self.left = protocol.entries().tolist()
        self.described = [protocol.describe(broker) for broker in range(self.setting.brokers)]

    @cached_property
    def probe(self) -> tuple[int, int]:
        """The id of the last publication, and when it was sent; (-1, 0) where nothing was published."""
        publications = self.tables["publications"]
        if not publications["time_ns"].size:
            return -1, 0
        row = int(np.argmax(publications["time_ns"]))
        return int(publications["publication"][row]), int(publications["time_ns"][row])

    @cached_property
    def wanting(self) -> list[int]:
        """Clients that want the probe, and whose brokers are not gone for good."""
        wants: set[int] = set()
        last = max((at for at, (_, _, what) in enumerate(self.setting.script) if what == "!"), default=0)
        for _, client, what in self.setting.script[:last]:
            if what != "!":
                (wants.add if what == "+" else wants.discard)(client)
        return sorted(client for client in wants if self.setting.clients[client] not in self.gone)

    @cached_property
    def gone(self) -> set[int]:
        """Brokers that crash for good."""
        return {crash.broker for crash in self.model.faults.of(Crash) if crash.end >= NEVER}

    @cached_property
    def got(self) -> list[int]:
        """Clients that got the probe, one as often as it got it."""
        deliveries = self.tables["deliveries"]
        mine = deliveries["publication"] == self.probe[0]
        return sorted((deliveries["client"][mine] - self.setting.brokers).tolist())

    @cached_property
    def links_of_probe(self) -> list[int]:
        """The directed links over which it came, one as often as it came."""
        hops = self.tables["hops"]
        mine = (hops["body"] == self.probe[0]) & (hops["link"] >= 0)
        return sorted(hops["link"][mine].tolist())


# ---- checks: what is wrong, as a sentence, or None -----------------------------------------------------


def missing(ran: Ran) -> str | None:
    lacking = [client for client in ran.wanting if client not in ran.got]
    return f"clients {lacking} did not get the probe" if lacking and not ran.endless else None


def twice(ran: Ran) -> str | None:
    if ran.endless:
        return None
    more = {client: ran.got.count(client) for client in ran.got if ran.got.count(client) > 1}
    return f"clients got the probe more than once: {more}" if more else None


def waste(ran: Ran) -> str | None:
    """The probe went over more links than lie between its publisher and those that want it."""
    if ran.endless:
        return None
    graph = nx.Graph(ran.setting.links)
    _, publisher, _ = max((each for each in ran.setting.script if each[2] == "!"), key=lambda each: each[0])
    home = ran.setting.clients
    needed = set()
    for client in ran.wanting:
        needed |= {frozenset(pair) for pair in pairwise(nx.shortest_path(graph, home[publisher], home[client]))}
    sent = _sent(ran)
    return f"the probe was sent {sent} times where {len(needed)} were needed" if sent > len(needed) else None


def _sent(ran: Ran) -> int:
    losses = ran.tables["losses"]
    return len(ran.links_of_probe) + int(((losses["body"] == ran.probe[0]) & (losses["link"] >= 0)).sum())


def left(ran: Ran) -> str | None:
    """Living brokers know of interests although nobody is there any more who has one."""
    last: dict[int, str] = {client: what for _, client, what in ran.setting.script if what != "!"}
    stand = [c for c, what in last.items() if what == "+" and ran.setting.clients[c] not in ran.gone]
    count = sum(count for broker, count in enumerate(ran.left) if broker not in ran.gone)
    return f"{count} entries are left" if count and not stand else None


def too_many(ran: Ran) -> str | None:
    """Brokers know of more members than there are others."""
    most = ran.setting.brokers - 1
    return f"members known: {ran.left}, and {most} others are there" if max(ran.left, default=0) > most else None


def endless(ran: Ran) -> str | None:
    return "it never gets quiet" if ran.endless else None


def over_budget(ran: Ran) -> str | None:
    """The probe went over links more often than there are links, or for ever."""
    if ran.endless:
        return "it never gets quiet"
    count = len(ran.links_of_probe)
    return f"the probe went over links {count} times" if count > len(ran.setting.links) else None


def one_sided(ran: Ran) -> str | None:
    """A broker believes that a neighbour wants something else than that one does."""
    overlay = ran.model.overlay
    source = np.stack((overlay.link_a, overlay.link_b), 1).ravel().tolist()  # of directed links
    cut = {each.link >> 1 for each in ran.model.faults.of(Cut) if each.end >= NEVER}
    for broker, described in enumerate(ran.described):
        for link, believed in described.get("came", {}).items():
            other = source[link ^ 1]
            wanted = ran.described[other]["wants"][link ^ 1]
            if wanted != believed and link >> 1 not in cut and not {broker, other} & ran.gone:
                return f"broker {broker} believes that {other} wants {believed}, which wants {wanted}"
    return None


def late(ran: Ran) -> str | None:
    """The probe took longer than all links of the overlay one after the other."""
    deliveries = ran.tables["deliveries"]
    mine = deliveries["publication"] == ran.probe[0]
    took = int((deliveries["time_ns"][mine] - ran.probe[1]).max(initial=0))
    bound = int(ran.setting.delay_ms * MS) * len(ran.setting.links)
    return f"the probe took {took / MS:g} ms" if took > bound else None


def pressing(ran: Ran) -> str | None:
    """Publications go on to be dropped in front of a link."""
    spec = ran.model.services[0]
    return next((told for _, told in unrelenting(ran.tables, spec.kind_class(spec.params), spec.protocol_class)), None)


Check = Callable[[Ran], str | None]
EVERYWHERE: tuple[Check, ...] = (missing, twice, endless)  # what is right shows none of these in any setting
