"""Files of strangers: what they name does not run, in no command, unless `--trust` is said; then all of it works."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from brokers import names
from brokers.errors import InvalidInput, RunDamaged
from scenarios import cli
from scenarios.loader import from_data, load, loads
from scenarios.running import run

OUTSIDE = Path(__file__).parents[1] / "outside" / "visitors.py"
# What stands in `tree.yaml` (tests/scenarios/conftest.py) for each thing that has a name.
SLOTS = {
    "topology": "kind: balanced-tree, branching: 2, height: 2",
    "kind": "kind: content",
    "protocol": "protocol: flooding",
    "index": "attributes: 2",
    "source": "source: publish,",
}


def naming(slot: str, target: str) -> tuple[str, str]:
    """The change to `tree.yaml` that has it name a target."""
    old = SLOTS[slot]
    new = {
        "topology": f"kind: '{target}', command: touch imported",
        "kind": f"kind: '{target}'",
        "protocol": f"protocol: '{target}'",
        "index": f"attributes: 2\n    index: '{target}'",
        "source": f"source: '{target}',",
    }
    return old, new[slot]


def forget(name: str, folder: Path) -> None:
    sys.modules.pop(name, None)
    while str(folder) in names.beside.folders:
        names.beside.folders.remove(str(folder))


@pytest.fixture
def mean(tmp_path, monkeypatch):
    """A stranger's folder, in which we are, with a module that makes the file `imported` when it is."""
    name = "mean_" + "".join(c for c in tmp_path.name if c.isalnum())
    (tmp_path / f"{name}.py").write_text(
        "from pathlib import Path\n\nPath(__file__).with_name('imported').touch()\n\nclass Thing: pass\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    yield f"{name}:Thing"
    forget(name, tmp_path)


def refused(arguments: list[str], capsys) -> str:
    """What a command says that refuses code from outside, and has run none."""
    before = set(sys.modules), [*sys.path, *names.beside.folders]
    assert cli.main(arguments) == 3
    said = capsys.readouterr().err
    assert "is code from outside brokerlab, and was not looked at" in said and "--trust" in said
    assert not Path("imported").exists()
    assert [*sys.path, *names.beside.folders] == before[1]
    assert not [name for name in set(sys.modules) - before[0] if name.startswith("mean")]
    return said


# ---- scenarios and sweeps ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["validate", "plan", "run", "repeat"])
@pytest.mark.parametrize("slot", SLOTS)
def test_a_scenario_that_names_a_module_beside_it_is_refused_and_the_module_not_imported(
    slot, command, mean, tree, capsys
):
    path = tree(Path(), naming(slot, mean))
    more = {"run": ["--engine", "inline"], "repeat": ["--times", "2", "--engine", "inline"]}.get(command, [])
    said = refused([command, str(path), *more], capsys)
    assert f"tree.yaml:{path.read_text().split(mean)[0].count(chr(10)) + 1}:" in said  # with its line


@pytest.mark.parametrize("target", ["os:system", "subprocess:run", "builtins:eval", "pickle:loads"])
@pytest.mark.parametrize("slot", SLOTS)
def test_what_runs_commands_is_refused_trusted_or_not(slot, target, mean, tree, capsys):
    path = str(tree(Path(), naming(slot, target)))
    refused(["validate", path], capsys)
    assert cli.main(["validate", path, "--trust"]) == 3
    assert f"{target!r} is no " in capsys.readouterr().err
    assert not Path("imported").exists()


def test_a_sweep_whose_points_or_scenario_name_code_from_outside_is_refused(mean, tree, capsys):
    tree(Path())
    tree(Path(), naming("protocol", mean), name="mean.yaml")
    sweeps = {
        "vary.yaml": f"scenario: tree.yaml\nvary: {{services.news.protocol: [flooding, '{mean}']}}\n",
        "set.yaml": f"scenario: tree.yaml\nset: {{topology.kind: '{mean}'}}\nrepeats: 2\n",
        "zip.yaml": f"scenario: tree.yaml\nzip: {{services.news.index: ['{mean}']}}\n",
        "named.yaml": "scenario: mean.yaml\nrepeats: 2\n",
    }
    for name, text in sweeps.items():
        Path(name).write_text(text, encoding="utf-8")
        for more in ([], ["--dry-run"]):
            refused(["sweep", name, "--engine", "inline", *more], capsys)


def test_what_takes_no_scenario_imports_nothing_either(mean, tree, capsys):
    tree(Path(), naming("kind", mean))
    for command in ("list", "schema"):
        assert cli.main([command]) == 0
    capsys.readouterr()
    refused(["calibrate", mean], capsys)


def test_from_python_trust_is_said_in_the_call(mean, tree):
    path = tree(Path(), naming("protocol", mean))
    for call in (
        lambda: load(path),
        lambda: loads(path.read_text()),
        lambda: run(path, engine="inline"),
        lambda: from_data({"services": [{"protocol": mean}], "topology": {"kind": mean}}),
    ):
        with pytest.raises(InvalidInput, match="is code from outside brokerlab"):
            call()
    assert not Path("imported").exists()
    with pytest.raises(InvalidInput, match="give them when the scenario is loaded"):
        run(load(tree(Path())), trust=True)


# ---- run folders -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest(tree, tmp_path_factory):
    """A run that names nothing from outside."""
    folder = tmp_path_factory.mktemp("honest")
    return run(tree(folder, more="trace: {level: full}\n"), engine="inline", out=folder / "runs").path


@pytest.fixture
def pretending(honest, mean):
    """Makes, here, a copy of the run that says it was of something else, and passes for whole."""

    def pretend(slot: str, finished: bool = True) -> Path:
        copy = Path(f"{slot}-{finished}").absolute()
        shutil.copytree(honest, copy)
        manifest = json.loads((copy / "manifest.json").read_bytes())
        service = manifest["scenario"]["services"][0]
        if slot == "topology":
            manifest["scenario"]["topology"] = {"kind": mean}
        elif slot == "source":
            service["workload"][0]["source"] = mean
        else:
            service[slot] = mean
        manifest["engine"]["scenario_folder"] = manifest["scenario_folder"] = ".."
        text = json.dumps(manifest).encode()
        (copy / "manifest.json").write_bytes(text)
        (copy / "_SUCCESS").write_text(hashlib.sha256(text).hexdigest() + "\n")
        if not finished:
            (copy / "_SUCCESS").unlink()
        return copy

    return pretend


@pytest.mark.parametrize("slot", SLOTS)
def test_a_run_folder_that_names_a_module_beside_it_is_refused_and_the_module_not_imported(slot, pretending, capsys):
    folder = str(pretending(slot))
    assert f"{folder}/manifest.json: " in refused(["inspect", folder, "--broker", "0", "--at", "10 ms"], capsys)
    if slot in ("kind", "protocol"):
        pytest.importorskip("pyspark")
        for arguments in (["audit", folder], ["analyze", folder], ["explain", folder, "0#0"]):
            assert folder in refused(arguments, capsys)
    assert cli.main(["diff", folder, folder]) == 0
    assert cli.main(["compare", folder]) == 0
    assert cli.main(["report", folder, "--out", "report.html"]) == 0  # which leaves out what needs the module
    assert not Path("imported").exists()


@pytest.mark.parametrize("slot", SLOTS)
def test_an_interrupted_run_that_names_a_module_beside_it_is_not_resumed(slot, pretending, capsys):
    folder = str(pretending(slot, finished=False))
    assert f"{folder}/manifest.json: " in refused(["run", "--resume", folder, "--engine", "inline"], capsys)


@pytest.mark.parametrize("link", ["_lock", "manifest.json", "tables/hops"])
def test_a_run_folder_with_links_is_not_written_to(link, honest, tmp_path, capsys):
    folder, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(honest, folder)
    (folder / "_SUCCESS").unlink()
    if (folder / link).is_dir():
        (folder / link).rename(victim)
    else:
        victim.write_bytes((folder / link).read_bytes() if (folder / link).exists() else b"mine")
        (folder / link).unlink(missing_ok=True)
    kept = sorted(victim.iterdir()) if victim.is_dir() else victim.read_bytes()
    (folder / link).symlink_to(victim)
    assert cli.main(["run", "--resume", str(folder), "--engine", "inline", "--quiet"]) == 2
    assert f"{link} is a link, which no run makes" in capsys.readouterr().err
    assert (sorted(victim.iterdir()) if victim.is_dir() else victim.read_bytes()) == kept


def test_an_audit_is_not_written_through_links(honest, tmp_path):
    pytest.importorskip("pyspark")
    from analysis.spark.trace import write_json
    from brokers.engine.runfolder import open_run

    folder, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(honest, folder)
    victim.write_text("mine", encoding="utf-8")
    (folder / "analysis").mkdir()
    (folder / "analysis" / "_tmp-audit.json").symlink_to(victim)
    run = open_run(honest)
    run.path = folder  # it was in order when it was opened
    with pytest.raises(RunDamaged, match=r"_tmp-audit\.json is a link"):
        write_json(run, "audit.json", {})
    (folder / "analysis" / "_tmp-audit.json").unlink()
    (folder / "analysis").rmdir()
    (folder / "analysis").symlink_to(tmp_path)
    with pytest.raises(RunDamaged, match="analysis is a link"):
        write_json(run, "audit.json", {})
    assert victim.read_text(encoding="utf-8") == "mine" and not (tmp_path / "audit.json").exists()


# ---- with trust --------------------------------------------------------------------------------------


@pytest.fixture
def study(tree, tmp_path, monkeypatch):
    """We are in the folder of a study whose scenario takes everything that has a name from a module beside it."""
    name = "visitors_" + "".join(c for c in tmp_path.name if c.isalnum())
    (tmp_path / f"{name}.py").write_text(
        OUTSIDE.read_text(encoding="utf-8").replace("visitors:", f"{name}:"), encoding="utf-8"
    )
    tree(
        tmp_path,
        ("kind: balanced-tree, branching: 2, height: 2", f"kind: '{name}:corridor', rooms: 5"),
        ("kind: content", f"kind: {name}:Visitors"),
        ("protocol: flooding", f"protocol: {name}:Guide"),
        ("attributes: 2", f"attributes: 2\n    index: {name}:Book"),
        ("source: subscribe,", f"source: '{name}:Arrive',"),
        ("source: publish,", f"source: '{name}:Speak',"),
        more="trace: {level: full}\n",
    )
    (tmp_path / "many.yaml").write_text("scenario: tree.yaml\nrepeats: 2\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield
    forget(name, tmp_path)


def json_of(arguments: list[str], capsys) -> dict:
    assert cli.main([*arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_with_trust_everything_from_outside_works_in_every_command(study, capsys):
    for command in (["validate", "tree.yaml"], ["plan", "tree.yaml"]):
        assert cli.main(command) == 3
        assert capsys.readouterr().err.count("is code from outside brokerlab") == 5  # the index waits for its kind
    assert cli.main(["validate", "tree.yaml", "--trust"]) == 0
    capsys.readouterr()
    assert json_of(["plan", "tree.yaml", "--trust", "--engine", "inline"], capsys)["brokers"] == 5
    done = json_of(["run", "tree.yaml", "--trust", "--engine", "inline", "--quiet"], capsys)
    assert done["metrics"]["services"]["news"]["deliveries"] > 0
    state = json_of(["inspect", done["run"], "--broker", "0", "--at", "400 ms", "--trust"], capsys)
    assert state["neighbours"] == ["b1"]
    assert json_of(["diff", done["run"], done["run"], "--trust"], capsys)["equal"]
    assert json_of(["compare", done["run"], "--trust"], capsys)
    times = json_of(["repeat", "tree.yaml", "--times", "2", "--trust", "--engine", "inline", "--quiet"], capsys)
    assert (times["finished"], times["failed"]) == (2, [])
    # In processes of their own, which are told.
    swept = json_of(["sweep", "many.yaml", "--trust", "--engine", "inline", "--jobs", "2", "--quiet"], capsys)
    assert (swept["finished"], swept["failed"]) == (2, [])


def test_an_interrupted_run_from_outside_is_resumed_with_trust_and_says_so(study, capsys):
    from brokers.errors import Interrupted

    def press_control_c(*figures):
        raise KeyboardInterrupt

    whole = run("tree.yaml", engine="inline", trust=True)
    with pytest.raises(Interrupted, match=r"finish it with: brokerlab run --resume .* --trust"):
        run("tree.yaml", engine="inline", out="cut", progress=press_control_c, trust=True)
    (folder,) = Path("cut").glob("tree-*")
    resumed = json_of(["run", "--resume", str(folder), "--trust", "--engine", "inline", "--quiet"], capsys)
    assert resumed["digest"] == whole.digest


def test_what_an_installed_package_registers_works_by_its_name_and_without_trust(tree, tmp_path, monkeypatch, capsys):
    name = "installed_" + "".join(c for c in tmp_path.name if c.isalnum())
    site = tmp_path / "site"
    info = site / "installed-1.0.dist-info"
    info.mkdir(parents=True)
    text = OUTSIDE.read_text(encoding="utf-8").replace("visitors:", f"{name}:")
    (site / f"{name}.py").write_text(text, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        f"[brokerlab.kinds]\nguests = {name}:Visitors\n[brokerlab.protocols]\nguide = {name}:Guide\n"
        f"[brokerlab.indexes]\nbook = {name}:Book\n[brokerlab.topologies]\ncorridor = {name}:corridor\n"
        f"[brokerlab.workloads]\narrive = {name}:Arrive\nspeak = {name}:Speak\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    tree(
        tmp_path,
        ("kind: balanced-tree, branching: 2, height: 2", "kind: corridor, rooms: 5"),
        ("kind: content", "kind: guests"),
        ("protocol: flooding", "protocol: guide"),
        ("attributes: 2", "attributes: 2\n    index: book"),
        ("source: subscribe,", "source: arrive,"),
        ("source: publish,", "source: speak,"),
    )
    for group, registered in (("topologies", "corridor"), ("kinds", "guests"), ("workloads", "speak")):
        assert json_of(["list", group], capsys)[group][registered]["prose"] == "from installed"
    done = json_of(["run", "tree.yaml", "--engine", "inline", "--quiet"], capsys)
    assert done["metrics"]["services"]["news"]["deliveries"] > 0
    state = json_of(["inspect", done["run"], "--broker", "0", "--at", "400 ms"], capsys)
    assert state["neighbours"] == ["b1"]
    pytest.importorskip("pyspark")
    from analysis.spark.trace import services_of
    from brokers.engine.runfolder import open_run

    (service,) = services_of(open_run(done["run"]))
    assert (service.kind_name, service.kind.name, service.protocol.__name__) == ("guests", "visitors", "Guide")
    sys.modules.pop(name)


@pytest.mark.xdist_group("spark")
def test_a_run_from_outside_is_audited_analyzed_and_explained_with_trust(study, spark, capsys):
    done = run("tree.yaml", engine="inline", trust=True)
    folder = str(done.path)
    for command in (["audit", folder], ["analyze", folder], ["explain", folder, "0#0"]):
        assert cli.main(command) == 3
        assert "is code from outside" in capsys.readouterr().err
    (service,) = json_of(["audit", folder, "--trust"], capsys)["services"]
    assert (service["verdict"], service["forced"] > 100) == ("valid", True)
    assert json_of(["analyze", folder, "--trust"], capsys)["runs"]
    publication = done.publications["publication"][0].as_py()
    client = done.deliveries["client"][0].as_py()
    told = json_of(["explain", folder, str(publication), str(client), "--trust"], capsys)
    assert told["service"] == "news"


@pytest.mark.ray
def test_actors_and_tasks_of_ray_run_what_was_trusted(study, capsys):
    pytest.importorskip("ray")
    here = run("tree.yaml", engine="inline", trust=True)
    there = json_of(["run", "tree.yaml", "--trust", "--engine", "ray", "--actors", "2", "--quiet"], capsys)
    assert there["digest"] == here.digest
    swept = json_of(["sweep", "many.yaml", "--trust", "--engine", "ray", "--jobs", "1", "--quiet"], capsys)
    assert (swept["finished"], swept["failed"]) == (2, [])


# ---- the folder that somebody happens to be in -------------------------------------------------------

SHADOWS = ("simpy", "brokers", "socket", "tempfile", "runpy", "colorsys", "numba", "networkx")


@pytest.fixture
def shadows(tree, tmp_path):
    """A stranger's folder, with modules of names that are imported sooner or later, and a Numba configuration."""
    tree(tmp_path)
    (tmp_path / "many.yaml").write_text("scenario: tree.yaml\nrepeats: 2\n", encoding="utf-8")
    for name in SHADOWS:
        program = f"from pathlib import Path\nPath(__file__).with_name('imported-{name}').touch()\nraise ImportError\n"
        (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'kernels'}\n", encoding="utf-8")
    return tmp_path


def called_in(folder: Path, *arguments: str) -> None:
    """Call the installed command in a folder; what lies there has had no say."""
    program = Path(sys.executable).with_name("brokerlab")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTHON"))}
    done = subprocess.run(
        [program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.glob("imported-*"))
    assert not (folder / "kernels").exists()


def test_modules_in_the_folder_where_a_command_is_called_are_not_imported_by_its_processes(shadows):
    called_in(shadows, "sweep", "many.yaml", "--engine", "inline", "--jobs", "2", "--quiet")


@pytest.mark.ray
def test_modules_in_the_folder_where_a_command_is_called_are_not_imported_by_actors(shadows):
    pytest.importorskip("ray")
    called_in(shadows, "run", "tree.yaml", "--engine", "ray", "--actors", "2", "--quiet")


@pytest.mark.ray
@pytest.mark.parametrize("arguments", [["run", "tree.yaml", "--engine", "ray", "--actors", "2"],
                                       ["sweep", "many.yaml", "--engine", "inline", "--jobs", "2"]])  # fmt: skip
def test_modules_beside_a_trusted_scenario_take_the_place_of_nothing(shadows, study, arguments):
    for package in ("topology", "protocols", "scenarios", "analysis"):
        (shadows / f"{package}.py").write_text((shadows / "brokers.py").read_text("utf-8"), encoding="utf-8")
    called_in(shadows, *arguments, "--trust", "--quiet")


# ---- what a kind names -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["os:system", "subprocess:run", "builtins:eval"])
def test_a_judge_a_rule_and_a_rehearsal_have_to_be_what_their_name_says(target):
    pytest.importorskip("pyspark")
    from analysis.spark.rules import rule_of
    from analysis.spark.trace import Service
    from brokers.contract import Guarantees
    from protocols.conformance import REHEARSALS, audit, rehearse
    from protocols.content.flooding import Flooding
    from protocols.content.kind import Content
    from protocols.content.manifest import CONTENT

    class Mean(Content):
        manifest = replace(CONTENT, name="mean", kind="x:Mean", judge=target, audit_rule=target, rehearsal=target)

    with pytest.raises(InvalidInput, match=f"{target!r} is no judge"):
        audit({}, Mean({"attributes": 1}), Guarantees())
    with pytest.raises(InvalidInput, match=f"{target!r} is no audit rule"):
        rule_of(Service(0, "s", "x:Mean", "x:P", Mean({"attributes": 1}), None, {}, None))

    class Visit(Flooding.plain):
        kind = "mean"

    with pytest.raises(InvalidInput, match=f"{target!r} is no rehearsal"):
        rehearse(REHEARSALS[0], Visit, kind=Mean)
