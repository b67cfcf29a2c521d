"""A case made smaller, as long as the same judge has the same sort of mistake against it.

First the structure: faults, things that are begun with all that is done to them, single actions, brokers (a link is
contracted, so that what lies behind stays connected), links, clients, options. Then numbers: delays, times and bodies
that are plain. Each candidate is a whole run. It ends where nothing single can be left out any more, or after so many
candidates; which of the two is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scenarios.hunt.case import Act, Case, Edge, connected
from scenarios.hunt.drawing import MS, runs

RUNS_MOST = 600  # candidates
SECONDS_MOST = 60.0
_WALL = 3  # times as long by the clock: a program that hangs takes no CPU
_PLAIN_DELAY_NS = 1 * MS


@dataclass(frozen=True)
class Shrunk:
    """What was left."""

    case: Case
    minimal: bool  # nothing single can be left out
    tried: int  # candidates that were run
    interrupted: bool = False  # by whoever sits before it


def shrink(
    case: Case, fails: Callable[[Case], bool], most: int = RUNS_MOST, seconds: float = SECONDS_MOST
) -> Shrunk:
    """The smallest case found for which `fails` still holds, after at most so many candidates or so long.

    What was found by then is not lost to Ctrl-C.
    """
    return _Shrinker(fails, most, seconds).shrink(case)


class _Enough(Exception):
    """So many were tried."""


class _Shrinker:
    def __init__(self, fails: Callable[[Case], bool], most: int, seconds: float) -> None:
        self._fails = fails
        self._most = most
        self._until = time.process_time() + seconds  # of CPU: a busy machine leaves no more in a case
        self._late = time.monotonic() + _WALL * seconds
        self._best: Case | None = None
        self._known: dict[str, bool] = {}
        self.tried = 0

    def shrink(self, case: Case) -> Shrunk:
        best = case
        try:
            while True:
                before = best.key
                for step in (*_STRUCTURE, *_NUMBERS):
                    best = self._through(best, step)
                if best.key == before:
                    return Shrunk(best, True, self.tried)
        except _Enough as enough:
            return Shrunk(enough.args[0], False, self.tried)
        except KeyboardInterrupt:
            return Shrunk(self._best or case, False, self.tried, interrupted=True)

    def _through(self, best: Case, step: Callable[[Case], Iterator[Case]]) -> Case:
        """Take the first candidate of a step that fails as well, again and again."""
        at = 0  # candidates that were in vain before are asked last
        while True:
            self._best = best
            candidates = list(step(best))
            order = [*range(at, len(candidates)), *range(min(at, len(candidates)))]
            for i in order:
                if candidates[i].weight < best.weight and self._still(candidates[i], best):
                    best, at = candidates[i], i
                    break
            else:
                return best

    def _still(self, candidate: Case, best: Case) -> bool:
        known = self._known.get(candidate.key)
        if known is None:
            if self.tried >= self._most or time.process_time() > self._until or time.monotonic() > self._late:
                raise _Enough(best)
            self.tried += 1
            known = self._known[candidate.key] = runs(candidate) and self._fails(candidate)
        return known


# ---- structure ---------------------------------------------------------------------------------------


def _faults(case: Case) -> Iterator[Case]:
    if case.faults:
        yield case.but(faults=(), detect_ns=None)
    for i in range(len(case.faults)):
        yield case.but(faults=_without(case.faults, i))
    if case.detect_ns is not None:
        yield case.but(detect_ns=None)


def _halves(case: Case) -> Iterator[Case]:
    """Large parts of the actions at once."""
    size = len(case.acts)
    parts = 2
    while parts <= 8 and size >= 2 * parts:
        for i in range(parts):
            begin, end = i * size // parts, (i + 1) * size // parts
            yield case.but(acts=case.acts[:begin] + case.acts[end:])
        parts *= 2


def _things(case: Case) -> Iterator[Case]:
    """All that is done to one thing; all that one client does."""
    for client in sorted({act.client for act in case.acts}):
        yield case.but(acts=tuple(act for act in case.acts if act.client != client))
    for about in dict.fromkeys(act.about for act in case.acts if act.about is not None):
        yield case.but(acts=tuple(act for act in case.acts if act.about != about))


def _moves(case: Case) -> Iterator[Case]:
    """Nobody moves; one client does not; one move less."""
    if case.moves:
        yield case.but(moves=(), session={})
    for client in sorted({move.client for move in case.moves}):
        yield case.but(moves=tuple(move for move in case.moves if move.client != client))
    for i in range(len(case.moves)):
        yield case.but(moves=_without(case.moves, i))


def _acts(case: Case) -> Iterator[Case]:
    for i in range(len(case.acts)):
        yield case.but(acts=_without(case.acts, i))


def _brokers(case: Case) -> Iterator[Case]:
    """Without a broker: it becomes one with a neighbour, and takes its clients along."""
    if case.faults and any(set(each) & {"brokers", "sets", "around", "link"} for each in case.faults):
        named = _named(case)
    else:
        named = set()
    for edge in case.edges:
        for gone, into in ((edge.a, edge.b), (edge.b, edge.a)):
            if gone not in named:
                yield _contracted(case, gone, into)


def _named(case: Case) -> set[int]:
    """Brokers that faults name."""
    found: set[int] = set()
    for each in case.faults:
        found.update(each.get("brokers", ()), each.get("link") or (), *each.get("sets", ()))
    return found


def _contracted(case: Case, gone: int, into: int) -> Case:
    """One broker for two; numbers behind it come down."""

    def number(broker: int) -> int:
        broker = into if broker == gone else broker
        return broker - (broker > gone)

    edges: dict[tuple[int, int], Edge] = {}
    for edge in case.edges:
        a, b = sorted((number(edge.a), number(edge.b)))
        if a != b:
            edges.setdefault((a, b), edge._replace(a=a, b=b))
    return case.but(
        brokers=case.brokers - 1,
        edges=tuple(edges[key] for key in sorted(edges)),
        clients=tuple(number(broker) for broker in case.clients),
        faults=tuple(_renumbered(each, number) for each in case.faults),
        moves=tuple(
            move if move.broker is None else move._replace(broker=number(move.broker)) for move in case.moves
        ),
        queues=_renumbered(case.queues, number),
    )


def _renumbered(fault: Any, number: Callable[[int], int]) -> dict[str, Any]:
    found = dict(fault)
    for key in ("brokers", "link"):
        if found.get(key) is not None:
            found[key] = list(dict.fromkeys(number(broker) for broker in found[key]))
    if "sets" in found:
        found["sets"] = [[number(broker) for broker in each] for each in found["sets"]]
    return found


def _links(case: Case) -> Iterator[Case]:
    named = [set(each["link"]) for each in case.faults if each.get("link")]
    for i, edge in enumerate(case.edges):
        fewer = _without(case.edges, i)
        if {edge.a, edge.b} not in named and connected(case.brokers, fewer):
            yield case.but(edges=fewer)


def _clients(case: Case) -> Iterator[Case]:
    """Without clients that do nothing; two clients of a broker as one; a client at the next broker."""
    idle = sorted(set(range(len(case.clients))) - {act.client for act in case.acts})
    if len(case.clients) > 1 and not any(act.word is not None for act in case.acts):  # words may name clients
        for gone in reversed(idle):
            yield case.but(
                clients=_without(case.clients, gone),
                acts=tuple(act._replace(client=act.client - (act.client > gone)) for act in case.acts),
                moves=tuple(
                    move._replace(client=move.client - (move.client > gone))
                    for move in case.moves
                    if move.client != gone
                ),
            )


def _together(case: Case) -> Iterator[Case]:
    """Two clients as one: what the second begins gets numbers that the first does not use."""
    if any(act.word is not None for act in case.acts):
        return
    for gone in range(len(case.clients) - 1, 0, -1):
        for into in range(gone):
            first = 1 + max((act.number or 0 for act in case.acts if act.client == into), default=-1)
            acts = [
                act if act.client != gone
                else act._replace(client=into, number=None if act.number is None else act.number + first)
                for act in case.acts
            ]  # fmt: skip
            yield case.but(
                clients=_without(case.clients, gone),
                acts=tuple(act._replace(client=act.client - (act.client > gone)) for act in acts),
            )


def _settings(case: Case) -> Iterator[Case]:
    for name in case.options:
        yield case.but(options={key: value for key, value in case.options.items() if key != name})
    for name in case.params:
        yield case.but(params={key: value for key, value in case.params.items() if key != name})
    for name in ("session", "queues"):
        for gone in getattr(case, name):
            yield case.but(**{name: {key: value for key, value in getattr(case, name).items() if key != gone}})
    plain: tuple[dict[str, Any], ...] = (
        {"session": {}}, {"queues": {}}, {"latent": {}}, {"cost": {}}, {"settled": False}, {"view": "auto"},
        {"tables": "auto"}, {"thresholds": None}, {"seed": 1},
    )  # fmt: skip
    for changes in plain:
        yield case.but(**changes)


def _without(things: tuple[Any, ...], i: int) -> tuple[Any, ...]:
    return things[:i] + things[i + 1 :]


# ---- numbers -----------------------------------------------------------------------------------------


def _delays(case: Case) -> Iterator[Case]:
    """Links like any other."""
    plain = tuple(Edge(edge.a, edge.b, _PLAIN_DELAY_NS) for edge in case.edges)
    yield case.but(edges=plain)
    for i, edge in enumerate(case.edges):
        for other in (
            plain[i],
            edge._replace(jitter_ns=0, bandwidth=0, loss=0.0),
            edge._replace(delay_ns=_rounder(edge.delay_ns)),
        ):
            yield case.but(edges=(*case.edges[:i], other, *case.edges[i + 1 :]))


def _times(case: Case) -> Iterator[Case]:
    """Rounder times, those of a stretch at once; an end soon after the last thing that happens."""
    ordered = tuple(sorted(case.acts, key=lambda act: act.at))
    yield case.but(acts=ordered)
    moved = [move.at + int(case.session.get("keep", 0)) for move in case.moves]
    last = max([act.at for act in case.acts] + [_end(each) for each in case.faults] + moved + [0])
    for unit in (10 * MS, 100 * MS, 1_000 * MS):
        yield case.but(duration_ns=_up(last + unit, unit))
    for unit in (1_000 * MS, 100 * MS, 10 * MS, MS):
        later = tuple(act._replace(at=_up(act.at, unit)) for act in case.acts)
        yield case.but(acts=later, duration_ns=_up(case.duration_ns, unit))
    for i, act in enumerate(case.acts):
        for at in _rounds(act.at):
            yield case.but(acts=(*case.acts[:i], act._replace(at=at), *case.acts[i + 1 :]))


def _end(fault: Any) -> int:
    return int(fault["at"]) + int(fault.get("lasts") or 0)


def _fault_times(case: Case) -> Iterator[Case]:
    for i, fault in enumerate(case.faults):
        for key in ("at", "lasts", "delay"):
            if fault.get(key):
                for value in _rounds(int(fault[key])):
                    other = {**fault, key: value}
                    yield case.but(faults=(*case.faults[:i], other, *case.faults[i + 1 :]))
        for key in ("loss", "twice", "delay"):
            if fault.get(key):
                fewer = {k: v for k, v in fault.items() if k != key}
                yield case.but(faults=(*case.faults[:i], fewer, *case.faults[i + 1 :]))


def _move_times(case: Case) -> Iterator[Case]:
    for i, move in enumerate(case.moves):
        for at in _rounds(move.at):
            yield case.but(moves=(*case.moves[:i], move._replace(at=at), *case.moves[i + 1 :]))


def _bodies(case: Case) -> Iterator[Case]:
    """Plainer numbers in bodies; fewer of them."""
    for i, act in enumerate(case.acts):
        if act.body is None:
            continue
        for body in _plainer(act):
            yield case.but(acts=(*case.acts[:i], act._replace(body=body), *case.acts[i + 1 :]))


def _plainer(act: Act) -> Iterator[tuple[float | None, ...]]:
    assert act.body is not None
    body = act.body
    while body and body[-1] is None:
        body = body[:-1]
    if body and len(body) < len(act.body):
        yield body
    for other in (0.0, 1.0):
        for i, value in enumerate(act.body):
            if value is not None and value not in (0.0, 1.0):
                yield (*act.body[:i], other, *act.body[i + 1 :])


def _rounder(time: int) -> int:
    return max(1, _up(time, MS)) if time > MS else time


def _up(time: int, unit: int) -> int:
    return time if time <= 1 else -(-time // unit) * unit


def _rounds(time: int) -> Iterator[int]:
    """Rounder times near this one, the roundest first."""
    for unit in (1_000 * MS, 100 * MS, 10 * MS, MS):
        for at in (time - time % unit, _up(time, unit)):
            if 0 < at != time and time % unit:
                yield at


_STRUCTURE = (_faults, _moves, _halves, _things, _acts, _brokers, _links, _clients, _together, _settings)
_NUMBERS = (_delays, _times, _fault_times, _move_times, _bodies)
