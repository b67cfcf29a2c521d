"""Why an object matters to a subscription or does not: what is nearer, and which of its k nearest it puts out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from brokers.contract import Kind
from brokers.words import KEYWORDS, word_of, words_of
from protocols.explaining import EXCUSED, FREE, NOT_OWED, OWED, Asked, Due, Explaining, Lean, listed, ordinal
from protocols.judging import Audit, Published
from protocols.spatial.judge import Nearness
from protocols.spatial.kind import (
    OBJECT_KEYWORDS,
    PUBLISH,
    SUBSCRIBE,
    SUBSCRIPTION_KEYWORDS,
    Spatial,
    keywords_of,
)
from protocols.standing import Version

_LEANS_MOST = 16


class SpatialExplained(Explaining):
    """See the module."""

    carries: ClassVar[frozenset[int]] = frozenset({PUBLISH})

    def __init__(self, kind: Kind) -> None:
        assert isinstance(kind, Spatial)
        self.kind = kind

    def may_want(self, publication: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
        """Whether a subscription shares a keyword with an object."""
        if change["operation"] != SUBSCRIBE:
            return False
        offered, wanted = (np.asarray(row["values"], np.float64) for row in (publication, change))
        return bool(set(keywords_of(offered, OBJECT_KEYWORDS)) & set(keywords_of(wanted, SUBSCRIPTION_KEYWORDS)))

    def due(self, asked: Asked) -> Due:
        """What the definition says of a client: of the subscription that speaks most for it."""
        found, p = asked.published(self.kind)
        nearness = Nearness(asked.tables, self.kind, asked.guarantees, asked.service, asked.client)
        versions = nearness.subscriptions.versions
        if not versions:
            return Due(NOT_OWED)
        mine = list(range(len(versions)))
        forced, allowed = nearness.decided(p)
        possible, q = nearness.subscriptions.possible(p), nearness.at[p.id]
        best = max(
            mine, key=lambda at: (forced[at], allowed[at], possible[at] & nearness.related[at, q], possible[at], at)
        )
        due = OWED if forced[best] else FREE if allowed[best] else NOT_OWED
        if due == OWED and p.lost:
            due = EXCUSED
        told = _Telling(self.kind, nearness, found, p, best)
        mine.sort(key=lambda at: at != best)
        return Due(due, [versions[at].change for at in mine], list(told.said(due)), list(told.leans(due)))


class _Telling:
    """A subscription and the objects around it in words."""

    def __init__(self, kind: Spatial, nearness: Nearness, found: Audit, p: Published, at: int) -> None:
        self.kind, self.nearness, self.found, self.p, self.at = kind, nearness, found, p, at
        self.q = nearness.at[p.id]
        self.far = nearness.geometry.length(nearness.squared[at])
        may, must = nearness.nearer(p)
        order = np.argsort(nearness.squared[at], kind="stable").tolist()
        self.may = [each for each in order if may[at, each]]  # nearer, the nearest first
        self.must = [each for each in order if must[at, each]]

    @property
    def _version(self) -> Version:
        return self.nearness.subscriptions.versions[self.at]

    def said(self, due: str) -> Iterator[str]:
        name, nearness = self.found.message(abs(self._version.change)), self.nearness
        k = self.kind.asked(np.asarray(self.p.values))
        if not nearness.subscriptions.possible(self.p)[self.at]:
            yield f"{name} does not count: it had ended before, or began only later."
            return
        if not nearness.related[self.at, self.q]:
            yield f"{name} shares no keyword with it."
            return
        shared = sorted(nearness.subscriptions.words[self.at] & nearness.objects.words[self.q])
        words = ", ".join(str(word_of(words_of(self.kind.params), KEYWORDS, each)) for each in shared)
        asks = f"asks to be among the {k} nearest" if k > 1 else "asks to be the nearest"
        yield f"{name} shares keyword {words}; the object is {self._length(self.q)} away, and {asks}."
        counted = self.must if due == NOT_OWED else self.may
        if not counted:
            yield "No object that counts is nearer."
        else:
            reach = f", {self.kind.delta:g} times," if self.kind.delta > 1 and due == NOT_OWED else ""
            verb = "is" if len(counted) == 1 else "are"
            yield f"Nearer{reach} {verb} {listed([self._object(each) for each in counted])}."
        if due in (OWED, EXCUSED):
            yield from self._puts_out(k)
        elif due == FREE:
            yield "As changes in flight are taken, it is among them, or is not."
        else:
            yield f"So it is not {f'among the {k} nearest' if k > 1 else 'the nearest'}."
        if due == EXCUSED:
            yield "It was owed, but for what was lost."

    def _puts_out(self, k: int) -> Iterator[str]:
        """Which of the k nearest an object puts out."""
        certain = self.nearness.objects.certain(self.p) & self.nearness.related[self.at]
        order = np.argsort(self.nearness.squared[self.at], kind="stable").tolist()
        before = [each for each in order if certain[each] and each != self.q]
        place = f"{ordinal(len(self.may) + 1)} nearest" if self.may else "nearest"
        if len(before) >= k:
            yield f"So it is the {place}, and puts {self._object(before[k - 1])} out of the first {k}."
        else:
            yield f"So it is the {place}; {len(before) or 'none'} counted before."

    def _object(self, at: int) -> str:
        version = self.nearness.objects.versions[at]
        flight = "" if self.nearness.objects.certain(self.p)[at] else ", in flight"
        return f"{self.found.message(version.change)} ({self._length(at)}{flight})"

    def _length(self, at: int) -> str:
        return f"{float(self.far[at]):g} {self.nearness.geometry.unit}".rstrip()

    def leans(self, due: str) -> Iterator[Lean]:
        """Of what is owed the ends of nearer objects that are gone; of what is not the nearer objects."""
        objects = self.nearness.objects
        if due == NOT_OWED:
            for at in self.must[:_LEANS_MOST]:
                version = objects.versions[at]
                yield Lean(version.change, version.word, f"is an object that is nearer ({self._length(at)})")
            return
        row, related = self.nearness.squared[self.at], self.nearness.related[self.at]
        gone = np.flatnonzero((row < row[self.q]) & related & ~objects.possible(self.p)).tolist()
        gone = [at for at in gone if objects.versions[at].ends and objects.versions[at].issued < self.p.sent]
        for at in sorted(gone, key=lambda at: -objects.versions[at].ended)[:_LEANS_MOST]:
            version = objects.versions[at]
            said = f"ended the object {self.found.message(version.change)}, which is nearer ({self._length(at)})"
            yield Lean(version.ends[0], version.word, said)
