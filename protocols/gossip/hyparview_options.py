"""The options of HyParView, and what it is expected to cost."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from brokers.contract import Demand
from topology.units import PositiveDuration

_MS = 1_000_000


class ViewOptions(BaseModel):
    """Options of HyParView."""

    model_config = ConfigDict(extra="forbid")

    active: Annotated[
        int, Field(ge=1, le=1000, examples=[2, 3, 5], description="neighbours that a broker has at most")
    ] = 5
    passive: Annotated[
        int, Field(ge=0, le=10_000, examples=[4, 30], description="spare names that it knows at most")
    ] = 30
    arwl: Annotated[int, Field(ge=0, le=100, description="steps of a FORWARD_JOIN, and of a SHUFFLE")] = 6
    prwl: Annotated[
        int, Field(ge=0, le=100, description="with so many steps left a FORWARD_JOIN leaves a spare name")
    ] = 3
    shuffle: Annotated[
        PositiveDuration, Field(examples=["200 ms", "60 s"], description="how often a broker exchanges spare names")
    ] = 60_000 * _MS
    shuffle_active: Annotated[int, Field(ge=0, le=1000, description="neighbours among the names that it sends")] = 3
    shuffle_passive: Annotated[int, Field(ge=0, le=10_000, description="spare names among them")] = 4
    timeout: Annotated[
        PositiveDuration,
        Field(examples=["50 ms", "500 ms"], description="after which who was asked to be a neighbour counts as gone"),
    ] = 500 * _MS
    join: Annotated[
        PositiveDuration, Field(examples=["1 ms", "10 ms"], description="how long after the one before a broker joins")
    ] = 10 * _MS

    @model_validator(mode="after")
    def _walks(self) -> ViewOptions:
        if self.prwl > self.arwl:
            raise ValueError(f"`prwl` is at most `arwl`, the steps there are (got {self.prwl} and {self.arwl})")
        return self

    @property
    def timer_min(self) -> int:
        """The shortest of its timers."""
        return min(self.shuffle, self.timeout, self.join)


def remarks_of(options: ViewOptions, overlay: Any) -> list[str]:
    """What to say of views that are larger than what there are brokers for."""
    others = int(overlay.brokers) - 1
    if options.active < others:
        return []
    return [
        f"`active` is {options.active}, and there are {others} other brokers: it takes active < brokers - 1, or all "
        "become neighbours of each other, and nobody is left for the passive view"
    ]


def expected_of(options: ViewOptions, demand: Demand) -> float:
    """Events per second: of joining a walk by each neighbour, of shuffles a walk there and an answer."""
    brokers, walk = demand.overlay.brokers, options.arwl + 2
    joining = brokers * (1 + options.active * walk) / max(demand.duration_s, 1e-9)
    return float(joining + brokers * (1 + walk) * 1e9 / options.shuffle)
