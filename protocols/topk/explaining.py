"""Why a filter is among the k best of a publication or is not: its rank and score, and the k-th.

Filters are ranked on the choice of what was in flight that decides the answer (`protocols.topk.judge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from brokers.contract import Kind
from brokers.indexes.topk.contract import Query, ranked
from protocols.explaining import (
    EXCUSED,
    FREE,
    NOT_OWED,
    OWED,
    Asked,
    Decided,
    Due,
    Explaining,
    Lean,
    listed,
    ordinal,
)
from protocols.judging import Audit, Published
from protocols.standing import Standing, Version
from protocols.topk.asking_record import ANSWER, DELIVERY, QUESTION
from protocols.topk.judge import Right, answer_of, answers_of, index_of, rightly
from protocols.topk.kind import PUBLISH, TopK

_AHEAD_MOST = 3  # filters that rank before, which are named


class TopKExplained(Explaining):
    """See the module."""

    decides_first: ClassVar[bool] = True
    carries: ClassVar[frozenset[int]] = frozenset({PUBLISH, DELIVERY})
    asks: ClassVar[frozenset[int]] = frozenset({QUESTION})
    answers: ClassVar[frozenset[int]] = frozenset({ANSWER})
    called: ClassVar[Mapping[int, str]] = {QUESTION: "question", ANSWER: "answer", DELIVERY: "delivery"}

    def __init__(self, kind: Kind) -> None:
        assert isinstance(kind, TopK)
        self.kind = kind

    def may_want(self, publication: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
        """Whether a filter scores above the threshold, and is not the publisher's own where that is left out."""
        if change["operation"] not in self.kind.wants():
            return False
        rows = {change["interest"]: np.asarray(change["values"], np.float64)}
        return bool(self.kind.answer(rows, publication["values"], publication["publication"] >> 32).ids.size)

    def due(self, asked: Asked) -> Due:
        """What the definition says of a client: of the best of its filters."""
        found, p = asked.published(self.kind)
        standing = Standing(asked.tables, self.kind, asked.service, asked.guarantees, heeds_ends=False)
        told = answers_of(asked.alone["rankings"], asked.service).get(p.id)
        answer = {id_: score for _, id_, score, _ in told or () if id_ >= 0}
        right = rightly(self.kind, standing, index_of(standing, self.kind), p, answer)
        return _Case(self.kind, found, standing, right, answer, p, asked).due(told is not None)


@dataclass(frozen=True)
class _Case:
    """One answer, and what is right of it."""

    kind: TopK
    found: Audit
    standing: Standing
    right: Right
    answer: Mapping[int, float]
    p: Published
    asked: Asked

    def due(self, decided: bool) -> Due:
        mine = [id_ for id_ in self.standing.of if id_ >> 32 == self.asked.client]
        due, best = self._status(mine)
        result = Due(due, decided=self._decided(mine) if decided else None)
        if best is None:
            return result
        mine.sort(key=lambda id_: id_ != best)
        result.interests = [each.change for id_ in mine for each in self._counting(id_)]
        result.said = list(self._said(best, due))
        result.leans = list(self._leans(best))
        return result

    # ---- what is due -------------------------------------------------------------------------------------

    def _status(self, mine: list[int]) -> tuple[str, int | None]:
        """What is due, and the filter that makes it so."""
        right, answer = self.right, set(self.answer)
        wrong = [id_ for id_ in mine if id_ in answer - right.ids]
        owed = [id_ for id_ in mine if id_ in right.forced] or [id_ for id_ in mine if id_ in right.ids - answer]
        if owed:
            return EXCUSED if self.p.lost else OWED, min(owed, key=self._place)
        given = [id_ for id_ in mine if id_ in right.ids]
        if given:
            return FREE, min(given, key=self._place)
        if wrong and not self.p.lost:
            return NOT_OWED, wrong[0]
        could = [id_ for id_ in mine if id_ in right.scores and (self.p.lost or self._could(id_))]
        if could:
            return FREE, min(could, key=self._place)
        return NOT_OWED, min(mine, key=self._place, default=None)

    def _could(self, id: int) -> bool:
        """Whether a filter is in the answer if what of it was in flight is taken as it is best for it."""
        if id in self.right.certain:
            return False
        scores = {**self.right.weakest, id: max(self.right.scores[id])}
        return id in answer_of(scores, self._query).ids.tolist()

    def _decided(self, mine: list[int]) -> Decided:
        table = self.asked.alone["rankings"]
        lacking, surplus = self.right.ids - set(self.answer), set(self.answer) - self.right.ids
        named = any(id_ in self.answer for id_ in mine)
        amiss = (
            tuple(each.change for id_ in sorted(ids, key=self._place) for each in self._counting(id_)[:1])
            for ids in (lacking, surplus)
        )
        return Decided(int(table["broker"][0]), int(table["time_ns"][0]), named, *amiss)

    # ---- ranks -------------------------------------------------------------------------------------------

    @cached_property
    def _query(self) -> Query:
        return self.kind.query(self.p.id >> 32)

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """Of each filter above the threshold its rank, from 1."""
        ids = np.array(sorted(self.right.weakest), np.int64)
        scores = np.array([self.right.weakest[id_] for id_ in ids.tolist()], np.float64)
        every = Query(None, self._query.threshold, "deterministic", self._query.unit, self._query.exclude)
        return {id_: at + 1 for at, id_ in enumerate(ranked(ids, scores, ids >> 32, every).ids.tolist())}

    def _place(self, id: int) -> tuple[int, int]:
        return self._ranks.get(id, 1 << 60), id

    def _counting(self, id: int) -> list[Version]:
        """The versions of a filter that may count, the latest first; of one that is over, its last."""
        versions = self.standing.of.get(id, [])
        return [each for each in reversed(versions) if self.standing.possible(each, self.p)] or versions[-1:]

    def _name(self, id: int) -> str:
        version = self._counting(id)[0]
        whose = "" if version.client == self.asked.client else f" of {self.found.client(version.client)}"
        return f"{self.found.message(abs(version.change))}{whose}"

    # ---- in words ----------------------------------------------------------------------------------------

    def _said(self, id: int, due: str) -> Iterator[str]:
        name, query, right = self._name(id), self._query, self.right
        if id >> 32 == query.exclude:
            yield f"{name} is the publisher's own, which is not ranked."
            return
        if id not in right.scores:
            yield f"{name} had ended before, so it is not ranked."
            return
        flight = " (changes of it were in flight)" if id not in right.certain else ""
        scores = " or ".join(dict.fromkeys(f"{each:g}" for each in right.scores[id])) + flight
        rank = self._ranks.get(id)
        if rank is None:
            other = [each for each, _ in self._ranks.items() if each >> 32 == id >> 32]
            if query.unit == "receiver" and other:
                yield f"{name} scores {scores}; its client counts by {self._name(other[0])}, its best."
            else:
                yield f"{name} scores {scores}, not above the threshold of {query.threshold:g}."
            return
        what = "clients" if query.unit == "receiver" else "filters"
        yield f"{name} scores {scores}, which ranks {ordinal(rank)} of {len(self._ranks)} {what}."
        yield from self._bound(rank)
        if due == FREE:
            yield "As changes in flight are taken, it is among those that are reached, or is not."

    def _bound(self, rank: int) -> Iterator[str]:
        """The k-th, and who is before."""
        k = self._query.k or 0
        order = list(self._ranks)
        if len(order) <= k:
            are = "is" if k == 1 else "are"
            yield f"{k} {are} reached, {'which is all of them' if len(order) == k else 'more than there are'}."
            return
        last, after = (self.right.weakest[order[at]] for at in (k - 1, k))
        tie = f"; the {ordinal(k + 1)} has the same, and of ties {_TIES[self._query.ties]}" if last == after else ""
        yield f"{k} {'is' if k == 1 else 'are'} reached; the {ordinal(k)} has {last:g}{tie}."
        if rank > k:
            ahead = listed([self._name(id_) for id_ in order[: rank - 1]], _AHEAD_MOST)
            yield f"Before it {'is' if rank == 2 else 'are'} {ahead}."

    # ---- what it leans on --------------------------------------------------------------------------------

    def _leans(self, id: int) -> Iterator[Lean]:
        """The change by which a filter is as it is; of one that was scored as it was before, what ended that."""
        versions = self.standing.of.get(id, [])
        told, scores = self.answer.get(id), self.right.scores.get(id, [])
        if told is not None and told not in scores and versions:
            for each in reversed(versions):
                if each.ends and not self.standing.possible(each, self.p):
                    end = each.ends[0]
                    yield Lean(end, id, f"replaces or ends {self.found.message(abs(each.change))}")
                    return
        for each in self._counting(id)[:1]:
            if self.standing.possible(each, self.p):
                yield Lean(each.change, id, f"gives it the score {scores[-1]:g}" if scores else "makes it what it is")


_TIES = {
    "deterministic": "those of lowest id are taken", "all": "all are taken", "none": "none is taken",
}  # fmt: skip
