"""What a message diagram shows: brokers side by side, and what happened at them, one thing below the other.

Of a publication: its way, and the way of the changes that matter for it. Of a window of time: all that was handled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from analysis.ways.pair import EVENTS_FEW, Decision, Pair, lasts, when
from analysis.ways.told import DOWN, SLOW, Fault, Hop, Row, Told, why_lost
from analysis.ways.way import Way
from brokers.contract import FAULT, TIMER
from brokers.faults import LINK_DOWN, LINK_UP, RESTART

CLIENT, ARROW, TIMED, DELIVERY, LOSS, FAILS, HEARS = "client", "arrow", "timer", "delivery", "loss", "fault", "hears"
_ORDER_OF_TIMERS = 2  # losses and deliveries come after
_FEW = 12  # messages of no change that are shown beside
_TOLD_OF_FAULTS = {LINK_DOWN: "a link is down", LINK_UP: "a link is up", RESTART: "starts again"}


class Line(NamedTuple):
    """Something that happened."""

    at_ns: int
    order: int  # among what is at the same time
    sort: str
    broker: int  # where
    text: str
    source: int = -1  # of an arrow: from where
    sent_ns: int = -1


class Shade(NamedTuple):
    """Something that was broken meanwhile, at a broker, or on a link from there to another."""

    broker: int
    to: int  # -1: it is the broker
    begin_ns: int
    end_ns: int  # -1: never over
    text: str


@dataclass(frozen=True)
class Picture:
    """See the module."""

    title: str
    columns: list[int]  # brokers
    names: dict[int, str]
    clients: dict[int, list[int]]  # numbers of the clients that are shown, by broker
    lines: list[Line]
    shades: list[Shade]
    left_out: dict[str, int] = field(default_factory=dict)  # how many lines and brokers are not shown
    gap: int = -1  # before which line some are left out
    elsewhere: int = 0  # events that were not taken up, since they led elsewhere

    def within(self, lines_most: int, columns_most: int) -> Picture:
        """The same with no more lines and columns than that; the most used brokers, the first and last lines."""
        columns, lines, gap = self.columns, self.lines, self.gap
        if len(columns) > columns_most:
            used = Counter(end for line in lines for end in (line.broker, line.source) if end >= 0)
            columns = sorted(sorted(columns, key=lambda each: (-used[each], each))[:columns_most])
            lines = [line for line in lines if line.broker in columns and (line.source < 0 or line.source in columns)]
        if len(lines) > lines_most:
            gap = lines_most // 2
            lines = [*lines[: lines_most // 2], *lines[len(lines) - (lines_most - lines_most // 2) :]]
        out = {"events": len(self.lines) - len(lines), "brokers": len(self.columns) - len(columns)}
        shades = [each for each in self.shades if each.broker in columns]
        return replace(self, columns=columns, lines=lines, shades=shades, left_out=out, gap=gap)

    @property
    def notes(self) -> list[str]:
        """What is not shown, in sentences."""
        told = {1: "is"}
        elsewhere = [f"{self.elsewhere:,} events at brokers off the way are left out"] if self.elsewhere else []
        return elsewhere + [
            f"{count:,} {name if count > 1 else name[:-1]} {told.get(count, 'are')} left out"
            for name, count in self.left_out.items() if count
        ]  # fmt: skip


def of_pair(pair: Pair, decision: Decision | None = None) -> Picture:
    """A publication and a client, with the changes that matter."""
    told = pair.told
    heard = [] if decision is None else pair.others(decision)
    interests = {row["interest"] for row in pair.standing or pair.wanting} | {each.about["interest"] for each in heard}
    changes = {row["change"] for row in told.rows("changes", interest=interests)} if interests else set()
    changes |= {each.hop.cause for each in heard if each.hop is not None}
    if decision is not None:
        changes |= {each for each in (decision.last, decision.change) if each is not None}
    hops = {*pair.way.hops, *(told.hops(cause=changes) if changes else [])}
    count = len(hops)
    if count > EVENTS_FEW:
        near = pair.near(decision)
        hops = {hop for hop in hops if hop.broker in near}
    elsewhere = count - len(hops)
    first = min((hop.time_ns for hop in hops), default=pair.sent_ns)
    hops |= set(_beside(told, first, pair.end_ns))
    title = f"{pair.name} and {told.client(pair.client)}"
    losses = pair.way.losses + (told.rows("losses", cause=changes) if changes else [])
    deliveries = pair.got if elsewhere else pair.way.deliveries
    drawn = _picture(told, title, hops, losses, deliveries, (first, pair.end_ns), [pair.way], pair.home)
    return replace(drawn, elsewhere=elsewhere)


def of_messages(told: Told, title: str, ways: list[Way], changes: set[int], types: set[int], client: Row) -> Picture:
    """Messages of a server to a client, with what of some changes matters: messages of some types.

    `client` is a change of its own.
    """
    hops = {hop for hop in told.hops(cause=changes) if hop.type in types} if changes else set()
    hops |= {hop for way in ways for hop in way.hops}
    count = len(hops)
    if count > EVENTS_FEW:
        _, following = told.nearer(client["broker"])
        at, near = max(hop.broker for hop in hops), {client["broker"]}
        while at in following and at not in near:
            near.add(at)
            at = following[at]
        hops = {hop for hop in hops if hop.broker in near}
    losses = [row for way in ways for row in way.losses]
    deliveries = [row for way in ways for row in way.deliveries if row["client"] == client["client"]]
    between = min((hop.time_ns for hop in hops), default=0), max((hop.time_ns for hop in hops), default=0)
    drawn = _picture(told, title, hops, losses, deliveries, between, ways, client["broker"])
    return replace(drawn, elsewhere=count - len(hops))


def of_events(told: Told, title: str, hops: Iterable[Hop], more: Iterable[Line] = ()) -> Picture:
    """Some events, and what else there is to show."""
    hops = set(hops)
    between = min((hop.time_ns for hop in hops), default=0), max((hop.time_ns for hop in hops), default=0)
    drawn = _picture(told, title, hops, [], [], between, [], None)
    lines = sorted([*drawn.lines, *more], key=_placed)
    columns = sorted({*drawn.columns, *(line.broker for line in more)})
    return replace(drawn, lines=lines, columns=columns, names={each: told.names[each] for each in columns})


def of_way(way: Way) -> Picture:
    """A publication by itself."""
    told = way.told
    title = told.message(way.id)
    begin = int(way.publication["time_ns"])
    end = max((hop.time_ns for hop in way.hops), default=begin)
    return _picture(told, title, set(way.hops), way.losses, way.deliveries, (begin, end), [way], None)


def of_change(told: Told, change: Row) -> Picture:
    """A change by itself."""
    hops = set(told.hops(cause=change["change"]))
    losses = told.rows("losses", cause=change["change"])
    end = max((hop.time_ns for hop in hops), default=change["issued_ns"])
    return _picture(told, told.message(change["change"]), hops, losses, [], (change["issued_ns"], end), [], None)


def of_window(told: Told, begin_ns: int, end_ns: int) -> Picture:
    """All that was handled in a stretch of time, its ends included."""
    between = {"since": begin_ns, "until": end_ns}
    hops = set(told.hops(**between))
    losses = told.rows("losses", service=told.service, **between)
    deliveries = told.rows("deliveries", service=told.service, **between)
    title = f"from {when(begin_ns)} to {when(end_ns)}"
    return _picture(told, title, hops, losses, deliveries, (begin_ns, end_ns), [], None)


def _beside(told: Told, begin_ns: int, end_ns: int) -> list[Hop]:
    """What brokers told one another meanwhile of no change, and of faults, if it is little."""
    hops = [
        hop for hop in told.hops(cause=-1, body=-1, since=begin_ns, until=end_ns) if hop.link >= 0 or hop.kind == FAULT
    ]
    return hops if len(hops) <= _FEW else []


def _picture(
    told: Told, title: str, hops: Iterable[Hop], losses: list[Row], deliveries: list[Row],
    between: tuple[int, int], ways: list[Way], home: int | None,
) -> Picture:  # fmt: skip
    lines = [_hop(told, hop, ways) for hop in sorted(hops)]
    lines += [_loss(told, row) for row in losses if row["link"] >= 0]
    lines += _delivered(told, deliveries)
    seen = {end for line in lines for end in (line.broker, line.source) if end >= 0}
    if home is not None:
        seen.add(home)
    shades, failing = _shades(told, seen, between)
    clients: dict[int, set[int]] = defaultdict(set)
    for hop in hops:
        if hop.kind != TIMER and hop.link < 0 and hop.source >= told.nodes:
            clients[hop.broker].add(hop.source - told.nodes)
    for row in deliveries:
        clients[row["broker"]].add(row["client"] - told.nodes)
    return Picture(
        title, sorted(seen), {each: told.names[each] for each in seen},
        {broker: sorted(each) for broker, each in clients.items()}, sorted(lines + failing, key=_placed), shades,
    )  # fmt: skip


def _placed(line: Line) -> tuple[int, int, int, str]:
    """By time; of one instant, messages and timers stay in the order in which they were handled."""
    tie = (line.broker, line.text) if line.order > _ORDER_OF_TIMERS or line.order < 0 else (-1, "")
    return line.at_ns, line.order, *tie


def label(told: Told, type: int, body: int, cause: int, word: int = 0) -> str:
    """A message in few words: its type and which message it is, carries or was caused by."""
    name = told.type_name(type).removeprefix("message of ")
    if cause >= 0:
        row = told.change(cause)
        if row is not None and row["operation"] == type:
            return f"{name} {told.message(cause)}"
        named = type in told.kind.interests | told.kind.revocations and word >> 32 >= told.nodes
        return (
            f"{name} {told.message(word)}, by {told.message(cause)}" if named else f"{name}, by {told.message(cause)}"
        )
    return f"{name} {told.message(body)}" if body >= 0 else name


def _hop(told: Told, hop: Hop, ways: list[Way]) -> Line:
    name = label(told, hop.type, hop.body, hop.cause, hop.word)
    if hop.kind == FAULT:
        what = _TOLD_OF_FAULTS.get(hop.type, f"is told of a fault (type {hop.type})")
        if hop.link >= 0:
            row = told.links[hop.link]
            what += f": {told.names[row['from']]} to {told.names[row['to']]}"
        return Line(hop.time_ns, 0, HEARS, hop.broker, what)
    if hop.kind == TIMER:
        return Line(hop.time_ns, _ORDER_OF_TIMERS, TIMED, hop.broker, f"timer: {name}")
    if hop.link < 0:
        return Line(hop.time_ns, 1, CLIENT, hop.broker, f"client {hop.source - told.nodes}: {name}")
    row = told.links[hop.link]
    sender = next((found for way in ways if hop in way.hops and (found := way.sender(hop)) is not None), None)
    sent = sender.finish_ns if sender is not None else hop.time_ns - row["delay_ns"]
    return Line(hop.time_ns, 1, ARROW, hop.broker, name, row["from"], sent)


def _loss(told: Told, row: Row) -> Line:
    link = told.links[row["link"]]
    text = f"{label(told, row['type'], row['body'], row['cause'])} lost ({why_lost(row)})"
    return Line(row["time_ns"], 3, LOSS, link["to"], text, link["from"], row["time_ns"])


def _delivered(told: Told, rows: list[Row]) -> list[Line]:
    """One line for each broker, time and publication."""
    found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in rows:
        found[row["time_ns"], row["broker"], row["publication"]].append(row["client"] - told.nodes)
    return [
        Line(at, 4, DELIVERY, broker, f"{told.message(publication)} to {_clients(clients)}")
        for (at, broker, publication), clients in found.items()
    ]


def _clients(clients: list[int]) -> str:
    shown = ", ".join(str(each) for each in sorted(clients)[:6])
    return f"client{'s' if len(clients) > 1 else ''} {shown}{', …' if len(clients) > 6 else ''}"


def _shades(told: Told, seen: set[int], between: tuple[int, int]) -> tuple[list[Shade], list[Line]]:
    """What was broken meanwhile at the brokers that are shown, and the lines that say so."""
    shades, lines = [], []
    for fault in told.faults:
        broker, to = _place(told, fault)
        if broker not in seen or not fault.overlaps(*between):
            continue
        text = f"{_word(told, fault)}, {lasts(fault)}"
        shades.append(Shade(broker, to, fault.begin_ns, fault.end_ns, text))
        lines.append(Line(max(fault.begin_ns, 0), -1, FAILS, broker, text))
    return shades, lines


def _place(told: Told, fault: Fault) -> tuple[int, int]:
    if fault.link < 0:
        return fault.broker, -1
    return told.links[fault.link]["from"], told.links[fault.link]["to"]


def _word(told: Told, fault: Fault) -> str:
    if fault.what == DOWN:
        return "down"
    if fault.what == SLOW:
        return "slow"
    return f"link to {told.names[told.links[fault.link]['to']]} {told.what(fault).rsplit(' ', 1)[1]}"
