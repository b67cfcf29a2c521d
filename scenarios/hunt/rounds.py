"""A case played again and again in one run: all come, publish, all go, and then the same once more.

Each round begins when the one before has been quiet for long. What begins in it gets numbers of its own, and what fails
fails again; what clients tell of themselves, as values, they tell again under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.hunt.case import Act, Case, Move


def played(case: Case, rounds: int, each_ns: int) -> Case:
    """So many rounds of it in one case, one beginning so long after the other."""
    numbers = _numbers(case)
    acts = sorted(case.acts, key=lambda act: act.at)
    back = _back(case)
    return case.but(
        acts=tuple(_acted(act, i * each_ns, i, numbers) for i in range(rounds) for act in acts),
        faults=tuple({**each, "at": int(each["at"]) + i * each_ns} for i in range(rounds) for each in case.faults),
        moves=tuple(
            move._replace(at=move.at + i * each_ns)
            for i in range(rounds)
            for move in (*(back if i else ()), *case.moves)
        ),
        duration_ns=rounds * each_ns,
        settled=False,
    )


def _acted(act: Act, later_ns: int, i: int, numbers: Mapping[int, dict[int, int]]) -> Act:
    """What is done in this round."""
    at = max(1, act.at) + later_ns
    if act.number is None:
        return act._replace(at=at)
    mine = numbers[act.client]
    return act._replace(at=at, number=mine[act.number] + i * len(mine))


def _numbers(case: Case) -> dict[int, dict[int, int]]:
    """The numbers that each client gives, counted without gaps."""
    found: dict[int, set[int]] = {}
    for act in case.acts:
        if act.number is not None:
            found.setdefault(act.client, set()).add(act.number)
    return {client: {number: i for i, number in enumerate(sorted(mine))} for client, mine in found.items()}


def _back(case: Case) -> list[Move]:
    """What brings clients to where they were at first, before another round."""
    last: dict[int, int | None] = {}
    for move in sorted(case.moves, key=lambda move: move.at):
        last[move.client] = move.broker
    return [
        Move(client, 1, home)
        for client, broker in sorted(last.items())
        if (home := case.clients[client]) != broker
    ]


def ends_all(case: Case, kind: Any) -> bool:
    """Whether whatever is begun in a round ends in it, under numbers that another round can have otherwise."""
    begun = {kind.types[act.op] for act in case.acts if act.word is not None}
    if begun & (kind.interests | kind.revocations | kind.publications):
        return False
    stands: set[Any] = set()
    for act in sorted(case.acts, key=lambda act: act.at):
        if kind.types[act.op] in kind.revocations:
            stands.discard(act.about)
        elif act.number is not None:
            stands.add(act.about)
    return not stands
