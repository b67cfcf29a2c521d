"""Schedules that hurt: what happened in a run before says where to put the next thing.

A run tells at which instants brokers handled what a change caused. Another run is the same but for one of these:

- a publication is sent so that it comes to that broker at such an instant: 1 ns before, at it, 1 ns after;
- another change is moved there, so that the two meet under way, or something is begun and ended around it;
- links get priorities: a few of them, drawn, take many times as long, so that what goes over them comes after all else;
- a fault begins there, where there are faults.

All of it is said by the case itself, so what is found is repeated by its scenario.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from protocols.rehearsing import Dice
from scenarios.hunt.case import Act, Case
from scenarios.hunt.drawing import MS, Prey, one_of, runs
from scenarios.hunt.running import Outcome

_TRIES = 6
_MOMENTS_MOST = 400
_BESIDE = (-1, 0, 1, 1, 50_000)  # ns from the instant that is aimed at


class Moment(NamedTuple):
    """When a broker handled something that a change had caused."""

    time: int
    broker: int
    link: int  # over which it came; -1: from a client, or a timer


def moments(outcome: Outcome) -> list[Moment]:
    """Those of a run, in the order of time; of a long one some."""
    if not outcome.tables:
        return []
    hops = outcome.tables["hops"]
    mine = np.flatnonzero((hops["cause"] >= 0) & (hops["time_ns"] < outcome.case.duration_ns))
    mine = mine[np.lexsort((hops["sequence"][mine], hops["broker"][mine], hops["time_ns"][mine]))]
    mine = mine[:: max(1, mine.size // _MOMENTS_MOST)]
    columns = (hops[name][mine].tolist() for name in ("time_ns", "broker", "link"))
    every = [Moment(*row) for row in zip(*columns)]
    return [each for each in every if each.broker < outcome.case.brokers]  # none at a server


def aim(prey: Prey, case: Case, at: list[Moment], seed: int, number: int) -> Case | None:
    """The case with something aimed at one of these moments; None where nothing goes."""
    dice = Dice(seed, number, "hunt/aim")
    ways = [_publication, _publication, _publication, _change, _change, _short_life, _priorities]
    if prey.faults and case.faults:
        ways.append(_fault)
    for _ in range(_TRIES if at else 0):
        found = case
        for _ in range(1 + dice.below(2)):
            found = one_of(dice, ways)(prey, found, at, dice)
        if found is not case and runs(found):
            return found
    return None


def _publication(prey: Prey, case: Case, at: list[Moment], dice: Dice) -> Case:
    """A publication more, into the gap of a change: sent so that it arrives there."""
    kind = prey.kind_class
    free = [act for act in case.acts if kind.types[act.op] in kind.publications and act.about is None]
    if not free:
        return case
    moment, act = one_of(dice, at), one_of(dice, free)
    client = dice.below(len(case.clients))
    when = moment.time - _way_ns(case, case.clients[client], moment.broker) + one_of(dice, _BESIDE)
    return _more(case, act._replace(at=when, client=client))


def _way_ns(case: Case, source: int, target: int) -> int:
    """How long the quickest way takes from one broker to another."""
    reached, ahead = {}, [(0, source)]
    while ahead:
        time, broker = min(ahead)
        ahead.remove((time, broker))
        if broker in reached:
            continue
        reached[broker] = time
        for edge in case.edges:
            if broker in (edge.a, edge.b):
                ahead.append((time + edge.delay_ns, edge.b if broker == edge.a else edge.a))
    return reached[target]


def _change(prey: Prey, case: Case, at: list[Moment], dice: Dice) -> Case:
    """A change moved to where another is under way."""
    kind = prey.kind_class
    changes = [i for i, act in enumerate(case.acts) if kind.types[act.op] in kind.changes and act.at]
    if not changes:
        return case
    i, moment = one_of(dice, changes), one_of(dice, at)
    way = _way_ns(case, case.clients[case.acts[i].client], moment.broker)
    when = moment.time - way + one_of(dice, _BESIDE)
    if not 0 < when < case.duration_ns:
        return case
    return case.but(acts=(*case.acts[:i], case.acts[i]._replace(at=when), *case.acts[i + 1 :]))


def _short_life(prey: Prey, case: Case, at: list[Moment], dice: Dice) -> Case:
    """What is begun ends while its beginning is under way."""
    kind = prey.kind_class
    ends = [i for i, act in enumerate(case.acts) if kind.types[act.op] in kind.revocations]
    if not ends:
        return case
    i = one_of(dice, ends)
    begun = [act.at for act in case.acts if act.about == case.acts[i].about and act.at < case.acts[i].at]
    if not begun:
        return case
    later = [moment.time for moment in at if moment.time > max(begun)][:12]
    when = (one_of(dice, later) if later else max(begun)) + one_of(dice, (0, 1, 1, 200_000))
    if not max(begun) <= when < case.duration_ns:
        return case
    return case.but(acts=(*case.acts[:i], case.acts[i]._replace(at=when), *case.acts[i + 1 :]))


def _priorities(prey: Prey, case: Case, at: list[Moment], dice: Dice) -> Case:
    """Some links come after all others."""
    slow = one_of(dice, (5, 20, 60)) * MS
    edges: Any = tuple(
        edge._replace(delay_ns=edge.delay_ns + slow) if dice.below(3) == 0 else edge for edge in case.edges
    )
    return case.but(edges=edges) if edges != case.edges else case


def _fault(prey: Prey, case: Case, at: list[Moment], dice: Dice) -> Case:
    """A fault that begins as a change is handled."""
    i, moment = dice.below(len(case.faults)), one_of(dice, at)
    quiet = max(int(each["at"]) + int(each.get("lasts") or 0) for each in case.faults)
    when = max(0, moment.time + one_of(dice, (-1, 0, 1)))
    if when + int(case.faults[i].get("lasts") or 0) > quiet:
        return case  # it would reach into the time in which all has to be whole
    return case.but(faults=(*case.faults[:i], {**case.faults[i], "at": when}, *case.faults[i + 1 :]))


def _more(case: Case, act: Act) -> Case:
    return case.but(acts=(*case.acts, act)) if 0 < act.at < case.duration_ns else case
