"""What tests cost in CPU seconds, which a busy machine changes less than the time on the wall.

    python -m pytest -n 0 -p tests.cpu_seconds tests/brokers

Ends with the dearest tests, fixtures included, and what they started, the Java of Spark and the processes of Ray too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SHOWN = 25
_seconds: Counter[str] = Counter()  # by function, over all its parameters
_times: Counter[str] = Counter()


def _used() -> float:
    """Of this process and of those that it started, whether they have ended or run still."""
    spent, parents = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        number = int(entry.parent.name)
        parents[number] = int(fields[1])
        spent[number] = sum(map(int, fields[11:15]))  # its own, and of those that it waited for
    known = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in known} - known:
        known |= more
    return sum(spent[number] for number in known) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _used()
    done = yield
    name = item.nodeid.partition("[")[0]
    _seconds[name] += max(0.0, _used() - before)  # what nobody waited for takes its time along when it ends
    _times[name] += 1
    return done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section(f"{sum(_seconds.values()):.0f} CPU seconds")
    for name, seconds in _seconds.most_common(SHOWN):
        terminalreporter.write_line(f"{seconds:7.1f} s  {_times[name]:5} times  {name}")
