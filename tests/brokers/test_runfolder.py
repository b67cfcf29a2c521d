"""Run folders: complete or refused, movable, locked while written, never overwritten unasked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.runfolder import (
    NewRun,
    RunFolder,
    create_run,
    first_difference,
    open_run,
    reopen_run,
    run_id,
    same_rows,
)
from brokers.engine.trace import Column, Table, TraceWriter
from brokers.errors import BrokerlabError, EnvironmentProblem, InvalidInput, RunDamaged, RunIncomplete
from brokers.schema import SCHEMA_VERSION

ROOT = Path(__file__).parents[2]
LOSS: dict[str, Any] = {"link": 1, "service": 0, "type": 0, "body": 1, "cause": -1, "reason": 0, "client": -1}


def begin(root: Path, **changes: Any) -> NewRun:
    arguments: dict[str, Any] = {"scenario": {"name": "small"}, "seed": 1, "level": "deliveries", **changes}
    return create_run(
        root, arguments.pop("name", "small"), arguments.pop("model", {"brokers": 3}), **arguments
    )


def written(root: Path, **changes: Any) -> RunFolder:
    """A finished run of two shards with 10 losses."""
    with begin(root, **changes) as run:
        for shard in (0, 1):
            with TraceWriter(run.path, shard, "deliveries") as trace:
                trace.write("losses", **LOSS, time_ns=np.arange(5) + 5 * shard)
        return run.finish(
            "abc", ["a", "b"], {"engine": "inline", "mean_ns": float("nan"), "hops": np.int64(3)}
        )


def test_a_finished_run_opens_and_reads_back(tmp_path: Path) -> None:
    path = written(tmp_path, seed=7, command=["brokerlab", "run", "small.yaml"]).path
    run = open_run(path)
    run.verify()
    assert run.digest == "abc" and run.rows("losses") == 10 and run.rows("changes") == 0
    assert run.read("losses")["time_ns"].to_pylist() == list(range(10))
    assert run.read("losses", ["body"]).column_names == ["body"]
    assert "hops" not in run.tables() and "windows" in run.tables() and "windows" not in run.model_tables()
    facts = run.manifest
    assert (facts["seed"], facts["status"], facts["command"]) == (
        7,
        "finished",
        ["brokerlab", "run", "small.yaml"],
    )
    assert facts["scenario"] == {"name": "small"} and facts["digest_per_second"] == ["a", "b"]
    assert facts["engine"] == {"engine": "inline", "mean_ns": None, "hops": 3}
    assert facts["started"] <= facts["ended"] and facts["versions"]["python"].startswith("3.")
    assert {file["path"]: file["rows"] for file in facts["files"] if file["table"] == "losses"} == {
        "tables/losses/part-0000.parquet": 5,
        "tables/losses/part-0001.parquet": 5,
    }
    assert not (path / "_lock").exists() and not list(path.rglob("_tmp*"))


def test_the_manifest_of_a_finished_run_holds_no_absolute_path(tmp_path: Path) -> None:
    run = written(tmp_path, command=["brokerlab"])
    assert str(tmp_path) not in (run.path / "manifest.json").read_text()


def test_a_moved_folder_still_opens(tmp_path: Path) -> None:
    run = written(tmp_path / "here")
    moved = shutil.move(run.path, tmp_path / "there")
    again = open_run(moved)
    again.verify()
    assert same_rows(again.read("losses"), open_run(moved).read("losses")) and again.rows("losses") == 10


def test_latest_points_to_the_last_finished_run_even_when_the_root_moves(tmp_path: Path) -> None:
    first = written(tmp_path / "runs", seed=1)
    assert open_run(tmp_path / "runs" / "latest").path == first.path
    second = written(tmp_path / "runs", seed=2)
    begin(tmp_path / "runs", seed=3).fail("failed")
    (tmp_path / "runs").rename(tmp_path / "moved")
    latest = open_run(tmp_path / "moved" / "latest")
    assert latest.path.name == second.path.name and latest.manifest["seed"] == 2


def test_whoever_resumes_latest_is_told_which_runs_did_not_finish(tmp_path: Path) -> None:
    stopped = begin(tmp_path)
    stopped.fail("interrupted")
    with pytest.raises(InvalidInput, match=f"latest: no such run folder; not finished: {stopped.path}$"):
        reopen_run(stopped.path.parent / "latest")
    finished = written(tmp_path)
    with pytest.raises(InvalidInput, match=f"{finished.path} is a finished run; .*; not finished: {stopped.path}$"):
        reopen_run(finished.path.parent / "latest")


def test_a_folder_called_latest_costs_no_run(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    assert written(tmp_path).rows("losses") == 10
    assert not list(tmp_path.glob(".latest*"))


# Names


PLAIN = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=3), PLAIN, max_size=5), st.randoms(use_true_random=False))
def test_the_id_depends_on_contents_and_not_on_the_order_of_keys(parts: dict[str, Any], random: Any) -> None:
    keys = list(parts)
    random.shuffle(keys)
    identity = run_id({key: parts[key] for key in keys})
    assert identity == run_id(parts) and len(identity) == 10 and int(identity, 16) >= 0
    assert identity != run_id({**parts, "longer key": 1})


@pytest.mark.parametrize("wrong", [{"a": float("nan")}, {"a": {1, 2}}, {"a": np.arange(2)}])
def test_a_model_that_is_no_plain_data_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="plain data"):
        run_id(wrong)


def test_another_seed_or_model_is_another_folder_and_another_command_is_not(tmp_path: Path) -> None:
    names = {written(tmp_path, **c).path.name for c in ({}, {"seed": 2}, {"model": {"brokers": 4}})}
    assert len(names) == 3
    again = written(tmp_path, command=["other"]).path.name
    assert again.endswith("-2") and again.removesuffix("-2") in names


@pytest.mark.parametrize("name", ["../../etc", "a b/c", "", "latest", ".hidden", "_x", "ü" * 200, "x" * 300])
def test_any_name_makes_a_folder_right_under_the_root(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name=name).path
    assert path.parent == tmp_path and path.name[0] not in "._" and len(path.name) < 80
    assert open_run(path).manifest["name"] == name


def test_a_finished_run_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    first, second, third = (written(tmp_path).path for _ in range(3))
    assert [p.name.removeprefix(first.name) for p in (first, second, third)] == ["", "-2", "-3"]
    (first / "note.txt").write_text("")
    assert written(tmp_path, overwrite=True).path == first
    assert not (first / "note.txt").exists() and open_run(second).rows("losses") == 10


def test_an_unfinished_run_is_left_alone_unless_asked(tmp_path: Path) -> None:
    dead = begin(tmp_path)
    dead.fail("interrupted")
    assert begin(tmp_path).path.name == dead.path.name + "-2"
    assert written(tmp_path, overwrite=True).path == dead.path


def test_what_is_no_run_folder_is_never_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path).path
    shutil.rmtree(path)
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidInput, match="not overwritten"):
        begin(tmp_path, overwrite=True)
    assert (path / "thesis.txt").exists()


# What is not complete


def test_a_run_that_failed_is_refused_with_its_status(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.fail("interrupted", at_ns=17)
    with pytest.raises(RunIncomplete, match="ended as 'interrupted'"):
        open_run(run.path)
    assert json.loads((run.path / "manifest.json").read_text())["at_ns"] == 17
    with pytest.raises(BrokerlabError, match="ended already"):
        run.finish("abc")


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
def test_an_exception_leaves_an_unfinished_run_without_a_lock(
    tmp_path: Path, error: type[BaseException], status: str
) -> None:
    with pytest.raises(error), begin(tmp_path) as run:
        raise error
    with pytest.raises(RunIncomplete, match=f"ended as '{status}'"):
        open_run(run.path)


def test_a_writer_that_is_still_open_keeps_a_run_from_finishing(tmp_path: Path) -> None:
    run = begin(tmp_path)
    trace = TraceWriter(run.path, 0, "deliveries", background=False)
    trace.write("losses", **LOSS, time_ns=np.arange(300_000))
    with pytest.raises(BrokerlabError, match="never closed"):
        run.finish("abc")
    trace.abort()
    run.fail("failed")


def damage(run: RunFolder, how: str) -> str:
    part = run.parts("losses")[1]
    data = part.read_bytes()
    if how == "missing":
        part.unlink()
    elif how == "truncated":
        part.write_bytes(data[:-9])
    else:
        part.write_bytes(data[:40] + bytes([data[40] ^ 255]) + data[41:])
    return part.relative_to(run.path).as_posix()


@pytest.mark.parametrize("how", ["missing", "truncated"])
def test_a_missing_or_truncated_part_is_named_when_opening(tmp_path: Path, how: str) -> None:
    run = written(tmp_path)
    name = damage(run, how)
    with pytest.raises(RunIncomplete, match=name):
        open_run(run.path)


def test_a_part_with_a_flipped_bit_is_named_by_verify(tmp_path: Path) -> None:
    run = written(tmp_path)
    name = damage(run, "flipped")
    with pytest.raises(RunIncomplete, match=f"damaged: {name} is not what the run wrote"):
        open_run(run.path).verify()


def test_a_flipped_bit_is_damage_where_its_table_is_read_and_nowhere_else(tmp_path: Path) -> None:
    run = open_run(written(tmp_path).path)
    name = damage(run, "flipped")
    assert run.read("changes").num_rows == 0
    with pytest.raises(RunDamaged, match=f"{run.path}: damaged: {name} is not what the run wrote") as told:
        run.read("losses")
    assert told.value.exit_code == 2
    with pytest.raises(RunDamaged, match=name):
        run.parts("losses")


def test_a_part_is_hashed_once_in_a_process_and_again_after_it_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(written(tmp_path).path)
    hashed: list[str] = []
    digest = hashlib.file_digest

    def counted(file: Any, name: str) -> Any:
        hashed.append(name)
        return digest(file, name)

    monkeypatch.setattr("brokers.engine.parts.hashlib.file_digest", counted)
    run.read("losses"), run.read("losses", ["body"]), open_run(run.path).parts("losses")
    assert len(hashed) == 2  # a part of each shard
    run.parts("losses")[0].touch()
    run.read("losses")
    assert len(hashed) == 3


FORGED: list[tuple[tuple[Any, ...], Any, str]] = [
    (("files", 0, "path"), [], "files[0].path has to be a path of the form tables/<table>/<part>.parquet"),
    (("files", 0, "path"), "../../etc/passwd", "files[0].path has to be a path of the form"),
    (("files", 0, "path"), "/etc/passwd", "files[0].path has to be a path of the form"),
    (("files", 0, "path"), "tables/hops/../x.parquet", "files[0].path has to be a path of the form"),
    (("files", 0, "rows"), -1, "files[0].rows has to be a count (got -1)"),
    (("files", 0, "bytes"), 1e300, "files[0].bytes has to be a count"),
    (("files", 0, "sha256"), "abc", "files[0].sha256 has to be 64 hex digits"),
    (("files",), {}, "files has to be a list (got an object)"),
    (("tables",), None, "tables has to be an object (got null)"),
    (("tables", "losses", "columns"), [["link", "uint64"]], "tables.losses.columns[0][1] has to be one of"),
    (("tables", "losses", "columns"), [["link", "int32"]], "tables.losses.columns has to be those of its table"),
    (("tables", "losses", "rows"), 10**9, "tables.losses.rows has to be 10, as its files say"),
    (("digest",), True, "digest has to be hex digits (got true)"),
    (("seed",), 2**70, "seed has to be a count"),
    (("scenario", "services"), [7], "scenario.services[0] has to be an object (got 7)"),
    (("engine", "metrics"), "fast", "engine.metrics has to be an object"),
    (("name",), "\ud800", "is no Unicode text"),
    (("scenario", "deep"), json.loads("[" * 100 + "]" * 100), "is nested deeper than 64"),
]


@pytest.mark.parametrize(("place", "value", "said"), FORGED)
def test_a_manifest_that_says_what_cannot_be_is_damage_at_its_place(
    tmp_path: Path, place: tuple[Any, ...], value: Any, said: str
) -> None:
    path = written(tmp_path).path
    manifest = inner = json.loads((path / "manifest.json").read_text())
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    seal(path, json.dumps(manifest))
    with pytest.raises(RunDamaged) as told:
        open_run(path)
    assert str(told.value).startswith(f"{path}: damaged: manifest.json: ") and said in str(told.value)


def seal(path: Path, manifest: str) -> None:
    """Make a changed manifest pass for the one that the run wrote."""
    (path / "manifest.json").write_text(manifest)
    (path / "_SUCCESS").write_text(hashlib.sha256(manifest.encode()).hexdigest() + "\n")


def test_a_fact_that_is_asked_for_and_missing_is_damage(tmp_path: Path) -> None:
    run = open_run(written(tmp_path).path)
    with pytest.raises(RunDamaged, match=r"damaged: manifest\.json has no 'services'"):
        run.manifest["scenario"]["services"]
    assert run.manifest["scenario"].get("services", 7) == 7


@pytest.mark.parametrize("where", ["_SUCCESS", "manifest.json", "_lock", "tables/losses/part-0001.parquet", "tables"])
def test_a_link_in_a_run_folder_is_refused(tmp_path: Path, where: str) -> None:
    path = written(tmp_path / "runs").path
    outside = tmp_path / "outside"
    if (path / where).exists():
        (path / where).rename(outside)
    else:
        outside.write_text("precious")
    (path / where).symlink_to(outside)
    with pytest.raises(RunDamaged, match=f"{where} is a link"):
        open_run(path)
    if where != "_SUCCESS":
        (path / "_SUCCESS").unlink()
        with pytest.raises(RunDamaged, match=f"{where} is a link"):
            reopen_run(path)
    assert where != "_lock" or outside.read_text() == "precious"


def test_an_unfinished_run_without_its_manifest_is_damaged_and_any_other_folder_is_no_run(tmp_path: Path) -> None:
    path = written(tmp_path / "runs").path
    (path / "_SUCCESS").unlink()
    (path / "manifest.json").unlink()
    with pytest.raises(RunDamaged, match=r"damaged: manifest\.json is missing"):
        reopen_run(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"is no run folder: it has no manifest\.json"):
        reopen_run(tmp_path / "empty")


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = written(tmp_path).path
    (path / "_SUCCESS").unlink()
    os.mkfifo(path / "_SUCCESS")
    with pytest.raises(RunDamaged, match="_SUCCESS is neither file nor folder"):
        open_run(path)


def test_a_part_that_breaks_after_opening_is_named_when_read(tmp_path: Path) -> None:
    run = written(tmp_path)
    name = damage(run, "truncated")
    with pytest.raises(RunIncomplete, match=f"damaged: {name} has .* bytes where the run wrote"):
        run.read("losses")


@pytest.mark.parametrize("how", ["{}", "", "not json", "\xff"])
def test_a_manifest_that_was_changed_is_refused(tmp_path: Path, how: str) -> None:
    path = written(tmp_path).path
    (path / "manifest.json").write_text(how)
    with pytest.raises(RunIncomplete, match="changed since the run"):
        open_run(path)


def test_a_newer_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path).path
    monkeypatch.setattr("brokers.engine.runfolder.SCHEMA_VERSION", 0)
    with pytest.raises(InvalidInput, match=f"trace schema {SCHEMA_VERSION}, this brokerlab reads 0"):
        open_run(path)


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such run folder"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(RunIncomplete, match="no finished run"):
        open_run(tmp_path)


def test_a_table_or_column_that_is_not_there_is_explained(tmp_path: Path) -> None:
    run = written(tmp_path)
    with pytest.raises(InvalidInput, match="level is 'deliveries', and 'hops' needs 'full'"):
        run.read("hops")
    with pytest.raises(InvalidInput, match="no table 'hopps'"):
        run.rows("hopps")
    with pytest.raises(InvalidInput, match="no column 'colour'"):
        run.read("losses", ["colour"])


def test_a_root_that_cannot_be_made_is_a_problem_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="cannot make a run folder"):
        begin(tmp_path / "file")


def test_tables_of_kinds_are_listed_and_read(tmp_path: Path) -> None:
    extra = {"ranks": Table("Ranks.", "summary", (Column("rank", "int16", "place"),))}
    with begin(tmp_path, extra_tables=extra) as run:
        with TraceWriter(run.path, 0, "deliveries", extra) as trace:
            trace.write("ranks", rank=np.arange(4))
        finished = run.finish("abc")
    assert finished.read("ranks")["rank"].to_pylist() == [0, 1, 2, 3]
    assert "ranks" in finished.model_tables()


def test_a_run_without_any_table_is_a_finished_run(tmp_path: Path) -> None:
    with begin(tmp_path, level="none") as run:
        TraceWriter(run.path, 0, "none").close()
        finished = run.finish("abc")
    assert finished.tables() == () and open_run(run.path).digest == "abc"


def test_an_interrupt_after_success_leaves_the_run_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("brokers.engine.runfolder._point_latest", interrupt)
    with pytest.raises(KeyboardInterrupt), begin(tmp_path) as run:
        run.finish("abc")
    assert open_run(run.path).manifest["status"] == "finished"


def test_two_runs_of_a_model_have_no_difference_however_rows_are_spread_over_shards(tmp_path: Path) -> None:
    two_shards = written(tmp_path)
    with begin(tmp_path) as run:
        with TraceWriter(run.path, 0, "deliveries") as trace:
            trace.write("losses", **LOSS, time_ns=np.arange(10)[::-1])
        one_shard = run.finish("abc")
    assert first_difference(two_shards, one_shard) is None
    with begin(tmp_path) as run:
        with TraceWriter(run.path, 0, "deliveries") as trace:
            trace.write("losses", **LOSS, time_ns=np.arange(11))
        longer = run.finish("abd")
    assert "table losses differs at row 10" in str(first_difference(one_shard, longer))


# The lock


WRITER = """
import sys
from brokers.engine.runfolder import create_run

run = create_run(sys.argv[1], "small", {"brokers": 3}, scenario={}, seed=1, level="deliveries")
print(run.path, flush=True)
sys.stdin.read()
"""


def start_writer(root: Path) -> subprocess.Popen[str]:
    """A process that has begun a run, tells its folder, and waits for the end of its input."""
    command = [sys.executable, "-c", WRITER, str(root)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_lock_is_held_while_its_process_lives_and_free_after_it_was_killed(tmp_path: Path) -> None:
    with start_writer(tmp_path) as writer:
        assert writer.stdout is not None
        path = Path(writer.stdout.readline().strip())
        try:
            with pytest.raises(RunIncomplete, match=f"being written by process {writer.pid}"):
                open_run(path)
            with pytest.raises(RunIncomplete, match="wait for it, or stop it"):
                begin(tmp_path, overwrite=True)
            beside = begin(tmp_path)
            assert beside.path.name == path.name + "-2"
            beside.fail("failed")
        finally:
            os.kill(writer.pid, signal.SIGKILL)
    with pytest.raises(RunIncomplete, match="it died; finish it with: brokerlab run --resume"):
        open_run(path)
    assert written(tmp_path, overwrite=True).path == path


def test_processes_that_start_together_get_folders_of_their_own(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path) for _ in range(4)]
    names = {writer.communicate()[0] for writer in writers}
    assert len(names) == 4 and all(writer.returncode == 0 for writer in writers)
