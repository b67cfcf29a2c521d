"""Answers on the wire: a merged query's objects, and the header that tells each client what is for it.

A line of the header names a client, a query and how its objects are found: by its box, or by tags. A tag on an object
is the number of a line; then the header carries no boxes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from brokers.planning.answers import Answer
from brokers.planning.plan import MergedQuery, Wanted

_MESSAGE_BYTES = 40  # period, round, channel, plan
_NUMBER_BYTES = 8
_TAG_BYTES = 4  # of a tag, and of how many an object has
_UNSAID = np.empty(0)  # the box of a line that carries none


class Received(NamedTuple):
    """An answer as it came over the wire."""

    period_ns: int
    round: int
    answer: Answer
    parts: dict[int, int]  # query -> how many messages of the round carry something for it


def body_of(answer: Answer, period_ns: int, round: int, parts: dict[int, int]) -> dict[str, Any]:
    """Plain data, with the header as an array. O(objects + header), and tags."""
    lines = answer.message.header
    body: dict[str, Any] = {
        "period_ns": period_ns,
        "round": round,
        "header": np.array([(line.client, line.query, parts[line.query]) for line in lines], np.int64).reshape(-1, 3),
    }
    if answer.tags is None:
        body["low"] = np.array([line.low for line in lines]).tobytes()
        body["high"] = np.array([line.high for line in lines]).tobytes()
    else:
        ptr, queries = answer.tags
        named = np.array([line.query for line in lines], np.int64)
        order = np.argsort(named)
        body["dimensions"] = answer.points.shape[1]
        body["tagged"] = np.diff(ptr).astype(np.int32).tobytes()
        body["tags"] = order[np.searchsorted(named[order], queries)].astype(np.int32).tobytes()
    return {**body, "objects": answer.objects.tobytes(), "points": answer.points.tobytes()}


def received(body: dict[str, Any]) -> Received:
    """The answer in a body. O(objects + header), and tags."""
    lines = body["header"]
    objects = np.frombuffer(body["objects"], np.int64)
    tags = None
    if "tags" in body:
        dimensions = body["dimensions"]
        header = tuple(Wanted(client, query, _UNSAID, _UNSAID) for client, query, _ in lines)
        ptr = np.zeros(len(objects) + 1, np.int64)
        np.cumsum(np.frombuffer(body["tagged"], np.int32), out=ptr[1:])
        named = np.array([query for _, query, _ in lines], np.int64)
        tags = ptr, named[np.frombuffer(body["tags"], np.int32)]
        low = high = np.empty((0, dimensions))
    else:
        low = np.frombuffer(body["low"]).reshape(len(lines), -1)
        high = np.frombuffer(body["high"]).reshape(len(lines), -1)
        dimensions = low.shape[1]
        header = tuple(Wanted(client, query, a, b) for (client, query, _), a, b in zip(lines, low, high))
    points = np.frombuffer(body["points"]).reshape(len(objects), dimensions)
    answer = Answer(MergedQuery(0, 0, low, high, header), objects, points, tags)
    return Received(body["period_ns"], body["round"], answer, {query: parts for _, query, parts in lines})


def size_bytes(answer: Answer, object_bytes: int) -> int:
    """What an answer takes on a link: its objects with their tags, if any, and per line of the header client, query,
    parts and, without tags, the box."""
    tags = -1 if answer.tags is None else len(answer.tags[1])
    objects, dimensions = answer.points.shape
    return size_of(len(answer.message.header), objects, dimensions, tags, object_bytes)


def size_of(lines: int, objects: int, dimensions: int, tags: int, object_bytes: int) -> int:
    """The same by numbers; -1 tags: lines carry boxes."""
    size = _MESSAGE_BYTES + objects * object_bytes
    if tags < 0:
        return size + lines * _NUMBER_BYTES * (3 + 2 * dimensions)
    return size + lines * _NUMBER_BYTES * 3 + _TAG_BYTES * (objects + tags)
