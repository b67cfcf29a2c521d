"""Where the way of a publication differs from that in another run of the same case: the first broker, over which links.

Of a client that got it in one of the two only, or more often in one, the copies that made the difference are followed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from analysis.ways.hearing import TOLD
from analysis.ways.pair import Pair, listed, when
from analysis.ways.told import Hop
from analysis.ways.way import Way
from brokers.errors import InvalidInput

Edge = tuple[int, int]  # from which broker to which


def same_case(one: Way, two: Way | None, name: str) -> None:
    """InvalidInput unless two runs are of one network and both have the publication."""
    if two is None:
        raise InvalidInput(f"{name}: nobody published {one.told.message(one.id)} there; it is no run of the same case")
    if one.told.names != two.told.names or _ends(one) != _ends(two):
        raise InvalidInput(f"{name}: it has other brokers or links; it is no run of the same case")
    same = ("time_ns", "broker", "client")
    if any(one.publication[key] != two.publication[key] for key in same):
        raise InvalidInput(
            f"{name}: {one.told.message(one.id)} is another publication there; it is no run of the same case"
        )


def _ends(way: Way) -> list[Edge]:
    return [(row["from"], row["to"]) for _, row in sorted(way.told.links.items())]


def beside(one: Pair | Way, two: Pair | Way, other: str) -> dict[str, Any]:
    """The difference as plain data: broker, sent (here and there), knew (here and there), said."""
    a, b = (each.way if isinstance(each, Pair) else each for each in (one, two))
    found = _parting(one, two, a, b)
    if found is None:
        return {"broker": None, "said": [f"In {other}, {a.told.message(a.id)} goes the same way."]}
    at, towards, more = found
    told, name = a.told, a.told.message(a.id)
    sent = [_sent(way, at) for way in (a, b)]
    names = [listed([_times(told.names[to], count) for to, count in sorted(each.items())]) for each in sent]
    if at == towards:
        times = [_delivers(len(each.got)) for each in (one, two) if isinstance(each, Pair)]
        said = [f"The ways to {told.names[at]} are the same: here it {times[0]}, in {other} it {times[1]}."]
    else:
        said = [
            f"The first broker at which the ways differ is {told.names[at]}: here it sends {name} to {names[0]}, "
            f"in {other} to {names[1]}."
        ]
    if at not in a.at or at not in b.at:
        here, there = ("did not handle", "did") if at not in a.at else ("handled", "did not")
        said.append(f"Here it {here} it, there it {there}.")
    knew = []
    if isinstance(one, Pair) and isinstance(two, Pair):
        knew = [_knew(pair, at) for pair in (one, two)]
        here, there = (listed(each, "nothing that wants it") for each in knew)
        if here == there:
            said.append(f"By then it had heard of {here}, here and there.")
        else:
            said.append(f"By then it had heard here of {here}; there of {there}.")
    return {
        "broker": told.names[at], "towards": told.names[towards], "more": "here" if more else "there",
        "sent": [{told.names[to]: count for to, count in each.items()} for each in sent], "knew": knew, "said": said,
    }  # fmt: skip


def _delivers(count: int) -> str:
    return "does not deliver it" if count == 0 else "delivers it" if count == 1 else f"delivers it {count} times"


def _times(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ({count} times)"


def _parting(one: Pair | Way, two: Pair | Way, a: Way, b: Way) -> tuple[int, int, bool] | None:
    """The broker, the neighbour to which it sends in one run more often, and whether it is the first run."""
    if isinstance(one, Pair) and isinstance(two, Pair) and len(one.got) != len(two.got):
        more = len(one.got) > len(two.got)
        rich, poor = (one, two) if more else (two, one)
        for row in rich.got:
            hop = rich.way.delivering(row)
            edge = None if hop is None else _first(rich.way.chain(hop), rich.way, poor.way)
            if edge is not None:
                return (*edge, more)
        home = rich.got[-1]["broker"]
        return home, home, more
    here, there = _edges(a), _edges(b)
    differing = [
        (_handled(a if more else b, edge[0]), edge, more)
        for more, edges in ((True, here - there), (False, there - here)) for edge in edges
    ]  # fmt: skip
    if not differing:
        return None
    _, edge, more = min(differing)
    return (*edge, more)


def _handled(way: Way, broker: int) -> int:
    return way.at[broker][0].time_ns if way.at.get(broker) else int(way.publication["time_ns"])


def _edges(way: Way) -> Counter[Edge]:
    links = way.told.links
    return Counter((links[hop.link]["from"], hop.broker) for hop in way.hops if hop.link >= 0)


def _first(chain: list[Hop], rich: Way, poor: Way) -> Edge | None:
    """The first link of a way over which the other run sent less."""
    mine, theirs = _edges(rich), _edges(poor)
    for hop in chain:
        if hop.link >= 0:
            edge = (rich.told.links[hop.link]["from"], hop.broker)
            if theirs[edge] < mine[edge]:
                return edge
    return None


def _sent(way: Way, broker: int) -> Counter[int]:
    links = way.told.links
    found = Counter(hop.broker for hop in way.hops if hop.link >= 0 and links[hop.link]["from"] == broker)
    for row in way.losses:
        if row["link"] >= 0 and links[row["link"]]["from"] == broker:
            found[links[row["link"]]["to"]] += 1
    return found


def _knew(pair: Pair, broker: int) -> list[str]:
    """What a broker had heard of by the time the publication came to it, and not heard the withdrawal of."""
    here = pair.way.at.get(broker)
    until = here[0].place if here else (pair.end_ns + 1,)
    last = {each.about["change"]: each for each in pair.heard(broker) if each.place < until}
    found = []
    for each in last.values():
        if each.says == TOLD:
            at = "from the beginning" if each.hop is None else f"at {when(each.hop.time_ns)}"
            found.append(f"{pair.asked(each.about)} ({at})")
    return found
