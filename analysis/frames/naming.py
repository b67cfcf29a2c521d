"""What the ids in a table stand for: names in their place, batch by batch.

A missing id (-1) becomes a missing value. Names of brokers, services, links and types are dictionaries, so that
a column of them takes little more than the ids did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.frames.conditions import BROKERS, CLIENTS, KINDS, MESSAGES
from analysis.spark.trace import services_of
from brokers.engine.runfolder import RunFolder
from brokers.errors import InvalidInput, RunDamaged
from brokers.faults import REASONS
from topology.overlay import broker_label

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES = 128  # that there can be of messages of a service, and of timers
_TIMER = KINDS.index("timer")


class Names:
    """Of a run."""

    def __init__(self, run: RunFolder, trust: bool = False) -> None:
        self.run, self.trust = run, trust

    def named(self, table: str, rows: Any) -> Any:
        """Rows, a batch or a table of them, with names in place of ids."""
        columns = {name: rows.column(name) for name in rows.schema.names}
        told = {name: self._of(table, name, columns)(column) for name, column in columns.items()}
        return type(rows).from_pydict(told)

    def _of(self, table: str, name: str, columns: dict[str, Any]) -> Callable[[Any], Any]:
        """What turns the ids of a column into names; what has none stays as it is."""
        if name == "service":
            return lambda ids: _chosen(self.run, ids, self.services)
        if name in BROKERS:
            return lambda ids: _chosen(self.run, ids, self.brokers)
        if name == "link":
            return self._links
        if name in CLIENTS:
            return self._clients
        if name in MESSAGES:
            return self._messages
        if name == "source":
            return self._entities
        if f"{table}.{name}" == "hops.kind":
            return lambda ids: _chosen(self.run, ids, KINDS)
        if f"{table}.{name}" == "losses.reason":
            return lambda ids: _chosen(self.run, ids, REASONS)
        if name in ("type", "operation") and {"service", *(["kind"] if table == "hops" else [])} <= set(columns):
            return lambda ids: self._types(ids, columns["service"], columns.get("kind"))
        return lambda ids: ids

    @cached_property
    def services(self) -> list[str]:
        return [each["name"] for each in self.run.manifest["scenario"]["services"]]

    @cached_property
    def brokers(self) -> list[str]:
        """Brokers and servers as they are shown, by number."""
        names = self.run.read("brokers", ["broker", "name"]).sort_by("broker")["name"].to_pylist()
        return [broker_label(at, names) for at in range(len(names))]

    def _links(self, ids: Any) -> Any:
        other = self.run.link_rows
        return _chosen(self.run, ids if other is None else other.rows(ints(ids)), self.links)

    @cached_property
    def links(self) -> list[str]:
        """Directed links by their rows."""
        rows = self.run.read("links", ["link", "from", "to"]).sort_by("link")
        ends = zip(rows["from"].to_pylist(), rows["to"].to_pylist())
        return [f"{self.brokers[a]} → {self.brokers[b]}" for a, b in ends]

    @cached_property
    def _nodes(self) -> int:
        return self.run.rows("brokers")

    @cached_property
    def _type_names(self) -> tuple[list[str], NDArray[np.int64]]:
        """Names, each once, and which of them it is by service, whether it is a timer, and type."""
        try:
            kinds = [each.kind.types for each in services_of(self.run, trust=self.trust)]
        except InvalidInput:  # a kind from outside, that nobody trusts: its types have numbers
            kinds = [{} for _ in self.services]
        known = [{number: name for name, number in types.items()} for types in kinds]
        told = [
            types.get(number, f"message {number}") if what == "message" else f"timer {number}"
            for types in known for what in ("message", "timer") for number in range(_TYPES)
        ]  # fmt: skip
        names = sorted(set(told))
        place = {name: at for at, name in enumerate(names)}
        return names, np.array([place[name] for name in told], np.int64)

    def type_names(self, types: Any, service: Any, kind: Any) -> list[str]:
        """What types of messages are called, those of timers by number."""
        found: list[str] = self._types(types, service, kind).to_pylist()
        return found

    def _types(self, ids: Any, service: Any, kind: Any) -> Any:
        names, which = self._type_names
        is_timer = 0 if kind is None else ints(kind) == _TIMER
        at = (ints(service) * 2 + is_timer) * _TYPES + ints(ids)
        return _chosen(self.run, which[_within(self.run, at, which.size)], names)

    def _clients(self, ids: Any) -> Any:
        import pyarrow.compute as pc

        return _unless_missing(ids, pc.subtract(ids, self._nodes))

    def _messages(self, ids: Any) -> Any:
        """37#5, or the id of what is no client's."""
        import pyarrow as pa
        import pyarrow.compute as pc

        entity, number = pc.shift_right(ids, 32), pc.bit_wise_and(ids, 0xFFFFFFFF)
        whose = pc.cast(pc.subtract(entity, self._nodes), pa.string())
        named = pc.binary_join_element_wise(whose, pc.cast(number, pa.string()), "#")
        told = pc.if_else(pc.greater_equal(entity, self._nodes), named, pc.cast(ids, pa.string()))
        return _unless_missing(ids, told)

    def _entities(self, ids: Any) -> Any:
        """A broker by its name, a client as `client 37`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        at = np.clip(ints(ids), 0, max(0, self._nodes - 1))
        broker = pa.array(self.brokers, pa.string()).take(pa.array(at))
        number = pc.cast(pc.subtract(ids, self._nodes), pa.string())
        client = pc.binary_join_element_wise("client", number, " ")
        return _unless_missing(ids, pc.if_else(pc.less(ids, self._nodes), broker, client))


def ints(ids: Any) -> NDArray[np.int64]:
    """A column of whole numbers for NumPy."""
    found: NDArray[np.int64] = ids if isinstance(ids, np.ndarray) else ids.to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def _unless_missing(ids: Any, told: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.less(ids, 0), pa.scalar(None, told.type), told)


def _chosen(run: RunFolder, ids: Any, names: Sequence[str]) -> pa.Array:
    """Names by number, as a dictionary."""
    import pyarrow as pa

    at = _within(run, ints(ids), len(names), least=-1)
    return pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32), mask=at < 0), pa.array(names, pa.string()))


def _within(run: RunFolder, numbers: NDArray[np.int64], limit: int, least: int = 0) -> NDArray[np.int64]:
    """Numbers as they are; one that nothing has is damage."""
    if numbers.size and not least <= numbers.min() <= numbers.max() < limit:
        raise RunDamaged.at(run.path, f"a table has a number that is none of {limit}")
    return numbers
