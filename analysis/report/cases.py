"""Publications and clients that are worth a look, each with its explanation: what `brokerlab explain` would say of it.

First what the audit found, then what was lost, then the slowest of each service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.report.gather import Gathered
from analysis.report.words import plain, time
from analysis.spark.trace import Service
from analysis.ways.deciding import told_of
from analysis.ways.pair import Pair
from analysis.ways.told import Row, Told
from brokers.errors import BrokerlabError, InvalidInput
from brokers.naming import message_id
from brokers.verdicts import FINDINGS, words
from scenarios.many.metrics import kept_audit

NOT_EXPLAINED = "not explained"
CASES_MOST = 24
EVENTS_MOST = 1_000_000  # of a run whose cases are explained; of longer ones `explain` tells
_OF_A_FINDING, _OF_LOSSES, _TRIED, _STEPS_MOST = 2, 6, 30, 60


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


def cases(found: Gathered) -> list[dict[str, Any]]:
    """What the page tells of pairs of a publication and a client."""
    if found.kinds is None or not found.has("hops") or found.run.rows("hops") > EVENTS_MOST:
        return []
    asked = Cases(found)
    told: list[dict[str, Any]] = []
    seen: set[tuple[int, int]] = set()
    for service, publication, client, why in _interesting(found, asked):
        if (publication, client) in seen or len(told) >= CASES_MOST:
            continue
        seen.add((publication, client))
        case = _case(asked, found.kinds[service], publication, client, why)
        if case is not None:
            told.append(case)
    return told


def _interesting(found: Gathered, asked: Cases) -> Iterator[tuple[int, int, int, str]]:
    """(service, publication, entity id of the client, why)."""
    yield from _audited(found)
    yield from _lost(found, asked)
    yield from _slowest(found)


def _audited(found: Gathered) -> Iterator[tuple[int, int, int, str]]:
    nodes = found.network.brokers
    audit = kept_audit(found.run) or {"services": []}
    numbers = {name: at for at, name in enumerate(found.names)}
    for service in audit["services"]:
        for finding in FINDINGS:
            examples = service["findings"][finding].get("examples", [])
            for each in (examples if isinstance(examples, list) else [])[:_OF_A_FINDING]:
                try:
                    publication, client = message_id(str(each["message"]), nodes), int(each["client"]) + nodes
                    yield numbers[service["service"]], publication, client, f"{words(finding)}, by the audit"
                except (BrokerlabError, KeyError, TypeError, ValueError):
                    continue  # an audit.json that another version wrote


def _lost(found: Gathered, asked: Cases) -> Iterator[tuple[int, int, int, str]]:
    """Publications of which a copy was lost, and a client that did not get them for that."""
    assert found.kinds is not None
    rows = found.rows("losses")
    published = set(found.rows("publications")["publication"].tolist())
    taken = 0
    order = np.argsort(rows["time_ns"], kind="stable")
    for at in order[:: max(1, order.size // 40)].tolist():
        body = int(rows["body"][at])
        if body not in published or taken >= _OF_LOSSES:
            continue
        service = int(rows["service"][at])
        client = int(rows["client"][at])
        if client < 0:
            client = _without(asked.told(found.kinds[service]), body)
        if client >= 0:
            taken += 1
            yield service, body, client, f"lost at {time(int(rows['time_ns'][at]))}"


def _without(told: Told, publication: int) -> int:
    """A client that wanted a publication and did not get it, as far as a few tries tell; -1 if none is found."""
    (row,) = told.rows("publications", publication=publication)
    got = {each["client"] for each in told.rows("deliveries", publication=publication)}
    begun = [each for each in told.rows("changes", service=told.service) if each["operation"] in told.kind.wants()]
    tried = 0
    for change in begun:
        early = change["issued_ns"] < 0 or 0 <= change["settled_ns"] < row["time_ns"]
        over = 0 <= change["revoked_ns"] <= row["time_ns"]
        if change["client"] in got or not early or over or tried > _TRIED:
            continue
        tried += told.decides
        if told.wants(row, change):
            return int(change["client"])
    return -1


def _slowest(found: Gathered) -> Iterator[tuple[int, int, int, str]]:
    rows = found.rows("deliveries")
    took = rows["time_ns"] - rows["published_ns"]
    published = np.isin(rows["publication"], found.rows("publications")["publication"])
    for service in range(found.services):
        mine = np.flatnonzero((rows["service"] == service) & published)
        if mine.size:
            at = mine[np.argmax(took[mine])]
            yield (
                service,
                int(rows["publication"][at]),
                int(rows["client"][at]),
                f"the slowest, {time(int(took[at]))}",
            )


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
