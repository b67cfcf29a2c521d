"""Replay of timed events from a CSV or Parquet file, for every kind.

A file has a row per event: when (`time`, `time_ns` or `time_s`), who (`client`, counted from 0 in the group), what
(`op`), and the columns that the kind's form names (`protocols/*/replay.py`; the page docs/replay.md lists them). It is
read in pieces, twice: before the run, to check all of it, and in the run, by each shard, which keeps the events of its
own clients. So memory does not grow with the file. Events of one client at one time happen in the order of the file.

A run makes the first reading once, by `prepared`, and hands what it found to every shard; a source that is built
alone reads for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from brokers.contract import NEVER, Emission, Ints, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.workloads.common import GroupSource, Parameters, chunk_for, emission, subscription_ids
from scenarios.workloads.replaying.lives import NOT_SAID
from scenarios.workloads.replaying.reader import Found, Piece, Reader
from scenarios.workloads.replaying.times import ratio

SAMPLE = "sample"  # in `Rates.more`: bodies of interests and of publications
FOUND = "_found"  # beside the parameters: what the first reading found


class ReplayParameters(Parameters):
    """Which file, and how it is read."""

    file: str = Field(min_length=1, description="CSV or Parquet (.parquet), relative to the scenario file")
    columns: dict[str, str] = Field(
        {}, description="what columns of the file are, where they are called otherwise"
    )
    ignore: list[str] = Field(
        [], description="columns to leave out; * stands for anything, and alone for all that are not known"
    )
    op: str | None = Field(None, description="what every row is, for a file without a column `op`")
    client: int | None = Field(None, ge=0, description="who acts, for a file without a column `client`")
    unit: Literal["ns", "us", "µs", "ms", "s", "min", "h", "d", "day"] | None = Field(
        None, description="of the numbers in a column `time`; dates need none"
    )
    start: str | float | int | None = Field(
        None,
        description="the instant that is 0 in the run: a date, a number in the unit, or first, that of the first "
        "event; default: first for a column `time`, else 0",
    )
    speed: str = Field(
        "1", description="so many seconds of the file pass in one: a number, or a ratio such as 1/60"
    )
    cut: bool = Field(
        False, description="leave out what is before `start` or beyond the duration, instead of refusing"
    )
    first_client: int = Field(
        0, ge=0, description="the client of the run that is client 0 of the file; a run fills it in"
    )

    @field_validator("speed", mode="before")
    @classmethod
    def _a_ratio(cls, speed: Any) -> str:
        return str(ratio(speed))


class Replay(GroupSource):
    """What clients do as a file says."""

    Params: ClassVar[type[Parameters]] = ReplayParameters
    paths: ClassVar[tuple[str, ...]] = ("file",)

    @classmethod
    def prepared(cls, params: Mapping[str, Any], context: SourceContext) -> tuple[dict[str, Any], Found]:
        """Read and check the file: the parameters to build sources with, and what was found."""
        found = Reader(ReplayParameters.model_validate(dict(params)), context).scan()
        return {**params, FOUND: found}, found

    @classmethod
    def publishes_with(cls, params: Mapping[str, Any]) -> bool:
        """Whether a prepared source publishes; one that has not read its file may."""
        found = params.get(FOUND)
        return found is None or found.publishes

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        """Counted in the file; a sample of it serves to say what one interest asks for, of all files together."""
        found = params.get(FOUND) or cls.prepared(params, context)[1]
        return Rates(
            publications=found.publications * 1e9 / context.duration_ns,
            changes=found.changes * 1e9 / context.duration_ns,
            interests=found.standing,
            more={SAMPLE: (found.asked, found.published)},
        )

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        given = dict(params)
        found = given.pop(FOUND, None)
        checked = ReplayParameters.model_validate(given)
        super().__init__(checked, context)
        first, last = checked.first_client, checked.first_client + context.population - 1
        if self.clients.size and not first <= self.clients.min() <= self.clients.max() <= last:
            raise InvalidInput(
                f"{self.where}: the group has a client {self.clients.max()}, beyond the {context.population} "
                f"from `first_client` {first} on; set `first_client` to the first client of the group"
            )
        self._first_client = first
        self._reader = Reader(checked, context)
        self.found: Found = found if found is not None else self._reader.scan()
        self._numbered = np.array([bool(op.number) for op in self._reader.ops], np.bool_)
        self.chunk_ns = chunk_for(sum(self.found.rows.values()) * 1e9 / context.duration_ns)
        self._mine = np.zeros(context.population, np.bool_)
        self._mine[self.clients - first] = True
        self._begin(0)

    def state(self) -> dict[str, Any]:
        return {"next_ns": self.next_wake()}

    def load(self, state: Mapping[str, Any]) -> None:
        self._wake_ns = None
        self._begin(state["next_ns"])

    def _begin(self, from_ns: int) -> None:
        """Read from the start of the file, up to the first event at or after a time."""
        self._pieces: Iterator[Piece] = iter(())
        if self.clients.size:
            self._pieces = self._reader.pieces(self.found, self._mine)
        self._piece: Piece | None = None
        self._position = 0
        while self._next() and self._piece is not None and int(self._piece.time[-1]) < from_ns:
            self._piece = None
        if self._piece is not None:
            self._position = int(np.searchsorted(self._piece.time, from_ns))

    def _next(self) -> bool:
        """Whether there is an event left, in a piece that has been read."""
        if self._piece is None or self._position == self._piece.time.size:
            self._piece, self._position = next(self._pieces, None), 0
            if self._piece is not None:
                self._piece.time = np.maximum(self._piece.time, 1)  # nothing happens before 1 ns
        return self._piece is not None

    def _next_event_ns(self) -> int:
        return int(self._piece.time[self._position]) if self._next() and self._piece is not None else NEVER

    def _emit(self, until_ns: int) -> list[Emission]:
        out: list[Emission] = []
        while self._next() and self._piece is not None and int(self._piece.time[self._position]) < until_ns:
            end = int(np.searchsorted(self._piece.time, until_ns))
            out += self._emissions(self._piece, self._position, end)
            self._position = end
        return out

    def _emissions(self, piece: Piece, begin: int, end: int) -> list[Emission]:
        chunk = slice(begin, end)
        client, op = piece.client[chunk], piece.op[chunk]
        rank = ranks(client, piece.time[chunk], op)
        kinds = rank * len(self._numbered) + op
        out = []
        for each in np.unique(kinds).tolist():
            code = each % len(self._numbered)
            rows = np.flatnonzero(kinds == each) + begin
            who = piece.client[rows] + self._first_client
            body = piece.bodies.get(code)
            out.append(
                emission(
                    self._reader.ops[code].type,
                    piece.time[rows],
                    who,
                    self._words(piece, code, who, rows),
                    None if body is None else body[piece.place[rows]],
                )
            )
        return out

    def _words(self, piece: Piece, op: int, clients: Ints, rows: Ints) -> Ints:
        if not self._numbered[op]:
            return piece.word[rows]
        return subscription_ids(self.context, clients, np.maximum(piece.number[rows], NOT_SAID + 1))


def ranks(client: Ints, time: Ints, op: Ints) -> Ints:
    """How often a client changed its op before, at the same time: rank by rank keeps the file's order."""
    order = np.argsort(client, kind="stable")  # times are sorted already
    client, time, op = client[order], time[order], op[order]
    together = (client[1:] == client[:-1]) & (time[1:] == time[:-1])
    changes = np.concatenate(([0], np.cumsum(together & (op[1:] != op[:-1])))).astype(np.int64)
    starts = np.concatenate(([True], ~together))
    before = np.maximum.accumulate(np.where(starts, changes, 0))
    ranks = np.empty(order.size, np.int64)
    ranks[order] = (changes - before)[: order.size]
    return ranks


__all__ = ["FOUND", "Found", "Replay", "ReplayParameters", "ranks"]
