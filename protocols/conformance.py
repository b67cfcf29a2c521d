"""The conformance kit: with it anyone checks a protocol, a built-in one or their own.

Three questions, three tools:

- Is handling a batch the same as handling its events one by one? `variants` are the ways of running one
  model that must give one trace; `check_digests` runs them and tells the first event that differs.
- Does it deliver what it declares? `audit` goes through a full trace by brute force (`protocols/judging.py`), and
  `judge_run` asks besides what was spent too much (`protocols/manners.py`), what was sent to be dropped
  (`protocols/dropping.py`), and what did not heal (`protocols/healing.py`).
- What does one broker say to the next? `join` connects a few real brokers for a unit test (`protocols/joining.py`).

`python -m protocols.conformance package.module:Class` (or `'exec:./program'`) asks the first two on a few small
overlays, the rehearsals of `protocols/rehearsing.py`, and then hunts for some seconds, as `brokerlab hunt` does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from brokers.contract import BrokerProtocol, ShardProtocol
from brokers.engine.batching import Cutting
from brokers.engine.course import will_be_compiled
from brokers.engine.model import Model
from brokers.engine.simulate import MemoryTraces, Result, simulate, tables_of
from brokers.engine.trace import DRIVER
from brokers.errors import BrokerlabError, InvalidInput
from brokers.programs.spelling import is_program, shown
from brokers.promises import Faced, promised
from brokers.registry import load
from brokers.verdicts import VALID
from protocols.dropping import unrelenting
from protocols.healing import not_healed
from protocols.joining import Delivery, Hop, Joined, join, overlay_of
from protocols.judging import Audit, audit
from protocols.manners import over_budget
from protocols.rehearsing import (
    REHEARSALS,
    Dice,
    Rehearsal,
    Script,
    columns,
    rehearsals_for,
    rehearse,
    service_of,
    target_of,
)
from topology.units import QuantityError, parse_duration

__all__ = [
    "ORACLE", "REHEARSALS", "Audit", "Delivery", "Dice", "Disagreement", "Hop", "Joined", "Recorded", "Rehearsal",
    "Script", "Variant", "audit", "audit_run", "check_digests", "columns", "join", "judge_run", "overlay_of",
    "rehearse", "report", "service_of", "target_of", "variants",
]  # fmt: skip


# ---- ways of running a model -------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """One way of running a model. None of them may show in a trace."""

    name: str
    cutting: Cutting = field(default_factory=Cutting)
    actors: int = 1
    partition: str = "auto"
    tables: str | None = None  # None: as the model says
    view: str | None = None
    run_from: int | None = None  # messages in a stretch from which `on_run` is called
    max_window_ns: int | None = None
    engine: str = "inline"

    def model(self, model: Model) -> Model:
        """The same model under this variant's tables and view."""
        return replace(
            model,
            services=[
                replace(service, tables=self.tables or service.tables, view=self.view or service.view)
                for service in model.services
            ],
        )

    def run(self, model: Model, trace: Callable[[int], Any] | None = None) -> Result:
        with _run_from(self.run_from):
            return simulate(
                self.model(model),
                engine=self.engine,
                actors=self.actors,
                partition=self.partition,
                trace=trace,
                cutting=self.cutting,
                max_window_ns=self.max_window_ns,
            )


@contextmanager
def _run_from(count: int | None) -> Iterator[None]:
    from brokers.engine import adaptor

    before = adaptor.RUN_FROM
    adaptor.RUN_FROM = before if count is None else count
    try:
        yield
    finally:
        adaptor.RUN_FROM = before


ORACLE = Variant("one event at a time", Cutting("one"))


def variants(model: Model) -> list[Variant]:
    """The ways of running `model` that must agree; the first is the oracle, one event at a time."""
    brokers = model.overlay.brokers
    found = [
        ORACLE,
        Variant("batches up to the horizon"),
        Variant("batches of at most 7", Cutting("horizon", limit=7)),
        *(
            Variant(f"cut at random, seed {seed}, at most {limit}", Cutting("random", limit=limit, seed=seed))
            for seed, limit in ((1, 8192), (2, 8192), (3, 40), (4, 5))
        ),
        Variant("short windows", max_window_ns=1_700_000),
    ]
    if will_be_compiled(model):
        found += [
            Variant("`handle` alone", Cutting(compiled="never")),
            Variant("compiled, one event at a time", Cutting(compiled="events")),
            Variant("compiled, in rounds", Cutting(compiled="rounds")),
            Variant("compiled, in rounds of at most 5", Cutting(compiled="rounds", limit=5)),
            Variant("compiled, cut at random", Cutting("random", compiled="rounds", limit=60, seed=8)),
            Variant("compiled, short windows", Cutting(compiled="events"), max_window_ns=2_300_000),
        ]
        found += [
            Variant(f"{actors} threads, {how}", Cutting(compiled=taken), actors, how, engine="threads")
            for actors, how, taken in ((2, "auto", "auto"), (2, "round-robin", "rounds"), (5, "round-robin", "events"))
            if 1 < actors <= brokers
        ]
    for actors in (2, 3, 7):
        if actors < brokers:
            found += [
                Variant(f"{actors} shards, {how}", actors=actors, partition=how)
                for how in ("auto", "round-robin")
            ]
    if brokers > 1:
        found += [
            Variant("one shard per broker", actors=brokers),
            Variant("one shard per broker, cut at random", Cutting("random", seed=5), actors=brokers),
        ]
    runs = False
    for service in model.services:
        protocol = service.protocol_class
        plain = protocol if issubclass(protocol, BrokerProtocol) else getattr(protocol, "plain", None)
        runs = runs or plain is not None
    if runs:
        for tables in ("shared", "own"):
            found += [
                Variant(f"on_message, {tables} tables", tables=tables, view="message"),
                Variant(f"on_run, {tables} tables", tables=tables, view="run"),
            ]
        found += [
            Variant("on_run for every stretch", view="run", run_from=1),
            Variant("on_run, cut at random", Cutting("random", seed=6), view="run", run_from=2),
            Variant("on_message, cut at random", Cutting("random", seed=7), view="message"),
            Variant("on_message, 2 shards", actors=min(2, brokers), view="message"),
            Variant(
                "on_run, own tables, 3 shards", actors=min(3, brokers), view="run", tables="own", run_from=1
            ),
        ]
    else:
        found.append(Variant("own tables", tables="own"))
    return found


class Disagreement(NamedTuple):
    """A variant that did not run as the oracle did."""

    variant: str
    digest: str  # empty where it failed
    told: str  # the first diverging event, or the failure, as a sentence


class Recorded:
    """The trace of all shards of a run together, to be compared and audited."""

    def __init__(self, traces: MemoryTraces) -> None:
        self._traces = traces

    def model_tables(self) -> tuple[str, ...]:
        return self._traces(DRIVER).model_tables()

    def read(self, table: str) -> Any:
        import pyarrow as pa

        return pa.concat_tables([part.read(table) for _, part in sorted(self._traces.parts.items())])


def check_digests(model: Model, ways: Sequence[Variant] | None = None) -> list[Disagreement]:
    """Run the model in all these ways and name those whose digest or model tables differ from the first's."""
    from brokers.engine.trace_compare import first_difference

    ways = variants(model) if ways is None else ways
    first = MemoryTraces("full", tables_of(model))
    digest = ways[0].run(model, first).digest
    found = []
    for way in ways[1:]:
        traces = MemoryTraces("full", tables_of(model))
        try:
            result = way.run(model, None if way.engine == "ray" else traces)
        except Exception as error:  # of the protocol, which may raise anything
            found.append(Disagreement(way.name, "", f"it failed: {_said(error)}"))
            continue
        if way.engine == "ray":  # actors keep their traces to themselves
            told = None if result.digest == digest else "no trace to compare on Ray"
        else:
            told = first_difference(Recorded(first), Recorded(traces), ways[0].name, way.name)
            if told is None and result.digest != digest:
                told = "the digests differ, but no table does"
        if told is not None:
            found.append(Disagreement(way.name, result.digest, told))
    return found


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BrokerlabError) else f"{type(error).__name__}: {error}"


def audit_run(model: Model, service: int = 0) -> Audit:
    """Run a model and audit one of its services on what its protocol declares."""
    return judge_run(model, service)[0]


def judge_run(model: Model, service: int = 0) -> tuple[Audit, list[str]]:
    """The same, and what it spent too much and did not heal, as sentences that begin with the name of a judge."""
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    spec, tables = model.services[service], traces.tables()
    kind, protocol = spec.kind_class(spec.params), spec.protocol_class
    owed = promised(protocol, spec.options, model.overlay, Faced.of(model.faults, model.overlay))
    found = audit(tables, kind, owed, service)
    over = [f"budget: {told}" for _, told in over_budget(tables, kind, owed, protocol, model.overlay, service)]
    if not any(spec.cost.values()) and not model.faults:
        over += [f"drops: {told}" for _, told in unrelenting(tables, kind, protocol, service)]
    return found, over + [f"heals: {told}" for _, told in not_healed(found, tables, kind, service)]


# ---- the command -------------------------------------------------------------------------------------


def report(
    protocol: str | type,
    seeds: Sequence[int] = (1, 2),
    trees_only: bool = False,
    say: Callable[[str], None] = lambda line: None,
    **service: Any,
) -> tuple[bool, str]:
    """Ask a protocol everything on small overlays: whether it passed, and what to read, which is said as it comes."""
    lines = _Said(say)
    passed = _rehearsed(protocol, seeds, trees_only, lines, service)
    lines.append(_verdict(protocol, passed))
    return passed, "\n".join(lines)


def _verdict(protocol: str | type, passed: bool) -> str:
    return f"{shown(target_of(protocol))} {'passed' if passed else 'did not pass'}"


def _rehearsed(
    protocol: str | type, seeds: Sequence[int], trees_only: bool, lines: list[str], service: dict[str, Any]
) -> bool:
    """Rehearse, in all ways of running; whether all was well."""
    passed = True
    if is_program(protocol):
        protocol = target_of(protocol)
    for rehearsal in rehearsals_for(protocol):
        if trees_only and not rehearsal.tree:
            continue
        for seed in seeds:
            model = rehearse(rehearsal, protocol, seed, **service)
            lines.append(f"{rehearsal.name} ({_brokers(rehearsal, model)}, seed {seed})")
            if why := _left_out(model):
                lines.append(f"  left out: {why}")
                continue
            try:
                ways = variants(model)
                found = check_digests(model, ways)
                judged, beside = judge_run(model)
            except Exception as error:  # of the protocol, which may raise anything
                lines.append(f"  failed: {_said(error)}")
                passed = False
                continue
            lines.append(f"  {len(ways) - len(found)} of {len(ways)} ways of running it give the same trace")
            for way, _, told in found[:3]:
                lines.append(f"  {way}: {told}")
            lines.append(f"  {judged}")
            for told in beside:
                lines.append(f"  {told}")
            passed = passed and not found and not beside and judged.verdict == VALID
    return passed


def _brokers(rehearsal: Rehearsal, model: Model) -> str:
    """How many there are, and how they are linked, where that is not as the rehearsal says."""
    said = f"{model.overlay.brokers} brokers"
    if model.overlay.region is not None:
        return f"{said}, here all linked to each other"
    return f"{said}, here a tree" if model.overlay.is_tree and not rehearsal.tree else said


class _Said(list[str]):
    """Lines that are said as they come."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def append(self, line: str) -> None:
        super().append(line)
        self._say(line)


def _left_out(model: Model) -> str | None:
    """Why a program is not asked to run a model: it said of itself what it is not for."""
    spec = model.services[0]
    if not is_program(spec.protocol_target):
        return None
    protocol = spec.protocol_class
    if spec.settled and protocol.stand is ShardProtocol.stand:
        return 'it does not say that it starts with subscriptions that stand ("settled": true)'
    return next((why for _, why in protocol.misfits(spec.options, model.overlay, spec.params)), None)


# What draws cases of its own, a command of the layer above this one: found by its name, when it is asked for.
_HUNT = "scenarios.commands.hunt:command"


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m protocols.conformance package.module:Class`"""
    given = _parser().parse_args(arguments)
    say = partial(print, flush=True)
    try:
        if given.seeds < 1:
            raise InvalidInput(f"--seeds: at least 1, or nothing is rehearsed (got {given.seeds})")
        passed = _rehearsed(
            given.protocol, range(1, given.seeds + 1), given.trees_only, _Said(say), {"kind": given.kind}
        )
        if _hunts(given):
            say(f"hunting, with seed {given.seed}")
            passed = load(_HUNT)(_hunting(given)) == 0 and passed
        say(_verdict(given.protocol, passed))
    except BrokerlabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0 if passed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m protocols.conformance",
        description="Check a protocol: on rehearsals, which are run in every way, and then on what a hunt draws.",
    )
    parser.add_argument("protocol", help="a registered name, package.module:Class, or 'exec:./program ...'")
    parser.add_argument("--kind", help="its kind, package.module:Name, if that is not registered")
    parser.add_argument("--seeds", type=int, default=2, help="random overlays of each sort")
    parser.add_argument("--trees-only", action="store_true", help="leave out graphs with cycles")
    parser.add_argument(
        "--for", dest="time", metavar="T", help="how long to hunt, as in 2min; 0: not at all (default: 10 s)"
    )
    parser.add_argument("--runs", type=int, metavar="N", help="how many runs of the hunt: the same are found each time")
    parser.add_argument("--seed", type=int, default=1, help="of what the hunt draws (default: 1)")
    parser.add_argument("--out", default="hunts", help="folder for what the hunt finds (default: hunts)")
    return parser


def _hunts(given: argparse.Namespace) -> bool:
    try:
        return given.time != "0" and (given.time is None or parse_duration(given.time) > 0)
    except QuantityError as error:
        raise InvalidInput(f"--for: {error}") from None


def _hunting(given: argparse.Namespace) -> list[str]:
    """The arguments of the hunt."""
    time = given.time or ("10 s" if given.runs is None else None)
    said = {"--for": time, "--runs": given.runs, "--seed": given.seed, "--kind": given.kind, "--out": given.out}
    words = [str(word) for pair in said.items() if pair[1] is not None for word in pair]
    return [given.protocol, *words, *(["--trees-only"] if given.trees_only else [])]


if __name__ == "__main__":
    sys.exit(main())
