"""Compile the kernels of all context filters, or load them from the cache."""

from __future__ import annotations

from brokers.indexes.context.agile import Agile, Eager
from brokers.indexes.context.cells import CellFilter
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.filter import NoIndex
from brokers.indexes.context.policies import ALWAYS, Auto
from brokers.indexes.context.skiplist import IntervalSkipList


def warm() -> None:
    """Reach every kernel the way a user does."""
    schema = Schema({"m": "number", "n": "number"}, {"c": "number"})
    profile = [[[["message", "m"], "~", ["context", 1, "c"], 2], [["message", "n"], "<", 5]]]
    for filter_ in (
        NoIndex(schema),
        Eager(schema, ["m"]),
        Agile(schema, ["m", "n"], policy=ALWAYS),
        Agile(schema, ["m"], policy=Auto()),
        CellFilter(schema, ["m", "n"]),
        CellFilter(schema, ["m"], eager=True),
    ):
        filter_.insert([0, 1], [profile, profile])
        for value in (1, 6, 11):
            filter_.update_context(1, "c", value)
            for message in ({"m": 1, "n": 1}, {"m": 6, "n": 9}, {"m": 14, "n": 2}):
                filter_.handle_message(message)
        filter_.delete([0])
        filter_.insert([2], [profile])
    IntervalSkipList(1).probe(0.5)
