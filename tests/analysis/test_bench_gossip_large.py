"""The group `gossip-large`, scaled down. No figure is judged but the digests."""

from __future__ import annotations

from analysis.bench import gossip_large
from analysis.bench.gossip_large import Size
from brokers.engine.simulate import simulate

SMALL, FEW = Size(60, 10, rings=5), Size(40, 5, rings=5)


def test_the_rows_of_a_small_network_are_measured_in_a_process_of_its_own():
    digests, cpu, memory, speed = gossip_large.rows((SMALL,), FEW)
    assert digests["value"] == 1 and digests["holds"]
    assert cpu["value"] > 0 and speed["value"] > 0 and memory["value"] > 1e7
    assert all("60 brokers of degree 10, 10" in each["name"] for each in (cpu, memory, speed))


def test_the_networks_are_scored_compiled_and_reach_everybody_with_one_digest():
    found = gossip_large.digests(SMALL)
    assert len(found) == 3 and len(set(found)) == 1
    run = simulate(gossip_large.model(SMALL))
    assert run.digest == found[0] != simulate(gossip_large.model(Size(60, 10, rings=5, seed=2))).digest
    assert run.engine["forms"]["service"]["form"] == "compiled"
    assert run.metrics["services"]["service"]["deliveries"] == 60 * 10
