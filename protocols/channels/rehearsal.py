"""What clients do in a rehearsal of the conformance kit: boxes on a coarse grid, so that many are equal or touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.channels.kind import SUBSCRIBE, UNSUBSCRIBE
from protocols.rehearsing import Dice, Rehearsal, columns

_PERIODS_NS = (24_000_000, 36_000_000)
_CELLS = 8


def script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Queries that come, become others, and go."""
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    said: dict[int, list[Any]] = {SUBSCRIBE: [], UNSUBSCRIBE: []}
    standing: list[Any] = []
    for client in range(0, clients, 2):
        dice = Dice(seed, brokers + client, "conformance/queries")
        for number in range(3):
            id_ = ((brokers + client) << 32) | number
            now = 0 if rehearsal.settled and number < 2 else 1 + dice.below(end // 5)
            now += -now % grid
            (said[SUBSCRIBE] if now else standing).append((now, client, id_, _query(dice, params["side"])))
            for _ in range(dice.below(3)):
                now += 1 + dice.below(end // 5)
                now += -now % grid
                said[SUBSCRIBE].append((now, client, id_, _query(dice, params["side"])))
            if number == 1:
                now += 1 + dice.below(end // 5)
                said[UNSUBSCRIBE].append((now + -now % grid, client, id_))
    return {
        "emissions": [
            {"type": type_, **columns(sorted(rows, key=lambda m: m[:3]))} for type_, rows in said.items()
        ],
        "standing": [{"type": SUBSCRIBE, **columns(standing)}] if standing else [],
    }


def _query(dice: Dice, side: float) -> list[float]:
    row = [float(_PERIODS_NS[dice.below(len(_PERIODS_NS))])]
    for _ in range(2):
        low = dice.below(_CELLS)
        row += [low * side / _CELLS, (low + 1 + dice.below(2)) * side / _CELLS]
    return row
