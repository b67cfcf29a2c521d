"""What a protocol has to recover from, and what it promises then.

Under faults a protocol promises one of three things (`Guarantees.under_faults`):

    nothing    losses excuse, for as long as what was lost is missing
    recovers   so long after the last fault (`recovers_ns`) what it promises holds again, whatever was lost before
    reliable   no loss excuses anything; only what no protocol can help does (`excusing`, `_beyond_help`)

How long recovering takes follows from what there is to recover from, so a protocol is asked with it (`Faced`): the
time after which brokers are told, when the last fault is over, whether there is one that nobody is told of, and how
long a message is under way. What it answers (`Recovery`) is a statement: the audit holds it to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Guarantees
from brokers.faults import LOST, NO_PLACE, NO_PLACE_AHEAD, ON_LINK, Crash, Cut, Schedule, Worn, noticed
from topology.distances import distances, neighbours

_DOWN, _CUT, _WORN = 0, 2, 3  # `what` in the table of faults
NOTHING_PROMISED, RECOVERS, RELIABLE = "nothing", "recovers", "reliable"


class Recovery(NamedTuple):
    """What a protocol promises that recovers."""

    within_ns: int  # after the last fault
    heals_loss: bool = False  # whether it needs not be told, and finds out by itself what a link lost
    lets_go: bool = False  # whether it forgets neighbours that are out of reach: until it recovered it owes nothing


@dataclass(frozen=True)
class Faced:
    """The faults of a run, as far as recovering from them goes."""

    any: bool = False
    detect_ns: int = NEVER
    over_ns: int = -1  # when the last is over; NEVER: one never is
    unnoticed: bool = False  # whether a link was cut, and nobody was told
    way_ns: int = 0  # no quickest way from broker to broker takes longer, by delays
    link_ns: int = 0  # nor a link
    doubles: bool = False  # whether a link delivers messages twice

    @classmethod
    def of(cls, schedule: Schedule, overlay: Any) -> Faced:
        """Of a schedule."""
        faults = schedule.faults
        columns = {
            "what": [_DOWN if isinstance(f, Crash) else _CUT if isinstance(f, Cut) else -1 for f in faults],
            "broker": [getattr(f, "broker", -1) for f in faults],
            "link": [getattr(f, "link", -1) for f in faults],
            "begin_ns": [f.begin for f in faults],
            "end_ns": [-1 if f.end >= NEVER else f.end for f in faults],
            "delay_ns": [f.delay if isinstance(f, Worn) else 0 for f in faults],
            "twice": [f.twice if isinstance(f, Worn) else 0.0 for f in faults],
        }
        links = overlay.link_a, overlay.link_b, overlay.delay_ns, overlay.latent
        return cls.read(columns, schedule.detect_ns, *links)

    @classmethod
    def read(
        cls, faults: Mapping[str, Any], detect_ns: int, link_a: Any, link_b: Any, delay_ns: Any, latent: Any = None
    ) -> Faced:
        """Of the table `faults` of a trace, and its links, of which ways take none that are `latent`."""
        end = np.asarray(faults["end_ns"], np.int64)
        if not end.size:
            return cls()
        spans: dict[tuple[bool, int], list[tuple[int, int]]] = {}
        rows = (np.asarray(faults[name]).tolist() for name in ("what", "broker", "link", "begin_ns"))
        for what, broker, link, begin, until in zip(*rows, np.where(end < 0, NEVER, end).tolist()):
            if what in (_DOWN, _CUT):
                key = (True, link >> 1) if what == _CUT else (False, broker)
                spans.setdefault(key, []).append((begin, until))
        unnoticed = any(
            _missed(cuts, [*cuts, *spans.get((False, int(far)), [])], detect_ns)
            for (is_link, link), cuts in spans.items()
            if is_link
            for far in (link_a[link], link_b[link])
        )
        late = int(np.max(faults["delay_ns"]))
        ways = slice(None) if latent is None else ~latent
        return cls(
            True, detect_ns, NEVER if (end < 0).any() else int(end.max()), unnoticed,
            2 * farthest_ns(link_a[ways], link_b[ways], delay_ns[ways]) + late,
            int(np.max(delay_ns[ways], initial=0)) + late,
            bool(np.any(np.asarray(faults["twice"]) > 0)),
        )  # fmt: skip


def farthest_ns(link_a: Any, link_b: Any, delay_ns: Any) -> int:
    """How far the farthest broker is from the first, by delays: half of what no two are farther apart than."""
    return max(distances(neighbours(link_a, link_b, delay_ns), 0).values())


def _missed(cuts: list[tuple[int, int]], broken: list[tuple[int, int]], detect_ns: int) -> bool:
    """Whether a link is cut so shortly that nobody at one of its ends is told."""
    if detect_ns >= NEVER:
        return True
    told = [(begin - detect_ns, end - detect_ns) for begin, end in noticed(broken, detect_ns)]
    return not all(any(begin <= cut[0] and cut[1] <= end for begin, end in told) for cut in cuts if cut[1] < NEVER)


def promised(protocol: Any, options: Any, overlay: Any, faced: Faced) -> Guarantees:
    """What a protocol promises with these options, on this overlay, under these faults."""
    model = getattr(protocol, "Options", None)
    made = options if model is None or isinstance(options, model) else model(**options)
    declared = getattr(protocol, "guarantees_with", None)
    guarantees: Guarantees = declared(made, overlay) if declared is not None else protocol.guarantees
    opens = overlay.has_latent and getattr(protocol, "opens", False)
    asked = None if opens else getattr(protocol, "recovery", None)  # ways would not be known
    if not faced.any or asked is None or guarantees.under_faults != NOTHING_PROMISED:
        return guarantees
    found: Recovery | None = asked(made, overlay, faced)
    if found is None or (faced.unnoticed and not found.heals_loss):
        return guarantees
    return replace(
        guarantees, under_faults=RECOVERS, recovers_ns=int(found.within_ns), heals_loss=bool(found.heals_loss),
        lets_go=bool(found.lets_go),
    )


class Excused(NamedTuple):
    """What faults excuse in a run, in times of publications."""

    again_ns: int = NEVER  # what is sent from then on, nothing of before excuses; NEVER: there is no such time
    forgot_ns: int = NEVER  # when first a broker went down that came back without what it knew, or was let go

    def anything(self, sent_ns: int, end_ns: int) -> bool:
        """Whether nothing is owed about what was under way then: some broker may have known nothing of anybody."""
        return self.forgot_ns <= end_ns and sent_ns < self.again_ns


def unnoticed_ns(faults: Mapping[str, Any], losses: Mapping[str, Any], publications: frozenset[int]) -> int:
    """When last, after the first fault, a link or a queue lost of its own what was no publication: nobody is told.

    -1: never. What the queue of a client's own broker had no place for nobody can bring back: NEVER.
    """
    if not len(faults["begin_ns"]):
        return -1
    time, lost = np.asarray(losses["time_ns"]), lost_unnoticed(losses, publications)
    if (lost & (np.asarray(losses["reason"]) == NO_PLACE) & (np.asarray(losses["link"]) < 0)).any():
        return NEVER
    return int(time[lost & (time >= int(np.min(faults["begin_ns"])))].max(initial=-1))


def lost_unnoticed(losses: Mapping[str, Any], publications: frozenset[int]) -> NDArray[np.bool_]:
    """Of each loss whether a link or a queue lost of its own what was no publication: nobody is told."""
    by_itself = np.isin(np.asarray(losses["reason"]), (ON_LINK, NO_PLACE, NO_PLACE_AHEAD))
    return by_itself & ~np.isin(np.asarray(losses["type"]), sorted(publications))


def excusing(guarantees: Guarantees, link: Any) -> Any:
    """Which losses excuse that a publication did not arrive, or that a change did not, by the links that lost it.

    Who makes good what is lost between brokers has no excuse. But what comes over no link does not come again: what a
    client said and its broker had no place for, and so did not accept, and a delivery that falls with its broker.
    """
    return (link < 0) | (not guarantees.without_excuse)


def excused(
    guarantees: Guarantees, faults: Mapping[str, Any], unnoticed: int, homes: Callable[[], Any] = tuple
) -> Excused:
    """What faults excuse, by the table `faults` and what of the service was lost unnoticed, and when (`unnoticed_ns`).

    Where that was, there is no time from which on all is exact again; unless the protocol finds out by itself. `homes`
    gives the brokers whose clients published or wanted anything.
    """
    end = np.asarray(faults["end_ns"], np.int64)
    if end.size and guarantees.under_faults == RELIABLE:
        return _beyond_help(faults, unnoticed, homes)
    if not end.size or guarantees.without_excuse:
        return Excused()
    forgets = (np.asarray(faults["state"]) > 0) | guarantees.lets_go
    forgot = int(np.asarray(faults["begin_ns"])[forgets].min()) if forgets.any() else NEVER
    recovers = guarantees.under_faults == RECOVERS and not (end < 0).any()
    if unnoticed >= 0:
        recovers = recovers and guarantees.heals_loss and unnoticed < end.max()
    return Excused(int(end.max()) + guarantees.recovers_ns if recovers else NEVER, forgot)


class Healing(NamedTuple):
    """From when on all is owed again, as if nothing had failed; NEVER where nothing did, is over, or is promised."""

    from_ns: int = NEVER
    last: int = -1  # the fault that was over last, by its row


def healing(guarantees: Guarantees, faults: Mapping[str, Any], again_ns: int) -> Healing:
    """By the table `faults`, and from when on nothing of before excuses anything (`Excused`).

    Who is reliable owes it once nothing fails any more, who recovers after the time that it states. What only delays is
    no fault here.
    """
    end = np.asarray(faults["end_ns"], np.int64)
    if not end.size:
        return Healing()
    worn = np.asarray(faults["what"]) == _WORN
    kept = [np.asarray(faults[name]) == 0 for name in ("loss", "twice", "begins")]
    broke = np.flatnonzero(~(worn & np.logical_and.reduce(kept)))
    if not broke.size or (end[broke] < 0).any():
        return Healing()
    last = int(broke[np.argmax(end[broke])])
    from_ns = int(end[last]) if guarantees.under_faults == RELIABLE else again_ns
    return Healing(from_ns, last) if from_ns < NEVER else Healing()


def _beyond_help(faults: Mapping[str, Any], unnoticed: int, homes: Callable[[], Any]) -> Excused:
    """What is excused of who is reliable: faults without end, and a client's broker that lost its store."""
    begin, end = (np.asarray(faults[name], np.int64) for name in ("begin_ns", "end_ns"))
    if unnoticed >= NEVER:  # what a client said did not reach its own broker
        return Excused(NEVER, -1)
    endless, lost = end < 0, np.asarray(faults["state"]) == LOST
    if lost.any():
        lost &= np.isin(np.asarray(faults["broker"]), list(homes()))
    if not (endless | lost).any():
        return Excused()
    return Excused(NEVER if endless.any() else int(end[lost].max()), int(begin[endless | lost].min()))
