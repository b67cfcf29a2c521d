"""The same flooding as plain event loops, to measure the engine against.

`heap_loop` does the work of the engine in plain Python, hop by hop: events in the order (time, kind, source,
sequence), sequence numbers per broker, FIFO links, and a fingerprint of every hop summed per broker. A test
holds that it handles the very hops of the engine's trace. Where plain Python has a cheaper way than the
engine's it is taken: the fingerprint is `hash` of a tuple, one lane instead of two; publications are drawn
before the loop; there is no service queue, no body, no reference count, no per-second digest.

`simpy_loop` is less: one SimPy timeout with a bare callback per hop, no sequence numbers, no fingerprint.

Both know flooding on a tree without subscribers, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from brokers.contract import NEVER, LinkTable, SourceContext
from brokers.engine.model import Model

_MESSAGE = 1
_MASK = 0xFFFFFFFFFFFFFFFF


class Publication(NamedTuple):
    """What a client hands to its broker."""

    time: int
    source: int  # entity id of the client
    sequence: int
    broker: int
    key: int


class Problem(NamedTuple):
    """A flooding model as plain lists."""

    brokers: int
    links_of: list[list[int]]  # directed links that leave each broker, by neighbour
    target: list[int]
    delay_ns: list[int]
    publications: list[Publication]  # by time, source, sequence


def problem(model: Model) -> Problem:
    """The model's network and what its clients publish."""
    from brokers.registry import load

    links = LinkTable.of(model.overlay)
    brokers = len(model.overlay.names)
    links_of = [
        links.out_link[links.out_start[b] : links.out_start[b + 1]].tolist() for b in range(brokers)
    ]
    (spec,) = model.services[0].sources
    first, count = model.groups[spec.group]
    context = SourceContext(
        seed=model.seed, service=0, source=0, clients=np.arange(first, first + count), entity_base=brokers,
        population=count, duration_ns=model.duration_ns, settled=False,
        service_params=model.services[0].params,
    )
    source = load(spec.target)(spec.params, context)
    sent = [0] * model.client_broker.size
    drawn: list[tuple[int, int]] = []
    while source.next_wake() < NEVER:
        for emission in source.take():
            drawn.extend(zip(emission.time.tolist(), emission.client.tolist()))
    publications = []
    for time, client in sorted(drawn):
        if time < model.duration_ns:
            entity, sequence = brokers + client, sent[client]
            sent[client] += 1
            home = int(model.client_broker[client])
            publications.append(Publication(time, entity, sequence, home, entity << 32 | sequence))
    return Problem(brokers, links_of, links.target.tolist(), links.delay_ns.tolist(), publications)


def heap_loop(problem: Problem, fingerprint: Callable[[Any], int] = hash) -> tuple[int, list[int]]:
    """Run to the end; returns (hops, the sum of fingerprints per broker).

    A fingerprint is taken of (number of the hop at its broker, broker, time, source, sequence, link, key),
    `link` being this broker's own towards the sender.
    """
    links_of, target, delay_ns = problem.links_of, problem.target, problem.delay_ns
    sequences = [0] * problem.brokers
    handled = [0] * problem.brokers
    digest = [0] * problem.brokers
    last_arrival = [0] * len(target)
    coming = iter(problem.publications)
    heap: list[tuple[int, int, int, int, int, int, int]] = []

    def admit() -> None:
        # One at a time, so that the heap holds what is under way and not what is still to be published.
        publication = next(coming, None)
        if publication is not None:
            time, source, sequence, broker, key = publication
            heappush(heap, (time, _MESSAGE, source, sequence, broker, -1, key))

    admit()
    hops = 0
    while heap:
        time, _, source, sequence, broker, came_by, key = heappop(heap)
        if came_by < 0:
            admit()
        number = handled[broker]
        handled[broker] = number + 1
        mark = fingerprint((number, broker, time, source, sequence, came_by, key))
        digest[broker] = (digest[broker] + mark) & _MASK
        own = sequences[broker]
        for link in links_of[broker]:
            if link != came_by:
                arrival = time + delay_ns[link]
                if arrival < last_arrival[link]:
                    arrival = last_arrival[link]
                last_arrival[link] = arrival
                heappush(heap, (arrival, _MESSAGE, broker, own, target[link], link ^ 1, key))
                own += 1
        sequences[broker] = own
        hops += 1
    return hops, digest


def simpy_loop(problem: Problem) -> int:
    """Run to the end on SimPy; returns the number of hops."""
    import simpy

    environment = simpy.Environment()
    Timeout = simpy.events.Timeout
    links_of, target, delay_ns = problem.links_of, problem.target, problem.delay_ns
    coming = iter(problem.publications)
    hops = 0

    def publish(event: Any) -> None:
        if event is not None:
            arrive(event)
        publication = next(coming, None)
        if publication is not None:
            wait = publication.time - int(environment.now)
            timeout = Timeout(environment, wait, (publication.broker, -1))
            timeout.callbacks.append(publish)

    def arrive(event: Any) -> None:
        nonlocal hops
        hops += 1
        broker, came_by = event._value
        for link in links_of[broker]:
            if link != came_by:
                timeout = Timeout(environment, delay_ns[link], (target[link], link ^ 1))
                timeout.callbacks.append(arrive)

    publish(None)
    environment.run()
    return hops
