"""What the definition of a kind says of one publication and one client, in words: what explanations are made of.

A kind whose values alone do not say who wants a publication brings a class, named as `explains` in its manifest. It
asks what the kind's judge asks, so it never says otherwise. A pair is

    owed      the definition gives it, whatever became of changes in flight
    excused   owed but for what links lost, or faults took
    free      given or not, as changes in flight are taken
    not owed  never given

and beside that stands the rule with its values, and what the decision *leans* on: changes that the broker that decides
has to have handled. Where somebody decides before anything is delivered (`topk`), what was decided is told too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from brokers.contract import Guarantees, Kind
from protocols.judging import Audit, Published, published
from protocols.standing import Tables

OWED, EXCUSED, FREE, NOT_OWED = "owed", "excused", "free", "not owed"


class Lean(NamedTuple):
    """A change that has to be known where it is decided."""

    change: int
    word: int  # of what it is a version
    said: str  # what it does for this decision, as a clause


class Decided(NamedTuple):
    """What a broker decided, before it told anybody."""

    broker: int
    time_ns: int
    named: bool  # whether the client is in it
    lacking: tuple[int, ...] = ()  # changes of interests that should be in it, and are not
    surplus: tuple[int, ...] = ()  # and the other way round


@dataclass
class Due:
    """See the module."""

    due: str
    interests: list[int] = field(default_factory=list)  # changes: what of the client it is about, the best first
    said: list[str] = field(default_factory=list)  # the rule, in sentences
    leans: list[Lean] = field(default_factory=list)
    decided: Decided | None = None  # None: nobody has, or nobody does in this kind

    @property
    def may(self) -> bool:
        """Whether it may come."""
        return self.due != NOT_OWED


@dataclass(frozen=True)
class Asked:
    """A publication and a client, of a run."""

    tables: Tables  # of the whole run, but hops and deliveries of the publication only
    alone: Tables  # the same with the publication as the only one
    guarantees: Guarantees
    service: int
    publication: int
    client: int  # entity id

    def published(self, kind: Kind) -> tuple[Audit, Published]:
        """What became of the publication, as judges see it."""
        found = Audit.of(self.tables, self.guarantees)
        (one,) = published(found, self.alone, kind, self.service)
        return found, one


class Explaining(ABC):
    """What `explains` names: a class that is called with the kind. Types are those of the protocols that come along."""

    decides_first: ClassVar[bool] = False  # whether a broker decides who gets it before anybody is sent it
    carries: ClassVar[frozenset[int]]  # types of messages that bring a publication to who gets it
    asks: ClassVar[frozenset[int]] = frozenset()  # that ask who should, and are answered
    answers: ClassVar[frozenset[int]] = frozenset()  # that answer
    called: ClassVar[Mapping[int, str]] = {}  # what messages of the protocols are called

    @abstractmethod
    def due(self, asked: Asked) -> Due:
        """What the definition says."""

    @abstractmethod
    def may_want(self, publication: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
        """Whether what a change begins may want a publication, by the values of both; rows of the trace."""


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def listed(names: list[str], most: int = 4, nothing: str = "nothing") -> str:
    """a, b and c."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else nothing
