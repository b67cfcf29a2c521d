"""The audit of the kind `rooms` in plain Python, for the conformance kit: who heard it, and through how many walls."""

from __future__ import annotations

from typing import Any

from brokers.contract import Guarantees, Kind
from protocols.judging import Audit, judge_pairs, published
from protocols.standing import Standing, Tables


def judge(tables: Tables, kind: Kind, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * stays)."""
    found = Audit.of(tables, guarantees)
    standing = Standing(tables, kind, service, guarantees)
    asking = {stay.client for stay in standing.versions}
    told = _told(tables["heard"], service)
    for p in published(found, tables, kind, service):
        must, excused = set(), set()
        walls: dict[int, set[int]] = {}  # client -> how many there may have been
        in_earshot = kind.oracle({n: stay.values for n, stay in enumerate(standing.versions)}, p.values)
        for stay in (standing.versions[n] for n in in_earshot):
            if not standing.possible(stay, p):
                continue
            walls.setdefault(stay.client, set()).add(int(abs(stay.values[0] - p.values[0])))
            if standing.certain(stay, p) and not p.lost:
                must.add(stay.client)
            elif standing.certain(stay, p, forgive=True):
                excused.add(stay.client)
        judge_pairs(found, p, must, set(walls), excused, asking)
        for client, through in told.get(p.id, {}).items():
            if through not in walls.get(client, ()):
                found.unwanted.add(f"{found.client(client)} heard {found.message(p.id)} through {through} walls")
    return found


def _told(heard: Any, service: int) -> dict[int, dict[int, int]]:
    """publication -> client -> walls, as the protocol says."""
    mine = heard["service"] == service
    found: dict[int, dict[int, int]] = {}
    for publication, client, walls in zip(*(heard[name][mine].tolist() for name in ("publication", "client", "walls"))):
        found.setdefault(publication, {})[client] = walls
    return found
