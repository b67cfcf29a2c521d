"""The judge of memory: what a case leaves behind adds up when it is played again and again.

To compare what brokers remember with a run in which nothing happened would accuse who is right: rooms stay as large as
they once had to be, and what was seen is remembered for a while. But all of that comes to a level. So the case is
played in rounds, each of which ends with nothing left to do, and after some of them and after twice as many it is
counted what lies under each attribute. Who is right grows no more from some round on. Who leaks grows twice as much in
twice as many rounds, each time.

A window that fills up grows as a leak does, until it is full. So nobody is accused of an attribute before it has grown
by `WINDOW` things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from brokers.contract import ShardProtocol
from brokers.engine.model import Model, protocol_class, why_plain
from brokers.engine.simulate import simulate
from brokers.errors import Interrupted, InvalidInput
from brokers.programs.spelling import is_program
from brokers.thresholds import lowered
from protocols.rehearsing import options_of
from scenarios.hunt.case import Case
from scenarios.hunt.rest import all_gone
from scenarios.hunt.rounds import ends_all, played
from scenarios.hunt.running import Outcome
from scenarios.hunt.sizes import ALL, Sizes, sizes_of

WINDOW = 1_000  # things: what grew by less may be a window that is not full yet
_FIRST = (2, 4)  # after so many rounds it is looked for the first time
_FIRST_OF_ROOMS = (4, 32)  # where arrays have room for more than they hold, and doubling that takes a while
_SOON = (4, 8, 16)  # and after so many of what grew until then
_EVENTS_FIRST = 8_000  # of what is asked of every case
_EVENTS_MOST = 60_000  # of a run of many rounds
_QUIET_NS = 2_000_000_000  # from the end of a case to its next round
_LONG_NS = 1_800_000_000_000  # of many rounds: what is remembered for a while is forgotten within
_STEADY = 0.75  # what grows by this share of twice as much, in twice as many rounds, grows steadily
BYTES = "bytes over links, per round"  # counted beside attributes: what is kept may be sent, too
_TIDIED_FROM = 2  # things: what is tidied once in a while is tidied soon


class Grown(NamedTuple):
    """An attribute that grows from round to round."""

    case: Case  # that is played
    attribute: str
    broker: int  # that in which it grows most, or ALL
    sizes: tuple[int, ...]  # after so many rounds each
    rounds: tuple[int, ...]

    @property
    def by(self) -> int:
        return self.sizes[-1] - self.sizes[0]

    @property
    def per_round(self) -> float:
        return self.by / (self.rounds[-1] - self.rounds[0])


def grows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The attribute that grows most, if any grows for ever; and what is sent in a round, if that does."""
    growing = _growing(outcome)
    kept, sent = ([each for each in growing if (each.attribute == BYTES) == is_sent] for is_sent in (False, True))
    for found in (*kept[:1], *sent):
        enough = max(_SOON[-1], ceil(WINDOW / found.per_round))
        if enough * outcome.events <= _EVENTS_MOST:
            looks = tuple(ceil(enough * share) for share in (0.25, 0.5, 1.0))
            every = _growing_at(found.case, looks, max(_round_ns(found.case), _LONG_NS // enough))
            alike = [each for each in every if (each.attribute == BYTES) == (found.attribute == BYTES)]
            for most in [each for each in alike if each.by >= _STEADY * _STEADY * WINDOW][:1]:
                yield most.attribute, _told(outcome, most)


def grows_soon(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """All attributes that grow steadily over a few rounds: of a case of which more is known already."""
    for each in _growing(outcome):
        yield each.attribute, _told(outcome, each)


def _told(outcome: Outcome, grown: Grown) -> str:
    *before, last = (f"{size:,} after {rounds:,}" for size, rounds in zip(grown.sizes, grown.rounds))
    where = "" if grown.broker == ALL else f" in broker {outcome.model.overlay.names[grown.broker]}"
    return (
        f"{grown.attribute!r} grows for ever{where}: played again and again, with nothing left to do after each round, "
        f"it holds {', '.join(before)} and {last} rounds"
    )


# ---- playing ------------------------------------------------------------------------------------------


def _growing(outcome: Outcome) -> list[Grown]:
    """What grows from the first rounds on, most first; of a protocol in two forms, in the form of the case first."""
    if not is_asked(outcome):
        return []
    found = _growing_in(outcome.case, outcome.events)
    other = outcome.case.but(view="auto", tables="auto")
    if found or other.key == outcome.case.key or not _in_arrays(other):
        return found
    return _growing_in(other, outcome.events)


def _growing_in(case: Case, events: int) -> list[Grown]:
    first = _FIRST_OF_ROOMS if _in_arrays(case) else _FIRST
    if sum(first) * events > _EVENTS_FIRST:
        return []
    each_ns = _round_ns(case)
    suspects = {each.attribute for each in _growing_at(case, first, each_ns)}
    if not suspects - {BYTES}:  # what is sent is kept somewhere; and numbers that get longer are none
        return []
    soon = tuple(each * first[1] // _FIRST[1] for each in _SOON)
    return [each for each in _growing_at(case, soon, each_ns) if each.attribute in suspects]


def _round_ns(case: Case) -> int:
    return case.duration_ns + _QUIET_NS


def is_asked(outcome: Outcome) -> bool:
    """Whether all that is begun in a round has ended, and no chance leaves something behind."""
    case = outcome.case
    loses = any(edge.loss for edge in case.edges) or any({"loss", "twice"} & set(each) for each in case.faults)
    program = is_program(outcome.model.services[0].protocol_target)  # whose memory nobody can count
    return not (program or loses or case.queues) and all_gone(outcome) and ends_all(case, outcome.kind)


def _in_arrays(case: Case) -> bool:
    """Whether brokers are rows of arrays in this case, and not objects."""
    model = case.model
    (spec,) = model.services
    taken = protocol_class(spec)
    return issubclass(taken, ShardProtocol) and not why_plain(taken, options_of(spec), model)


def _growing_at(case: Case, looks: Sequence[int], each_ns: int) -> list[Grown]:
    """What grows steadily from look to look, each after twice as many rounds as the one before; most first."""
    try:
        model = replace(played(case, looks[-1], each_ns).model, messages_max=3 * _EVENTS_MOST)
    except InvalidInput:  # so much is more than a scenario may say
        return []
    seen = []
    for rounds in looks:
        sizes = _sizes(model, rounds, each_ns)
        if sizes is None:
            return []
        seen.append(sizes)
    every = [
        Grown(case, attribute, broker, tuple(each[broker][attribute] for each in seen), tuple(looks))
        for broker, sizes in sorted(seen[-1].items())
        for attribute in sorted(sizes)
    ]
    most: dict[str, Grown] = {}
    for each in sorted((each for each in every if _steady(each.sizes)), key=lambda each: -each.by):
        most.setdefault(each.attribute, each)
    return list(most.values())


def _steady(sizes: Sequence[int]) -> bool:
    steps = [later - earlier for earlier, later in pairwise(sizes)]
    return steps[0] > 0 and all(after >= 2 * _STEADY * before for before, after in pairwise(steps))


def _sizes(model: Model, rounds: int, each_ns: int) -> dict[int, Sizes] | None:
    """What is remembered after so many rounds; None where they come to no end."""
    found: dict[int, Sizes] = {}

    def look(shards: object) -> None:
        (shard,) = shards.shards  # type: ignore[attr-defined]
        found.update(sizes_of(shard.services.protocols[0]))

    try:
        with lowered(_TIDIED_FROM):
            done = simulate(model, until_ns=rounds * each_ns, observe=look, max_window_ns=each_ns)
    except Interrupted:
        raise KeyboardInterrupt from None
    except Exception:  # of the protocol: this is for other judges
        return None
    sent = int(done.metrics["network"]["bytes"])
    found.setdefault(ALL, Counter())[BYTES] = sent // rounds  # the same, if each round sends the same
    return found
