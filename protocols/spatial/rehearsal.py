"""What clients do in a rehearsal of the conformance kit: places on a small grid, so that ties abound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from protocols.rehearsing import Dice, Rehearsal, columns
from protocols.spatial.kind import EXPIRE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE

_WORDS = 4
_SIDE = 9
_LIGHT, _HEAVY = 200, 5_000  # bytes of payload: it pays to hold heavy ones back
_OBJECT = 1 << 20  # objects are numbered from here, apart from subscriptions


def script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Subscriptions that come and go, some asking for what others left; objects all along, many of which expire."""
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    words = min(int(params["keywords"]), _WORDS)
    said: dict[int, list[Any]] = {PUBLISH: [], SUBSCRIBE: [], UNSUBSCRIBE: [], EXPIRE: []}
    standing: list[Any] = []
    for client in range(0, clients, 2):
        dice = Dice(seed, brokers + client, "conformance/subscriptions")
        for number in range(4):
            id_ = ((brokers + client) << 32) | number
            settled = rehearsal.settled and number < 3
            begun = 0 if settled else 1 + dice.below(end // 3 if number == 3 else end // 10)
            begun += -begun % grid
            row = [*_place(dice), *_words(dice, words)]
            (standing if settled else said[SUBSCRIBE]).append((begun, client, id_, row))
            if number % 2:
                ended = begun + 1 + dice.below(end // 3)
                said[UNSUBSCRIBE].append((ended + -ended % grid, client, id_))
    dice = Dice(seed, 0, "conformance/objects")
    payload = _HEAVY if seed % 3 == 0 else _LIGHT
    for number in range(rehearsal.publications // 2):
        at = 1 + dice.below(end - grid)
        at += -at % grid
        client = dice.below(clients)
        id_ = ((brokers + client) << 32) | _OBJECT | number
        k = 1 + dice.below(int(params["k_max"]))
        said[PUBLISH].append((at, client, id_, [*_place(dice), k, dice.below(4) * payload, *_words(dice, words)]))
        if dice.below(2):
            gone = at + 1 + dice.below(end // 3)
            said[EXPIRE].append((gone + -gone % grid, client, id_))
    return {
        "emissions": [{"type": type_, **columns(sorted(rows, key=lambda m: m[:3]))} for type_, rows in said.items()],
        "standing": [{"type": SUBSCRIBE, **columns(standing)}] if standing else [],
    }


def _place(dice: Dice) -> list[float]:
    return [float(dice.below(_SIDE)), float(dice.below(_SIDE))]


def _words(dice: Dice, words: int) -> list[float]:
    chosen = sorted({dice.below(words) for _ in range(2)})
    return [float(word) for word in chosen] + [np.nan] * (2 - len(chosen))
