"""What clients do in a rehearsal of the conformance kit: a few rooms, through which everybody moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.rehearsing import Dice, Rehearsal, columns
from rooms.kind import ENTER, LEAVE, SAY


def script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Everybody enters, moves some times and leaves, and all the while things are said."""
    grid, end, rooms = rehearsal.grid_ns, rehearsal.duration_ns, int(params["rooms"])
    entered: list[Any] = []
    left: list[Any] = []
    standing: list[Any] = []
    for client in range(clients):
        dice = Dice(seed, brokers + client, "rooms/stays")
        stay = (brokers + client) << 32
        now = 0 if rehearsal.settled and client % 2 else 1 + dice.below(end // 8)
        for move in range(1 + dice.below(3)):
            now += -now % grid
            row = [float(dice.below(rooms))]
            (entered if now or move else standing).append((now, client, stay, row))
            now += 1 + dice.below(end // 3)
        if client % 3 == 0:
            left.append((now + -now % grid, client, stay))
    said = []
    dice = Dice(seed, 0, "rooms/said")
    for _ in range(rehearsal.publications):
        at = 1 + dice.below(end - grid)
        row = [float(dice.below(rooms)), float(dice.below(3))]
        said.append((at + -at % grid, dice.below(clients), 0, row))
    return {
        "emissions": [
            {"type": SAY, **columns(sorted(said, key=lambda m: m[:2]))},
            {"type": ENTER, **columns(sorted(entered, key=lambda m: m[:2]))},
            {"type": LEAVE, **columns(sorted(left))},
        ],
        "standing": [{"type": ENTER, **columns(standing)}] if standing else [],
    }
