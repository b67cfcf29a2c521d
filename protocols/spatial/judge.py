"""The audit of the kind `spatial` in plain Python, for the conformance kit.

A subscription has to be served if it is settled and in RT(q) although all objects that may have been there were:
the certain and the free ones. It may be served if it may have been there and is in RT_delta(q) among the certain
objects alone. Whatever the free ones did, the right answer lies between: more objects make it smaller.

An object is there from when it was published until it was withdrawn. Where only the last n of a broker count, it is
there until the n-th after it at its broker was published; where it has a lifetime, until the first there that is so
much younger was. It is gone when that had settled. A change has settled once all that it leans on has too; of which a
link lost something never settles.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Guarantees
from brokers.indexes.spatial.geometry import Geometry, geometry_named, squared_distances
from protocols.judging import Audit, Published, judge_pairs, published
from protocols.spatial.kind import OBJECT_KEYWORDS, PUBLISH, SUBSCRIBE, SUBSCRIPTION_KEYWORDS, Spatial
from protocols.standing import Span, Standing, Tables, Version

Times = NDArray[np.int64]
Flags = NDArray[np.bool_]


class _Things:
    """Objects or subscriptions: where, about what, and when."""

    def __init__(self, standing: Standing, versions: list[Version], start: int, geometry: Geometry) -> None:
        self.standing = standing
        self.versions = versions
        places = np.array([version.values[:2] for version in versions]).reshape(-1, 2)
        self.points = geometry.points(places, len(versions), "changes")
        self.words = [{int(word) for word in each.values[start:].tolist() if word == word} for each in versions]

    def certain(self, span: Span) -> NDArray[np.bool_]:
        return np.array([self.standing.certain(each, span) for each in self.versions], np.bool_)

    def possible(self, span: Span) -> NDArray[np.bool_]:
        return np.array([self.standing.possible(each, span) for each in self.versions], np.bool_)


def judge(tables: Tables, kind: Spatial, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * subscriptions * objects)."""
    found = Audit.of(tables, guarantees)
    nearness = Nearness(tables, kind, guarantees, service)
    clients = np.array([version.client for version in nearness.subscriptions.versions], np.int64)
    asking = set(clients.tolist())
    for p in published(found, tables, kind, service):
        forced, allowed = nearness.decided(p)
        must, may = (set(clients[which].tolist()) for which in (forced, allowed))
        judge_pairs(found, p, set() if p.lost else must, may, must, asking)
    return found


class Nearness:
    """How far all objects are from all subscriptions, or those of a client, and what that decides.

    O(subscriptions * objects).
    """

    def __init__(
        self, tables: Tables, kind: Spatial, guarantees: Guarantees, service: int, client: int | None = None
    ) -> None:
        self.kind, self.geometry = kind, geometry_named(kind.geometry)
        self.objects, self.subscriptions = _things(tables, kind, guarantees, service, self.geometry, client)
        related = np.array([[bool(s & o) for o in self.objects.words] for s in self.subscriptions.words], np.bool_)
        self.related = related.reshape(len(self.subscriptions.words), len(self.objects.words))
        squared = np.array([squared_distances(self.objects.points, point) for point in self.subscriptions.points])
        self.squared = squared.reshape(self.related.shape)
        self.at = {version.change: i for i, version in enumerate(self.objects.versions)}

    def nearer(self, p: Published) -> tuple[Flags, Flags]:
        """[subscription, object]: which are nearer than a publication, of those that may count; delta times nearer, of
        those that must."""
        q = self.at[p.id]
        nearer = self.squared < self.squared[:, [q]]
        much_nearer = self.squared < self.geometry.reach(self.squared[:, q], self.kind.delta)[:, None]
        others = self.related & (np.arange(len(self.at)) != q)
        return nearer & others & self.objects.possible(p), much_nearer & others & self.objects.certain(p)

    def decided(self, p: Published) -> tuple[Flags, Flags]:
        """[subscription]: which have to be served, and which may."""
        q, k = self.at[p.id], self.kind.asked(np.asarray(p.values))
        most, least = (each.sum(axis=1) for each in self.nearer(p))
        forced = self.related[:, q] & (most < k) & self.subscriptions.certain(p)
        return forced, self.related[:, q] & (least < k) & self.subscriptions.possible(p)


def _things(
    tables: Tables, kind: Spatial, guarantees: Guarantees, service: int, geometry: Geometry, client: int | None
) -> tuple[_Things, _Things]:
    """Objects and subscriptions, with their ends."""
    standing = Standing(tables, kind, service, guarantees, heeds_ends=False)
    published = [version for version in standing.versions if version.type == PUBLISH]
    for broker in {version.broker for version in published}:
        here = [version for version in published if version.broker == broker]  # by time, then by client and number
        for out, by in _put_out(np.array([version.issued for version in here], np.int64), kind):
            here[out].ends.append(here[by].change)
    for version in published:
        _end_once(standing, version)
    asked = [
        version for version in standing.versions if version.type == SUBSCRIBE and client in (None, version.client)
    ]
    return (
        _Things(standing, published, OBJECT_KEYWORDS, geometry),
        _Things(standing, asked, SUBSCRIPTION_KEYWORDS, geometry),
    )


def _end_once(standing: Standing, version: Version) -> None:
    """Of several ends the first is told to others, and later ones do nothing; of those at once both are told."""
    version.ended = min((standing.issued[end] for end in version.ends), default=NEVER)
    first = [end for end in version.ends if standing.issued[end] == version.ended]
    version.ends = sorted(first, key=standing.settles)[-1:]


def _put_out(issued: Times, kind: Spatial) -> Iterator[tuple[int, int]]:
    """Of the objects of a broker, in their order: which one leaves a window because of which."""
    if kind.last is not None:
        yield from zip(range(issued.size), range(kind.last, issued.size))
    if kind.lifetime_ns is not None:
        by = np.searchsorted(issued, issued + kind.lifetime_ns)
        yield from zip(range(issued.size), by[by < issued.size].tolist())
