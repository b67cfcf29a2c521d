"""Replay of timed events from a CSV or Parquet file, for the kind `content`.

Columns, in any order:

    time_ns or time_s       when, not decreasing down the file; an event at 0 happens at 1 ns
    client                  which client of the group, counted from 0
    op                      publish, subscribe or unsubscribe
    a0, a1, ...             publish: values of the attributes; empty where absent
    low_0, high_0, ...      subscribe: constraints per attribute; one side empty is open, both: no constraint
    subscription            the client's own number of a subscription. unsubscribe: which one ends.
                            subscribe: may be empty, then its subscriptions are counted 0, 1, 2, ...

The whole file is checked before anything runs, and what is wrong is said with file and line (in Parquet:
row). Events of one client at one time happen in the order of the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from brokers.contract import NEVER, Emission, Floats, Ints, Rates, SourceContext
from brokers.errors import InvalidInput
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from scenarios.units import format_duration
from scenarios.workloads.common import (
    SUBSCRIPTIONS_PER_SOURCE,
    GroupSource,
    Parameters,
    attribute_count,
    chunk_for,
    emission,
    subscription_ids,
)

_OPS = {"publish": PUBLISH, "subscribe": SUBSCRIBE, "unsubscribe": UNSUBSCRIBE}
_PLAIN_COLUMNS = ("time_ns", "time_s", "client", "op", "subscription")
_NUMBERED = re.compile(r"(a|low_|high_)(0|[1-9][0-9]{0,8})")
_PROBLEMS_SHOWN = 10
_SAMPLE = 64
_NONE = -1  # no subscription number given


class ReplayParameters(Parameters):
    """Which file."""

    file: str = Field(min_length=1, description="CSV or Parquet (.parquet), relative to the scenario file")
    first_client: int = Field(
        0, ge=0, description="the client of the run that is client 0 of the file; a run fills it in"
    )


@dataclass
class _Table:
    """A file as columns of raw cells; `where` names a row for people."""

    path: Path
    columns: dict[str, Any]  # CSV: lists of text; Parquet: Arrow arrays
    rows: int
    where: Callable[[int], str]


@dataclass
class _Events:
    """The checked events, one row each."""

    time: Ints
    client: Ints
    op: Ints
    subscription: Ints
    values: Floats  # [event, attribute]
    low: Floats
    high: Floats


class _Problems:
    """Everything that is wrong with a file, told at once."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        self._found: list[tuple[int, str]] = []

    def at(self, row: int, text: str) -> None:
        self._found.append((row, text))

    def where(self, wrong: NDArray[np.bool_], text: Callable[[int], str]) -> None:
        """Note each row marked wrong, the first few in full."""
        for row in np.flatnonzero(wrong)[: _PROBLEMS_SHOWN + 1].tolist():
            self.at(row, text(row))

    def stop(self) -> None:
        """Raise if there was any."""
        if not self._found:
            return
        self._found.sort(key=lambda each: each[0])
        lines = [f"{self._table.where(row)}: {text}" for row, text in self._found[:_PROBLEMS_SHOWN]]
        if len(self._found) > _PROBLEMS_SHOWN:
            lines.append(f"{self._table.path}: and more of this")
        raise InvalidInput("\n".join(lines))


class Replay(GroupSource):
    """Publications, subscriptions and unsubscriptions as a file says."""

    Params: ClassVar[type[Parameters]] = ReplayParameters
    paths: ClassVar[tuple[str, ...]] = ("file",)

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        checked = ReplayParameters.model_validate(dict(params))
        super().__init__(checked, context)
        first, last = checked.first_client, checked.first_client + context.population - 1
        if self.clients.size and not first <= self.clients.min() <= self.clients.max() <= last:
            raise InvalidInput(
                f"{self.where}: the group has a client {self.clients.max()}, beyond the {context.population} "
                f"from `first_client` {first} on; set `first_client` to the first client of the group"
            )
        attributes = attribute_count(context.service_params, self.where)
        events = read_events(Path(checked.file), attributes, context.population, context.duration_ns)
        events.client += first
        mine = np.isin(events.client, self.clients)
        self._time = events.time[mine]
        self._client = events.client[mine]
        self._op = events.op[mine]
        self._rank = _ranks(self._client, self._time, self._op)
        self._word = np.zeros(self._time.size, np.int64)
        named = self._op != PUBLISH
        self._word[named] = subscription_ids(context, self._client[named], events.subscription[mine][named])
        self._values = events.values[mine]
        self._constraints = _constraint_rows(events.low[mine], events.high[mine])
        self._position = 0
        self.chunk_ns = chunk_for(self._time.size * 1e9 / context.duration_ns)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        """Counted in the file; a sample of it says what one subscription asks for."""
        checked = ReplayParameters.model_validate(dict(params))
        attributes = attribute_count(context.service_params, f"service {context.service}")
        events = read_events(Path(checked.file), attributes, context.population, context.duration_ns)
        publishes, subscribes, ends = (events.op == op for op in (PUBLISH, SUBSCRIBE, UNSUBSCRIBE))
        duration_ns = context.duration_ns
        standing = (duration_ns - events.time[subscribes]).sum() - (duration_ns - events.time[ends]).sum()
        values = _some(events.values[publishes])[:, None]
        low, high = _some(events.low[subscribes]), _some(events.high[subscribes])
        # Open ends are NaN, and so are attributes without a constraint or a value.
        asked = np.isnan(low) & np.isnan(high) | (~(values < low) & ~(values > high) & ~np.isnan(values))
        wanted = asked.all(axis=2)
        return Rates(
            publications=float(publishes.sum()) * 1e9 / duration_ns,
            changes=float((~publishes).sum()) * 1e9 / duration_ns,
            interests=float(standing) / duration_ns,
            share=float(wanted.mean()) if wanted.size else 0.0,
        )

    def state(self) -> dict[str, Any]:
        return {"next_ns": self._next_event_ns()}

    def load(self, state: Mapping[str, Any]) -> None:
        self._position = int(np.searchsorted(self._time, state["next_ns"]))
        self._wake_ns = None

    def _next_event_ns(self) -> int:
        return int(self._time[self._position]) if self._position < self._time.size else NEVER

    def _emit(self, until_ns: int) -> list[Emission]:
        end = int(np.searchsorted(self._time, until_ns))
        chunk = slice(self._position, end)
        self._position = end
        rank, op = self._rank[chunk], self._op[chunk]
        out = []
        for r, type in sorted(set(zip(rank.tolist(), op.tolist()))):
            rows = np.flatnonzero((rank == r) & (op == type)) + chunk.start
            bodies = {PUBLISH: self._values, SUBSCRIBE: self._constraints}.get(type)
            out.append(
                emission(
                    type,
                    self._time[rows],
                    self._client[rows],
                    self._word[rows],
                    None if bodies is None else bodies[rows],
                )
            )
        return out


def _some(rows: Floats) -> Floats:
    """Some hundred rows from all over the file."""
    return rows[:: max(1, len(rows) // _SAMPLE)]


def read_events(path: Path, attributes: int, clients: int, duration_ns: int) -> _Events:
    """Read and check a whole file; InvalidInput tells what is wrong with it, line by line."""
    table = _read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path)
    _check_header(table, attributes)
    problems = _Problems(table)
    time = _times(table, problems)
    client = _whole(table, "client", problems)
    op = _ops(table, problems)
    subscription = (
        _whole(table, "subscription", problems, empty=_NONE)
        if "subscription" in table.columns
        else np.full(table.rows, _NONE, np.int64)
    )
    values = _reals(table, "a", attributes, problems)
    low = _reals(table, "low_", attributes, problems)
    high = _reals(table, "high_", attributes, problems)
    problems.stop()  # what cannot be read cannot be judged

    problems.where(time < 0, lambda row: f"a time cannot be negative (got {time[row]} ns)")
    falls = np.zeros(table.rows, np.bool_)
    falls[1:] = time[1:] < time[:-1]
    problems.where(
        falls, lambda row: f"time {time[row]} ns is before {time[row - 1]} ns above it; sort the file by time"
    )
    problems.where(
        time >= duration_ns,
        lambda row: (
            f"time {time[row]} ns is not within the duration of {format_duration(duration_ns)}; "
            "raise the duration or cut the file"
        ),
    )
    problems.where(
        (client < 0) | (client >= clients),
        lambda row: f"the group has clients 0 to {clients - 1} (got {client[row]})",
    )
    _check_bodies(op, values, low, high, problems)
    _number_subscriptions(client, op, subscription, problems)
    problems.stop()
    return _Events(np.maximum(time, 1), client, op, subscription, values, low, high)


# ---- reading -----------------------------------------------------------------------------------------


def _read_csv(path: Path) -> _Table:
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            try:
                header = [name.strip() for name in next(reader, [])]
                for row in reader:
                    if not row:
                        continue
                    if len(row) != len(header):
                        raise InvalidInput(
                            f"{path}:{reader.line_num}: the header names {len(header)} columns, "
                            f"this line has {len(row)}"
                        )
                    lines.append(reader.line_num)
                    rows.append(row)
            except csv.Error as error:
                raise InvalidInput(f"{path}:{reader.line_num}: this is no CSV: {error}") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path}: not UTF-8 at byte {error.start}; a Parquet file must end in .parquet"
        ) from None
    if not header:
        raise InvalidInput(f"{path}:1: the file is empty; it begins with a line of column names")
    _refuse_repeated(path, header)
    columns = {name: [row[i].strip() for row in rows] for i, name in enumerate(header)}
    return _Table(path, columns, len(rows), lambda row: f"{path}:{lines[row]}")


def _read_parquet(path: Path) -> _Table:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        table = parquet.read_table(str(path), partitioning=None)
    except FileNotFoundError:
        raise InvalidInput(f"{path}: cannot be read: there is no such file") from None
    except (OSError, arrow.ArrowException) as error:
        raise InvalidInput(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    _refuse_repeated(path, table.column_names)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return _Table(path, columns, table.num_rows, lambda row: f"{path}: row {row + 1}")


def _refuse_repeated(path: Path, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{path}:1: the column {name!r} appears twice")


def _check_header(table: _Table, attributes: int) -> None:
    names = set(table.columns)
    start = f"{table.path}:1"
    wrong = []
    if len(names & {"time_ns", "time_s"}) != 1:
        wrong.append(f"{start}: there must be one column time_ns or time_s")
    wrong += [f"{start}: there is no column {name}" for name in ("client", "op") if name not in names]
    for name in table.columns:
        numbered = _NUMBERED.fullmatch(name)
        if numbered and int(numbered[2]) >= attributes:
            wrong.append(f"{start}: column {name!r}: the service has attributes 0 to {attributes - 1}")
        elif not numbered and name not in _PLAIN_COLUMNS:
            known = ", ".join(_PLAIN_COLUMNS)
            wrong.append(f"{start}: unknown column {name!r}; known: {known}, a<i>, low_<i>, high_<i>")
    if wrong:
        raise InvalidInput("\n".join(wrong))


def _times(table: _Table, problems: _Problems) -> Ints:
    if "time_ns" in table.columns:
        return _whole(table, "time_ns", problems)
    seconds = _real(table, "time_s", problems, empty=False)
    beyond = np.abs(seconds) >= NEVER / 1e9
    problems.where(beyond, lambda row: f"time_s is beyond what can be simulated (got {seconds[row]})")
    return np.rint(np.where(beyond | np.isnan(seconds), 0.0, seconds) * 1e9).astype(np.int64)


def _ops(table: _Table, problems: _Problems) -> Ints:
    cells = table.columns["op"]
    texts = cells if isinstance(cells, list) else cells.to_pylist()
    ops = np.array([_OPS.get(text, -1) if isinstance(text, str) else -1 for text in texts], np.int64)
    problems.where(ops < 0, lambda row: f"op must be one of {', '.join(_OPS)} (got {texts[row]!r})")
    return ops


def _whole(table: _Table, name: str, problems: _Problems, empty: int | None = None) -> Ints:
    """A column of whole numbers; an empty cell is wrong, or stands for `empty`."""
    cells = table.columns[name]
    if not isinstance(cells, list):
        cells = cells.to_pylist()
    out = np.zeros(table.rows, np.int64)
    for row, cell in enumerate(cells):
        if empty is not None and (cell is None or cell == "" or cell != cell):
            out[row] = empty
            continue
        number = _whole_number(cell)
        if number is None:
            problems.at(row, f"{name} must be a whole number (got {cell!r})")
        else:
            out[row] = number
    return out


def _whole_number(cell: Any) -> int | None:
    if isinstance(cell, float) and cell.is_integer():  # data frames turn columns with gaps into floats
        number = int(cell)
    elif isinstance(cell, str | int) and not isinstance(cell, bool):
        try:
            number = int(cell)
        except ValueError:
            return None
    else:
        return None
    return number if abs(number) < NEVER else None


def _real(table: _Table, name: str, problems: _Problems, empty: bool = True) -> Floats:
    """A column of numbers; NaN where the cell is empty, if it may be."""
    cells = table.columns[name]
    if not isinstance(cells, list):
        cells = cells.to_pylist()
    out = np.full(table.rows, np.nan)
    for row, cell in enumerate(cells):
        if empty and (cell is None or cell == ""):
            continue
        try:
            out[row] = float(cell)
        except (ValueError, TypeError, OverflowError):
            problems.at(row, f"{name} must be a number (got {cell!r})")
            continue
        if out[row] != out[row] and not empty:
            problems.at(row, f"{name} must be a number (got {cell!r})")
    return out


def _reals(table: _Table, prefix: str, attributes: int, problems: _Problems) -> Floats:
    out = np.full((table.rows, attributes), np.nan)
    for a in range(attributes):
        if f"{prefix}{a}" in table.columns:
            out[:, a] = _real(table, f"{prefix}{a}", problems)
    return out


# ---- judging -----------------------------------------------------------------------------------------


def _check_bodies(op: Ints, values: Floats, low: Floats, high: Floats, problems: _Problems) -> None:
    has_value = _any(~np.isnan(values))
    has_range = _any(~(np.isnan(low) & np.isnan(high)))
    problems.where(_any(np.isinf(values)), lambda row: "a value must be finite")
    problems.where(
        (op != PUBLISH) & has_value, lambda row: "values a<i> belong to op publish; leave them empty here"
    )
    problems.where(
        (op != SUBSCRIBE) & has_range,
        lambda row: "constraints low_<i>, high_<i> belong to op subscribe; leave them empty here",
    )
    problems.where((op == SUBSCRIBE) & ~has_range, lambda row: "a subscription needs at least one constraint")
    upside_down = low > high

    def tell(row: int) -> str:
        a = int(np.flatnonzero(upside_down[row])[0])
        return f"low_{a} {low[row, a]} is above high_{a} {high[row, a]}"

    problems.where(_any(upside_down), tell)


def _any(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(marks.any(axis=1), np.bool_)


def _number_subscriptions(client: Ints, op: Ints, subscription: Ints, problems: _Problems) -> None:
    """Fill in the numbers left out; each is begun once, and ended once while it lives."""
    begun: dict[int, int] = {}
    used: set[tuple[int, int]] = set()
    live: set[tuple[int, int]] = set()
    rows = np.flatnonzero(op != PUBLISH)
    for row, who, what, number in zip(
        rows.tolist(), client[rows].tolist(), op[rows].tolist(), subscription[rows].tolist()
    ):
        if what == SUBSCRIBE:
            count = begun.get(who, 0)
            begun[who] = count + 1
            number = count if number == _NONE else number
            subscription[row] = number
            if not 0 <= number < SUBSCRIPTIONS_PER_SOURCE:
                problems.at(row, f"subscription is below {SUBSCRIPTIONS_PER_SOURCE:,} (got {number})")
            elif (who, number) in used:
                problems.at(row, f"client {who} has used the subscription number {number} before")
            used.add((who, number))
            live.add((who, number))
        elif number == _NONE:
            problems.at(row, "unsubscribe must say which `subscription` ends")
        elif (who, number) in live:
            live.remove((who, number))
        else:
            gone = "has ended already" if (who, number) in used else "was never begun"
            problems.at(row, f"subscription {number} of client {who} {gone}")


# ---- arranging ---------------------------------------------------------------------------------------


def _ranks(client: Ints, time: Ints, op: Ints) -> Ints:
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


def _constraint_rows(low: Floats, high: Floats) -> Floats:
    """Rows [attribute, low, high] * k, constraints first and NaN after them."""
    given = ~(np.isnan(low) & np.isnan(high))
    width = int(given.sum(axis=1).max(initial=1))
    rows = np.full((low.shape[0], 3 * width), np.nan)
    event, attribute = np.nonzero(given)
    place = (np.cumsum(given, axis=1) - 1)[event, attribute] * 3
    begin, end = low[event, attribute], high[event, attribute]
    rows[event, place] = attribute
    rows[event, place + 1] = np.where(np.isnan(begin), -np.inf, begin)
    rows[event, place + 2] = np.where(np.isnan(end), np.inf, end)
    return rows
