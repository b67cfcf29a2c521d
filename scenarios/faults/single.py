"""Faults that happen once, at a time that the scenario says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from brokers.faults import NEVER, Crash, Cut, Fault, FaultContext, Slow, Worn, WrongFault
from topology.units import Duration, Fraction, PositiveDuration

Broker = StrictStr | StrictInt
Brokers = Annotated[list[Broker], Field(min_length=1)]


class _Once(BaseModel):
    """When it happens."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    at: Annotated[Duration, Field(description="when it begins")]


class _ForATime(_Once):
    lasts: Annotated[PositiveDuration, Field(description="for how long")]

    @property
    def span(self) -> tuple[int, int]:
        return self.at, min(self.at + self.lasts, NEVER)


class _OrForGood(_Once):
    lasts: Annotated[PositiveDuration | None, Field(description="for how long; for good unless given")] = None

    @property
    def span(self) -> tuple[int, int]:
        return self.at, NEVER if self.lasts is None else min(self.at + self.lasts, NEVER)


class _Links(BaseModel):
    """Which links."""

    link: Annotated[
        tuple[Broker, Broker] | None, Field(description="the brokers at its ends, by name or number")
    ] = None
    way: Annotated[
        Literal["both", "there"], Field(description="`there`: only from the first of the two to the second")
    ] = "both"

    def directed(self, context: FaultContext) -> Iterator[int]:
        """The directed links meant."""
        if self.link is None:
            yield from range(2 * context.overlay.links)
            return
        ends = [context.broker(each, ("link",)) for each in self.link]
        link = context.link(*ends)
        yield link
        if self.way == "both":
            yield link ^ 1


class _Fault:
    """An entry of the schedule."""

    Params: type[BaseModel]

    def __init__(self, params: Any, context: FaultContext) -> None:
        self.params: Any = self.Params(**params)
        self.context = context

    def brokers(self) -> list[int]:
        """Those that it names."""
        return sorted({self.context.broker(each, ("brokers",)) for each in self.params.brokers})


class CrashOf(_Fault):
    """Brokers that are down."""

    class Params(_OrForGood):
        brokers: Annotated[Brokers, Field(description="which, by name or number")]

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        for broker in self.brokers():
            yield Crash(broker, begin, end)


class SlowOf(_Fault):
    """Brokers that take longer."""

    class Params(_ForATime):
        brokers: Annotated[Brokers, Field(description="which, by name or number")]
        factor: Annotated[float, Field(ge=1, le=1e6, description="how many times as long")] = 10.0

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        for broker in self.brokers():
            yield Slow(broker, begin, end, self.params.factor)


class PauseOf(_Fault):
    """Brokers that do nothing."""

    class Params(_ForATime):
        brokers: Annotated[Brokers, Field(description="which, by name or number")]

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        for broker in self.brokers():
            yield Slow(broker, begin, end, 0.0)


class CutOf(_Fault):
    """A link that carries nothing."""

    class Params(_OrForGood, _Links):
        link: Annotated[tuple[Broker, Broker], Field(description="the brokers at its ends, by name or number")]

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        for link in self.params.directed(self.context):
            yield Cut(link, begin, end)


class DegradeOf(_Fault):
    """Links that are worse than they were."""

    class Params(_ForATime, _Links):
        loss: Annotated[Fraction, Field(description="the share of messages lost, beside what the link loses")] = 0.0
        delay: Annotated[Duration, Field(description="how much longer a message takes")] = 0
        slower: Annotated[
            float, Field(ge=1, le=1e6, description="how many times as long a transmission takes, given a bandwidth")
        ] = 1.0

        @model_validator(mode="after")
        def _something(self) -> Any:
            if not self.loss and not self.delay and self.slower == 1:
                raise ValueError("say what is worse: loss, delay or slower")
            return self

    def schedule(self) -> Iterator[Fault]:
        worse, (begin, end) = self.params, self.params.span
        for link in worse.directed(self.context):
            yield Worn(link, begin, end, loss=worse.loss, delay=worse.delay, slower=worse.slower)


class PartitionOf(_Fault):
    """Sets of brokers between which all links are cut."""

    class Params(_OrForGood):
        sets: Annotated[
            list[Brokers],
            Field(min_length=1, description="brokers that reach one another; those in none of them are one more set"),
        ]

    def schedule(self) -> Iterator[Fault]:
        overlay = self.context.overlay
        brokers, (begin, end) = overlay.brokers, self.params.span
        set_of = [0] * overlay.nodes
        for number, names in enumerate(self.params.sets, 1):
            for i, each in enumerate(names):
                broker = self.context.broker(each, ("sets", number - 1, i))
                if set_of[broker]:
                    raise WrongFault(f"broker {each!r} is in two of the sets", ("sets", number - 1, i))
                set_of[broker] = number
        for e, (a, b) in enumerate(zip(overlay.link_a.tolist(), overlay.link_b.tolist())):
            if b < brokers and set_of[a] != set_of[b]:  # a server, the higher end, stays with its broker
                yield Cut(2 * e, begin, end)
                yield Cut(2 * e + 1, begin, end)
