"""Answers on the wire: a merged query's objects, and the header that tells each client what is for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from brokers.planning.answers import Answer
from brokers.planning.plan import Message, Wanted

_MESSAGE_BYTES = 40  # period, round, channel, plan
_NUMBER_BYTES = 8


class Received(NamedTuple):
    """An answer as it came over the wire."""

    period_ns: int
    round: int
    answer: Answer
    parts: dict[int, int]  # query -> how many messages of the round carry something for it


def body_of(answer: Answer, period_ns: int, round: int, parts: dict[int, int]) -> dict[str, Any]:
    """Plain data. O(objects + header)."""
    lines = answer.message.header
    return {
        "period_ns": period_ns,
        "round": round,
        "header": [[line.client, line.query, parts[line.query]] for line in lines],
        "low": np.array([line.low for line in lines]).tobytes(),
        "high": np.array([line.high for line in lines]).tobytes(),
        "objects": answer.objects.tobytes(),
        "points": answer.points.tobytes(),
    }


def received(body: dict[str, Any]) -> Received:
    """The answer in a body. O(objects + header)."""
    lines = body["header"]
    low = np.frombuffer(body["low"]).reshape(len(lines), -1)
    high = np.frombuffer(body["high"]).reshape(len(lines), -1)
    header = tuple(Wanted(client, query, a, b) for (client, query, _), a, b in zip(lines, low, high))
    objects = np.frombuffer(body["objects"], np.int64)
    points = np.frombuffer(body["points"]).reshape(len(objects), low.shape[1])
    answer = Answer(Message(0, 0, low, high, header), objects, points, None)
    return Received(body["period_ns"], body["round"], answer, {query: parts for _, query, parts in lines})


def size_bytes(objects: int, lines: int, dimensions: int, object_bytes: int) -> int:
    """What an answer takes on a link: its objects, and per line of the header client, query, parts and extractor."""
    return _MESSAGE_BYTES + lines * _NUMBER_BYTES * (3 + 2 * dimensions) + objects * object_bytes
