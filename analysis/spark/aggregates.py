"""What a run cost and how well it served: aggregates of its trace, kept as Parquet beside it.

`analyze` makes these tables under <run>/analysis/<name>/; docs/analysis.md describes their columns.

    services    deliveries and latency per service          clients, brokers   the same per client, per broker
    load        what each broker did                        links              what went over each link
    balance     Gini coefficient and maximum over mean      cost               messages and bytes per delivery
    hops        how many links deliveries came over         stretch            latency over the quickest path's
    tables      table sizes per broker                      queues             waiting per broker
    series      the run over time

Rules:
- Percentiles are values that occur, the smallest with that share at or below it: exact up to 10,000 values,
  above that within a ten-thousandth of the rank.
- With a warm-up T, publications sent before T and their deliveries are left out, and events, samples and time
  before T. `load`, `links` and `balance` are totals of the whole run, which the trace does not divide.
- What the trace level left out is said, and the rest is done.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.report.sampling import Sample
from analysis.spark import passes, watched
from analysis.spark.passes import BLOCK, Array, Pass
from analysis.spark.stretches import STRETCHES, span_of, stretches_of
from analysis.spark.trace import STAMP, Trace, checked, in_one_partition, rows_of, services_of, write_json
from analysis.spark.watched import Watches
from brokers.errors import EnvironmentProblem, InvalidInput
from brokers.metrics import padding_of
from protocols.gossip.attacked import HONEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAIRS_MAX = 4_000_000  # of publishing broker and broker, for which distances are computed
SERIES_ROWS_MAX = 100
SHOWN_ROWS_MAX = 10
_WIDTHS_NS = [10**k * f for k in range(6, 18) for f in (1, 2, 5)]
_ROWS_PER_TASK = 500_000  # of those that merge

@dataclass
class Analysis:
    """The aggregates of a run: where they are, and the first rows of each."""

    run: str
    folder: Path
    warm_up_ns: int
    notes: list[str] = field(default_factory=list)
    shown: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Plain data, for --json."""
        tables = {
            name: {"path": str(self.folder / name), "rows": self.rows[name], "first": shown}
            for name, shown in self.shown.items()
        }
        return {"run": self.run, "warm_up_ns": self.warm_up_ns, "notes": self.notes, "tables": tables}


class _Aggregates:
    """The tables of one run. What tasks found, which is small, is put together here."""

    def __init__(self, trace: Trace, warm_up_ns: int) -> None:
        self.trace = trace
        self.warm_up_ns = warm_up_ns
        self.notes: list[str] = []

    # ---- the passes

    @cached_property
    def published(self) -> dict[str, pa.Table]:
        """What the pass over publications found; it says where distances are asked from."""
        return _put_together(self._looked_through(self._pass({}), ["publications"]))

    @cached_property
    def found(self) -> dict[str, pa.Table]:
        """What one pass over all other tables found."""
        task = self._pass(self.published if self.trace.has("publications") else {})
        deep = ["hops", "sent", "losses"] if self.trace.has("hops") else []
        blocks = self._looked_through(task, ["deliveries", "samples", *deep])
        if task.tasks > 1 and blocks is not None:
            blocks = blocks.repartition(task.tasks, "task").mapInArrow(task.merged, BLOCK)
        return _put_together(blocks)

    def _looked_through(self, task: Pass, tables: Sequence[str]) -> DataFrame | None:
        run = self.trace.run
        where = {name: passes.OF.get(name, name) for name in tables}
        pieces = [
            piece
            for name, table in where.items() if self.trace.has(table)
            for piece in passes.pieces_of(name, map(str, run.parts(table)))
        ]  # fmt: skip
        if not pieces:
            return None
        parts = 1 if task.tasks == 1 else len(pieces)
        numbers = self.trace.spark.range(0, len(pieces), 1, parts)
        return numbers.mapInArrow(task.at_once(pieces) if parts == 1 else task.over(pieces), BLOCK)

    def _pass(self, published: Mapping[str, pa.Table]) -> Pass:
        passes.sent_along()
        run, network = self.trace.run, self.trace.network
        rows = sum(run.rows(name) for name in ("deliveries", "hops", "samples") if self.trace.has(name))
        pairs, path, shortest_ns, shortest_hops = np.empty((2, 0), np.int64), np.full(network.brokers, -1), [], []
        if published:
            pairs = np.unique(_arrays(published["publishers"], "client", "broker"), axis=1)
            origins = self._sampled(np.unique(published["origins"]["broker"].to_numpy()))
            path[origins] = np.arange(origins.size)
            shortest_ns = [network.distances(origin) for origin in origins.tolist()]
            shortest_hops = [network.distances(origin, "hops") for origin in origins.tolist()]
        return Pass(
            tasks=1 if in_one_partition(self.trace.spark) else max(2, rows // _ROWS_PER_TASK),
            brokers=network.brokers,
            warm_up_ns=self.warm_up_ns,
            width_ns=self.series_width_ns(),
            publications={s.number: tuple(sorted(s.kind.publications)) for s in self.trace.services},
            deep=self.trace.has("hops"),
            publisher=pairs[0], origin=pairs[1], path=path,
            shortest_ns=np.array(shortest_ns, np.int64).reshape(-1, network.brokers),
            shortest_hops=np.array(shortest_hops, np.int32).reshape(-1, network.brokers),
            source=network.source, delay_ns=network.delay_ns,
            span_ns=self.span_ns,
            stretches=self.stretches,
            sample=self.sample if self.draws else Sample.of(0),
            moments=STRETCHES,
        )  # fmt: skip

    def _sampled(self, origins: Array) -> Array:
        room = max(1, PAIRS_MAX // self.trace.network.brokers)
        if origins.size <= room:
            return origins
        self.notes.append(f"stretch: from {room:,} of the {origins.size:,} brokers at which something was published")
        return origins[np.arange(room) * origins.size // room]

    def stamp(self) -> dict[str, Any]:
        """For whoever looks at the tables later: of which run they are, and what a stretch of time is in them."""
        return {"digest": self.trace.run.digest, "warm_up_ns": self.warm_up_ns, "span_ns": self.span_ns,
                "stretches": self.stretches, "sample_parts": self.sample.parts}  # fmt: skip

    @cached_property
    def sample(self) -> Sample:
        """That of a report that is asked for no other."""
        run = self.trace.run
        return Sample.of_run(*(run.rows(name) if self.trace.has(name) else 0 for name in ("hops", "deliveries")))

    @property
    def draws(self) -> bool:
        """Whether a report has to take a sample, and has all of the run to take it from."""
        return self.trace.has("hops") and not self.sample.whole and not self.warm_up_ns

    @cached_property
    def span_ns(self) -> int:
        return span_of(self.trace.run)

    @property
    def stretches(self) -> int:
        network = self.trace.network if self.trace.has("links") else None
        places = 0 if network is None else network.source.size + network.brokers
        return stretches_of(len(self.trace.run.manifest["scenario"]["services"]), places)

    def series_width_ns(self) -> int:
        """The shortest round stretch of time that divides the run into few enough parts."""
        return next(w for w in _WIDTHS_NS if self.trace.duration_ns <= SERIES_ROWS_MAX * w)

    def _groups(
        self, what: str, *keys: str, source: Mapping[str, pa.Table] | None = None
    ) -> dict[tuple[int, ...], Any]:
        """Rows of what was found, by their keys; counts of several parts added up."""
        found: dict[tuple[int, ...], Any] = {}
        table = (self.found if source is None else source).get(what)
        for row in table.to_pylist() if table is not None else ():
            key = tuple(row.pop(name) for name in keys)
            known = found.setdefault(key, row)
            if known is not row:
                found[key] = {name: known[name] + row[name] for name in row}
        return found

    # ---- deliveries and latency

    def services(self) -> pa.Table:
        published, delivered = self._published_by("service"), self._groups("services", "service")
        rows = []
        for service in self.trace.services:
            count, each = published.get(service.number, 0), delivered.get((service.number,))
            row: dict[str, Any] = {"service": service.number, "name": service.name, "publications": count}
            row |= _distribution(each, "latency", "deliveries") | {"deliveries": each["count"] if each else 0}
            rows.append(row | {"deliveries_per_publication": row["deliveries"] / count if count else None})
        return _table(rows, service=pa.int16(), name=pa.string(), publications=pa.int64(), **_LATENCY,
                      deliveries_per_publication=pa.float64())  # fmt: skip

    def clients(self) -> pa.Table:
        groups = self._groups("clients", "service", "client", "broker")
        rows = [
            {"service": service, "client": client - self.trace.network.brokers, "broker": broker}
            | _distribution(each, "latency", "deliveries")
            for (service, client, broker), each in sorted(groups.items())
        ]
        return _table(rows, service=pa.int16(), client=pa.int64(), broker=pa.int32(), **_LATENCY)

    def brokers(self) -> pa.Table:
        rows = [
            {"service": service, "broker": broker} | _distribution(each, "latency", "deliveries")
            for (service, broker), each in sorted(self._groups("brokers", "service", "broker").items())
        ]
        return _table(rows, service=pa.int16(), broker=pa.int32(), **_LATENCY)

    def _published_by(self, key: str) -> dict[int, int]:
        found: dict[int, int] = {}
        for row in self.published["published"].to_pylist() if self.published else ():
            found[row[key]] = found.get(row[key], 0) + row["count"]
        return found

    # ---- load

    def load(self) -> pa.Table:
        columns = ["broker", "name", "messages", "deliveries", "busy_ns"]
        table = self._with_utilisation(self.trace.run.read("brokers", columns))
        return table.sort_by([("messages", "descending"), ("broker", "ascending")])

    def links(self) -> pa.Table:
        table = self._with_utilisation(self.trace.run.read("links"))
        return table.sort_by([("bytes", "descending"), ("messages", "descending"), ("link", "ascending")])

    def _with_utilisation(self, table: pa.Table) -> pa.Table:
        share = table["busy_ns"].to_numpy() / float(self.trace.duration_ns)
        return table.append_column("utilisation", pa.array(share))

    def balance(self) -> pa.Table:
        measured = {"brokers": ("messages", "busy_ns", "deliveries"), "links": ("messages", "bytes")}
        rows = [
            _evenness(self.trace.run.read(what)[column].to_numpy(), what, column)
            for what, columns in measured.items()
            for column in columns
        ]
        return _table(rows, of=pa.string(), measure=pa.string(), count=pa.int64(), mean=pa.float64(),
                      max=pa.float64(), max_over_mean=pa.float64(), gini=pa.float64())  # fmt: skip

    def cost(self) -> pa.Table:
        """One row for all services; at level full one per service too, where bytes are not known."""
        links = self.trace.run.read("links", ["messages", "bytes"])
        total = {name: int(links[name].to_numpy().sum()) for name in ("messages", "bytes")}
        delivered = int(self.trace.run.read("brokers", ["deliveries"])["deliveries"].to_numpy().sum())
        rows: list[dict[str, Any]] = [{"name": "all", **total, "deliveries": delivered}]
        if self.trace.has("hops"):
            handled = self._groups("handled", "service", "carries")
            answers = self._groups("services", "service")
            for service in sorted(self.trace.services, key=lambda s: s.name):
                carried, other = (handled.get((service.number, flag), {"count": 0})["count"] for flag in (1, 0))
                got = answers.get((service.number,), {"count": 0})["count"]
                row = {"name": service.name, "messages": carried + other, "publication_messages": carried}
                rows.append(row | {"deliveries": got})
        for row in rows:
            for name in ("messages", "bytes"):
                if name in row and row["deliveries"]:
                    row[f"{name}_per_delivery"] = row[name] / row["deliveries"]
        return _table(rows, name=pa.string(), messages=pa.int64(), publication_messages=pa.int64(), bytes=pa.int64(),
                      deliveries=pa.int64(), messages_per_delivery=pa.float64(), bytes_per_delivery=pa.float64(),
                      )  # fmt: skip

    # ---- paths

    def stretch(self) -> pa.Table:
        """Latency over that of the quickest path, for deliveries at another broker than that of the publisher."""
        rows = [
            {"service": service, **_distribution(each, "stretch", "deliveries", "")}
            | {"shortest_hops_mean": each["links"] / each["count"]}
            for (service,), each in sorted(self._groups("stretch", "service").items())
        ]
        return _table(rows, service=pa.int16(), **_measures("stretch", "deliveries", "", pa.float64()),
                      shortest_hops_mean=pa.float64())  # fmt: skip

    def hops(self) -> pa.Table:
        """How many deliveries came over how many links, beside the fewest that lead there."""
        rows = [
            {"service": service, "hops": hops, "deliveries": each["count"]}
            | {"shortest_hops_mean": each["shortest"] / each["known"] if each["known"] else None}
            for (service, hops), each in sorted(self._groups("hops", "service", "hops").items())
        ]
        return _table(rows, service=pa.int16(), hops=pa.int32(), deliveries=pa.int64(), shortest_hops_mean=pa.float64())

    # ---- how publications spread

    def spreading(self) -> pa.Table:
        """Copies of publications, and how far and how often they came."""
        found, answers = self._groups("spread", "service"), self._groups("services", "service")
        redundancy, last = self._by_service("redundancy"), self._by_service("last_hop")
        rows = []
        for (service,), each in sorted(found.items()):
            if not each["copies"]:
                continue
            duplicates, got = each["copies"] - each["reached"], answers.get((service,), {"count": 0})["count"]
            row = {"service": service, **each, "duplicates": duplicates}
            row["duplicates_per_delivery"] = duplicates / got if got else None
            row |= _distribution(redundancy.get(service), "redundancy", "", "")
            rows.append(row | _distribution(last.get(service), "last_hop", "", ""))
        return _table(rows, service=pa.int16(), publications=pa.int64(), copies=pa.int64(), reached=pa.int64(),
                      duplicates=pa.int64(), duplicates_per_delivery=pa.float64(),
                      **_measures("redundancy", "", "", pa.float64()), **_measures("last_hop", "", "", pa.int64()),
                      )  # fmt: skip

    def rounds(self) -> pa.Table:
        """Which share of the brokers that were ever reached had been by each round."""
        counts = self._groups("rounds", "service", "round")
        total: dict[int, int] = {}
        for (service, _), each in counts.items():
            total[service] = total.get(service, 0) + each["count"]
        rows: list[dict[str, Any]] = []
        for (service, number), each in sorted(counts.items()):
            if rows and rows[-1]["service"] == service:
                by_then = rows[-1]["by_then"] + each["count"]
            else:
                by_then = each["count"]
            rows.append({"service": service, "round": number, "reached": each["count"], "by_then": by_then})
            rows[-1]["share"] = by_then / total[service]
        return _table(rows, service=pa.int16(), round=pa.int32(), reached=pa.int64(), by_then=pa.int64(),
                      share=pa.float64())  # fmt: skip

    def to_all(self) -> pa.Table:
        """How long publications took until they were delivered last."""
        rows = [
            {"service": service} | _distribution(each, "time_to_all", "publications")
            for service, each in sorted(self._by_service("to_all").items())
        ]
        return _table(rows, service=pa.int16(), **_measures("time_to_all", "publications", "_ns", pa.int64()))

    def control(self) -> pa.Table:
        """Bytes of all else for each byte of copies, of a service that is alone: links count bytes of all together."""
        links = self.trace.run.read("links", ["messages", "bytes"])
        messages, size = (int(links[name].to_numpy().sum()) for name in ("messages", "bytes"))
        over = {service: each["count"] for (service,), each in self._groups("over", "service").items()}
        padding = {each.number: padding_of(each.protocol, each.options) for each in self.trace.services}
        rows = []
        for (service,), each in self._groups("copied", "service").items():
            copied = each["bytes"] + each["copies"] * padding[service]
            if copied and over.get(service) == messages:
                row = {"service": service, "copies": each["copies"], "others": messages - each["copies"]}
                row |= {"copy_bytes": copied, "other_bytes": size - copied}
                rows.append(row | {"control_bytes_per_payload_byte": (size - copied) / copied})
        return _table(rows, service=pa.int16(), copies=pa.int64(), others=pa.int64(), copy_bytes=pa.int64(),
                      other_bytes=pa.int64(), control_bytes_per_payload_byte=pa.float64())  # fmt: skip

    def copies(self) -> pa.Table:
        """How many copies of a publication the brokers handled that got one."""
        counts = self._groups("copies", "service", "copies")
        rows = [{"service": key[0], "copies": key[1], "brokers": each["count"]} for key, each in sorted(counts.items())]
        return _table(rows, service=pa.int16(), copies=pa.int64(), brokers=pa.int64())

    def waste(self) -> pa.Table:
        """Copies over each link in each stretch of time, and those that came for nothing."""
        schema = pa.schema([("service", pa.int16()), ("link", pa.int32()), ("stretch", pa.int16()),
                            ("copies", pa.int64()), ("for_nothing", pa.int64())])  # fmt: skip
        return _added(self.found.get("waste"), schema, 3)

    # ---- what a report of a long run draws

    def traffic(self) -> pa.Table:
        """Messages over each link in each stretch of time."""
        return _added(self._counts("traffic", "messages"), _counts_schema("link", "stretch", "messages"), 3)

    def handled(self) -> pa.Table:
        """Events at each broker in each stretch of time."""
        return _added(self._counts("at_brokers", "events"), _counts_schema("broker", "stretch", "events"), 3)

    def moments(self) -> pa.Table:
        """Events, messages over links, and those of them that carried a publication, in shorter stretches of time."""
        schema = _counts_schema("moment", "events", "messages", "carried")
        parts = [
            pa.table({name: table[name] if name in table.column_names else np.zeros(table.num_rows, np.int64)
                      for name in schema.names})
            for table in (self.found.get("moments"), self.found.get("carried")) if table is not None
        ]  # fmt: skip
        return _added(pa.concat_tables(parts) if parts else None, schema, 2)

    def drawn(self) -> pa.Table:
        """The events that are in the sample, in the order of time."""
        found = self.found.get("drawn")
        if found is None:
            return pa.table({})
        return found.sort_by([(name, "ascending") for name in ("time_ns", "broker", "kind", "link", "body", "cause")])

    def _counts(self, what: str, name: str) -> pa.Table | None:
        table = self.found.get(what)
        return None if table is None else table.rename_columns([*table.column_names[:-1], name])

    # ---- what brokers think of each other

    @cached_property
    def thoughts(self) -> dict[str, pa.Table]:
        """What was found in the table `scores`, where a run has one."""
        run, name = self.trace.run, "scores"
        if not self.trace.has(name) or not run.rows(name):
            return {}
        passes.sent_along(watched)
        single = in_one_partition(self.trace.spark)
        pieces = passes.pieces_of(name, map(str, run.parts(name)), watched.COLUMNS)
        tasks = 1 if single else max(2, run.rows(name) // _ROWS_PER_TASK)
        task = Watches(tasks, self.warm_up_ns, np.array(sorted(self.attackers), np.int64))
        numbers = self.trace.spark.range(0, len(pieces), 1, 1 if single else len(pieces))
        if single:
            return _put_together(numbers.mapInArrow(task.at_once(pieces), BLOCK))
        blocks = numbers.mapInArrow(task.over(pieces), BLOCK)
        for step in (task.by_broker, task.by_turn):
            blocks = blocks.repartition(tasks, "task").mapInArrow(step, BLOCK)
        return _put_together(blocks)

    @cached_property
    def attackers(self) -> dict[int, tuple[int, int, str]]:
        """Who attacks: service and broker as one number, with service, entry and behaviour."""
        if not self.trace.has("attackers"):
            return {}
        return {
            row["service"] << 32 | row["broker"]: (row["service"], row["entry"], row["behaviour"])
            for row in self.trace.run.read("attackers").to_pylist()
        }

    def scores(self) -> pa.Table:
        """What honest brokers thought of each class of their neighbours, each time that they watched."""
        names = {(service, entry): f"{entry}: {behaviour}" for service, entry, behaviour in self.attackers.values()}
        rows = self._watched_rows("scores", "service", "turn", "attacker")
        for row in rows:
            entry = row["attacker"]
            row["neighbours"] = names.get((row["service"], entry), f"{entry}: {entry}") if entry else HONEST
        percentiles = {f"score_{name}": pa.float64() for name in ("low", "median", "high")}
        return _table(rows, service=pa.int16(), turn=pa.int32(), time_ns=pa.int64(), attacker=pa.int16(),
                      neighbours=pa.string(), links=pa.int64(), **percentiles, in_mesh=pa.int64(),
                      share_of_meshes=pa.float64())  # fmt: skip

    def meshes(self) -> pa.Table:
        """Links in honest meshes, and what entered and left since brokers watched before."""
        rows = self._watched_rows("meshes", "service", "turn")
        return _table(rows, service=pa.int16(), turn=pa.int32(), time_ns=pa.int64(), brokers=pa.int64(),
                      links=pa.int64(), entered=pa.int64(), left=pa.int64())  # fmt: skip

    def _watched_rows(self, what: str, *keys: str) -> list[dict[str, Any]]:
        table = self.thoughts.get(what)
        return [] if table is None else table.sort_by([(name, "ascending") for name in keys]).to_pylist()

    def _by_service(self, what: str) -> dict[int, dict[str, Any]]:
        """Distributions of which tasks left parts."""
        table = self.found.get(what)
        found = {} if table is None else passes.distributed(table)
        columns = {name: column.tolist() for name, column in found.items()}
        return {
            service: {name: column[at] for name, column in columns.items()}
            for at, service in enumerate(columns.get("service", ()))
        }

    # ---- tables and queues

    def tables(self) -> pa.Table:
        rows = [
            {"service": service, "broker": broker, "entries_mean": each["sum"] / each["count"]}
            | {"entries_max": each["max"], "entries_last": each["last"]}
            for (service, broker), each in self._groups("tables", "service", "broker").items()
        ]
        rows.sort(key=lambda row: (row["service"], -row["entries_max"], row["broker"]))
        return _table(rows, service=pa.int16(), broker=pa.int32(), entries_mean=pa.float64(), entries_max=pa.int64(),
                      entries_last=pa.int64())  # fmt: skip

    def queues(self) -> pa.Table:
        """Samples see a queue now and then; at level full, waiting_ns is from when each event came to when it began."""
        waiting, spent = self._groups("waiting", "broker"), self._groups("queues", "broker")
        rows = []
        for broker in sorted({*waiting, *spent}):
            row: dict[str, Any] = {"broker": broker[0]}
            if each := waiting.get(broker):
                row |= {"backlog_mean_ns": each["backlog"] / each["count"], "backlog_max_ns": each["backlog_max"]}
                row |= {"queued_mean": each["queued"] / each["count"], "queued_max": each["queued_max"]}
            rows.append(row | _distribution(spent.get(broker), "in_broker", "events"))
        rows.sort(key=lambda row: (-row.get("backlog_max_ns", -1), row["broker"]))
        more = _measures("in_broker", "events", "_ns", pa.int64()) if self.trace.has("hops") else {}
        return _table(rows, broker=pa.int32(), backlog_mean_ns=pa.float64(), backlog_max_ns=pa.int64(),
                      queued_mean=pa.float64(), queued_max=pa.int32(), **more)  # fmt: skip

    # ---- time

    def series(self) -> pa.Table:
        keys = ("service", "start")
        published = self._groups("published", *keys, source=self.published)
        delivered, handled = self._groups("series", *keys), self._groups("events", *keys)
        rows = []
        for service, start in sorted({*published, *delivered, *handled}):
            counts = [of.get((service, start), {"count": 0})["count"] for of in (published, delivered, handled)]
            row = {"start_ns": start * self.series_width_ns(), "service": service}
            row |= _distribution(delivered.get((service, start)), "latency", "deliveries")
            rows.append(row | dict(zip(("publications", "deliveries", "events"), counts)))
        events = {"events": pa.int64()} if self.trace.has("hops") else {}
        return _table(rows, start_ns=pa.int64(), service=pa.int16(), publications=pa.int64(), **_LATENCY, **events)


_COPIES = ("hops", "publications", "deliveries", "links")
# name -> (how, tables it needs)
AGGREGATES: dict[str, tuple[Callable[[_Aggregates], pa.Table], tuple[str, ...]]] = {
    "services": (_Aggregates.services, ("deliveries", "publications")),
    "clients": (_Aggregates.clients, ("deliveries",)),
    "brokers": (_Aggregates.brokers, ("deliveries",)),
    "load": (_Aggregates.load, ("brokers",)),
    "links": (_Aggregates.links, ("links",)),
    "balance": (_Aggregates.balance, ("brokers", "links")),
    "cost": (_Aggregates.cost, ("brokers", "links")),
    "stretch": (_Aggregates.stretch, ("deliveries", "publications", "links")),
    "hops": (_Aggregates.hops, ("hops", "deliveries", "publications", "links")),
    "spreading": (_Aggregates.spreading, _COPIES),
    "rounds": (_Aggregates.rounds, _COPIES),
    "to_all": (_Aggregates.to_all, ("deliveries",)),
    "control": (_Aggregates.control, (*_COPIES, "losses")),
    "copies": (_Aggregates.copies, _COPIES),
    "waste": (_Aggregates.waste, (*_COPIES, "losses")),
    "scores": (_Aggregates.scores, ()),
    "meshes": (_Aggregates.meshes, ()),
    "tables": (_Aggregates.tables, ("samples",)),
    "queues": (_Aggregates.queues, ("samples",)),
    "series": (_Aggregates.series, ("deliveries", "publications")),
}
# What a report of a long run takes from here instead of the trace; shown by nobody else.
DRAWN: dict[str, Callable[[_Aggregates], pa.Table]] = {
    "traffic": _Aggregates.traffic, "handled": _Aggregates.handled, "moments": _Aggregates.moments,
    "drawn": _Aggregates.drawn,
}  # fmt: skip


def analyze(
    paths: Sequence[str | PathLike[str]],
    *,
    warm_up_ns: int = 0,
    master: str | None = None,
    remote: str | None = None,
    trust: bool = False,
) -> list[Analysis]:
    """Make the aggregates of finished runs; `trust` lets them name code from outside."""
    from analysis.spark.session import check_installed, explained, session

    check_installed()
    read = {table for _, tables in AGGREGATES.values() for table in tables} | {"scores", "attackers"}
    runs = [checked(path, read) for path in paths]
    for run in runs:
        duration = run.manifest["scenario"]["duration"]
        if not 0 <= warm_up_ns < duration:
            raise InvalidInput(f"--warm-up: {run.path.name} lasts {duration} ns (got {warm_up_ns} ns)")
        services_of(run, trust=trust)  # what may not be imported is refused before Spark starts
    rows = max(map(rows_of, runs), default=0)
    with session(master, remote, rows=rows, light=True) as spark, explained(runs):
        return [_analyze(Trace(spark, run, trust=trust), warm_up_ns) for run in runs]


def _analyze(trace: Trace, warm_up_ns: int) -> Analysis:
    aggregates = _Aggregates(trace, warm_up_ns)
    found = Analysis(str(trace.run.path), trace.folder(), warm_up_ns)
    (found.folder / STAMP).unlink(missing_ok=True)
    for name, (make, tables) in AGGREGATES.items():
        missing = next((said for table in tables if (said := trace.need(table, name))), None)
        if missing:
            found.notes.append(missing)
            continue
        kept = make(aggregates)
        _write(kept, found.folder / name)
        if not kept.num_rows:
            continue
        found.rows[name] = kept.num_rows
        found.shown[name] = kept.slice(0, SHOWN_ROWS_MAX).to_pylist()
    found.notes += aggregates.notes
    drawn = {name: make(aggregates) for name, make in DRAWN.items()} if aggregates.draws else {}
    for name in DRAWN:
        _write(drawn.get(name, pa.table({})), found.folder / name)
    kept = found.rows | {name: table.num_rows for name, table in drawn.items() if table.num_rows}
    write_json(trace.run, STAMP, aggregates.stamp() | {"tables": kept})
    return found


def _counts_schema(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in ("service", *names)])


def _added(table: pa.Table | None, schema: pa.Schema, keys: int) -> pa.Table:
    """Counts that tasks found, added up by so many of their columns."""
    if table is None:
        return schema.empty_table()
    by, sums = schema.names[:keys], schema.names[keys:]
    added = table.group_by(by).aggregate([(name, "sum") for name in sums])
    added = added.select([*by, *(f"{name}_sum" for name in sums)]).rename_columns(schema.names)
    return added.cast(schema).sort_by([(name, "ascending") for name in by])


def _write(table: pa.Table, folder: Path) -> None:
    """Keep a table in a folder of its own, in place of what was there; of one without rows nothing."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        if not table.num_rows:
            return
        folder.mkdir()
        pq.write_table(table, folder / "part-00000.parquet")
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {folder}: {error.strerror}") from None


def _put_together(blocks: DataFrame | None) -> dict[str, pa.Table]:
    """The blocks that tasks left for the driver, by what they are of."""
    if blocks is None:
        return {}
    found: dict[str, list[pa.Table]] = {}
    table = blocks.select("what", "block").toArrow()
    for what, block in zip(table["what"].to_pylist(), table["block"]):
        found.setdefault(what, []).append(passes.opened(block.as_buffer()))
    return {what: pa.concat_tables(tables) for what, tables in found.items()}


def _arrays(table: pa.Table, *columns: str) -> Array:
    return np.array([table[name].to_numpy() for name in columns], np.int64)


def _measures(stem: str, count: str, unit: str, kind: pa.DataType) -> dict[str, pa.DataType]:
    counted = {count: pa.int64()} if count else {}
    percentiles = {f"{stem}_{name}{unit}": kind for name in ("p50", "p90", "p99")}
    return {**counted, f"{stem}_mean{unit}": pa.float64(), **percentiles, f"{stem}_max{unit}": kind}


_LATENCY = _measures("latency", "deliveries", "_ns", pa.int64())


def _distribution(each: Mapping[str, Any] | None, stem: str, count: str, unit: str = "_ns") -> dict[str, Any]:
    """How many, and how they are distributed: mean, percentiles, maximum."""
    if each is None:
        return {}
    measures = {"mean": each["sum"] / each["count"], **{name: each[name] for name in ("p50", "p90", "p99", "max")}}
    counted = {count: each["count"]} if count else {}
    return {**counted, **{f"{stem}_{name}{unit}": value for name, value in measures.items()}}


def _evenness(column: Array, what: str, measure: str) -> dict[str, Any]:
    """Gini coefficient, and maximum over mean: 0 and 1 where all are equal."""
    values = np.sort(column.astype(np.float64))
    n, total = values.size, float(values.sum())
    row: dict[str, Any] = {"of": what, "measure": measure, "count": n}
    if n:
        row |= {"mean": total / n, "max": float(values[-1])}
    if total:
        ranked = float((np.arange(1, n + 1) * values).sum())
        row |= {"max_over_mean": values[-1] * n / total, "gini": 2 * ranked / (n * total) - (n + 1) / n}
    return row


def _table(rows: Sequence[Mapping[str, Any]], **columns: pa.DataType) -> pa.Table:
    return pa.Table.from_pylist(list(rows), pa.schema(list(columns.items())))
