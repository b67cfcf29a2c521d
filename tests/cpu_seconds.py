"""What tests cost in CPU seconds, which a busy machine changes less than the time on the wall.

    python -m pytest -n 0 -p tests.cpu_seconds tests/brokers

Ends with the dearest tests, fixtures included; of what they started, that which has ended by then.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

SHOWN = 25
_seconds: Counter[str] = Counter()  # by function, over all its parameters
_times: Counter[str] = Counter()


def _used() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _used()
    done = yield
    name = item.nodeid.partition("[")[0]
    _seconds[name] += _used() - before
    _times[name] += 1
    return done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section(f"{sum(_seconds.values()):.0f} CPU seconds")
    for name, seconds in _seconds.most_common(SHOWN):
        terminalreporter.write_line(f"{seconds:7.1f} s  {_times[name]:5} times  {name}")
