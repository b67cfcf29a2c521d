"""What a program is told: frames of JSON or msgpack, and bodies as both have them.

A batch is one frame, so that its events cost one turn. A body is made into text once, however many brokers it reaches.

JSON has neither NaN nor infinities, and a reader with doubles only, as JavaScript's, loses digits of large numbers. So
what is missing in a row is null, infinities are 1e999, and a word or an id from 2**53 on is a text of digits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from brokers.bodies import Bodies, named
from brokers.contract import FAULT, MESSAGE, TIMER, Batch, ShardEnv
from brokers.errors import ProtocolFault
from brokers.limits import TOLD, of_dropped

KINDS = {FAULT: "fault", MESSAGE: "message", TIMER: "timer"}
SAFE = 1 << 53
_KEPT_MAX = 50_000  # bodies that are kept as text


class Writer:
    """Makes frames for one program."""

    def __init__(self, env: ShardEnv, packs: bool, told: bool = False) -> None:
        """`packs`: whether it asked for msgpack; `told`: and to be told of what links drop."""
        self._env = env
        self._packs = packs
        self._told = told
        self._known: dict[int, tuple[int, Any]] = {}  # body -> its generation, and what is written of it

    def frame(self, data: Mapping[str, Any]) -> bytes:
        """Plain data as a frame."""
        return bytes(msgpack.packb(data)) if self._packs else json_text(data).encode() + b"\n"

    def standing(self, ids: list[int], clients: list[int], homes: list[int], rows: Any) -> bytes:
        """The frame of interests that stand from the start."""
        spelled = zip(ids, clients, homes, rows_of(rows))
        if self._packs:
            return self.frame({"stand": [list(each) for each in spelled]})
        told = ",".join(f"[{_whole(id_)},{client},{home},{json_row(row)}]" for id_, client, home, row in spelled)
        return b'{"stand":[' + told.encode() + b"]}\n"

    def events(self, batch: Batch) -> bytes:
        """The frame of a batch."""
        rows = zip(*self._columns(batch), self._bodies(batch))
        if self._packs:
            return self.frame({"events": [dict(zip(FIELDS, row)) for row in rows]})
        text = ",".join(
            [
                f'{{"n":{n},"broker":{broker},"time":{time},"kind":"{kind}","type":{type_},"link":{link},'
                f'"client":{client},"origin":{origin},"key":{key},"word":{word},"cause":{cause},"body":{body}}}'
                for n, broker, time, kind, type_, link, client, origin, key, word, cause, body in rows
            ]
        )
        return b'{"events":[' + text.encode() + b"]}\n"

    def _columns(self, batch: Batch) -> list[Any]:
        """The columns of a batch, but the bodies, in the order of `FIELDS`."""
        env, body = self._env, batch.body
        told = (batch.kind == MESSAGE) & (batch.link < 0)
        client = np.where(told, batch.source - env.entity_base, -1)
        origin = np.where(body >= 0, env.bodies.broker[body], -1)
        cause = env.causes.keys(batch.cause.astype(np.int64)) if (batch.cause >= 0).any() else batch.cause
        kind = [KINDS[each] for each in batch.kind.tolist()]
        type_, link, word = batch.type, batch.link, batch.word
        if self._told and (dropped := (batch.kind == TIMER) & (type_ == TOLD)).any():
            kind = ["dropped" if each else kind[at] for at, each in enumerate(dropped.tolist())]
            over, was = of_dropped(word)
            link, type_, word = np.where(dropped, over, link), np.where(dropped, was, type_), np.where(dropped, 0, word)
        ids = (self._ids(each) for each in (named(env.bodies.key, body), word, cause))
        columns = (each.tolist() for each in (batch.broker, batch.time))
        after = (each.tolist() for each in (type_, link, client, origin))
        return [range(batch.size), *columns, kind, *after, *ids]

    def _ids(self, column: Any) -> list[Any]:
        """Numbers of 64 bits, as whoever reads them can tell them apart."""
        found: list[Any] = column.tolist()
        if self._packs or not column.size or max(int(column.max()), -int(column.min())) < SAFE:
            return found
        return [_whole(value) for value in found]

    def _bodies(self, batch: Batch) -> list[Any]:
        """What is written of each event's body."""
        none = None if self._packs else "null"
        handles, known = batch.body.tolist(), self._known
        generation = self._env.bodies.generation
        if len(known) > _KEPT_MAX:
            known.clear()
        told = []
        for handle in handles:
            if handle < 0:
                told.append(none)
                continue
            found = known.get(handle)
            if found is None or found[0] != generation[handle]:
                found = known[handle] = int(generation[handle]), self._body(handle)
            told.append(found[1])
        return told

    def _body(self, handle: int) -> Any:
        plain = plain_body(self._env.bodies, handle)
        if self._packs:
            return plain
        return json_row(plain) if self._env.bodies.row[handle] >= 0 else json_text(plain)


FIELDS = ("n", "broker", "time", "kind", "type", "link", "client", "origin", "key", "word", "cause", "body")


def plain_body(bodies: Bodies, handle: int) -> Any:
    """A body as plain data: a row as a list with None where a value is missing."""
    if bodies.row[handle] >= 0:
        return rows_of(bodies.values(np.array([handle], np.int32)))[0]
    return msgpack.unpackb(bodies.encoded(handle))


def rows_of(rows: Any) -> list[list[float | None]]:
    """Rows as lists, with None where a value is missing."""
    found: list[list[float | None]] = rows.tolist()
    if np.isnan(rows).any():
        return [[None if value != value else value for value in row] for row in found]
    return found


def json_row(row: list[float | None]) -> str:
    """A row as JSON."""
    return json.dumps(row, separators=(",", ":")).replace("Infinity", "1e999")


def json_text(data: Any) -> str:
    """Plain data as JSON on one line; ProtocolFault for bytes."""
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except TypeError:
        raise ProtocolFault(
            "a body with bytes in it is on its way to a program, and JSON has none: have it answer hello with "
            '"format": "msgpack"'
        ) from None
    except ValueError:
        return _text(data)


def _text(data: Any) -> str:
    """The same, where NaN or infinities are within."""
    if isinstance(data, float):
        return "null" if data != data else json_row([data])[1:-1]
    if isinstance(data, list):
        return f"[{','.join(map(_text, data))}]"
    if isinstance(data, dict):
        return f"{{{','.join(f'{json.dumps(key)}:{_text(value)}' for key, value in data.items())}}}"
    return json_text(data)


def _whole(number: int) -> Any:
    """A number of 64 bits in JSON."""
    return number if -SAFE < number < SAFE else f'"{number}"'
