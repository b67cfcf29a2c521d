"""For how long brokers were at work, against each event and against what the engine counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from analysis.report.gather import gather
from analysis.report.working import WHOLE, available_us, over_time, work_us


@pytest.mark.parametrize("scenario", ["quickstart", "rolling-restart", "overload"])
def test_work_adds_up_to_what_the_engine_counted(made, quickstart, scenario):
    run = quickstart if scenario == "quickstart" else made(scenario, "trace.level=full", "services.0.cost.base=1.5 ms")
    found = gather(run, 10**6)
    assert over_time(found)
    busy = run.read("brokers").sort_by("broker")["busy_ns"].to_numpy() / 1000
    worked = work_us(found)
    assert np.abs(worked.sum((0, 2)) - busy).max() <= worked[:, 0].size / 2 and busy.min() >= 0 < busy.max()


def test_work_by_service_and_stretch_is_that_of_each_event(quickstart):
    found = gather(quickstart, 10**6)
    free, expected = Counter(), np.zeros(work_us(found).shape)
    width = found.span_ns / found.stretches
    for hop in sorted(quickstart.read("hops").to_pylist(), key=lambda hop: (hop["finish_ns"], hop["time_ns"])):
        at = min(found.stretches - 1, int(hop["time_ns"] / width))
        took = hop["finish_ns"] - max(hop["time_ns"], free[hop["broker"]])
        expected[hop["service"], hop["broker"], at] += took / 1000
        free[hop["broker"]] = hop["finish_ns"]
    assert np.abs(expected - work_us(found)).max() < 0.501 < expected.max()
    assert available_us(found, 3) * found.stretches == pytest.approx(found.span_ns / 1000)


def test_without_all_events_load_is_of_the_whole_run(quickstart, made):
    busy = quickstart.read("brokers").sort_by("broker")["busy_ns"].to_numpy()
    for found in (gather(quickstart, 5_000), gather(made("quickstart", "trace.level=summary"), 10**6)):
        assert not over_time(found) and "whole run" in WHOLE
        assert work_us(found).shape == (1, busy.size, 1)
        assert work_us(found).ravel().tolist() == np.rint(busy / 1000).astype(int).tolist()
