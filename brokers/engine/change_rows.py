"""The changes of a whole run, one row each: when it was issued, had settled, was revoked, had gone; what it leans on.

A change is settled when everything it caused has been handled, wherever: sent + 1 = handled, summed over all shards, at
the latest finish. What a link lost was not sent on; the count of losses stays beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Kind
from brokers.engine import layout as L
from brokers.engine.model import Model
from brokers.engine.shard import ShardResult

Rows = dict[str, NDArray[Any]]
_WHOLE = ("change", "service", "operation", "interest", "broker", "client", "issued_ns")


def changes_of(model: Model, results: list[ShardResult]) -> Rows:
    """The changes of all shards, by number."""
    parts = [part for r in results for part in r.changes]
    table = {name: _column(parts, name, np.int64) for name in _WHOLE}
    _settle(table, _column(parts, "standing", np.bool_), results)
    table["revoked_ns"] = np.full(table["change"].size, -1, np.int64)
    table["gone_ns"] = np.full(table["change"].size, -1, np.int64)
    for i, spec in enumerate(model.services):
        mine = table["service"] == i
        _end_by_revocations(table, mine, spec.kind_class)
        _end_by_replacements(table, mine, spec.kind_class)
    table["values"] = _values(parts)
    order = np.lexsort((table["interest"], table["service"], table["change"]))
    return {name: values[order] for name, values in table.items()}


def _column(parts: list[dict[str, Any]], name: str, dtype: type) -> NDArray[Any]:
    pieces: list[NDArray[Any]] = [
        np.broadcast_to(np.asarray(part[name], dtype), part["change"].size) for part in parts
    ]
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)


def _settle(table: Rows, standing: NDArray[np.bool_], results: list[ShardResult]) -> None:
    """When each had settled, -1 for never, and how many of its messages were lost."""
    keys = np.concatenate([r.cause_key for r in results])
    counts = np.concatenate([r.causes for r in results])
    unique, at = np.unique(keys, return_inverse=True)
    if not unique.size:
        table["settled_ns"] = table["lost"] = np.zeros(standing.size, np.int64)
        return
    sums = np.zeros((unique.size, 3), np.int64)
    finish = np.zeros(unique.size, np.int64)
    np.add.at(sums, at, counts[:, [L.C_SENT, L.C_HANDLED, L.C_LOST]])
    np.maximum.at(finish, at, counts[:, L.C_FINISH])
    settled = np.where(sums[:, 0] - sums[:, 2] + 1 == sums[:, 1], finish, -1)
    where = np.minimum(np.searchsorted(unique, table["change"]), unique.size - 1)
    table["settled_ns"] = np.where(standing, 0, settled[where])
    table["lost"] = np.where(standing, 0, sums[where, 2])


def _end_by_revocations(table: Rows, mine: NDArray[np.bool_], kind: Kind) -> None:
    begins = np.flatnonzero(mine & np.isin(table["operation"], sorted(kind.interests)))
    ends = np.flatnonzero(mine & np.isin(table["operation"], sorted(kind.revocations)))
    if not begins.size or not ends.size:
        return
    ends = ends[np.argsort(table["interest"][ends], kind="stable")]
    words = table["interest"][ends]
    found = np.minimum(np.searchsorted(words, table["interest"][begins]), words.size - 1)
    hit = words[found] == table["interest"][begins]
    _end(table, begins[hit], ends[found[hit]])


def _end_by_replacements(table: Rows, mine: NDArray[np.bool_], kind: Kind) -> None:
    """A value is ended by the next with its word."""
    states = np.flatnonzero(mine & np.isin(table["operation"], sorted(kind.replacements)))
    order = np.lexsort((table["change"][states], table["issued_ns"][states], table["interest"][states]))
    states = states[order]
    earlier, later = states[:-1], states[1:]
    same = table["interest"][earlier] == table["interest"][later]
    _end(table, earlier[same], later[same])


def _end(table: Rows, changes: NDArray[np.intp], by: NDArray[np.intp]) -> None:
    table["revoked_ns"][changes] = table["issued_ns"][by]
    table["gone_ns"][changes] = table["settled_ns"][by]


def _values(parts: list[dict[str, Any]]) -> NDArray[np.float64]:
    """The numeric bodies, padded with NaN to the widest."""
    rows = [part["values"] for part in parts]
    sizes = [part["change"].size for part in parts]
    values = np.full((sum(sizes), max((r.shape[1] for r in rows if r is not None), default=0)), np.nan)
    at = 0
    for r, size in zip(rows, sizes):
        if r is not None:
            values[at : at + size, : r.shape[1]] = r
        at += size
    return values


def dependencies_of(
    model: Model, changes: dict[str, NDArray[Any]], results: list[ShardResult]
) -> NDArray[np.int64]:
    """Pairs (change, on change). A leaning between interests becomes one between the changes that issued them."""
    pairs = [r.dependencies for r in results]
    leanings = np.unique(np.concatenate([r.leanings for r in results]), axis=0)
    for service in np.unique(leanings[:, 0]).tolist():
        kind = model.services[service].kind_class
        begins = (changes["service"] == service) & np.isin(changes["operation"], sorted(kind.interests))
        issued_by = dict(zip(changes["interest"][begins].tolist(), changes["change"][begins].tolist()))
        mine = leanings[leanings[:, 0] == service, 1:]
        pairs.append(
            np.array([[issued_by[a], issued_by[b]] for a, b in mine.tolist()], np.int64).reshape(-1, 2)
        )
    return np.unique(np.concatenate(pairs), axis=0)
