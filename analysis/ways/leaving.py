"""Interests that are over, of which a broker heard and never heard the withdrawal: where the way of that stops."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.ways.hearing import TOLD, Heard, Hearing
from analysis.ways.pair import listed, when
from analysis.ways.told import Told

_MOST = 5


def staying(told: Told) -> list[str]:
    """What stays at brokers though it is over, a few sentences each."""
    hearing = Hearing(told, None)
    found: list[str] = []
    for broker in range(told.nodes):
        last = {each.about["change"]: each for each in hearing.at(broker)}
        for heard in last.values():
            if heard.says == TOLD and heard.about["revoked_ns"] >= 0 and heard.hop is not None:
                found += _stays(told, broker, heard)
    return found[: 2 * _MOST]


def _stays(told: Told, broker: int, heard: Heard) -> Iterator[str]:
    assert heard.hop is not None
    name, begin = told.message(heard.about["change"]), heard.about
    yield (
        f"{told.names[broker]} heard of {name} of {told.client(begin['client'])} at {when(heard.hop.time_ns)}, "
        "and of no withdrawal after that."
    )
    ends = [
        row for row in told.rows("changes", interest=begin["interest"]) if row["operation"] in told.kind.revocations
    ]
    for row in ends[:1]:
        hops = told.hops(cause=row["change"])
        distance, following = told.nearer(broker)
        near = min(hops, key=lambda hop: (distance.get(hop.broker, 1 << 62), hop), default=None)
        if near is None or near.broker not in following or near.broker == broker:
            return
        to = {hop.broker for hop in hops if hop.link >= 0 and told.links[hop.link]["from"] == near.broker}
        yield (
            f"The way of {told.message(row['change'])}, its {told.type_name(row['operation'])}, stops at "
            f"{told.names[near.broker]}, which handled it at {when(near.time_ns)} and passed it on to "
            f"{listed([told.names[each] for each in sorted(to)])}, not to {told.names[following[near.broker]]}."
        )
