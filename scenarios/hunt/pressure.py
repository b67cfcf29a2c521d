"""The judge of drops that go on, and cases in which there are any: a neighbour that takes little of a steady stream.

What is drawn elsewhere has a few publications, of which hardly any finds a queue that is full; so half of the cases of
a protocol that is told of drops are put under pressure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from protocols.dropping import unrelenting
from protocols.rehearsing import Dice
from scenarios.hunt.case import Act, Case
from scenarios.hunt.running import Outcome

_BITS = (1_000, 4_000)  # per second: a publication takes some tenths of a second
_NUMBERS = 1 << 21  # that no rehearsal gives


def drops(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Publications that go on to be dropped in front of one link, where nothing else makes brokers late."""
    if not (outcome.failed or outcome.case.cost or outcome.case.faults):
        yield from unrelenting(outcome.tables, outcome.kind, outcome.model.services[0].protocol_class)


def under_pressure(case: Case, script: Sequence[Act], kind: Any, protocol: Any, dice: Dice) -> Case:
    """The case with a broker or two behind thin links with short queues, and a client that publishes on and on."""
    free = [act for act in script if kind.types[act.op] in kind.publications]
    if not free:
        return case
    thin = {dice.below(case.brokers) for _ in range(1 + dice.below(2))}
    bits = _BITS[dice.below(len(_BITS))]
    edges = tuple(edge._replace(bandwidth=bits) if {edge.a, edge.b} & thin else edge for edge in case.edges)
    again, pace = free[dice.below(len(free))], protocol.relents_ns or 10 * protocol.drops_told_ns
    every = 0 if dice.below(3) == 0 else max(1, pace // (2 + dice.below(6)))  # at once, or one soon after the other
    begin, count = 1 + dice.below(max(1, case.duration_ns)), 6 + dice.below(40)
    stream = [
        again._replace(at=begin + i * every, number=None if again.number is None else _NUMBERS + i)
        for i in range(count)
    ]  # fmt: skip
    return case.but(
        edges=edges, queues={"links": {"messages": 1 + dice.below(3)}}, acts=(*case.acts, *stream), cost={}, faults=(),
        detect_ns=None, duration_ns=max(case.duration_ns, begin + count * every),
    )  # fmt: skip
