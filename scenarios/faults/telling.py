"""What fails when, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokers.faults import KEPT, NEVER, STATES, Crash, Cut, Open, Schedule, Slow, Worn
from topology.units import format_duration

_SHOWN = 6  # brokers or links of one line


def lines(schedule: Schedule, names: Sequence[str], overlay: Any) -> list[str]:
    """A line for each time at which an entry has something fail, in order of time; `names` are those of the entries."""
    grouped: dict[tuple[int, int, int], list[Any]] = {}
    for fault in (*schedule.faults, *schedule.opens):
        grouped.setdefault((fault.begin, fault.end, fault.entry), []).append(fault)
    return [
        f"{_span(begin, end)}  {names[entry]}: {_what(faults, overlay)}"
        for (begin, end, entry), faults in sorted(grouped.items(), key=lambda item: item[0])
    ]


def _span(begin: int, end: int) -> str:
    return f"{format_duration(begin)} {'on' if end >= NEVER else f'to {format_duration(end)}'}"


def _what(faults: list[Any], overlay: Any) -> str:
    if isinstance(faults[0], Crash | Slow):
        left = STATES[faults[0].state] if isinstance(faults[0], Crash) else STATES[KEPT]
        forgets = "" if left == STATES[KEPT] else f", state {left}"
        return _some([overlay.names[fault.broker] for fault in faults], "broker") + forgets
    if isinstance(faults[0], Open):
        return _some([_ends(2 * each.link, overlay, "–") for each in faults], "link") + " open"
    links = {fault.link for fault in faults}
    both = [_ends(link, overlay, "–") for link in sorted(links) if link % 2 == 0 and link + 1 in links]
    one = [_ends(link, overlay, "→") for link in sorted(links) if link ^ 1 not in links]
    said = _some([*both, *one], "link")
    worn = faults[0]
    if isinstance(worn, Cut):
        return said
    parts = [
        f"{worn.loss:.3g} of messages lost" if worn.loss and not worn.begins else "",
        f"{_mean_loss(worn):.3g} of messages lost, in bursts of {1 / worn.ends:.3g}" if worn.begins else "",
        f"{worn.twice:.3g} of messages twice" if worn.twice else "",
        f"{format_duration(worn.delay)} longer" if worn.delay else "",
        f"{worn.slower:g} times as slow" if worn.slower != 1 else "",
    ]
    return f"{said}: {', '.join(filter(None, parts))}"


def _mean_loss(worn: Worn) -> float:
    return worn.share * worn.bad + (1 - worn.share) * worn.loss


def _ends(link: int, overlay: Any, between: str) -> str:
    ends = [overlay.names[overlay.link_a[link // 2]], overlay.names[overlay.link_b[link // 2]]]
    return between.join(ends if link % 2 == 0 else reversed(ends))


def _some(shown: list[str], one: str) -> str:
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{one if len(shown) == 1 else one + 's'} {', '.join(shown[:_SHOWN])}{more}"
