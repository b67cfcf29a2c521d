"""Schedules that hurt: what happened in a run before says where to put the next thing.

A run tells at which instants brokers handled what a change caused, and when that had left its sender. Another run is
the same but for one or two of these:

- a publication that the change answers is sent so that it comes to that broker 1 ns before, at, or after such an
  instant, or between it and the next of the change; or several are, each at an instant of its own;
- another change, of an overlapping interest if there is one, is moved there with all that is done to its thing;
- what was begun ends while it is under way, or what ended begins anew at once;
- one message is late: it alone, and what its link carries behind it, comes past the next events of its target;
- links get priorities that change at a few such instants: what goes over low ones comes after all else;
- a fault begins or ends there, or a change is moved to where a fault begins, ends or is noticed.

All of it is said by the case itself, so what is found is repeated by its scenario. What is late or slow loses nothing,
and excuses nothing: FIFO holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from protocols.rehearsing import Dice
from scenarios.hunt.case import Act, Case
from scenarios.hunt.drawing import MS, Prey, one_of, runs
from scenarios.hunt.moments import Moment, Moments, way_ns

_TRIES = 6
_BESIDE = (-1, 0, 1)  # ns from the instant that is aimed at
_NEAR_NS = (1_000, 1_000, 100_000, 1 * MS)
_LATE_MS = (5, 20, 60)


class Target(NamedTuple):
    """What was aimed at: an action is to be handled by a broker at a time, with what it causes."""

    act: Act
    broker: int
    time: int


class Shot(NamedTuple):
    """A case and what is aimed at in it, which may be nothing single."""

    case: Case
    target: Target | None = None


def aim(prey: Prey, case: Case, seen: Moments, seed: int, number: int) -> Case | None:
    """The case with something aimed at one of these moments; None where nothing goes."""
    shot = aimed(prey, case, seen, seed, number)
    return None if shot is None else shot.case


def aimed(prey: Prey, case: Case, seen: Moments, seed: int, number: int) -> Shot | None:
    """The same, with what was aimed at last."""
    dice = Dice(seed, number, "hunt/aim")
    ways = _WAYS + (_WITH_FAULTS if prey.faults and case.loses else ())
    for _ in range(_TRIES if seen.every else 0):
        found = Shot(case)
        for _ in range(1 + dice.below(2)):
            found = one_of(dice, ways)(_Aiming(prey, found, seen, dice))
        if found.case is not case and runs(found.case):
            return found
    return None


class _Aiming:
    """What is at hand when something is aimed."""

    def __init__(self, prey: Prey, shot: Shot, seen: Moments, dice: Dice) -> None:
        self.kind = prey.kind_class
        self.shot, self.case = shot, shot.case
        self.seen, self.dice = seen, dice

    def of(self, types: Any) -> list[int]:
        """The actions of these types, by their numbers."""
        return [i for i, act in enumerate(self.case.acts) if self.kind.types[act.op] in types]

    def moment(self, pool: Sequence[Moment]) -> Moment:
        """One of these: of each sort as likely, so that a few withdrawals count as much as many publications."""
        sorts: dict[tuple[str, bool], list[Moment]] = {}
        for each in pool:
            op = self.case.acts[each.act].op if 0 <= each.act < len(self.case.acts) else ""
            sorts.setdefault((op, each.link >= 0), []).append(each)
        found: Moment = one_of(self.dice, sorts[one_of(self.dice, sorted(sorts))])
        return found

    def asked(self, i: int) -> frozenset[int]:
        """The publications that an action's thing answers."""
        return self.seen.answers.get(self.seen.begun.get(i, i), frozenset())

    def stands(self, moment: Moment) -> frozenset[int]:
        """The publications that something answers which stands at a moment, beside what the moment is about."""
        mine = self.seen.begun.get(moment.act, moment.act)
        over = {
            begin: self.case.acts[i].at for i, begin in self.seen.begun.items()
            if self.kind.types[self.case.acts[i].op] in self.kind.revocations
        }  # fmt: skip
        standing = [
            i for i in self.seen.answers
            if i != mine and self.case.acts[i].at < moment.time < over.get(i, moment.time + 1)
        ]  # fmt: skip
        return self.seen.answers[one_of(self.dice, standing)] if standing else frozenset()

    def near(self, moment: Moment) -> int:
        """A time at a moment, just beside it, or before the next of the same change."""
        way = self.dice.below(6)
        if way < 3:
            return moment.time + _BESIDE[way]
        if way < 5:
            return moment.time + 1 + self.dice.below(int(one_of(self.dice, _NEAR_NS)))
        later = [each.time for each in self.seen.every if each.act == moment.act and each.time > moment.time]
        return moment.time + 1 + self.dice.below(max(1, min(later, default=moment.time + MS) - moment.time))

    def lag(self, client: int, broker: int, act: int = -1) -> int:
        """How long something of a client takes to a broker: as it took before, or by delays."""
        home = self.case.clients[client]
        lags = self.seen.lags
        found = lags.get((act, broker)) if act >= 0 else None
        return found if found is not None else lags.get((-1 - home, broker), way_ns(self.case, home, broker))

    def with_act(self, i: int, act: Act, broker: int, time: int) -> Shot:
        """One action at another time, with all that is done to its thing before its end as much later."""
        case, was = self.case, self.case.acts[i]
        if not 0 < act.at < case.duration_ns:
            return self.shot
        moved, ends = act.at - was.at, self.kind.types[was.op] in self.kind.revocations
        acts = list(case.acts)
        for j, each in enumerate(acts):
            if j != i and not ends and each.about is not None and each.about == was.about and each.at > was.at:
                acts[j] = each._replace(at=min(each.at + max(0, moved), case.duration_ns - 1))
        acts[i] = act
        return Shot(case.but(acts=tuple(acts)), Target(act, broker, time))


# ---- publications ------------------------------------------------------------------------------------


def _publication(a: _Aiming) -> Shot:
    """A publication more, into the gap of a change: sent so that it arrives there."""
    free = [i for i in a.of(a.kind.publications) if a.case.acts[i].about is None]
    if not free:
        return a.shot
    moment = a.moment(a.seen.every)
    wanted = a.asked(moment.act) if a.dice.below(2) else a.stands(moment)
    fitting = [i for i in free if i in wanted]
    act = a.case.acts[one_of(a.dice, fitting if fitting and a.dice.below(8) else free)]
    every = range(len(a.case.clients))
    here = [i for i in every if a.case.clients[i] == moment.broker]
    near = [i for i in every if (-1 - a.case.clients[i], moment.broker) in a.seen.lags]  # what they do gets there
    client = one_of(a.dice, one_of(a.dice, [each for each in (here, near, every) if each]))
    time = a.near(moment)
    act = act._replace(at=time - a.lag(client, moment.broker), client=client)
    if not 0 < act.at < a.case.duration_ns:
        return a.shot
    return Shot(a.case.but(acts=(*a.case.acts, act)), Target(act, moment.broker, time))


def _publications(a: _Aiming) -> Shot:
    """Several, each at a moment of its own: one run asks about all of them."""
    for _ in range(3 + a.dice.below(6)):
        a.shot = _publication(a)
        a.case = a.shot.case
    return a.shot


# ---- changes -----------------------------------------------------------------------------------------


def _change(a: _Aiming) -> Shot:
    """A change moved to where another is under way, of an overlapping interest if there is one."""
    changes = [i for i in a.of(a.kind.changes) if a.case.acts[i].at]
    if not changes:
        return a.shot
    i = one_of(a.dice, changes)
    others = [each for each in a.seen.every if each.act >= 0 and each.act != i]
    alike = [each for each in others if a.asked(i) & a.asked(each.act)]
    pool = alike if alike and a.dice.below(4) else others
    if not pool:
        return a.shot
    moment = a.moment(pool)
    time = a.near(moment)
    act = a.case.acts[i]
    return a.with_act(i, act._replace(at=time - a.lag(act.client, moment.broker, i)), moment.broker, time)


def _short_life(a: _Aiming) -> Shot:
    """What is begun ends while its beginning is under way."""
    ends = [i for i in a.of(a.kind.revocations) if i in a.seen.begun]
    if not ends:
        return a.shot
    i = one_of(a.dice, ends)
    begin = a.seen.begun[i]
    begun = a.case.acts[begin].at
    own = [each for each in a.seen.every if each.act == begin]
    moment = one_of(a.dice, own) if own else Moment(begun, a.case.clients[a.case.acts[i].client], -1, begin)
    act = a.case.acts[i]
    time = max(a.near(moment), begun + a.lag(act.client, moment.broker, i) + 1)
    return a.with_act(i, act._replace(at=time - a.lag(act.client, moment.broker, i)), moment.broker, time)


def _again(a: _Aiming) -> Shot:
    """What ended is begun anew at once, by the same client or another of its broker, and ends with the last."""
    ends = [i for i in a.of(a.kind.revocations) if i in a.seen.begun and a.case.acts[i].number is not None]
    if not ends:
        return a.shot
    end = a.case.acts[one_of(a.dice, ends)]
    begin = next(act for act in a.case.acts if act.about == end.about and a.kind.types[act.op] in a.kind.interests)
    number = 1 + max(act.number or 0 for act in a.case.acts if (act.number or 0) < _NUMBERS)
    at = end.at + int(one_of(a.dice, (1, 1, 1 + a.dice.below(5_000), 1 + a.dice.below(MS))))
    beside = [i for i, home in enumerate(a.case.clients) if home == a.case.clients[end.client]]
    client = one_of(a.dice, beside) if a.dice.below(3) == 0 else end.client
    leaving = max(act.at for act in a.case.acts if a.kind.types[act.op] in a.kind.revocations)
    if not at < max(leaving, at + 1) < a.case.duration_ns:
        return a.shot
    fresh = begin._replace(at=at, client=client, number=number)
    gone = end._replace(at=max(leaving, at + 1), client=client, number=number)
    acts = (*a.case.acts, fresh, gone)
    if end.at == leaving:  # probes come between the last beginning and the last end
        early = end._replace(at=max(begin.at + 1, begin.at + a.dice.below(max(1, 20 * MS))))
        acts = (*(early if act is end else act for act in a.case.acts), fresh._replace(at=early.at + at - end.at), gone)
    return Shot(a.case.but(acts=acts))


_NUMBERS = 1 << 22  # those from here on are probes'


# ---- links -------------------------------------------------------------------------------------------


def _late(a: _Aiming) -> Shot:
    """One message comes past some of the next events of its target; what its link carries behind it comes after it."""
    sent = [each for each in a.seen.every if each.sent >= 0]
    if not sent:
        return a.shot
    moment = a.moment(sent)
    if moment.after and a.dice.below(3):
        delay = one_of(a.dice, moment.after) - moment.time + int(one_of(a.dice, (0, 1, 1)))
    else:
        delay = int(one_of(a.dice, _LATE_MS)) * MS
    return _slowed(a, [_delayed(moment, 1, max(1, delay))])


def _priorities(a: _Aiming) -> Shot:
    """A few directed links come after all others, each from one instant to another."""
    sent = [each for each in a.seen.every if each.sent >= 0]
    entries = []
    for _ in range(1 + a.dice.below(3) if sent else 0):
        moment, until = a.moment(sent), one_of(a.dice, a.seen.every)
        slow = int(one_of(a.dice, _LATE_MS)) * MS
        entries.append(_delayed(moment, until.time - moment.sent if until.time > moment.sent else slow, slow))
    return _slowed(a, entries)


def _delayed(moment: Moment, lasts: int, delay: int) -> dict[str, Any]:
    """The entry of a schedule that delays what goes over a moment's link from its message on."""
    link = [moment.source, moment.broker]
    return {"fault": "degrade", "at": moment.sent, "lasts": lasts, "link": link, "way": "there", "delay": delay}


def _slowed(a: _Aiming, entries: list[dict[str, Any]]) -> Shot:
    pairs = {frozenset((edge.a, edge.b)) for edge in a.case.edges}
    fitting = [
        each for each in entries
        if frozenset(each["link"]) in pairs and each["at"] + each["lasts"] + each["delay"] < a.case.duration_ns
    ]  # fmt: skip
    if not fitting or len(a.case.faults) + len(fitting) > _ENTRIES_MOST:
        return a.shot
    return Shot(a.case.but(faults=(*a.case.faults, *fitting)))


def _slow(a: _Aiming) -> Shot:
    """Some links take longer all along."""
    slow = int(one_of(a.dice, _LATE_MS)) * MS
    edges = tuple(
        edge._replace(delay_ns=edge.delay_ns + slow) if a.dice.below(3) == 0 else edge for edge in a.case.edges
    )
    return Shot(a.case.but(edges=edges)) if edges != a.case.edges else a.shot


# ---- faults ------------------------------------------------------------------------------------------


def _fault(a: _Aiming) -> Shot:
    """A fault that begins, or ends, as a change is handled."""
    faults = a.case.faults
    i, moment = a.dice.below(len(faults)), a.moment(a.seen.every)
    lasts = int(faults[i].get("lasts") or 0)
    quiet = max(int(each["at"]) + int(each.get("lasts") or 0) for each in faults)
    when = max(0, moment.time - (lasts if a.dice.below(2) else 0) + int(one_of(a.dice, (-1, 0, 1))))
    if when + lasts > quiet:
        return a.shot  # it would reach into the time in which all has to be whole
    return Shot(a.case.but(faults=(*faults[:i], {**faults[i], "at": when}, *faults[i + 1 :])))


def _to_fault(a: _Aiming) -> Shot:
    """A change moved to where a fault begins, ends, or is noticed."""
    changes = [i for i in a.of(a.kind.changes) if a.case.acts[i].at]
    if not changes:
        return a.shot
    i, fault = one_of(a.dice, changes), one_of(a.dice, a.case.faults)
    act = a.case.acts[i]
    time = int(fault["at"]) + a.dice.below(2) * int(fault.get("lasts") or 0)
    time += a.dice.below(2) * (a.case.detect_ns or 0)
    time += int(one_of(a.dice, (-1, 0, 1, 1 + a.dice.below(MS), -1 - a.dice.below(MS))))
    home = a.case.clients[act.client]
    return a.with_act(i, act._replace(at=time), home, time)


_ENTRIES_MOST = 6
_WAYS: tuple[Callable[[_Aiming], Shot], ...] = (
    _publication, _publication, _publications, _publications, _change, _change, _change, _short_life, _again, _late,
    _priorities, _slow,
)  # fmt: skip
_WITH_FAULTS = (_fault, _to_fault, _to_fault)

__all__ = ["Shot", "Target", "aim", "aimed"]
