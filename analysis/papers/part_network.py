"""What PART's protocol costs in a network: heads by keyword and payloads by summaries, beside two baselines.

One overlay, one workload with regional subscriptions, three protocols, payloads of two sizes. Traffic between
brokers is counted by kind of message: whole objects, heads, questions and answers about keywords, summaries, ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.papers.claims import Claim, Figure, below, derived, exactly, near, ours
from analysis.papers.experiment import Experiment, Picture, Run, Tables, curves
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


def network(run: Run) -> Tables:
    """Each protocol, with payloads of each size."""
    rows = []
    for payload in PAYLOADS:
        for protocol in PROTOCOLS:
            rows.append(measured(model(protocol, payload, run.seed, run.full)))
            run.say(f"{protocol}, {payload >> 10} KiB: {rows[-1]['megabytes']:.1f} MB")
    return {"network": rows}


def judge(tables: Tables) -> Iterator[Claim]:
    """What must be equal, and what summaries are for."""
    by = {(row["protocol"], row["payload_kib"]): row for row in tables["network"]}
    sizes = [payload >> 10 for payload in PAYLOADS]
    flooding, keyword, spatial = ([by[protocol, kib] for kib in sizes] for protocol in PROTOCOLS)
    yield Claim(
        "floods", f"{PROTOCOLS[0]} sends each object over every link",
        derived("a tree of B brokers has B - 1 links"),
        {f"{kib} KiB, objects over B - 1": Figure(row["objects"] / (row["brokers"] - 1) / row["published"], exactly(1))
         for kib, row in zip(sizes, flooding)}, unit="times",
    )  # fmt: skip
    yield Claim(
        "as-head-or-whole", f"What {PROTOCOLS[1]} sends whole, {PROTOCOLS[2]} sends whole or as a head",
        derived("both walk the links behind which somebody asks for a keyword"),
        {f"{kib} KiB": Figure((own["objects"] + own["heads"]) / rival["objects"], exactly(1))
         for kib, own, rival in zip(sizes, spatial, keyword)}, unit="times",
    )  # fmt: skip
    yield Claim(
        "alike", f"{PROTOCOLS[2]} delivers as often as {PROTOCOLS[1]}",
        derived("summaries withhold what nobody gets; what is in flight may come or not: a thousandth is our band"),
        {f"{kib} KiB": Figure(own["deliveries"] / rival["deliveries"], near(1, 0.001))
         for kib, own, rival in zip(sizes, spatial, keyword)}, unit="times",
    )  # fmt: skip
    for rivals, protocol in ((flooding, PROTOCOLS[0]), (keyword, PROTOCOLS[1])):
        short = protocol.removeprefix("spatial-")
        for column, name, bound in (("megabytes", "bytes", below(1)), ("messages", "messages", None)):
            yield Claim(
                f"{name}-beside-{short}", f"{name.capitalize()} of {PROTOCOLS[2]}, beside {protocol}",
                ours("what summaries are for" if bound else "what heads and summaries cost"),
                {f"{kib} KiB": Figure(own[column] / rival[column], bound)
                 for kib, own, rival in zip(sizes, spatial, rivals)}, "" if bound else "reported", unit="times",
            )  # fmt: skip


def draw(tables: Tables) -> Iterator[Picture]:
    """Bytes over the size of payloads."""
    rows = tables["network"]
    series = {
        name: ([row["payload_kib"] for row in rows if row["protocol"] == name],
               [row["megabytes"] for row in rows if row["protocol"] == name])
        for name in PROTOCOLS
    }  # fmt: skip
    yield Picture(
        "network", "Bytes between brokers", "payload, KiB", "MB", curves(series), log_x=True, log_y=True
    )


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
        "protocol": one.name.split(",")[0], "payload_kib": payload >> 10, "brokers": int(one.overlay.brokers),
        "published": int(published.size), "deliveries": int(tables["deliveries"]["client"].size),
        "messages": int(network["messages"]), "megabytes": network["bytes"] / 1e6,
        "objects_megabytes": whole / 1e6, "rest_megabytes": (network["bytes"] - whole) / 1e6,
        **count,
    }  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "network", "Three protocols in the network", network, judge, draw,
        {"network": "Traffic between 100 brokers, regional subscriptions"},
        "12 s, objects live 6 s; `--full` has 60 s and 20 s.",
    )
]  # fmt: skip
