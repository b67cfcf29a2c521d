"""The command line: exit codes, where answers and complaints go, and what is not imported."""

import json
import subprocess
import sys

import jsonschema
import pytest
from ruamel.yaml import YAML

import scenarios.commands.doctor as doctor
from brokers import names
from brokers.errors import EnvironmentProblem, RunIncomplete
from scenarios import cli, document
from scenarios.commands.list import GROUPS
from scenarios.hunt.judges import JUDGES
from scenarios.loader import shipped
from scenarios.many import metrics

SMALL = """\
duration: 1 s
topology: {kind: line, nodes: 4}
clients: {all: {count: 4}}
services:
  - {name: news, kind: content, attributes: 2, protocol: flooding, workload: [{source: publish, rate: 10/s}]}
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return str(path)


def test_help_names_every_command_and_imports_nothing_heavy():
    program = (
        "import sys; from scenarios.cli import main; assert main(['--help']) == 0;"
        "heavy = {'numpy', 'numba', 'ray', 'pyarrow', 'networkx', 'simpy', 'pydantic', 'ruamel.yaml'};"
        "sys.exit(f'imported: {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, command in cli.COMMANDS.items():
        assert f"  {name}" in done.stdout
        assert command.prose in done.stdout


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_explains_itself_with_examples(name, capsys):
    assert cli.main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: brokerlab {name}" in text
    assert f"brokerlab {name}" in text.partition("examples:")[2]


def test_help_of_a_command_imports_neither_numba_nor_ray():
    program = (
        "import sys; from scenarios.cli import COMMANDS, main;"
        "assert all(main([name, '--help']) == 0 for name in COMMANDS);"
        "heavy = {'numpy', 'numba', 'ray', 'pyarrow', 'networkx', 'simpy'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_command_at_all_shows_the_help_and_is_an_error(capsys):
    assert cli.main([]) == 3
    assert "usage: brokerlab" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rnu"], "no command 'rnu'; did you mean 'run'?"),
        (["validate"], "the following arguments are required: FILE"),
        (["plan", "quickstart", "--engine", "warp"], "invalid choice: 'warp'"),
        (["validate", "quickstrat"], "did you mean 'quickstart'?"),
        (["validate", "quickstart", "--set", "duration=long"], "--set duration: duration: expected"),
        (["validate", "quickstart", "--seed", "-1"], "--set seed: seed: must be at least 0 (got -1)"),
        (["list", "protocol"], "invalid choice: 'protocol'"),
        (["reproduce", "everything"], "nothing to reproduce under the name 'everything'"),
    ],
)
def test_wrong_arguments_are_said_on_stderr_with_exit_code_3(arguments, words, capsys):
    assert cli.main(arguments) == 3
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EnvironmentProblem("no disk"), 4),
        (RunIncomplete("half a run"), 2),
        (KeyboardInterrupt(), 130),
        (MemoryError(), 4),
    ],
)
def test_an_error_becomes_its_exit_code(error, code, capsys, monkeypatch):
    def fail(arguments):
        raise error

    monkeypatch.setattr("scenarios.commands.list.command", fail)
    assert cli.main(["list"]) == code
    assert capsys.readouterr().err.startswith("brokerlab: ")


def test_a_mistake_in_the_program_is_one_line_and_a_traceback_only_when_asked_for(capsys, monkeypatch):
    def fail(arguments):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("scenarios.commands.list.command", fail)
    monkeypatch.delenv("BROKERLAB_DEBUG", raising=False)
    assert cli.main(["list"]) == cli.SOFTWARE_FAULT
    quiet = capsys.readouterr().err
    assert "Please report" in quiet
    assert quiet.count("\n") == 1
    monkeypatch.setenv("BROKERLAB_DEBUG", "1")
    assert cli.main(["list"]) == cli.SOFTWARE_FAULT
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error():
    program = "import sys; from scenarios.cli import entry; sys.argv = ['brokerlab', 'list']; entry()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        complaint = process.stderr.read()
        assert process.wait() == 0
    assert complaint == b""


def test_a_valid_scenario_is_called_valid(small, capsys):
    assert cli.main(["validate", small]) == 0
    assert "small.yaml: valid; 4 brokers, 3 links, news (flooding)" in capsys.readouterr().out


def test_a_network_that_cannot_be_built_is_a_mistake_in_the_topology(small, capsys):
    arguments = ["--set", "topology={kind: balanced-tree, branching: 10, height: 9}"]
    assert cli.main(["validate", small, *arguments]) == 3
    assert "--set topology: topology: " in capsys.readouterr().err


def test_a_placement_on_a_broker_that_is_not_there_is_told_at_its_place(small, capsys):
    assert cli.main(["validate", small, "--set", "clients.all.placement={kind: explicit, brokers: [9]}"]) == 3
    message = capsys.readouterr().err
    assert "--set clients.all.placement: clients.all.placement: there is no broker 9" in message


def test_an_override_of_a_link_that_is_not_there_is_told_at_the_links(tmp_path, capsys):
    path = tmp_path / "links.yaml"
    path.write_text(SMALL + "links:\n  overrides: [{between: [0, 3], delay: 1 ms}]\n", encoding="utf-8")
    assert cli.main(["validate", str(path)]) == 3
    assert f"{path}:7:3: links: " in capsys.readouterr().err


def test_a_replay_file_is_found_beside_the_scenario_and_checked_before_the_run(tmp_path, capsys):
    path = tmp_path / "replay.yaml"
    text = SMALL.replace("source: publish, rate: 10/s", "source: replay, file: events.csv")
    path.write_text(text, encoding="utf-8")
    assert cli.main(["validate", str(path)]) == 3
    assert "events.csv: cannot be read" in capsys.readouterr().err
    (tmp_path / "events.csv").write_text("time_s,client,op,a0\n0.5,0,publish,0.5\n", encoding="utf-8")
    assert cli.main(["validate", str(path)]) == 0
    (tmp_path / "events.csv").write_text("time_s,client,op,a0\n0.5,7,publish,0.5\n", encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["validate", str(path)]) == 3
    assert "events.csv:2: the group has clients 0 to 3 (got 7)" in capsys.readouterr().err


def test_notes_on_a_replay_file_are_told_by_validate_plan_and_run(tmp_path, capsys):
    path = tmp_path / "replay.yaml"
    text = SMALL.replace("source: publish, rate: 10/s", "source: replay, file: events.csv, cut: true")
    path.write_text(text, encoding="utf-8")
    (tmp_path / "events.csv").write_text("Unnamed: 0,time_s,client,op,a0\n0,0.5,0,publish,1\n1,9999,0,publish,1\n")
    notes = ["the column 'Unnamed: 0' is ignored; it is the index of a data frame", "1 events are left out"]
    inline = ["--engine", "inline"]
    for command, *options in (["validate"], ["plan", *inline], ["run", *inline, "--out", str(tmp_path)]):
        assert cli.main([command, str(path), *options]) == 0
        told = "".join(capsys.readouterr())
        label = "note     " if command == "run" else "note: "  # a line of its summary
        assert all(f"{label}{tmp_path / 'events.csv'}: {note}" in told for note in notes)


def test_a_replay_file_that_holds_no_events_is_noted(tmp_path, capsys):
    path = tmp_path / "replay.yaml"
    path.write_text(SMALL.replace("source: publish, rate: 10/s", "source: replay, file: events.csv"), encoding="utf-8")
    (tmp_path / "events.csv").write_text("time_s,client,op,a0\n", encoding="utf-8")
    assert cli.main(["validate", str(path)]) == 0
    assert f"note: {tmp_path / 'events.csv'}: holds no events" in "".join(capsys.readouterr())


def test_the_schema_is_valid_and_so_is_every_shipped_scenario_under_it(capsys):
    assert cli.main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name, path in shipped().items():
        data = YAML(typ="safe", pure=True).load(path)
        assert [error.message for error in validator.iter_errors(data)] == [], name


@pytest.mark.parametrize(
    "override",
    ["topology={kind: line, node: 4}", "topology={kind: star}", "services.news.index=no-such", "sed=1"],
)
def test_the_schema_refuses_what_the_loader_refuses(override, small, capsys):
    assert cli.main(["schema"]) == 0
    validator = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    source = SMALL.encode()
    assert validator.is_valid(document.read(source, "small").data)
    assert cli.main(["validate", small, "--set", override]) == 3
    assert not validator.is_valid(document.read(source, "small", [override]).data)


def test_list_covers_every_registered_name_with_a_line_of_prose(capsys):
    assert cli.main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    for group in set(GROUPS) - {"metrics", "scenarios", "judges"}:
        assert set(listed[group]) == set(names.table(group))
    assert set(listed["metrics"]) == {*metrics.SERVICE, *metrics.AUDIT, *names.table("metrics")}
    assert set(listed["scenarios"]) == set(shipped())
    assert set(listed["judges"]) == set(JUDGES)
    prose = [entry["prose"] for group in listed.values() for entry in group.values()]
    assert all(line and "\n" not in line for line in prose)
    assert cli.main(["list"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for group in GROUPS for name in listed[group])


def test_every_registered_name_stands_for_what_the_contract_of_its_group_says():
    for group in set(GROUPS) - {"metrics", "scenarios", "judges"}:
        for name in names.table(group):
            target, loaded = names.find(group, name)  # which refuses anything else
            assert ":" in target
            assert callable(loaded)


def test_the_plan_counts_what_the_scenario_says(small, capsys):
    assert cli.main(["plan", small, "--engine", "inline", "--actors", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["brokers"], answer["links"], answer["clients"], answer["actors"]) == (4, 3, 4, 2)
    assert (answer["cut_links"], answer["lookahead_ns"], answer["imbalance"]) == (1, 10_000_000, 0)
    # 4 clients publish 10 times a second, and 4 brokers handle each.
    assert answer["events_per_s"] == 160
    assert answer["lambda"] == pytest.approx(0.01 * 160 / (50e-6 * 1e6))
    assert "side by side" in answer["advice"]


def test_the_plan_of_one_actor_has_nothing_to_exchange(small, capsys):
    assert cli.main(["plan", small, "--engine", "inline"]) == 0
    assert "one actor: nothing is exchanged" in capsys.readouterr().out


def test_a_partition_that_does_not_fit_is_told_at_its_place(small, capsys):
    assert cli.main(["plan", small, "--actors", "2", "--set", "engine.partition=[0, 1]"]) == 3
    assert "--set engine.partition: engine.partition: the list has 2 entries" in capsys.readouterr().err


def test_init_writes_a_scenario_that_is_valid_and_never_overwrites_one(tmp_path, capsys):
    folder = tmp_path / "study"
    assert cli.main(["init", str(folder)]) == 0
    written = (folder / "scenario.yaml").read_text(encoding="utf-8")
    assert written.startswith("#")
    assert cli.main(["validate", str(folder / "scenario.yaml")]) == 0
    assert cli.main(["init", str(folder)]) == 3
    assert "is there already" in capsys.readouterr().err
    assert (folder / "scenario.yaml").read_text(encoding="utf-8") == written


def test_init_where_nothing_can_be_written_is_the_environments_fault(tmp_path, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert cli.main(["init", str(tmp_path / "file" / "below")]) == 4
    assert "cannot write" in capsys.readouterr().err


def test_doctor_finds_what_the_tests_need(capsys):
    code = cli.main(["doctor", "--json"])
    findings = {finding["what"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert set(findings) == {"Python", "packages", "own names", "Numba cache", "Ray", "Java", "Spark"}
    assert findings["packages"]["fine"]
    assert code == (0 if all(finding["fine"] for finding in findings.values()) else 4)


def test_doctor_says_how_to_get_what_is_missing(capsys, monkeypatch):
    absent = doctor.Finding("Ray", False, "not installed", "pip install x", "slow")
    monkeypatch.setattr(doctor, "ray", lambda: absent)
    assert cli.main(["doctor"]) == 4
    text = capsys.readouterr().out
    assert "MISSING  Ray" in text
    assert "pip install x" in text


@pytest.mark.parametrize("name", ["analysis", "brokerlab", "brokers", "protocols", "scenarios", "topology"])
def test_doctor_names_a_package_that_is_called_as_one_of_ours(name, tmp_path, capsys, monkeypatch):
    assert doctor.own_names().fine
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    about = tmp_path / "lab_tools-2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-tools\nVersion: 2.0\n", encoding="utf-8")
    (about / "RECORD").write_text(f"{name}/__init__.py,,\nlab_tools-2.0.dist-info/METADATA,,\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["doctor"]) == 4
    text = capsys.readouterr().out
    assert f"MISSING  own names    {name} is of lab-tools too, and imported from " in text
    assert "an environment of its own" in text


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "25" 2025-09-16', 25),
    ],
)
def test_doctor_reads_the_release_of_a_java(said, release, tmp_path):
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    assert doctor.java_release(str(program)) == release


def test_doctor_prefers_the_java_of_java_home_if_it_is_new_enough(tmp_path, monkeypatch):
    for home, release in (("old", "1.8.0"), ("new", "21.0.1")):
        program = tmp_path / home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\"' >&2\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "new" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert "from PATH" in doctor.java().found
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    assert "from JAVA_HOME" in doctor.java().found
