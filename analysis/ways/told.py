"""What the trace of one service says, a row at a time, from a run folder or from the tables of a run in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.spark.trace import network_of
from brokers.contract import Guarantees, Kind
from brokers.engine.parts import read_part
from brokers.engine.trace_schema import TABLES
from brokers.errors import InvalidInput, RunDamaged
from brokers.faults import LOST, REASONS, STATES
from brokers.names import load_as
from brokers.naming import message_name
from protocols.explaining import Asked
from topology.overlay import broker_label

if TYPE_CHECKING:
    from analysis.spark.trace import Service
    from brokers.engine.runfolder import RunFolder

Row = dict[str, Any]
Columns = dict[str, Any]
DOWN, SLOW, CUT, WORN = range(4)  # what the table `faults` says


class Hop(NamedTuple):
    """An event that a broker handled, as the table `hops` has it."""

    time_ns: int
    kind: int
    source: int
    sequence: int
    broker: int
    link: int
    service: int
    type: int
    body: int
    word: int
    cause: int
    finish_ns: int

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Its place in its broker's order."""
        return self[:4]


class Fault(NamedTuple):
    """A row of the table `faults`."""

    what: int
    broker: int
    link: int
    begin_ns: int
    end_ns: int  # -1: never
    state: int

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it lasts at some time between the two."""
        return self.begin_ns <= end_ns and (self.end_ns < 0 or self.end_ns >= begin_ns)


_WHOLE = ("brokers", "changes", "dependencies", "losses", "doubled", "faults", "publications")

Ask = Callable[[str, Mapping[str, Any]], list[Row]]  # rows of a table whose columns have these values, or one of a set


@dataclass
class Told:
    """See the module. Brokers go by their numbers, clients by their entity ids."""

    ask: Ask
    kind: Kind
    service: int
    ends: int = 1 << 62  # what arrives from then on is not handled any more
    promises: Callable[[], Guarantees] = Guarantees
    options: Mapping[str, Any] = field(default_factory=dict)  # of the protocol
    seed: int = 1
    _changes: dict[int, Row | None] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: RunFolder, service: Service) -> Told:
        """Of a service of a run folder."""
        scenario = run.manifest["scenario"]
        return cls(
            lambda table, equal: rows_of(run, table, equal), service.kind, service.number,
            scenario["duration"] + scenario["drain"], lambda: service.guarantees(network_of(run, [service])),
            service.options, run.manifest["seed"],
        )  # fmt: skip

    @classmethod
    def of_tables(
        cls, tables: Mapping[str, Mapping[str, Any]], kind: Kind, ends: int = 1 << 62,
        promises: Callable[[], Guarantees] = Guarantees, options: Mapping[str, Any] | None = None, seed: int = 1,
    ) -> Told:  # fmt: skip
        """Of the only service of a run in memory."""
        return cls(lambda table, equal: _of(tables.get(table, {}), equal), kind, 0, ends, promises, options or {}, seed)

    def rows(self, table: str, **equal: Any) -> list[Row]:
        """Rows of a table whose columns have these values, or one of a set; `since` and `until` bound time_ns."""
        return self.ask(table, equal)

    def hops(self, **equal: Any) -> list[Hop]:
        """Events of this service, in the order of time."""
        rows = self.rows("hops", service=self.service, **equal)
        return sorted(Hop(*(row[name] for name in Hop._fields)) for row in rows)

    def columns(self, table: str, **equal: Any) -> Columns:
        """The same by column, as judges take tables."""
        return self.as_columns(table, self.rows(table, **equal))

    def as_columns(self, table: str, rows: list[Row]) -> Columns:
        """Rows of a table by column."""
        names = [column.name for column in (TABLES.get(table) or self.kind.tables[table]).columns]
        return {name: _column([row[name] for row in rows]) for name in names}

    def asked(self, publication: Row, client: int) -> Asked:
        """A publication and a client, as a kind's explanation takes them."""
        id_ = publication["publication"]
        own = [
            name for name, table in self.kind.tables.items()
            if any(column.name == "publication" for column in table.columns)
        ]  # fmt: skip
        alone = {name: self.columns(name, publication=id_) for name in ("publications", "deliveries", *own)}
        alone["hops"] = self.columns("hops", body=id_)
        return Asked({**alone, **self.whole}, {**self.whole, **alone}, self.promises(), self.service, id_, client)

    @cached_property
    def whole(self) -> dict[str, Columns]:
        """The tables that judges ask about all of a run, but what brokers handled."""
        return {name: self.columns(name) for name in _WHOLE}

    # ---- the overlay ---------------------------------------------------------------------------------

    @cached_property
    def names(self) -> list[str]:
        """Brokers and servers as they are shown."""
        plain = [row["name"] for row in sorted(self.rows("brokers"), key=lambda row: row["broker"])]
        return [broker_label(number, plain) for number in range(len(plain))]

    @property
    def nodes(self) -> int:
        return len(self.names)

    @cached_property
    def links(self) -> dict[int, Row]:
        return {row["link"]: row for row in self.rows("links")}

    @cached_property
    def _out(self) -> dict[int, list[tuple[int, int, int]]]:
        """By broker: (neighbour, directed link, delay)."""
        found = defaultdict(list)
        for number, link in sorted(self.links.items()):
            found[link["from"]].append((link["to"], number, link["delay_ns"]))
        return found

    def link(self, a: int, b: int) -> int:
        """The directed link between two neighbours, -1 if there is none."""
        return next((number for other, number, _ in self._out[a] if other == b), -1)

    @cached_property
    def is_tree(self) -> bool:
        return len(self.links) == 2 * (len({row["from"] for row in self.links.values()}) - 1) or not self.links

    def nearer(self, target: int) -> tuple[dict[int, int], dict[int, int]]:
        """For each broker, how far it is from one in ns, and the next on its quickest way there."""
        distance, following, ahead = {}, {}, [(0, target, target)]
        while ahead:
            far, at, towards = heappop(ahead)
            if at in distance:
                continue
            distance[at], following[at] = far, towards
            for other, number, _ in self._out[at]:
                if other not in distance:
                    heappush(ahead, (far + self.links[number ^ 1]["delay_ns"], other, at))
        return distance, following

    # ---- changes and faults --------------------------------------------------------------------------

    def change(self, id: int) -> Row | None:
        """The change with this id."""
        if id not in self._changes:
            self.learn({id})
        return self._changes[id]

    def learn(self, ids: set[int]) -> None:
        """Look up many changes at once."""
        new = ids - set(self._changes)
        if new:
            self._changes.update(dict.fromkeys(new))
            self._changes.update({row["change"]: row for row in self.rows("changes", change=new)})

    def begin_of(self, interest: int) -> Row | None:
        """The change that began an interest."""
        rows = [row for row in self.rows("changes", interest={interest}) if row["operation"] in self.kind.interests]
        return min(rows, key=lambda row: row["issued_ns"], default=None)

    @property
    def decides(self) -> bool:
        """Whether values alone say what wants a publication: the kind is judged pair by pair."""
        return self.kind.pair_by_pair

    @cached_property
    def explaining(self) -> Any:
        """What says what the definition gives, where values alone do not; None where the kind has none."""
        target = self.kind.manifest.explains
        return load_as("explanations", target)(self.kind) if target else None

    @property
    def answers(self) -> bool:
        """Whether a server answers queries again and again, and the kind explains that."""
        return hasattr(self.explaining, "answered")

    @cached_property
    def in_wholes(self) -> bool:
        """Whether answers are right or wrong as wholes, by the audit rule."""
        rule = self.kind.manifest.audit_rule
        return bool(rule) and hasattr(load_as("audit rules", rule), "judge")

    def wants(self, publication: Row, change: Row) -> bool:
        """Whether the interest that a change begins wants a publication; where values do not decide, it may."""
        if self.explaining is not None:
            return self._readable(change, lambda: self.explaining.may_want(publication, change))
        if not self.decides:
            return True
        interest, values = (np.asarray(row["values"], np.float64) for row in (change, publication))
        return self._readable(change, lambda: bool(self.kind.oracle({0: interest}, values)))

    def _readable(self, change: Row, ask: Callable[[], bool]) -> bool:
        try:
            return ask()
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise InvalidInput(f"what {self.message(change['change'])} asks for cannot be read: {error}") from error

    @cached_property
    def faults(self) -> list[Fault]:
        return sorted(
            (Fault(*(row[name] for name in Fault._fields)) for row in self.rows("faults")),
            key=lambda fault: (fault.begin_ns, fault),
        )

    # ---- names ---------------------------------------------------------------------------------------

    def message(self, id: int) -> str:
        """The name of a message; the change of what stood from the beginning is less than nothing."""
        server = id >> 32
        if self.kind.server and 0 < server < self.nodes:
            return f"{self.names[server]}#{id & 0xFFFFFFFF}"
        return message_name(abs(id), self.nodes)

    def client(self, entity: int) -> str:
        return f"client {entity - self.nodes}"

    def type_name(self, type: int) -> str:
        """What a message is called; those of protocols have a number only."""
        names = {number: name for name, number in self.kind.types.items()}
        if self.explaining is not None:
            names |= self.explaining.called
        return names.get(type, f"message of type {type}")

    def over(self, link: int) -> str:
        row = self.links[link]
        return f"from {self.names[row['from']]} to {self.names[row['to']]}"

    def what(self, fault: Fault) -> str:
        """A fault in a few words, without its times."""
        if fault.broker >= 0:
            who = self.names[fault.broker]
            if fault.what == SLOW:
                return f"{who} is slow or pauses"
            back = f", and comes back {_BACK[fault.state]}" if fault.end_ns >= 0 else ""
            return f"{who} is down{back}"
        state = "cut" if fault.what == CUT else "worn"
        return f"the link {self.over(fault.link)} is {state}"


_BACK = {
    state: "knowing nothing" if state == LOST else f"with its state {STATES[state]}" for state in range(len(STATES))
}


def why_lost(row: Row) -> str:
    """The reason of a row of `losses`, in a word."""
    return REASONS[row["reason"]]


def _of(columns: Mapping[str, Any], equal: Mapping[str, Any]) -> list[Row]:
    """Rows of a table in memory."""
    names = list(columns)
    filters = _filters(equal)
    rows = (dict(zip(names, values)) for values in zip(*(_plain(columns[name]) for name in names)))
    return [row for row in rows if all(_TESTS[sign](row[name], value) for name, sign, value in filters)]


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b), "in": lambda a, b: a in b, ">=": lambda a, b: bool(a >= b),
    "<=": lambda a, b: bool(a <= b),
}  # fmt: skip


def _filters(equal: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """As Arrow has them."""
    bounds = {"since": ">=", "until": "<="}
    return [
        ("time_ns", bounds[name], value) if name in bounds
        else (name, "in" if isinstance(value, set) else "=", value)
        for name, value in equal.items()
    ]  # fmt: skip


def _column(values: list[Any]) -> Any:
    """An array; of lists, the lists."""
    return values if values and isinstance(values[0], list) else np.array(values, np.int64 if not values else None)


def _plain(column: Any) -> Sequence[Any]:
    return [value.tolist() if hasattr(value, "tolist") else value for value in column]


def rows_of(run: RunFolder, table: str, equal: Mapping[str, Any]) -> list[Row]:
    """Rows of a table of a run folder whose columns have these values, or one of a set of them."""
    if table not in run.tables():
        return []
    if any(not value for value in equal.values() if isinstance(value, set)):
        return []
    found: list[Row] = []
    for part in run.parts(table):
        rows = read_part(run.path, part, filters=_filters(equal) or None)
        found += (rows if run.link_rows is None else run.link_rows.renamed(rows)).to_pylist()
    limits = {"service": len(run.manifest["scenario"]["services"]), "broker": run.rows("brokers")}
    for name, limit in {**limits, "link": run.rows("links")}.items():
        least = -1 if name == "link" or table == "faults" else 0
        if not all(least <= row[name] < limit for row in found if name in row):
            raise RunDamaged.at(run.path, f"table {table!r} has a {name} that is none of {limit}")
    return found
