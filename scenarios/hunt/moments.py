"""What a run tells about its instants: when brokers handled what changes had caused, and who answers whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scenarios.hunt.case import Case
from scenarios.hunt.running import Outcome

_MOMENTS_MOST = 400
_ANSWERS_MOST = 12  # interests, and publications, that are held against each other
_AFTER = 4  # events of a broker that come next


class Moment(NamedTuple):
    """When a broker handled something that a change had caused."""

    time: int
    broker: int
    link: int  # over which it came; -1: from a client, or a timer
    act: int = -1  # the number of the action that caused it; -1: not known
    source: int = -1  # the broker that sent it
    sent: int = -1  # when it left that one; -1: it came over no link
    after: tuple[int, ...] = ()  # the times of the next events of the broker


class Moments(NamedTuple):
    """All that can be aimed at in a case."""

    every: list[Moment]  # in the order of time; of a long run some
    lags: Mapping[tuple[int, int], int]  # (action, or -1 - broker of a client; broker): how long it took to there
    answers: Mapping[int, frozenset[int]]  # action that begins something -> publications that it answers
    begun: Mapping[int, int]  # action that changes or ends something -> that which began it


def moments(outcome: Outcome) -> Moments:
    """Those of a run."""
    if not outcome.tables:
        return Moments([], {}, {}, {})
    acts = _acts_by_id(outcome)
    return Moments(_every(outcome, acts), _lags(outcome, acts), _answers(outcome), _begun(outcome))


def way_ns(case: Case, source: int, target: int) -> int:
    """How long the quickest way takes from one broker to another."""
    reached, ahead = {}, [(0, source)]
    while ahead:
        time, broker = min(ahead)
        ahead.remove((time, broker))
        if broker in reached:
            continue
        reached[broker] = time
        for edge in case.edges:
            if broker in (edge.a, edge.b):
                ahead.append((time + edge.delay_ns, edge.b if broker == edge.a else edge.a))
    return reached.get(target, 0)


def _acts_by_id(outcome: Outcome) -> dict[int, int]:
    """The id of a change or publication -> the number of its action."""
    case, nodes = outcome.case, outcome.model.overlay.nodes
    at: dict[tuple[int, int, int], list[int]] = {}
    for i, act in enumerate(case.acts):
        at.setdefault((act.client, act.at, outcome.kind.types[act.op]), []).append(i)
    found: dict[int, int] = {}
    changes, publications = outcome.tables["changes"], outcome.tables["publications"]
    rows = [
        *zip(*(changes[name].tolist() for name in ("change", "client", "issued_ns", "operation"))),
        *((id_, client, time, None) for id_, client, time in zip(
            *(publications[name].tolist() for name in ("publication", "client", "time_ns"))
        )),
    ]  # fmt: skip
    sent = sorted(outcome.kind.publications - outcome.kind.changes)
    for id_, client, time, type_ in sorted(rows, key=lambda row: row[0]):
        for each in sent if type_ is None else [type_]:
            if mine := at.get((client - nodes, time, each)):
                found[id_] = mine.pop(0)
                break
    return found


def _every(outcome: Outcome, acts: Mapping[int, int]) -> list[Moment]:
    case, hops = outcome.case, outcome.tables["hops"]
    order = np.lexsort((hops["sequence"], hops["broker"], hops["time_ns"]))
    columns = {name: hops[name][order] for name in ("time_ns", "broker", "link", "cause", "source", "finish_ns")}
    mine = (columns["cause"] >= 0) & (columns["time_ns"] < case.duration_ns) & (columns["broker"] < case.brokers)
    at = np.flatnonzero(mine)
    at = at[:: max(1, at.size // _MOMENTS_MOST)]
    times = {broker: np.unique(columns["time_ns"][columns["broker"] == broker]) for broker in range(case.brokers)}
    finishes = {
        broker: np.unique(columns["finish_ns"][columns["broker"] == broker]) for broker in range(case.brokers)
    }
    delays = {pair: edge for edge in case.edges for pair in ((edge.a, edge.b), (edge.b, edge.a))}
    found = []
    for i in at.tolist():
        time, broker, link, source = (int(columns[name][i]) for name in ("time_ns", "broker", "link", "source"))
        sent, edge = -1, delays.get((source, broker)) if link >= 0 else None
        if edge is not None:  # it left when its sender was done with something: the last time that goes with the delay
            known = finishes[source]
            before = int(np.searchsorted(known, time - edge[2], "right"))
            sent = int(known[before - 1]) if before else -1
        later = times[broker]
        next_ = int(np.searchsorted(later, time, "right"))
        after = tuple(later[next_ : next_ + _AFTER].tolist())
        act = acts.get(int(columns["cause"][i]), -1)
        found.append(Moment(time, broker, link, act, source if sent >= 0 else -1, sent, after))
    return found


def _lags(outcome: Outcome, acts: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """How long what clients did took to where it was handled first."""
    case, hops = outcome.case, outcome.tables["hops"]
    nothing = hops["cause"] < 0
    ids = np.where(nothing, hops["body"], hops["cause"])
    found: dict[tuple[int, int], int] = {}
    for id_, broker, time in zip(ids.tolist(), hops["broker"].tolist(), hops["time_ns"].tolist()):
        i = acts.get(id_, -1)
        if i < 0:
            continue
        act = case.acts[i]
        took = time - act.at
        for key in ((i, broker), (-1 - case.clients[act.client], broker)):
            found[key] = min(found.get(key, took), took)
    return found


def _answers(outcome: Outcome) -> dict[int, frozenset[int]]:
    """Which publications each interest answers, by the definition; nothing where a kind does not say it of pairs."""
    case, kind = outcome.case, outcome.kind
    types = [kind.types[act.op] for act in case.acts]
    rows = [_row(act.body) for act in case.acts]
    begins = [i for i, type_ in enumerate(types) if type_ in kind.interests and rows[i] is not None]
    free = [i for i, type_ in enumerate(types) if type_ in kind.publications and rows[i] is not None]
    distinct = {case.acts[i].body: i for i in reversed(free)}
    some = sorted(distinct.values())[:_ANSWERS_MOST]
    found: dict[int, frozenset[int]] = {}
    for i in begins[:_ANSWERS_MOST]:
        try:
            asked = {each for each in some if kind.oracle({i: rows[i]}, rows[each])}
        except Exception:  # of a kind whose interests stand for nothing alone: then none is preferred
            return {}
        found[i] = frozenset(each for each in free if distinct[case.acts[each].body] in asked)
    return found


def _row(body: Any) -> Any:
    return None if body is None else np.array([np.nan if value is None else value for value in body], np.float64)


def _begun(outcome: Outcome) -> dict[int, int]:
    """Which action began what another changes or ends."""
    case, kind = outcome.case, outcome.kind
    began: dict[Any, int] = {}
    found: dict[int, int] = {}
    for i in sorted(range(len(case.acts)), key=lambda i: case.acts[i].at):
        act = case.acts[i]
        if act.about in began:
            found[i] = began[act.about]
        elif act.about is not None and kind.types[act.op] in kind.interests:
            began[act.about] = i
    return found


__all__ = ["Moment", "Moments", "moments", "way_ns"]
