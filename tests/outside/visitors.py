"""A third party's kind with all that a service consists of, and a network: each named `visitors:Name`."""

from __future__ import annotations

from typing import ClassVar

import networkx as nx

from analysis.spark.content import ContentRule
from brokers.contract import Kind
from brokers.indexes.content.scan import Scan
from protocols.content.flooding import Flooding
from protocols.content.kind import Content
from protocols.content.rehearsal import script
from protocols.judging import Audit
from scenarios.workloads.publish import Publish
from scenarios.workloads.subscribe import Subscribe


class Visitors(Content):
    """Content under another name, judged by a rule and a judge of its own."""

    name: ClassVar[str] = "visitors"
    audit_rule: ClassVar[str] = "visitors:Rule"
    judge: ClassVar[str] = "visitors:judge"
    rehearsal: ClassVar[str] = "visitors:play"


class Guide(Flooding.plain):
    """Every publication to every broker."""

    kind: ClassVar[str] = "visitors"


class Book(Scan):
    """An index."""


class Arrive(Subscribe):
    """A workload of subscriptions."""


class Speak(Publish):
    """A workload of publications."""


class Rule(ContentRule):
    """The audit rule."""


def judge(tables, kind: Kind, guarantees, service: int) -> Audit:
    """The judge of the kit: nothing to complain about, and one decision."""
    return Audit(guarantees, forced_yes=1)


def play(rehearsal, brokers: int, clients: int, params, seed: int) -> dict:
    """What clients do in rehearsals."""
    return script(rehearsal, brokers, clients, params, seed)


def corridor(*, rooms: int, seed: int) -> nx.Graph:
    """A line of brokers."""
    return nx.path_graph(rooms)
