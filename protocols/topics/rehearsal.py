"""What clients do in a rehearsal of the conformance kit: few words and short names, so that filters meet and nest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from brokers.indexes.topics.syntax import DOLLAR, HASH, PLUS
from protocols.rehearsing import Dice, Rehearsal, columns
from protocols.topics.kind import (
    ADVERTISE,
    AS_PUBLISHED,
    EMPTY,
    FILTER_AT,
    FLAGS_AT,
    IF_NEW,
    NEVER_KEPT,
    NO_LOCAL,
    PUBLISH,
    RETAIN,
    SUBSCRIBE,
    UNADVERTISE,
    UNSUBSCRIBE,
)

_DEPTH = 3
_WORDS = (1, 2, 3)
_ADVERTS = 1 << 10  # their numbers begin here: those of subscriptions are lower


def script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Filters nested in each other, half of them taken back, and publications all along, some under `$` names.

    Where publishers advertise, they do so before, and as they go along, and take some of it back.
    Where the service retains, half of them are, and one in four of those is empty.
    """
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    depth = min(_DEPTH, int(params["levels"]))
    words = _WORDS if params["syntax"] == "nats" else (0, *_WORDS)
    adverts = _adverts(rehearsal, brokers, clients, words, depth, seed) if params.get("adverts") else []
    lead = end // 8 if adverts else 0
    retained = Dice(seed, 0, "conformance/retained") if params.get("retained") else None
    subscribed: list[tuple[int, int, int, list[float]]] = []
    revoked: list[tuple[int, int, int]] = []
    standing: list[tuple[int, int, int, list[float]]] = []
    for client in range(0, clients, 2):  # half of those who publish
        dice = Dice(seed, brokers + client, "conformance/interests")
        selfless = params["no_local"] and dice.below(2)
        for number in range(5):
            row = _filter(dice, words, depth) if params.get("wildcards", True) else _literal(dice, words, depth)
            if params["groups"] and dice.below(2):
                row = _member(dice, row, params.get("wildcards", True))
            elif selfless and dice.below(4):
                row[FLAGS_AT] = float(NO_LOCAL)
            if retained is not None:
                row[FLAGS_AT] += (0, 0, IF_NEW, NEVER_KEPT)[retained.below(4)] + AS_PUBLISHED * retained.below(2)
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
        name = _name(dice, words, depth)
        if retained is not None:
            name = _flagged(name, retained.below(2) * (RETAIN + EMPTY * (retained.below(4) == 0)))
        published.append((at + -at % grid, dice.below(clients), 0, name))
    return {
        "emissions": [
            {"type": PUBLISH, **columns(sorted(published, key=lambda m: m[:2]))},
            {"type": SUBSCRIBE, **columns(sorted(subscribed, key=lambda m: m[:2]))},
            {"type": UNSUBSCRIBE, **columns(sorted(revoked))},
            *adverts,
        ],
        "standing": [{"type": SUBSCRIBE, **columns(standing)}] if standing else [],
    }


def _adverts(
    rehearsal: Rehearsal, brokers: int, clients: int, words: tuple[int, ...], depth: int, seed: int
) -> list[dict[str, Any]]:
    """Three advertisements of each client, the first of nearly everything, and before subscriptions."""
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    begun: list[tuple[int, int, int, list[float]]] = []
    ended: list[tuple[int, int, int]] = []
    for client in range(clients):
        dice = Dice(seed, brokers + client, "conformance/adverts")
        for number in range(3):
            wide = _padded([0, 0, HASH], FILTER_AT + depth)
            row = wide if number == 0 and dice.below(4) else _filter(dice, words, depth)
            id_ = ((brokers + client) << 32) | _ADVERTS + number
            begin = 1 + dice.below(end // 2 if number else end // 50)
            begin += -begin % grid
            begun.append((begin, client, id_, row))
            if dice.below(2 if number else 4) == 0:
                over = begin + 1 + dice.below(end // 3)
                ended.append((over + -over % grid, client, id_))
    return [
        {"type": ADVERTISE, **columns(sorted(begun, key=lambda m: m[:2]))},
        {"type": UNADVERTISE, **columns(sorted(ended))},
    ]


def _name(dice: Dice, words: tuple[int, ...], depth: int) -> list[float]:
    levels = [_word(dice, words) for _ in range(1 + dice.below(depth))]
    if dice.below(8) == 0:
        levels[0] = DOLLAR | _WORDS[0]
    return _padded(levels, depth)


def _filter(dice: Dice, words: tuple[int, ...], depth: int) -> list[float]:
    levels = [PLUS if dice.below(3) == 0 else _word(dice, words) for _ in range(1 + dice.below(depth))]
    if dice.below(3) == 0:
        levels[-1] = HASH
    elif dice.below(8) == 0:
        levels[0] = DOLLAR | _WORDS[0]
    return _padded([0, 0, *levels], FILTER_AT + depth)


def _literal(dice: Dice, words: tuple[int, ...], depth: int) -> list[float]:
    return [0.0, 0.0, *_name(dice, words, depth)]


def _member(dice: Dice, row: list[float], wildcards: bool) -> list[float]:
    """The same in a group, with one of few filters, so that groups have members."""
    few = ((1.0,), (float(PLUS),), (float(HASH),))[dice.below(3) if wildcards else 0]
    return [0.0, 1.0 + dice.below(2), *few, *[np.nan] * (len(row) - FILTER_AT - 1)]


def _word(dice: Dice, words: tuple[int, ...]) -> int:
    return words[dice.below(len(words))]


def _flagged(name: list[float], flags: int) -> list[float]:
    """A name with flags behind its levels, if there are any."""
    levels = [level for level in name if level == level]
    return [*levels, float(-flags) if flags else np.nan, *[np.nan] * (len(name) - len(levels))]


def _padded(row: list[int], width: int) -> list[float]:
    return [*map(float, row), *[np.nan] * (width - len(row))]
