"""Runs of the AGILE experiments: counts of operations, what they would cost on the paper's machine, and real time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from analysis.papers.agile_workload import MESSAGES_FULL, NAMES, PROFILES_FULL, SCHEMA, Load, Workload
from brokers.indexes.context.agile import Agile, Eager, Gbu
from brokers.indexes.context.cells import CellFilter
from brokers.indexes.context.filter import Filter, NoIndex
from brokers.indexes.context.policies import Fixed, Policy

# Five constants that give all entries of table 3 from tables 4 and 5 within 11 %: seconds on the paper's machine.
PROBE_S = 1.94e-3  # probes and merge of one message; no index, none
POSTFILTER_S = 91.7e-9  # one profile
CONTEXT_S = 142e-9  # one context update
MOVE_S = {"EAGER": 25e-6, "GBU": 25e-6, "AGILE range": 16.1e-6, "AGILE piecewise": 16.1e-6}  # one index update

BATCH = 5_000
APPROACHES = ("NOINDEX", "EAGER", "GBU", "AGILE range", "AGILE piecewise", "cells", "cells eager")
MODELLED = APPROACHES[:5]


@dataclass(frozen=True)
class Setting:
    """One run."""

    approach: str
    load: Load
    rate: int = 1  # UP: updates per profile and 10,000 messages
    messages: int = 1_000
    warm_messages: int = 500
    policy: Policy = field(default_factory=Fixed)

    def at_most(self, updates: int) -> Setting:
        """Fewer messages, where their updates would be more than that: for what has no state to settle."""
        most = max(5, int(updates / per_message(self.load.profiles, self.rate)))
        return replace(self, messages=min(self.messages, most), warm_messages=min(self.warm_messages, most // 4 + 1))


@dataclass
class Found:
    """Counts per message, scaled to the paper's 500,000 profiles, and real time at the size of the run."""

    messages: int
    updates: float
    moved: float
    shrunk: float
    postfiltered: float
    matched: float
    real_s: float  # per message, at the size of the run

    def modelled_s(self, approach: str, charge_shrinking: bool = False) -> float:
        """Seconds per message on the paper's machine, by the cost model."""
        moves = self.moved + (self.shrunk if charge_shrinking else 0.0)
        probe = 0.0 if approach == "NOINDEX" else PROBE_S
        return (probe + POSTFILTER_S * self.postfiltered + CONTEXT_S * self.updates
                + MOVE_S.get(approach, 0.0) * moves)


def per_message(profiles: int, rate: float) -> float:
    """Updates that come with a message, on average."""
    return profiles * rate / MESSAGES_FULL


def make(approach: str, indexed: tuple[str, ...], policy: Policy) -> Filter:
    """A filter by the paper's name."""
    makers: dict[str, Callable[[], Filter]] = {
        "NOINDEX": lambda: NoIndex(SCHEMA),
        "EAGER": lambda: Eager(SCHEMA, indexed),
        "GBU": lambda: Gbu(SCHEMA, indexed),
        "AGILE range": lambda: Agile(SCHEMA, indexed, "range", policy=policy),
        "AGILE piecewise": lambda: Agile(SCHEMA, indexed, "piecewise", policy=policy),
        "cells": lambda: CellFilter(SCHEMA, NAMES[:4]),
        "cells eager": lambda: CellFilter(SCHEMA, NAMES[:4], eager=True),
    }
    return makers[approach]()


def start(setting: Setting) -> tuple[Filter, Workload]:
    """A filter with all profiles, every region exact."""
    work = Workload(setting.load)
    filter_ = make(setting.approach, work.indexed, setting.policy)
    filter_.update_many(*work.contexts())
    filter_.insert_table(np.arange(setting.load.profiles), work.table)
    return filter_, work


def play(filter_: Filter, work: Workload, messages: int, rate: float) -> float:
    """Messages, each with its updates after it; the seconds that the filter took."""
    spent = owed = 0.0
    for asked in work.messages(messages):
        owed += per_message(work.load.profiles, rate)
        updates = int(owed)
        owed -= updates
        begin = time.thread_time()
        filter_.handle_many(asked[None, :])
        spent += time.thread_time() - begin
        for at in range(0, updates, BATCH):
            batch = work.updates(min(BATCH, updates - at))
            begin = time.thread_time()
            filter_.update_many(*batch)
            spent += time.thread_time() - begin
    return spent


def counted(filter_: Filter, profiles: int, messages: int, spent: float) -> Found:
    """The counters since their reset, per message."""
    counters = filter_.counters
    # Figure 4 removes and inserts at every update; our EAGER leaves out those whose rounded value is the old one.
    moved = counters.touched if isinstance(filter_, Eager) else counters.moved
    up = PROFILES_FULL / profiles / messages
    return Found(messages, counters.updates * up, moved * up, counters.shrunk * up, counters.verified * up,
                 counters.matched * up, spent / messages)


def run(setting: Setting) -> Found:
    """Warm up, then count and time."""
    filter_, work = start(setting)
    play(filter_, work, setting.warm_messages, setting.rate)
    filter_.counters.reset()
    spent = play(filter_, work, setting.messages, setting.rate)
    return counted(filter_, setting.load.profiles, setting.messages, spent)
