"""What connections and mobility of a group of clients are made of, and the stays that follow from both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from brokers.contract import NEVER
from brokers.faults import Schedule
from brokers.stays import STAYS_MAX, Stay, WrongMovement, joined
from topology import draws

Broker = StrictStr | StrictInt
Brokers = Annotated[
    list[Broker], Field(min_length=1, description="by name or number, or by pattern: r1.* are all whose names begin so")
]
TIMES_MAX = 1_000_000  # that a client comes or goes
AWAY = -1  # in the place of a broker: on the way between two
_ALWAYS = ((0, NEVER),)


class Parameters(BaseModel):
    """Base of the parameter models."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class MovementContext:
    """What movements of a group may know. Clients are counted within the group, from 0."""

    seed: int
    group: str
    placed: NDArray[Any]  # per client, the broker where it was placed
    overlay: Any  # topology.overlay.Overlay
    duration_ns: int
    faults: Schedule

    def brokers(self, references: Iterable[Broker], path: tuple[str | int, ...]) -> list[int]:
        """The numbers of brokers, in the order given, each once; WrongMovement if there is none of a name."""
        found: dict[int, None] = {}
        for i, each in enumerate(references):
            found |= dict.fromkeys(self._named(self.overlay.brokers_like, each, (*path, i)))
        return list(found)

    def broker(self, reference: Broker, path: tuple[str | int, ...]) -> int:
        """The number of the broker with this name or number; WrongMovement if there is none."""
        return int(self._named(self.overlay.broker, reference, path))

    def _named(self, named: Callable[[Broker], Any], reference: Broker, path: tuple[str | int, ...]) -> Any:
        try:
            return named(reference)
        except ValueError as error:
            raise WrongMovement(str(error).removeprefix("broker: "), path) from error

    def check_often(self, every_ns: int, since_ns: int, path: tuple[str | int, ...]) -> None:
        """WrongMovement if clients that come or move once in so long, from a time on, do so too often to draw it."""
        times = max(0, self.duration_ns - since_ns) // max(1, every_ns)
        if times > TIMES_MAX:
            told = f"a client comes or moves about {times:,} times, and may {TIMES_MAX:,} times"
            raise WrongMovement(f"{told}; let it stay longer", path)
        if times * self.placed.size > STAYS_MAX:
            told = f"{self.placed.size:,} clients come or move about {times:,} times each"
            raise WrongMovement(f"{told}, and a run has at most {STAYS_MAX:,} stays; let them stay longer", path)

    def draws(self, client: int, purpose: str) -> Draws:
        """The draws of a client for one purpose."""
        return Draws(draws.stream(self.seed, client, f"clients/{self.group}/{purpose}"))


class Draws:
    """One after the other."""

    def __init__(self, key: Any) -> None:
        self._key = key
        self._count = 0

    def share(self) -> float:
        """From 0 to 1, without 1."""
        self._count += 1
        return float(draws.uniform(self._key, self._count))

    def below(self, limit: int) -> int:
        """A whole number below the limit."""
        return int(self.share() * limit)

    def time(self, mean: int, times: str) -> int:
        """A time of this mean: itself, or as between events that come independently of one another."""
        return max(1, mean if times == "constant" else int(-draws.log(1.0 - self.share()) * mean))


class Connections:
    """When clients are connected; a class of them names its parameters in `Params`."""

    Params: type[BaseModel]

    def __init__(self, params: Any, context: MovementContext) -> None:
        self.params: Any = self.Params(**params)
        self.context = context

    def spans(self, client: int) -> Iterable[tuple[int, int]]:
        """From when until before when a client of the group is connected, in order of time."""
        raise NotImplementedError


class Mobility:
    """Where clients are; a class of them names its parameters in `Params`."""

    Params: type[BaseModel]

    def __init__(self, params: Any, context: MovementContext) -> None:
        self.params: Any = self.Params(**params)
        self.context = context

    def path(self, client: int) -> Iterable[tuple[int, int]]:
        """(from when on, broker or AWAY) of a client of the group, in order of time; where it was placed until then."""
        raise NotImplementedError


def stays_of(
    first: int, context: MovementContext, connections: Connections | None, mobility: Mobility | None
) -> Iterator[Stay]:
    """The stays of a group whose clients are numbered from `first`; none of those that are always where they were."""
    count = 0
    for client, home in enumerate(context.placed.tolist()):
        drawn = _ALWAYS if connections is None else _some(connections.spans(client))
        spans = list(_checked(drawn, context.duration_ns))
        places = _places(home, () if mobility is None else _some(mobility.path(client)), context)
        found = list(_met(spans, places))
        if found == [(0, NEVER, home)]:
            continue
        count += len(found)
        if count > STAYS_MAX:
            raise WrongMovement(f"more than {STAYS_MAX:,} stays; let clients move less often, or fewer of them", ())
        if not found:  # never there: it comes when nobody is looking any more
            found = [(NEVER - 1, NEVER, home)]
        for begin, end, broker in found:
            yield Stay(first + client, broker, begin, end)


def _some(times: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """All of them; WrongMovement where there is no end to them."""
    for number, each in enumerate(times):
        if number > 2 * TIMES_MAX:  # on the way, and there
            raise WrongMovement(f"a client comes or moves more than {TIMES_MAX:,} times; let it stay longer", ())
        yield each


def _checked(spans: Iterable[tuple[int, int]], duration_ns: int) -> Iterator[tuple[int, int]]:
    for begin, end in joined(spans, duration_ns):
        if not (type(begin) is int and type(end) is int and 0 <= begin < end):
            raise WrongMovement(f"connected from {begin!r} to {end!r}, which is from no time to another", ())
        yield begin, end if end < duration_ns else NEVER


def _places(home: int, path: Iterable[tuple[int, int]], context: MovementContext) -> list[tuple[int, int]]:
    """(from when on, broker) with no two alike behind one another."""
    found = [(0, home)]
    for time, broker in path:
        if time >= context.duration_ns:
            break
        if not (type(time) is int and type(broker) is int and time >= found[-1][0]):
            raise WrongMovement(f"at broker {broker!r} from {time!r} on, which is before it was elsewhere", ())
        if not AWAY <= broker < context.overlay.brokers:
            raise WrongMovement(f"there is no broker {broker}", ())
        if time == found[-1][0]:
            found.pop()
        if not found or broker != found[-1][1]:
            found.append((time, broker))
    return found


def _met(spans: Sequence[tuple[int, int]], places: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """(begin, end, broker) of a client that is connected in `spans`, being in `places`."""
    ends = [*(later for (_, _), (later, _) in pairwise(places)), NEVER]
    at = 0
    for begin, end in spans:
        while at < len(places) and ends[at] <= begin:
            at += 1
        for (since, broker), until in zip(places[at:], ends[at:]):
            if since >= end:
                break
            if broker != AWAY:
                yield max(since, begin), min(until, end), broker
