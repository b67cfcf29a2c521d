"""What tasks of Spark do with the rows of a trace to audit it: one pass over each table.

    pieces ─► `Comparing.over` ─► blocks, dealt out ─► `Comparing.merged` ─► blocks for the driver

Deliveries go to tasks twice: by client and publisher, where `order` looks for duplicates and for order; and by
publication, for services whose rule has a matcher. Publications and the last time that each was handled go there too,
and all versions to every task, which then finds what was forced and what was free (`pairs`), and compares. So do the
links that each publication went over (`crossings`).

For the driver are left totals, and the first few examples of each finding.

Numbers only, and NumPy and Arrow: this module goes to the tasks by value (`sent_along`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.spark import crossings, order, outages, pairs, passes, tabled
from analysis.spark.heeded import Heeded
from analysis.spark.pairs import Lists, Publications, Stood, Versions
from analysis.spark.passes import Array, Blocks, Columns, Piece, block_of, dealt, opened
from brokers import padded
from brokers.padded import Wanted

# What is read of a table, once.
COLUMNS = {
    "deliveries": ("service", "publication", "client", "time_ns"),
    "hops": ("service", "body", "time_ns", "kind", "type", "link"),
    "publications": ("service", "publication", "time_ns", "broker", "values"),
    "losses": ("service", "body", "link", "time_ns", "reason"),
    "doubled": ("service", "body"),
}
VERSIONS = (
    "change", "interest", "operation", "broker", "client",
    "home", "issued_ns", "settled_ns", "revoked_ns", "gone_ns", "values", "unsettled", "unheard",
)  # fmt: skip
SAMPLE_STEPS = 1 << 30
COPIES = ("duplicated", "doubled")  # by a matcher that knows how many there may be
COUNTED = ("deliveries", "audited", "forced", "free", "excused", "excused_missed", "late_missed", "missed", "unwanted")


@dataclass(frozen=True)
class Judged:
    """A service whose rule has a matcher, and what its publications are judged by."""

    matcher: Any
    steps: int | None  # of a sample: publications whose hash is below
    heeds_losses: Heeded
    again_ns: int = 1 << 62  # nothing lost excuses what is sent then or later
    forgot_ns: int = 1 << 62  # what is handled then or later, and was sent before that, owes nothing
    within_ns: int = 1 << 62  # of what is handled so long after it was sent, or longer, no miss is held against it
    lasts: bool = False  # whether what was lost is sent again, however long that takes
    frugal: bool = False  # whether a publication goes over a link only if somebody behind may get it
    healed_ns: int = 1 << 62  # from then on all is owed again after faults

    def forgotten(self, time_ns: Array, end_ns: Array) -> Array:
        """Of what is sent and handled then, about what nothing is owed: a broker may have known nothing meanwhile."""
        return (end_ns >= self.forgot_ns) & (time_ns < self.again_ns)

    def mended(self, time_ns: Array) -> Array:
        """Of what is sent then, what no lost change excuses any more."""
        return time_ns >= self.again_ns

    @property
    def tables(self) -> Mapping[str, Wanted]:
        """What it reads beside."""
        return getattr(self.matcher, "tables", {})

    @property
    def counts_copies(self) -> bool:
        """Whether a client may get several, and the matcher says how many are too many."""
        return getattr(self.matcher, "counts_copies", False)

    @property
    def together(self) -> bool:
        """Whether all of the service goes to one task."""
        return getattr(self.matcher, "together", False)


@dataclass(frozen=True)
class Comparing:
    """What every task has to know. Arrays are as large as the overlay, not as the trace."""

    tasks: int  # that merge
    services: Mapping[int, Judged]
    forgetful: Mapping[int, tuple[int, int]]  # services of which brokers forgot: until when sent, and from when handled
    examples: int  # at most, of each finding
    deep: bool  # whether hops tell when a publication was handled last
    carriers: Mapping[int, tuple[int, ...]]  # by service: types of messages that carry publications
    acted_ns: Mapping[int, int]  # by service: when clients or faults last did something
    duration_ns: int
    travel_ns_max: int
    away: int  # the reason of losses by which a client had left
    never_ns: int
    cut_from_ns: int | None  # publications sent then or later may have been cut off
    marks: Array  # beginnings and ends of outages, in turn; none where nothing fails
    width_ns: int  # of stretches of time, of which the share that was delivered is told
    place: Array  # by broker
    behind: Columns  # by directed link: low, high, inside

    @property
    def of_deliveries(self) -> tuple[str, ...]:
        """The columns that are read of them: when what came was sent matters only where a broker forgot."""
        return (*COLUMNS["deliveries"], "published_ns") if self.forgetful else COLUMNS["deliveries"]

    def key_of(self, service: int, key: Array) -> Array:
        """By what rows of a service are dealt out: the same for all where it goes to one task."""
        judged = self.services.get(service)
        return np.zeros_like(key) if judged is not None and judged.together else key

    def over(self, pieces: Sequence[Piece]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The pass over pieces of the trace, which a task is given by their numbers."""

        def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from self.look(pieces[number])

        return look

    def look(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """One piece, dealt out."""
        table = piece.rows()
        for look in (_LOOKS.get(piece.table, _nothing), _beside(piece.table)):
            for what, task, rows in look(self, table):
                yield block_of(what, task, rows)

    def spread(self, service: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The versions of a service, to every task."""

        def deal(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows:
                    rows = dict(zip(VERSIONS, batch.select(VERSIONS).columns))
                    for task in range(1 if self.services[service].together else self.tasks):
                        yield block_of(f"versions {service}", task, rows)

        return deal

    def merged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All that was dealt to one task, put together. Spark may have one task do what was dealt to several."""
        found: dict[str, list[pa.Table]] = {}
        first: dict[str, int] = {}
        for batch in batches:
            for what, task, block in zip(*(batch.column(name) for name in ("what", "task", "block"))):
                what = what.as_py()
                if not what.startswith("versions") or first.setdefault(what, task.as_py()) == task.as_py():
                    found.setdefault(what, []).append(opened(block.as_buffer()))
        tables = {what: pa.concat_tables(parts).combine_chunks() for what, parts in found.items()}
        twice = tabled.numbers(tables.pop("doubled")) if "doubled" in tables else {}
        crossed = {service: self._crossed(service, tables, twice) for service in self.carriers}
        for service, rows in crossed.items():
            yield from self._again(service, rows)
        if "ended" in tables:
            yield block_of("ended", 0, tabled.numbers(tables["ended"]))
        if "arrived" in tables:
            yield from self._in_order(tabled.numbers(tables.pop("arrived")), twice)
        for service, judged in self.services.items():
            names = ("delivered", *COLUMNS, "versions", *(f"beside {name}" for name in judged.tables))
            mine = {name: tables.get(f"{name} {service}") for name in names}
            told = mine.values() if judged.together else (mine["publications"], mine["delivered"])
            if any(each is not None for each in told):
                yield from self._compared(service, judged, mine, crossed.get(service, {}), twice)

    # ---- duplicates and order

    def _in_order(self, rows: Columns, twice: Columns) -> Iterator[pa.RecordBatch]:
        """Duplicates, but for those of publications that a link doubled, and what came after a later one."""
        for service in np.unique(rows["service"]).tolist():
            mine = rows["service"] == service
            client, publication, time = (rows[name][mine] for name in ("client", "publication", "time_ns"))
            sort, again, latest, late = order.looked_through(client, publication, time)
            sorted_rows = {"publication": publication[sort], "client": client[sort], "delivered_ns": time[sort]}
            free = again & False
            if service in self.services and self.services[service].counts_copies:
                again = free
            if twice:
                free = again & np.isin(publication[sort], _doubled_of(service, twice))
                again &= ~free
            if service in self.forgetful:  # a broker may have forgotten that it had delivered it
                again_ns, forgot_ns = self.forgetful[service]
                again &= (time[sort] < forgot_ns) | (rows["published_ns"][mine][sort] >= again_ns)
            counts = {"duplicated": again, "doubled": free, "out_of_order": late}
            totals = {name: [int(which.sum())] for name, which in counts.items()}
            yield block_of("ordered", 0, {"service": [service], **totals})
            yield from self._examples(f"duplicated {service}", sorted_rows, again)
            yield from self._examples(
                f"out_of_order {service}", {**sorted_rows, "later_one_delivered_ns": latest}, late
            )

    def _examples(self, what: str, rows: Mapping[str, Array], which: Array) -> Iterator[pa.RecordBatch]:
        """The first few, by publication and client."""
        at = np.flatnonzero(which)
        if at.size:
            first = at[np.lexsort((rows["client"][at], rows["publication"][at]))][: self.examples]
            yield block_of(what, 0, {name: column[first] for name, column in rows.items()})

    # ---- links

    def _crossed(self, service: int, tables: dict[str, pa.Table], twice: Columns) -> Columns:
        """Each publication and link once; how often more counts where nothing excuses it."""
        table = tables.pop(f"crossed {service}", None)
        if table is None:
            return {}
        rows = tabled.numbers(table)
        found = crossings.by_link(rows)
        excused = _doubled_of(service, twice)
        if service in self.forgetful:
            excused = np.concatenate((excused, crossings.forgotten(rows, *self.forgetful[service])))
        found["more"] = np.where(np.isin(found["publication"], excused), 0, found["more"])
        return found

    def _again(self, service: int, rows: Columns) -> Iterator[pa.RecordBatch]:
        """How often a publication went over a link once more, with examples."""
        if rows:
            yield block_of("crossed", 0, {"service": [service], "twice": [int(rows["more"].sum())]})
            more = tabled.taken(rows, np.flatnonzero(rows["more"]))
            for what, some in crossings.first_few(f"twice {service}", more, self.examples):
                yield block_of(what, 0, some)

    # ---- pairs

    def _compared(
        self, service: int, judged: Judged, tables: Mapping[str, pa.Table | None], crossed: Columns, twice: Columns
    ) -> Iterator[pa.RecordBatch]:
        """Decisions about the publications of a service beside its deliveries, some publications at a time."""
        there = tabled.numbers(tables["delivered"], "publication", "client", "time_ns")
        there = pairs.delivered(*there.values())
        publications = self._publications(judged, tables)
        stood = Stood(publications, _versions(judged, tables["versions"]), self, judged)
        wasting = crossings.Wasting(crossed, stood.versions.client, stood.versions.home, self.behind) if (
            judged.frugal and crossed
        ) else None  # fmt: skip
        more = {name: tabled.rows(tables[f"beside {name}"], wanted.columns) for name, wanted in judged.tables.items()}
        if judged.together:
            for name, columns in (("handled", ("body", "time_ns")), ("lost", ("body", "link"))):
                more[name] = tabled.rows(tables[{"handled": "hops", "lost": "losses"}[name]], columns)
        totals = dict.fromkeys((*COUNTED, *(COPIES if judged.counts_copies else ())), 0)
        totals["audited"] = publications.publication.size
        for found in _found(judged.matcher, stood, more, there):
            _free(found, publications)
            if wasting is not None and "later" not in found:
                wasting.heed(found["publication"][found["allowed"]], found["client"][found["allowed"]])
            found["late_missed"] = _late(found, publications, judged.within_ns)
            if judged.counts_copies:
                _several(found, publications, _doubled_of(service, twice))
            if judged.healed_ns < self.never_ns:
                yield block_of(f"healed {service}", 0, _since(found, publications, judged.healed_ns))
            yield from self._told(service, totals, found, publications)
        yield block_of("compared", 0, {"service": [service], **{name: [count] for name, count in totals.items()}})
        if judged.frugal:
            wasted = wasting.told(publications.publication) if wasting else {"publication": np.empty(0, np.int64)}
            yield block_of("crossed", 0, {"service": [service], "waste": [wasted["publication"].size]})
            for what, rows in crossings.first_few(f"waste {service}", wasted, self.examples):
                yield block_of(what, 0, rows)

    def _told(
        self, service: int, totals: dict[str, int], found: Columns, publications: Publications
    ) -> Iterator[pa.RecordBatch]:
        """Add to the totals; examples of what is wrong."""
        came, allowed = found["times"] > 0, found["allowed"]
        counts = {
            "deliveries": found["times"], "forced": found["forced"], "free": allowed & ~found["forced"],
            "excused": found["excused"], "excused_missed": found["excused"] & ~came,
            "late_missed": found["late_missed"], "missed": found["missed"], "unwanted": found["unwanted"],
        }  # fmt: skip
        for name, count in (*counts.items(), *((name, found[name]) for name in COPIES if name in totals)):
            totals[name] += int(count.sum())
        wanted = found["forced"] | found["excused"]
        if self.marks.size and wanted.any():
            sent = tabled.looked_up(publications.publication, publications.time_ns, found["publication"])
            yield block_of(f"share {service}", 0, outages.by_stretch(sent, wanted, came, self.marks, self.width_ns))
        for name in ("missed", "unwanted"):
            if found[name].any():
                sent = tabled.looked_up(publications.publication, publications.time_ns, found["publication"])
                times = {"delivered_ns": np.where(came, found["first_ns"], -1), "sent_ns": sent}
                rows = {"publication": found["publication"], "client": found["client"], **times}
                yield from self._examples(f"{name} {service}", rows, found[name])
        if "duplicated" in totals:
            rows = {"publication": found["publication"], "client": found["client"], "delivered_ns": found["first_ns"]}
            yield from self._examples(f"duplicated {service}", rows, found["duplicated"])

    def _publications(self, judged: Judged, tables: Mapping[str, pa.Table | None]) -> Publications:
        rows = tabled.numbers(tables["publications"], "publication", "time_ns", "broker")
        by_time = np.argsort(rows["time_ns"], kind="stable")
        publication, time, broker = (rows[name][by_time] for name in ("publication", "time_ns", "broker"))
        end = np.minimum(time + self.travel_ns_max, self.never_ns)
        if judged.lasts:
            end = np.full(time.size, self.never_ns - 1)
        if self.deep:
            handled = tabled.numbers(tables["hops"], "body", "time_ns")
            last = tabled.looked_up(*tabled.greatest(handled["body"], handled["time_ns"]), publication)
            end = np.maximum(time, last)
        cut = np.zeros(time.size, np.bool_) if self.cut_from_ns is None else time >= self.cut_from_ns
        values = tabled.values(tables["publications"], by_time)
        grid = judged.matcher.publications(*values)
        unheard = self._unheard(publication, tables["losses"])
        forgotten, mended = judged.forgotten(time, end), judged.mended(time)
        return Publications(publication, time, end, self.place[broker], cut, forgotten, mended, grid, unheard)

    def _unheard(self, publication: Array, table: pa.Table | None) -> Lists:
        """What lies behind the links that lost a copy, by publication."""
        if table is None:
            nobody = {name: column[:0] for name, column in self.behind.items()}
            return Lists(np.zeros(publication.size + 1, np.int64), nobody)
        lost = tabled.numbers(table, "body", "link")
        by_id = np.argsort(publication, kind="stable")
        ids = publication[by_id]
        at = np.searchsorted(ids, lost["body"])
        known = np.searchsorted(ids, lost["body"], side="right") > at
        row, link = np.unique(np.array([by_id[at[known]], lost["link"][known]], np.int64), axis=1)
        starts = np.searchsorted(row, np.arange(publication.size + 1))
        return Lists(starts, {name: column[link] for name, column in self.behind.items()})


def _doubled_of(service: int, twice: Columns) -> Array:
    """The publications of a service of which a link doubled a copy."""
    return twice["body"][twice["service"] == service] if twice else np.empty(0, np.int64)


def _since(found: Columns, publications: Publications, healed_ns: int) -> Columns:
    """How many decisions about what was published then or later were forced, missed or unwanted."""
    late = np.isin(found["publication"], publications.publication[publications.time_ns >= healed_ns])
    return {name: np.array([np.count_nonzero(found[name] & late)]) for name in ("forced", "missed", "unwanted")}


def _free(found: Columns, publications: Publications) -> None:
    """Nothing is owed about what was under way while some broker may have known nothing of anybody."""
    if publications.forgotten.any():
        free = np.isin(found["publication"], publications.publication[publications.forgotten])
        found["excused"] = found["excused"] | (found["forced"] & free)
        for name in ("forced", "missed", "unwanted"):
            found[name] = found[name] & ~free


def _several(found: Columns, publications: Publications, doubled: Array) -> None:
    """Of copies that are too many, those that nothing excuses."""
    forgotten = publications.publication[publications.forgotten]
    free = np.isin(found["publication"], doubled)
    found["doubled"] = np.where(free, found["more"], 0)
    found["duplicated"] = np.where(free | np.isin(found["publication"], forgotten), 0, found["more"])


def _late(found: Columns, publications: Publications, within_ns: int) -> Array:
    """What is missed of publications that were under way for longer than exactness is promised: that is free."""
    under_way = publications.end_ns - publications.time_ns
    late = found["missed"] & np.isin(found["publication"], publications.publication[under_way >= within_ns])
    for name in ("forced", "missed"):
        found[name] = found[name] & ~late
    return late


def _found(matcher: Any, stood: Stood, more: Mapping[str, Columns], there: Columns) -> Iterator[Columns]:
    """What is found of all pairs that are allowed or were delivered (`pairs.beside`), some publications at a time."""
    if hasattr(matcher, "judged"):
        yield from matcher.judged(stood, more, there)
        return
    left = np.ones(there["publication"].size, np.bool_)
    own = hasattr(matcher, "decisions")
    for decided in matcher.decisions(stood) if own else pairs.decisions(matcher, stood):
        rows = np.unique(decided["publication"])
        decided["publication"] = stood.publications.publication[decided["publication"]]
        mine = tabled.of(there["publication"], stood.publications.publication[rows])
        left[mine] = False
        yield pairs.beside(decided, tabled.taken(there, mine))
    nothing = {name: np.empty(0, np.int64) for name in ("publication", "client", "forced", "excused", "since_ns")}
    yield pairs.beside(nothing, tabled.taken(there, np.flatnonzero(left)))


# ---- what each table is looked through for


def _deliveries(task: Comparing, table: pa.Table) -> Blocks:
    rows = tabled.numbers(table.select(task.of_deliveries))
    ordered = tabled.taken(rows, np.flatnonzero(rows["publication"] >= 0))
    key = ordered["client"] * 31 + (ordered["publication"] >> 32)
    yield from dealt(task.tasks, "arrived", ordered, key)
    for service in task.services:
        yield from _dealt_of(task, service, "delivered", rows, "publication")


def _hops(task: Comparing, table: pa.Table) -> Blocks:
    rows = tabled.numbers(table.select(COLUMNS["hops"]))
    yield "ended", 0, crossings.ended(rows, task.acted_ns)
    for service, types in task.carriers.items():
        carrying = crossings.carrying(rows, service, types, service in task.forgetful)
        yield from dealt(task.tasks, f"crossed {service}", carrying, task.key_of(service, carrying["publication"]))
    for service in task.services:
        mine = (rows["service"] == service) & (rows["body"] >= 0)
        body, time = tabled.greatest(rows["body"][mine], rows["time_ns"][mine])
        least = {"service": np.full(body.size, service), "body": body, "time_ns": time}
        yield from _dealt_of(task, service, "hops", least, "body")


def _losses(task: Comparing, table: pa.Table) -> Blocks:
    rows = tabled.numbers(table.select(COLUMNS["losses"]))
    gone = rows["reason"] == task.away  # what came too late for a client was decided on then, as if handled
    lost = tabled.taken(rows, np.flatnonzero(rows["reason"] < task.away))
    late = tabled.taken(rows, np.flatnonzero(gone))
    for service, judged in task.services.items():
        if task.deep and gone.any():
            told = {name: late[name] for name in ("service", "body", "time_ns")}
            yield from _dealt_of(task, service, "hops", told, "body")
        if judged.heeds_losses:
            heeded = tabled.taken(lost, np.flatnonzero(lost["link"] < judged.heeds_losses.before))
            some = {name: heeded[name] for name in ("service", "body", "link")}
            yield from _dealt_of(task, service, "losses", some, "body")


def _doubled(task: Comparing, table: pa.Table) -> Blocks:
    """To every task: deliveries are dealt by client."""
    rows = tabled.numbers(table)
    rows = tabled.taken(rows, np.flatnonzero(rows["body"] >= 0))
    for number in range(task.tasks if rows["body"].size else 0):
        yield "doubled", number, rows


def _publications(task: Comparing, table: pa.Table) -> Blocks:
    rows = tabled.numbers(table.select(["service", "publication"]))
    for service, judged in task.services.items():
        mine = np.flatnonzero((rows["service"] == service) & _sampled(judged, rows["publication"]))
        names = ("publication", "time_ns", "broker", "values")
        numbered = {"at": mine, "publication": rows["publication"][mine]}
        key = task.key_of(service, numbered["publication"])
        for what, number, some in dealt(task.tasks, f"publications {service}", numbered, key):
            part = table.take(pa.array(some["at"])).combine_chunks()
            yield what, number, {name: part.column(name) for name in names}


def _nothing(task: Comparing, table: pa.Table) -> Blocks:
    return iter(())


def _beside(name: str) -> Callable[[Comparing, pa.Table], Blocks]:
    """What judges read of a table, beside what everybody is told of it."""

    def look(task: Comparing, table: pa.Table) -> Blocks:
        for service, judged in task.services.items():
            wanted = judged.tables.get(name)
            if wanted is not None and (name != "losses" or judged.heeds_losses or wanted.always):
                mine = table.column("service").to_numpy() == service
                key = np.zeros(mine.size, np.int64)
                if wanted.only is not None:
                    mine &= np.isin(table.column(wanted.only[0]).to_numpy(), wanted.only[1])
                if wanted.key is not None:
                    key = table.column(wanted.key).to_numpy()
                    mine &= _sampled(judged, key)
                at = np.flatnonzero(mine)
                for what, number, some in dealt(task.tasks, f"beside {name} {service}", {"at": at}, key[at]):
                    part = table.take(pa.array(some["at"])).combine_chunks()
                    yield what, number, {each: part.column(each) for each in wanted.columns}

    return look


_LOOKS: dict[str, Callable[[Comparing, pa.Table], Blocks]] = {
    "deliveries": _deliveries, "hops": _hops, "losses": _losses, "publications": _publications, "doubled": _doubled,
}  # fmt: skip


def _dealt_of(task: Comparing, service: int, what: str, rows: Columns, key: str) -> Blocks:
    """Rows of a service, and of its sample, to the tasks that merge them."""
    mine = (rows["service"] == service) & _sampled(task.services[service], rows[key])
    chosen = {name: column[mine] for name, column in rows.items() if name != "service"}
    yield from dealt(task.tasks, f"{what} {service}", chosen, task.key_of(service, chosen[key]))


def _sampled(judged: Judged, publication: Array) -> Array:
    if judged.steps is None:
        return np.ones(publication.size, np.bool_)
    return hashed(publication) % SAMPLE_STEPS < judged.steps


def hashed(number: Array) -> Array:
    """What Spark calls xxhash64 of a long."""
    prime = [np.uint64(each) for each in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
    )]  # fmt: skip

    def turned(value: Array, bits: int) -> Array:
        return value << np.uint64(bits) | value >> np.uint64(64 - bits)

    with np.errstate(over="ignore"):
        value = turned(number.astype(np.int64).view(np.uint64) * prime[1], 31) * prime[0]
        value = turned(np.uint64(42 + 8) + prime[4] ^ value, 27) * prime[0] + prime[3]
        for bits, factor in ((33, prime[1]), (29, prime[2])):
            value = (value ^ value >> np.uint64(bits)) * factor
    return (value ^ value >> np.uint64(32)).view(np.int64)


# ---- going along


def sent_along(matchers: Iterable[Any]) -> None:
    """From now on this module, what it needs, and those of matchers go to tasks as they are."""
    from pyspark import cloudpickle

    passes.sent_along()
    theirs = {sys.modules[base.__module__] for each in matchers for base in type(each).__mro__ if base is not object}
    for module in (padded, crossings, order, outages, pairs, tabled, sys.modules[__name__], *theirs):
        cloudpickle.register_pickle_by_value(module)


def _versions(judged: Judged, table: pa.Table | None) -> Versions:
    columns: dict[str, Any] = dict(tabled.numbers(table, *VERSIONS[:-3]))
    fields = {"unsettled": ("begin", "end"), "unheard": ("low", "high", "inside")}
    lists: dict[str, Any] = {name: tabled.lists(table, name, of) for name, of in fields.items()}
    return Versions(**columns, values=judged.matcher.interests(*tabled.values(table)), **lists)
