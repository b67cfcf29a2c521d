"""When a group of clients acts: regularly, as a Poisson process, or in bursts.

- constant  every 1/rate, each client from a phase of its own
- poisson   exponential gaps, rounded to whole nanoseconds, at least 1
- bursts    Poisson at `rate` while on, silent while off; on and off times exponential or constant
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import NEVER, Ints
from brokers.workloads.common import Parameters
from topology.units import Duration, PositiveDuration, PositiveRate, format_duration

_PROCESSES = ("constant", "poisson", "bursts")
_RATE_MAX = 1e9  # one event per nanosecond


class ArrivalParameters(Parameters):
    """When each client acts."""

    process: Literal["constant", "poisson", "bursts"] = "poisson"
    rate: PositiveRate | None = Field(None, description="events of each client; in bursts: while on")
    total_rate: PositiveRate | None = Field(None, description="events of the group, split evenly")
    on: PositiveDuration | None = Field(None, description="bursts: mean time on")
    off: PositiveDuration | None = Field(None, description="bursts: mean time off")
    times: Literal["exponential", "constant"] = Field("exponential", description="bursts: on and off times")
    start: Duration = Field(0, description="nothing happens before")
    stop: Duration | None = Field(None, description="nothing happens from here on; default: to the end")
    limit: int | None = Field(None, ge=1, description="how many events each client makes at most")

    @model_validator(mode="after")
    def _one_rate(self) -> ArrivalParameters:
        if (self.rate is None) == (self.total_rate is None):
            raise ValueError("give either `rate` (of each client) or `total_rate` (of the group)")
        if (self.rate or self.total_rate or 0.0) > _RATE_MAX:
            raise ValueError("a rate is at most 1e9/s, one event per nanosecond")
        return self

    @model_validator(mode="after")
    def _on_and_off_for_bursts(self) -> ArrivalParameters:
        bursts = self.process == "bursts"
        for name in ("on", "off"):
            if (getattr(self, name) is not None) != bursts:
                needs = "needs" if bursts else "knows no"
                raise ValueError(f"the process {self.process} {needs} `{name}`")
        return self

    @model_validator(mode="after")
    def _stop_after_start(self) -> ArrivalParameters:
        if self.stop is not None and self.stop <= self.start:
            raise ValueError(
                f"`stop` must be after `start`; {format_duration(self.stop)} is not after "
                f"{format_duration(self.start)}"
            )
        return self

    def rate_of_each(self, population: int) -> float:
        """Events per second of one client, while it is on."""
        if self.rate is not None:
            return self.rate
        assert self.total_rate is not None
        return self.total_rate / max(1, population)

    def mean_rate_of_each(self, population: int) -> float:
        """Events per second of one client, silences included."""
        rate = self.rate_of_each(population)
        return rate if self.on is None or self.off is None else rate * self.on / (self.on + self.off)

    def expected_per_s(self, population: int, duration_ns: int) -> float:
        """Events of the whole group per second, in the mean of a run."""
        stop_ns = min(duration_ns, NEVER if self.stop is None else self.stop)
        each = self.mean_rate_of_each(population) * max(0, stop_ns - self.start) / 1e9
        return population * min(each, self.limit or each) * 1e9 / duration_ns


class Arrivals:
    """The arrival processes of a group of clients, one row of `progress` each."""

    def __init__(
        self, params: ArrivalParameters, keys: NDArray[np.uint64], population: int, duration_ns: int
    ) -> None:
        from brokers.workloads import kernels

        self._keys = keys
        self._limit = NEVER if params.limit is None else params.limit
        self._process = _PROCESSES.index(params.process)
        self._start_ns = params.start
        stop_ns = min(duration_ns, NEVER if params.stop is None else params.stop)
        gap_ns = 1e9 / params.rate_of_each(population)
        self._shape = (
            stop_ns,
            gap_ns,
            float(params.on or 0),
            float(params.off or 0),
            params.times == "constant",
        )
        self._mean_gap_ns = 1e9 / params.mean_rate_of_each(population)
        self.progress = np.zeros((keys.size, kernels.ARRIVAL_COLUMNS), np.int64)
        kernels.begin_arrivals(self._process, self._start_ns, *self._shape, keys, self.progress)

    @property
    def rate(self) -> float:
        """Events per second of these clients together."""
        return self._keys.size * 1e9 / self._mean_gap_ns

    def next_event_ns(self) -> int:
        """When the first of them acts next; NEVER if none does."""
        return int(self.progress[:, 0].min(initial=NEVER))

    def until(self, until_ns: int) -> tuple[Ints, Ints, Ints]:
        """Who acts when before until_ns: (row of the client, time, its number of the event)."""
        from brokers.workloads import kernels

        expected = self._keys.size * max(0, until_ns - self.next_event_ns()) / self._mean_gap_ns
        room = int(min(1 << 20, expected + 8.0 * expected**0.5 + 64.0))
        parts = []
        first = 0
        while first < self._keys.size:
            who, when, number = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
            filled, first = kernels.arrivals(
                self._process,
                until_ns,
                self._start_ns,
                *self._shape,
                self._limit,
                self._keys,
                self.progress,
                first,
                who,
                when,
                number,
            )
            parts.append((who[:filled], when[:filled], number[:filled]))
        if len(parts) == 1:
            return parts[0]
        who, when, number = (np.concatenate(column) for column in zip(*parts))
        return who, when, number
