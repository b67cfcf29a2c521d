"""`import brokerlab`: one name for everything, at once, and what its docstring shows."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import brokerlab

TREE = """\
duration: 1 s
topology: {kind: line, nodes: 4}
clients: {all: {count: 4}}
services:
  - name: news
    kind: content
    attributes: 2
    protocol: flooding
    workload: [{source: subscribe, width: 0.5}, {source: publish, rate: 10/s}]
"""
DOCTEST = """
import doctest, sys, brokerlab
sys.exit(doctest.testmod(brokerlab).failed > 0 or doctest.testmod(brokerlab).attempted < 6)
"""


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.yaml"
    path.write_text(TREE, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", brokerlab.__all__)
def test_every_name_is_there_and_explains_itself(name):
    found = getattr(brokerlab, name)
    assert inspect.getdoc(found) if name != "__version__" else found.count(".") == 2


def test_what_type_checkers_see_is_what_there_is():
    tree = ast.parse(Path(brokerlab.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            seen |= {each.asname or each.name: f"{node.module}:{each.name}" for each in node.names}
        elif isinstance(node, ast.Assign):
            seen[node.targets[0].id] = f"scenarios.running:{ast.unparse(node.value)}"
    assert seen == brokerlab._HOMES
    assert sorted([*seen, "__version__"]) == sorted(brokerlab.__all__) == sorted(dir(brokerlab))


def test_importing_it_imports_nothing_else_of_ours_and_nothing_heavy():
    program = (
        "import sys; before = set(sys.modules); import brokerlab;"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['brokerlab']"


def test_a_name_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(AttributeError, match=r"brokerlab has no 'runn'; it has BrokerlabError.*, sweep"):
        brokerlab.runn  # noqa: B018


def test_what_the_docstring_shows_is_so(tmp_path):
    done = subprocess.run([sys.executable, "-c", DOCTEST], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_is_opened_compared_and_repeated_by_one_name(tree, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = brokerlab.run(tree, engine="inline")
    again = brokerlab.open_run("runs/latest")
    assert again.digest == done.digest == brokerlab.run(brokerlab.load_scenario(tree), engine="inline").digest
    assert brokerlab.diff(done, again).equal
    assert brokerlab.compare([done, again]).labels == brokerlab.compare([done.path, again.path]).labels
    assert brokerlab.plan(brokerlab.load_scenario(tree)).brokers == 4
    results = brokerlab.repeat(tree, 2, engine="inline")
    assert [state.status for state in results.finished] == ["finished"] * 2
    assert results.finished[0].run.digest == done.digest


def test_a_sweep_file_is_carried_out(tree, tmp_path):
    (tmp_path / "sweep.yaml").write_text("scenario: tree.yaml\nvary: {clients.all.count: [2, 4]}\n", encoding="utf-8")
    done = brokerlab.sweep(tmp_path / "sweep.yaml", ["repeats=2"], engine="inline", out=tmp_path / "sweeps")
    assert len(done.finished) == 4
    assert isinstance(done, brokerlab.SweepResult)


def test_the_way_of_a_message_of_a_run(tree, tmp_path):
    done = brokerlab.run(tree, engine="inline", overrides=["trace.level=full"], out=tmp_path)
    assert brokerlab.explain(done, "0#1")["message"] == "0#1"


def test_names_are_those_that_the_command_lists(capsys):
    from scenarios import cli

    assert cli.main(["list", "protocols"]) == 0
    listed = capsys.readouterr().out
    names = brokerlab.names("protocols")
    assert names and all(f"  {name} " in listed and str(each["prose"]) in listed for name, each in names.items())


def test_a_mistake_is_raised_as_what_the_docstring_says(tmp_path):
    with pytest.raises(brokerlab.BrokerlabError, match="quickstart") as raised:
        brokerlab.run("quikstart", out=tmp_path)
    assert isinstance(raised.value, brokerlab.InvalidInput)
