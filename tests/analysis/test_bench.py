"""The bench: its baselines do the engine's work, its rows say what was measured. No figure is judged here."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from analysis.bench import __main__ as program
from analysis.bench import contexts, engine, faults, network, programs, small, spark
from analysis.bench.alone import measure, peak_bytes
from analysis.bench.baselines import heap_loop, problem, simpy_loop
from analysis.bench.models import FAST_LINKS_NS, SCAN, Setting, model, overlay
from analysis.bench.registry import BENCHES
from analysis.bench.rows import Row, medians, number, row, table
from brokers.engine.simulate import MemoryTraces, simulate
from brokers.errors import BrokerlabError, InvalidInput
from brokers.registry import Entry, load

TINY = Setting(brokers=20, publications_per_s=200.0, seconds=0.2)


def hops_of_engine(setting):
    """Per broker, in its order: what the engine's trace says of each hop."""
    trace = MemoryTraces("full")
    result = simulate(model(setting), trace=trace)
    hops = trace.tables()["hops"]
    # The trace names the link a message came over; the loop names the broker's own link, the way back.
    links = [link ^ 1 if link >= 0 else -1 for link in hops["link"].tolist()]
    columns = (hops[name].tolist() for name in ("broker", "time_ns", "source", "sequence"))
    by_broker = [[] for _ in range(setting.brokers)]
    for broker, time, source, sequence, link, key in zip(*columns, links, hops["body"].tolist()):
        by_broker[broker].append((len(by_broker[broker]), broker, time, source, sequence, link, key))
    return by_broker, result.metrics["network"]["events"]


@pytest.mark.parametrize("setting", [
    TINY,
    replace(TINY, brokers=40, fast_links=True),
    replace(TINY, publications_per_s=20_000.0, seconds=0.02),
    replace(TINY, publications_per_s=5.0, seconds=3.0),
])
def test_the_heap_loop_handles_exactly_the_hops_of_the_engine_in_the_order_of_each_broker(setting):
    expected, events = hops_of_engine(setting)
    found = [[] for _ in range(setting.brokers)]

    def keep(hop):
        found[hop[1]].append(hop)
        return hash(hop)

    hops, digest = heap_loop(problem(model(setting)), keep)
    assert hops == events > 0
    assert found == expected
    assert digest == [sum(map(hash, hops)) % 2**64 for hops in expected]


def test_the_heap_loop_hashes_what_it_was_not_told_to_keep():
    kept = heap_loop(problem(model(TINY)), hash)
    assert heap_loop(problem(model(TINY))) == kept
    assert len(set(kept[1])) == TINY.brokers


def test_the_simpy_loop_makes_as_many_hops_as_the_engine():
    _, events = hops_of_engine(TINY)
    assert simpy_loop(problem(model(TINY))) == events


def test_every_publication_makes_one_hop_per_broker():
    plain = problem(model(TINY))
    hops, _ = heap_loop(plain)
    assert hops == len(plain.publications) * TINY.brokers > 0


def test_fast_links_are_one_of_10_us_and_twenty_of_100_us_and_the_rest_is_as_before():
    slow, fast = overlay(100), overlay(100, True)
    changed = fast.delay_ns != slow.delay_ns
    assert sorted(fast.delay_ns[changed].tolist()) == sorted(FAST_LINKS_NS)
    assert slow.is_tree
    assert 5_000_000 <= slow.delay_ns.min() <= slow.delay_ns.max() <= 50_000_000


@pytest.mark.parametrize("view", ["run", "message"])
def test_the_authors_view_does_the_same_work_as_the_engines(view):
    assert simulate(model(replace(TINY, view=view))).digest == simulate(model(TINY)).digest


def test_a_row_without_a_target_is_reported_and_not_judged():
    assert row("speed", 3.0, "m/s", baseline=2.0) == {
        "name": "speed", "value": 3.0, "unit": "m/s", "baseline": 2.0, "ratio": 1.5, "target": None, "holds": None,
    }


BOTH = "at least 3 M hops/s and at least 10 times the loop"


@pytest.mark.parametrize(("value", "bounds", "holds", "target"), [
    (3e6, {"least": 3e6}, True, "at least 3 M hops/s"),
    (2.9e6, {"least": 3e6}, False, "at least 3 M hops/s"),
    (0.31, {"most": 0.3}, False, "at most 0.3 hops/s"),
    (4e6, {"least": 3e6, "baseline": 1e5, "ratio_least": 10}, True, BOTH),
    (4e6, {"least": 3e6, "baseline": 5e5, "ratio_least": 10}, False, BOTH),
    (2e6, {"least": 3e6, "baseline": 1e5, "ratio_least": 10}, False, BOTH),
])
def test_a_row_holds_if_everything_its_target_names_holds(value, bounds, holds, target):
    found = row("one", value, "hops/s", against="the loop", **bounds)
    assert (found["holds"], found["target"]) == (holds, target)


def test_medians_drop_the_first_turn_and_take_measurements_in_turns():
    order = []

    def measurement(name, values):
        remaining = iter(values)

        def measure():
            order.append(name)
            return next(remaining)

        return measure

    assert medians([measurement("a", [100, 1, 3, 2]), measurement("b", [0, 7, 9, 8])], 3) == [2, 8]
    assert order == ["a", "b"] * 4


@pytest.mark.parametrize(("value", "text"), [
    (12_345_678.0, "12.3 M"), (3e6, "3 M"), (45_600.0, "45.6 k"), (2_345.6, "2346"), (0.1234, "0.123"), (2e9, "2 G"),
    (0.0, "0"),
])
def test_numbers_are_written_for_people(value, text):
    assert number(value) == text


def test_a_table_has_a_line_per_row_and_says_what_does_not_hold():
    lines = table([row("a", 1.0, "s", most=2.0), row("b", 3.0, "s", most=2.0), row("c", 4.0, "s")]).splitlines()
    assert len(lines) == 5
    assert len({len(line) for line in lines}) == 1
    assert [line.split("|")[-2].strip() for line in lines[2:]] == ["holds", "does not hold", "reported"]


SMALL = engine.Sizes(
    repeats=1, brokers=12, dense_per_s=500.0, sparse_per_s=20.0, dense_s=0.1, dense_loop_s=0.05, simpy_s=0.05,
    sparse_s=0.5, sparse_loop_s=0.5, trace_s=0.05, run_view_s=0.05, message_view_s=0.05, fast_links_s=0.05,
    empty_windows=5, parallel_brokers=6, parallel_subscriptions=3, parallel_constraints=2, parallel_per_s=50.0,
    parallel_s=0.2, flooding_brokers=12, subscriptions=(40, 60), setup_subscriptions=(10, 20),
)
KEYS = set(Row.__annotations__)


def assert_well_formed(rows):
    assert rows
    assert len({r["name"] for r in rows}) == len(rows)
    for r in rows:
        assert set(r) == KEYS
        assert r["value"] > 0
        assert (r["holds"] is None) == (r["target"] is None)
        if r["baseline"] is not None:
            assert r["ratio"] == pytest.approx(r["value"] / r["baseline"])
    json.dumps(rows, allow_nan=False)


def test_the_rows_of_one_core_are_well_formed_and_name_the_loop_as_baseline():
    rows = list(engine.one_core(SMALL))
    assert_well_formed(rows)
    assert all(r["baseline"] for r in rows)


def test_the_rows_of_threads_are_of_runs_that_have_windows_and_agree():
    tiny = Setting(brokers=4, publications_per_s=200.0, seconds=0.5)
    sizes = network.Sizes(
        repeats=1, dense=tiny, matching=replace(tiny, subscriptions=40), empty=replace(tiny, brokers=2),
        thin=((4, 50.0, 0.5),),
    )  # fmt: skip
    found = list(network.threads(sizes))
    assert [each["unit"] for each in found] == ["µs", *["hops/s"] * 3]
    assert all(each["value"] > 0 for each in found)
    assert all(each["baseline"] for each in found[1:])


def test_the_rows_of_faults_stand_beside_the_same_run_without_and_something_fails_in_it():
    tiny = Setting(brokers=20, publications_per_s=200.0, seconds=0.5)
    sizes = faults.Sizes(repeats=1, dense=tiny, cuts_per_s=40.0, crashes_per_s=20.0)
    found = list(faults.of(sizes))
    said = "times the same without"
    assert [row["target"] for row in found] == [f"at least 0.97 {said}", f"at least 0.7 {said}", None, None]
    assert all(row["baseline"] for row in found) and all(row["value"] > 0 for row in found)
    drawn = list(faults._drawn(model(tiny), sizes))
    assert {type(each).__name__ for each in drawn} == {"Cut", "Crash"}


def test_the_rows_of_programs_are_of_the_languages_that_are_here_beside_the_authors_view(monkeypatch):
    tiny = replace(programs.Sizes().traffic, brokers=10, publications_per_s=100.0, subscriptions=10, seconds=0.3)
    found = list(programs.of(programs.Sizes(repeats=1, traffic=tiny)))
    assert {"subscription by a program in Python"} <= {each["name"] for each in found}
    assert all(each["target"] == "at least 20 k messages/s" and each["baseline"] for each in found)
    monkeypatch.setattr(programs, "_commands", lambda folder: [("shell", ["sh", "-c", MUTE])])
    with pytest.raises(BrokerlabError, match="the program in shell does not give the digest of `subscription`"):
        list(programs.of(programs.Sizes(repeats=1, traffic=tiny)))


# Reads everything, and never does anything.
MUTE = (
    'read line; echo \'{"hello": 1, "kind": "content"}\'; read line; echo {}; '
    'while read line; do echo \'{"actions": []}\'; done'
)


def test_the_rows_of_contexts_stand_beside_the_authors_view():
    tiny = contexts.Traffic(brokers=4, profiles=12, seconds=0.2)
    rows = list(contexts.measured(contexts.Sizes(repeats=1, beside=tiny, full=(tiny,))))
    beside = [each for each in rows if each["ratio"] is not None]
    assert len(rows) == 9 and [each["name"].split(",")[0] for each in beside] == list(contexts.PROTOCOLS)
    for each in beside:
        each["name"] += ", in both views"
    assert_well_formed(rows)


def test_the_rows_of_small_networks_are_well_formed_and_all_have_a_baseline():
    sizes = small.Sizes(
        repeats=1, brokers=(4, 9), per_s=(20.0, 200.0), hops=400, seconds_least=0.01, authors=(5, 50.0),
        traced=((4, 50.0),), traced_hops=400,
    )  # fmt: skip
    rows = [*small.grid(sizes), *small.authors_view(sizes), *small.traced(sizes)]
    assert_well_formed(rows)
    assert len(rows) == 6 and all(r["baseline"] for r in rows)


def test_the_rows_of_two_actors_are_well_formed():
    assert_well_formed(list(engine.two_actors(SMALL, "inline")))


def test_matching_is_flooding_with_an_index_of_its_own_at_every_broker():
    setting = engine.matching(SMALL)
    assert (setting.index, setting.tables, setting.subscriptions) == (SCAN, "own", 18)
    assert simulate(model(setting)).metrics["services"]["bench"]["deliveries"] > 0


def test_lambda_is_the_work_of_a_window_over_the_cost_of_its_exchange():
    one = model(replace(TINY, seconds=0.5))
    alone, both = simulate(one), simulate(one, actors=2)
    events = alone.metrics["network"]["events"] / alone.metrics["run"]["simulated_s"]
    work_s = both.engine["lookahead_ns"] / 1e9 * events / alone.metrics["run"]["events_per_s"]
    assert engine.lambda_of(alone, both, work_s / 7) == pytest.approx(7)


def test_the_rows_of_size_are_well_formed():
    assert_well_formed([r for r in engine.size(SMALL) if r["value"]])


def test_a_setting_measured_alone_counts_what_an_execution_counts():
    setting = replace(TINY, subscriptions=30, width=0.7)
    found, expected = measure(setting), simulate(model(setting)).metrics
    assert found["events"] == expected["network"]["events"]
    assert found["deliveries"] == expected["services"]["bench"]["deliveries"] > 0
    assert found["entries"] == 30


def test_peak_memory_is_that_of_the_process_and_not_of_its_parent():
    held = b"x" * 300_000_000
    program = "from analysis.bench.alone import peak_bytes; print(peak_bytes())"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 0 < int(child.stdout) < len(held) < peak_bytes()


def test_a_failing_measurement_says_which_and_why():
    with pytest.raises(RuntimeError, match=r"brokers=0.*failed"):
        engine.alone(Setting(brokers=0))


FEW = spark.Sizes(brokers=8, rate="10/s", seconds=3, checkpoint_seconds=1, checkpoint_every="1 ms")


def test_the_rows_of_checkpoints_are_well_formed_and_tell_the_share_of_ten_seconds():
    rows = {r["name"].partition(": ")[2]: r for r in spark.checkpoints(FEW)}
    assert_well_formed([r for name, r in rows.items() if r["value"]])
    assert rows["checkpoints when taken every 1 ms"]["holds"]
    each_ms, share = rows["a checkpoint"]["value"], rows["share of the time with one every 10 s"]["value"]
    assert share == pytest.approx(each_ms / 1e3 / 10)


@pytest.mark.full  # starts Spark twice, as the command line does
def test_the_rows_of_reading_are_well_formed():
    assert_well_formed(list(spark.reading(FEW)))


def test_the_cost_of_a_command_is_that_of_all_its_processes():
    held = "x = b'x' * 300_000_000; import time; sum(range(10**7)); print(flush=True); time.sleep(60)"
    above = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {held!r}])"
    with subprocess.Popen([sys.executable, "-c", above], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            cpu_s, peak = spark.tree_cost(process.pid)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert 300_000_000 < peak < 500_000_000
    assert cpu_s > 0.05
    helped = spark.cost_of("--help")
    assert 0 < helped.cpu_s <= 3 * helped.wall_s
    assert helped.peak_bytes > 1_000_000


def test_a_command_that_fails_says_which_and_why():
    with pytest.raises(RuntimeError, match="brokerlab audit nowhere ended with 3: brokerlab: nowhere: no such run"):
        spark.cost_of("audit", "nowhere")


def test_every_group_names_a_function_and_a_line_of_prose():
    for entry in BENCHES.values():
        assert callable(load(entry.target))
        assert entry.prose


measured = []


def few_rows():
    measured.append("few")
    yield row("good", 1.0, "s", most=2.0)
    yield row("bad", 3.0, "s", most=2.0)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setitem(BENCHES, "few", Entry(f"{__name__}:few_rows", "two rows"))


@pytest.mark.usefixtures("few")
def test_a_figure_that_does_not_hold_makes_the_exit_code_1_and_all_are_in_the_json(capsys):
    assert program.main(["few"], as_json=True) == 1
    assert [r["holds"] for r in json.loads(capsys.readouterr().out)] == [True, False]


@pytest.mark.usefixtures("few")
def test_only_the_section_of_the_group_is_written_into_a_page(tmp_path, capsys):
    page = tmp_path / "performance.md"
    page.write_text("# Top\n<!-- bench: few -->\nwhat was here\n<!-- end bench: few -->\nBottom\n", encoding="utf-8")
    program.main(["few"], write=str(page))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Top\n<!-- bench: few -->\n- Measured ")
    assert text.endswith("<!-- end bench: few -->\nBottom\n")
    assert "what was here" not in text
    assert "| bad " in text
    assert f"{os.cpu_count()} CPUs" in text
    once = text
    program.main(["few"], write=str(page))
    assert page.read_text(encoding="utf-8") == once
    assert "does not hold" in capsys.readouterr().out


@pytest.mark.usefixtures("few")
def test_an_unknown_group_or_page_is_refused_before_anything_is_measured(tmp_path):
    measured.clear()
    with pytest.raises(InvalidInput, match="no group 'fwe'"):
        program.main(["fwe"])
    with pytest.raises(InvalidInput, match="no such page"):
        program.main(["few"], write=str(tmp_path / "missing.md"))
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(InvalidInput, match="no section"):
        program.main(["few"], write=str(page))
    assert not measured
