"""Runs spoilt by a row or two, each in a way that whoever judges right must notice.

What must be noticed follows from the trace and not from any judge. A publication, or a round of a server, is *clear*
if every change had settled before it was sent or was issued after it was over, nothing of it was lost or doubled, and
no fault is left from which the protocol had not recovered. Of what is clear nothing is free: who got it had to, and who
did not must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from brokers.contract import NEVER, Guarantees, Kind
from brokers.faults import NO_PLACE, NO_PLACE_AHEAD, ON_LINK
from protocols.rehearsing import Dice

Tables = Mapping[str, Mapping[str, Any]]
Rows = dict[str, Any]
# What each finding breaks: said here once more, since what the program says of it may be a mutant.
BREAKS = {
    "missed": {"exact"}, "unwanted": {"exact", "only_wanted"}, "duplicated": {"no_duplicates"},
    "out_of_order": {"fifo_per_publisher"},
}  # fmt: skip
_SENT_AT = 1 << 40  # a number that no publication has


class Judged(NamedTuple):
    """A run as judges get it."""

    tables: Tables
    kind: Kind
    guarantees: Guarantees


class Spoilt(NamedTuple):
    """The same with something wrong in it, and what a judge has to find."""

    how: str
    finding: str
    tables: Tables
    single: bool = True  # whether it is the only finding


class Clear:
    """Which publications, and which rounds of a server, nothing is free of."""

    def __init__(self, run: Judged) -> None:
        tables, changes = run.tables, run.tables["changes"]
        self._issued, self._settled = changes["issued_ns"], changes["settled_ns"]
        self._unsettled = (self._settled < 0) & (self._issued >= 0)
        self._since = _excused_until(run)
        self._within = run.guarantees.within_ns
        self._change = changes["change"]
        losses = tables["losses"]
        excusing = (losses["link"] < 0) | (not run.guarantees.without_excuse)
        self._touched = {*losses["body"][excusing].tolist(), *tables["doubled"]["body"].tolist()}
        self._touched.update(tables["outside"]["publication"].tolist() if "outside" in tables else ())
        self._ends = _last_by(tables["hops"]["body"], tables["hops"]["time_ns"])
        sent = tables["publications"]
        times = dict(zip(sent["publication"].tolist(), sent["time_ns"].tolist()))
        windows = [getattr(run.kind, name, None) for name in ("last", "lifetime_ns")]
        moves_others = any(each is not None for each in windows)  # a publication is the end of another
        self.publications = {id_ for id_, time in times.items() if not moves_others and self._is_clear(id_, time)}
        self.all = bool(times) and len(self.publications) == len(times)

    def _is_clear(self, id_: int, sent: int) -> bool:
        end = self._ends.get(id_, sent)
        return id_ not in self._touched and end - sent < self._within and self.between(sent, end, id_)

    def between(self, sent: int, end: int, own: int = -1) -> bool:
        """Whether nothing else was under way from one time to another, and nothing before excuses anything."""
        over = (self._issued < 0) | ((self._settled < sent) & ~self._unsettled) | (self._change == own)
        return sent > self._since and bool((over | (self._issued > end)).all())

    def rounds(self, tables: Tables) -> set[tuple[int, int]]:
        """Those (period, round) of which this holds."""
        answers = tables["answers"]
        ids = zip(*(answers[name].tolist() for name in ("publication", "period_ns", "round")))
        ends: dict[tuple[int, int], int] = {}
        spoilt = set()
        for id_, period, number in ids:
            ends[period, number] = max(ends.get((period, number), -1), self._ends.get(id_, -1))
            if id_ in self._touched:
                spoilt.add((period, number))
        return {each for each, end in ends.items() if each not in spoilt and self.between(each[0] * each[1], end)}


def _excused_until(run: Judged) -> int:
    """Up to when something may be excused by what was lost or failed; NEVER where nobody says."""
    faults, losses, owed = run.tables["faults"], run.tables["losses"], run.guarantees
    ends = faults["end_ns"]
    if owed.without_excuse:
        beyond_help = (losses["link"] < 0).any() or (ends < 0).any() or (faults["state"] > 0).any()
        return NEVER if beyond_help else -1
    if np.isin(losses["reason"], (ON_LINK, NO_PLACE, NO_PLACE_AHEAD)).any() or owed.lets_go:
        return NEVER
    if not losses["link"].size and not (faults["state"] > 0).any():
        return -1
    if owed.under_faults != "recovers" or not ends.size or (ends < 0).any() or (faults["twice"] > 0).any():
        return NEVER
    return int(ends.max()) + owed.recovers_ns


def _last_by(keys: Any, times: Any) -> dict[int, int]:
    found: dict[int, int] = {}
    for key, time in zip(keys.tolist(), times.tolist()):
        found[key] = max(found.get(key, -1), time)
    return found


def spoilt(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """The run in each way that goes, a row each."""
    if run.kind.server:
        ways: tuple[_Way, ...] = (*_RECEIVED, *_ORDERED)
    else:
        ways = (*_DELIVERED, *_ORDERED, *_RANKED, *_CHOSEN)
    for way in ways:
        yield from way(run, clear, dice)


_Way = Callable[[Judged, Clear, Dice], Iterator[Spoilt]]


# ---- rows ----------------------------------------------------------------------------------------------


def _without(rows: Mapping[str, Any], row: int) -> Rows:
    return {name: np.delete(column, row) for name, column in rows.items()}


def _again(rows: Mapping[str, Any], row: int, **other: Any) -> Rows:
    """With a row once more, some of it other."""
    return _changed({name: np.concatenate((column, column[[row]])) for name, column in rows.items()}, -1, **other)


def _changed(rows: Mapping[str, Any], row: int | list[int], **other: Any) -> Rows:
    found = {name: column.copy() for name, column in rows.items()}
    for name, value in other.items():
        found[name][row] = value
    return found


def _one(dice: Dice, rows: Any) -> Iterator[int]:
    """One of these, if there are any."""
    if len(rows):
        yield int(rows[dice.below(len(rows))])


def _of_clear(run: Judged, clear: Clear, table: str) -> Any:
    """The rows of a table that are about what is clear."""
    return np.flatnonzero(np.isin(run.tables[table]["publication"], sorted(clear.publications)))


# ---- deliveries ----------------------------------------------------------------------------------------


def _lost(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    rows = run.tables["deliveries"]
    came = list(zip(rows["publication"].tolist(), rows["client"].tolist()))
    single = [row for row in _of_clear(run, clear, "deliveries").tolist() if came.count(came[row]) == 1]
    for row in _one(dice, single):
        yield Spoilt("a delivery lost", "missed", {**run.tables, "deliveries": _without(rows, row)})


def _doubled(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    rows = run.tables["deliveries"]
    for row in _one(dice, _of_clear(run, clear, "deliveries")):
        for how, more in (("at once", 0), ("later", 1_000_000)):
            again = _again(rows, row, time_ns=rows["time_ns"][row] + more)
            yield Spoilt(f"a delivery once more, {how}", "duplicated", {**run.tables, "deliveries": again})


def _to_stranger(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """To somebody who never asked for anything."""
    rows, changes = run.tables["deliveries"], run.tables["changes"]
    nobody = 1 + max((int(each.max()) for each in (rows["client"], changes["client"]) if each.size), default=0)
    for row in _one(dice, _of_clear(run, clear, "deliveries")):
        for how, made in (("too", _again), ("instead", _changed)):
            given = {**run.tables, "deliveries": made(rows, row, client=nobody)}
            yield Spoilt(f"a delivery to a stranger {how}", "unwanted", given, how == "too")


def _to_other(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """To somebody who asks, or asked, for other things."""
    rows, changes = run.tables["deliveries"], run.tables["changes"]
    for row in _one(dice, _of_clear(run, clear, "deliveries")):
        had = rows["client"][rows["publication"] == rows["publication"][row]]
        for other in _one(dice, np.setdiff1d(changes["client"], had)):
            given = {**run.tables, "deliveries": _again(rows, row, client=other)}
            yield Spoilt("a delivery to somebody who asked for other things", "unwanted", given, single=False)


def _of_nobody(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """A publication that nobody sent."""
    rows = run.tables["deliveries"]
    if getattr(run.kind, "retained", False):  # there what is retained comes so
        return
    for row in _one(dice, _of_clear(run, clear, "deliveries")):
        given = _again(rows, row, publication=rows["publication"][row] + _SENT_AT)
        yield Spoilt("a delivery of what nobody sent", "unwanted", {**run.tables, "deliveries": given})


def _unasked(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """Somebody who got something had asked for nothing."""
    rows, changes = run.tables["deliveries"], run.tables["changes"]
    named = "rankings" in run.tables or "chosen" in run.tables  # they name what was asked
    if named or run.kind.publications & run.kind.changes:
        return
    for row in _one(dice, _of_clear(run, clear, "deliveries")):
        asking = sorted(run.kind.wants())
        kept = (changes["client"] != rows["client"][row]) | ~np.isin(changes["operation"], asking)
        fewer = {name: column[kept] for name, column in changes.items()}
        yield Spoilt("a delivery to somebody who never asked", "unwanted", {**run.tables, "changes": fewer})


_DELIVERED: tuple[_Way, ...] = (_lost, _doubled, _to_stranger, _to_other, _of_nobody, _unasked)


# ---- order ---------------------------------------------------------------------------------------------


def _overtaken(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """Of two publications of one publisher to one client the later one comes first; what is free is ordered too."""
    rows = run.tables["deliveries"]
    pairs = _in_order(rows)
    for at in _one(dice, range(len(pairs))):
        first, second = pairs[at]
        times = rows["time_ns"]
        swapped = _changed(rows, [first, second], time_ns=times[[second, first]])
        late = _changed(rows, first, time_ns=times[second] + 1)
        early = _changed(rows, second, time_ns=times[first] - 1)
        for how, given in (("swapped", swapped), ("late", late), ("early", early)):
            yield Spoilt(f"one of two {how}", "out_of_order", {**run.tables, "deliveries": given})


def _in_order(rows: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Pairs of deliveries of one publisher to one client, sent and come one after the other; each came once."""
    names = ("publication", "client", "published_ns", "time_ns")
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    counts: dict[tuple[int, int], int] = {}
    every = list(zip(*(rows[name].tolist() for name in names)))
    for publication, client, *_ in every:
        counts[publication, client] = counts.get((publication, client), 0) + 1
    for row, (publication, client, sent, came) in enumerate(every):
        if publication >= 0 and counts[publication, client] == 1:
            found.setdefault((publication >> 32, client), []).append((sent, came, row))
    return [
        (first[2], second[2])
        for each in found.values() for first, second in zip(sorted(each), sorted(each)[1:])
        if first[0] < second[0] and first[1] < second[1]
    ]  # fmt: skip


_ORDERED: tuple[_Way, ...] = (_overtaken,)


# ---- answers that have a rank --------------------------------------------------------------------------


def _ranked(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """Another rank, score, tie or filter in an answer; a row of it lost, doubled, or of another client."""
    if "rankings" not in run.tables:
        return
    rows = run.tables["rankings"]
    for row in _one(dice, _of_clear(run, clear, "rankings")):
        if rows["interest"][row] < 0:
            continue
        others = {
            "rank": rows["rank"][row] + 1, "score": rows["score"][row] * 1.5 + 0.25, "tie": 1 - rows["tie"][row],
        }  # fmt: skip
        for name, value in others.items():
            told = _changed(rows, row, **{name: value})
            yield Spoilt(f"another {name}", "unwanted", {**run.tables, "rankings": told})
        yield Spoilt("a rank twice", "unwanted", {**run.tables, "rankings": _again(rows, row)})
        yield Spoilt("a rank lost", "missed", {**run.tables, "rankings": _without(rows, row)}, single=False)


_RANKED: tuple[_Way, ...] = (_ranked,)


# ---- groups --------------------------------------------------------------------------------------------


def _chosen(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """Nobody of a group chosen, or somebody who is not in it."""
    if "chosen" not in run.tables:
        return
    rows = run.tables["chosen"]
    for row in _one(dice, _of_clear(run, clear, "chosen")):
        nobody = int(rows["interest"].max()) + 1
        yield Spoilt("nobody chosen", "missed", {**run.tables, "chosen": _without(rows, row)}, single=False)
        yield Spoilt(
            "a stranger chosen", "unwanted", {**run.tables, "chosen": _again(rows, row, interest=nobody)}
        )


_CHOSEN: tuple[_Way, ...] = (_chosen,)


# ---- rounds of a server --------------------------------------------------------------------------------


def _received(run: Judged, clear: Clear, dice: Dice) -> Iterator[Spoilt]:
    """An answer lost, doubled, with other objects, to another query, or of another round."""
    rows, rounds = run.tables["received"], clear.rounds(run.tables)
    keys = list(zip(rows["period_ns"].tolist(), rows["round"].tolist()))
    for row in _one(dice, [row for row, key in enumerate(keys) if key in rounds]):
        again, spoil = _again(rows, row), lambda told: {**run.tables, "received": told}
        yield Spoilt("an answer lost", "missed", spoil(_without(rows, row)))
        yield Spoilt("an answer twice", "duplicated", spoil(again))
        for name in ("objects", "marks"):
            yield Spoilt(f"other {name}", "unwanted", spoil(_changed(rows, row, **{name: rows[name][row] + 1})))
        yield Spoilt("a round unasked", "unwanted", spoil(_again(rows, row, period_ns=rows["period_ns"][row] + 1)))
        yield Spoilt("a query of nobody", "unwanted", spoil(_again(rows, row, query=rows["query"].max() + _SENT_AT)))
    delivered = run.tables["deliveries"]
    if not run.tables["doubled"]["body"].size:
        for row in _one(dice, range(len(delivered["client"]))):
            yield Spoilt("a message twice", "duplicated", {**run.tables, "deliveries": _again(delivered, row)})


_RECEIVED: tuple[_Way, ...] = (_received,)
