"""The audit of the kind `topk` in plain Python, for the conformance kit.

Who is in an answer depends on the others, so a publication is judged as a whole. Every filter is in one of three
conditions: certain (its last change had settled before the publication, and the next was not issued before the
publication's end), free (a change of it was in flight), or out. An answer R is right if it is the definition's
answer on the certain filters and some choice for the free ones. One choice decides it: those of R as they were
scored, of the others what scores least. For what is not among the first k may be weakened or left out without
changing who is. Where ties are kept out altogether, free filters may have made the tie that ends R: so R is right
too if below it, and not below any other filter, so many could have had one score that there was no room for all.

Where nothing was free, the table `rankings` has to say just what the definition does: ranks, scores, and whether the
boundary was a tie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from brokers.contract import Guarantees
from brokers.indexes.topk.contract import Answer, Query, answered, ranked
from brokers.indexes.topk.scan import Scan
from protocols.judging import Audit, Published, published
from protocols.standing import Standing, Tables
from protocols.topk.kind import TopK

_ALL = Query(None)
Told = list[tuple[int, int, float, int]]  # rank, filter, score, tie: rows of the table `rankings`


def judge(tables: Tables, kind: TopK, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * filters)."""
    found = Audit.of(tables, guarantees)
    standing = Standing(tables, kind, service, guarantees, heeds_ends=False)
    scored = index_of(standing, kind)
    answers = answers_of(tables["rankings"], service)
    for p in published(found, tables, kind, service):
        if p.lost:
            found.excused += 1
            found.free += 1
            continue
        told = answers.get(p.id, [])
        _judge(found, kind, standing, scored, p, told)
        _compare(found, p, "client", set(p.got), {id_ >> 32 for _, id_, _, _ in told if id_ >= 0} - p.gone)
    return found


def _judge(
    found: Audit, kind: TopK, standing: Standing, scored: Scan, p: Published, told: Told,
) -> None:  # fmt: skip
    right = rightly(kind, standing, scored, p, {id_: score for _, id_, score, _ in told if id_ >= 0})
    if right.told_exactly:
        _compare_told(found, p, told, right.definition)
    answer = {id_ for _, id_, _, _ in told if id_ >= 0}
    _compare(found, p, "filter", answer, right.ids)
    found.forced += len(right.forced)
    found.free += len((right.ids | answer) - right.forced)
    found.forbidden += len(standing.of) - len(right.ids | answer)


@dataclass(frozen=True)
class Right:
    """What the definition says of an answer."""

    ids: set[int]  # the filters that have to be in it, as the rest of it is
    forced: set[int]  # those that have to be in any
    certain: set[int]  # the filters of which nothing was in flight
    scores: dict[int, list[float]]  # of each filter that may count, by its possible versions, the oldest first
    weakest: dict[int, float]  # the same as the choice has them that decides it
    definition: Answer  # on them
    told_exactly: bool  # whether nothing that was in flight can show, so that ranks and scores are the definition's


def rightly(kind: TopK, standing: Standing, scored: Scan, p: Published, answer: Mapping[int, float]) -> Right:
    """What is right of a publication that got this answer, of filters and their scores; see the module."""
    asked, query = kind.asked(np.asarray(p.values, np.float64)), kind.query(p.id >> 32)
    best = scored.best(asked, Query(None, prorate=query.prorate))
    score_of = {standing.versions[n].change: score for n, score in zip(best.ids.tolist(), best.scores.tolist())}
    weakest, strongest, certain = {}, {}, set()
    every: dict[int, list[float]] = {}
    could: dict[float, int] = {}  # score -> how many free filters outside of the answer could have had it
    for id_, versions in standing.of.items():
        scores = [score_of.get(each.change, 0.0) for each in versions if standing.possible(each, p)]
        absent = standing.absent(id_, p)
        if not scores or id_ >> 32 == query.exclude:
            continue
        every[id_] = scores
        if id_ in answer and answer[id_] in scores:
            weakest[id_] = answer[id_]
        else:
            weakest[id_] = 0.0 if absent else min(scores)
            for score in set(scores) - {weakest[id_]}:
                could[score] = could.get(score, 0) + 1
        strongest[id_] = max(scores)
        if len(scores) == 1 and not absent:
            certain.add(id_)
    definition = answer_of(weakest, query)
    right = set(definition.ids.tolist())
    exactly = all(score <= query.threshold for id_, score in strongest.items() if id_ not in certain)
    if query.ties == "none" and right != set(answer):
        # By receiver, which free filter made which tie is not followed up: nothing is said then.
        unclear = query.unit == "receiver" and len(certain) < len(weakest)
        if unclear or _cut_by_tie(weakest, could, answer, query):
            right = set(answer)
    forced = set(answer_of(strongest, query).ids.tolist()) & certain
    return Right(right, forced, certain, every, weakest, definition, exactly)


def index_of(standing: Standing, kind: TopK) -> Scan:
    """All versions of filters, by their place in `standing.versions`."""
    scored = Scan(kind.attributes)
    for number, version in enumerate(standing.versions):
        scored.insert([number], np.reshape(version.values, (1, -1)))
    return scored


def _cut_by_tie(
    weakest: Mapping[int, float], could: Mapping[float, int], answer: Mapping[int, float], query: Query
) -> bool:
    """Whether an answer without ties may end where it does because of free filters."""
    rest = [score for id_, score in weakest.items() if id_ not in answer]
    lowest, highest = min(answer.values(), default=np.inf), max(rest, default=0.0)
    assert query.k is not None
    return len(answer) <= query.k and any(
        highest <= score < lowest and rest.count(score) + count > query.k - len(answer)
        for score, count in could.items()
        if score > query.threshold
    )


def _compare(found: Audit, p: Published, what: str, got: set[int], right: set[int]) -> None:
    named = found.client if what == "client" else lambda id_: f"filter {found.message(id_)}"
    for one in sorted(right - got):
        found.missed.add(f"{named(one)} is not in the answer to publication {found.message(p.id)}", p.sent)
    for one in sorted(got - right):
        found.unwanted.add(f"{named(one)} is in the answer to publication {found.message(p.id)}", p.sent)


def _compare_told(found: Audit, p: Published, told: Told, right: Answer) -> None:
    tie = int(right.tie_at_boundary)
    pairs = zip(right.ids.tolist(), right.scores.tolist())
    rows = [(rank, id_, score, tie) for rank, (id_, score) in enumerate(pairs)] or [(-1, -1, 0.0, tie)]
    lacking, mistold = Counter(rows), Counter(told)
    answer = f"the answer to publication {found.message(p.id)}"
    for row in (mistold - lacking).elements():
        found.unwanted.add(f"{answer} has (rank, filter, score, tie) {row}", p.sent)
    for row in (lacking - mistold).elements():
        found.missed.add(f"{answer} lacks (rank, filter, score, tie) {row}", p.sent)


def answer_of(scores: Mapping[int, float], query: Query) -> Answer:
    ids = np.array(sorted(scores), np.int64)
    values = np.array([scores[id_] for id_ in ids.tolist()], np.float64)
    return answered(ranked(ids, values, ids >> 32, query), query)


def answers_of(rankings: Mapping[str, Any], service: int) -> dict[int, Told]:
    """What each publication was answered with."""
    mine = rankings["service"] == service
    found: dict[int, Told] = {}
    columns = (rankings[name][mine].tolist() for name in ("publication", "rank", "interest", "score", "tie"))
    for p, rank, id_, score, tie in zip(*columns):
        found.setdefault(p, []).append((rank, id_, score, tie))
    return found
