"""The audit of the kind `spatial` in plain Python, for the conformance kit.

A subscription has to be served if it is settled and in RT(q) although all objects that may have been there were:
the certain and the free ones. It may be served if it may have been there and is in RT_delta(q) among the certain
objects alone. Whatever the free ones did, the right answer lies between: more objects make it smaller.

An object is there from when it was published until it was withdrawn, or, where only the last n of a broker count,
until the n-th after it at its broker was published. It is gone when that had settled. A change has settled once all
that it leans on has too; of which a link lost something never settles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Guarantees
from brokers.indexes.spatial.geometry import Geometry, geometry_named, squared_distances
from protocols.conformance import Audit, handled_last, judge_order, message_name
from protocols.spatial.kind import EXPIRE, OBJECT_KEYWORDS, PUBLISH, SUBSCRIBE, SUBSCRIPTION_KEYWORDS, Spatial

Times = NDArray[np.int64]


class _Things:
    """Objects or subscriptions: where, about what, and when."""

    def __init__(
        self, rows: list[int], table: Mapping[str, Any], settled: Mapping[int, int], start: int, geometry: Geometry
    ) -> None:
        self.change: Times = np.array([table["change"][row] for row in rows], np.int64)
        self.client: Times = np.array([table["client"][row] for row in rows], np.int64)
        self.broker: Times = np.array([table["broker"][row] for row in rows], np.int64)
        self.interest: Times = np.array([table["interest"][row] for row in rows], np.int64)
        self.issued: Times = np.array([table["issued_ns"][row] for row in rows], np.int64)
        self.settled: Times = np.array([settled[int(c)] for c in self.change], np.int64)
        self.ended: Times = np.full(len(rows), NEVER, np.int64)
        self.gone: Times = np.full(len(rows), NEVER, np.int64)
        values = [np.asarray(table["values"][row], np.float64) for row in rows]
        self.points = geometry.points(np.array([v[:2] for v in values]).reshape(-1, 2), len(rows), "changes")
        self.words = [{int(word) for word in v[start:].tolist() if word == word} for v in values]

    def end(self, at: int, ended: int, gone: int) -> None:
        """Of two ends the earlier one is told to others, and the later one does nothing."""
        if ended == self.ended[at]:
            self.gone[at] = max(int(self.gone[at]), gone)
        elif ended < self.ended[at]:
            self.ended[at], self.gone[at] = ended, gone

    def certain(self, sent: int, end: int) -> NDArray[np.bool_]:
        return (self.settled < sent) & (self.ended > end)

    def possible(self, sent: int, end: int) -> NDArray[np.bool_]:
        return (self.issued <= end) & (self.gone >= sent)


def judge(tables: Mapping[str, Mapping[str, Any]], kind: Spatial, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * subscriptions * objects)."""
    found = Audit(guarantees)
    geometry = geometry_named(kind.geometry)
    objects, subscriptions = _things(tables, kind, guarantees, service, geometry)
    related = np.array([[bool(s & o) for o in objects.words] for s in subscriptions.words], np.bool_)
    related = related.reshape(len(subscriptions.words), len(objects.words))
    squared = np.array([squared_distances(objects.points, point) for point in subscriptions.points])
    squared = squared.reshape(related.shape)
    losses = tables["losses"]
    lost = set() if guarantees.under_loss else set(losses["body"][losses["service"] == service].tolist())
    last = handled_last(tables)
    deliveries = tables["deliveries"]
    mine = deliveries["service"] == service
    publication, client = (deliveries[name][mine].tolist() for name in ("publication", "client"))
    got: dict[int, list[int]] = {}
    for p, c in zip(publication, client):
        got.setdefault(p, []).append(c)
    found.deliveries = len(publication)
    at = {change: i for i, change in enumerate(objects.change.tolist())}
    published = tables["publications"]
    for row in np.flatnonzero(published["service"] == service).tolist():
        p, sent = int(published["publication"][row]), int(published["time_ns"][row])
        end = max(last.get(p, sent), sent)
        q, k = at[p], kind.asked(np.asarray(published["values"][row]))
        nearer = squared < squared[:, [q]]
        much_nearer = squared < geometry.reach(squared[:, q], kind.delta)[:, None]
        others = related & (np.arange(len(at)) != q)
        most = (nearer & others & objects.possible(sent, end)).sum(axis=1)
        least = (much_nearer & others & objects.certain(sent, end)).sum(axis=1)
        forced = related[:, q] & (most < k) & subscriptions.certain(sent, end)
        allowed = related[:, q] & (least < k) & subscriptions.possible(sent, end)
        must, may = (set(subscriptions.client[which].tolist()) for which in (forced, allowed))
        _compare(found, p, must, may, got.pop(p, []), p in lost, set(subscriptions.client.tolist()))
    for p in got:
        found.unwanted.add(f"publication {message_name(p)}, which nobody published")
    judge_order(found, publication, client, *(deliveries[n][mine].tolist() for n in ("published_ns", "time_ns")))
    return found


def _compare(found: Audit, p: int, must: set[int], may: set[int], got: list[int], lost: bool, all_: set[int]) -> None:
    found.publications += 1
    if lost:
        found.excused += len(must)
        must = set()
    for client in sorted(must - set(got)):
        found.missed.add(f"client {client} did not get object {message_name(p)}")
    for client in sorted(set(got) - may):
        found.unwanted.add(f"client {client} got object {message_name(p)}")
    if len(got) > len(set(got)):
        found.duplicated.add(f"object {message_name(p)} went to a client twice")
    found.forced_yes += len(must)
    found.free += len(may - must)
    found.forced_no += len(all_ - may)


def _things(
    tables: Mapping[str, Mapping[str, Any]], kind: Spatial, guarantees: Guarantees, service: int, geometry: Geometry
) -> tuple[_Things, _Things]:
    """Objects and subscriptions, with their ends."""
    table = tables["changes"]
    settled = _settled(tables, guarantees)
    rows: dict[int, list[int]] = {}
    mine = np.flatnonzero(table["service"] == service)
    for row in mine[np.lexsort((table["change"][mine], table["issued_ns"][mine]))].tolist():
        rows.setdefault(int(table["operation"][row]), []).append(row)
    objects = _Things(rows.pop(PUBLISH, []), table, settled, OBJECT_KEYWORDS, geometry)
    subscriptions = _Things(rows.pop(SUBSCRIBE, []), table, settled, SUBSCRIPTION_KEYWORDS, geometry)
    for operation, ends in rows.items():
        things = objects if operation == EXPIRE else subscriptions
        at = {interest: i for i, interest in enumerate(things.interest.tolist())}
        for row in ends:
            change = int(table["change"][row])
            things.end(at[int(table["interest"][row])], int(table["issued_ns"][row]), settled[change])
    if kind.last is not None:
        for broker in np.unique(objects.broker).tolist():
            order = np.flatnonzero(objects.broker == broker)  # by time, and at one time by client and number
            for out, by in zip(order[: -kind.last].tolist(), order[kind.last :].tolist()):
                objects.end(out, int(objects.issued[by]), int(objects.settled[by]))
    return objects, subscriptions


def _settled(tables: Mapping[str, Mapping[str, Any]], guarantees: Guarantees) -> dict[int, int]:
    """When each change had settled with all that it leans on; NEVER if a link lost something of it."""
    table, leans = tables["changes"], tables["dependencies"]
    own: dict[int, int] = {}
    columns = ("change", "issued_ns", "settled_ns", "lost")
    for change, issued, settled, lost in zip(*(table[name].tolist() for name in columns)):
        spoilt = settled < 0 or (lost and not guarantees.under_loss)
        own[change] = -1 if issued < 0 else NEVER if spoilt else settled
    on: dict[int, set[int]] = {}
    for change, other in zip(leans["change"].tolist(), leans["depends_on"].tolist()):
        on.setdefault(change, set()).add(other)
    found = {}
    for change in own:
        seen, ahead = {change}, [change]
        while ahead:
            for other in on.get(ahead.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    ahead.append(other)
        found[change] = max(own[one] for one in seen)
    return found
