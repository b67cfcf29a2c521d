"""The parts of the inner loop, one by one."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine import layout as L
from brokers.engine.collect import Sends
from brokers.engine.latency import BUCKETS, bucket_of, bucket_value
from brokers.engine.rings import Rings, insert
from brokers.engine.settle import transmission_ns
from brokers.fingerprint import draw
from topology import draws

BYTES_MAX = 1 << 40  # a terabyte in one message
BPS_MAX = 1 << 43


@given(length=st.integers(0, BYTES_MAX), bandwidth=st.integers(1, BPS_MAX))
@settings(max_examples=500, deadline=None)
def test_a_transmission_time_is_the_exact_quotient_rounded_up(length, bandwidth):
    exact = -(-length * 8 * 10**9 // bandwidth)
    if exact < L.NEVER:
        assert transmission_ns(length, bandwidth) == exact


@given(length=st.integers(0, 1 << 20), bandwidth=st.sampled_from([1, 7, 10**3, 10**6, 10**9, 10**12, 10**15]))
@settings(deadline=None)
def test_a_message_of_a_megabyte_is_exact_at_every_bandwidth_a_scenario_may_name(length, bandwidth):
    assert transmission_ns(length, bandwidth) == -(-length * 8 * 10**9 // bandwidth)


@given(key=st.integers(0, 2**64 - 1), counter=st.integers(0, 2**62))
@settings(max_examples=300, deadline=None)
def test_kernels_draw_as_topology_does(key, counter):
    assert int(draw(np.uint64(key), counter)) == int(draws.bits(np.uint64(key), counter))


@given(value=st.integers(0, 2**62))
@settings(max_examples=1000, deadline=None)
def test_a_latency_bucket_knows_its_values_to_within_1_6_percent(value):
    bucket = int(bucket_of(value))
    assert 0 <= bucket < BUCKETS
    largest = bucket_value(bucket)
    assert value <= largest <= value * 1.016


def test_latency_buckets_follow_each_other_without_gaps():
    for bucket in range(64 * 50):
        largest = bucket_value(bucket)
        assert int(bucket_of(largest)) == bucket
        assert int(bucket_of(largest + 1)) == bucket + 1


def test_a_percentile_of_a_run_is_within_1_6_percent_of_its_deliveries():
    from brokers.engine.simulate import MemoryTraces, simulate
    from protocols.conformance import REHEARSALS, rehearse

    traces = MemoryTraces("deliveries")
    told = simulate(rehearse(REHEARSALS[2], "flooding"), trace=traces).metrics["services"]["service"][
        "latency"
    ]
    got = traces.tables()["deliveries"]
    latency = np.sort(got["time_ns"] - got["published_ns"])
    for share, name in ((0.5, "p50_ms"), (0.99, "p99_ms")):
        exact = latency[math.ceil(share * latency.size) - 1] / 1e6
        assert exact <= told[name] <= exact * 1.016
    assert told["max_ms"] == latency[-1] / 1e6
    assert told["mean_ms"] == pytest.approx(latency.mean() / 1e6, rel=1e-12)


operations = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=40
)


def _row(rings: Rings, ring: int, place: int) -> list[int]:
    offset, capacity, head, _ = rings.table[ring].tolist()
    return rings.arena[offset + ((head + place) & (capacity - 1))].tolist()


@given(operations)
@settings(max_examples=150, deadline=None)
def test_rings_keep_their_rows_in_order_while_they_grow_and_move(steps):
    """Against deques: push some rows onto a ring, take some from its head, in any order of rings."""
    rings = Rings(3, 2)
    rings.arena = rings.arena[: rings.table[:, L.R_CAPACITY].sum()].copy()  # no room to spare
    model = [deque() for _ in range(5)]
    number = 0
    for ring, pushed, taken in steps:
        rings.reserve(np.full(pushed, ring))
        for _ in range(pushed):
            number += 1
            insert(rings.table, rings.arena, ring, number, number, -number, 7 * number, -1)
            model[ring].append([number, number, -number, 7 * number, -1])
        for _ in range(min(taken, len(model[ring]))):
            assert _row(rings, ring, 0) == model[ring].popleft()
            rings.table[ring, L.R_HEAD] = (rings.table[ring, L.R_HEAD] + 1) & (
                rings.table[ring, L.R_CAPACITY] - 1
            )
            rings.table[ring, L.R_COUNT] -= 1
        for at, rows in enumerate(model):
            assert rings.table[at, L.R_COUNT] == len(rows)
            assert [_row(rings, at, i) for i in range(len(rows))] == list(rows)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
@settings(max_examples=150, deadline=None)
def test_timers_lie_in_their_ring_by_time_and_then_in_the_order_they_were_set(times):
    rings = Rings(1, 1)
    for number, time in enumerate(times):
        rings.reserve(np.array([1]))
        insert(rings.table, rings.arena, 1, time, number, 0, 0, -1)
    found = [tuple(_row(rings, 1, i)[:2]) for i in range(len(times))]
    assert found == sorted((time, number) for number, time in enumerate(times))


@given(st.lists(st.integers(0, 9), max_size=50))
@settings(deadline=None)
def test_outputs_are_ordered_by_event_and_keep_the_order_of_their_calls(events):
    event = np.array(events, np.int64)
    call = np.arange(event.size)
    ordered = Sends(event, call, np.empty((5, 0), np.int64)).ordered(10)
    assert ordered.event.tolist() == sorted(events)
    assert ordered.link.tolist() == np.argsort(event, kind="stable").tolist()
