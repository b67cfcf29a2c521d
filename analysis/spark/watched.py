"""What tasks of Spark make of the table `scores`: what brokers of GossipSub thought of their neighbours over time.

    pieces ─► `over` ─► blocks, dealt by broker ─► `by_broker` ─► blocks, dealt by turn ─► `by_turn` ─► the driver

A broker's *turn* is which of its watches it is, from 0 on. What is of one turn is as large as the overlay. Brokers that
attack are left out. The numbers are those of `scores_over_time` in `protocols.gossip.attacked` and of
`protocols.gossip.churning`.

NumPy and Arrow: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analysis.spark.depths import Array, begins
from analysis.spark.passes import Blocks, Columns, Piece, block_of, dealt, opened

COLUMNS = ("service", "broker", "time_ns", "neighbour", "attacker", "topic", "mesh", "score")
_NUMBERS = tuple(name for name in COLUMNS if name != "topic")
_PERCENT = {"score_low": 5, "score_median": 50, "score_high": 95}
Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Watches:
    """What every task has to know."""

    tasks: int
    warm_up_ns: int
    attackers: Array  # service and broker as one number, in order

    def over(self, pieces: Sequence[Piece]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
        """The rows of honest brokers, in pieces that a task is given by their numbers."""

        def look(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for what, task, rows in self._rows(pieces[number].rows()):
                        yield block_of(what, task, rows)

        return look

    def at_once(self, pieces: Sequence[Piece]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
        """All of it, where one task does it."""
        return lambda batches: self.by_turn(self.by_broker(self.over(pieces)(batches)))

    def _rows(self, table: pa.Table) -> Blocks:
        rows = {name: table.column(name).to_numpy() for name in _NUMBERS}
        mine = rows["time_ns"] >= self.warm_up_ns
        mine &= ~np.isin(_pair(rows["service"], rows["broker"]), self.attackers)
        topic = table.column("topic").combine_chunks().dictionary_encode()
        codes, names = topic.indices.to_numpy(), topic.dictionary
        all_topics = np.array([name == "" for name in names.to_pylist()], np.bool_)[codes]
        told = np.flatnonzero(mine & all_topics)
        of_all = {name: rows[name][told] for name in _NUMBERS}
        yield from dealt(self.tasks, "told", of_all, of_all["broker"])
        in_mesh = np.flatnonzero(mine & ~all_topics & (rows["mesh"] > 0))
        of_mesh = {name: rows[name][in_mesh] for name in ("service", "broker", "time_ns", "neighbour")}
        of_mesh["topic"] = codes[in_mesh]
        for what, task, found in dealt(self.tasks, "meshed", of_mesh, of_mesh["broker"]):
            yield what, task, {**found, "topic": names.take(pa.array(found["topic"]))}

    def by_broker(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Turns, and what became of meshes from one to the next; of brokers all of whose rows are here."""
        found = _together(batches)
        if "told" not in found:
            return
        told = {name: found["told"].column(name).to_numpy() for name in _NUMBERS}
        who = _pair(told["service"], told["broker"])
        watches, watch = _distinct(who, told["time_ns"])
        turn = np.arange(watches[0].size) - np.searchsorted(watches[0], watches[0])
        thought = {name: told[name] for name in ("service", "attacker", "time_ns", "score", "mesh")}
        thought["turn"] = turn[watch]
        for what, task, rows in self._by_turn("thought", thought):
            yield block_of(what, task, rows)
        met = {"service": watches[0] >> 32, "turn": turn, "time_ns": watches[1], **_changes(watches, turn, found)}
        for what, task, rows in self._by_turn("met", met):
            yield block_of(what, task, rows)

    def _by_turn(self, what: str, rows: Columns) -> Blocks:
        yield from dealt(self.tasks, what, rows, rows["turn"])

    def by_turn(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Scores by class of neighbours, and churn, of turns all of whose rows are here."""
        found = {name: {key: rows.column(key).to_numpy() for key in rows.column_names}
                 for name, rows in _together(batches).items()}  # fmt: skip
        if "thought" in found:
            yield block_of("scores", 0, _scores(found["thought"]))
        if "met" in found:
            yield block_of("meshes", 0, _meshes(found["met"]))


def _pair(service: Array, broker: Array) -> Array:
    return service.astype(np.int64) << 32 | broker


def _together(batches: Batches) -> dict[str, pa.Table]:
    found: dict[str, list[pa.Table]] = {}
    for batch in batches:
        for what, block in zip(batch.column("what").to_pylist(), batch.column("block")):
            found.setdefault(what, []).append(opened(block.as_buffer()))
    return {what: pa.concat_tables(tables) for what, tables in found.items()}


def _distinct(*columns: Array) -> tuple[list[Array], Array]:
    """Rows that differ, in order, by column; and which of them each row is."""
    order = np.lexsort(columns[::-1])
    new = np.ones(order.size, np.bool_)
    new[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    of = np.empty(order.size, np.int64)
    of[order] = np.cumsum(new) - 1
    return [column[order][new] for column in columns], of


def _changes(watches: Sequence[Array], turn: Array, found: dict[str, pa.Table]) -> Columns:
    """By watch, the links that are in meshes, and those that entered and left since the one before."""
    size = turn.size
    if "meshed" not in found:
        return {name: np.zeros(size, np.int64) for name in ("links", "entered", "left")}
    rows = found["meshed"]
    topic = rows.column("topic").combine_chunks().dictionary_encode().indices.to_numpy()
    who = _pair(rows.column("service").to_numpy(), rows.column("broker").to_numpy())
    _, member = _distinct(who, topic, rows.column("neighbour").to_numpy())
    # Who has a neighbour in a mesh tells of it at the same watch; so this adds no watch, and finds that of each row.
    _, of = _distinct(np.r_[watches[0], who], np.r_[watches[1], rows.column("time_ns").to_numpy()])
    watch = of[size:]
    order = np.lexsort((watch, member))
    member, watch = member[order], watch[order]
    stays = (member[1:] == member[:-1]) & (watch[1:] == watch[:-1] + 1)
    entered = watch[np.r_[True, ~stays]]
    left = watch[np.r_[~stays, True]] + 1
    left = left[left < np.searchsorted(watches[0], watches[0][left - 1], side="right")]
    counted = {"links": watch, "entered": entered[turn[entered] > 0], "left": left}
    return {name: np.bincount(each, minlength=size) for name, each in counted.items()}


def _scores(rows: Columns) -> Columns:
    """Of each class of neighbours and turn: percentiles of scores, and which share of the links in meshes it is."""
    (service, turn, attacker), group = _distinct(
        rows["service"].astype(np.int64), rows["turn"], rows["attacker"].astype(np.int64)
    )
    order = np.argsort(group, kind="stable")
    bounds = begins(group[order])[1:]
    time, score = np.split(rows["time_ns"][order], bounds), np.split(rows["score"][order], bounds)
    in_mesh = np.bincount(group, rows["mesh"])
    _, moment = _distinct(service, turn)
    found: Columns = {"service": service, "turn": turn, "attacker": attacker}
    found["time_ns"] = np.array([int(np.median(each)) for each in time])
    found["links"] = np.bincount(group)
    for name, percent in _PERCENT.items():
        found[name] = np.array([np.percentile(each, percent) for each in score])
    found["in_mesh"] = in_mesh.astype(np.int64)
    found["share_of_meshes"] = in_mesh / np.maximum(1, np.bincount(moment, in_mesh)[moment])
    return found


def _meshes(rows: Columns) -> Columns:
    """Of each turn: how many brokers watched, their links in meshes, and what entered and left."""
    (service, turn), group = _distinct(rows["service"], rows["turn"])
    order = np.argsort(group, kind="stable")
    times = np.split(rows["time_ns"][order], begins(group[order])[1:])
    found: Columns = {"service": service, "turn": turn, "time_ns": np.array([int(np.median(each)) for each in times])}
    found["brokers"] = np.bincount(group)
    for name in ("links", "entered", "left"):
        found[name] = np.bincount(group, rows[name]).astype(np.int64)
    return found
