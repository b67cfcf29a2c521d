"""A third party's kind with all that a service consists of, and a network: each named `visitors:Name`."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import networkx as nx

from brokers.contract import Kind
from brokers.indexes.content.scan import Scan
from brokers.kinds import KindManifest
from protocols.content.audit import ContentRule
from protocols.content.flooding import Flooding
from protocols.content.kind import Content
from protocols.content.manifest import CONTENT
from protocols.content.publish import Publish
from protocols.content.rehearsal import script
from protocols.content.subscribe import Subscribe
from protocols.judging import Audit

VISITORS = replace(
    CONTENT,
    name="visitors",
    prose="content under another name, judged by a rule and a judge of its own",
    kind="visitors:Visitors",
    audit_rule="visitors:Rule",
    judge="visitors:judge",
    rehearsal="visitors:play",
    protocols={},
    workloads={},
)


class Visitors(Content):
    """See its manifest."""

    manifest: ClassVar[KindManifest] = VISITORS


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
