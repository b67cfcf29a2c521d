"""A case that does not come to its end, run once more for its trace up to there: one event at a time.

What a run that is cut short leaves lacks what is written at its end: brokers, links, and what failed. Those follow from
the model. The event that raised something is no part of the trace; it is found on the way of the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from brokers.contract import MESSAGE, Message
from brokers.engine.batching import Cutting
from brokers.engine.result import fault_columns
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import Interrupted, NeverQuiet
from brokers.thresholds import lowered
from scenarios.hunt.case import Case
from scenarios.hunt.running import EVENTS_MOST, said
from scenarios.hunt.shared import Shared

_WINDOW_NS = 1  # what was handled in a window is in the trace once that is over
_WAYS = ("one", "horizon")  # of cutting: some mistakes show in stretches only


@dataclass(frozen=True)
class Stopped:
    """What is known of a run that was cut short."""

    case: Case
    kind: Any
    tables: dict[str, dict[str, Any]]
    told: str  # why it stopped
    endless: bool  # whether it never got quiet
    broker: int = -1  # which handled something when it stopped, where that is known
    message: Message | None = None  # and what


def stopped(case: Case) -> Stopped | None:
    """Run it again up to where it stops; None where it comes to its end."""
    for mode in _WAYS:
        if (found := _stopped(case, Cutting(mode))) is not None:
            return found
    return None


def _stopped(case: Case, cutting: Cutting) -> Stopped | None:
    model = replace(case.model, messages_max=EVENTS_MOST)
    spec = model.services[0]
    traces, shared = MemoryTraces("full", tables_of(model)), Shared(spec.protocol_class)
    try:
        with lowered(case.thresholds):
            simulate(model, trace=traces, cutting=cutting, max_window_ns=_WINDOW_NS)
    except Interrupted:
        raise KeyboardInterrupt from None
    except Exception as error:  # of the protocol, which may raise anything
        broker, message = _at_work(error)
        why, kind = said(error).removeprefix("verdict invalid: "), spec.kind_class(spec.params)
        return Stopped(
            case, kind, _completed(model, traces), why, isinstance(error, NeverQuiet), broker, message,
        )  # fmt: skip
    finally:
        shared.changed()
    return None


def _at_work(error: BaseException) -> tuple[int, Message | None]:
    """The broker that handled something when an error was raised, and what: what the author's view had in hand."""
    for each in reversed(list(_errors(error))):
        trace, at, found = each.__traceback__, -1, None
        while trace is not None:
            names = trace.tb_frame.f_locals
            message, node = names.get("message"), getattr(names.get("self"), "node", None)
            broker = getattr(node, "broker", None)
            if isinstance(message, Message) and isinstance(broker, int):
                at, found = broker, message
            trace = trace.tb_next
        if found is not None:
            return at, found
    return -1, None


def _errors(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _completed(model: Any, traces: MemoryTraces) -> dict[str, dict[str, Any]]:
    """The trace so far, with the tables that are written at the end of a run."""
    found: dict[str, dict[str, Any]] = traces.tables() if traces.parts else {}
    overlay = model.overlay
    source = np.stack((overlay.link_a, overlay.link_b), 1).ravel()
    target = np.stack((overlay.link_b, overlay.link_a), 1).ravel()
    found["brokers"] = {"broker": np.arange(overlay.nodes), "name": np.array(overlay.names)}
    found["links"] = {
        "link": np.arange(source.size), "from": source, "to": target, "delay_ns": np.repeat(overlay.delay_ns, 2),
        "latent": np.repeat(np.asarray(overlay.latent if overlay.has_latent else np.zeros(overlay.delay_ns.size)), 2),
    }  # fmt: skip
    found["faults"] = fault_columns(model.faults)
    spec = model.services[0]
    found["changes"] = _changes(found.get("hops", {}), spec.kind_class(spec.params).changes)
    return found


def _changes(hops: Mapping[str, Any], changes: frozenset[int]) -> dict[str, list[Any]]:
    """What clients changed so far, of which nothing is known yet but that it was issued."""
    found: dict[str, list[Any]] = {name: [] for name in _CHANGE}
    if not len(hops.get("link", ())):
        return found
    mine = (hops["link"] < 0) & (hops["cause"] >= 0) & (hops["kind"] == MESSAGE) & np.isin(hops["type"], [*changes])
    for row in np.flatnonzero(mine).tolist():
        said = {to: hops[name][row].item() for to, name in _TAKEN.items()}
        for name, usual in _CHANGE.items():
            found[name].append(said.get(name, usual))
    return found


_TAKEN = {
    "change": "cause", "service": "service", "operation": "type", "interest": "word", "broker": "broker",
    "client": "source", "issued_ns": "time_ns",
}  # fmt: skip
_CHANGE: dict[str, Any] = {
    **dict.fromkeys(_TAKEN), "settled_ns": -1, "revoked_ns": -1, "gone_ns": -1, "lost": 0, "values": (),
}  # fmt: skip
