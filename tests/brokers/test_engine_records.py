"""A kind's own trace tables, and bodies that a protocol makes for a publication."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import ProtocolFault
from topology.build import build
from topology.links import Links

MS = 1_000_000


def model(protocol: str = "ledger:Stamper") -> Model:
    overlay = build(
        "line", {"nodes": 3}, Links.model_validate({"delay": {"kind": "constant", "delay": 5 * MS}}), 1
    )
    publish = SourceSpec("protocols.content.publish:Publish", {"process": "constant", "rate": 100.0}, "all")
    service = ServiceSpec("s", "ledger:Ledger", protocol, None, params={"attributes": 2}, sources=[publish])
    return Model("stamped", 1, 200 * MS, overlay, np.array([0, 1, 2], np.int32), {"all": (0, 3)}, [service])


def traced(**how):
    traces = MemoryTraces("full", tables_of(model()))
    result = simulate(model(), trace=traces, **how)
    return result, traces.tables()


def rows(table) -> list[tuple]:
    return sorted(zip(*(column.tolist() for column in table.values())))


def test_a_kind_writes_a_trace_table_of_its_own(outside):
    result, tables = traced()
    published = result.metrics["services"]["s"]["publications"]
    stamps = tables["stamps"]
    assert published == 60 == stamps["number"].size
    for broker in range(3):
        mine = stamps["broker"] == broker
        order = np.argsort(stamps["time_ns"][mine], kind="stable")
        assert stamps["number"][mine][order].tolist() == list(range(1, 21))


def test_a_kinds_table_does_not_depend_on_the_shards(outside):
    _, one = traced()
    _, three = traced(actors=3)
    assert rows(one["stamps"]) == rows(three["stamps"])


def test_a_body_made_for_a_publication_is_delivered_as_that_publication(outside):
    result, tables = traced()
    published = dict(
        zip(tables["publications"]["publication"].tolist(), tables["publications"]["time_ns"].tolist())
    )
    deliveries = tables["deliveries"]
    assert deliveries["publication"].size == 80, (
        "one link away: 1, 2 and 1 neighbours of 20 publications each"
    )
    assert [published[p] for p in deliveries["publication"].tolist()] == deliveries["published_ns"].tolist()
    assert result.metrics["services"]["s"]["latency"]["max_ms"] == 5.0


def test_a_table_that_the_kind_does_not_declare_is_refused(outside):
    with pytest.raises(ProtocolFault, match=r"writes to the trace table 'forged'.* \(they declare stamps\)"):
        simulate(model("ledger:Forger"), trace=MemoryTraces("full", tables_of(model())))


def test_a_change_that_replaces_another_revokes_it_when_issued_and_ends_it_when_settled(outside):
    asked = model()
    asked.services[0].sources = [SourceSpec("ledger:Rewrites", {}, "all")]
    changes = simulate(asked).changes
    assert changes["interest"].tolist() == [7, 7, 7]
    assert changes["issued_ns"].tolist() == [10 * MS, 20 * MS, 30 * MS]
    assert changes["revoked_ns"].tolist() == [20 * MS, 30 * MS, -1]
    assert changes["gone_ns"].tolist() == [20 * MS, 30 * MS, -1], (
        "each is handled at once, at its client's broker"
    )
