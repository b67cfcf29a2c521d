"""A program as protocol of a scenario: in every command, with `--trust` only, and gone when the run is over."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from brokers.errors import Interrupted, InvalidInput, ProtocolFault
from scenarios import cli
from scenarios.jsonschema import json_schema
from scenarios.loader import load, loads
from scenarios.problems import ScenarioErrors
from scenarios.running import resume, run
from tests.brokers.program_cases import EXAMPLES, alive_of, children_of

LEARNS = '    if "begin" in frame:\n'
EXEC = ("protocol: flooding", "protocol: {exec: [./broker.py]}")
INLINE = ["--engine", "inline"]


@pytest.fixture
def here(tmp_path, tree, monkeypatch):
    """A folder with the example in Python as `broker.py`, and a scenario that names it."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "broker.py"
    program.write_text((EXAMPLES / "subscription.py").read_text("utf-8"), "utf-8")
    program.chmod(0o755)
    tree(tmp_path, EXEC)
    return tmp_path


def said_by(arguments: list[str], code: int, capsys) -> str:
    assert cli.main(arguments) == code
    told = capsys.readouterr()
    return told.out if code == 0 else told.err


@pytest.mark.parametrize("command", ["validate", "plan", "run", "repeat"])
def test_without_trust_a_program_is_refused_and_not_started(command, here, capsys):
    (here / "broker.py").write_text("#!/bin/sh\ntouch started\n", "utf-8")
    said = said_by([command, "tree.yaml", *(["--times", "2"] if command == "repeat" else [])], 3, capsys)
    assert "tree.yaml:11:15: services[0].protocol: 'exec:./broker.py' is a program from outside brokerlab" in said
    assert "was not started" in said and "--trust" in said and not Path("started").exists()


def test_every_command_takes_a_program(here, capsys):
    assert "news (exec:./broker.py)" in said_by(["validate", "tree.yaml", "--trust"], 0, capsys)
    assert "news: content by exec:./broker.py" in said_by(["plan", "tree.yaml", "--trust"], 0, capsys)
    done = json.loads(said_by(["run", "tree.yaml", "--trust", *INLINE, "--quiet", "--json"], 0, capsys))
    folder = done["run"]
    here_too = ["--trust", "--broker", "0", "--at", "400 ms"]
    assert "subscriptions" in said_by(["inspect", folder, *here_too], 0, capsys)
    assert "verdict: valid" in said_by(["audit", folder], 0, capsys)  # which starts nothing, and needs no trust
    assert json.loads(said_by(["diff", folder, folder, "--json"], 0, capsys))["equal"]
    said_by(["repeat", "tree.yaml", "--times", "2", "--trust", *INLINE, "--quiet"], 0, capsys)


@pytest.mark.xdist_group("spark")
def test_analyze_and_explain_start_no_program_and_need_no_trust(here, spark, capsys):
    done = run("tree.yaml", engine="inline", trust=True, overrides=["trace.level=full"])
    (here / "broker.py").unlink()
    assert json.loads(said_by(["analyze", str(done.path), "--json"], 0, capsys))["runs"]
    row = done.deliveries.to_pylist()[0]
    told = said_by(["explain", str(done.path), str(row["publication"]), str(row["client"] - 7)], 0, capsys)
    assert "delivered" in told


def test_the_digest_is_that_of_the_protocol_in_python(here):
    mine = run("tree.yaml", engine="inline", trust=True)
    assert mine.digest == run("tree.yaml", engine="inline", overrides=["services.news.protocol=subscription"]).digest
    assert mine.folder.manifest["scenario"]["services"][0]["protocol"] == "exec:./broker.py"


def test_the_id_of_a_run_has_the_command_and_the_bytes_of_its_files(here):
    def id_of(*changes: str) -> str:
        return run("tree.yaml", engine="inline", trust=True, overwrite=True, overrides=changes).folder.manifest["id"]

    first = id_of()
    assert id_of("services.news.protocol=exec:./broker.py") == first
    by_words = f"services.news.protocol=exec:{sys.executable} broker.py"
    assert id_of(by_words) != first
    with open("broker.py", "a", encoding="utf-8") as file:
        file.write("# another\n")
    assert id_of() != first


def interrupted(*changes: str) -> Path:
    """A run that was stopped after its first window, with a checkpoint."""

    def stop(now_ns, events, under_way):
        if now_ns >= 200_000_000:
            raise KeyboardInterrupt

    overrides = ["engine.checkpoint_every=1 ns", "engine.window_max=100 ms", *changes]
    with pytest.raises(Interrupted):
        run("tree.yaml", engine="inline", trust=True, overrides=overrides, progress=stop)
    (folder,) = {path.parent for path in Path("runs").glob("*/manifest.json")}
    return folder


def test_an_interrupted_run_is_resumed_with_trust_from_any_folder(here, monkeypatch, tmp_path_factory):
    folder = interrupted().resolve()
    assert list(folder.glob("checkpoints/*"))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(InvalidInput, match="is a program from outside brokerlab, and was not started"):
        resume(folder, engine="inline")
    whole = run(here / "tree.yaml", engine="inline", trust=True)
    assert resume(folder, engine="inline", actors=2, trust=True).digest == whole.digest


def test_a_run_is_not_resumed_with_another_program(here):
    folder = interrupted()
    text = (here / "broker.py").read_text("utf-8")
    (here / "broker.py").write_text(text + "# another\n", "utf-8")
    with pytest.raises(InvalidInput, match=r"what the scenario refers to .* has changed since the run began"):
        resume(folder, engine="inline", trust=True)
    (here / "broker.py").write_text(text.replace('"describe": True', '"faults": True'), "utf-8")
    with pytest.raises(InvalidInput, match="says other things of itself than when the run was made"):
        resume(folder, engine="inline", trust=True)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("{exec: ./broker.py}", "`exec` is a list of texts"),
        ("{exec: []}", "`exec` is a list of texts"),
        ("{run: [./broker.py]}", r"must be a name, or a section with one key, as in \{exec: \[./broker\]\}"),
        ("exec:'", "names no program|is no command"),
        ("{exec: [./no-such-program]}", "the program exec:./no-such-program cannot be started: there is no such file"),
        ("{exec: [./tree.yaml]}", "cannot be started: it may not be executed"),
    ],
)
def test_what_names_no_program_is_told_with_its_place(named, said, here, tree):
    path = tree(here, ("protocol: flooding", f"protocol: {named}"), name="wrong.yaml")
    with pytest.raises(ScenarioErrors, match=rf"wrong.yaml:11:15: services\[0\].protocol: .*({said})"):
        load(path, trust=True)


def test_what_a_program_says_it_is_not_for_is_refused(here, tree):
    ring = ("kind: balanced-tree, branching: 2, height: 2", "kind: ring, nodes: 4")
    path = tree(here, EXEC, ring, name="ring.yaml")
    with pytest.raises(ScenarioErrors, match=r"services\[0\].protocol: .* says that it is for trees only, and"):
        run(path, engine="inline", trust=True)
    topk = (here / "broker.py").read_text("utf-8").replace('"kind": "content"', '"kind": "topk"')
    (here / "broker.py").write_text(topk, "utf-8")
    with pytest.raises(ScenarioErrors, match=r"'exec:./broker.py' serves the kind 'topk', not 'content'"):
        load("tree.yaml", trust=True)


def test_a_kind_with_a_server_is_refused_to_programs(here):
    served = (here / "broker.py").read_text("utf-8").replace('"kind": "content"', '"kind": "channels"')
    (here / "broker.py").write_text(served, "utf-8")
    with pytest.raises(ScenarioErrors, match=r"protocol: the kind .channels. has a server, which programs do not"):
        load("tree.yaml", ["services.news.kind=channels", "servers={one: {broker: 0}}"], trust=True)


def test_the_engine_threads_says_why_it_takes_no_program_and_leaves_none(here):
    before = children_of(os.getpid())
    with pytest.raises(InvalidInput, match=r"needs protocols with a compiled handler, .*: exec:./broker.py of 'news'"):
        run("tree.yaml", engine="threads", actors=2, trust=True)
    assert children_of(os.getpid()) == before


def test_the_schema_of_scenarios_knows_programs():
    schema = json_schema()
    service = {"name": "news", "kind": "content"}
    data = {"duration": "1 s", "topology": {"kind": "ring", "nodes": 4}, "clients": {"all": {"count": 1}}}
    for named in ({"exec": ["./broker", "--fast"]}, "exec:./broker a:b", "flooding"):
        jsonschema.validate({**data, "services": [{**service, "protocol": named}]}, schema)
    for named in ({"exec": []}, {"exec": "./broker"}, {"run": ["./broker"]}, "exec:"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**data, "services": [{**service, "protocol": named}]}, schema)


def test_options_of_a_program_come_to_it_and_limits_do_not(here):
    text = (here / "broker.py").read_text("utf-8")
    tells = '        return {"error": json.dumps(frame["begin"]["options"])}\n'
    (here / "broker.py").write_text(text.replace(LEARNS, LEARNS + tells), "utf-8")
    scenario = loads(
        Path("tree.yaml").read_text("utf-8"), ["services.news.options={hub: 3, answer_within: 20 s}"], trust=True
    )
    assert scenario.resolved()["services"][0]["options"] == {"hub": 3, "answer_within": 20_000_000_000}
    with pytest.raises(ProtocolFault, match=r'says: \{"hub": 3\}, when it was told its brokers'):
        run(scenario, engine="inline")


# ---- however it ends -----------------------------------------------------------------------------------

STUCK = """\
#!{python}
import json, os, sys, time
for line in sys.stdin:
    said = json.loads(line)
    if "events" in said:
        with open("stuck", "w") as file:  # a pipe
            file.write(str(os.getpid()))
        time.sleep(1000)
    print(json.dumps({{"hello": 1, "kind": "content"}} if "hello" in said else {{}}), flush=True)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 130), ("SIGKILL", -9)])
def test_a_program_that_is_in_the_middle_of_an_answer_ends_with_the_run(name, code, here):
    (here / "broker.py").write_text(STUCK.format(python=sys.executable), "utf-8")
    os.mkfifo("stuck")
    stuck = os.open("stuck", os.O_RDONLY | os.O_NONBLOCK)
    command = [sys.executable, "-c", "from scenarios.cli import entry; entry()", "run", "tree.yaml", "--trust", *INLINE]
    root = str(EXAMPLES.parents[1])
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # in the background it is ignored
    ) as running:  # fmt: skip
        assert select.select([stuck], [], [], 60)[0], "the program was never asked"
        group = int(os.read(stuck, 100))
        os.close(stuck)
        assert alive_of(group)
        running.send_signal(getattr(signal, name))
        _, said = running.communicate()
    if running.returncode != code:
        pytest.fail(f"exit code {running.returncode}:\n{said.decode()}")
    assert code != 130 or b"interrupted; finish it with: brokerlab run --resume" in said
    until = time.monotonic() + 10
    while alive := alive_of(group):
        assert time.monotonic() < until, alive
