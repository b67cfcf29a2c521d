"""What sessions keep, asked of a run: whether what came for clients that were away reached them, in order and once.

Of a run with a full trace that is not too large; by the judge of the kit (`protocols.handed`), which puts the stays of
each client together again. In larger runs what was handed over is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokers.engine.trace import as_arrays
from brokers.engine.trace_schema import TABLES
from protocols.handed import Sessions, sessions_in
from protocols.judging import Audit as Found
from protocols.judging import published
from protocols.standing import Standing, Tables

if TYPE_CHECKING:
    from analysis.spark.trace import Service, Trace

ROWS_MAX = 2_000_000  # of the tables that are read
PAIRS_MAX = 20_000_000  # publications and changes of a service
_READ = ("stays", "changes", "dependencies", "losses", "faults", "doubled", "publications", "deliveries", "hops")


def asked(trace: Trace, service: Service) -> dict[str, Any] | None:
    """What was owed over several stays, and rows of what is wrong; None where nothing is promised or it is too much."""
    run = trace.run
    guarantees = service.guarantees(trace.network)
    if not guarantees.hands_over or not (trace.has("stays") and trace.has("hops")):
        return None
    if not run.rows("stays") or not sessions_in({"stays": as_arrays(run.read("stays"), TABLES["stays"])}):
        return None  # as in most runs: nothing else is read for it
    if sum(run.rows(name) for name in _READ if trace.has(name)) > ROWS_MAX:
        return None
    tables: Tables = {name: as_arrays(run.read(name), TABLES[name]) for name in _READ if trace.has(name)}
    sent, changed = (int((tables[name]["service"] == service.number).sum()) for name in ("publications", "changes"))
    if sent * changed > PAIRS_MAX:
        return None
    standing = Standing(tables, service.kind, service.number, guarantees)
    sessions = Sessions(tables, service.kind, standing)
    spare = Found.of(tables, guarantees)  # what is found of single stays is told already
    every = {p.id: p for p in published(spare, tables, service.kind, service.number)}
    found = sessions.judge(every, service.kind.oracle)
    pairs = {"missed": found.missed, "duplicated": found.twice, "out_of_order": [(p, c) for _, p, c in found.late]}
    return {
        "owed": found.owed, "sent_while_away": found.kept,
        "findings": {name: [{"publication": p, "client": c} for p, c in each] for name, each in pairs.items()},
    }  # fmt: skip
