"""What is run so that kernels get compiled: a small life of everything that a registry or a shipped scenario names.

Whoever adds a protocol, an index, a scenario or a paper has it compiled without a word here. A kernel that no life
reaches is named by `tests/analysis/test_warm.py`.

Lives come in stages, one after the other; a stage has parts, which do not share kernels, so that processes may work
on them side by side: two that compile one function at a time would waste the work of one of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from analysis.papers.registry import PAPERS
from brokers.indexes.registry import INDEXES
from brokers.kinds import manifests
from brokers.registry import load

Life = Callable[[], object]

KINDS = {kind.name: kind for kind in manifests()}

_OVERLAYS = "analysis.warm.overlays"
_SELDOM = ("interrupt_and_resume", "reweigh", "close_windows", "break_things")
# A moment of a shipped scenario in which everything happens once, subscriptions that end among it.
MOMENT = ("duration=4500 ms", "drain=1 s")


class Part(NamedTuple):
    """What one process does in one go."""

    name: str
    lives: tuple[Life, ...]


def stages() -> Iterator[list[Part]]:
    """All lives. The longest part of a stage comes first."""
    base = Part("the engine, ranges", (partial(_call, f"{_OVERLAYS}:run_each"), *_library("content")))
    yield [base, *(Part(f"library of {kind}", (*_library(kind),)) for kind in KINDS if kind != "content")]
    yield [Part(f"networks of {kind}", (*_networks(kind),)) for kind in KINDS]
    from scenarios.loader import shipped

    scenarios = [Part(f"scenario {name}", (partial(_scenario, name),)) for name in sorted(shipped())]
    further = Part("what comes seldom", (looking, *(partial(_call, f"{_OVERLAYS}:{name}") for name in _SELDOM)))
    yield [further, *scenarios]


def _library(kind: str) -> Iterator[Life]:
    if KINDS[kind].warm:
        yield partial(_call, KINDS[kind].warm)
    yield from (partial(_call, paper.facts["tiny"]) for paper in PAPERS.values() if paper.facts["kind"] == kind)


def _networks(kind: str) -> Iterator[Life]:
    for index, entry in INDEXES.items():
        if entry.facts["question"] == KINDS[kind].question:
            yield partial(_protocols, kind, index)
    if KINDS[kind].question is None:
        yield partial(_protocols, kind, None)
    for paper in PAPERS.values():
        if paper.facts["kind"] == kind and "tiny_network" in paper.facts:
            yield partial(_call, paper.facts["tiny_network"])


def _call(target: str) -> None:
    load(target)()


def _protocols(kind: str, index: str | None) -> None:
    """Every protocol of a kind over one index; over the usual one, cut up in all the ways that matter."""
    from brokers.engine.simulate import MemoryTraces, tables_of
    from protocols.conformance import REHEARSALS, Variant, rehearse

    variants = (
        Variant("two shards", actors=2),
        Variant("own tables", tables="own"),
        Variant("stretches", view="run", run_from=1),
        Variant("single messages", view="message", tables="own"),
    )
    tree, standing, cycles = REHEARSALS[0], REHEARSALS[4], REHEARSALS[6]
    usual = index == KINDS[kind].default_index
    for protocol in KINDS[kind].protocols:
        for number, variant in enumerate(variants if usual else variants[:1]):
            for rehearsal in (tree, standing, cycles) if usual and number == 0 else (tree,):
                model = rehearse(rehearsal, protocol, index=index, kind=kind)
                variant.run(model, MemoryTraces("full", tables_of(model)))


def _scenario(name: str) -> None:
    from scenarios.running import run

    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        run(name, engine="inline", actors=2, overrides=MOMENT, out=folder)


def looking() -> None:
    """What the audit and `explain` compute on the overlay of a run."""
    from analysis.spark.graph import Network
    from scenarios.running import run

    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        Network.of(run("lossy", engine="inline", overrides=("duration=1 s",), out=folder).folder).distances(0)
