"""Setting up compiles every kernel: nothing that is shipped compiles one afterwards."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

from analysis.papers.registry import PAPERS
from analysis.warm import compiling, lives
from analysis.warm.events import listening
from brokers.compiled import Handler
from brokers.errors import BrokerlabError
from brokers.indexes.registry import INDEXES
from brokers.kinds import manifests
from scenarios.loader import shipped

ROOT = Path(__file__).parents[2]
PACKAGES = ("topology", "brokers", "protocols", "scenarios", "analysis")

# Run in a process of its own, in which no kernel is loaded yet. What it prints was compiled.
AFTERWARDS = """
import sys, tempfile
from analysis.warm.events import listening

def scenarios():
    from scenarios.loader import shipped
    from scenarios.running import resume, run
    for name in sorted(shipped()):
        with tempfile.TemporaryDirectory() as folder:
            overrides = ["duration=2500 ms", "engine.checkpoint_every=1 s"]
            run(name, engine="inline", actors=1 + len(name) % 3, overrides=overrides, out=folder)

def papers():
    from analysis.papers.registry import PAPERS
    from brokers.registry import load
    for paper in PAPERS.values():
        load(paper.facts["tiny"])()

def looking():
    from analysis.warm.lives import looking
    looking()

with listening(lambda compiled: print(compiled, flush=True)):
    globals()[sys.argv[1]]()
"""
# A kernel that nobody has compiled, in a file that is new.
STRANGER = """
from numba import njit

@njit(cache=True)
def unheard_of(x):
    return x + 1

def papers():
    unheard_of(1)
"""


def compiled_by(program: str, what: str, folder: Path) -> list[str]:
    """What a fresh process compiles; third parties' modules lie in the folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    done = subprocess.run(
        [sys.executable, "-c", program, what], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("what", ["scenarios", "papers", "looking"])
def test_nothing_is_compiled_after_setting_up(what, tmp_path):
    assert compiled_by(AFTERWARDS, what, tmp_path) == []


def test_a_kernel_that_was_not_compiled_when_setting_up_is_named_with_its_signature(tmp_path):
    (tmp_path / "stranger.py").write_text(STRANGER)
    program = AFTERWARDS.replace("with listening", "from stranger import papers\nwith listening")
    assert compiled_by(program, "papers", tmp_path) == ["stranger.unheard_of(int64,)"]
    assert compiled_by(program, "papers", tmp_path) == []  # it is on disk now


def kernels() -> dict[str, Dispatcher]:
    """Every function of ours that Numba keeps on disk, by module and name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text("utf-8")
            if "njit" in text or "@handler" in text:
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                module = importlib.import_module(name)
                for attribute, value in vars(module).items():
                    value = value.kernel if isinstance(value, Handler) else value
                    if isinstance(value, Dispatcher) and value.py_func.__module__ == name:
                        found[f"{name}.{attribute}"] = value
    return found


# Parts of kernels that only a test, or a check, calls by themselves.
ONLY_TESTED = {
    "brokers.engine.settle.transmission_ns", "brokers.indexes.topics.trie_kernels.lead",
    "brokers.indexes.topics.trie_kernels.look_up",
}  # fmt: skip


def on_disk(kernel: Dispatcher) -> bool:
    """Whether a specialisation is kept, of the source as it is now."""
    return bool(kernel._cache._cache_file._load_index())


def test_every_kernel_of_the_packages_has_been_compiled():
    cached = {name: each for name, each in kernels().items() if hasattr(each._cache, "_cache_file")}
    assert len(cached) > 300
    missing = {name for name, each in cached.items() if not on_disk(each) and "inline" not in each.targetoptions}
    assert missing <= ONLY_TESTED


def test_every_protocol_index_paper_and_shipped_scenario_has_a_life():
    stages = list(lives.stages())
    arguments = [life.args for stage in stages for part in stage for life in part.lives if hasattr(life, "args")]
    for index, entry in INDEXES.items():
        kind = next(each.name for each in manifests() if each.question == entry.facts["question"])
        assert (kind, index) in arguments
    assert all(each.protocols for each in manifests())
    assert {each.name for each in manifests()} == {part.name.removeprefix("networks of ") for part in stages[1]}
    for paper in PAPERS.values():
        assert (paper.facts["tiny"],) in arguments
        assert (paper.facts.get("tiny_network", paper.facts["tiny"]),) in arguments
    assert [name for name, paper in PAPERS.items() if "tiny_network" not in paper.facts] == ["htree"]
    assert {(name,) for name in shipped()} <= set(arguments)


# ---- how it is done -----------------------------------------------------------------------------------


def fine() -> None:
    return


def wrong() -> None:
    raise RuntimeError("this life cannot be lived")


def one_stage(monkeypatch, *parts):
    monkeypatch.setattr(compiling, "stages", lambda: [list(parts)])


def test_a_part_that_fails_is_named(monkeypatch, capfd):
    one_stage(monkeypatch, lives.Part("a good one", (fine,)), lives.Part("a bad one", (wrong,)))
    with pytest.raises(BrokerlabError, match="a bad one"):
        compiling.warm(jobs=2, stream=io.StringIO())
    assert "this life cannot be lived" in capfd.readouterr().err


def test_what_was_compiled_is_told_by_part(monkeypatch, tmp_path):
    (tmp_path / "newcomer.py").write_text(STRANGER)
    monkeypatch.syspath_prepend(tmp_path)
    from newcomer import papers

    one_stage(monkeypatch, lives.Part("nothing", (fine,)), lives.Part("something", (papers,)))
    done = {work.part: work.compiled for work in compiling.warm(jobs=1, stream=io.StringIO())}
    assert done["nothing"] == []
    assert [str(each) for each in done["something"]] == ["newcomer.unheard_of(int64,)"]
    assert done["something"][0].seconds > 0


def test_loading_from_the_cache_is_no_compiling():
    from topology.draws import bits, stream

    found = []
    with listening(found.append):
        bits(stream(1, 2, "test_warm"), 3)
    assert found == []
