"""Whether brokers go on to send what is dropped: the judge `drops`, of who says that it relents.

A full queue in front of a link is no mistake, and neither are some publications that find no place there. It is one if
that goes on: whatever is said to a slow neighbour is lost then, for as long as it is slow, and deliveries elsewhere
look as they should. Drops in front of one link that follow one another by less than `relents_ns` are one *stretch*; who
relents has none that lasts longer. A protocol that tries again later begins another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Kind
from brokers.faults import NO_PLACE_AHEAD
from topology.units import format_duration


class Stretch(NamedTuple):
    """Publications of a service that found no place in front of a directed link, one soon after the other."""

    link: int
    begin: int
    end: int
    drops: int


def stretches(losses: Mapping[str, NDArray[Any]], kind: Kind, service: int, within_ns: int) -> Iterator[Stretch]:
    """By link, from the rows of a table `losses`, those of more than one drop."""
    mine = (losses["reason"] == NO_PLACE_AHEAD) & (losses["service"] == service)
    mine &= np.isin(losses["type"], sorted(kind.publications))
    link, time = losses["link"][mine], losses["time_ns"][mine]
    order = np.lexsort((time, link))
    link, time = link[order], time[order]
    cuts = np.flatnonzero((np.diff(link) != 0) | (np.diff(time) >= within_ns)) + 1
    for part in np.split(np.arange(link.size), cuts):
        if part.size > 1:
            yield Stretch(int(link[part[0]]), int(time[part[0]]), int(time[part[-1]]), part.size)


def unrelenting(
    tables: Mapping[str, Any], kind: Kind, protocol: Any, service: int = 0
) -> Iterator[tuple[str, str]]:
    """The longest stretch that lasts longer than a protocol says, as sort and sentence.

    Not to be asked where brokers queue for work: what is dropped then was decided on long before.
    """
    within = protocol.relents_ns
    if not within:
        return
    every = stretches(tables["losses"], kind, service, within)
    found = max(every, key=lambda each: each.end - each.begin, default=None)
    if found is not None and found.end - found.begin > within:
        links = tables["links"]
        at = int(np.flatnonzero(links["link"] == found.link)[0])
        yield "goes on", (
            f"from {format_duration(found.begin)} to {format_duration(found.end)} {found.drops} publications were "
            f"dropped in front of the link {links['from'][at]} -> {links['to'][at]}, and it says that it relents "
            f"within {format_duration(within)}"
        )
