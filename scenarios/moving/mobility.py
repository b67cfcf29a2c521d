"""At which broker clients are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from brokers.contract import NEVER
from brokers.faults import Crash
from brokers.stays import WrongMovement
from scenarios.moving.movement import AWAY, Broker, Brokers, Mobility, MovementContext, Parameters
from topology.sections import Count
from topology.units import Duration, PositiveDuration

Travel = Annotated[Duration, Field(description="how long a client is away when it goes from one broker to another")]


def _moved(time: int, travel: int, broker: int) -> Iterator[tuple[int, int]]:
    """A client sets out at a time."""
    if travel:
        yield time, AWAY
    yield time + travel, broker


class Stop(Parameters):
    """Of a path."""

    at: Annotated[Duration, Field(description="when they set out")]
    broker: Annotated[Broker, Field(description="where to, by name or number")]


class Path(Mobility):
    """From stop to stop, all clients of the group together."""

    class Params(Parameters):
        stops: Annotated[list[Stop], Field(min_length=1, description="in order of time")]
        travel: Travel = 0

        @model_validator(mode="after")
        def _in_order(self) -> Path.Params:
            for i, (one, other) in enumerate(zip(self.stops, self.stops[1:])):
                if other.at < one.at + self.travel:
                    raise ValueError(f"`stops` are in order of time, with `travel` in between; see number {i + 1}")
            return self

    def __init__(self, params: Any, context: MovementContext) -> None:
        super().__init__(params, context)
        self._stops = [
            (stop.at, context.broker(stop.broker, ("stops", i, "broker"))) for i, stop in enumerate(self.params.stops)
        ]

    def path(self, client: int) -> Iterator[tuple[int, int]]:
        at = int(self.context.placed[client])
        for time, broker in self._stops:
            if broker != at:
                yield from _moved(time, self.params.travel, broker)
            at = broker


class Move(Parameters):
    """Of one client."""

    client: Annotated[Count, Field(ge=0, description="which of the group, counted from 0")]
    at: Annotated[Duration, Field(description="when it is somewhere else")]
    broker: Annotated[Broker | None, Field(description="where, by name or number; nowhere unless given")] = None


class Itinerary(Mobility):
    """Each client for itself, at the times given."""

    class Params(Parameters):
        moves: Annotated[list[Move], Field(min_length=1, description="those of one client in order of time")]

        @model_validator(mode="after")
        def _in_order(self) -> Itinerary.Params:
            last: dict[int, int] = {}
            for i, move in enumerate(self.moves):
                if move.at <= last.get(move.client, -1):
                    raise ValueError(f"`moves` of a client are in order of time; see number {i}")
                last[move.client] = move.at
            return self

    def __init__(self, params: Any, context: MovementContext) -> None:
        super().__init__(params, context)
        self._of: dict[int, list[tuple[int, int]]] = {}
        for i, move in enumerate(self.params.moves):
            if move.client >= context.placed.size:
                raise WrongMovement(
                    f"the group has clients 0 to {context.placed.size - 1} (got {move.client})", ("moves", i, "client")
                )
            to = AWAY if move.broker is None else context.broker(move.broker, ("moves", i, "broker"))
            self._of.setdefault(move.client, []).append((move.at, to))

    def path(self, client: int) -> Iterator[tuple[int, int]]:
        yield from self._of.get(client, ())


class RandomWaypoint(Mobility):
    """A while at a broker, then to another one, drawn anew each time."""

    class Params(Parameters):
        stay: Annotated[PositiveDuration, Field(description="mean time at a broker")]
        times: Annotated[Literal["exponential", "constant"], Field(description="how it is drawn")] = "exponential"
        travel: Travel = 0
        brokers: Annotated[Brokers | None, Field(description="where to; all unless given")] = None
        start: Annotated[Duration, Field(description="nobody moves before")] = 0

    def __init__(self, params: Any, context: MovementContext) -> None:
        super().__init__(params, context)
        named = self.params.brokers
        self._to = list(range(context.overlay.brokers)) if named is None else context.brokers(named, ("brokers",))
        if len(self._to) < 2:
            raise WrongMovement("there is one broker only, and nowhere to go", ("brokers",) if named else ())
        context.check_often(self.params.stay + self.params.travel, self.params.start, ("stay",))

    def path(self, client: int) -> Iterator[tuple[int, int]]:
        p, drawn = self.params, self.context.draws(client, "random waypoint")
        time, at = p.start, int(self.context.placed[client])
        while True:
            time += drawn.time(p.stay, p.times)
            if time >= self.context.duration_ns:
                return
            others = [broker for broker in self._to if broker != at] if len(self._to) < 3 else self._to
            to = at
            while to == at:
                to = others[drawn.below(len(others))]
            yield from _moved(time, p.travel, to)
            time, at = time + p.travel, to


class Commuters(Mobility):
    """At home, where they were placed, but for a part of each day."""

    class Params(Parameters):
        work: Annotated[Brokers, Field(description="where to, one drawn for each client: names, numbers or patterns")]
        day: Annotated[PositiveDuration, Field(description="from one morning to the next")]
        leave: Annotated[Duration, Field(description="when they leave home, counted from the beginning of a day")]
        back: Annotated[Duration, Field(description="when they leave work")]
        spread: Annotated[Duration, Field(description="each sets out at a drawn time so long after that")] = 0
        travel: Travel = 0

        @model_validator(mode="after")
        def _within_a_day(self) -> Commuters.Params:
            late = self.spread + self.travel
            if not self.leave + late < self.back or not self.back + late < self.day + self.leave:
                raise ValueError("a day is `leave`, then `back`, each with `spread` and `travel` before the next")
            return self

    def __init__(self, params: Any, context: MovementContext) -> None:
        super().__init__(params, context)
        self._work = context.brokers(self.params.work, ("work",))
        context.check_often(self.params.day // 2, self.params.leave, ("day",))

    def path(self, client: int) -> Iterator[tuple[int, int]]:
        p, drawn = self.params, self.context.draws(client, "commuters")
        home, work = int(self.context.placed[client]), self._work[drawn.below(len(self._work))]
        if work == home:
            return
        for morning in range(0, self.context.duration_ns, p.day):
            yield from _moved(morning + p.leave + drawn.below(p.spread + 1), p.travel, work)
            yield from _moved(morning + p.back + drawn.below(p.spread + 1), p.travel, home)


class Failover(Mobility):
    """Where it was placed, unless the broker there is down."""

    class Params(Parameters):
        after: Annotated[PositiveDuration, Field(description="how long clients wait for a broker that is down")]
        back: Annotated[bool, Field(description="whether they go back once it is up")] = True

    def __init__(self, params: Any, context: MovementContext) -> None:
        super().__init__(params, context)
        self._downs: dict[int, list[tuple[int, int]]] = {}
        for crash in sorted(context.faults.of(Crash), key=lambda crash: crash.begin):
            self._downs.setdefault(crash.broker, []).append((crash.begin, crash.end))
        self._known: dict[int, list[tuple[int, int]]] = {}

    def path(self, client: int) -> Iterator[tuple[int, int]]:
        home = int(self.context.placed[client])
        if home not in self._known:  # all clients of a broker go the same way
            self._known[home] = list(self._away_from(home))
        yield from self._known[home]

    def _away_from(self, home: int) -> Iterator[tuple[int, int]]:
        p, at, since = self.params, home, 0
        while True:
            begins = (max(begin, since) for begin, end in self._downs.get(at, ()) if end - max(begin, since) > p.after)
            up = self._up(home, since) if at != home and p.back else NEVER
            time = min(next(begins, NEVER) + p.after, up)
            if time >= self.context.duration_ns:
                return
            to = home if time == up else self._nearest(at, time)
            if to is None:  # all are down: it waits on
                return
            yield time, to
            at, since = to, time

    def _up(self, broker: int, time: int) -> int:
        """When a broker is up, at a time or after."""
        for begin, end in self._downs.get(broker, ()):
            if begin <= time < end:
                time = end
        return time

    def _nearest(self, broker: int, time: int) -> int | None:
        """The broker that is up with the fewest links in between, the lowest number of them."""
        start, neighbour, _ = self.context.overlay.adjacency
        seen, ahead = {broker}, deque([broker])
        while ahead:
            ring = sorted({int(n) for b in ahead for n in neighbour[start[b] : start[b + 1]]} - seen)
            ring = [each for each in ring if each < self.context.overlay.brokers]
            for each in ring:
                if self._up(each, time) == time:
                    return each
            seen.update(ring)
            ahead = deque(ring)
        return None
