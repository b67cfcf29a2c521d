"""What most cases leave out: parameters of the kind, clients that come and go, limited queues, links that may arise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokers.limits import WAYS
from protocols.rehearsing import Dice
from scenarios.hunt.case import Edge, Move
from scenarios.hunt.options import draw_fields

MS = 1_000_000
_MOVES_MOST = 3  # of a client
_KEPT_MS = (1, 50, 400)  # sessions; over before a case has come to rest


def draw_params(kind: Any, needed: Mapping[str, Any], dice: Dice) -> dict[str, Any]:
    """Those parameters of a kind that are needed, and some others, each in few cases."""
    return dict(needed) if dice.below(2) else draw_fields(kind.Params, needed, dice, share=3)


def draw_moves(clients: int, brokers: int, length: int, dice: Dice) -> tuple[Move, ...]:
    """Some clients go away, come back, or go from broker to broker, and all are somewhere at the end; mostly none."""
    if dice.below(4):
        return ()
    found = []
    for client in range(clients):
        at = dice.below(length) if dice.below(2) else length
        for _ in range(1 + dice.below(_MOVES_MOST)):
            at += 1 + dice.below(max(1, length // 4))
            if at >= length:
                break
            if dice.below(2):
                found.append(Move(client, at))
                at += 1 + dice.below(max(1, length // 4))
            found.append(Move(client, at, dice.below(brokers)))
    return tuple(sorted(found, key=lambda move: move.at))


def draw_session(protocol: Any, dice: Dice) -> dict[str, Any]:
    """What is kept for clients that move, where the protocol hands it over."""
    if not getattr(protocol, "hands_over", False) or dice.below(3) == 0:
        return {}
    most = {"messages": 1 + dice.below(5)} if dice.below(3) == 0 else {}
    return {"keep": _KEPT_MS[dice.below(len(_KEPT_MS))] * MS, **most}


def draw_queues(brokers: int, edges: Sequence[Edge], costly: bool, dice: Dice) -> dict[str, Any]:
    """Few places, where brokers take their time, or links have little bandwidth; mostly none are limited."""
    if dice.below(3):
        return {}
    if any(edge.bandwidth for edge in edges) and dice.below(2):
        return {"links": {"messages": 1 + dice.below(6)}}
    if not costly:
        return {}
    some = {"brokers": sorted({dice.below(brokers) for _ in range(2)})} if dice.below(3) == 0 else {}
    full = WAYS[dice.below(len(WAYS))]
    return {"places": 1 + dice.below(8), **({} if full == WAYS[0] else {"full": full}), **some}


def draw_latent(protocol: Any, options: Any, dice: Dice) -> dict[str, Any]:
    """Links that a protocol may open, where it does such a thing; those that it needs at least."""
    needs = protocol.latent_hops(options)
    if not getattr(protocol, "opens", False) or (dice.below(3) == 0 and not needs):
        return {}
    return {"hops": max(2 + dice.below(3), needs), **({"most": 1 + dice.below(2)} if dice.below(3) == 0 else {})}


def needed_latent(protocol: Any, options: Any) -> dict[str, Any]:
    """Only the links that a protocol needs."""
    needs = protocol.latent_hops(options)
    return {"hops": needs} if needs else {}
