"""A thousand damaged run folders: each command ends with a documented exit code and a sentence, and harms nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokers.errors import EnvironmentProblem, Interrupted
from scenarios.cli import main
from scenarios.many import metrics
from scenarios.running import Run, run

from . import damage_cases

DOCUMENTED = {0, 1, 2, 3, 4}  # not 70, which is a mistake in the program
MESSAGE_MAX = 4_000
CHANGES = ["duration=300 ms", "engine.checkpoint_every=1 us", "engine.window_max=20 ms", "trace.level=full"]
_NOTE = re.compile(r"brokerlab: (checkpoint \d+ cannot be used: |there is no checkpoint to go on from)")


class Study:
    """A finished run, another of it to compare with, an interrupted one, and files that nobody may touch."""

    def __init__(self, folder: Path, scenario: Path) -> None:
        self.folder = folder
        self.whole = self._run(scenario)
        self.other = self._run(scenario, "seed=2")
        self.cut = self._interrupted(scenario)
        publication = self.whole.read("publications").to_pylist()[3]["publication"]
        # Commands take the client's number, the trace has its entity id.
        client = self.whole.read("deliveries").to_pylist()[0]["client"] - self.whole.read("brokers").num_rows
        self.message, self.client = str(publication), str(client)
        (folder / "outside" / "folder").mkdir(parents=True)
        (folder / "outside" / "file").write_text("precious")
        (folder / "outside" / "folder" / "part-0000.parquet").write_text("precious")
        self._before = self.state()

    def _run(self, scenario: Path, *changes: str, **more: Any) -> Run:
        return run(scenario, engine="inline", overrides=[*CHANGES, *changes], out=self.folder / "runs", **more)

    def _interrupted(self, scenario: Path) -> Path:
        def stop(now_ns: int, *_: int) -> None:
            if now_ns > 150_000_000:
                raise KeyboardInterrupt

        with contextlib.suppress(Interrupted):
            self._run(scenario, "seed=3", progress=stop)
        (cut,) = (path for path in (self.folder / "runs").glob("tree-*") if not (path / "_SUCCESS").exists())
        assert any((cut / "checkpoints").iterdir())
        return cut

    def copy(self, of: Path) -> Path:
        """A copy to damage, from a place that can be told from all others."""
        damaged = self.folder / "damaged" / of.name
        if damaged.parent.exists():
            shutil.rmtree(damaged.parent)
        shutil.copytree(of, damaged)
        return damaged

    def state(self) -> dict[str, str]:
        """What lies beside the folder that is damaged."""
        found = {}
        for where in ("runs", "outside"):
            for path in sorted((self.folder / where).rglob("*")):
                mode = path.lstat().st_mode
                known = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
                found[str(path)] = f"{stat.S_IFMT(mode)} {known}"
        return found

    @property
    def untouched(self) -> bool:
        return self.state() == self._before

    def commands(self, damaged: Path) -> list[list[str]]:
        """Every command that reads a finished run."""
        it, other = str(damaged), str(self.other.path)
        return [
            ["audit", it],
            ["analyze", it],
            ["explain", it, self.message],
            ["explain", it, self.message, self.client, "--json"],
            ["compare", other, it],
            ["diff", it, other],
            ["diff", other, it, "--json"],
            ["report", it, "--out", f"{self.folder}/damaged/report.html"],
            ["report", other, it, "--out", f"{self.folder}/damaged/report.html"],
            ["inspect", it, "--broker", "0", "--at", "1 ms"],
            ["run", "--resume", it, "--engine", "inline", "--quiet"],
        ]


@pytest.fixture(scope="module")
def study(tmp_path_factory, tree) -> Study:
    folder = tmp_path_factory.mktemp("study")
    return Study(folder, tree(folder, ("count: 12", "count: 6"), ("rate: 40/s", "rate: 60/s")))


@pytest.fixture
def no_spark(monkeypatch) -> None:
    """Everything that is done before a Spark would be started."""

    @contextlib.contextmanager
    def session(*_: Any, **__: Any):
        raise EnvironmentProblem("no Spark in this test")
        yield

    monkeypatch.setattr("analysis.spark.session.session", session)


@pytest.fixture
def said(capsys) -> Callable[[list[str]], tuple[int, str]]:
    """Runs a command; its exit code and what it said on stderr, looked at for what no user should see."""

    def call(arguments: list[str]) -> tuple[int, str]:
        capsys.readouterr()
        code = main(arguments)
        told = capsys.readouterr().err
        assert code in DOCUMENTED, told
        assert "Traceback" not in told, told
        if code >= 2:
            # Before it there may be a note about each checkpoint that was passed over.
            messages = [line for line in told.splitlines() if line.startswith("brokerlab: ") and not _NOTE.match(line)]
            assert len(messages) == 1 and len(told) < MESSAGE_MAX, told
        return code, told

    return call


def damage_and_call(study: Study, said: Callable, seed: int, of: Path, resumed: bool) -> tuple[int, str]:
    """Damage a copy in a way that the seed draws, and have one or two commands read it."""
    draw = random.Random(seed)
    damaged = study.copy(of)
    how = draw.choice(damage_cases.FOLDERS)(damaged, draw, study.folder / "outside")
    commands = study.commands(damaged)
    chosen = [commands[-1]] if resumed else draw.sample(commands, 2)
    code = 0
    for command in chosen:
        try:
            code, _ = said(command)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {command[0]} after {how}: {error}") from error
    return code, how


def found_out(study: Study, said: Callable, seeds: range, of: Path, resumed: bool = False) -> int:
    """How many of the damaged folders were refused."""
    refused = sum(damage_and_call(study, said, seed, of, resumed)[0] >= 2 for seed in seeds)
    assert study.untouched
    return refused


@pytest.mark.usefixtures("no_spark")
def test_no_command_breaks_on_a_damaged_run_or_touches_what_lies_beside(study, said):
    assert found_out(study, said, range(800), study.whole.path) > 600


def test_no_resume_breaks_on_a_damaged_run_or_touches_what_lies_beside(study, said):
    assert found_out(study, said, range(200), study.cut, resumed=True) > 80


@pytest.mark.usefixtures("no_spark")
def test_a_flipped_bit_in_any_part_that_is_read_is_damage_with_its_name_and_never_a_verdict(study, said):
    read = {"audit": {"publications", "changes", "dependencies", "hops", "deliveries", "losses", "links", "brokers"}}
    read["audit"] |= {"doubled", "stays"}  # what came twice since a link had doubled it; who had left
    read["audit"] |= {"faults", "outside"}  # how much longer links take; the table of the kind
    only = {"changes", "dependencies", "faults", "doubled", "stays", "outside"}
    read["analyze"] = read["audit"] - only | {"samples"}
    read["explain"] = read["audit"] - {"dependencies", "doubled", "outside"}
    draw = random.Random(5)
    for file in study.whole.folder.manifest["files"]:
        damaged = study.copy(study.whole.path)
        path = damaged / file["path"]
        path.write_bytes(damage_cases.flipped(path.read_bytes(), draw)[0])
        for command in study.commands(damaged)[:4]:
            code, told = said(command)
            if file["table"] not in read[command[0]]:
                assert file["path"] not in told
            else:
                assert code == 2, (file["path"], command)
                assert told.startswith(f"brokerlab: {damaged}: damaged: {file['path']} is not what the run wrote")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("table", ["links", "publications", "hops", "deliveries", "changes"])
def test_a_column_without_values_is_damage_however_well_it_is_sealed(table, study, said):
    file = next(each for each in study.whole.folder.manifest["files"] if each["table"] == table and each["rows"])
    for name, _ in study.whole.folder.manifest["tables"][table]["columns"]:
        damaged = study.copy(study.whole.path)
        damage_cases.emptied_column(damaged, file["path"], name)
        told = [said(command) for command in study.commands(damaged)[2:4]]
        assert all("Traceback" not in each for _, each in told)
        if table == "links":  # read whole, whatever is asked for
            assert {code for code, _ in told} == {2}
            assert f"{file['path']} has nothing in a row of column {name!r}" in told[0][1]


def test_a_manifest_with_clients_that_are_none_is_damage(study, said):
    for clients in ("", [], {"all": ""}, {"all": {}}, {"all": {"count": "many"}}):
        damaged = study.copy(study.whole.path)
        manifest = json.loads((damaged / "manifest.json").read_text())
        manifest["scenario"]["clients"] = clients
        (damaged / "manifest.json").write_text(json.dumps(manifest))
        damage_cases.seal(damaged)
        for command in study.commands(damaged)[3:]:
            code, told = said(command)
            if str(damaged) in command[:2] and command[0] == "explain":
                assert code == 2 and "manifest.json: scenario.clients" in told


AUDIT = {
    "digest": "",
    "verdict": "valid",
    "services": [
        {
            "service": "news",
            "verdict": "valid",
            "findings": {name: {"count": 0} for name in metrics.FINDINGS},
            **dict.fromkeys(metrics.DECISIONS, 9),
        }
    ],
}


def test_a_damaged_audit_counts_as_none_and_breaks_nothing(study, said):
    whole = json.dumps({**AUDIT, "digest": study.whole.digest})
    damaged = study.copy(study.whole.path)
    kept = damaged / "analysis" / "audit.json"
    kept.parent.mkdir()
    kept.write_text(whole)
    assert Run.load(damaged).verdict == "valid"
    draw = random.Random(6)
    verdicts = set()
    for _ in range(150):
        if draw.random() < 0.3:
            kept.write_bytes(damage_cases.mutated(whole.encode(), draw)[0])
        else:
            kept.write_text(damage_cases.mutated_json(whole, draw)[0], "utf-8")
        verdicts.add(Run.load(damaged).verdict)
        said([draw.choice(("compare", "diff")), str(damaged), str(study.other.path)])
    assert verdicts == {"valid", "not audited"}


def test_a_damaged_sweep_is_refused_and_leads_nowhere_else(study, said):
    sweep = study.folder / "damaged" / "sweep"
    shutil.rmtree(sweep.parent, ignore_errors=True)
    runs = [study.whole.path, study.other.path]
    for run_path in runs:
        shutil.copytree(run_path, sweep / "runs" / run_path.name)
    points = [
        {"point": f"p{i}", "values": {"way": f"ü{i}"}, "seed": i, "status": "finished", "run": f"runs/{each.name}"}
        for i, each in enumerate(runs)
    ]
    whole = json.dumps({"name": "sweep", "points": points})
    (sweep / "sweep.json").write_text(whole)
    assert said(["compare", str(sweep)]) == (0, "")
    draw = random.Random(7)
    codes = []
    for _ in range(150):
        if draw.random() < 0.3:
            (sweep / "sweep.json").write_bytes(damage_cases.mutated(whole.encode(), draw)[0])
        else:
            (sweep / "sweep.json").write_text(damage_cases.mutated_json(whole, draw)[0], "utf-8")
        codes.append(said(["compare", str(sweep)])[0])
    assert {0, 3} <= set(codes) <= {0, 2, 3}
    (sweep / "sweep.json").write_text(whole.replace("runs/", f"{study.folder}/runs/"))
    assert said(["compare", str(sweep)])[0] == 3
