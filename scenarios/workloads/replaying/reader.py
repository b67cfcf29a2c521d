"""A file of events, piece by piece: read and checked once before a run, and read again by each shard in it.

The first reading tells all that is wrong, and finds what the second has to know beforehand: the words of text, in
order, and the time of the first event. The second checks cells again as it goes, since a file may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Floats, Ints, Kind, SourceContext
from brokers.errors import InvalidInput
from brokers.replaying import Form, Op, form_of
from brokers.words import Words, words_of
from scenarios.problems import did_you_mean
from scenarios.workloads.replaying import cells as cell
from scenarios.workloads.replaying.files import EventFile, open_events
from scenarios.workloads.replaying.header import Header, read_header
from scenarios.workloads.replaying.lives import NOT_SAID, Counter, Lives
from scenarios.workloads.replaying.problems import Problems
from scenarios.workloads.replaying.times import FIRST, UNITS, Times, ratio
from topology.units import format_duration

WORDS_MAX = 1_000_000  # of an attribute: names of things, not sentences
SAMPLE_MAX = 200  # rows of a sort, from which is guessed how many an interest asks for
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: its multiples fill the range evenly
# The questions of kinds where an interest's answer does not hang on other interests.
PAIR_BY_PAIR = frozenset({"content-match", "topic-match"})


@dataclass(frozen=True)
class Found:
    """What the first reading found: plain data that travels to every shard."""

    rows: Mapping[str, int] = field(default_factory=dict)  # per op
    publishes: bool = True  # whether there are publications among them
    origin_ns: int | None = None  # the instant of the file that is 0 in the simulation
    first_ns: int | None = None  # simulated
    last_ns: int | None = None
    publications: int = 0
    changes: int = 0
    standing: float = 0.0  # how many interests stand, in the mean of the run
    asked: Sequence[Any] = field(default=(), compare=False)  # a sample of bodies, where interests stand for themselves
    published: Sequence[Any] = field(default=(), compare=False)
    words: Mapping[int, Sequence[str]] = field(default_factory=dict)  # per attribute, in order
    notes: tuple[str, ...] = ()


@dataclass
class Piece:
    """Some events in the order of the file: arrays of one length, and bodies per op."""

    time: Ints
    client: Ints
    op: Ints  # place in the reader's `ops`
    number: Ints  # of the client's own; NOT_SAID: none
    word: Ints  # of messages without a number
    place: Ints  # per event: row of its body
    bodies: dict[int, Floats]  # per op


class Sample:
    """Some rows from all over a file, at distances that no pattern of rows follows: of every other row, half."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._marks = np.empty(0, np.uint64)  # one per row kept, below the limit
        self._limit, self._seen = 1 << 64, 0

    def add(self, rows: Any) -> None:
        """Rows further down the file. O(rows)."""
        marks = np.arange(self._seen, self._seen + len(rows), dtype=np.uint64) * _GOLDEN
        self._seen += len(rows)
        while self._below(marks).size + self._below(self._marks).size > SAMPLE_MAX:
            self._limit //= 2
        kept, new = self._below(self._marks), self._below(marks)
        # Copies, since a view would keep all of its piece in memory.
        self.rows = [self.rows[i] for i in kept.tolist()] + [np.array(rows[i]) for i in new.tolist()]
        self._marks = np.concatenate((self._marks[kept], marks[new]))

    def _below(self, marks: Any) -> Any:
        return np.flatnonzero(marks <= np.uint64(self._limit - 1))


def share_of(kind: Any, interests: Sequence[Any], publications: Sequence[Any]) -> float:
    """Of these publications, how many one of these interests asks for: by the definition."""
    if not interests or not publications:
        return 0.0
    held = dict(enumerate(interests))
    return sum(len(kind.oracle(held, each)) for each in publications) / (len(interests) * len(publications))


class Reader:
    """One file as one service reads it."""

    def __init__(self, params: Any, context: SourceContext) -> None:
        self.params = params
        self.context = context
        self.form: Form = form_of(_kind_of(context))
        table = self.form.op_table()
        self.names: tuple[str, ...] = tuple(table)
        self.ops: tuple[Op, ...] = tuple(table.values())
        if params.op is not None and params.op not in table:
            raise InvalidInput(f"`op`: no op {params.op!r}; {did_you_mean(params.op, table)}")
        needed = [] if params.client is not None else ["client"]
        needed += [] if params.op is not None else ["op"]
        self.file: EventFile = open_events(Path(params.file))
        self.header: Header = read_header(self.file, self.form, params.columns, params.ignore, needed)
        self._hint = ""
        if "text" in getattr(getattr(self.form.kind, "Params", None), "model_fields", ()):
            self._hint = "; if it is text, say so by `text` of the service"
        if self.header.time == "time" and params.unit is None:
            self._need_unit()

    def _need_unit(self) -> None:
        import pyarrow as arrow

        type_ = self.file.types.get(self.header.columns["time"])
        if type_ is not None and (arrow.types.is_integer(type_) or arrow.types.is_floating(type_)):
            raise InvalidInput(
                f"{self.file.path}:1: the column {self.header.columns['time']!r} holds numbers; say their `unit`, one "
                f"of {', '.join(UNITS)}"
            )

    # ---- the first reading -----------------------------------------------------------------------------

    def scan(self) -> Found:
        """Read and check the whole file; InvalidInput tells what is wrong with it, line by line."""
        problems, times = Problems(self.file), self._times()
        lives = Lives(self.names, self.ops, self._again())
        words: dict[int, set[str]] = {}
        counts, left_out = np.zeros(len(self.ops), np.int64), 0
        kind, duration_ns, standing = self.form.kind, self.context.duration_ns, 0.0
        lasting = np.array([{"begins": 1, "ends": -1}.get(op.role, 0) for op in self.ops], np.int64)
        published, asked = Sample(), Sample()
        first = last = None
        for piece, rows, outside in self._read(
            times, Counter(self.ops, self.context.population), problems, None, words
        ):
            left_out += outside
            if not len(problems):  # what cannot be read cannot be judged
                lives.check(piece.client, piece.op, piece.number, problems.among(rows))
            if problems.enough:
                break
            counts += np.bincount(piece.op, minlength=len(self.ops))
            if piece.time.size:
                first = int(piece.time[0]) if first is None else first
                last = int(piece.time[-1])
            standing += float((lasting[piece.op] * (duration_ns - piece.time)).sum(dtype=np.float64))
            for i, bodies in piece.bodies.items():
                if self.ops[i].type in kind.publications:
                    published.add(bodies)
                elif self.ops[i].type in kind.wants():
                    asked.add(bodies)
        problems.stop()
        notes = self.header.notes
        if left_out:
            span = f"before `start` or at and after {format_duration(self.context.duration_ns)}"
            notes += (f"{self.file.path}: {left_out:,} events are left out, {span}",)
        elif not counts.any():
            notes += (f"{self.file.path}: holds no events",)
        publications = [op.type in kind.publications for op in self.ops]
        enters = [op.type in kind.publications | kind.offers for op in self.ops]
        changes = [op.type in kind.changes for op in self.ops]
        return Found(
            rows=dict(zip(self.names, counts.tolist())),
            publishes=bool(counts[enters].any()),
            origin_ns=times.origin,
            first_ns=first,
            last_ns=last,
            publications=int(counts[publications].sum()),
            changes=int(counts[changes].sum()),
            standing=standing / duration_ns,
            asked=asked.rows if kind.manifest.question in PAIR_BY_PAIR else (),
            published=published.rows if kind.manifest.question in PAIR_BY_PAIR else (),
            words={attribute: sorted(each) for attribute, each in words.items()},
            notes=notes,
        )

    def _again(self) -> list[bool]:
        replaced: frozenset[int] = getattr(self.form.kind, "replacements", frozenset())
        return [op.type in replaced for op in self.ops]

    # ---- the second reading ----------------------------------------------------------------------------

    def pieces(self, found: Found, mine: NDArray[np.bool_]) -> Iterator[Piece]:
        """The events of the clients that are marked, by their number in the group."""
        problems, times = Problems(self.file), self._times()
        times.origin = found.origin_ns
        words = words_of(self.context.service_params) or found.words
        counter = Counter(self.ops, self.context.population)
        for piece, _, _ in self._read(times, counter, problems, mine, None, words):
            problems.stop()
            if piece.time.size:
                yield piece
        problems.stop()

    # ---- both ------------------------------------------------------------------------------------------

    def _times(self) -> Times:
        p = self.params
        return Times(self.header.time, p.unit, p.start, ratio(p.speed))

    def _read(
        self,
        times: Times,
        counter: Counter,
        problems: Problems,
        mine: NDArray[np.bool_] | None,
        collected: dict[int, set[str]] | None,
        words: Words | None = None,
    ) -> Iterator[tuple[Piece, Ints, int]]:
        """(piece, rows of the file, events left out by `cut`), noting what is wrong with cells.

        The first reading gives `collected`, and words count among those of their piece; the second gives `words`.
        """
        at, before = 0, None
        for batch in self.file.pieces(self.header.names):
            rows = np.arange(at, at + batch.num_rows, dtype=np.int64)
            at += batch.num_rows
            known = len(problems)
            raw = self._raw_times(times, batch, rows, problems)
            client = self._clients(batch, rows, problems)
            op = self._ops(batch, rows, problems)
            readable = len(problems) == known  # what cannot be read cannot be judged
            if readable:
                before = self._judge_order(raw, before, rows, batch, problems)
            time = times.simulated(raw)
            keep, outside = self._within(time, rows, problems, readable and not self.params.cut)
            if readable:
                self._judge_clients(client, rows, problems)
            if len(problems) > known:
                keep = keep & (client >= 0) & (client < self.context.population) & (op >= 0)
            if mine is not None:
                keep = keep & mine[np.where(keep, client, 0)]
            if not keep.all():
                chosen = np.flatnonzero(keep)
                batch, rows = batch.take(chosen), rows[chosen]
                time, client, op = time[chosen], client[chosen], op[chosen]
            piece = self._piece(batch, rows, time, client, op, counter, problems, collected, words)
            yield piece, rows, outside

    def _piece(
        self,
        batch: Any,
        rows: Ints,
        time: Ints,
        client: Ints,
        op: Ints,
        counter: Counter,
        problems: Problems,
        collected: dict[int, set[str]] | None,
        words: Words | None,
    ) -> Piece:
        if words is None:
            words = self._words(batch, rows, problems, collected)
        number, word = np.full(rows.size, NOT_SAID, np.int64), np.zeros(rows.size, np.int64)
        place, bodies = np.zeros(rows.size, np.int64), {}
        for i in np.flatnonzero(np.bincount(op, minlength=len(self.ops))).tolist():
            each = self.ops[i]
            at = np.flatnonzero(op == i)
            part = batch if at.size == rows.size else batch.take(at)
            cells = cell.PieceCells(
                part, self.header.columns, rows[at], words, problems, self._hint, client[at]
            )
            if each.number:
                number[at] = cells.wholes(each.number, NOT_SAID)
            self._judge_empty(self.names[i], part, rows[at], problems)
            body = self.form.rows(self.names[i], cells)
            if not each.number:
                said = self.form.word(self.names[i], cells, body)
                word[at] = 0 if said is None else said
            if body is not None:
                bodies[i], place[at] = body, np.arange(at.size)
        counter.fill(client, op, number)
        return Piece(time, client, op, number, word, place, bodies)

    def _words(
        self, batch: Any, rows: Ints, problems: Problems, collected: dict[int, set[str]] | None
    ) -> dict[int, list[str]]:
        """The words of a piece, in order."""
        import pyarrow.compute as compute

        found: dict[int, set[str]] = {}
        for name, attribute in self.form.words().items():
            if name not in self.header.columns:
                continue
            column = batch.column(self.header.columns[name])
            if self.header.about[name].name == "keywords":
                column = cell.list_parts(column)[0]
            column = compute.unique(cell.as_text(column))
            found.setdefault(attribute, set()).update(column.drop_null().to_pylist())
        for name in set(self.form.texts) & set(self.header.columns):
            column = compute.unique(cell.as_text(batch.column(self.header.columns[name])))
            for attribute, words in self.form.words_in(name, column.drop_null().to_pylist()).items():
                found.setdefault(attribute, set()).update(words)
        for attribute, words in found.items():
            if collected is None:
                continue
            every = collected.setdefault(attribute, set())
            every |= words
            if len(every) > WORDS_MAX and not problems.enough:
                raise InvalidInput(
                    f"{self.file.path}: more than {WORDS_MAX:,} different words in one attribute; text is for names "
                    "that come again"
                )
        return {attribute: sorted(words) for attribute, words in found.items()}

    def _raw_times(self, times: Times, batch: Any, rows: Ints, problems: Problems) -> Ints:
        name = self.header.columns[times.column]

        def tell(place: int, cell_: Any, must: str) -> None:
            problems.at(int(rows[place]), f"{name} {must} (got {cell.shown(cell_)})")

        try:
            return times.read(batch.column(name), tell)
        except InvalidInput as error:
            raise InvalidInput(f"{self.file.path}:1: {error}") from None

    def _clients(self, batch: Any, rows: Ints, problems: Problems) -> Ints:
        if "client" not in self.header.columns:
            return np.full(rows.size, self.params.client, np.int64)
        cells = cell.PieceCells(batch, self.header.columns, rows, {}, problems)
        tell = cells.teller("client", "must be a whole number")
        return cell.as_wholes(batch.column(self.header.columns["client"]), tell)

    def _ops(self, batch: Any, rows: Ints, problems: Problems) -> Ints:
        import pyarrow as arrow
        import pyarrow.compute as compute

        if "op" not in self.header.columns:
            return np.full(rows.size, self.names.index(self.params.op), np.int64)
        column = cell.plain(batch.column(self.header.columns["op"]))
        if not arrow.types.is_string(column.type):
            column = cell.as_text(column)
        found = compute.index_in(column, value_set=arrow.array(self.names, arrow.string()))
        if found.null_count:
            found = compute.index_in(compute.utf8_trim_whitespace(column), value_set=arrow.array(self.names))
        ops = np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        if (ops < 0).any():
            known = ", ".join(self.names)
            problems.where(
                rows,
                ops < 0,
                lambda place: f"op must be one of {known} (got {cell.shown(column[place].as_py())})",
            )
        return ops

    def _judge_order(
        self, raw: Ints, before: int | None, rows: Ints, batch: Any, problems: Problems
    ) -> int | None:
        if not raw.size:
            return before
        above = np.concatenate(([raw[0] if before is None else before], raw[:-1]))
        falls = raw < above
        if falls.any():

            def tell(place: int) -> str:
                if self.header.time == "time":
                    here = batch.column(self.header.columns["time"])[place].as_py()
                    return f"time {here} is before that above it; sort the file by time"
                return f"time {raw[place]} ns is before {above[place]} ns above it; sort the file by time"

            problems.where(rows, falls, tell)
        return int(raw.max())

    def _within(
        self, time: Ints, rows: Ints, problems: Problems, judge: bool
    ) -> tuple[NDArray[np.bool_], int]:
        """Which events are within the run, and how many are not, which is noted where it is to be judged."""
        early, late = time < 0, time >= self.context.duration_ns
        keep = ~(early | late)
        if keep.all():
            return keep, 0
        if not judge:
            return keep, int(keep.size - keep.sum())
        shifted = self.params.start is not None or self.header.time == "time"
        whole = format_duration(self.context.duration_ns)

        def too_early(place: int) -> str:
            if not shifted:
                return f"a time cannot be negative (got {time[place]} ns)"
            before = format_duration(-int(time[place]))
            return f"it lies {before} before `start`; let it start earlier, or say `cut: true`"

        def too_late(place: int) -> str:
            return (
                f"time {time[place]} ns is not within the duration of {whole}; raise the duration, let the file play "
                "faster by `speed`, or leave out what is beyond by `cut: true`"
            )

        if not shifted or self.params.start not in (None, FIRST):  # nothing in order is before the first event
            problems.where(rows, early, too_early)
        problems.where(rows, late, too_late)
        return keep, 0

    def _judge_clients(self, client: Ints, rows: Ints, problems: Problems) -> None:
        last = self.context.population - 1
        wrong = (client < 0) | (client > last)
        if wrong.any():
            problems.where(
                rows, wrong, lambda place: f"the group has clients 0 to {last} (got {client[place]})"
            )

    def _judge_empty(self, op: str, part: Any, rows: Ints, problems: Problems) -> None:
        """Note cells that have something in them where their column belongs to other ops."""
        for asked, about in self.header.about.items():
            if not about.ops or op in about.ops:
                continue
            column = part.column(self.header.columns[asked])
            if column.null_count == len(column):
                continue
            filled = ~cell.is_nothing(column)
            if filled.any():
                said = (
                    f"{self.header.columns[asked]} belongs to {' and '.join(about.ops)}; leave it empty here"
                )
                problems.where(rows, filled, lambda _, said=said: said)  # type: ignore[misc]


def _kind_of(context: SourceContext) -> Kind:
    """The kind that a source serves; one that is built alone serves `content`."""
    if context.kind is not None:
        return context.kind
    from protocols.content.kind import Content

    return Content(context.service_params)
