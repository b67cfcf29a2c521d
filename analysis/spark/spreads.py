"""How publications spread, found by the task that has all events of a publication.

A *copy* of a publication is a message over a link of a type by which clients publish. The first copy to come to a
broker *reaches* it, one round later than it reached the broker from which it came; where a publication enters is
reached in round 0. The metrics of `protocols.spreading` mean the same, and go through copies one by one.

A copy came *for nothing* if its broker had handled the publication before, or neither delivered it nor sent it on.

Theory of the rounds. What reaches a broker first is the first of its copies whose sender had been reached before. Take
of each broker the first copy that is left, and strike all copies that came before the first of their sender's: these
firsts are never later than the true ones, so what is struck is struck rightly, and where nothing is left to strike they
are the true ones. Where all who send have been reached, as nearly always, that is one turn.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.spark.depths import Array, Moments, begins, links_from

Columns = Mapping[str, Array]


@dataclass(frozen=True)
class Spread:
    """All events that carry some publications, by publication, broker and the order in which they were handled."""

    brokers: int
    sent: Columns  # the publications, by their ids: service, broker, size_bytes
    number: Array  # of the publication of each event, in `sent`; -1 where nobody published such
    place: Array  # a number for publication and broker
    ids: Array  # of the publications of which there are events
    came: Columns  # service, broker, link, time_ns of each event
    source: Array  # the broker that sent it, or one more than there are where a client did
    over: Array  # whether it is a message over a link
    copies: Array  # which events are copies of publications of their service

    @classmethod
    def of(cls, brokers: int, source: Array, sent: Columns, steps: Columns) -> Spread:
        by_id = np.argsort(sent["publication"])
        sent = {name: column[by_id] for name, column in sent.items()}
        ids, of = np.unique(steps["publication"], return_inverse=True)
        place = of * brokers + steps["broker"]
        sender = np.append(source, brokers)[steps["link"]]  # -1, of no link, is the last
        order = Moments.of(ids.size * brokers, place, steps["time_ns"], sender)[1] if place.size else place
        came = {name: steps[name][order] for name in ("service", "broker", "link", "time_ns")}
        number = found_in(sent["publication"], ids)[of[order]]
        over = came["link"] >= 0
        known = over & (number >= 0)
        known[known] = sent["service"][number[known]] == came["service"][known]
        return cls(brokers, sent, number, place[order], ids, came, sender[order], over, np.flatnonzero(known))

    def counted(self) -> Array:
        """How many copies there are of each publication."""
        return np.bincount(self.number[self.copies], minlength=self.sent["service"].size)

    def reached(self) -> tuple[Array, Array]:
        """Of every broker that was reached but not where it entered: the publication, and the round."""
        rows = self.copies
        entered = self.number[rows] * self.brokers + self.sent["broker"][self.number[rows]]
        place = self.number[rows] * self.brokers + self.came["broker"][rows]
        sender = self.number[rows] * self.brokers + self.source[rows]
        time, source = self.came["time_ns"][rows], self.source[rows]
        left = np.flatnonzero(place != entered)
        by_place = left[np.argsort(place[left], kind="stable")]  # within a place they are in order already
        while True:
            first = by_place[begins(place[by_place])]
            at = found_in(place[first], sender[by_place])
            sent_by = first[at]
            late = (time[sent_by] > time[by_place]) | (
                (time[sent_by] == time[by_place]) & (source[sent_by] >= source[by_place])
            )
            struck = (sender[by_place] != entered[by_place]) & ((at < 0) | late)
            if not struck.any():
                break
            by_place = by_place[~struck]
        rounds = links_from(np.where(sender[first] == entered[first], -1, found_in(place[first], sender[first]))) + 1
        return self.number[rows][first], rounds

    def for_nothing(self, useful: Array) -> Array:
        """Whether each event is a copy that came for nothing; `useful` are places beside those that sent copies on."""
        again = np.zeros(self.place.size, np.bool_)
        again[1:] = self.place[1:] == self.place[:-1]
        sent_on = (self.place // self.brokers * self.brokers + self.source)[self.over]
        return self.over & (again | ~np.isin(self.place, np.concatenate([sent_on, useful])))

    def places(self, publication: Array, broker: Array) -> Array:
        """The numbers of publications and brokers; of those without an event a number that no event has."""
        at = found_in(self.ids, publication)
        return np.where(at < 0, -1, at * self.brokers + broker)


def found_in(ordered: Array, wanted: Array) -> Array:
    """Where each stands among ids that are in order and differ; -1 where it does not."""
    if not ordered.size:
        return np.full(wanted.size, -1, np.int64)
    at = np.minimum(np.searchsorted(ordered, wanted), ordered.size - 1)
    return np.where(ordered[at] == wanted, at, -1)
