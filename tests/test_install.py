"""The wheel, installed where no checkout is in sight: everything is in it, and it works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("analysis", "brokers", "protocols", "scenarios", "topology")
NOT_INSTALLED = (".venv", ".git", "runs", "build", ".*_cache", ".hypothesis", "*.egg-info", "__pycache__", "tests")
PROGRAM = """
import brokerlab
print(brokerlab.__file__)
print(brokerlab.__version__)
done = brokerlab.run("quickstart", engine="inline", overrides=["duration=1 s", "drain=1 s"])
print(done.digest)
print(brokerlab.load_scenario("quickstart").name, "valid" if done.deliveries.num_rows else "nothing delivered")
"""


def ran(command: list[str | Path], folder: Path) -> str:
    """What a command prints that knows nothing of this checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA_"))}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy of the checkout, with no network."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*NOT_INSTALLED))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    ran([*pip, "--wheel-dir", folder, folder / "checkout"], folder)
    (built,) = folder.glob("brokerlab-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory, bring_compiled_kernels) -> Path:
    """The programs of an environment with the wheel in it, and for all else what is installed here."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, with_pip=False)
    programs = home / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python"]
    ran([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], home)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    # A folder that a .pth file names gives its packages, but its own .pth files, of which one leads here, are not read.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    bring_compiled_kernels(site)
    return programs


def test_everything_in_the_packages_is_in_the_wheel(wheel):
    there = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc")
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert there | {"brokerlab.py"} == {name for name in names if ".dist-info/" not in name}
    assert any(name.endswith(".gml") for name in there) and any(name.endswith(".yaml") for name in there)
    assert any(name.endswith("LICENSE-topology-zoo.md") for name in names)


def test_commands_of_the_wheel_find_shipped_scenarios_and_data(installed, tmp_path):
    assert "quickstart.yaml: valid" in ran([installed / "brokerlab", "validate", "quickstart"], tmp_path)
    assert "real-network.yaml: valid" in ran([installed / "brokerlab", "validate", "real-network"], tmp_path)
    doctor = ran([installed / "brokerlab", "doctor"], tmp_path)
    assert "own names" in doctor and str(ROOT) not in doctor.replace(sys.prefix, "")


def test_a_run_of_the_wheel_has_the_digest_that_it_has_here(installed, tmp_path):
    from scenarios.running import run

    where, version, digest, told = ran([installed / "python", "-c", PROGRAM], tmp_path).splitlines()
    assert Path(where).is_relative_to(installed.parent)
    assert version == "0.1.0" and told == "quickstart valid"
    here = run("quickstart", engine="inline", overrides=["duration=1 s", "drain=1 s"], out=tmp_path / "here")
    assert digest == here.digest
