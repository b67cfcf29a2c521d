"""The SimPy clock: it wakes what acts of its own accord, and nothing else.

A process wraps a source and sleeps until the source's own next wake; then the source emits, as arrays,
everything it can vouch for until the wake after. No process per message, no store, no shared state: which
windows a run is cut into does not show in what is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import simpy

from brokers.contract import NEVER, Emission, Source


class Clock:
    """Drives sources up to a simulated time, in order of their wakes."""

    def __init__(self, emit: Callable[[int, int, list[Emission]], None]) -> None:
        self._emit = emit  # (service, source number, emissions)
        self._environment = simpy.Environment()
        self._sources: list[tuple[int, int, Source]] = []

    def add(self, service: int, number: int, source: Source) -> None:
        self._sources.append((service, number, source))
        self._environment.process(self._drive(service, number, source))

    def _drive(self, service: int, number: int, source: Source) -> Generator[simpy.Event, Any, None]:
        environment = self._environment
        while (wake := int(source.next_wake())) < NEVER:
            if wake > environment.now:
                # SimPy compares times; a NumPy integer would turn them into floats, wrong above 2**53
                yield environment.timeout(wake - int(environment.now))
            self._emit(service, number, source.take())

    def advance(self, until: int, since: int = -1, enough: Callable[[], bool] = lambda: False) -> int:
        """Let every source whose wake lies before `until` act, or until it is `enough`.

        Returns the time before which everything has been emitted: `until`, or an earlier one after `since`.
        """
        environment = self._environment
        while environment.peek() < until:
            environment.step()
            if enough() and since < (reached := self.next_wake()) < until:
                return reached
        return until

    def next_wake(self) -> int:
        """The earliest wake ahead; NEVER if none."""
        return min((int(source.next_wake()) for _, _, source in self._sources), default=NEVER)
