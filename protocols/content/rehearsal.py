"""What clients do in a rehearsal of the conformance kit: ranges nested in each other, on a grid of tenths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from protocols.rehearsing import Dice, Rehearsal, columns

_ADVERTS = 1 << 10  # their numbers begin here: those of subscriptions are lower

def script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Subscriptions nested in each other, half of them taken back, and publications all along.

    Values and bounds lie on a grid of tenths, so that ends of ranges are hit exactly. Where publishers advertise, they
    do so before, and as they go along, and take some of it back.
    """
    attributes = int(params["attributes"])
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    adverts = _adverts(rehearsal, brokers, clients, seed) if params.get("adverts") else []
    lead = end // 8 if adverts else 0
    subscribed: list[tuple[int, int, int, list[float]]] = []
    revoked: list[tuple[int, int, int]] = []
    standing: list[tuple[int, int, int, list[float]]] = []
    for client in range(0, clients, 2):
        dice = Dice(seed, brokers + client, "conformance/interests")
        for number in range(5):
            row: list[float] = []
            for attribute in sorted({dice.below(min(attributes, 2)) for _ in range(2)}):
                low = dice.below(8)
                row += [attribute, low / 10, (low + 1 + dice.below(10 - low)) / 10]
            row += [np.nan] * (6 - len(row))
            id_ = ((brokers + client) << 32) | number
            if rehearsal.settled and number < 3:
                begun = 0
                standing.append((0, client, id_, row))
            else:
                begun = 1 + lead + dice.below(end // 2 if number else end // 8)
                begun += -begun % grid
                subscribed.append((begun, client, id_, row))
            if number % 2:
                ended = begun + 1 + dice.below(end // 3)
                revoked.append((ended + -ended % grid, client, id_))
    published = []
    dice = Dice(seed, 0, "conformance/publications")
    for _ in range(rehearsal.publications):
        at = 1 + dice.below(end - grid)
        values = [float(dice.below(11)) / 10 if dice.below(12) else np.nan for _ in range(attributes)]
        published.append((at + -at % grid, dice.below(clients), 0, values))
    return {
        "emissions": [
            {"type": 0, **columns(sorted(published, key=lambda m: m[:2]))},
            {"type": 1, **columns(sorted(subscribed, key=lambda m: m[:2]))},
            {"type": 2, **columns(sorted(revoked))},
            *adverts,
        ],
        "standing": [{"type": 1, **columns(standing)}] if standing else [],
    }


def _adverts(rehearsal: Rehearsal, brokers: int, clients: int, seed: int) -> list[dict[str, Any]]:
    """Three advertisements of each client, wide enough that most of what it publishes lies in one.

    The first comes before subscriptions, so that it pulls little, and little of it can be lost.
    """
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    begun: list[tuple[int, int, int, list[float]]] = []
    ended: list[tuple[int, int, int]] = []
    for client in range(clients):
        dice = Dice(seed, brokers + client, "conformance/adverts")
        for number in range(3):
            low = dice.below(5)
            row = [0.0, low / 10, (low + 3 + dice.below(8 - low)) / 10]
            id_ = ((brokers + client) << 32) | _ADVERTS + number
            begin = 1 + dice.below(end // 2 if number else end // 50)
            begin += -begin % grid
            begun.append((begin, client, id_, row))
            if dice.below(2 if number else 4) == 0:
                over = begin + 1 + dice.below(end // 3)
                ended.append((over + -over % grid, client, id_))
    return [{"type": 3, **columns(sorted(begun, key=lambda m: m[:2]))}, {"type": 4, **columns(sorted(ended))}]
