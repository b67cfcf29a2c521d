"""What entries of a schedule give, held against the network: kernels trust its numbers, and run ids what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_type_hints

import numpy as np

from brokers.faults import NEVER, STATES, Crash, Cut, Fault, Open, Slow, Worn, WrongFault

FAULTS_MAX = 1_000_000  # of one entry, or as many as there are directed links; each takes some hundred bytes
TIMES_MAX = 1e6  # as slow
_SORTS = (Crash, Slow, Cut, Worn, Open)
_WHOLE = {sort: {name for name, of in get_type_hints(sort).items() if of is int} for sort in _SORTS}
_MEANT = {
    "broker": "the number of a broker, which `context.broker` gives",
    "link": "the number of a link, which `context.between` gives",
    "state": "the number of a state",
}


def taken(given: Iterable[Any], overlay: Any) -> list[Fault | Open]:
    """What a schedule gave, with plain numbers; WrongFault if it is no list of faults of this network, or endless."""
    most = max(FAULTS_MAX, 2 * overlay.links)
    faults: list[Fault | Open] = []
    for each in given:
        if len(faults) == most:
            raise WrongFault(f"makes more than {most:,} faults")
        fault = _plain(each)
        if wrong := amiss(fault, overlay):
            raise WrongFault(wrong)
        faults.append(fault)
    return faults


def amiss(fault: Any, overlay: Any) -> str | None:
    """What keeps something from being a fault of this network; None if nothing does."""
    sort = next((each for each in _SORTS if isinstance(fault, each)), None)
    if sort is None:
        return f"gave a {type(fault).__name__}, which is no fault"
    for name, value in zip(fault._fields, fault):
        if type(value) is not int and (name in _WHOLE[sort] or type(value) is not float):
            other = "a whole number of nanoseconds" if name in _WHOLE[sort] else "a number"
            return f"gave {fault}, and {name} has to be {_MEANT.get(name, other)} (got {value!r})"
    if not 0 <= fault.begin < fault.end <= NEVER:
        return f"gave {fault}, which lasts from no time to another"
    return _nowhere(fault, overlay) or _beyond(fault)


def _plain(given: Any) -> Any:
    """With numbers of NumPy as those of Python."""
    if not any(isinstance(value, np.generic) for value in (given if isinstance(given, _SORTS) else ())):
        return given
    return given._make(value.item() if isinstance(value, np.generic) else value for value in given)


def _nowhere(fault: Fault | Open, overlay: Any) -> str | None:
    """What keeps it from being anywhere."""
    if isinstance(fault, Crash | Slow):
        there, most, one = fault.broker, overlay.nodes, "broker"
    else:
        there, most, one = fault.link, 2 * overlay.links, "directed link"
        if isinstance(fault, Open):
            most, one = overlay.links, "link"
    if not 0 <= there < most:
        return f"gave {fault}, and there is no {one} {there}"
    if isinstance(fault, Open) and (overlay.latent is None or not overlay.latent[fault.link]):
        return f"gave {fault}, and that link is not latent"
    return None


def _beyond(fault: Fault | Open) -> str | None:
    """What of its figures cannot be."""
    if isinstance(fault, Crash) and fault.state not in range(len(STATES)):
        return f"gave {fault}; a state is one of {', '.join(map(str, range(len(STATES))))}"
    if isinstance(fault, Slow):
        fine = (fault.factor == 0 or 1 <= fault.factor <= TIMES_MAX) and fault.end < NEVER
        said = f"a factor is 0 or at least 1, and it ends; it is at most {TIMES_MAX:,.0f}"
        return None if fine else f"gave {fault}; {said}"
    if isinstance(fault, Worn):
        shares = (fault.loss, fault.twice, fault.begins, fault.ends, fault.bad)
        fine = all(0 <= share <= 1 for share in shares) and 0 <= fault.delay < NEVER
        fine = fine and 1 <= fault.slower <= TIMES_MAX and (fault.ends > 0 or not fault.begins)
        said = f"shares lie from 0 to 1, and nothing is quicker, or more than {TIMES_MAX:,.0f} times as slow"
        return None if fine else f"gave {fault}; {said}"
    return None


def one_too_many(opens: Sequence[Open], overlay: Any) -> tuple[Open, int] | None:
    """The first to open a link of a broker that has as many open as it may, and that broker; None if there is none.

    What ends at a time has ended for what begins then.
    """
    if not overlay.open_most:
        return None
    edges = [(each.end, False, each) for each in opens] + [(each.begin, True, each) for each in opens]
    now: dict[int, list[int]] = {}  # by broker, the links that are open; twice where two entries open one
    for _, begins, each in sorted(edges, key=lambda edge: (*edge[:2], edge[2].entry)):
        for broker in (int(overlay.link_a[each.link]), int(overlay.link_b[each.link])):
            mine = now.setdefault(broker, [])
            if not begins:
                mine.remove(each.link)
                continue
            mine.append(each.link)
            if len(set(mine)) > overlay.open_most:
                return each, broker
    return None
