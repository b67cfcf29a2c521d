"""Which clients come and go, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from topology.units import format_duration

_MS = 1_000_000


def lines(model: Any, movements: Sequence[Any]) -> Iterator[str]:
    """A line for each group with movements: how many of it come and go how often, and how many are there at most."""
    stays = model.stays
    for group in dict.fromkeys(each.group for each in movements):
        first, count = model.groups[group]
        named = " and ".join(each.name for each in movements if each.group == group)
        if stays is None or not (mine := (stays.client >= first) & (stays.client < first + count)).any():
            yield f"{group}: {named}; all {count:,} stay where they are"
            continue
        begin, end = stays.begin[mine], np.minimum(stays.end[mine], model.duration_ns)
        came = begin < model.duration_ns
        begin, end = begin[came], end[came]
        moving = int(np.unique(stays.client[mine]).size)
        always = count - moving
        mean = format_duration(int((end - begin).mean()) // _MS * _MS) if begin.size else "no time"
        yield (
            f"{group}: {named}; {moving:,} of {count:,} clients come and go, "
            f"{begin.size:,} stays of {mean} in the mean, {_there(begin, end, always)}"
        )


def _there(begin: Any, end: Any, always: int) -> str:
    """How many are there at once, at least and at most, and when."""
    times = np.unique(np.concatenate((begin, end)))
    there = always + np.searchsorted(np.sort(begin), times, "right") - np.searchsorted(np.sort(end), times, "right")
    most = int(there.argmax()) if times.size else 0
    return f"at most {int(there[most]) if times.size else always:,} at once" + (
        f" (at {format_duration(int(times[most]))})" if times.size else ""
    )
