"""What a scenario says of links: delay, jitter, bandwidth, loss. `topology.linking` draws them.

Quantities may be written with units, and are in base units once read: nanoseconds, bits per second, kilometres.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictInt,
    StrictStr,
    Tag,
    model_serializer,
    model_validator,
)

from topology.sections import Count, Section
from topology.units import Bandwidth, Duration, Fraction, PositiveDuration, format_duration

DELAY_NS_MAX = 10**15  # eleven days
BOUND_NS_MIN = 1_000  # of links that any broker may open to any other
BANDWIDTH_BPS_MAX = 10**15  # a petabit per second

LinkDelay = Annotated[PositiveDuration, Field(le=DELAY_NS_MAX)]
LinkJitter = Annotated[Duration, Field(le=DELAY_NS_MAX)]
LinkBandwidth = Annotated[Bandwidth, Field(le=BANDWIDTH_BPS_MAX)]
LinkLoss = Annotated[Fraction, Field(lt=1)]


class Bursts(Section):
    """Losses in bursts (Gilbert and Elliott): a link is good or bad, and changes from message to message."""

    begins: Annotated[Fraction, Field(gt=0)] = Field(
        description="probability that a good link is bad for the next message"
    )
    ends: Annotated[Fraction, Field(gt=0)] = Field(
        description="probability that a bad link is good for the next message; bursts are 1/ends messages long"
    )
    bad: Annotated[Fraction, Field(gt=0)] = Field(
        default=1.0, description="probability that a message is lost while it is bad"
    )
    good: LinkLoss = Field(default=0.0, description="and while it is good")

    @model_validator(mode="after")
    def _worse(self) -> Bursts:
        if self.bad <= self.good:
            raise ValueError(f"`bad` loses more than `good` (got {self.bad:g} and {self.good:g})")
        return self

    @property
    def share(self) -> float:
        """The share of messages that find the link bad, in the long run."""
        return self.begins / (self.begins + self.ends)

    @property
    def mean(self) -> float:
        """The share of messages lost, in the long run."""
        return (self.ends * self.good + self.begins * self.bad) / (self.begins + self.ends)


def loss_form(value: object) -> str:
    """Which of the two forms of a loss this is."""
    return "bursts" if isinstance(value, dict | Section) else "share"


Loss = Annotated[Annotated[LinkLoss, Tag("share")] | Annotated[Bursts, Tag("bursts")], Discriminator(loss_form)]

_Bounds = TypeVar("_Bounds", bound="UniformDelay | NormalDelay")


def _low_below_high(delay: _Bounds) -> _Bounds:
    if delay.low > delay.high:
        raise ValueError(
            f"low is above high (got {format_duration(delay.low)} and {format_duration(delay.high)})"
        )
    return delay


class UniformDelay(Section):
    """Drawn once per link, evenly between low and high."""

    kind: Literal["uniform"] = "uniform"
    low: LinkDelay
    high: LinkDelay

    @model_validator(mode="after")
    def _ordered(self) -> UniformDelay:
        return _low_below_high(self)


class NormalDelay(Section):
    """Drawn once per link from a normal distribution, cut off at low and high."""

    kind: Literal["normal"] = "normal"
    mean: LinkDelay
    stdev: LinkJitter
    low: LinkDelay = 1
    high: LinkDelay = DELAY_NS_MAX

    @model_validator(mode="after")
    def _ordered(self) -> NormalDelay:
        return _low_below_high(self)


class GeographyDelay(Section):
    """Great circle between the brokers' positions at two thirds of the speed of light."""

    kind: Literal["geography"] = "geography"
    delay_min: LinkDelay = Field(
        default=100_000, description="for brokers at one place or without a position"
    )
    scale_km_per_unit: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        default=None, description="for positions on a plane: kilometres per unit"
    )


class ConstantDelay(Section):
    """The same for every link."""

    kind: Literal["constant"] = "constant"
    delay: LinkDelay


def _delay_form(value: object) -> object:
    if isinstance(value, str) and value in ("geography",):
        return {"kind": value}
    return value if isinstance(value, dict | Section) else {"kind": "constant", "delay": value}


Delay = Annotated[
    Annotated[ConstantDelay | UniformDelay | NormalDelay | GeographyDelay, Field(discriminator="kind")],
    BeforeValidator(_delay_form, json_schema_input_type=Any),
]


class LinkOverride(Section):
    """Other figures for one link."""

    between: Annotated[list[StrictStr | StrictInt], Field(min_length=2, max_length=2)] = Field(
        description="the two brokers, by name or number"
    )
    delay: LinkDelay | None = None
    jitter: LinkJitter | None = None
    bandwidth: LinkBandwidth | None = None
    loss: Loss | None = None


RegionPair = Annotated[list[Annotated[Count, Field(ge=0)]], Field(min_length=2, max_length=2)]


class RegionDelay(Section):
    """The delays of all links inside regions, or between them; for a topology that has regions."""

    inside: Literal["all"] | Annotated[Count, Field(ge=0)] | None = Field(
        default=None, description="of one region, by number from 0, or of `all`"
    )
    between: Literal["all"] | RegionPair | None = Field(default=None, description="two regions, or `all`")
    delay: Delay = Field(description="as `links.delay`")

    @model_validator(mode="after")
    def _one_of_two(self) -> RegionDelay:
        if (self.inside is None) == (self.between is None):
            raise ValueError("needs either `inside` or `between`")
        return self


class Latent(Section):
    """Links that carry nothing until a protocol or the schedule opens them."""

    pairs: list[Annotated[list[StrictStr | StrictInt], Field(min_length=2, max_length=2)]] = Field(
        default=[], description="brokers that may get a link, by name or number"
    )
    hops: Annotated[Count, Field(ge=2, le=64)] | None = Field(
        default=None, description="all pairs of brokers that are at most so many links apart"
    )
    drawn: Annotated[Count, Field(ge=1)] | None = Field(
        default=None, description="each broker may get links to so many others, which are drawn"
    )
    all: bool = Field(
        default=False,
        description="any two brokers without a link; such a link takes memory only once it is opened, and needs a "
        "`delay` with a lower bound",
    )
    delay: Delay | None = Field(
        default=None, description="as `links.delay`; by default that of the quickest way there is"
    )
    most: Annotated[Count, Field(ge=1)] | None = Field(
        default=None, description="how many a broker may have open at once; any number unless given"
    )

    @model_validator(mode="after")
    def _some(self) -> Latent:
        listed = bool(self.pairs) or self.hops is not None or self.drawn is not None
        if not listed and not self.all:
            raise ValueError("names no links: say `pairs`, `hops`, `drawn` or `all`, or leave it out")
        if self.all:
            self._describes(listed)
        return self

    def _describes(self, listed: bool) -> None:
        if listed:
            raise ValueError("`all` leaves no pair to be named: leave out `pairs`, `hops` and `drawn`")
        if self.delay is None:
            raise ValueError("`all` needs a `delay`: the quickest way between all pairs is not looked for")
        if isinstance(self.delay, NormalDelay) and self.delay.low < BOUND_NS_MIN:
            raise ValueError(
                f"`all` needs a `delay` with a lower bound, which says how far brokers may run ahead of each other: "
                f"give `low`, {format_duration(BOUND_NS_MIN)} or more (got {format_duration(self.delay.low)})"
            )

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Networks whose candidates are not drawn or described are told as before there was such a thing."""
        unsaid = {"drawn": None, "all": False}
        return {key: value for key, value in dump(self).items() if key not in unsaid or value != unsaid[key]}


class Links(Section):
    """Delay, jitter, bandwidth and loss of the links between brokers."""

    delay: Delay = Field(
        default=ConstantDelay(delay=10_000_000), description="one value for all links, or a section with kind"
    )
    regions: list[RegionDelay] = Field(
        default=[],
        description="where the topology has regions (`hierarchical`): delays instead of `delay`, later ones over "
        "earlier ones; `overrides` over both",
    )
    jitter: LinkJitter = Field(
        default=0, description="extra delay per message, evenly from 0 to this; order is kept"
    )
    bandwidth: LinkBandwidth = Field(default=0, description="unlimited unless given")
    loss: Loss = Field(default=0.0, description="probability that a message is lost, or a section: bursts of losses")
    overrides: list[LinkOverride] = Field(default=[], description="other figures for single links")
    latent: Latent | None = Field(default=None, description="links that may arise")

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Networks without latent links are told as before there was such a thing, and keep the ids of their runs."""
        return {key: value for key, value in dump(self).items() if key != "latent" or value is not None}
