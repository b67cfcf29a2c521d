"""Quiet time costs nothing: a week with a hundred publications takes the windows of a minute with as many."""

from dataclasses import replace

import numpy as np
import pytest

from brokers.engine.simulate import MemoryTraces, simulate
from scenarios.loader import loads
from scenarios.plan import resolve

SCENARIO = """
duration: 1 min
topology: {kind: random-tree, nodes: 9}
links: {delay: 20 ms}
clients: {all: {count: 10, placement: even}}
services:
  - name: quakes
    kind: content
    attributes: 1
    protocol: flooding
    cost: {base: 400 ms}
    workload:
      - {source: subscribe, width: 0.5}
      - {source: publish, process: constant, total_rate: 100/min}
"""


def model(duration="1 min", rate="100/min", sample_every="1 s"):
    overrides = [f"duration={duration}", f"services.0.workload.1.total_rate={rate}"]
    return resolve(loads(SCENARIO, [*overrides, f"trace.sample_every={sample_every}"]))


def run(built, level="summary", **more):
    traces = MemoryTraces(level)
    result = simulate(built, trace=traces, **more)
    return result, traces.tables()


@pytest.mark.parametrize("level", ["none", "summary"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_week_takes_about_as_many_windows_and_rounds_as_the_same_events_in_a_minute(shards, level):
    minute, _ = run(model(), level, actors=shards)
    week, tables = run(model("7 d", "0.6/h", "1 min"), level, actors=shards)
    published = [each.metrics["services"]["quakes"]["publications"] for each in (minute, week)]
    assert published == [100, 101]
    # In a minute publications share windows; in a week each has its own, and one for the quiet time behind it.
    assert week.engine["windows"] <= minute.engine["windows"] + 2 * 100
    assert week.engine["rounds"] <= minute.engine["rounds"] + 2 * 100
    if level != "none":
        times = np.unique(tables["samples"]["time_ns"])
        assert times.tolist() == [60 * 10**9 * k for k in range(1, 7 * 24 * 60 + 1)]


@pytest.mark.parametrize("actors", [1, 2, 3])
def test_samples_are_what_the_hops_say_of_each_moment_in_quiet_time_and_in_busy_time(actors):
    built = model("3 min", "12/min", "100 ms")
    _, tables = run(built, "full", actors=actors)
    samples, hops = tables["samples"], tables["hops"]
    assert samples["time_ns"].size == 1800 * 9
    assert 0 < np.count_nonzero(samples["queued"]) < samples["queued"].size / 2
    for broker in range(9):
        mine = hops["broker"] == broker
        came, finish = hops["time_ns"][mine][:, None], hops["finish_ns"][mine][:, None]
        at = samples["broker"] == broker
        moment = samples["time_ns"][at]
        open_ = (came < moment) & (finish > moment)
        assert samples["queued"][at].tolist() == open_.sum(axis=0).tolist()
        owed = np.where(open_, finish - moment, 0).max(axis=0)
        assert samples["backlog_ns"][at].tolist() == owed.tolist()
        clients = int((built.client_broker == broker).sum())
        assert set(samples["entries"][at].tolist()) == {clients}


def test_the_digest_does_not_tell_how_often_was_sampled():
    built = model("3 min", "12/min")
    digests = {run(replace(built, sample_every_ns=every))[0].digest for every in (10**7, 10**9, 10**14)}
    assert len(digests) == 1


def test_digests_of_a_long_run_are_one_for_several_seconds():
    week, _ = run(model("7 d", "0.6/h", "1 h"), "none")
    assert len(week.digest_per_second) <= 10_000
    assert week.digest_entry_s == 61
    assert len(set(week.digest_per_second)) > 90
    minute, _ = run(model(), "none")
    assert (len(minute.digest_per_second), minute.digest_entry_s) == (63, 1)
