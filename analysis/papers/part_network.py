"""What PART's protocol costs in a network: heads by keyword and payloads by summaries, beside two baselines.

One overlay, one workload with regional subscriptions, three protocols, payloads of two sizes. Traffic between
brokers is counted by kind of message: whole objects, heads, questions and answers about keywords, summaries, ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from analysis.papers.experiment import Experiment, Told
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from protocols.conformance import service_of
from protocols.spatial.kind import EXPIRE, PUBLISH, Spatial
from topology.build import build
from topology.links import Links

PROTOCOLS = ("spatial-flooding", "spatial-keyword", "spatial")
PAYLOADS = (1 << 10, 100 << 10)
_SOURCES = "protocols.spatial.objects"
_LINKS = Links.model_validate({"delay": {"kind": "uniform", "low": 2_000_000, "high": 10_000_000}})
_SECOND = 1_000_000_000
_SORTS = {PUBLISH: "objects", EXPIRE: "ends", 16: "questions", 17: "questions", 18: "answers", 19: "heads",
          20: "summaries", 22: "summaries"}  # fmt: skip
SORTS = ("objects", "heads", "summaries", "questions", "answers", "ends")


def network(report: Told) -> None:
    """The table, a plot and the claims."""
    rows = []
    for payload in PAYLOADS:
        for protocol in PROTOCOLS:
            rows.append(measured(model(protocol, payload, report.seed, report.full)))
            report.say(f"{protocol}, {payload >> 10} KiB: {rows[-1]['megabytes']:.1f} MB")
    report.table("network", "Traffic between 100 brokers, regional subscriptions", rows)
    series = {
        row["protocol"]: ([r["payload_kib"] for r in rows if r["protocol"] == row["protocol"]],
                          [r["megabytes"] for r in rows if r["protocol"] == row["protocol"]])
        for row in rows
    }  # fmt: skip
    report.plot("network", "Bytes between brokers", "payload, KiB", "MB", series, log_x=True, log_y=True)
    by = {(row["protocol"], row["payload_kib"]): row for row in rows}
    for payload in PAYLOADS:
        kib = payload >> 10
        own = by["spatial", kib]
        for other in ("spatial-flooding", "spatial-keyword"):
            rival = by[other, kib]
            share = own["megabytes"] / rival["megabytes"]
            report.claim(
                f"spatial sends fewer bytes than {other}, payloads of {kib} KiB", "the purpose of summaries",
                "below 1", f"{share:.2f} times the bytes, {own['messages'] / rival['messages']:.2f} the messages",
                share < 1,
            )  # fmt: skip


def model(protocol: str, payload: int, seed: int, full: bool, brokers: int = 100) -> Model:
    """The network: brokers with two sellers and three seekers each, whose places lie around their broker's."""
    seconds = 60 if full else 12
    lifetime = (20 if full else 6) * _SECOND
    sellers, seekers = 2 * brokers, 3 * brokers
    overlay = build("random-tree", {"nodes": brokers}, _LINKS, seed)
    params = Spatial.Params(keywords=200, k_max=5).model_dump()
    places = {"region": 0.05, "words": (1, 3)}
    churn = {"process": "replace", "rate": 1 / 60, "start": 2 * _SECOND}
    asks = {**places, "number": 2, "ramp": _SECOND, "churn": churn}
    offers = {**places, "rate": 0.25, "payload": payload, "lifetime": lifetime}
    spec: ServiceSpec = service_of(protocol, params=params)
    spec = replace(
        spec,
        sources=[
            SourceSpec(f"{_SOURCES}:ObjectSubscribe", asks, "seekers"),
            SourceSpec(f"{_SOURCES}:Objects", offers, "sellers"),
        ],
    )
    at = np.concatenate([np.arange(sellers) % brokers, np.arange(seekers) % brokers]).astype(np.int32)
    groups = {"sellers": (0, sellers), "seekers": (sellers, seekers)}
    return Model(f"{protocol}, {payload} bytes", seed, seconds * _SECOND, overlay, at, groups, [spec])


def measured(one: Model) -> dict[str, Any]:
    """A run's traffic between brokers, by sort of message."""
    traces = MemoryTraces("full", tables_of(one))
    result = simulate(one, trace=traces)
    tables = traces.tables()
    hops = tables["hops"]
    types = hops["type"][hops["link"] >= 0]
    count = dict.fromkeys(SORTS, 0)
    for type_, sort in _SORTS.items():
        count[sort] += int((types == type_).sum())
    network = result.metrics["network"]
    published = tables["publications"]["size_bytes"]
    payload = int(one.services[0].sources[1].params["payload"])
    whole = count["objects"] * float(published.mean())
    return {
        "protocol": one.name.split(",")[0], "payload_kib": payload >> 10,
        "published": int(published.size), "deliveries": int(tables["deliveries"]["client"].size),
        "messages": int(network["messages"]), "megabytes": network["bytes"] / 1e6,
        "objects_megabytes": whole / 1e6, "rest_megabytes": (network["bytes"] - whole) / 1e6,
        **count,
    }  # fmt: skip


EXPERIMENTS = [Experiment("network", "Three protocols in the network", told=network)]
