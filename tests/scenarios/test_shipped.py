"""The shipped scenarios run, and show what their titles say."""

import pytest

from scenarios.loader import load, shipped
from scenarios.plan import plan
from scenarios.running import run

# Each for a moment in which everybody publishes; the rest of a scenario stays as it is.
STARTS_LATE = {
    "gossip": "7 s", "gossip-heals": "6 s", "plumtree": "7 s", "slow-peers": "5 s", "three-protocols": "4 s",
    "hardening": "33 s", **{name: "31 s" for name in shipped() if name.startswith("hardening-")},
}  # fmt: skip


@pytest.mark.parametrize("duration", ["2500 ms", pytest.param("4 s", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_scenario_runs_and_delivers_the_same_on_three_shards(name, duration, tmp_path):
    short = [f"duration={STARTS_LATE.get(name, duration)}", "trace.level=none", "expect=[]"]
    whole = run(name, engine="inline", actors=1, overrides=short, out=tmp_path)
    cut = run(name, engine="inline", actors=3, overrides=short, out=tmp_path)
    assert cut.digest == whole.digest
    for service in load(name).services:
        found = whole.metrics["services"][service.section.name]
        clients_publish = bool(service.kind.object.publications)  # else a server does
        assert (found["publications"] > 0) == clients_publish
        assert found["deliveries"] > 0


def test_in_overload_messages_wait_many_times_longer_than_the_way_takes(tmp_path):
    done = run("overload", engine="inline", out=tmp_path)
    latency = done.metrics["services"]["alarms"]["latency"]
    assert latency["p99_ms"] > 8 * 2 * 10  # eight links of 2 ms
    queued = done.read("samples", ["queued"]).column("queued").to_pylist()
    assert max(queued) > 100


def test_lossy_links_lose_messages(tmp_path):
    done = run("lossy", engine="inline", overrides=["duration=5 s"], out=tmp_path)
    assert done.metrics["network"]["lost"] > 0


def test_the_real_network_has_cycles_and_delays_from_geography():
    facts = plan(load("real-network"), "inline", 1)
    assert (facts.brokers, facts.links, facts.tree) == (40, 61, False)
    assert facts.delay_ns_min == 100_000


def test_ten_thousand_brokers_are_worth_several_actors():
    facts = plan(load("ten-thousand"), "ray", 2)
    assert facts.brokers == 10_000
    assert facts.lambda_ is not None
    assert facts.lambda_ > 10
    assert "pay" in facts.advice
