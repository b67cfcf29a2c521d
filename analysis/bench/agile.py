"""The group `agile`: context filters at the paper's full size, and where they overtake each other.

Rules:
- A message comes with its share of updates, `UP / 10,000` per profile. Updates are handed over in batches of
  5,000 at most; making them up is not timed.
- All filters get the same messages and updates, in turns, a slice each. The baseline is NOINDEX unless
  the row says otherwise.
- Seconds are CPU seconds of the one thread that works: on a busy machine it waits, and waiting is not counted.
- At high update rates AGILE is measured after the updates of 500 messages, but no more than `warm_updates`.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.bench.rows import Row, row
from analysis.papers.agile_workload import MESSAGES_FULL, NAMES, PROFILES_FULL, SCHEMA, Load, Workload
from brokers.indexes.context.agile import Agile, Eager, Gbu
from brokers.indexes.context.cells import CellFilter
from brokers.indexes.context.filter import Filter, NoIndex

BATCH = 5_000
CELLS_INDEXED = 3  # more make messages cheaper and updates dearer

Filters = Mapping[str, Filter]
Updates = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
Mixture = list[tuple[NDArray[np.float64], list[Updates]]]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    profiles: int = PROFILES_FULL
    slices: int = 7
    messages: int = 60  # per slice
    update_slices: int = 40
    warm_updates: int = 10_000_000
    # Per update rate: messages per slice, slices, and the approaches that can be waited for.
    rates: tuple[tuple[int, int, int, tuple[str, ...]], ...] = (
        (1, 60, 5, ("NOINDEX", "EAGER", "GBU", "AGILE", "cells", "cells eager")),
        (10, 20, 5, ("NOINDEX", "EAGER", "GBU", "AGILE", "cells", "cells eager")),
        (100, 6, 5, ("NOINDEX", "EAGER", "GBU", "AGILE", "cells", "cells eager")),
        (1_000, 2, 3, ("NOINDEX", "AGILE", "cells", "cells eager")),
        (10_000, 1, 3, ("NOINDEX", "AGILE", "cells", "cells eager")),
    )


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = sizes or Sizes()
    yield from single_costs(sizes)
    yield from crossovers(sizes)
    yield from bound_predicates(sizes)


def single_costs(sizes: Sizes) -> Iterator[Row]:
    """What one message and one update cost, at predicate share .2."""
    filters = built({"NOINDEX": lambda: NoIndex(SCHEMA), "EAGER": lambda: Eager(SCHEMA, NAMES[:2])},
                    Load(profiles=sizes.profiles))
    for name, filter_ in filters.items():
        size = filter_.memory_bytes()
        yield row(f"memory of {name}", size / 1e6, "MB", most=2_000 if sizes.profiles == PROFILES_FULL else None)
        yield row(f"memory of {name} per profile", size / sizes.profiles, "bytes")
    asking = Workload(Load(profiles=sizes.profiles, seed=2))
    per_message = turns(filters, sizes.slices, lambda: asking.messages(sizes.messages), _ask)
    yield row("a message, NOINDEX", per_message["NOINDEX"] / sizes.messages * 1e6, "µs",
              baseline=_compared_us(sizes), ratio_most=1, against="comparing two columns in NumPy")
    lazy = Workload(Load(profiles=sizes.profiles, on_indexed=0.0))
    spent = turns(filters, sizes.update_slices, lambda: lazy.updates(BATCH), _update)
    for name in filters:
        yield row(f"lazy updates, {name}", BATCH / spent[name], "updates/s", baseline=_assigned_per_s(sizes, lazy),
                  ratio_least=0.045, against="assigning them in NumPy")
    eager = filters["EAGER"]
    hot = Workload(Load(profiles=sizes.profiles, on_indexed=1.0))
    eager.counters.reset()
    taken = []
    for _ in range(sizes.update_slices):
        before, updates = eager.counters.moved, hot.updates(BATCH)
        taken.append(_update(eager, updates) / max(1, eager.counters.moved - before))
    yield row("an update of a skip list, its context update included", statistics.median(taken) * 1e6, "µs",
              most=10)


def _compared_us(sizes: Sizes) -> float:
    """What NumPy takes to compare two numbers of each profile."""
    columns = np.random.Generator(np.random.PCG64(1)).random((sizes.profiles, 2))
    taken = []
    for _ in range(sizes.slices):
        begin = time.thread_time()
        for _ in range(5):
            np.count_nonzero((columns[:, 0] < 0.5) & (columns[:, 1] > 0.2))
        taken.append((time.thread_time() - begin) / 5)
    return statistics.median(taken) * 1e6


def _assigned_per_s(sizes: Sizes, updates: Workload) -> float:
    """How many such updates NumPy assigns to a table per second."""
    table = np.zeros((sizes.profiles, len(NAMES)))
    context, attribute, value = updates.updates(BATCH)
    rows, columns = context % sizes.profiles, attribute % len(NAMES)
    taken = []
    for _ in range(sizes.update_slices):
        begin = time.thread_time()
        for _ in range(20):
            table[rows, columns] = value
        taken.append((time.thread_time() - begin) / 20)
    return BATCH / statistics.median(taken)


def crossovers(sizes: Sizes) -> Iterator[Row]:
    """Messages per second over the update rate, every approach."""
    makers: dict[str, Callable[[], Filter]] = {
        "NOINDEX": lambda: NoIndex(SCHEMA),
        "EAGER": lambda: Eager(SCHEMA, NAMES[:2]),
        "GBU": lambda: Gbu(SCHEMA, NAMES[:2]),
        "AGILE": lambda: Agile(SCHEMA, NAMES[:2]),
        "cells": lambda: CellFilter(SCHEMA, NAMES[:CELLS_INDEXED]),
        "cells eager": lambda: CellFilter(SCHEMA, NAMES[:CELLS_INDEXED], eager=True),
    }
    load = Load(profiles=sizes.profiles)
    filters, work = built(makers, load), Workload(load)
    for rate, messages, slices, names in sizes.rates:
        chosen = {name: filters[name] for name in names}
        per_message = max(1, sizes.profiles * rate // MESSAGES_FULL)
        warm(chosen, work, per_message, sizes.warm_updates)
        spent = turns(chosen, slices, partial(mixture, work, messages, per_message), _both)
        speed = {name: messages / seconds for name, seconds in spent.items()}
        for name in names:
            yield _speed_row(name, rate, speed)
        # What sat out the last rates has old values; it is not asked again.
        for name in set(filters) - set(names):
            del filters[name]


def bound_predicates(sizes: Sizes) -> Iterator[Row]:
    """EAGER and AGILE at predicate share .9."""
    load = Load(profiles=sizes.profiles, share=0.9)
    makers: dict[str, Callable[[], Filter]] = {
        "NOINDEX": lambda: NoIndex(SCHEMA),
        "EAGER": lambda: Eager(SCHEMA, NAMES[:2]),
        "AGILE": lambda: Agile(SCHEMA, NAMES[:2]),
    }
    filters, work = built(makers, load), Workload(load)
    per_message = max(1, sizes.profiles // MESSAGES_FULL)
    spent = turns(filters, sizes.slices, lambda: mixture(work, sizes.messages, per_message), _both)
    for name in ("EAGER", "AGILE"):
        yield row(f"{name} at UP = 1, share .9", sizes.messages / spent[name], "messages/s", least=4_000,
                  baseline=sizes.messages / spent["NOINDEX"])


def _speed_row(name: str, rate: int, speed: dict[str, float]) -> Row:
    title = f"{name} at UP = {rate}"
    if name == "NOINDEX":
        return row(title, speed[name], "messages/s")
    if name == "cells":
        if rate == 10_000:
            return row(title, speed[name], "messages/s", baseline=speed["NOINDEX"], ratio_least=0.8, against="NOINDEX")
        best = max(value for other, value in speed.items() if not other.startswith("cells"))
        return row(title, speed[name], "messages/s", baseline=best, ratio_least=1.0, against="the best of the five")
    least = 5_000 if rate == 1 and name in ("EAGER", "AGILE") else None
    return row(title, speed[name], "messages/s", least=least, baseline=speed["NOINDEX"])


def built(makers: Mapping[str, Callable[[], Filter]], load: Load) -> dict[str, Filter]:
    """Filters that hold the same profiles and values."""
    filters = {}
    for name, make in makers.items():
        work = Workload(load)
        filter_ = filters[name] = make()
        filter_.update_many(*work.contexts())
        filter_.insert_table(np.arange(load.profiles), work.table)
        filter_.handle_many(work.messages(20))
    return filters


def warm(filters: Filters, work: Workload, per_message: int, updates_max: int) -> None:
    """Up to 500 messages with their updates."""
    left = updates_max
    for _ in range(500):
        if left <= 0:
            return
        part = mixture(work, 1, per_message)
        for filter_ in filters.values():
            _both(filter_, part)
        left -= per_message


def mixture(work: Workload, messages: int, per_message: int) -> Mixture:
    """Messages, and after each its updates in batches."""
    out = []
    for asked in work.messages(messages):
        batches = [work.updates(min(BATCH, per_message - at)) for at in range(0, per_message, BATCH)]
        out.append((asked[None, :], batches))
    return out


def turns(
    filters: Filters, slices: int, make: Callable[[], Any], handle: Callable[[Filter, Any], float]
) -> dict[str, float]:
    """The median of the seconds that each filter takes for a slice, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in filters}
    for _ in range(slices):
        part = make()
        for name, filter_ in filters.items():
            taken[name].append(handle(filter_, part))
    return {name: statistics.median(values) for name, values in taken.items()}


def _both(filter_: Filter, part: Mixture) -> float:
    begin = time.thread_time()
    for asked, batches in part:
        filter_.handle_many(asked)
        for batch in batches:
            filter_.update_many(*batch)
    return time.thread_time() - begin


def _ask(filter_: Filter, messages: NDArray[np.float64]) -> float:
    begin = time.thread_time()
    filter_.handle_many(messages)
    return time.thread_time() - begin


def _update(filter_: Filter, updates: Updates) -> float:
    begin = time.thread_time()
    filter_.update_many(*updates)
    return time.thread_time() - begin
