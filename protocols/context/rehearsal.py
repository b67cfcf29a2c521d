"""What clients do in a rehearsal of the conformance kit: all numbers in tenths, so that ends of ranges meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from brokers.indexes.context.contract import OPERATORS
from protocols.context.kind import ATOM, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, UPDATE, value_word
from protocols.rehearsing import Dice, Rehearsal, columns

_USED = 2  # attributes that matter
_ATOMS_MAX = 5


def script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Contexts of every third client that change all along, profiles over them that come and go, publications."""
    used = min(int(params["attributes"]), _USED)
    said: dict[int, list[Any]] = {UPDATE: [], SUBSCRIBE: [], UNSUBSCRIBE: []}
    standing: dict[int, list[Any]] = {UPDATE: [], SUBSCRIBE: []}
    owners = list(range(0, clients, 3))
    for owner in owners:
        _values(rehearsal, owner, brokers, used, seed, said, standing)
    for client in range(0, clients, 2):
        _profiles(rehearsal, client, brokers, owners, used, seed, said, standing)
    return {
        "emissions": [
            {"type": PUBLISH, **columns(_publications(rehearsal, clients, int(params["attributes"]), seed))},
            *({"type": type_, **columns(sorted(rows, key=lambda m: m[:3]))} for type_, rows in said.items()),
        ],
        "standing": [{"type": type_, **columns(rows)} for type_, rows in standing.items() if rows],
    }


def _values(
    rehearsal: Rehearsal, owner: int, brokers: int, used: int, seed: int,
    said: Mapping[int, list[Any]], standing: Mapping[int, list[Any]],
) -> None:  # fmt: skip
    """One context of a client: most values are reported soon, one in six changes is that nothing is known."""
    dice = Dice(seed, brokers + owner, "conformance/values")
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    for attribute in range(used):
        word = value_word(owner, attribute)
        value = dice.below(11) / 10
        if rehearsal.settled and dice.below(4):
            standing[UPDATE].append((0, owner, word, [owner, attribute, value]))
        now = 1 + dice.below(end // 6)
        for _ in range(3 + dice.below(5)):
            now += 1 + dice.below(end // 5)
            if now >= end:
                break
            value = np.nan if dice.below(6) == 0 else dice.below(11) / 10
            said[UPDATE].append((now + -now % grid, owner, word, [owner, attribute, value]))


def _profiles(
    rehearsal: Rehearsal, client: int, brokers: int, owners: list[int], used: int, seed: int,
    said: Mapping[int, list[Any]], standing: Mapping[int, list[Any]],
) -> None:  # fmt: skip
    dice = Dice(seed, brokers + client, "conformance/profiles")
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    for number in range(5):
        row = _profile(dice, owners, used)
        id_ = ((brokers + client) << 32) | number
        begun = 0 if rehearsal.settled and number < 3 else 1 + dice.below(end // 2 if number else end // 8)
        begun += -begun % grid
        (standing if begun == 0 else said)[SUBSCRIBE].append((begun, client, id_, row))
        if number % 2:
            ended = begun + 1 + dice.below(end // 3)
            said[UNSUBSCRIBE].append((ended + -ended % grid, client, id_))


def _profile(dice: Dice, owners: list[int], used: int) -> list[float]:
    """One or two conjuncts of atoms of all three sorts."""
    nan = np.nan
    row: list[float] = []
    for conjunct in range(1 + dice.below(2)):
        for _ in range(1 + dice.below(2)):
            sort = dice.below(5)
            operator = dice.below(len(OPERATORS))
            epsilon = dice.below(4) / 10 if OPERATORS[operator] == "~" else nan
            attribute, constant = dice.below(used), dice.below(11) / 10
            context = owners[dice.below(len(owners))], dice.below(used)
            if sort == 0:
                row += [conjunct, attribute, operator, nan, nan, constant, epsilon]
            elif sort == 1:
                row += [conjunct, nan, operator, *context, constant, epsilon]
            else:
                row += [conjunct, attribute, operator, *context, nan, epsilon]
    return row + [nan] * (_ATOMS_MAX * ATOM - len(row))


def _publications(rehearsal: Rehearsal, clients: int, attributes: int, seed: int) -> list[Any]:
    dice = Dice(seed, 0, "conformance/messages")
    published = []
    for _ in range(rehearsal.publications):
        at = 1 + dice.below(rehearsal.duration_ns - rehearsal.grid_ns)
        row = [dice.below(11) / 10 if dice.below(12) else np.nan for _ in range(attributes)]
        published.append((at + -at % rehearsal.grid_ns, dice.below(clients), 0, row))
    return sorted(published, key=lambda m: m[:2])
