"""How a model is run never shows: every cutting, sharding, table and view gives the same trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from brokers.engine.batching import Cutting
from brokers.engine.model import Model, SourceSpec
from brokers.engine.simulate import MemoryTraces, simulate
from protocols.conformance import (
    ORACLE,
    REHEARSALS,
    Recorded,
    Variant,
    check_digests,
    rehearse,
    service_of,
    variants,
)
from topology.build import build
from topology.links import Links

SUBSCRIBERS = {
    "number": 3,
    "constraints": 2,
    "width": 0.5,
    "ramp": 20_000_000,
    "churn": {"process": "replace", "rate": 8},
}
HEAVY = {"base": 3e6, "per_entry": 3e3, "per_match": 2e4, "per_link": 1e4, "per_byte": 100.0}


def crowd(
    protocols, topology="random-tree", params=None, links=None, cost=None, publish=None, seed=3, **more
):
    """A model of the shipped workloads: every protocol named is a service of its own."""
    given = {"delay": {"kind": "uniform", "low": 1_500_000, "high": 9_000_000}, **(links or {})}
    overlay = build(topology, params or {"nodes": 8}, Links.model_validate(given), seed)
    services = [
        service_of(
            protocol,
            f"{n}-{protocol}",
            cost=dict(cost or {}),
            **more,
            sources=[
                SourceSpec(
                    "protocols.content.publish:Publish", publish or {"process": "poisson", "rate": 50}, "p"
                ),
                SourceSpec("protocols.content.subscribe:Subscribe", SUBSCRIBERS, "s"),
            ],
        )
        for n, protocol in enumerate(protocols)
    ]
    at = (np.arange(16) * 5) % overlay.brokers
    return Model(
        "crowd",
        seed,
        120_000_000,
        overlay,
        at.astype(np.int32),
        {"p": (0, 8), "s": (6, 10)},
        services,
        sample_every_ns=30_000_000,
    )


def told(found) -> str:
    return "\n".join(f"{d.variant}: {d.told}" for d in found)


def agrees(model: Model) -> None:
    assert not (found := check_digests(model)), told(found)


def test_no_way_of_running_shows_with_several_services_on_one_queue():
    model = crowd(["flooding", "flooding"], cost={"base": 50_000.0, "per_match": 4_000.0})
    assert model.services[0].name != model.services[1].name
    agrees(model)


def test_no_way_of_running_shows_when_brokers_are_in_overload():
    model = crowd(["flooding"], cost=HEAVY, publish={"process": "poisson", "rate": 80})
    waiting = simulate(model).metrics["services"]["0-flooding"]["latency"]["max_ms"]
    assert waiting > 120  # queues grow over the whole run, and empty after it
    agrees(model)


def test_no_way_of_running_shows_where_everything_ties():
    """Equal delays, clients that act at the same instants, no jitter: order is by source and sequence."""
    model = rehearse(REHEARSALS[1], "flooding")
    model.services.append(replace(model.services[0], name="beside"))
    traces = MemoryTraces("full")
    simulate(model, trace=traces)
    hops = traces.tables()["hops"]
    places = np.stack([hops["broker"], hops["time_ns"]])
    assert np.unique(places, axis=1).shape[1] < places.shape[1] / 2
    agrees(model)


def test_no_way_of_running_shows_with_jitter_bandwidth_and_loss():
    links = {"jitter": 4_000_000, "bandwidth": 300_000, "loss": 0.08}
    model = crowd(["flooding"], links=links, cost={"base": 20_000.0})
    assert simulate(model).metrics["network"]["lost"] > 10
    agrees(model)


def test_no_way_of_running_shows_on_a_graph_with_cycles():
    agrees(
        crowd(
            ["flooding"], "watts-strogatz", {"nodes": 8, "neighbours": 4, "rewire": 0.3}, cost={"base": 9e3}
        )
    )


def test_no_way_of_running_shows_where_one_link_is_a_thousand_times_faster():
    fast = {"overrides": [{"between": (0, 1), "delay": 1_000}, {"between": (1, 2), "delay": 9_000}]}
    agrees(crowd(["flooding"], "line", {"nodes": 7}, fast))


def test_no_way_of_running_shows_in_a_network_of_one_broker():
    agrees(crowd(["flooding"], "explicit", {"nodes": ["alone"], "links": []}, cost={"base": 1e6}))


@pytest.mark.parametrize("settled", [False, True], ids=["issued", "settled"])
@pytest.mark.parametrize("protocol", ["subscription", "covering"])
def test_no_way_of_running_shows_for_the_routing_protocols_together(protocol, settled):
    model = crowd(["flooding", protocol], cost={"base": 40_000.0, "per_entry": 100.0}, settled=settled)
    some = [
        v
        for v in variants(model)
        if "seed 2" not in v.name and "shared" not in v.name and "7 shards" not in v.name
    ]
    assert not (found := check_digests(model, some)), told(found)


def test_timers_and_a_protocols_own_messages_and_bodies_do_not_show_how_they_are_run(outside):
    model = crowd(["flooding"], cost={"base": 30_000.0, "per_link": 900.0}, links={"jitter": 900_000})
    pings = service_of("pings:Pings", "pings", cost={"base": 5_000.0}, sources=model.services[0].sources)
    model.services.append(pings)
    agrees(model)
    alone = replace(model, services=[pings])
    agrees(alone)
    traces = MemoryTraces("full")
    simulate(alone, trace=traces)
    hops = traces.tables()["hops"]
    links, ticks = 2 * model.overlay.links, 20
    assert np.bincount(hops["type"], minlength=20)[16:20].tolist() == [
        ticks * 8,
        ticks * links,
        ticks * links,
        ticks * links,
    ]


def test_timers_tie_with_messages_without_showing_how_they_are_run(outside):
    rehearsal = replace(
        REHEARSALS[1], grid_ns=1_000_000, links={"delay": {"kind": "constant", "delay": 1_000_000}}
    )
    agrees(rehearse(rehearsal, "pings:Pings"))


def test_on_run_may_mix_all_ways_of_sending_in_the_order_of_on_message(outside):
    rehearsal = replace(REHEARSALS[0], publications=250)
    agrees(rehearse(rehearsal, "pings:Runs"))


def test_another_seed_gives_another_digest():
    model = crowd(["flooding"])
    again, other = crowd(["flooding"]), replace(model, seed=4)
    assert simulate(model).digest == simulate(again).digest != simulate(other).digest


def test_the_digest_sees_one_event_more_one_nanosecond_and_one_bit():
    def digest(time_ns: int, value: float, seed: int = 1) -> str:
        model = rehearse(REHEARSALS[0], "flooding", seed)
        publications = model.services[0].sources[0].params["emissions"][0]
        publications["time"][3] += time_ns
        publications["rows"][3][1] = value
        return simulate(model).digest

    digests = [digest(0, 0.5), digest(1, 0.5), digest(0, np.nextafter(0.5, 1)), digest(0, 0.5, seed=2)]
    assert len(set(digests)) == 4
    assert digests[0] == digest(0, 0.5)


def test_the_digest_does_not_depend_on_the_trace_level_or_the_length_of_windows():
    model = crowd(["flooding"], cost={"base": 10_000.0})
    digests = {
        simulate(model, trace=MemoryTraces(level)).digest
        for level in ("none", "summary", "deliveries", "full")
    }
    digests |= {simulate(model, max_window_ns=length).digest for length in (1, 333_333, 10**12) if length > 1}
    digests |= {simulate(replace(model, sample_every_ns=every)).digest for every in (1_000_000, 10**12)}
    assert len(digests) == 1


def test_the_digest_per_second_tells_the_second_in_which_runs_part():
    model = replace(crowd(["flooding"]), duration_ns=3_200_000_000)
    longer = replace(model, duration_ns=2_700_000_000)
    a, b = simulate(model).digest_per_second, simulate(longer).digest_per_second
    assert a[:2] == b[:2]
    assert a[2] != b[2]


def test_a_protocol_whose_on_run_differs_is_told_by_its_first_event(outside):
    model = rehearse(replace(REHEARSALS[0], publications=250), "pings:WrongRuns")
    found = check_digests(model)
    assert {"on_run for every stretch"} <= {d.variant for d in found}
    assert not any(d.variant.startswith("on_message") for d in found)
    sentence = next(d.told for d in found if d.variant == "on_run for every stretch")
    assert sentence.startswith("the first difference is the message at 0.0")
    assert "one event at a time handled it, on_run for every stretch did not" in sentence


def test_what_the_sentence_names_is_the_first_event_that_differs(outside):
    model = rehearse(replace(REHEARSALS[0], publications=250), "pings:WrongRuns")
    way = Variant("runs", view="run", run_from=1)
    tables = []
    for variant in (ORACLE, way):
        traces = MemoryTraces("full")
        variant.run(model, traces)
        hops = Recorded(traces).read("hops").to_pylist()
        tables.append(
            sorted((h["time_ns"], h["broker"], h["kind"], h["source"], h["sequence"]) for h in hops)
        )
    first = next(a for a, b in zip(*tables) if a != b)
    sentence = check_digests(model, [ORACLE, way])[0].told
    brokers = model.overlay.brokers
    source = f"broker {first[3]}" if first[3] < brokers else f"client {first[3] - brokers}"
    assert f"({first[0]} ns) at broker {first[1]} from {source}, sequence {first[4]}" in sentence


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize(
    ("protocol", "rehearsal"),
    [
        pytest.param(protocol, rehearsal, id=f"{protocol}, {rehearsal.name}")
        for protocol in ("flooding", "subscription", "covering", "pings:Runs")
        for rehearsal in REHEARSALS
        if rehearsal.tree or ":" not in protocol  # pings know nothing of cycles
    ],
)
def test_no_way_of_running_shows_in_any_rehearsal(protocol, rehearsal, seed, outside):
    agrees(rehearse(rehearsal, protocol, seed))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(40))
def test_no_random_cutting_shows(seed):
    model = crowd(
        ["flooding", "subscription"], cost={"base": 40_000.0}, links={"jitter": 700_000}, seed=seed + 10
    )
    ways = [
        ORACLE,
        *(
            Variant(f"random {n}", Cutting("random", seed=seed * 10 + n, limit=3 + 40 * n), actors=1 + n % 3)
            for n in range(6)
        ),
    ]
    assert not (found := check_digests(model, ways)), told(found)


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_slots_of_the_shared_tables_that_are_used_again_never_show(protocol, monkeypatch):
    from brokers import tables

    churning = {**SUBSCRIBERS, "churn": {"process": "replace", "rate": 60}}
    monkeypatch.setitem(SUBSCRIBERS, "churn", churning["churn"])
    model = crowd([protocol])
    never = simulate(model)
    monkeypatch.setattr(tables, "_RECLAIM_FROM", 0)
    again = []
    reclaim = tables.InterestStore._reclaim
    monkeypatch.setattr(
        tables.InterestStore, "_reclaim", lambda store: (reclaim(store), again.append(store._free.size))
    )
    assert simulate(model, max_window_ns=5_000_000).digest == never.digest
    assert max(again) > 0, "no slot was ever used again"
