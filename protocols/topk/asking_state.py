"""What the shard's view of the protocols that ask keeps in a checkpoint: by ids of brokers, links and publications.

Rankings lie behind each other in `ids` and `scores`; whoever has one says how long it is, in the order of the lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Ints, ShardEnv
from brokers.indexes.topk.contract import Ranking
from protocols.topk.asking_record import AHEAD, AWAITED, OPEN_FREE

if TYPE_CHECKING:
    from protocols.topk.asking import Asking

_RANKED = {"ids": Column("i8", ("ranked",), low=0), "scores": Column("f8", ("ranked",), low=0)}
_DECIDED = {
    "broker": Column("i8", ("here",), low=0, high="brokers"),
    "decided": Column("i8", ("here",), low=0),
}
_CASES = {
    "publication": Column("i8", ("cases",), low=0),
    "values": Column("f8", ("cases", None)),
    "width": Column("i8", ("cases",), low=0),
}
_OPENS = {
    "publication": Column("i8", ("opens",), low=0),
    "broker": Column("i8", ("opens",), low=0, high="brokers"),
    "parent": Column("i8", ("opens",), low=-1, high="links"),
    "floor": Column("f8", ("opens",), low=0),
    "held": Column("i8", ("opens",), low=0),
    **_RANKED,
}
_BRANCHES = {
    "publication": Column("i8", ("branches",), low=0),
    "link": Column("i8", ("branches",), low=0, high="links"),
    "what": Column("i1", ("branches",), low=AHEAD, high=AWAITED),
    "limit": Column("f8", ("branches",), low=0),
}
_ROOTS = {  # in the order in which they entered
    "publication": Column("i8", ("roots",), low=0),
    "broker": Column("i8", ("roots",), low=0, high="brokers"),
    "body": Column("i8", ("roots",)),
    "found": Column("i8", ("roots",), low=-1),  # -1: it is not known yet
    **_RANKED,
}
_COLUMNS = {"decided": _DECIDED, "cases": _CASES, "opens": _OPENS, "branches": _BRANCHES, "roots": _ROOTS}
_PARTS = frozenset({"filters", "bounds", *_COLUMNS})


def state(asking: Asking) -> dict[str, Any]:
    """For `ShardProtocol.state`."""
    env, cases = asking.env, asking.cases
    here = np.flatnonzero(env.local)
    opens = np.flatnonzero(cases.open_case >= 0)
    case = cases.open_case[opens]
    c, broker = np.nonzero(cases.at >= 0)
    owner = np.zeros(cases.open_case.size, np.int64)
    owner[cases.at[c, broker]] = broker
    taken = np.flatnonzero(cases.key >= 0)
    rows: dict[int, Any] = {int(cases.key[c]): cases.row[c] for c in taken.tolist()}
    rows |= {publication: root.row for publication, root in asking.roots.items()}
    ranked = [slice(a, a + n) for a, n in zip(cases.start[opens].tolist(), cases.held[opens].tolist())]
    return {
        "filters": asking.filters.state(),
        "bounds": asking.snapshots.state() if asking.bounded else None,
        "decided": {"broker": here, "decided": asking.decided[here]},
        "cases": {
            "publication": np.array(list(rows), np.int64), "values": _padded(list(rows.values())),
            "width": np.array([row.size for row in rows.values()], np.int64),
        },
        "opens": {
            "publication": cases.key[case], "broker": owner[opens], "parent": cases.parent[opens],
            "floor": cases.floor[opens], "held": cases.held[opens],
            "ids": _joined([cases.ids[part] for part in ranked], np.int64),
            "scores": _joined([cases.scores[part] for part in ranked], np.float64),
        },
        "branches": _branches(asking, opens, owner[opens]),
        "roots": _roots(asking),
    }  # fmt: skip


def _branches(asking: Asking, opens: Ints, owner: Ints) -> dict[str, Any]:
    """The branches that open questions have asked, or may ask."""
    cases, links = asking.cases, asking.env.links
    found: list[tuple[int, int, int, float]] = []
    for o, broker in zip(opens.tolist(), owner.tolist()):
        c = int(cases.open_case[o])
        for link in links.out_link[links.out_start[broker] : links.out_start[broker + 1]].tolist():
            child = int(links.target[link])
            if asking.in_tree(link) and link != cases.parent[o] and cases.branch[c, child]:
                found.append((int(cases.key[c]), link, int(cases.branch[c, child]), float(cases.limit[c, child])))
    publication, link, what, limit = zip(*found) if found else ((), (), (), ())
    return {
        "publication": np.array(publication, np.int64), "link": np.array(link, np.int64),
        "what": np.array(what, np.int8), "limit": np.array(limit, np.float64),
    }  # fmt: skip


def _roots(asking: Asking) -> dict[str, Any]:
    uid = asking.env.bodies.uid
    listed = [(publication, asking.roots[publication]) for waiting in asking.order.values() for publication in waiting]
    found = [root.found for _, root in listed]
    return {
        "publication": np.array([publication for publication, _ in listed], np.int64),
        "broker": np.array([root.broker for _, root in listed], np.int64),
        "body": np.array([int(uid[root.body]) for _, root in listed], np.int64),
        "found": np.array([-1 if each is None else len(each.ids) for each in found], np.int64),
        "ids": _joined([each.ids for each in found if each is not None], np.int64),
        "scores": _joined([each.scores for each in found if each is not None], np.float64),
    }


def load(asking: Asking, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
    """For `ShardProtocol.load`."""
    env = asking.env
    sizes = {"brokers": env.brokers, "links": env.links.source.size}
    for each in states:
        check_columns(each, {}, others=_PARTS)
        for name, columns in _COLUMNS.items():
            check_columns(each[name], columns, sizes)
        for name in ("opens", "roots"):
            _check_rankings(env, each[name])
        decided = each["decided"]
        mine = env.local[decided["broker"]]
        asking.decided[decided["broker"][mine]] = decided["decided"][mine]
    asking.filters.load([each["filters"] for each in states])
    if asking.bounded:
        asking.snapshots.load([each["bounds"] for each in states])
    for each in states:
        rows = _rows_of(env, each["cases"])
        _load_opens(asking, each["opens"], rows)
        _load_branches(asking, each["branches"])
        _load_roots(asking, each["roots"], rows, handle_of)


def _check_rankings(env: ShardEnv, part: Any) -> None:
    lengths = part["held"] if "held" in part else np.maximum(part["found"], 0)
    if lengths.max(initial=0) > part["ids"].size or int(lengths.sum()) != part["ids"].size:
        raise BadState("rankings are not as long as is said")
    for ids in (part["ids"], part["publication"]):
        client = (ids >> 32) - env.entity_base
        if ((client < 0) | (client >= env.client_broker.size)).any():
            raise BadState("a ranking or a question is of a client that is not there")
    if not np.isfinite(part["scores"]).all():
        raise BadState("a score is no number")


def _rows_of(env: ShardEnv, part: Any) -> dict[int, Any]:
    attributes: int = env.kind.attributes  # type: ignore[attr-defined]
    width = part["values"].shape[1]
    if part["width"].size and not (part["width"].max() <= width and part["width"].min() >= attributes):
        raise BadState("a publication has fewer numbers than attributes, or than is said")
    rows = zip(part["publication"].tolist(), part["values"], part["width"].tolist())
    return {publication: values[:numbers].copy() for publication, values, numbers in rows}


def _load_opens(asking: Asking, part: Any, rows: Mapping[int, Any]) -> None:
    env, cases = asking.env, asking.cases
    mine = np.flatnonzero(env.local[part["broker"]])
    cases.reserve_opens(mine.size)
    begins = np.cumsum(part["held"]) - part["held"]
    for i in mine.tolist():
        key, broker, parent = (int(part[name][i]) for name in ("publication", "broker", "parent"))
        if key not in rows or (parent >= 0 and env.links.source[parent] != broker):
            raise BadState(f"a question at broker {broker} is about nothing, or of nobody")
        known = int(cases.case_of.find(np.array([key]))[0])
        c = known if known >= 0 else cases.take_on(key, rows[key])
        if cases.at[c, broker] >= 0:
            raise BadState(f"a question is open twice at broker {broker}")
        asking.now[OPEN_FREE] -= 1
        o = int(cases.open_free[asking.now[OPEN_FREE]])
        held = slice(int(begins[i]), int(begins[i] + part["held"][i]))
        cases.open_case[o], cases.parent[o], cases.floor[o], cases.pending[o] = c, parent, part["floor"][i], 0
        cases.start[o] = cases.keep_ranking(part["ids"][held], part["scores"][held])
        cases.held[o] = part["held"][i]
        cases.at[c, broker] = o
        cases.opens[c] += 1


def _load_branches(asking: Asking, part: Any) -> None:
    env, cases = asking.env, asking.cases
    case = cases.case_of.find(part["publication"])
    for c, link, what, limit in zip(*(each.tolist() for each in (case, part["link"], part["what"], part["limit"]))):
        broker, child = int(env.links.source[link]), int(env.links.target[link])
        if not env.local[broker]:
            continue
        if c < 0 or cases.at[c, broker] < 0 or not asking.in_tree(link) or cases.branch[c, child]:
            raise BadState(f"a branch of a question that broker {broker} does not have")
        cases.branch[c, child], cases.limit[c, child] = what, limit
        cases.pending[cases.at[c, broker]] += what == AWAITED


def _load_roots(asking: Asking, part: Any, rows: Mapping[int, Any], handle_of: Mapping[int, int]) -> None:
    from protocols.topk.asking import Root

    begin = 0
    columns = (part[name].tolist() for name in ("publication", "broker", "body", "found"))
    for publication, broker, uid, count in zip(*columns):
        held = slice(begin, begin + max(count, 0))
        begin = held.stop
        if not asking.env.local[broker]:
            continue
        if publication not in rows or uid not in handle_of or publication in asking.roots:
            raise BadState(f"publication {publication} waits at broker {broker} without its body, or twice")
        ids = part["ids"][held]
        found = None if count < 0 else Ranking(ids, part["scores"][held], ids >> 32)
        asking.roots[publication] = Root(broker, handle_of[uid], rows[publication], found)
        asking.order.setdefault(publication >> 32, []).append(publication)


def _padded(rows: Sequence[Any]) -> Any:
    width = max((row.size for row in rows), default=0)
    values = np.full((len(rows), width), np.nan)
    for at, row in enumerate(rows):
        values[at, : row.size] = row
    return values


def _joined(parts: Sequence[Any], dtype: Any) -> Any:
    return np.concatenate([np.empty(0, dtype), *parts])
