"""The group `engine`: what a run costs, beside plain event loops that do the same.

Rules:
- A speed is broker-hops per second of wall time, over the loop of windows: the network is built and kernels
  are compiled before. With a trace on disk it is over the whole run, the last fsync included.
- Plain loops run a shorter stretch of the same traffic, at the same density: their heaps are no fuller, so
  it is to their advantage.
- Memory is the peak of a process of its own.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import gc
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.bench.models import SCAN, SUBSCRIPTION, Setting, model
from analysis.bench.rows import REPEATS, Row, medians, row

_LOOP = "the heapq loop"
_HOPS = "hops/s"
_MESSAGE_SETUP_LIMIT_S = 180.0


@dataclass(frozen=True)
class Sizes:
    """How much is measured. Simulated seconds are chosen for about a second of wall time each."""

    repeats: int = REPEATS
    brokers: int = 1000
    dense_per_s: float = 10_000.0
    sparse_per_s: float = 100.0
    dense_s: float = 1.0
    dense_loop_s: float = 0.2  # of the plain loops, at the same density
    simpy_s: float = 0.1
    sparse_s: float = 60.0
    sparse_loop_s: float = 10.0
    trace_s: float = 0.4
    run_view_s: float = 0.5
    message_view_s: float = 0.1
    fast_links_s: float = 0.4
    empty_windows: int = 2000
    parallel_brokers: int = 32
    parallel_subscriptions: int = 2500  # per broker
    parallel_constraints: int = 32
    parallel_per_s: float = 500.0
    parallel_s: float = 1.0
    flooding_brokers: int = 10_000
    subscriptions: tuple[int, int] = (100_000, 1_000_000)
    setup_subscriptions: tuple[int, int] = (10_000, 100_000)


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = Sizes()
    yield from one_core(sizes)
    yield from two_actors(sizes)
    yield from size(sizes)
    yield from start(sizes)


# ---- one core ----------------------------------------------------------------------------------------


def one_core(sizes: Sizes) -> Iterator[Row]:
    """Flooding over a tree, in this process, digest on."""
    from analysis.bench.baselines import heap_loop, problem, simpy_loop

    dense = Setting(brokers=sizes.brokers, publications_per_s=sizes.dense_per_s, seconds=sizes.dense_s)
    sparse = replace(dense, publications_per_s=sizes.sparse_per_s, seconds=sizes.sparse_s)
    plain = problem(model(replace(dense, seconds=sizes.dense_loop_s)))
    plain_simpy = problem(model(replace(dense, seconds=sizes.simpy_s)))
    plain_sparse = problem(model(replace(sparse, seconds=sizes.sparse_loop_s)))

    fast, loop, simpy = medians(
        [
            hops_per_s(dense),
            lambda: uncollected(lambda: heap_loop(plain)[0]),
            lambda: uncollected(lambda: simpy_loop(plain_simpy)),
        ],
        sizes.repeats,
    )
    yield row("one core, dense", fast, _HOPS, least=3e6, baseline=loop, ratio_least=10, against=_LOOP)
    yield row("one core, dense, beside SimPy with a bare callback per hop", fast, _HOPS, baseline=simpy)
    with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder:
        (traced,) = medians(
            [traced_hops_per_s(replace(dense, seconds=sizes.trace_s), Path(folder))], sizes.repeats
        )
    yield row("one core, dense, full trace of 12 columns on disk", traced, _HOPS, least=1.5e6, baseline=loop)

    thin, thin_loop = medians(
        [hops_per_s(sparse), lambda: uncollected(lambda: heap_loop(plain_sparse)[0])], sizes.repeats
    )
    yield row("one core, sparse", thin, _HOPS, least=1e6, baseline=thin_loop)

    by_run = replace(dense, view="run", seconds=sizes.run_view_s)
    by_message = replace(dense, view="message", seconds=sizes.message_view_s)
    hurried = replace(dense, fast_links=True, seconds=sizes.fast_links_s)
    for name, setting, least in (
        ("through `on_run`", by_run, 1.5e6),
        ("through `on_message`", by_message, 0.7e6),
        ("with one link of 10 µs and twenty of 100 µs", hurried, 0.5e6),
    ):
        (speed,) = medians([hops_per_s(setting)], sizes.repeats)
        yield row(f"one core, dense, {name}", speed, _HOPS, least=least, baseline=loop)


def hops_per_s(setting: Setting) -> Callable[[], float]:
    """A measurement of the engine in this process."""
    built = model(setting)

    def measure() -> float:
        from brokers.engine.simulate import simulate

        return float(simulate(built).metrics["run"]["events_per_s"])

    return measure


def traced_hops_per_s(setting: Setting, folder: Path) -> Callable[[], float]:
    """The same, writing every hop to disk; the time until all of it is there counts."""
    built = model(setting)

    def measure() -> float:
        from brokers.engine.simulate import FileTraces, simulate

        target = tempfile.mkdtemp(dir=folder)

        def run() -> int:
            return int(simulate(built, trace=FileTraces(target, "full")).metrics["network"]["events"])

        try:
            return timed(run)
        finally:
            shutil.rmtree(target)

    return measure


def timed(work: Callable[[], int]) -> float:
    """Units of work per second of wall time."""
    began = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - began)


def uncollected(work: Callable[[], int]) -> float:
    """The same with the garbage collector off, which makes a plain loop up to half as fast again."""
    gc.collect()
    gc.disable()
    try:
        return timed(work)
    finally:
        gc.enable()


# ---- two actors --------------------------------------------------------------------------------------


def matching(sizes: Sizes) -> Setting:
    """Flooding where matching is what costs: each broker has an index of its own and compares everything."""
    return Setting(
        brokers=sizes.parallel_brokers, publications_per_s=sizes.parallel_per_s, seconds=sizes.parallel_s,
        subscriptions=sizes.parallel_brokers * sizes.parallel_subscriptions,
        constraints=sizes.parallel_constraints, attributes=sizes.parallel_constraints, width=0.85,
        index=SCAN, tables="own", view="run",
    )


def two_actors(sizes: Sizes, engine: str = "ray") -> Iterator[Row]:
    """What a second actor gains, and what a window costs."""
    empty: dict[tuple[str, int], float] = {}
    for kind, actors in (("inline", 1), ("inline", 2), (engine, 2)):
        if (kind, actors) not in empty:
            empty[kind, actors] = empty_window_s(sizes, kind, actors)
            yield row(f"an empty window, {kind}, {_actors(actors)}", empty[kind, actors] * 1e6, "µs")

    setting = matching(sizes)
    yield row("matching per message, for the two rows below", matching_us(setting), "µs", least=100)
    built = model(setting)
    walls: dict[int, list[float]] = {1: [], 2: []}
    shares: list[float] = []
    strength: list[float] = []
    for _ in range(sizes.repeats):
        one, two = (_execute(built, engine, actors) for actors in (1, 2))
        walls[1].append(one.metrics["run"]["loop_wall_s"])
        walls[2].append(two.metrics["run"]["loop_wall_s"])
        shares.append(one.metrics["run"]["cpu_s"] / two.metrics["run"]["cpu_slowest_s"])
        strength.append(lambda_of(one, two, empty[engine, 2]))
    single, double = statistics.median(walls[1]), statistics.median(walls[2])
    events = one.metrics["network"]["events"]
    yield row(
        "two actors against one, matching", events / double, "messages/s", baseline=events / single,
        ratio_least=1.5, against="one actor",
    )
    name = "CPU of one shard over the sum of each window's slowest actor, matching"
    yield row(name, statistics.median(shares), "times", least=1.6)
    yield row("λ, matching", statistics.median(strength), "")

    dense = model(Setting(brokers=sizes.brokers, publications_per_s=sizes.dense_per_s, seconds=sizes.dense_s))
    one, two = (_execute(dense, engine, actors) for actors in (1, 2))
    yield row(
        "two actors against one, dense flooding", two.metrics["run"]["events_per_s"], _HOPS,
        baseline=one.metrics["run"]["events_per_s"],
    )
    yield row("λ, dense flooding", lambda_of(one, two, empty[engine, 2]), "")


def _execute(built: Any, engine: str, actors: int) -> Any:
    from brokers.engine.simulate import simulate

    return simulate(built, engine=engine, actors=actors)


def _actors(count: int) -> str:
    return "one actor" if count == 1 else f"{count} actors"


def empty_window_s(sizes: Sizes, engine: str, actors: int) -> float:
    """Wall time of a window in which nothing happens. A run skips them, so they are asked for once it is over."""
    import time

    from brokers.engine.simulate import simulate

    took_s: list[float] = []

    def idle(shards: Any) -> None:
        end = built.duration_ns + built.drain_ns
        begin = time.perf_counter()
        for number in range(sizes.empty_windows):
            shards.step(end + number * 1_000_000, range(0))
        took_s.append(time.perf_counter() - begin)

    built = model(Setting(brokers=sizes.brokers, publications_per_s=0.0, seconds=0.001))
    simulate(built, engine=engine, actors=actors, observe=idle)
    return took_s[0] / sizes.empty_windows


def lambda_of(one: Any, two: Any, exchange_s: float) -> float:
    """L·E / (τ·P): the work of a window on one core over the cost of its exchange, all of it measured."""
    per_simulated_s = one.metrics["network"]["events"] / one.metrics["run"]["simulated_s"]
    lookahead_s = two.engine["lookahead_ns"] / 1e9
    return float(lookahead_s * per_simulated_s / (exchange_s * one.metrics["run"]["events_per_s"]))


def matching_us(setting: Setting) -> float:
    """Time of one match in one broker's index."""
    from brokers.registry import load
    from topology import draws

    held = setting.subscriptions // setting.brokers
    index = load(setting.index)(setting.attributes)
    k = setting.constraints
    low = draws.uniforms(draws.stream(1, 0, "bench/low"), 0, held * k).reshape(held, k) * (1 - setting.width)
    rows = np.empty((held, 3 * k))
    rows[:, 0::3], rows[:, 1::3], rows[:, 2::3] = np.arange(k), low, low + setting.width
    index.insert(np.arange(held), rows)
    events = draws.uniforms(draws.stream(1, 0, "bench/event"), 0, 200 * setting.attributes).reshape(200, -1)
    for event in events[:50]:
        index.match(event)
    return 1e6 / timed(lambda: len([index.match(event) for event in events]))


# ---- size --------------------------------------------------------------------------------------------


def alone(setting: Setting) -> dict[str, Any]:
    """Measure a setting in a process of its own (see `analysis.bench.alone`)."""
    done = subprocess.run(
        [sys.executable, "-m", "analysis.bench.alone", json.dumps(asdict(setting))],
        capture_output=True, text=True, check=False,
    )
    if done.returncode:
        raise RuntimeError(f"measuring {setting} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def size(sizes: Sizes) -> Iterator[Row]:
    """Memory, and the speed at which large tables are used and set up."""
    flooding = alone(Setting(
        brokers=sizes.flooding_brokers, subscriptions=sizes.subscriptions[0], publications_per_s=100.0,
    ))
    label = f"flooding, {sizes.flooding_brokers:,} brokers, {sizes.subscriptions[0]:,} subscriptions"
    yield row(f"{label}: memory", flooding["peak_bytes"] / 1e9, "GB", most=2)
    yield row(f"{label}: speed", flooding["hops_per_s"], _HOPS)

    for count, most_gb, selective in zip(sizes.subscriptions, (1.0, 2.0), (3, 4)):
        # `selective` constraints of a tenth of the domain: about 100 matches per publication
        setting = Setting(
            brokers=sizes.brokers, subscriptions=count, constraints=selective, attributes=selective,
            protocol=SUBSCRIPTION, publications_per_s=2000.0, seconds=1.0,
        )
        found = [alone(setting) for _ in range(sizes.repeats)]
        label = f"subscription, shared tables, {sizes.brokers:,} brokers, {count:,} subscriptions"
        yield row(f"{label}: memory", max(f["peak_bytes"] for f in found) / 1e9, "GB", most=most_gb)
        yield row(f"{label}: logical entries", found[0]["entries"], "")
        yield row(f"{label}: matches per publication", found[0]["deliveries"] / found[0]["publications"], "")
        yield row(f"{label}: speed", statistics.median(f["hops_per_s"] for f in found), _HOPS, least=0.4e6)
        yield row(f"{label}: standing at time 0", statistics.median(f["setup_s"] for f in found), "s")

    small, large = sizes.setup_subscriptions
    for count in (small, large):
        found_setup = alone(Setting(
            brokers=sizes.brokers, subscriptions=count, protocol=SUBSCRIPTION, publications_per_s=0.0,
            settled=False, ramp_s=1.0, seconds=2.0,
        ))
        label = f"subscription, {count:,} subscriptions set up by messages"
        yield row(f"{label}: time", found_setup["loop_s"], "s")
        yield row(f"{label}: speed", found_setup["hops_per_s"], _HOPS)
        if found_setup["loop_s"] * large / small > _MESSAGE_SETUP_LIMIT_S:
            break


# ---- start-up ----------------------------------------------------------------------------------------


def start(sizes: Sizes) -> Iterator[Row]:
    """What a person waits for."""
    with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder:
        (seconds,) = medians([lambda: command_s("demo", "--out", folder)], 1)
    yield row("`brokerlab demo`, once set up", seconds, "s", most=60)
    (seconds,) = medians([lambda: command_s("--help")], sizes.repeats)
    yield row("`brokerlab --help`", seconds, "s", most=0.3)


def command_s(*arguments: str) -> float:
    """Wall time of one call of the command line in a process of its own."""
    script = Path(sys.executable).with_name("brokerlab")
    inside = "from scenarios.cli import entry; entry()"
    program = [str(script)] if script.exists() else [sys.executable, "-c", inside]
    began = time.perf_counter()
    subprocess.run([*program, *arguments], check=True, capture_output=True)
    return time.perf_counter() - began
