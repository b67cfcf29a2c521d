"""Rows of the group `routing`: what retained publications cost, and who is answered, beside the closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from analysis.bench.rows import Row, row
from brokers.indexes.topics.syntax import HASH
from protocols.joining import join
from protocols.rehearsing import Dice
from protocols.topics.forwarding import KEEP
from protocols.topics.kind import EMPTY, PUBLISH, RETAIN

_BROKERS, _NAMES, _PUBLICATIONS = 30, 20, 200


def retained(sizes: Any) -> Iterator[Row]:
    """On a random tree each goes over every link once, and all brokers keep the last of each name."""
    dice = Dice(1, 0, "bench/retained")
    links = [(dice.below(child), child) for child in range(1, _BROKERS)]
    net = join("topics", links, params={"retained": True})
    last: dict[int, bool] = {}
    for client in range(0, _BROKERS, 3):
        net.send(client, "subscribe", [0, 0, 1 + dice.below(_NAMES)], word=net.interest(client))
    for _ in range(_PUBLICATIONS):
        name, empty = 1 + dice.below(_NAMES), dice.below(5) == 0
        net.send(dice.below(_BROKERS), "publish", [name, -(RETAIN + EMPTY * empty)])
        last[name] = not empty
    for client in range(_BROKERS):
        net.send(client, "subscribe", [0, 0, HASH], word=net.interest(client, 1))
    there = sum(last.values())
    hops = net.table("hops")
    sent = sum(hop["type"] in (PUBLISH, KEEP) and hop["link"] >= 0 for hop in hops)
    kept = sum(len(net.describe(broker)["retained"]) for broker in range(_BROKERS)) / _BROKERS
    answers = sum(not each["live"] for each in net.table("retained"))
    said = f"{_PUBLICATIONS} retained, {_BROKERS} brokers"
    for what, value, expected, unit in (
        ("messages over links", sent, _PUBLICATIONS * (_BROKERS - 1), "messages"),
        ("kept by a broker at the end, in the mean", kept, there, "names"),
        ("answers to who asks for all", answers, _BROKERS * there, "publications"),
    ):
        yield row(
            f"{said}: {what}", value, unit, baseline=expected, ratio_least=1.0, ratio_most=1.0,
            against="the closed form",
        )  # fmt: skip


PARTS = (retained,)
