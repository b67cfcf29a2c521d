"""What tasks of Spark do with the rows of a trace to make the aggregates: one pass over each table.

    pieces ─► `Pass.over` ─► blocks, dealt out ─► `Pass.merged` ─► blocks for the driver

A block is an Arrow table as bytes, with what it is of and the number of the task that merges it: rows travel through
Spark's exchange by the ten thousand, not one by one. What is of one publication, one broker or one group meets in one
task.

Theory of the percentiles. Of each group a pass sends on its values, sorted; of more than `KEPT` every s-th, from the
middle of its s, which stands for all s. A rank is then wrong by at most s / 2 for each pass, and as s / 2 is at most a
ten-thousandth of what the pass saw, by at most a ten-thousandth in all. With `KEPT` values in a group or fewer
none is wrong.

Numbers only, and NumPy and Arrow: this module goes to the tasks by value (`sent_along`), so that the machines of a
cluster need not have brokerlab.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.report import sampling
from analysis.report.sampling import Sample
from analysis.spark import depths, spreads
from analysis.spark.depths import Array, Moments, begins, links_from
from analysis.spark.spreads import Spread
from brokers.engine.linkrows import COLUMN, link_rows

Columns = dict[str, Array]
Blocks = Iterator[tuple[str, int, Columns]]  # of what, for which task, rows

BLOCK = "what string, task int, block binary"
KEPT = 10_000
SHARES = (0.5, 0.9, 0.99)
PIECE_ROWS = 600_000
_MERGED = ("services", "clients", "brokers", "series", "stretch", "queues")
MESSAGE = 1  # the kind of event


# What is read of a table, once.
COLUMNS = {
    "publications": ("service", "client", "broker", "time_ns"),
    "sent": ("publication", "service", "broker", "time_ns", "size_bytes"),
    "deliveries": ("service", "publication", "broker", "client", "published_ns", "time_ns"),
    "hops": ("broker", "time_ns", "kind", "link", "service", "type", "body", "word", "cause", "finish_ns"),
    "samples": ("time_ns", "broker", "backlog_ns", "queued", "service", "entries"),
    "losses": ("link", "service", "type", "body"),
}
OF = {"sent": "publications"}  # the table, where it is called something else


@dataclass(frozen=True)
class Piece:
    """Some row groups of a part of the trace.

    A task reads them itself: Java would take the columns apart into rows, for Python to have them as columns again.
    """

    table: str
    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]

    def read(self) -> Columns:
        return _columns(self.rows())

    def rows(self) -> pa.Table:
        """As Arrow has them, for what is no number."""
        with pq.ParquetFile(self.path) as part:
            found = part.read_row_groups(self.groups, self.columns, use_threads=False)
        other = link_rows(Path(self.path).parents[2]) if COLUMN in self.columns else None
        return found if other is None else other.renamed(found)


def pieces_of(table: str, paths: Iterable[str], columns: tuple[str, ...] | None = None) -> list[Piece]:
    """The pieces of a table, each for one task, of these columns (default: what aggregates read)."""
    wanted = COLUMNS[table] if columns is None else columns
    found = []
    for path in paths:
        groups: list[int] = []
        rows = 0
        with pq.ParquetFile(path) as part:
            for group in range(part.num_row_groups):
                size = part.metadata.row_group(group).num_rows
                if groups and rows + size > PIECE_ROWS:
                    found.append(Piece(table, path, tuple(groups), wanted))
                    groups, rows = [], 0
                groups.append(group)
                rows += size
        if rows:
            found.append(Piece(table, path, tuple(groups), wanted))
    return found


@dataclass(frozen=True)
class Pass:
    """What every task has to know. Arrays are as large as the overlay, not as the trace."""

    tasks: int  # that merge
    brokers: int
    warm_up_ns: int
    width_ns: int  # of a stretch of the series
    publications: Mapping[int, tuple[int, ...]]  # types of messages that carry them, by service
    deep: bool  # whether hops are there to be followed
    publisher: Array  # clients that published, sorted
    origin: Array  # their brokers
    path: Array  # by broker: the row of its distances, -1 where it has none
    shortest_ns: Array  # from an origin to all brokers
    shortest_hops: Array
    source: Array  # by directed link
    delay_ns: Array
    span_ns: int  # how long the run lasted, and into how many stretches
    stretches: int  # what links carried is divided
    sample: Sample  # of a long run, the events that a report draws one by one
    moments: int  # into so many stretches a report divides what it does not count by place

    def over(self, pieces: Sequence[Piece]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The pass over pieces of the trace, which a task is given by their numbers."""

        def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for what, task, rows in _LOOKS[pieces[number].table](self, pieces[number].read()):
                        yield block_of(what, task, rows)

        return look

    def at_once(self, pieces: Sequence[Piece]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The same, and what was found put together, where one task does it all."""
        return lambda batches: self.merged(self.over(pieces)(batches))

    def merged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All that was dealt to one task, put together."""
        found: dict[str, list[pa.Table]] = {}
        for batch in batches:
            for what, block in zip(batch.column("what").to_pylist(), batch.column("block")):
                found.setdefault(what, []).append(opened(block.as_buffer()))
        for what in _MERGED:
            if what in found:
                yield block_of(what, 0, distributed(pa.concat_tables(found.pop(what))))
        if "took" in found:
            for what, rows in _time_to_all(self, _columns(pa.concat_tables(found.pop("took")))):
                yield block_of(what, 0, rows)
        dealt_here = {
            name: _columns(pa.concat_tables(found.pop(name))) if name in found else None
            for name in ("steps", "arrived", "sent", "lost")
        }
        steps, arrived = dealt_here["steps"], dealt_here["arrived"]
        if steps and arrived:
            yield block_of("hops", 0, _came_over(self, steps, arrived))
        if "about" in found:
            yield block_of("carried", 0, _carried(_columns(pa.concat_tables(found.pop("about"))), dealt_here["sent"]))
        if steps or dealt_here["sent"]:
            for what, rows in _spread(self, **{name: rows or _NONE for name, rows in dealt_here.items()}):
                yield block_of(what, 0, rows)
        if "samples" in found:
            for what, rows in _sampled(_columns(pa.concat_tables(found.pop("samples")))):
                yield block_of(what, 0, rows)
        for what, tables in found.items():
            yield block_of(what, 0, _columns(pa.concat_tables(tables)))


def sent_along(*more: ModuleType) -> None:
    """From now on this module and those that it uses, and more, go to tasks as they are, not as names to import."""
    from pyspark import cloudpickle

    for module in (depths, spreads, sampling, sys.modules[__name__], *more):
        cloudpickle.register_pickle_by_value(module)


def opened(block: Any) -> pa.Table:
    """The table of a block."""
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()


def block_of(what: str, task: int, rows: Mapping[str, Any]) -> pa.RecordBatch:
    table = pa.table(dict(rows))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    block = sink.getvalue().to_pybytes()
    columns = [pa.array([what]), pa.array([task], pa.int32()), pa.array([block], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["what", "task", "block"])


def _columns(table: pa.Table) -> Columns:
    return {name: table.column(name).to_numpy() for name in table.column_names}


# ---- what each table is looked through for


def _publications(task: Pass, rows: Columns) -> Blocks:
    """Who published, and how many were published when."""
    pairs = np.unique(rows["client"] << 32 | rows["broker"])
    late = rows["time_ns"] >= task.warm_up_ns
    used = np.unique(rows["broker"][late])
    start = rows["time_ns"][late] // task.width_ns
    yield "published", 0, _counted({"service": rows["service"][late], "start": start})
    yield "publishers", 0, {"client": pairs >> 32, "broker": pairs & (1 << 32) - 1}
    yield "origins", 0, {"broker": used}


def _deliveries(task: Pass, rows: Columns) -> Blocks:
    rows = _chosen(rows, rows["published_ns"] >= task.warm_up_ns)
    service, client, broker, time = (rows[n].astype(np.int64) for n in ("service", "client", "broker", "time_ns"))
    latency = time - rows["published_ns"]
    yield from _dealt_groups(task, "services", {"service": service}, latency)
    yield from _dealt_groups(task, "clients", {"service": service, "client": client, "broker": broker}, latency)
    yield from _dealt_groups(task, "brokers", {"service": service, "broker": broker}, latency)
    yield from _dealt_groups(task, "series", {"service": service, "start": time // task.width_ns}, latency)
    yield from dealt(task.tasks, "took", *_longest(service, rows["publication"], latency))
    origin = _origins(task, rows["publication"])
    path = np.where(origin >= 0, task.path[origin], -1)
    shortest = np.where(path >= 0, task.shortest_ns[path, broker], 0)
    far = shortest > 0
    longer = latency[far] / shortest[far]
    links = task.shortest_hops[path[far], broker[far]]
    yield from _dealt_groups(task, "stretch", {"service": service[far]}, longer, links)
    if task.deep:
        arrived = {"publication": rows["publication"], "broker": rows["broker"], "finish_ns": rows["time_ns"]}
        yield from dealt(task.tasks, "arrived", {**arrived, "service": rows["service"]}, rows["publication"])


def _longest(service: Array, publication: Array, latency: Array) -> tuple[Columns, Array]:
    """How long each publication took until it was delivered last, and what deals that out."""
    packed, how = _packed({"service": service, "publication": publication})
    groups, group = np.unique(packed, return_inverse=True)
    longest = np.zeros(groups.size, np.int64)
    np.maximum.at(longest, group, latency)
    rows = {**_unpacked(groups, how), "latency": longest}
    return rows, rows["publication"]


def _sent(task: Pass, rows: Columns) -> Blocks:
    """The publications themselves, to where what became of them is found."""
    yield from dealt(task.tasks, "sent", rows, rows["publication"])


def _losses(task: Pass, rows: Columns) -> Blocks:
    """What links were given and did not bring."""
    rows = _chosen(rows, rows["link"] >= 0)
    yield "over", 0, _counted({"service": rows["service"].astype(np.int64)})
    rows = _chosen(rows, _carry(task, rows) & (rows["body"] >= 0))
    lost = {"publication": rows["body"], "broker": task.source[rows["link"]], "service": rows["service"]}
    yield from dealt(task.tasks, "lost", lost, lost["publication"])


def _carry(task: Pass, rows: Columns) -> Array:
    """Whether messages are of a type by which clients publish."""
    carries = np.zeros(rows["service"].size, np.bool_)
    for number, types in task.publications.items():
        carries |= (rows["service"] == number) & np.isin(rows["type"], types)
    return carries


def _hops(task: Pass, rows: Columns) -> Blocks:
    if not task.sample.whole:
        yield from _drawn(task, rows)
    message = rows["kind"] == MESSAGE
    yield "over", 0, _counted({"service": rows["service"][message & (rows["link"] >= 0)].astype(np.int64)})
    carried = _chosen(rows, _carry(task, rows) & message & (rows["body"] >= 0))
    names = {"body": "publication", **{name: name for name in ("service", "broker", "link", "time_ns", "finish_ns")}}
    steps = {new: carried[old] for old, new in names.items()}
    yield from dealt(task.tasks, "steps", steps, steps["publication"])
    rows = _chosen(rows, rows["time_ns"] >= task.warm_up_ns)
    broker = rows["broker"].astype(np.int64)
    spent = rows["finish_ns"] - rows["time_ns"]
    yield from _dealt_groups(task, "queues", {"broker": broker}, spent)
    service = rows["service"].astype(np.int64)
    yield "events", 0, _counted({"service": service, "start": rows["time_ns"] // task.width_ns})
    came = (rows["link"] >= 0) & (rows["kind"] == MESSAGE)  # a broker is told of faults at a link, too
    yield "handled", 0, _counted({"service": service[came], "carries": _carry(task, rows)[came].astype(np.int64)})


def _drawn(task: Pass, rows: Columns) -> Blocks:
    """What a report of a long run counts of events, and those that it draws one by one."""
    yield "drawn", 0, _chosen(rows, sampling.in_sample(task.sample, rows))
    service, broker = rows["service"].astype(np.int64), rows["broker"].astype(np.int64)
    stretch, moment = (stretch_of(rows["time_ns"], task.span_ns, many) for many in (task.stretches, task.moments))
    over = (rows["link"] >= 0) & (rows["kind"] == MESSAGE)
    links = {"service": service[over], "link": rows["link"][over].astype(np.int64), "stretch": stretch[over]}
    yield "traffic", 0, _counted(links)
    yield "at_brokers", 0, _counted({"service": service, "broker": broker, "stretch": stretch})
    yield "moments", 0, _summed({"service": service, "moment": moment}, {"events": over | True, "messages": over})
    of = over & (rows["body"] >= 0)
    about = _counted({"service": service[of], "moment": moment[of], "publication": rows["body"][of]})
    yield from dealt(task.tasks, "about", about, about["publication"])


def _samples(task: Pass, rows: Columns) -> Blocks:
    rows = _chosen(rows, rows["time_ns"] >= task.warm_up_ns)
    yield from dealt(task.tasks, "samples", rows, rows["broker"])


def _origins(task: Pass, publication: Array) -> Array:
    """The broker at which each publication entered, -1 for what no client published."""
    if not task.publisher.size:
        return np.full(publication.size, -1)
    client = publication >> 32
    at = np.minimum(np.searchsorted(task.publisher, client), task.publisher.size - 1)
    return np.where(task.publisher[at] == client, task.origin[at], -1)


def _chosen(rows: Columns, which: Array) -> Columns:
    return rows if which.all() else {name: column[which] for name, column in rows.items()}


def dealt(tasks: int, what: str, rows: Columns, key: Array) -> Blocks:
    """Rows to the tasks that merge them, those of one key to one."""
    key = key.astype(np.int64)
    to = ((key ^ (key >> 32)) % tasks).astype(np.uint16)
    order = np.argsort(to, kind="stable")
    bounds = np.searchsorted(to[order], np.arange(tasks + 1))
    for number in range(tasks):
        mine = order[bounds[number] : bounds[number + 1]]
        if mine.size:
            yield what, number, {name: column[mine] for name, column in rows.items()}


_LOOKS: dict[str, Callable[[Pass, Columns], Blocks]] = {
    "deliveries": _deliveries, "hops": _hops, "samples": _samples, "publications": _publications,
    "sent": _sent, "losses": _losses,
}  # fmt: skip


# ---- groups


def _packed(keys: Mapping[str, Array]) -> tuple[Array, dict[str, tuple[int, int]]]:
    """Several columns as one number, in their order; per column its least value and how many bits it has."""
    packed, how = np.zeros(next(iter(keys.values())).size, np.int64), {}
    for name, column in keys.items():
        least = int(column.min()) if column.size else 0
        bits = int(column.max() - least).bit_length() if column.size else 0
        packed = packed << bits | (column.astype(np.int64) - least)
        how[name] = (least, bits)
    if sum(bits for _, bits in how.values()) > 62:
        raise OverflowError(f"no 62 bits hold {', '.join(keys)}")
    return packed, how


def _unpacked(packed: Array, how: dict[str, tuple[int, int]]) -> Columns:
    found = {}
    for name, (least, bits) in reversed(how.items()):
        found[name] = (packed & (1 << bits) - 1) + least
        packed = packed >> bits
    return {name: found[name] for name in how}


def _counted(keys: Mapping[str, Array]) -> Columns:
    packed, how = _packed(keys)
    groups, count = np.unique(packed, return_counts=True)
    return {**_unpacked(groups, how), "count": count}


def _as_one(group: Array, values: Array) -> tuple[Array, int, int] | None:
    """Group and value as one number, which is sorted three times as fast; with the bits and the least of values."""
    if values.dtype.kind != "i" or not values.size:
        return None
    least = int(values.min())
    bits = int(values.max() - least).bit_length()
    return (group << bits | (values - least), bits, least) if bits + int(group.max()).bit_length() <= 63 else None


def _order(group: Array, values: Array) -> Array:
    """What sorts by group and value."""
    one = _as_one(group, values)
    if one is not None:
        return np.argsort(one[0])
    return np.lexsort((values, group)) if group.any() else np.argsort(values)


def _sorted(group: Array, values: Array) -> tuple[Array, Array]:
    """Both, by group and value."""
    one = _as_one(group, values)
    if one is not None:
        both, bits, least = np.sort(one[0]), *one[1:]
        return both >> bits, (both & (1 << bits) - 1) + least
    if not group.any():
        return group, np.sort(values)
    order = np.lexsort((values, group))
    return group[order], values[order]


def _dealt_groups(
    task: Pass, what: str, keys: Mapping[str, Array], values: Array, links: Array | None = None
) -> Blocks:
    """Of each group its count, sum, maximum and sorted values, or every s-th of many; dealt by group."""
    if not values.size:
        return
    packed, how = _packed(keys)
    grouped, ordered = _sorted(packed, values)
    begin = begins(grouped)
    groups = grouped[begin]
    count = np.diff(np.r_[begin, values.size])
    every = -(-count // KEPT)
    rows = {**_unpacked(groups, how), "count": count, "every": every}
    rows |= {"sum": np.add.reduceat(ordered, begin), "max": ordered[begin + count - 1]}
    rows["links"] = np.zeros(count.size, np.int64)
    if links is not None:
        at = np.searchsorted(groups, packed)
        rows["links"] = np.bincount(at, links, count.size).astype(np.int64)
    sizes = -(-count // every)
    kept = [ordered[first : first + size] for first, size in zip(begin.tolist(), count.tolist())]
    for group in np.flatnonzero(every > 1).tolist():
        step = int(every[group])
        kept[group] = kept[group][np.minimum(np.arange(sizes[group]) * step + step // 2, count[group] - 1)]
    mix = sum(rows[name] * (2 * i + 1) for i, name in enumerate(keys))
    to = mix % task.tasks
    for target in np.unique(to).tolist():
        mine = np.flatnonzero(to == target)
        pieces = [kept[i] for i in mine.tolist()]
        offsets = pa.array(np.r_[0, np.cumsum(sizes[mine])], pa.int32())
        values_of = pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(pieces)))
        yield what, target, {**{name: column[mine] for name, column in rows.items()}, "values": values_of}


def distributed(table: pa.Table) -> Columns:
    """Groups whose parts are put together: count, sum, percentiles, maximum."""
    measures = ("count", "every", "sum", "max", "links", "values")
    keys = [name for name in table.column_names if name not in measures]
    parts = _columns(table.select([name for name in table.column_names if name != "values"]))
    packed, how = _packed({name: parts[name] for name in keys})
    groups, part_of = np.unique(packed, return_inverse=True)
    lists = table.column("values").combine_chunks()
    sizes = np.diff(lists.offsets.to_numpy())
    values = lists.flatten().to_numpy()
    group, weight = np.repeat(part_of, sizes), np.repeat(parts["every"], sizes)
    # The last of a part stands for what is left.
    ends = np.cumsum(sizes) - 1
    weight[ends] = parts["count"] - (sizes - 1) * parts["every"]
    count = np.zeros(groups.size, np.int64)
    np.add.at(count, part_of, parts["count"])
    found: Columns = {**_unpacked(groups, how), "count": count}
    order = _order(group, values)
    ordered, reach = values[order], np.cumsum(weight[order])
    before = np.cumsum(count) - count
    for share in SHARES:
        # The smallest value with this share at or below it.
        rank = np.maximum(np.ceil(share * count).astype(np.int64), 1)
        found[f"p{share * 100:g}"] = ordered[np.searchsorted(reach, before + rank)]
    for name in ("sum", "links"):
        order = np.lexsort((parts[name], part_of))  # sums of fractions are the same in whatever order parts come
        found[name] = np.add.reduceat(parts[name][order], begins(part_of[order]))
    found["max"] = np.full(groups.size, parts["max"].min())
    np.maximum.at(found["max"], part_of, parts["max"])
    return found


def _sampled(rows: Columns) -> Iterator[tuple[str, Columns]]:
    """Table sizes by service and broker, and queues by broker, which each sample tells once for every service."""
    packed, how = _packed({name: rows[name] for name in ("service", "broker")})
    order = np.lexsort((rows["time_ns"], packed))
    packed, entries = packed[order], rows["entries"][order]
    begin = begins(packed)
    count = np.diff(np.r_[begin, packed.size])
    yield "tables", {
        **_unpacked(packed[begin], how), "count": count, "sum": np.add.reduceat(entries, begin),
        "max": np.maximum.reduceat(entries, begin), "last": entries[begin + count - 1],
    }  # fmt: skip
    names = ("broker", "time_ns", "backlog_ns", "queued")
    order = np.lexsort(tuple(rows[name] for name in reversed(names)))
    broker, time, backlog, queued = (rows[name][order] for name in names)
    new = np.ones(order.size, np.bool_)
    new[1:] = np.any([each[1:] != each[:-1] for each in (broker, time, backlog, queued)], axis=0)
    broker, backlog, queued = broker[new], backlog[new], queued[new]
    begin = begins(broker)
    yield "waiting", {
        "broker": broker[begin], "count": np.diff(np.r_[begin, broker.size]),
        "backlog": np.add.reduceat(backlog, begin), "backlog_max": np.maximum.reduceat(backlog, begin),
        "queued": np.add.reduceat(queued.astype(np.int64), begin), "queued_max": np.maximum.reduceat(queued, begin),
    }  # fmt: skip


# ---- ways


def _came_over(task: Pass, steps: Columns, arrived: Columns) -> Columns:
    """How many deliveries came over how many links, and how many links lead there at least."""
    arrived = _chosen(arrived, _origins(task, arrived["publication"]) >= 0)
    publications, number = np.unique(steps["publication"], return_inverse=True)
    keys = publications.size * task.brokers
    moments, order = Moments.of(keys, number * task.brokers + steps["broker"], steps["finish_ns"], steps["link"])
    ordered = {name: column[order] for name, column in steps.items()}
    came_from = moments.senders(number[order] * task.brokers, ordered, task.source, task.delay_ns)
    hops = links_from(came_from)
    # A delivery is made by a copy that was handled there and done then; of several the one that came the shortest way.
    begin = begins(moments.code)
    hops = np.minimum.reduceat(hops, begin) if hops.size else hops
    number = np.minimum(np.searchsorted(publications, arrived["publication"]), publications.size - 1)
    at = moments.latest(number * task.brokers + arrived["broker"], arrived["finish_ns"])
    there = (at >= 0) & (publications[number] == arrived["publication"])
    there[there] = moments.finish[at[there]] == arrived["finish_ns"][there]
    came = hops[np.searchsorted(begin, at[there], side="right") - 1]
    service, broker = arrived["service"][there].astype(np.int64), arrived["broker"][there]
    path = task.path[_origins(task, arrived["publication"][there])]
    shortest = np.where(path >= 0, task.shortest_hops[path, broker], 0)
    packed, how = _packed({"service": service, "hops": came})
    groups, group, count = np.unique(packed, return_inverse=True, return_counts=True)
    least, known = (np.bincount(group, weight, groups.size).astype(np.int64) for weight in (shortest, path >= 0))
    return {**_unpacked(groups, how), "count": count, "shortest": least, "known": known}


# ---- how publications spread

_NONE: Columns = {
    name: np.empty(0, np.int64)
    for name in ("publication", "service", "broker", "link", "time_ns", "finish_ns", "size_bytes")
}


def stretch_of(time_ns: Array, span_ns: int, stretches: int) -> Array:
    """The stretch of each time, of so many into which a run is divided."""
    return np.clip((time_ns * (stretches / max(1, span_ns))).astype(np.int64), 0, stretches - 1)


def _carried(about: Columns, sent: Columns | None) -> Columns:
    """How many messages carried a publication, of whatever type they were."""
    is_one = np.isin(about["publication"], (sent or _NONE)["publication"])
    keys = {name: about[name][is_one] for name in ("service", "moment")}
    return _summed(keys, {"carried": about["count"][is_one]})


def _time_to_all(task: Pass, rows: Columns) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """How long publications took until they were delivered last."""
    all_of_it, _ = _longest(rows["service"], rows["publication"], rows["latency"])
    yield from _unfinished(task, "to_all", all_of_it["service"], all_of_it["latency"])


def _unfinished(task: Pass, what: str, service: Array, values: Array) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Values by service, for the driver to put together with those of other tasks (`distributed`)."""
    for _, _, rows in _dealt_groups(task, what, {"service": service}, values):
        yield what, rows


def _spread(
    task: Pass, steps: Columns, arrived: Columns, sent: Columns, lost: Columns
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What became of the publications of one task. Those of the warm-up count for bytes alone."""
    found = Spread.of(task.brokers, task.source, sent, steps)
    service, copies = found.sent["service"].astype(np.int64), found.counted()
    yield "copied", _bytes_of(found, service, copies, lost)
    late = found.sent["time_ns"] >= task.warm_up_ns
    reached, rounds = found.reached()
    after = np.bincount(reached, minlength=late.size)
    sums = {"publications": np.ones(late.size, np.int64), "copies": copies, "reached": after}
    yield "spread", _summed({"service": service[late]}, {name: column[late] for name, column in sums.items()})
    last = np.zeros(late.size, np.int64)
    np.maximum.at(last, reached, rounds)
    yield from _unfinished(task, "last_hop", service[late], last[late])
    shared = late & (after > 0)
    yield from _unfinished(task, "redundancy", service[shared], copies[shared] / after[shared] - 1)
    in_time = late[reached]
    of = np.concatenate([service[late], service[reached[in_time]]])
    yield "rounds", _counted({"service": of, "round": np.concatenate([last[late] * 0, rounds[in_time]])})
    yield from _handled_again(task, found, late, arrived, lost)


def _bytes_of(found: Spread, service: Array, copies: Array, lost: Columns) -> Columns:
    """The bytes of all copies, those that links lost too."""
    of = spreads.found_in(found.sent["publication"], lost["publication"])
    known = of >= 0
    known[known] = service[of[known]] == lost["service"][known]
    given = copies + np.bincount(of[known], minlength=copies.size)
    return _summed({"service": service}, {"copies": given, "bytes": given * found.sent["size_bytes"]})


def _handled_again(
    task: Pass, found: Spread, late: Array, arrived: Columns, lost: Columns
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """How many copies of a publication brokers handled, and which came for nothing."""
    counts = (found.number < 0) | late[found.number] if late.size else np.ones(found.number.size, np.bool_)
    service = found.came["service"].astype(np.int64)
    begin = begins(found.place)
    times = np.diff(np.r_[begin, found.place.size])[counts[begin]]
    useful = np.concatenate([found.places(each["publication"], each["broker"]) for each in (arrived, lost)])
    wasted = found.for_nothing(useful)
    yield "copies", _counted({"service": service[begin[counts[begin]]], "copies": times})
    over = counts & found.over
    stretch = stretch_of(found.came["time_ns"][over], task.span_ns, task.stretches)
    keys = {"service": service[over], "link": found.came["link"][over].astype(np.int64), "stretch": stretch}
    yield "waste", _summed(keys, {"copies": over[over].astype(np.int64), "for_nothing": wasted[over].astype(np.int64)})


def _summed(keys: Mapping[str, Array], values: Mapping[str, Array]) -> Columns:
    """Sums of whole numbers by group."""
    packed, how = _packed(keys)
    groups, group = np.unique(packed, return_inverse=True)
    found = _unpacked(groups, how)
    for name, column in values.items():
        found[name] = np.zeros(groups.size, np.int64)
        np.add.at(found[name], group, column)
    return found
