"""What fails when, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokers.faults import KEPT, NEVER, STATES, Crash, Cut, Open, Schedule, Slow, Worn, at_a_stretch
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


def now(schedule: Schedule, names: Sequence[str], overlay: Any, broker: int, time: int) -> list[str]:
    """What keeps a broker from its work at a time, and which of its links are cut then."""
    found = []
    for crash in at_a_stretch(each for each in schedule.of(Crash) if each.broker == broker):
        forgets = "" if crash.state == KEPT else f", state {STATES[crash.state]}"
        if crash.begin <= time < crash.end:
            found.append(f"down {_until(crash.end)} ({names[crash.entry]}{forgets})")
        elif time == crash.end:
            found.append(f"comes back now ({names[crash.entry]}{forgets})")
    for slow in schedule.of(Slow):
        if slow.broker == broker and slow.begin <= time < slow.end:
            pace = f"{slow.factor:g} times as slow" if slow.factor else "paused"
            found.append(f"{pace} {_until(slow.end)} ({names[slow.entry]})")
    cut: dict[tuple[int, int], set[int]] = {}
    for each in schedule.of(Cut):
        between = (overlay.link_a[each.link // 2], overlay.link_b[each.link // 2])
        if broker in between and each.begin <= time < each.end:
            cut.setdefault((each.end, each.entry), set()).add(each.link)
    for (end, entry), links in sorted(cut.items()):
        found.append(f"{_links(links, overlay)} cut {_until(end)} ({names[entry]})")
    return found


def _until(end: int) -> str:
    return "for good" if end >= NEVER else f"until {format_duration(end)}"


def _span(begin: int, end: int) -> str:
    return f"{format_duration(begin)} {'on' if end >= NEVER else f'to {format_duration(end)}'}"


def _what(faults: list[Any], overlay: Any) -> str:
    if isinstance(faults[0], Crash | Slow):
        left = STATES[faults[0].state] if isinstance(faults[0], Crash) else STATES[KEPT]
        forgets = "" if left == STATES[KEPT] else f", state {left}"
        return _some([overlay.names[fault.broker] for fault in faults], "broker") + forgets
    if isinstance(faults[0], Open):
        return _some([_ends(2 * each.link, overlay, "–") for each in faults], "link") + " open"
    said = _links({fault.link for fault in faults}, overlay)
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


def _links(links: set[int], overlay: Any) -> str:
    both = [_ends(link, overlay, "–") for link in sorted(links) if link % 2 == 0 and link + 1 in links]
    one = [_ends(link, overlay, "→") for link in sorted(links) if link ^ 1 not in links]
    return _some([*both, *one], "link")


def _mean_loss(worn: Worn) -> float:
    return worn.share * worn.bad + (1 - worn.share) * worn.loss


def _ends(link: int, overlay: Any, between: str) -> str:
    ends = [overlay.names[overlay.link_a[link // 2]], overlay.names[overlay.link_b[link // 2]]]
    return between.join(ends if link % 2 == 0 else reversed(ends))


def _some(shown: list[str], one: str) -> str:
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{one if len(shown) == 1 else one + 's'} {', '.join(shown[:_SHOWN])}{more}"
