"""A case, run: its full trace, and what brokers knew at the end."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, TypeVar

from brokers.engine.batching import Cutting
from brokers.engine.simulate import MemoryTraces, Result, simulate, tables_of
from brokers.errors import BrokerlabError, Interrupted, NeverQuiet
from brokers.promises import Faced, promised
from brokers.thresholds import lowered
from protocols.judging import Audit, audit
from scenarios.hunt.case import Case
from scenarios.hunt.shared import Shared

_WINDOW_NS = 1 << 50  # all in one, or how fast the machine is would show in the order of rows
EVENTS_MOST = 20_000  # of one run; those that get quiet have some hundreds
T = TypeVar("T")


@dataclass
class Outcome:
    """What came of a case."""

    case: Case
    model: Any
    digest: str = ""
    failed: str = ""  # why it did not come to its end
    sort: str = ""  # of what sort that is: the same mistake has the same
    tables: dict[str, Any] = field(default_factory=dict)
    entries: list[int] = field(default_factory=list)  # of tables, by broker, at the end
    described: list[Any] = field(default_factory=list)
    held: list[int] = field(default_factory=list)  # bodies that are kept, by broker and body
    events: int = 0
    under_way: int = 0  # messages, at the end
    stained: list[str] = field(default_factory=list)  # what all brokers have in common, and the run changed
    answered: dict[str, Any] = field(default_factory=dict)  # what was asked of it `once`

    @property
    def overloaded(self) -> bool:
        """Whether so much waits for slow links or brokers that it did not come through before the end."""
        return self.slow and self.under_way > 0

    @property
    def slow(self) -> bool:
        """Whether messages wait for links or brokers."""
        return bool(self.case.cost) or any(edge.bandwidth for edge in self.case.edges)

    @property
    def endless(self) -> list[Mapping[str, Any]]:
        """Faults that are never over."""
        return [each for each in self.case.faults if each.get("lasts") is None]

    @cached_property
    def calm(self) -> Outcome:
        """What comes of the same case if nothing fails."""
        return run(self.case.but(faults=(), detect_ns=None))

    @cached_property
    def audit(self) -> Audit:
        """What the kit's audit finds."""
        return audit(self.tables, self.kind, self.guarantees)

    @cached_property
    def guarantees(self) -> Any:
        """What the protocol promises here."""
        spec, overlay = self.model.services[0], self.model.overlay
        return promised(spec.protocol_class, spec.options, overlay, Faced.of(self.model.faults, overlay))

    @cached_property
    def kind(self) -> Any:
        """The kind of the service."""
        spec = self.model.services[0]
        return spec.kind_class(spec.params)


def once(ask: Callable[[Outcome], T]) -> Callable[[Outcome], T]:
    """A question whose answer is kept with the outcome: several judges ask it."""

    @wraps(ask)
    def asked(outcome: Outcome) -> T:
        if ask.__name__ not in outcome.answered:
            outcome.answered[ask.__name__] = ask(outcome)
        found: T = outcome.answered[ask.__name__]
        return found

    return asked


def run(case: Case, cutting: Cutting | None = None) -> Outcome:
    """Run it in this process. Whatever a protocol raises is part of the outcome."""
    model = replace(case.model, messages_max=EVENTS_MOST)
    outcome = Outcome(case, model)

    def look(shards: Any) -> None:
        (shard,) = shards.shards
        (protocol,) = shard.services.protocols
        outcome.entries = [int(each) for each in protocol.entries()]
        outcome.described = [protocol.describe(broker) for broker in range(model.overlay.nodes)]
        outcome.held = [int(each) for each in protocol.held()]

    traces = MemoryTraces("full", tables_of(model))
    protocol = model.services[0].protocol_class
    shared = Shared(protocol)
    try:
        with lowered(case.thresholds):
            result: Result = simulate(
                model, trace=traces, cutting=cutting, observe=look, max_window_ns=_WINDOW_NS
            )
    except NeverQuiet as error:
        outcome.failed, outcome.sort = str(error), "never quiet"
        outcome.events = len(traces.tables()["hops"]["time_ns"])
        shared.changed()
        return outcome
    except Interrupted:
        shared.changed()
        raise KeyboardInterrupt from None
    except Exception as error:  # of the protocol, which may raise anything
        outcome.failed, outcome.sort = said(error), _place(error)
        shared.changed()
        return outcome
    outcome.stained = shared.changed()
    outcome.digest = result.digest
    outcome.tables = traces.tables()
    outcome.under_way = int(result.metrics["network"]["in_flight_at_end"])
    outcome.events = len(outcome.tables["hops"]["time_ns"])
    return outcome


def said(error: Exception) -> str:
    """An error in a sentence."""
    return str(error) if isinstance(error, BrokerlabError) else f"{type(error).__name__}: {error}"


def _place(error: Exception) -> str:
    """What was raised and by which function: the same mistake has the same place."""
    trace = error.__traceback__
    name = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_name
        trace = trace.tb_next
    return f"{type(error).__name__} in {name}"


@contextmanager
def settled_in() -> Iterator[None]:
    """What is there before is not looked through for garbage again and again, run after run."""
    mine = not gc.get_freeze_count()
    if mine:
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()


class Stopwatch:
    """How long something has taken, of which only speed is told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._begun
