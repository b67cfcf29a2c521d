"""Cases made of one that was worth keeping: one or two things in it are other."""

from __future__ import annotations

from typing import Any

from protocols.rehearsing import Dice
from scenarios.hunt.case import Act, Case
from scenarios.hunt.drawing import MS, Prey, draw, one_of, runs

_TRIES = 6


def mutate(prey: Prey, case: Case, seed: int, number: int) -> Case:
    """Another case like this one; a drawn one where none goes."""
    dice = Dice(seed, number, "hunt/mutate")
    for _ in range(_TRIES):
        found = case
        for _ in range(1 + dice.below(3)):
            found = one_of(dice, _CHANGES)(found, dice)
        if found is not case and runs(found):
            return found
    return draw(prey, seed, number)


def _moved(case: Case, dice: Dice) -> Case:
    """One action at another time: that of another, or just beside it."""
    if len(case.acts) < 2:
        return case
    i, other = dice.below(len(case.acts)), one_of(dice, case.acts)
    at = other.at + one_of(dice, (-1, 0, 0, 1, 1 * MS, -1 * MS))
    return _with(case, i, at=max(1, at)) if case.acts[i].at and 0 < at < case.duration_ns else case


def _doubled(case: Case, dice: Dice) -> Case:
    """One message more, as another that is there: of the same client or of another."""
    free = [act for act in case.acts if act.about is None]
    if not free:
        return case
    act = one_of(dice, free)
    at = one_of(dice, case.acts).at + dice.below(3 * MS)
    if not 0 < at < case.duration_ns:
        return case
    return case.but(acts=(*case.acts, act._replace(at=at, client=dice.below(len(case.clients)))))


def _elsewhere(case: Case, dice: Dice) -> Case:
    """A client at another broker."""
    i = dice.below(len(case.clients))
    return case.but(clients=(*case.clients[:i], dice.below(case.brokers), *case.clients[i + 1 :]))


def _alike(case: Case, dice: Dice) -> Case:
    """One action with the body of another of its sort."""
    i = dice.below(len(case.acts)) if case.acts else 0
    alike = [act for act in case.acts if case.acts and act.op == case.acts[i].op and act.body is not None]
    if not alike or case.acts[i].body is None or case.acts[i].word is not None:
        return case
    return _with(case, i, body=one_of(dice, alike).body)


def _slower(case: Case, dice: Dice) -> Case:
    """A link much slower or faster."""
    if not case.edges:
        return case
    i = dice.below(len(case.edges))
    edge = case.edges[i]
    edge = edge._replace(delay_ns=max(1, one_of(dice, (1, 100_000, 1 * MS, 10 * edge.delay_ns, 40 * MS))))
    return case.but(edges=(*case.edges[:i], edge, *case.edges[i + 1 :]))


def _fewer(case: Case, dice: Dice) -> Case:
    """One action less."""
    if len(case.acts) < 2:
        return case
    i = dice.below(len(case.acts))
    return case.but(acts=case.acts[:i] + case.acts[i + 1 :])


def _lowered(case: Case, dice: Dice) -> Case:
    return case.but(thresholds=one_of(dice, (None, 0, 2, 8)))


def _met(case: Case, dice: Dice) -> Case:
    """A client comes or goes when something else happens, or just beside it."""
    if not case.moves:
        return case
    i, other = dice.below(len(case.moves)), one_of(dice, case.acts) if case.acts else None
    at = 1 if other is None else max(1, other.at + one_of(dice, (-1, 0, 1, 1 * MS)))
    last = max(move.at for move in case.moves)
    if at > last:  # all of them are somewhere before a case comes to rest
        return case
    return case.but(moves=(*case.moves[:i], case.moves[i]._replace(at=at), *case.moves[i + 1 :]))


def _with(case: Case, i: int, **changes: Any) -> Case:
    act: Act = case.acts[i]._replace(**changes)
    return case.but(acts=(*case.acts[:i], act, *case.acts[i + 1 :]))


_CHANGES = (_moved, _moved, _doubled, _elsewhere, _alike, _slower, _fewer, _lowered, _met)
