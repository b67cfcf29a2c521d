"""Running a scenario: the folder, the answers, and that nothing about the execution shows in the digest."""

import importlib.util
import json
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from brokers.errors import Interrupted, InvalidInput, RunIncomplete
from scenarios import cli
from scenarios.problems import ScenarioErrors
from scenarios.running import Run, resume, run

FULL = "trace: {level: full}\n"
SLOW = (("500 ms", "1 s"), ("protocol: flooding", "protocol: flooding\n    cost: {base: 1 ms}"))


@pytest.fixture
def scenario(tree, tmp_path):
    return tree(tmp_path, *SLOW, more=FULL)


def inline(scenario, **more):
    return run(scenario, engine="inline", out=scenario.parent / "runs", **more)


def test_a_run_leaves_a_folder_that_opens_again(scenario):
    done = inline(scenario)
    assert done.path.parent == scenario.parent / "runs"
    again = Run.load(done.path)
    assert again.digest == done.digest
    assert again.metrics == done.metrics
    assert again.verdict == "not audited"
    deliveries = done.metrics["services"]["news"]["deliveries"]
    assert done.read("deliveries").num_rows == deliveries > 0


def test_the_tables_of_a_run_are_its_attributes(scenario):
    done = inline(scenario)
    assert done.deliveries.equals(done.read("deliveries"))
    assert done.hops.num_rows == done.metrics["network"]["events"]
    with pytest.raises(AttributeError, match="a run has no 'colour'"):
        _ = done.colour
    less = inline(scenario, overrides=["trace.level=summary"])
    with pytest.raises(InvalidInput, match="'deliveries' needs 'deliveries'"):
        _ = less.deliveries


def test_actors_trace_level_and_table_layout_do_not_show_in_the_digest(scenario):
    whole = inline(scenario)
    assert inline(scenario, actors=3).digest == whole.digest
    changes = ["trace.level=none", "services.news.tables=own", "engine.partition=round-robin"]
    assert inline(scenario, actors=2, overrides=changes).digest == whole.digest


def test_another_seed_is_another_run(scenario):
    first, second = inline(scenario), inline(scenario, seed=2)
    assert first.digest != second.digest
    assert first.folder.manifest["id"] != second.folder.manifest["id"]


def test_the_same_model_again_is_numbered_or_replaced_when_asked(scenario):
    first = inline(scenario)
    assert inline(scenario).path.name == first.path.name + "-2"
    assert inline(scenario, overwrite=True).path == first.path


def test_a_named_network_file_that_changes_makes_another_run(scenario):
    network = scenario.parent / "network.txt"
    overrides = ["topology={kind: file, path: network.txt, format: edgelist}"]
    network.write_text("a b\nb c\n", encoding="utf-8")
    first = inline(scenario, overrides=overrides)
    network.write_text("a b\nb c\nc d\n", encoding="utf-8")
    second = inline(scenario, overrides=overrides)
    assert first.folder.manifest["id"] != second.folder.manifest["id"]


def test_progress_is_told_to_a_function(scenario):
    told = []
    inline(scenario, progress=lambda *figures: told.append(figures))
    assert told[-1][0] == 1_000_000_000
    assert [events for _, events, _ in told] == sorted(events for _, events, _ in told)


def test_an_interrupted_run_keeps_a_folder_that_says_so_and_is_not_finished(scenario):
    def press_control_c(*figures):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        inline(scenario, progress=press_control_c)
    (folder,) = (scenario.parent / "runs").glob("tree-*")
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["status"] == "interrupted"
    with pytest.raises(RunIncomplete):
        Run.load(folder)


def test_the_command_ends_with_one_object(scenario, capsys):
    out = str(scenario.parent / "out")
    assert cli.main(["run", str(scenario), "--engine", "inline", "--out", out, "--quiet", "--json"]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert set(answer) == {"run", "digest", "verdict", "metrics"}
    assert answer["digest"] == Run.load(answer["run"]).digest
    assert captured.err == ""


def test_the_command_tells_a_person_what_came_of_it(scenario, capsys):
    out = str(scenario.parent / "out")
    assert cli.main(["run", str(scenario), "--engine", "inline", "--out", out]) == 0
    text = capsys.readouterr().out
    done = Run.load(f"{out}/latest")
    assert f"digest   {done.digest}" in text
    assert "not audited" in text


def test_too_many_actors_are_refused_before_a_folder_is_made(scenario, capsys):
    out = scenario.parent / "out"
    assert cli.main(["run", str(scenario), "--engine", "inline", "--actors", "8", "--out", str(out)]) == 3
    assert "8 actors for 7 brokers" in capsys.readouterr().err
    with pytest.raises(ScenarioErrors, match=r"--set engine\.actors: engine\.actors: 9 actors for 7 brokers"):
        run(scenario, engine="inline", overrides=["engine.actors=9"], out=out)
    with pytest.raises(ScenarioErrors, match=r"engine\.partition: the list has 1 entries for 7 brokers"):
        run(scenario, engine="inline", actors=2, overrides=["engine.partition=[0]"], out=out)
    assert not out.exists()


def test_inspect_shows_a_brokers_tables_and_queue_at_a_moment(scenario, capsys):
    done = inline(scenario)
    assert cli.main(["inspect", str(done.path), "--broker", "3", "--at", "0.5 s", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["broker"], state["neighbours"], state["at_ns"]) == (3, ["b1"], 500_000_000)
    assert "news" in state["services"]
    assert cli.main(["inspect", str(done.path), "--broker", "b3", "--at", "0.5 s"]) == 0
    assert "broker 3 (b3) at 500 ms" in capsys.readouterr().out


FAULTS = (
    "[{fault: crash, brokers: [b1], at: 300 ms, lasts: 200 ms, state: lost}, "
    "{fault: partition, sets: [[b1, b3, b4]], at: 100 ms, lasts: 250 ms}, "
    "{fault: cut, link: [b1, b3], way: there, at: 100 ms}, {fault: pause, brokers: [b0], at: 0, lasts: 1 s}, "
    "{fault: slow, brokers: [b2], at: 0, lasts: 1 s, factor: 2.5}]"
)


def test_inspect_says_what_is_broken_then(scenario, capsys):
    done = inline(scenario, overrides=[f"faults.schedule={FAULTS}"])

    def at(broker, time):
        assert cli.main(["inspect", str(done.path), "--broker", broker, "--at", time, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["faults"]

    cut = "link b1→b3 cut for good (cut)"
    halves = "link b0–b1 cut until 350 ms (partition)"
    assert at("b1", "200 ms") == [halves, cut]
    assert at("b1", "300 ms") == ["down until 500 ms (crash, state lost)", halves, cut]
    assert at("b1", "500 ms") == ["comes back now (crash, state lost)", cut]
    assert at("b3", "600 ms") == [cut] and at("b4", "400 ms") == []
    assert at("b0", "400 ms") == ["paused until 1 s (pause)"]
    assert cli.main(["inspect", str(done.path), "--broker", "b2", "--at", "0.5 s"]) == 0
    assert "\n  fault       2.5 times as slow until 1 s (slow)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--broker", "b9", "--at", "1 s"], "--broker: there is no broker named 'b9'"),
        (["--broker", "9", "--at", "1 s"], "--broker: there is no broker 9"),
        (["--broker", "1", "--at", "soon"], "--at: expected a duration"),
        (["--broker", "1", "--at", "0 s"], "nothing has happened before 1 ns"),
    ],
)
def test_inspecting_what_is_not_there_is_said(arguments, words, scenario, capsys):
    done = inline(scenario)
    assert cli.main(["inspect", str(done.path), *arguments]) == 3
    assert words in capsys.readouterr().err


def test_a_run_folder_is_run_again_from_its_manifest_alone(scenario, capsys):
    done = inline(scenario)
    scenario.unlink()
    assert cli.main(["inspect", str(done.path), "--broker", "0", "--at", "1 ms"]) == 0
    assert "broker 0 (b0) at 1 ms" in capsys.readouterr().out


NETWORK = '{"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}'


@pytest.fixture
def with_a_file(tree, scenario):
    """The scenario, with a network that lies beside it."""
    (scenario.parent / "net.json").write_text(NETWORK, encoding="utf-8")
    beside = ("{kind: balanced-tree, branching: 2, height: 2}", "{kind: file, path: net.json}")
    return tree(scenario.parent, *SLOW, beside, more=FULL)


def test_a_study_that_is_moved_with_its_runs_works_there(with_a_file, tmp_path_factory, capsys):
    done = inline(with_a_file)
    assert not Path(done.engine["scenario_folder"]).is_absolute()
    moved = tmp_path_factory.mktemp("elsewhere") / "study"
    with_a_file.parent.rename(moved)
    run_there = str(moved / "runs" / done.path.name)
    assert cli.main(["inspect", run_there, "--broker", "0", "--at", "1 ms"]) == 0
    assert "broker 0 (0) at 1 ms" in capsys.readouterr().out


def test_a_study_that_is_moved_after_an_interruption_is_resumed_there(with_a_file, tmp_path_factory):
    def press_control_c(*figures):
        raise KeyboardInterrupt

    whole = inline(with_a_file).digest
    with pytest.raises(Interrupted):
        run(with_a_file, engine="inline", out=with_a_file.parent / "cut", progress=press_control_c)
    moved = tmp_path_factory.mktemp("elsewhere") / "study"
    with_a_file.parent.rename(moved)
    (folder,) = (moved / "cut").glob("tree-*")
    assert resume(folder, engine="inline").digest == whole


@pytest.mark.ray
def test_a_cluster_that_does_not_answer_leaves_no_folder_behind(scenario, capsys):
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # no one listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        out = scenario.parent / "runs"
        given = ["--address", address, "--actors", "2", "--out", str(out), "--quiet"]
        assert cli.main(["run", str(scenario), *given]) == 4
    said = capsys.readouterr().err
    assert f"no Ray at '{address}'" in said and "--resume" not in said
    assert list(out.glob("tree-*")) == []


@pytest.mark.xdist_group("spark")
def test_the_demo_runs_twice_compares_the_digests_and_audits(spark, scenario, capsys, monkeypatch):
    monkeypatch.setattr("scenarios.commands.demo.SCENARIO", str(scenario))
    out = str(scenario.parent / "demo")
    assert cli.main(["demo", "--engine", "inline", "--out", out]) == 0
    text = capsys.readouterr().out
    assert text.count(Run.load(f"{out}/latest").digest) == 2
    assert "the same to the byte" in text
    assert "\nverdict: valid\n" in text
    assert Run.load(f"{out}/latest").verdict == "valid"


def test_a_small_demo_is_audited_without_spark(scenario, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pyspark" else found(name, *a))
    monkeypatch.setattr("scenarios.commands.demo.SCENARIO", str(scenario))
    assert cli.main(["demo", "--engine", "inline", "--out", str(scenario.parent / "demo")]) == 0
    assert "\nverdict: valid\n" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_demo_writes_a_report_and_says_where(scenario, capsys, monkeypatch):
    """What `make demo` calls is asked of make; that command is run here, on a small scenario."""
    recipe = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo"], cwd=Path(__file__).parents[2], capture_output=True,
        text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    called = recipe[-1].split()
    assert called[0].endswith("bin/brokerlab")
    monkeypatch.setattr("scenarios.commands.demo.SCENARIO", str(scenario))
    monkeypatch.chdir(scenario.parent)
    assert cli.main([*called[1:], "--engine", "inline"]) == 0
    (said,) = re.findall(r"^  (\S+)  shows it: open it in a browser$", capsys.readouterr().out, re.MULTILINE)
    written = Path(said).read_text("utf-8")
    assert Path(said).parent.parent.resolve() == Run.load("runs/latest").path.resolve()
    assert written.startswith("<!doctype html>") and 'class="verdict valid"' in written and 'id="columns"' in written


def test_a_demo_whose_audit_needs_spark_says_that_it_is_not_there_and_is_fine(scenario, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pyspark" else found(name, *a))
    monkeypatch.setattr("scenarios.commands.demo.SCENARIO", str(scenario))
    monkeypatch.setattr("analysis.spark.compared.VERY_FEW_ROWS", 0)
    assert cli.main(["demo", "--engine", "inline", "--out", str(scenario.parent / "demo")]) == 0
    assert "not audited: Spark is not installed" in capsys.readouterr().out


def test_a_demo_whose_digests_differ_fails(scenario, capsys, monkeypatch):
    import scenarios.running

    def another(ready, model, *arguments, **more):
        model.seed += 1
        return honest(ready, model, *arguments, **more)

    honest = scenarios.running.execute
    monkeypatch.setattr("scenarios.commands.demo.SCENARIO", str(scenario))
    calls = iter([honest, another])
    monkeypatch.setattr(scenarios.running, "execute", lambda *arguments, **more: next(calls)(*arguments, **more))
    assert cli.main(["demo", "--engine", "inline", "--out", str(scenario.parent / "demo")]) == 1
    assert "THE DIGESTS DIFFER" in capsys.readouterr().out
