"""Judges of what is left once all that clients asked for is over: nothing, as if it had never been.

They compare the end of a run with the end of the same run without anything that was begun and ended. They say nothing
where something still stands, or where something was lost that the protocol does not recover from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from brokers.contract import NEVER
from brokers.promises import RELIABLE, excused, lost_unnoticed, unnoticed_ns
from protocols.measures import LATE_NS
from scenarios.hunt.running import Outcome, once, run

_CALM_NS = 1_000_000_000  # from the last thing that happens to the end, at least
_HEALED_NS = 2_000_000_000  # within which who is reliable has made good what was lost, once nothing fails


@once
def left_behind(outcome: Outcome) -> list[tuple[str, str]]:
    """Entries, bodies and whatever else brokers tell of themselves that all have left behind."""
    return list(_left(outcome))


def _left(outcome: Outcome) -> Iterator[tuple[str, str]]:
    lost = _lost_for_good(outcome)
    if not _all_gone(outcome, lost) or _nothing(outcome):
        return
    never = without_what_went(outcome)
    if never.failed:
        return
    names = outcome.model.overlay.names
    usual = [*never.entries]
    if any(outcome.entries) and outcome.case.faults and not lost:  # nor may what failed have left something behind
        calm = never.calm
        usual = usual if calm.failed else [min(pair) for pair in zip(usual, calm.entries)]
    for broker, left in enumerate(outcome.entries):
        if left > usual[broker] and broker not in lost:
            what = f"{left} {'entry' if left == 1 else 'entries'}"
            yield (
                "entries",
                f"broker {names[broker]} keeps {what} after all have left; without them it has {usual[broker]}",
            )
    if lost:
        return
    if len(outcome.held) > len(never.held):
        yield (
            "bodies",
            f"{len(outcome.held)} bodies are kept after all have left; without them it would be {len(never.held)}",
        )
    for broker, (told, before) in enumerate(zip(outcome.described, never.described)):
        where = _more(told, before)
        if where and outcome.entries[broker] <= usual[broker]:
            yield "described", f"broker {names[broker]} tells of more once all have left: {where}"


def _lost_for_good(outcome: Outcome) -> set[int]:
    """Brokers that crash and never come back, where the protocol lets go of those, and neighbours are told."""
    endless = outcome.endless
    detected = outcome.case.detect_ns is not None
    if not detected or not outcome.guarantees.lets_go or any(each["fault"] != "crash" for each in endless):
        return set()
    return {int(broker) for each in endless for broker in each["brokers"]}


def quiet(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Messages and timers that go on when there is nothing left to do."""
    if outcome.slow or not _all_gone(outcome, set()):  # what waits in queues is late, and not without end
        return
    late = _late(outcome)
    if not late:
        return
    never = without_what_went(outcome)
    if not never.failed and late > _late(never):
        yield "restless", (
            f"{late} messages and timers are handled more than {LATE_NS / 1e9:g} s after the end, when all have left; "
            f"without them it would be {_late(never)}"
        )  # fmt: skip


def _nothing(outcome: Outcome) -> bool:
    """Whether it is plain that nothing is left."""
    told = [value for each in outcome.described for value in each.values() if hasattr(value, "__len__")]
    return not any(outcome.entries) and not outcome.held and not any(told)


def _late(outcome: Outcome) -> int:
    return int((outcome.tables["hops"]["time_ns"] > outcome.case.duration_ns + LATE_NS).sum())


def all_gone(outcome: Outcome) -> bool:
    """Whether nothing that somebody began still stands at the end, and no loss excuses what is left of it."""
    return not _lost_for_good(outcome) and _all_gone(outcome, set())


def _all_gone(outcome: Outcome, lost: set[int]) -> bool:
    """Whether nothing that somebody began still stands, and no loss excuses what is left of it.

    Clients of brokers that are `lost` are gone with them.
    """
    case, kind = outcome.case, outcome.kind
    if (
        outcome.failed
        or outcome.overloaded
        or not case.acts
        or max(act.at for act in case.acts) + _CALM_NS > case.duration_ns
    ):
        return False
    losses, faults = outcome.tables["losses"], outcome.tables["faults"]
    if case.loses or len(losses["link"]):
        over = {**faults, "end_ns": np.where(faults["end_ns"] < 0, faults["begin_ns"], faults["end_ns"])}
        ending = over if lost else faults
        again = _again_ns(outcome, ending)
        if not case.loses or again + _CALM_NS > case.duration_ns:
            return False
    if lost_unnoticed(losses, kind.publications).any() and not outcome.guarantees.heals_loss:
        return False
    begin = {op for op, type_ in kind.types.items() if type_ in kind.interests}
    end = {op for op, type_ in kind.types.items() if type_ in kind.revocations}
    stands: set[Any] = set()
    ended = False
    for act in sorted(case.acts, key=lambda act: act.at):
        if act.op in end:
            stands.discard(act.about)
            ended = True
        elif act.op in begin and case.clients[act.client] not in lost:
            stands.add(act.about)
    return (ended or bool(lost)) and not stands


def _again_ns(outcome: Outcome, faults: Mapping[str, Any]) -> int:
    """From when on nothing that was lost leaves anything behind; NEVER where there is no such time."""
    unnoticed = unnoticed_ns(faults, outcome.tables["losses"], outcome.kind.publications)
    if outcome.guarantees.under_faults != RELIABLE:
        return excused(outcome.guarantees, faults, unnoticed).again_ns
    ends = faults["end_ns"]
    return NEVER if unnoticed >= NEVER or (ends < 0).any() else int(ends.max(initial=0)) + _HEALED_NS


@once
def without_what_went(outcome: Outcome) -> Outcome:
    """What comes of the case without all that was begun and ended; what cannot be ended, as values, stays."""
    case, kind, lost = outcome.case, outcome.kind, _lost_for_good(outcome)
    went = kind.interests | kind.revocations
    here = (act for act in case.acts if case.clients[act.client] not in lost)
    return run(case.but(acts=tuple(act for act in here if kind.types[act.op] not in went)))


def _more(told: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """The first collection that has more in it; single numbers may well count what has been."""
    for key, each in told.items():
        other: Any = usual.get(key)
        if isinstance(each, dict | list | tuple | set) and len(each) > (
            len(other) if hasattr(other, "__len__") else 0
        ):
            return f"{key}: {str(each)[:160]}"
    return ""
