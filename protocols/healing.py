"""What did not heal: what a protocol owes again once all that failed is over, and does not do.

Of one run this goes by time alone (`brokers.promises.healing`). A hunt, which can run a case again, asks besides
whether it would have been so had nothing failed (`scenarios/hunt/healing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from brokers import promises
from brokers.contract import NEVER, Guarantees, Kind
from protocols.judging import Audit
from protocols.standing import Tables, excused_of
from topology.units import format_duration

_HOW = ("was down", "was slow or paused", "was cut", "was worn")  # by `what` in the table of faults
_BROKERS = 2  # so many of them are of brokers, the others of links


class Healing(NamedTuple):
    """From when on all is owed again; NEVER where that is nothing to be asked."""

    from_ns: int
    since: str = ""  # what was over last, in words


def healing(tables: Tables, kind: Kind, service: int, guarantees: Guarantees) -> Healing:
    """Of a service."""
    if "faults" not in tables:
        return Healing(NEVER)
    again_ns = excused_of(tables, kind, service, guarantees).again_ns
    from_ns, last = promises.healing(guarantees, tables["faults"], again_ns)
    return Healing(from_ns, _said(tables, last) if last >= 0 else "")


def not_healed(found: Audit, tables: Tables, kind: Kind, service: int = 0) -> Iterator[tuple[str, str]]:
    """Finding and sentence of each promise that was broken of what was published once all was owed again."""
    from_ns, since = healing(tables, kind, service, found.guarantees)
    for name, mistakes in found.breaking.items():
        if mistakes.last.sent >= from_ns:
            yield name, f"{mistakes.last.told}; it has not healed since {since}"


def _said(tables: Tables, row: int) -> str:
    faults, links = tables["faults"], tables["links"]
    what, broker, link, begin, end = (
        int(faults[name][row]) for name in ("what", "broker", "link", "begin_ns", "end_ns")
    )
    if what < _BROKERS:
        who = f"broker {broker}"
    else:
        at = int(np.flatnonzero(links["link"] == link)[0])
        who = f"the link {links['from'][at]} -> {links['to'][at]}"
    return f"{who} {_HOW[what]} from {format_duration(begin)} to {format_duration(end)}"
