"""Sorts of pairs of a publication and a client that somebody may ask about, by service.

What the audit found, what was lost by each reason, what was wanted and did not come, what came twice, and the slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from analysis.report.copies import index
from analysis.report.gather import Array, Gathered
from analysis.report.wanting import Missed
from analysis.report.words import plain, time
from analysis.spark.trace import Service
from analysis.ways.told import Told
from brokers.errors import BrokerlabError
from brokers.faults import REASONS
from brokers.naming import message_id
from brokers.verdicts import FINDINGS, words
from scenarios.many.metrics import kept_audit

_TRIED, _OF_A_SORT = 30, 40

Pairs = Iterator[tuple[int, int, str]]  # publication, entity id of the client, why


class Sort(NamedTuple):
    """Pairs of one service that are worth a look for one reason; those that are tried first come first."""

    service: int
    name: str
    total: int  # how many there are in the run
    pairs: Pairs
    audited: bool = False


def sorts(found: Gathered, missed: Missed, told: Callable[[Service], Told]) -> list[Sort]:
    """All that there are, the gravest first."""
    return [*_audited(found), *_lost(found, missed, told), *_missed(found, missed), *_twice(found), *_slowest(found)]


def _named(found: Gathered, service: int, what: str) -> str:
    return f"{plain(found.names[service])}: {what}"


def _audited(found: Gathered) -> Iterator[Sort]:
    audit = kept_audit(found.run) or {"services": []}
    numbers = {name: at for at, name in enumerate(found.names)}
    for service in audit["services"]:
        for finding in FINDINGS:
            told = service["findings"][finding]
            pairs = list(_examples(found, told.get("examples", []), f"{words(finding)}, by the audit"))
            if pairs and service["service"] in numbers:
                number = numbers[service["service"]]
                yield Sort(number, _named(found, number, words(finding)), told["count"], iter(pairs), audited=True)


def _examples(found: Gathered, examples: Any, why: str) -> Pairs:
    nodes = found.network.brokers
    for each in examples if isinstance(examples, list) else []:
        try:
            yield message_id(str(each["message"]), nodes), int(each["client"]) + nodes, why
        except (BrokerlabError, KeyError, TypeError, ValueError):
            continue  # an audit.json that another version wrote


def _lost(found: Gathered, missed: Missed, told: Callable[[Service], Told]) -> Iterator[Sort]:
    """Publications of which a copy was lost, and a client that did not get them for that."""
    rows = found.rows("losses")
    published = index(np.sort(found.rows("publications")["publication"]), rows["body"]) >= 0
    sort = rows["service"] * len(REASONS) + rows["reason"]
    for each in np.unique(sort[published]).tolist():
        service, reason = divmod(each, len(REASONS))
        mine = np.flatnonzero(published & (sort == each))
        mine = mine[np.argsort(rows["time_ns"][mine], kind="stable")]
        name = _named(found, service, f"lost copies ({REASONS[reason]})")
        yield Sort(service, name, mine.size, _losses(found, missed, told, service, _spread(mine)))


def _losses(
    found: Gathered, missed: Missed, told: Callable[[Service], Told], service: int, chosen: Array
) -> Pairs:
    assert found.kinds is not None
    rows = found.rows("losses")
    for at in chosen.tolist():
        body, client = int(rows["body"][at]), int(rows["client"][at])
        if client < 0 and missed.decided[service]:
            client = int(next(iter(missed.client[missed.publication == body]), -1))
        elif client < 0:
            client = _without(told(found.kinds[service]), body)
        if client >= 0:
            yield body, client, f"lost at {time(int(rows['time_ns'][at]))}"


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


def _missed(found: Gathered, missed: Missed) -> Iterator[Sort]:
    """What was wanted by values and did not come: maybe rightly, as a change was under way."""
    for service in range(found.services):
        mine = missed.service == service
        pairs, _ = _counted(missed.publication[mine], missed.client[mine])
        if pairs.size:
            name = _named(found, service, "wanted by values, not delivered")
            yield Sort(service, name, len(pairs), _some(pairs, "wanted by its values"))


def _twice(found: Gathered) -> Iterator[Sort]:
    rows = found.rows("deliveries")
    for service in range(found.services):
        mine = rows["service"] == service
        pairs, count = _counted(rows["publication"][mine], rows["client"][mine])
        again = pairs[count > 1]
        if again.size:
            name = _named(found, service, "delivered more than once")
            yield Sort(service, name, len(again), _some(again, "it came more than once"))


def _counted(publication: Array, client: Array) -> tuple[Array, Array]:
    """Each pair once, as rows, and how often it is there."""
    ids, clients = np.unique(publication), np.unique(client)
    pairs, count = np.unique(index(ids, publication) * clients.size + index(clients, client), return_counts=True)
    at, who = np.divmod(pairs, max(1, clients.size))
    return np.stack([ids[at], clients[who]], axis=1), count


def _some(pairs: Array, why: str) -> Pairs:
    for publication, client in pairs[_spread(np.arange(len(pairs)))].tolist():
        yield publication, client, why


def _slowest(found: Gathered) -> Iterator[Sort]:
    rows = found.rows("deliveries")
    took = rows["time_ns"] - rows["published_ns"]
    published = index(np.sort(found.rows("publications")["publication"]), rows["publication"]) >= 0
    for service in range(found.services):
        mine = np.flatnonzero((rows["service"] == service) & published)
        if mine.size:
            at = mine[np.argmax(took[mine])]
            pair = int(rows["publication"][at]), int(rows["client"][at]), f"the slowest, {time(int(took[at]))}"
            yield Sort(service, _named(found, service, "deliveries, the slowest"), mine.size, iter([pair]))


def _spread(rows: Array) -> Array:
    """Some of all, first and last among them: in halves, so that whoever takes a few has them from everywhere."""
    if rows.size <= 2:
        return rows
    most = min(_OF_A_SORT, rows.size)
    at = np.linspace(0, rows.size - 1, most).astype(np.int64)
    order = sorted(range(most), key=lambda each: (int(f"{each:06b}"[::-1], 2), each))
    return rows[at[order]]
