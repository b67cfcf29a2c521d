"""What a page needs of a trace, in one look at each table: counts over time, and the rows of a sample of messages.

Counts are of all that happened. Rows are of messages that are in the sample, each whole. Tables are read in blocks, so
that ten million events need no more memory than the block and what is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.report.analyzed import Analyzed
from analysis.report.sampling import Sample, in_sample
from analysis.spark.graph import Network
from analysis.spark.passes import stretch_of
from analysis.spark.stretches import STRETCHES, span_of, stretches_of
from analysis.spark.trace import Service, services_of
from brokers.contract import MESSAGE
from brokers.engine.linkrows import COLUMN
from brokers.engine.parts import reading
from brokers.engine.runfolder import RunFolder
from brokers.engine.trace_schema import TABLES
from brokers.errors import InvalidInput, RunDamaged
from brokers.faults import REASONS
from brokers.schema import LEVELS

Array = NDArray[np.int64]
Rows = dict[str, Array]

LATENCY_BINS = 400  # a factor of ten; from 1 µs on
DECADES = 10
_BLOCK = 1 << 18
_ROWS_MOST = 200_000  # of losses, faults, stays, about
_SORTS_OF_FAULTS = 4
_TIME_MOST = 1 << 60  # ns
_PLACES = ("brokers", "links")
_ODD = 1_000_003
WANTED = {
    "hops": ("broker", "time_ns", "kind", "link", "service", "type", "body", "word", "cause", "finish_ns"),
    "publications": ("publication", "time_ns", "service", "broker", "client"),
    "deliveries": ("service", "publication", "broker", "client", "published_ns", "time_ns"),
    "losses": ("link", "time_ns", "service", "type", "body", "cause", "reason", "client"),
    "changes": (
        "change", "service", "operation", "interest", "broker", "client", "issued_ns", "settled_ns", "revoked_ns",
        "gone_ns", "lost",
    ),
    "samples": ("time_ns", "broker", "backlog_ns", "queued", "service", "entries"),
    "faults": ("what", "broker", "link", "begin_ns", "end_ns"),
    "stays": ("stay", "client", "broker", "begin_ns", "end_ns"),
}  # fmt: skip


@dataclass
class Gathered:
    """See the module. Counts are by service and stretch of time, or by service, place and (longer) stretch."""

    run: RunFolder
    network: Network
    kinds: list[Service] | None  # None where they come from outside and are not trusted
    sample: Sample
    span_ns: int
    notes: list[str] = field(default_factory=list)
    kept: dict[str, Rows] = field(default_factory=dict)
    counts: dict[str, Array] = field(default_factory=dict)
    published: Array = field(default_factory=lambda: np.empty(0, np.int64))  # ids of all publications, in order

    @property
    def names(self) -> list[str]:
        return [each["name"] for each in self.run.manifest["scenario"]["services"]]

    @property
    def services(self) -> int:
        return len(self.names)

    @cached_property
    def stretches(self) -> int:
        """How many stretches of time there are counts by place of."""
        places = self.network.source.size + self.network.brokers
        return stretches_of(self.services, places)

    @cached_property
    def analyzed(self) -> Analyzed:
        """What `brokerlab analyze` left, if stretches of time are the same in it."""
        found = Analyzed.of(self.run)
        same = not found.said or (found.said["span_ns"], found.said["stretches"]) == (self.span_ns, self.stretches)
        return found if same else Analyzed(self.run)

    def rows(self, table: str) -> Rows:
        """The rows that are kept of a table; none where the trace has none."""
        return self.kept.get(table) or {name: np.empty(0, np.int64) for name in WANTED[table]}

    def count(self, what: str, *shape: int) -> Array:
        if what not in self.counts:
            self.counts[what] = np.zeros(shape, np.int64)
        return self.counts[what]

    def at(self, time_ns: Array, stretches: int = STRETCHES) -> Array:
        """The stretch of each time."""
        return stretch_of(time_ns, self.span_ns, stretches)

    def carries(self, body: Array) -> NDArray[np.bool_]:
        """Whether what messages carry are publications."""
        if not self.published.size:
            return np.zeros(body.size, np.bool_)
        place = np.minimum(np.searchsorted(self.published, body), self.published.size - 1)
        return self.published[place] == body

    def has(self, table: str) -> bool:
        return table in self.run.manifest["tables"]


def gather(
    run: RunFolder, hops_most: int, *, trust: bool = False, tables: Collection[str] | None = None,
    span_ns: int | None = None,
) -> Gathered:  # fmt: skip
    """Look through a run; through some of its tables only, and over a longer time, where somebody asks for that."""
    run.check(run.tables())
    notes = []
    try:
        kinds: list[Service] | None = services_of(run, trust=trust)
    except InvalidInput as error:
        kinds = None
        notes.append(f"Kinds or protocols are not at hand ({error}); what needs them is left out.")
    hops = run.rows("hops") if "hops" in run.tables() else 0
    network = Network.of(run) if {"links", "brokers"} <= set(run.tables()) else _nowhere()
    sample = Sample.of_run(hops, _deliveries(run), hops_most)
    found = Gathered(run, network, kinds, sample, span_ns or span_of(run), notes)
    found.notes += _not_there(found)
    for name, look in _LOOKS.items():
        if found.has(name) and (tables is None or name in tables):
            look(found)
    return found


def _not_there(found: Gathered) -> Iterator[str]:
    """The tables that a page would use and the trace does not have, by the level that has them."""
    had = found.run.manifest["trace_level"]
    for level in reversed(LEVELS):
        names = [name for name in (*WANTED, *_PLACES) if TABLES[name].level == level and not found.has(name)]
        if names:
            told = f"tables {', '.join(names)}: they need" if names[1:] else f"table {names[0]}: it needs"
            yield f"The trace has no {told} level {level}, and the run had {had}."


def _deliveries(run: RunFolder) -> int:
    return run.rows("deliveries") if "deliveries" in run.tables() else 0


def _nowhere() -> Network:
    """No overlay, of a run whose trace has none."""
    none = np.empty(0, np.int64)
    return Network((), none, none, none, none, none)


def blocks(run: RunFolder, table: str, columns: Sequence[str]) -> Iterator[Rows]:
    """A table in blocks of rows, every number of which is one that there can be."""
    import pyarrow.parquet as pq

    for part in run.parts(table):
        with reading(run.path, part), pq.ParquetFile(part) as file:
            for batch in file.iter_batches(_BLOCK, columns=list(columns)):
                for name in columns:
                    if batch.column(name).null_count:
                        told = f"{part.relative_to(run.path)} has nothing in a row of column {name!r}"
                        raise RunDamaged.at(run.path, told)
                rows = {name: batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in columns}
                if run.link_rows is not None and COLUMN in rows:
                    rows[COLUMN] = run.link_rows.rows(rows[COLUMN])
                yield checked(run, table, rows)


def checked(run: RunFolder, table: str, rows: Rows) -> Rows:
    """Rows as they are; a number in them that there cannot be is damage."""
    limits = {
        "service": (0, len(run.manifest["scenario"]["services"])),
        "broker": (-1 if table == "faults" else 0, run.rows("brokers")),
        "link": (-1, run.rows("links")),
        "reason": (0, len(REASONS)),
        "what": (0, _SORTS_OF_FAULTS),
    }
    for name, (least, limit) in limits.items():
        if name in rows and rows[name].size and not least <= rows[name].min() <= rows[name].max() < limit:
            raise RunDamaged.at(run.path, f"table {table!r} has a {name} that is none of {limit}")
    for name, column in rows.items():
        if column.size and name.endswith("_ns") and not -_TIME_MOST < column.min() <= column.max() < _TIME_MOST:
            raise RunDamaged.at(run.path, f"table {table!r} has a time {name} that no run comes to")
    return rows


def _kept(found: Gathered, table: str, chosen: Iterator[Rows]) -> None:
    parts = list(chosen)
    found.kept[table] = {
        name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0, np.int64)
        for name in WANTED[table]
    }


def _where(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    return rows if mask.all() else {name: column[mask] for name, column in rows.items()}


def _add(into: Array, *keys: Array) -> None:
    """Count rows by their keys."""
    flat = np.ravel_multi_index(keys, into.shape)
    into += np.bincount(flat, minlength=into.size).reshape(into.shape)


def _hops(found: Gathered) -> None:
    if not _hops_of_analyze(found):
        _hops_of_trace(found)


def _hops_of_analyze(found: Gathered) -> bool:
    """Take the counts and the sample that `analyze` keeps of a long run, if all of it is there."""
    if found.sample.whole or found.analyzed.said.get("sample_parts") != found.sample.parts:
        return False
    some = (1, found.run.rows("hops") + 1)
    service, stretch = (0, found.services), (0, found.stretches)
    links, brokers, size = (0, found.network.source.size), (0, found.network.brokers), np.iinfo(np.int64)
    any_word = int(size.min) + 1, int(size.max)
    limits: dict[str, dict[str, tuple[int, int]]] = {
        "traffic": {"service": service, "link": links, "stretch": stretch, "messages": some},
        "handled": {"service": service, "broker": brokers, "stretch": stretch, "events": some},
        "moments": {
            "service": service, "moment": (0, STRETCHES), "events": some, "messages": (0, some[1]),
            "carried": (0, some[1]),
        },
        "drawn": {
            "broker": brokers, "time_ns": (-_TIME_MOST, _TIME_MOST), "kind": (0, 3), "link": (-1, links[1]),
            "service": service, "type": any_word, "body": any_word, "word": any_word, "cause": any_word,
            "finish_ns": (-_TIME_MOST, _TIME_MOST),
        },
    }  # fmt: skip
    tables = {name: found.analyzed.numbers(name, each) for name, each in limits.items()}
    traffic, handled, moments, drawn = tables.values()
    if traffic is None or handled is None or moments is None or drawn is None:
        return False
    services, many = found.services, found.stretches
    _put(found.count("on_links", services, links[1], many), traffic, "messages", "service", "link", "stretch")
    _put(found.count("at_brokers", services, brokers[1], many), handled, "events", "service", "broker", "stretch")
    moments["other"] = moments["messages"] - moments["carried"]
    for name in ("carried", "other", "events"):
        _put(found.count(name, services, STRETCHES), moments, name, "service", "moment")
    found.kept["hops"] = drawn
    return True


def _put(into: Array, rows: Rows, name: str, *keys: str) -> None:
    np.add.at(into, tuple(rows[key] for key in keys), rows[name])


def _hops_of_trace(found: Gathered) -> None:
    services, many = found.services, found.stretches
    carried = found.count("carried", services, STRETCHES)
    other = found.count("other", services, STRETCHES)
    events = found.count("events", services, STRETCHES)
    on_links = found.count("on_links", services, found.network.source.size, many)
    at_brokers = found.count("at_brokers", services, found.network.brokers, many)

    def chosen() -> Iterator[Rows]:
        for rows in blocks(found.run, "hops", WANTED["hops"]):
            stretch, service = found.at(rows["time_ns"]), rows["service"]
            _add(events, service, stretch)
            came = (rows["link"] >= 0) & (rows["kind"] == MESSAGE)
            carries = found.carries(rows["body"])
            _add(carried, service[came & carries], stretch[came & carries])
            _add(other, service[came & ~carries], stretch[came & ~carries])
            long = found.at(rows["time_ns"], many)
            _add(on_links, service[came], rows["link"][came], long[came])
            _add(at_brokers, service, rows["broker"], long)
            yield _where(rows, in_sample(found.sample, rows))

    _kept(found, "hops", chosen())


def _publications(found: Gathered) -> None:
    published = found.count("published", found.services, STRETCHES)
    ids: list[Array] = []

    def chosen() -> Iterator[Rows]:
        for rows in blocks(found.run, "publications", WANTED["publications"]):
            _add(published, rows["service"], found.at(rows["time_ns"]))
            ids.append(rows["publication"])
            yield _where(rows, found.sample.has(rows["publication"]))

    _kept(found, "publications", chosen())
    found.published = np.unique(np.concatenate(ids)) if ids else found.published


def _deliveries_of(found: Gathered) -> None:
    delivered = found.count("delivered", found.services, STRETCHES)
    answered = found.count("answered", found.services, STRETCHES)  # by when it was published
    latency = found.count("latency", found.services, LATENCY_BINS * DECADES)

    def chosen() -> Iterator[Rows]:
        for rows in blocks(found.run, "deliveries", WANTED["deliveries"]):
            _add(delivered, rows["service"], found.at(rows["time_ns"]))
            _add(answered, rows["service"], found.at(rows["published_ns"]))
            _add(latency, rows["service"], _bin(rows["time_ns"] - rows["published_ns"]))
            yield _where(rows, found.sample.has(rows["publication"]))

    _kept(found, "deliveries", chosen())


def _bin(took_ns: Array) -> Array:
    """The place of each duration in a histogram."""
    place = np.ceil((np.log10(np.maximum(took_ns, 1)) - 3) * LATENCY_BINS).astype(np.int64)
    return np.clip(place, 0, LATENCY_BINS * DECADES - 1)


def _losses(found: Gathered) -> None:
    lost = found.count("lost", found.services, STRETCHES)
    reasons = found.count("reasons", found.services, len(REASONS))

    def chosen() -> Iterator[Rows]:
        for rows in blocks(found.run, "losses", WANTED["losses"]):
            _add(lost, rows["service"], found.at(rows["time_ns"]))
            _add(reasons, rows["service"], rows["reason"])
            yield _where(rows, in_sample(found.sample, rows))

    _kept(found, "losses", _spread(found, "losses", chosen(), found.sample.share))


def _changes(found: Gathered) -> None:
    asked = found.count("changes", found.services)
    unsettled = found.count("unsettled", found.services)
    settling = found.count("settling", found.services, LATENCY_BINS * DECADES)

    def chosen() -> Iterator[Rows]:
        for rows in blocks(found.run, "changes", WANTED["changes"]):
            _add(asked, rows["service"])
            never = (rows["settled_ns"] < 0) & (rows["issued_ns"] >= 0)
            _add(unsettled, rows["service"][never])
            settled = (rows["settled_ns"] >= 0) & (rows["issued_ns"] >= 0)
            _add(settling, rows["service"][settled], _bin((rows["settled_ns"] - rows["issued_ns"])[settled]))
            yield _where(rows, found.sample.has(rows["change"]))

    _kept(found, "changes", chosen())


def _samples(found: Gathered) -> None:
    """Per time the sum and the largest of tables and queues over brokers; per broker and stretch the last."""
    many, brokers = found.stretches, found.network.brokers
    entries = found.count("entries", found.services, brokers, many)
    seen = np.zeros(many, np.bool_)
    times: Array = np.empty(0, np.int64)
    totals: Array = np.zeros((0, found.services + 1, 2), np.int64)  # by time: of entries, then of the queue
    for rows in blocks(found.run, "samples", WANTED["samples"]):
        stretch = found.at(rows["time_ns"], many)
        entries[rows["service"], rows["broker"], stretch] = rows["entries"]
        seen[np.unique(stretch)] = True
        known, times = times, np.union1d(times, rows["time_ns"])
        grown = np.zeros((times.size, found.services + 1, 2), np.int64)
        grown[np.searchsorted(times, known)] = totals
        totals, at = grown, np.searchsorted(times, rows["time_ns"])
        first = rows["service"] == 0  # the queue is told once for each service
        for of, where, value in (
            (rows["service"], at, rows["entries"]),
            (np.full(int(first.sum()), found.services), at[first], rows["queued"][first]),
        ):
            np.add.at(totals[:, :, 0], (where, of), value)
            np.maximum.at(totals[:, :, 1], (where, of), value)
    for late in range(1, many):
        if not seen[late]:
            entries[:, :, late] = entries[:, :, late - 1]
    found.counts["sampled_ns"], found.counts["sampled"] = times, totals


def _faults(found: Gathered) -> None:
    kinds = found.count("failed", _SORTS_OF_FAULTS)
    span = found.counts["failing_ns"] = np.array([_TIME_MOST, 0, 0])  # from, until, and whether one is for good

    def chosen() -> Iterator[Rows]:
        for rows in blocks(found.run, "faults", WANTED["faults"]):
            _add(kinds, rows["what"])
            if rows["what"].size:
                first, last = int(rows["begin_ns"].min()), int(rows["end_ns"].max())
                span[:] = min(span[0], first), max(span[1], last), span[2] | (rows["end_ns"] < 0).any()
            yield rows

    _kept(found, "faults", _spread(found, "faults", chosen()))


def _stays(found: Gathered) -> None:
    _kept(found, "stays", _spread(found, "stays", blocks(found.run, "stays", WANTED["stays"])))


def _spread(found: Gathered, table: str, parts: Iterator[Rows], share: float = 1.0) -> Iterator[Rows]:
    """About so many rows of a table at most, by a hash, so that they are from all the time. `share` come in parts."""
    most = Sample.of(int(found.run.rows(table) * share), _ROWS_MOST)
    for rows in parts:
        yield rows if most.whole else _where(rows, most.has(_mixed(rows)))


def _mixed(rows: Rows) -> Array:
    """A number for each row, by all that is in it: of what happens at once, too, a share is kept."""
    columns = list(rows.values())
    mixed = np.zeros(columns[0].size, np.int64)
    for column in columns:
        mixed = mixed * _ODD ^ column
    return mixed


_LOOKS = {
    "publications": _publications, "hops": _hops, "deliveries": _deliveries_of, "losses": _losses,
    "changes": _changes, "samples": _samples, "faults": _faults, "stays": _stays,
}  # fmt: skip
