"""Small random profiles, messages and updates over few values, where borders and ties are the rule."""

from __future__ import annotations

from brokers.indexes.context.agile import Agile, Eager, Gbu, Partial
from brokers.indexes.context.cells import CellFilter
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.filter import NoIndex
from brokers.indexes.context.policies import ALWAYS, Auto, Fixed
from brokers.indexes.context.upkeep import Upkeep

SCHEMA = Schema(
    {"a": "number", "b": "number", "s": "string", "d": "date"},
    {"x": "number", "y": "number", "s": "string", "d": "date"},
)
TEXTS = ["", "a", "ab", "abcdefg", "abcdefh", "b", "é"]  # two share the bytes that keys keep
DATES = ["2026-01-01", "2026-01-02", "2026-01-02T12:00:00"]
CONTEXTS = 4


class Restless(Upkeep):
    """Makes rows anew without end, a word at a time, and finds three candidates too many for rows."""

    look_every, check_moves, parked_share = 1, 1, 1 << 20
    start_ns, stretch, stretch_ns = 0, 64, 16  # about a word a message

    def most(self, conjuncts):
        return 3

    def followed(self, entries, flipped, left):
        """Nothing is owed: it never gives up."""


def restless(schema, indexed):
    """Cells whose every mechanism runs at a handful of profiles."""
    index = CellFilter(schema, indexed)
    index.upkeep = Restless(len(indexed))
    return index


FILTERS = {
    "noindex": lambda: NoIndex(SCHEMA),
    "eager": lambda: Eager(SCHEMA, ["a", "b"]),
    "partial": lambda: Partial(SCHEMA, ["a", "b"], (2, 5)),
    "gbu": lambda: Gbu(SCHEMA, ["b", "a"]),
    "agile piecewise full": lambda: Agile(SCHEMA, ["a", "b"], policy=Fixed(2)),
    "agile piecewise step": lambda: Agile(SCHEMA, ["a", "d"], deescalation="step", policy=ALWAYS),
    "agile range full": lambda: Agile(SCHEMA, ["a"], "range", policy=Auto(3)),
    "agile range step": lambda: Agile(SCHEMA, ["a", "s", "d"], "range", "step", ALWAYS),
    "cells": lambda: CellFilter(SCHEMA, ["a", "b"]),
    "cells restless": lambda: restless(SCHEMA, ["a", "b", "d"]),
    "cells eager": lambda: CellFilter(SCHEMA, ["a", "s"], eager=True),
}


def atom(draws):
    """One comparison; `draws` is a `random.Random`."""
    operator = draws.choice(["<", "<=", "=", "!=", ">=", ">", "~"])
    type_ = draws.choice("nnnsd")
    number = draws.randrange(CONTEXTS)
    epsilon = None
    if type_ == "n":
        message, context = ["message", draws.choice("ab")], ["context", number, draws.choice("xy")]
        constant, epsilon = draws.randrange(8), draws.choice([0, 1, 2.5])
    elif type_ == "s":
        message, context, constant = ["message", "s"], ["context", number, "s"], draws.choice(TEXTS)
        operator = "=" if operator == "~" else operator
    else:
        message, context = ["message", "d"], ["context", number, "d"]
        constant, epsilon = draws.choice(DATES), draws.choice([0, 43_200, 86_400])
    pair = draws.choices([[message, constant], [message, context], [context, constant]], [35, 50, 15])[0]
    if draws.random() < 0.5:
        pair.reverse()
    return [pair[0], operator, pair[1]] + ([epsilon] if operator == "~" else [])


def profile(draws):
    """One or two conjuncts of up to four atoms."""
    return [[atom(draws) for _ in range(draws.choice([0, 1, 1, 2, 2, 3, 4]))] for _ in range(draws.choice([1, 1, 2]))]


def message(draws):
    """A message that may lack attributes."""
    values = {"a": draws.randrange(8), "b": draws.randrange(8), "s": draws.choice([*TEXTS, "zz"]),
              "d": draws.choice(DATES)}
    return {name: value for name, value in values.items() if draws.random() < 0.85}


def update(draws):
    """(context, attribute, value); now and then the value becomes unknown."""
    attribute = draws.choice("xxxyysd")
    value = draws.choice(TEXTS if attribute == "s" else DATES if attribute == "d" else range(8))
    return draws.randrange(CONTEXTS), attribute, None if draws.random() < 0.07 else value
