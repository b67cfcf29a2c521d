"""How a protocol behaved beside what it delivered: judges of the hunt that can be asked of one run.

    budget   publications that went over a directed link again, or over one behind which nobody may get them; links that
             carried more bytes than there was to tell
    quiet    for how long it went on after clients and faults had done their last
    leaks    what brokers still know where nothing of what clients began stands any more
    heals    what came of publications once all that failed was over, and made good where that takes its time

The first two need the hops, the last a rule with a matcher. What went over links is looked through in the pass of the
audit (`crossings`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.spark.compared import excused_of
from analysis.spark.crossings import MESSAGE
from analysis.spark.passes import pieces_of
from brokers.contract import NEVER
from brokers.naming import message_name
from brokers.promises import healing
from protocols import heavy

if TYPE_CHECKING:
    from analysis.spark.compared import Compared
    from analysis.spark.trace import Service, Trace


def frugal(trace: Trace, service: Service) -> bool:
    """Whether a publication may go only where somebody may get it."""
    said = bool(getattr(service.protocol, "frugal", False))
    return (
        said
        and trace.has("hops")
        and trace.network.is_tree
        and not ((trace.network.has_latent and service.opens) or _hands_over(trace, service))
    )


def budget(trace: Trace, service: Service, found: Compared) -> dict[str, Any] | None:
    """Counts and examples; None where no publications travel, or the protocol says that it sends them again."""
    if not service.kind.publications:
        return None
    resends = bool(getattr(service.protocol, "resends", False)) or _hands_over(trace, service)
    asked = {"twice": not resends, "waste": "waste" in found.crossed}
    counts = {sort: found.crossed.get(sort, 0) if ask else None for sort, ask in asked.items()}
    examples = {sort: [_crossing(trace, row) for row in found.links[sort]] for sort, ask in asked.items() if ask}
    return {**counts, "bytes": _too_heavy(trace, service), "examples": examples}


def _too_heavy(trace: Trace, service: Service) -> int | None:
    """How many links carried more bytes than they may; None where nobody can tell whose they were."""
    run, kind = trace.run, service.kind
    if len(trace.services) > 1 or not heavy.asked(kind) or _hands_over(trace, service):
        return None
    links = {name: run.read("links", [name])[name].to_numpy() for name in ("link", "messages", "bytes")}
    sizes, operations, clients = _said(trace)
    said = heavy.said_bytes(kind, sizes["size_bytes"], *operations)
    order = np.argsort(sizes["publication"])
    publication, size = sizes["publication"][order], sizes["size_bytes"][order]
    published, weight = np.zeros(links["link"].size, np.int64), np.zeros(links["link"].size, np.int64)
    for piece in pieces_of("hops", map(str, run.parts("hops")), ("kind", "link", "type", "body")):
        rows = piece.read()
        came = (rows["kind"] == MESSAGE) & (rows["link"] >= 0) & np.isin(rows["type"], sorted(kind.publications))
        at = np.minimum(np.searchsorted(publication, rows["body"][came]), max(publication.size - 1, 0))
        known = publication[at] == rows["body"][came] if publication.size else np.zeros(at.size, np.bool_)
        over = np.searchsorted(links["link"], rows["link"][came][known])
        np.add.at(published, over, 1)
        np.add.at(weight, over, size[at[known]])
    carried = heavy.Carried(links["messages"], links["bytes"], published, weight)
    return int((heavy.too_heavy(carried, said, trace.network.brokers + clients) > 0).sum())


def _said(trace: Trace) -> tuple[dict[str, Any], tuple[Any, Any], int]:
    """Publications with their sizes, operations and values of changes, and how many clients said anything."""
    run = trace.run
    names = {"publications": ["publication", "size_bytes", "client"], "changes": ["operation", "values", "client"]}
    tables = {name: run.read(name, columns) for name, columns in names.items()}
    sizes = {name: tables["publications"][name].to_numpy().astype(np.int64) for name in ("publication", "size_bytes")}
    changes = tables["changes"]
    clients = np.unique(np.concatenate([tables[name]["client"].to_numpy() for name in names]))
    values = changes["values"].to_numpy(zero_copy_only=False)
    return sizes, (changes["operation"].to_numpy(), values), int(clients.size)


def _hands_over(trace: Trace, service: Service) -> bool:
    """What is kept for clients that are away comes after them, maybe by a way that it has gone before."""
    return trace.has("stays") and trace.run.rows("stays") > 0 and service.guarantees(trace.network).hands_over


def _crossing(trace: Trace, row: dict[str, int]) -> dict[str, Any]:
    network, link = trace.network, row["link"]
    ends = {"from": network.names[network.source[link]], "to": network.names[network.target[link]]}
    return {**row, **ends, "message": message_name(row["publication"], network.brokers)}


def acted_ns(trace: Trace) -> dict[int, int]:
    """By service, when last a client or a fault did something."""
    last = -1
    for name, columns in (("faults", ("begin_ns", "end_ns")), ("stays", ("begin_ns", "end_ns"))):
        if trace.has(name) and trace.run.rows(name):
            table = trace.run.read(name, list(columns))
            last = max(last, *(int(table[column].to_numpy().max()) for column in columns))
    found = {service.number: last for service in trace.services}
    for name, column in (("publications", "time_ns"), ("changes", "issued_ns")):
        for piece in pieces_of(name, map(str, trace.run.parts(name)), ("service", column)):
            for row in piece.rows().group_by("service").aggregate([(column, "max")]).to_pylist():
                found[row["service"]] = max(found[row["service"]], row[f"{column}_max"])
    return found


def quiet(found: Compared, acted: int) -> dict[str, int] | None:
    """How long after that the last message or timer was handled, and how many long after; None where none was."""
    return None if found.last_ns < 0 else {"after_ns": max(0, found.last_ns - max(acted, 0)), "late": found.late}


def heals(trace: Trace, service: Service, found: Compared) -> dict[str, int] | None:
    """From when on all was owed again after faults, and of what was published then how much was decided and missed."""
    from_ns = healing(service.guarantees(trace.network), service.faults(), excused_of(trace, service).again_ns).from_ns
    return None if from_ns >= NEVER or not found.healed else {"from_ns": from_ns, **found.healed}


def leaks(trace: Trace, service: Service) -> dict[str, int] | None:
    """Entries at the last sample, and at how many brokers.

    None where something that a client began stands then, or its end has not settled; where something failed or was
    lost, unless that has been recovered from.
    """
    run = trace.run
    stands = _stands_until(trace, service)
    if stands is None:
        return None
    run.check(["samples"])
    samples = run.read("samples", ["time_ns", "service", "entries"])
    rows = {name: samples[name].to_numpy() for name in samples.column_names}
    last = (rows["service"] == service.number) & (rows["time_ns"] == rows["time_ns"].max(initial=-1))
    if not last.any() or rows["time_ns"][last][0] <= stands:
        return None
    left = rows["entries"][last]
    return {"entries": int(left.sum()), "brokers": int((left > 0).sum())}


def _stands_until(trace: Trace, service: Service) -> int | None:
    """When the end of all that clients began had settled, and what failed was recovered from; None: never."""
    run, kind = trace.run, service.kind
    if not kind.revocations or not (trace.has("samples") and trace.has("losses")):
        return None
    until = -1
    if len(service.faults()["begin_ns"]) or run.rows("losses"):
        until = excused_of(trace, service).again_ns
        if until >= NEVER:
            return None
    begun: set[int] = set()
    ended: set[int] = set()
    columns = ("service", "operation", "interest", "settled_ns")
    for piece in pieces_of("changes", map(str, run.parts("changes")), columns):
        rows = piece.read()
        mine = {name: column[rows["service"] == service.number] for name, column in rows.items()}
        for operations, words in ((kind.interests, begun), (kind.revocations, ended)):
            words |= set(mine["interest"][np.isin(mine["operation"], sorted(operations))].tolist())
        if until < 0 and (mine["settled_ns"] < 0).any():
            return None
        until = max(until, int(mine["settled_ns"].max(initial=-1)))
    return None if not begun or begun - ended else until
