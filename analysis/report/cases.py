"""Publications and clients that are worth a look, each with its explanation: what `brokerlab explain` says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analysis.report.choosing import sorts
from analysis.report.gather import Gathered
from analysis.report.wanting import Missed
from analysis.report.words import plain, time
from analysis.spark.trace import Service
from analysis.ways.deciding import told_of
from analysis.ways.pair import Pair
from analysis.ways.told import Row, Told
from brokers.errors import InvalidInput

NOT_EXPLAINED = "not explained"
CASES_MOST = 40
EVENTS_MOST = 1_000_000  # of a run whose cases are explained; of longer ones `explain` tells
_LOOKED_AT_MOST = 20_000_000  # events times explanations, for those look through all of them
_ALIKE_MOST, _STEPS_MOST = 3, 60


class Cases:
    """See the module."""

    def __init__(self, found: Gathered) -> None:
        self.found = found
        self._told: dict[int, Told] = {}
        self._tables: dict[str, pa.Table] = {}

    def told(self, service: Service) -> Told:
        if service.number not in self._told:
            told = Told.of_run(self.found.run, service)
            told.ask = self._ask  # tables that are read once, in memory
            self._told[service.number] = told
        return self._told[service.number]

    def _ask(self, table: str, equal: Mapping[str, Any]) -> list[Row]:
        if table not in self.found.run.tables():
            return []
        if table not in self._tables:
            self._tables[table] = self.found.run.read(table)
        rows = self._tables[table]
        for name, value in equal.items():
            if name in ("since", "until"):
                within = (pc.greater_equal if name == "since" else pc.less_equal)(rows["time_ns"], value)
            elif isinstance(value, set):
                within = pc.is_in(rows[name], pa.array(sorted(value), rows[name].type))
            else:
                within = pc.equal(rows[name], pa.scalar(value, rows[name].type))
            rows = rows.filter(within)
        result: list[Row] = rows.to_pylist()
        return result


def cases(found: Gathered, missed: Missed) -> tuple[list[dict[str, Any]], list[tuple[str, int, int]]]:
    """What the page tells of pairs of a publication and a client; and of each sort how many of how many these are.

    In turn one of each sort, so that all are there; of those that ended alike, at one place, a few only.
    """
    if found.kinds is None or not found.has("hops") or found.run.rows("hops") > EVENTS_MOST:
        return [], []
    asked = Cases(found)
    told: list[dict[str, Any]] = []
    seen: set[tuple[int, int]] = set()
    alike: dict[tuple[Any, ...], int] = {}
    waiting = sorts(found, missed, asked.told)
    shown = dict.fromkeys((sort.name for sort in waiting), 0)
    left = max(1, _LOOKED_AT_MOST // max(1, found.run.rows("hops")))
    turn = list(waiting)
    while turn and left and len(told) < CASES_MOST:
        sort = turn.pop(0)
        pair = next(sort.pairs, None)
        if pair is None:
            continue
        turn.append(sort)
        publication, client, why = pair
        if (publication, client) in seen:
            continue
        seen.add((publication, client))
        left -= 1
        case = _case(asked, found.kinds[sort.service], publication, client, why)
        if case is None:
            continue
        end = (sort.name, *(case[name] for name in ("verdict", "broker", "towards")))
        alike[end] = alike.get(end, 0) + 1
        if sort.audited or alike[end] <= _ALIKE_MOST:
            shown[sort.name] += 1
            told.append(case)
    return told, [(sort.name, shown[sort.name], sort.total) for sort in waiting if shown[sort.name]]


def _case(asked: Cases, service: Service, publication: int, client: int, why: str) -> dict[str, Any] | None:
    told = asked.told(service)
    rows = told.rows("publications", publication=publication)
    if not rows:
        return None
    try:
        answer = told_of(Pair(told, rows[0], client))
    except InvalidInput as error:  # values that `explain` cannot read: the page says so, as `explain` would
        answer = {"verdict": NOT_EXPLAINED, "said": [str(error)], "steps": [], "sure": True}
        answer |= dict.fromkeys(("broker", "towards", "change"))
    steps = answer["steps"]
    shown = steps if len(steps) <= _STEPS_MOST else [*steps[: _STEPS_MOST // 2], *steps[-_STEPS_MOST // 2 :]]
    return {
        "service": plain(service.name),
        "message": told.message(publication),
        "client": client - told.nodes,
        "about": why,
        "verdict": answer["verdict"],
        "sure": answer["sure"],
        "broker": None if answer["broker"] is None else plain(answer["broker"]),
        "towards": None if answer["towards"] is None else plain(answer["towards"]),
        "change": answer["change"],
        "said": [plain(each, 400) for each in answer["said"]],
        "steps": [[time(step["time_ns"]), plain(step["broker"]), plain(step["what"], 300)] for step in shown],
        "left_out": len(steps) - len(shown),
    }
