"""Faults that happen once, at a time that the scenario says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from brokers.faults import Crash, Cut, Fault, Open, Slow, Worn, WrongFault
from scenarios.faults.entry import (
    Broker,
    Brokers,
    Ends,
    Entry,
    ForATime,
    Forgetting,
    OnLinks,
    OrForGood,
    all_between,
    between_brokers,
    cut_both,
)
from topology.links import Bursts, loss_form
from topology.units import Duration, Fraction

Wear = Annotated[Annotated[Fraction, Tag("share")] | Annotated[Bursts, Tag("bursts")], Discriminator(loss_form)]


class CrashOf(Entry):
    """Brokers that are down."""

    class Params(OrForGood, Forgetting):
        brokers: Annotated[Brokers, Field(description="which, by name or number")]

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        for broker in self.brokers():
            yield Crash(broker, begin, end, self.params.left)


class OpenOf(Entry):
    """A latent link that is open."""

    class Params(OrForGood):
        link: Ends

    def schedule(self) -> Iterator[Open]:
        link, latent = self.context.between(self.params.link) >> 1, self.context.overlay.latent
        if latent is None or not latent[link]:
            raise WrongFault("is no latent link; `links.latent` says which links may arise", ("link",))
        begin, end = self.params.span
        yield Open(link, begin, end)


class SlowOf(Entry):
    """Brokers that take longer."""

    class Params(ForATime):
        brokers: Annotated[Brokers, Field(description="which, by name or number")]
        factor: Annotated[float, Field(ge=1, le=1e6, description="how many times as long")] = 10.0

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        for broker in self.brokers():
            yield Slow(broker, begin, end, self.params.factor)


class PauseOf(Entry):
    """Brokers that do nothing."""

    class Params(ForATime):
        brokers: Annotated[Brokers, Field(description="which, by name or number")]

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        for broker in self.brokers():
            yield Slow(broker, begin, end, 0.0)


class CutOf(Entry):
    """A link that carries nothing, or all links among some brokers."""

    class Params(OrForGood, OnLinks):
        link: Annotated[
            tuple[Broker, Broker] | None, Field(description="the brokers at its ends, by name or number")
        ] = None
        among: Annotated[
            Brokers | None,
            Field(description="all links between these, by name, as in `b*`, or number, in the place of `link`"),
        ] = None

        @model_validator(mode="after")
        def _one_way_to_say_it(self) -> Any:
            if (self.link is None) == (self.among is None):
                raise ValueError("say which links in one way: `link` or `among`")
            if self.among is not None and self.way != "both":
                raise ValueError("`among` means links in both directions; leave out `way`")
            return self

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        if self.params.among is None:
            for link in self.params.directed(self.context):
                yield Cut(link, begin, end)
            return
        inside = self._inside()
        for link, a, b in all_between(self.context.overlay):
            if a in inside and b in inside:
                yield from cut_both(link, begin, end)

    def _inside(self) -> set[int]:
        """The brokers that `among` means."""
        return {b for i, each in enumerate(self.params.among) for b in self.context.brokers_like(each, ("among", i))}


class DegradeOf(Entry):
    """Links that are worse than they were. Bursts begin anew where another fault of the link begins or ends."""

    class Params(ForATime, OnLinks):
        brokers: Annotated[
            Brokers | None, Field(description="all links of these, by name or number, in the place of `link`")
        ] = None
        loss: Annotated[
            Wear, Field(description="the share of messages lost beside what the link loses, or a section: bursts")
        ] = 0.0
        twice: Annotated[Fraction, Field(description="the share of messages that arrive twice")] = 0.0
        delay: Annotated[Duration, Field(description="how much longer a message takes")] = 0
        slower: Annotated[
            float, Field(ge=1, le=1e6, description="how many times as long a transmission takes, given a bandwidth")
        ] = 1.0

        @model_validator(mode="after")
        def _something(self) -> Any:
            if not self.loss and not self.twice and not self.delay and self.slower == 1:
                raise ValueError("say what is worse: loss, twice, delay or slower")
            if self.brokers is not None and (self.link is not None or self.way != "both"):
                raise ValueError("`brokers` means all their links in both directions; leave out `link` and `way`")
            return self

    def schedule(self) -> Iterator[Fault]:
        worse, (begin, end) = self.params, self.params.span
        worn = Worn(0, begin, end, twice=worse.twice, delay=worse.delay, slower=worse.slower)
        if isinstance(worse.loss, Bursts):
            bursts = worse.loss
            worn = worn._replace(loss=bursts.good, begins=bursts.begins, ends=bursts.ends, bad=bursts.bad)
        else:
            worn = worn._replace(loss=worse.loss)
        for link in worse.directed(self.context) if worse.brokers is None else self._of_brokers():
            yield worn._replace(link=link)

    def _of_brokers(self) -> Iterator[int]:
        """All directed links of the brokers that are named."""
        named = set(self.brokers())
        for link, a, b in between_brokers(self.context.overlay):
            if a in named or b in named:
                yield from (2 * link, 2 * link + 1)


class PartitionOf(Entry):
    """Sets of brokers between which all links are cut."""

    class Params(OrForGood):
        sets: Annotated[
            list[Brokers],
            Field(min_length=1, description="brokers that reach one another; those in none of them are one more set"),
        ]

    def schedule(self) -> Iterator[Fault]:
        overlay = self.context.overlay
        begin, end = self.params.span
        set_of = [0] * overlay.nodes
        for number, names in enumerate(self.params.sets, 1):
            for i, each in enumerate(names):
                broker = self.context.broker(each, ("sets", number - 1, i))
                if set_of[broker]:
                    raise WrongFault(f"broker {each!r} is in two of the sets", ("sets", number - 1, i))
                set_of[broker] = number
        if len({*set_of[: overlay.brokers]}) == 1:
            raise WrongFault("all brokers are in one set, so that nothing is cut", ("sets",))
        for link, a, b in all_between(overlay):
            if set_of[a] != set_of[b]:
                yield from cut_both(link, begin, end)


class IsolateOf(Entry):
    """Brokers that nobody reaches."""

    class Params(OrForGood):
        brokers: Annotated[Brokers, Field(description="which, by name or number; each is alone")]

    def schedule(self) -> Iterator[Fault]:
        overlay, alone, (begin, end) = self.context.overlay, set(self.brokers()), self.params.span
        for link, a, b in all_between(overlay):
            if a in alone or b in alone:
                yield from cut_both(link, begin, end)
