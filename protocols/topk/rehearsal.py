"""What clients do in a rehearsal of the conformance kit: small whole weights and tenths, so that ties abound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from protocols.rehearsing import Dice, Rehearsal, columns
from protocols.topk.kind import PUBLISH, REWEIGHT, SUBSCRIBE, UNSUBSCRIBE


def script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Filters that come, weigh otherwise and go, and publications of all forms all along."""
    attributes = min(int(params["attributes"]), 4)
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    said: dict[int, list[Any]] = {SUBSCRIBE: [], REWEIGHT: [], UNSUBSCRIBE: []}
    standing: list[Any] = []
    for client in range(0, clients, 2):
        dice = Dice(seed, brokers + client, "conformance/filters")
        for number in range(4):
            chosen = sorted({dice.below(attributes) for _ in range(3)})
            lows = [dice.below(9) for _ in chosen]
            ranges = [(a, low / 10, (low + 1 + dice.below(10 - low)) / 10) for a, low in zip(chosen, lows)]

            def row(ranges: list[Any] = ranges, dice: Dice = dice) -> list[float]:
                found = [value for each in ranges for value in (*each, float(dice.below(5) - 1))]
                return found + [np.nan] * (12 - len(found))

            id_ = ((brokers + client) << 32) | number
            begun = 0 if rehearsal.settled and number < 3 else 1 + dice.below(end // 2)
            begun += -begun % grid
            (standing if begun == 0 else said[SUBSCRIBE]).append((begun, client, id_, row()))
            now = begun
            for _ in range(dice.below(3)):
                now += 1 + dice.below(end // 4)
                now += -now % grid
                said[REWEIGHT].append((now, client, id_, row()))
            if number % 2:
                now += 1 + dice.below(end // 4)
                said[UNSUBSCRIBE].append((now + -now % grid, client, id_))
    return {
        "emissions": [
            {"type": PUBLISH, **columns(_publications(rehearsal, clients, int(params["attributes"]), seed))},
            *({"type": type_, **columns(sorted(rows, key=lambda m: m[:3]))} for type_, rows in said.items()),
        ],
        "standing": [{"type": SUBSCRIBE, **columns(standing)}] if standing else [],
    }


def _publications(rehearsal: Rehearsal, clients: int, attributes: int, seed: int) -> list[Any]:
    """Points, intervals, and some with weights of the sender."""
    published = []
    dice = Dice(seed, 0, "conformance/messages")
    for _ in range(rehearsal.publications):
        at = 1 + dice.below(rehearsal.duration_ns - rehearsal.grid_ns)
        low = [dice.below(11) / 10 if dice.below(12) else np.nan for _ in range(attributes)]
        row = list(low)
        if dice.below(2):
            row += [value + dice.below(3) / 10 for value in low]
            if dice.below(3) == 0:
                row += [float(dice.below(4)) for _ in low]
        row += [np.nan] * (3 * attributes - len(row))
        published.append((at + -at % rehearsal.grid_ns, dice.below(clients), 0, row))
    return sorted(published, key=lambda m: m[:2])
