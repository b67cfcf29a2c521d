"""What entries of a schedule have in common: when, which brokers, which links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from brokers.faults import NEVER, STATES, Cut, Fault, FaultContext, Open, WrongFault
from topology.units import Duration, PositiveDuration

Broker = StrictStr | StrictInt
Brokers = Annotated[list[Broker], Field(min_length=1)]
Ends = Annotated[tuple[Broker, Broker], Field(description="the brokers at its ends, by name or number")]


class At(BaseModel):
    """When it begins."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    at: Annotated[Duration, Field(description="when it begins")]


class ForATime(At):
    """And it is over at some time."""

    lasts: Annotated[PositiveDuration, Field(description="for how long")]

    @property
    def span(self) -> tuple[int, int]:
        """From when until before when."""
        return self.at, min(self.at + self.lasts, NEVER)


class OrForGood(At):
    """And it may be for good."""

    lasts: Annotated[PositiveDuration | None, Field(description="for how long; for good unless given")] = None

    @property
    def span(self) -> tuple[int, int]:
        """From when until before when."""
        return self.at, NEVER if self.lasts is None else min(self.at + self.lasts, NEVER)


class Forgetting(BaseModel):
    """What it leaves of what brokers knew."""

    state: Annotated[
        Literal["kept", "stored", "lost"],
        Field(description="what is left of what a broker that crashed knew: all, what its protocol stored, nothing"),
    ] = "kept"

    @model_validator(mode="after")
    def _of_what_crashes(self) -> Any:
        if self.state != "kept" and getattr(self, "what", "crash") != "crash":
            raise ValueError("`state` is of brokers that crash; leave it out, or say `what: crash`")
        return self

    @property
    def left(self) -> int:
        """As a number."""
        return STATES.index(self.state)


class OnLinks(BaseModel):
    """On one link or on all."""

    link: Annotated[
        tuple[Broker, Broker] | None, Field(description="the brokers at its ends, by name or number; all unless given")
    ] = None
    way: Annotated[
        Literal["both", "there"], Field(description="`there`: only from the first of the two to the second")
    ] = "both"

    def directed(self, context: FaultContext) -> Iterator[int]:
        """The directed links meant."""
        if self.link is None:
            yield from range(2 * context.overlay.links)
            return
        link = context.between(self.link)
        yield link
        if self.way == "both":
            yield link ^ 1


class Entry:
    """An entry of the schedule; a class of them names its parameters in `Params`."""

    Params: type[BaseModel]

    def __init__(self, params: Any, context: FaultContext) -> None:
        self.params: Any = self.Params(**params)
        self.context = context

    def brokers(self) -> list[int]:
        """Those that the parameter `brokers` names, in its order; WrongFault if one stands there twice."""
        found: dict[int, None] = {}
        for i, each in enumerate(self.params.brokers):
            broker = self.context.broker(each, ("brokers", i))
            if broker in found:
                raise WrongFault(f"broker {each!r} stands here twice", ("brokers", i))
            found[broker] = None
        return list(found)

    def schedule(self) -> Iterable[Fault | Open]:
        """What fails."""
        raise NotImplementedError


def cut_both(link: int, begin: int, end: int) -> Iterator[Fault]:
    """An undirected link carries nothing, in either direction."""
    yield Cut(2 * link, begin, end)
    yield Cut(2 * link + 1, begin, end)


def between_brokers(overlay: Any) -> list[tuple[int, int, int]]:
    """(number, lower end, higher end) of all undirected links but those of servers."""
    ends = zip(overlay.link_a.tolist(), overlay.link_b.tolist())
    return [(number, a, b) for number, (a, b) in enumerate(ends) if b < overlay.brokers]


def all_between(overlay: Any) -> list[tuple[int, int, int]]:
    """The same, for who cuts brokers off from one another; WrongFault where others may arise that no schedule names."""
    if overlay.described is not None:
        raise WrongFault("cuts brokers off by their links, and with `links.latent.all` any two may open another one")
    return between_brokers(overlay)
