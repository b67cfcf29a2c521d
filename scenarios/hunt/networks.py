"""Small overlays, drawn: trees, rings, meshes and what lies between, and which broker is where is drawn too.

A protocol may promise something on some overlays only (`guarantees_with`), or refuse others (`misfits`). Most cases are
drawn where it promises to be exact, since elsewhere it can hardly be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from brokers.contract import BrokerProtocol, ShardProtocol
from protocols.joining import overlay_of
from protocols.rehearsing import Dice, with_needed
from scenarios.hunt.case import Edge

MS = 1_000_000
Pairs = list[tuple[int, int]]
_SIZES = (2, 3, 3, 4, 4, 4, 5, 5, 6, 6)  # brokers
_TRIES = 48
_TRIES_MOST = 1_000  # where it refuses all of these
_ANYWHERE = 8  # one case in so many does not care what is promised


def _line(brokers: int, dice: Dice) -> Pairs:
    return [(i, i + 1) for i in range(brokers - 1)]


def _star(brokers: int, dice: Dice) -> Pairs:
    return [(0, i) for i in range(1, brokers)]


def _tree(brokers: int, dice: Dice) -> Pairs:
    return [(dice.below(i), i) for i in range(1, brokers)]


def _ring(brokers: int, dice: Dice) -> Pairs:
    return _line(brokers, dice) + ([(0, brokers - 1)] if brokers > 2 else [])


def _some(brokers: int, dice: Dice) -> Pairs:
    """A tree, and some of the other pairs."""
    tree = set(_tree(brokers, dice))
    return sorted(tree | {pair for pair in combinations(range(brokers), 2) if dice.below(3) == 0})


def _mesh(brokers: int, dice: Dice) -> Pairs:
    return list(combinations(range(brokers), 2))


_TREES: tuple[Callable[[int, Dice], Pairs], ...] = (_line, _star, _tree, _tree)
_SHAPES = (*_TREES, _ring, _some)
_EVERY = (*_SHAPES, _mesh, _mesh, _ring)  # where a protocol asks for something particular, these are likelier


Fits = Callable[[Any], bool | None]  # of an overlay; None: the protocol does not take it


def draw_network(fits: Fits | None, lossy: bool, plain: bool, dice: Dice) -> tuple[int, tuple[Edge, ...]]:
    """How many brokers there are, and the links between them; `fits` says where the protocol is exact."""
    brokers, pairs = _shape(fits, plain, dice)
    equal = dice.below(3) == 0
    tight, loses, jumps = (not plain and dice.below(6) == 0 for _ in range(3))
    one = (1, 2, 5)[dice.below(3)] * MS
    edges = []
    for a, b in pairs:
        delay = one if equal else 200_000 + dice.below(9 * MS)
        loss = 0.05 if loses and lossy and dice.below(2) else 0.0
        edges.append(Edge(a, b, delay, 3 * MS if jumps else 0, 400_000 if tight else 0, loss))
    return brokers, tuple(edges)


def fits_of(protocol: Any, options: Any, params: Any) -> Fits | None:
    """Where a protocol is exact, if that depends on the overlay."""
    base = ShardProtocol if issubclass(protocol, ShardProtocol) else BrokerProtocol
    asked = ("guarantees_for", "guarantees_with", "misfits")
    if all(getattr(protocol, name).__func__ is getattr(base, name).__func__ for name in asked):
        return None

    def fits(overlay: Any) -> bool | None:
        overlay = with_needed(overlay, protocol, options)
        if protocol.misfits(options, overlay, params):
            return None
        return bool(protocol.guarantees_with(options, overlay).exact)

    return fits


def on_trees(fits: Fits | None) -> Fits:
    """The same, and nothing with cycles."""

    def only(overlay: Any) -> bool | None:
        return (True if fits is None else fits(overlay)) if overlay.is_tree else None

    return only


def _shape(fits: Fits | None, plain: bool, dice: Dice) -> tuple[int, Pairs]:
    """The first that is drawn where the protocol promises to be exact, or else one that it takes at all."""
    if fits is None:
        shapes = _TREES if plain else _SHAPES
        return _labelled(_SIZES[dice.below(len(_SIZES))], shapes[dice.below(len(shapes))], dice)
    anywhere = dice.below(_ANYWHERE) == 0
    taken: tuple[int, Pairs] | None = None
    for attempt in range(_TRIES_MOST):
        if attempt >= _TRIES and taken is not None:
            return taken
        found = _labelled(_SIZES[dice.below(len(_SIZES))], _EVERY[dice.below(len(_EVERY))], dice)
        exact = fits(overlay_of(found[1]))
        if exact or (anywhere and exact is not None):
            return found
        taken = taken if exact is None else taken or found
    return taken or found


def _labelled(brokers: int, shape: Callable[[int, Dice], Pairs], dice: Dice) -> tuple[int, Pairs]:
    """A shape with its brokers in an order that is drawn, half of the time."""
    pairs = shape(brokers, dice)
    names = list(range(brokers))
    if dice.below(2):
        for i in range(brokers - 1, 0, -1):
            j = dice.below(i + 1)
            names[i], names[j] = names[j], names[i]
    return brokers, sorted((min(names[a], names[b]), max(names[a], names[b])) for a, b in pairs)
