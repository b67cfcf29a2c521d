"""Faults that are drawn: from the scenario's seed and the number of the entry, so that each run of it has the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from brokers.faults import Crash, Fault, FaultContext, Slow, WrongFault
from scenarios.faults.entry import (
    At,
    Brokers,
    Ends,
    Entry,
    ForATime,
    Forgetting,
    all_between,
    between_brokers,
    cut_both,
)
from scenarios.faults.given import FAULTS_MAX
from topology import draws
from topology.units import Duration, Fraction, PositiveDuration, Rate

_NS_PER_S = 1_000_000_000


class Draws:
    """Draws of one entry, one after the other."""

    def __init__(self, context: FaultContext) -> None:
        self._key = draws.stream(context.seed, context.entry, "faults")
        self._count = 0

    def share(self) -> float:
        """From 0 to 1, without 1."""
        self._count += 1
        return float(draws.uniform(self._key, self._count))

    def below(self, limit: int) -> int:
        """A whole number below the limit."""
        return int(self.share() * limit)

    def waiting(self, mean: float) -> int:
        """A time as between events that come independently of one another, one tick at least."""
        return max(1, int(-draws.log(1.0 - self.share()) * mean))

    def shuffled(self, things: list[int]) -> list[int]:
        """All of them in a drawn order."""
        left, found = list(things), []
        while left:
            found.append(left.pop(self.below(len(left))))
        return found


class _Whole:
    """Whether brokers that are up can all reach one another."""

    def __init__(self, overlay: Any) -> None:
        self._graph = overlay.adjacency
        self._brokers = overlay.brokers

    def without(self, down: set[int], cut: set[int]) -> bool:
        """With these brokers down and these undirected links cut."""
        start, neighbour, link = self._graph
        up = [b for b in range(self._brokers) if b not in down]
        if not up:
            return False
        seen, todo = {up[0]}, [up[0]]
        while todo:
            b = todo.pop()
            for at in range(start[b], start[b + 1]):
                other = int(neighbour[at])
                if other < self._brokers and other not in seen and other not in down and int(link[at]) not in cut:
                    seen.add(other)
                    todo.append(other)
        return len(seen) == len(up)


class RandomOf(Entry):
    """Faults at random times and places."""

    class Params(Forgetting):
        model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

        what: Annotated[Literal["crash", "cut", "pause"], Field(description="what happens")]
        rate: Annotated[Rate, Field(gt=0, description="how often, over the whole network")]
        lasts: Annotated[PositiveDuration, Field(description="for how long, on average; exponentially distributed")]
        begins: Annotated[Duration, Field(description="none before")] = 0
        until: Annotated[Duration | None, Field(description="none after; by default the end of the run")] = None
        heal_by: Annotated[Duration | None, Field(description="all of them are over by then")] = None
        at_once: Annotated[
            int | None, Field(ge=1, description="at most so many at a time; what would be one more does not happen")
        ] = None
        keep_connected: Annotated[
            bool, Field(description="what would keep brokers that are up from reaching one another does not happen")
        ] = False

        @model_validator(mode="after")
        def _some_time(self) -> Any:
            for name in ("until", "heal_by"):
                last = getattr(self, name)
                if last is not None and last <= self.begins:
                    raise ValueError(f"`{name}` is not after `begins`, so that nothing happens")
            return self

    def schedule(self) -> Iterator[Fault]:
        p, overlay, drawn = self.params, self.context.overlay, Draws(self.context)
        until = min(self.context.duration_ns if p.until is None else p.until, self.context.duration_ns)
        on_links = p.what == "cut"
        if (1 + on_links) * p.rate * (until - p.begins) / _NS_PER_S > FAULTS_MAX:
            raise WrongFault(f"makes more than {FAULTS_MAX:,} faults", ("rate",))
        places = [link for link, _, _ in between_brokers(overlay)] if on_links else [*range(overlay.brokers)]
        whole = _Whole(overlay)
        over: dict[int, int] = {}  # when those places are whole again that are not now
        time = p.begins
        while places:
            time += drawn.waiting(_NS_PER_S / p.rate)
            place, end = places[drawn.below(len(places))], time + drawn.waiting(p.lasts)
            if time >= until:
                return
            end = end if p.heal_by is None else min(end, p.heal_by)
            over = {each: when for each, when in over.items() if when > time}
            if end > time and place not in over and self._within_limits({*over, place}, whole):
                over[place] = end
                yield from self._faults(place, time, end)

    def _within_limits(self, broken: set[int], whole: _Whole) -> bool:
        """Whether so many, and these, may be broken at once."""
        p = self.params
        if p.at_once is not None and len(broken) > p.at_once:
            return False
        return not p.keep_connected or whole.without(*((set(), broken) if p.what == "cut" else (broken, set())))

    def _faults(self, place: int, begin: int, end: int) -> Iterator[Fault]:
        if self.params.what == "cut":
            yield from cut_both(place, begin, end)
        elif self.params.what == "crash":
            yield Crash(place, begin, end, self.params.left)
        else:
            yield Slow(place, begin, end, 0.0)


class RollingOf(Entry):
    """Brokers restarted one after the other."""

    class Params(At, Forgetting):
        brokers: Annotated[Brokers | None, Field(description="which, in this order; all unless given")] = None
        lasts: Annotated[PositiveDuration, Field(description="how long each is down")]
        every: Annotated[PositiveDuration, Field(description="the time from one to the next")]
        shuffled: Annotated[bool, Field(description="in a drawn order")] = False

    def schedule(self) -> Iterator[Fault]:
        p = self.params
        brokers = [*range(self.context.overlay.brokers)] if p.brokers is None else self.brokers()
        for number, broker in enumerate(Draws(self.context).shuffled(brokers) if p.shuffled else brokers):
            begin = p.at + number * p.every
            yield Crash(broker, begin, begin + p.lasts, p.left)


class FlappingOf(Entry):
    """A link that goes down and comes up again and again."""

    class Params(At):
        link: Ends
        down: Annotated[PositiveDuration, Field(description="for how long it is down each time")]
        up: Annotated[PositiveDuration, Field(description="for how long it is up in between")]
        until: Annotated[Duration | None, Field(description="then it is up; by default the end of the run")] = None

    def schedule(self) -> Iterator[Fault]:
        p = self.params
        link = self.context.between(p.link)
        until = min(self.context.duration_ns if p.until is None else p.until, self.context.duration_ns)
        if 2 * (until - p.at) // (p.down + p.up) > FAULTS_MAX:
            raise WrongFault(f"makes more than {FAULTS_MAX:,} faults", ("down",))
        for begin in range(p.at, until, p.down + p.up):
            yield from cut_both(link // 2, begin, min(begin + p.down, until))


class SwizzleOf(Entry):
    """Links cut one after the other, and healed in another order."""

    class Params(At):
        share: Annotated[Fraction, Field(gt=0, description="of all links between brokers, drawn")] = 0.5
        every: Annotated[PositiveDuration, Field(description="the time from one to the next")]
        lasts: Annotated[Duration, Field(description="how long all of them are cut")] = 0

    def schedule(self) -> Iterator[Fault]:
        p, overlay, drawn = self.params, self.context.overlay, Draws(self.context)
        links = [link for link, _, _ in between_brokers(overlay)]
        chosen = drawn.shuffled(links)[: max(1, round(p.share * len(links)))] if links else []
        heals = p.at + len(chosen) * p.every + p.lasts
        order = {link: number for number, link in enumerate(drawn.shuffled(chosen))}
        for number, link in enumerate(chosen):
            yield from cut_both(link, p.at + number * p.every, heals + order[link] * p.every)


class CascadeOf(Entry):
    """Brokers that fall, and take neighbours with them."""

    class Params(At, Forgetting):
        brokers: Annotated[Brokers, Field(description="those that fall first, by name or number")]
        chance: Annotated[Fraction, Field(description="that a neighbour falls too")] = 0.3
        after: Annotated[PositiveDuration, Field(description="how long after")] = 10_000_000
        lasts: Annotated[PositiveDuration, Field(description="how long each is down")]
        most: Annotated[int | None, Field(ge=1, description="at most so many fall")] = None

    def schedule(self) -> Iterator[Fault]:
        p, overlay, drawn = self.params, self.context.overlay, Draws(self.context)
        start, neighbour, _ = overlay.adjacency
        most = overlay.brokers if p.most is None else p.most
        wave, fallen, time = sorted(self.brokers()), set[int](), p.at
        while wave:
            wave = wave[: most - len(fallen)]
            fallen.update(wave)
            for broker in wave:
                yield Crash(broker, time, time + p.lasts, p.left)
            near = [int(x) for b in wave for x in neighbour[start[b] : start[b + 1]] if x < overlay.brokers]
            wave = sorted({b for b in near if b not in fallen and drawn.share() < p.chance})
            time += p.after


class HalvesOf(Entry):
    """Brokers fall into two halves, one of which lies around a drawn broker; all links between them are cut."""

    class Params(ForATime):
        bridge: Annotated[bool, Field(description="one drawn broker of one half still reaches the other")] = False

    def schedule(self) -> Iterator[Fault]:
        overlay, drawn, (begin, end) = self.context.overlay, Draws(self.context), self.params.span
        first = self._half(drawn)
        between = [each for each in all_between(overlay) if (each[1] in first) != (each[2] in first)]
        ends = [broker for _, *both in between for broker in both if broker in first]
        bridge = ends[drawn.below(len(ends))] if self.params.bridge and ends else -1
        for link, *both in between:
            if bridge not in both:
                yield from cut_both(link, begin, end)

    def _half(self, drawn: Draws) -> set[int]:
        """Half of all brokers, around a drawn one."""
        overlay = self.context.overlay
        start, neighbour, _ = overlay.adjacency
        found = [drawn.below(overlay.brokers)]
        for broker in found:
            near = {int(x) for x in neighbour[start[broker] : start[broker + 1]] if x < overlay.brokers}
            found += drawn.shuffled(sorted(near.difference(found)))
        return set(found[: max(1, overlay.brokers // 2)])
