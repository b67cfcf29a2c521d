"""Why a profile holds for a publication or does not: its conjuncts, the values of contexts, and who set these when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from brokers.contract import Kind
from brokers.indexes.context.contract import Atom, Profile, checked_profile, references
from protocols.context.judge import History, Value, holds
from protocols.context.kind import PUBLISH, SUBSCRIBE, Context, value_word
from protocols.explaining import EXCUSED, FREE, NOT_OWED, OWED, Asked, Due, Explaining, Lean, listed
from protocols.judging import Audit, Published
from protocols.standing import Version
from topology.units import format_duration

_RANK = (OWED, EXCUSED, FREE, NOT_OWED)


class ContextExplained(Explaining):
    """See the module."""

    carries: ClassVar[frozenset[int]] = frozenset({PUBLISH})

    def __init__(self, kind: Kind) -> None:
        assert isinstance(kind, Context)
        self.kind = kind

    def may_want(self, publication: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
        """Whether a profile holds for some values of the contexts that it names: of a conjunct all the rest holds."""
        if change["operation"] != SUBSCRIBE:
            return False
        message = self.kind.message(np.asarray(publication["values"], np.float64))
        profile = checked_profile(self.kind.profile(np.asarray(change["values"], np.float64)), self.kind.schema)
        return any(all(_may_hold(atom, message) for atom in conjunct) for conjunct in profile)

    def due(self, asked: Asked) -> Due:
        """What the definition says of a client: of the profile that speaks most for it."""
        found, p = asked.published(self.kind)
        history = History(asked.tables, self.kind, asked.service, asked.guarantees)
        message = self.kind.message(np.asarray(p.values))
        mine = [
            (_status(history, version, profile, message, p), -version.issued, version, profile)
            for version, profile in history.profiles if version.client == asked.client
        ]  # fmt: skip
        mine.sort(key=lambda each: (_RANK.index(each[0]), not history.possible(each[2], p), each[1]))
        if not mine:
            return Due(NOT_OWED)
        due, _, version, profile = mine[0]
        told = _Telling(self.kind, history, found, p, message)
        return Due(
            due, [each.change for _, _, each, _ in mine], list(told.said(version, profile, due)),
            list(told.leans(profile)),
        )  # fmt: skip


def _may_hold(atom: Atom, message: Mapping[str, Any]) -> bool:
    if atom.context is not None:
        return atom.attribute is None or atom.attribute in message
    return atom.holds(message, {})


def _status(history: History, version: Version, profile: Profile, message: Mapping[str, Any], p: Published) -> str:
    """What is due by one profile, as the judge has it."""
    if not history.possible(version, p):
        return NOT_OWED
    some, all_ = holds(history, profile, message, p)
    if not some:
        return NOT_OWED
    if all_ and history.certain(version, p) and not p.lost:
        return OWED
    return EXCUSED if all_ and history.certain(version, p, forgive=True) else FREE


class _Telling:
    """Profiles and values in words."""

    def __init__(
        self, kind: Context, history: History, found: Audit, p: Published, message: Mapping[str, Any]
    ) -> None:
        self.kind, self.history, self.found, self.p, self.message = kind, history, found, p, message

    def said(self, version: Version, profile: Profile, due: str) -> Iterator[str]:
        name, history = self.found.message(abs(version.change)), self.history
        if not history.possible(version, self.p):
            yield f"{name} does not count: it had ended before, or began only later."
            return
        named = sorted(references(profile))
        now = {value: choices[0] for value in named if (choices := history.choices(value, self.p))}
        known = {value: number for value, number in now.items() if number is not None}
        for at, conjunct in enumerate(profile):
            failing = [atom for atom in conjunct if not atom.holds(self.message, known)]
            words = listed([self._atom(atom, known) for atom in failing or conjunct], nothing="it asks for nothing")
            which = name if len(profile) == 1 else f"conjunct {at + 1} of {name}"
            yield f"{which} {'fails' if failing else 'holds'}: {words}."
        for value in named:
            yield from self._value(value)
        if due == FREE:
            yield "As changes in flight are taken, it holds and counts, or does not."
        elif due == EXCUSED:
            yield "It was owed, but for what was lost."

    def _atom(self, atom: Atom, known: Mapping[Value, Any]) -> str:
        def operand(context: bool) -> str:
            if context and atom.context is not None:
                return f"{_named(atom.context)} ({_number(known.get(atom.context))})"
            if not context and atom.attribute is not None:
                return f"attribute {atom.attribute} ({_number(self.message.get(atom.attribute))})"
            return _number(atom.constant)

        left, right = operand(atom.attribute is None), operand(atom.attribute is not None and atom.context is not None)
        within = f" within {atom.epsilon:g}" if atom.operator == "~" else ""
        if (atom.attribute is not None and atom.context is None) or atom.attribute is None:
            right = _number(atom.constant)
        return f"{left} {atom.operator} {right}{within}"

    def _versions(self, value: Value) -> list[Version]:
        """The possible versions of a value, the latest first."""
        word = int(value_word(value[0], int(value[1])))
        return [each for each in reversed(self.history.of.get(word, [])) if self.history.possible(each, self.p)]

    def _value(self, value: Value) -> Iterator[str]:
        versions = self._versions(value)
        if not versions:
            yield f"{_named(value)} was not known: nobody had set it."
            return
        sets = [
            f"{_number(self.kind.update(each.values)[2])}, set by {self.found.message(abs(each.change))} of "
            f"{self.found.client(each.client)}" + (f" at {format_duration(each.issued)}" if each.issued >= 0 else "")
            for each in versions
        ]  # fmt: skip
        flight = "" if len(sets) == 1 else ", of which the later was in flight"
        yield f"{_named(value)} was {' or '.join(sets)}{flight}."

    def leans(self, profile: Profile) -> Iterator[Lean]:
        """The changes that made the values what they were."""
        for value in sorted(references(profile)):
            versions = self._versions(value)
            if not versions:
                continue
            latest, word = versions[0], versions[0].word
            every = self.history.of[word]
            before = every[every.index(latest) - 1] if every.index(latest) else None
            was = f" (it was {_number(self.kind.update(before.values)[2])} before)" if before is not None else ""
            number = _number(self.kind.update(latest.values)[2])
            yield Lean(latest.change, word, f"sets {_named(value)} to {number}{was}")


def _named(value: Value) -> str:
    return f"context {value[0]}.{value[1]}"


def _number(value: Any) -> str:
    return "not known" if value is None else f"{value:g}"
