"""What a kind is made of, each part by its name: the manifest of a kind.

A manifest is strings and plain data, so that what a kind brings can be listed without importing any of it. It lies in
a module of its own, and one line in `protocols.registry`, or one entry point of the group `brokerlab.kinds`, names it.
The class of the kind names it too, in its attribute `manifest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokers.metrics import Metric
from brokers.registry import Entry


@dataclass(frozen=True)
class KindManifest:
    """All parts of a kind. Targets are "module:Name"."""

    name: str
    prose: str  # one line for `brokerlab list`
    kind: str  # the class, whose method `oracle` is the definition of right
    question: str | None = None  # what an index must answer, e.g. "content-match"; None: the kind uses none
    default_index: str | None = None
    audit_rule: str = ""  # in Spark; see `brokers.auditing`
    judge: str = ""  # in the conformance kit; empty: pair by pair, by the oracle
    rehearsal: str = ""  # what clients do in the kit's rehearsals
    replay: str = ""  # the form of files of events, see `brokers.replaying`; empty: numeric bodies as they are
    protocols: Mapping[str, Entry] = field(default_factory=dict)
    workloads: Mapping[str, Entry] = field(default_factory=dict)  # those that other kinds have too among them
    metrics: tuple[Metric, ...] = ()
