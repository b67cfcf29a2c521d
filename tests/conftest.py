"""What tests share: a third party's modules on the path, one Spark, and which tests go to one worker."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long drawing takes says how busy the machine is, and nothing about the tests.
settings.register_profile("any machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("any machine")

# The tests marked `xdist_group`, by how their ids begin. pytest-xdist 3.8 passes the mark on by changing ids, which
# pytest 9.2 does not let it do (pytest-dev/pytest-xdist#1386): `--dist loadgroup` would spread them silently.
GROUPS = {
    "tests/analysis/report/test_grid.py::test_the_page_of_a_sweep": "browser",
    "tests/analysis/report/test_page.py": "browser",
    "tests/analysis/report/test_pairs.py": "browser",
    "tests/analysis/report/test_shown.py": "browser",
    "tests/analysis/report/test_signs.py": "browser",
    "tests/analysis/report/test_views.py::test_the_curve_of_a_link": "browser",
    "tests/analysis/report/test_views.py::test_what_scripts_draw": "browser",
    "tests/analysis/test_spark_adverts.py": "spark",
    "tests/analysis/test_spark_aggregates.py": "spark",
    "tests/analysis/test_spark_audit.py": "spark",
    "tests/analysis/test_spark_channels.py": "spark",
    "tests/analysis/test_spark_context.py": "spark",
    "tests/analysis/test_spark_described.py": "spark",
    "tests/analysis/test_spark_faults.py": "spark",
    "tests/analysis/test_spark_gossip.py": "spark",
    "tests/analysis/test_spark_matchers.py": "spark",
    "tests/analysis/test_spark_plans.py": "spark",
    "tests/analysis/test_spark_session.py": "spark",
    "tests/analysis/test_spark_spatial.py": "spark",
    "tests/analysis/test_spark_spreads.py": "spark",
    "tests/analysis/test_spark_stays.py": "spark",
    "tests/analysis/test_spark_topics.py": "spark",
    "tests/analysis/test_spark_topk.py": "spark",
    "tests/scenarios/test_many_results.py::test_expectations_of_the_audit_have": "spark",
    "tests/scenarios/test_exec.py::test_analyze_and_explain": "spark",
    "tests/scenarios/test_foreign.py::test_a_run_of_an_installed": "spark",
    "tests/scenarios/test_foreign.py::test_the_kit_and_the_audit": "spark",
    "tests/scenarios/test_run.py::test_the_demo_runs_twice": "spark",
    "tests/scenarios/test_trust.py::test_a_run_from_outside_is_audited": "spark",
    "tests/analysis/test_survival.py": "survival",
}


def group_of(nodeid: str) -> str | None:
    """The group of a test, all of which one worker runs."""
    return next((group for start, group in GROUPS.items() if nodeid.startswith(start)), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """With `--dist loadgroup`, tests of a group to one worker."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByGroup(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid) or super()._split_scope(nodeid)

    return ByGroup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]):
    """A mark that is not in the table would be without effect."""
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        marked = mark.args[0] if mark is not None else None
        if group_of(item.nodeid.partition("@")[0]) != marked:
            raise pytest.UsageError(
                f"{item.nodeid}: marked xdist_group({marked!r}); say the same in GROUPS of {__file__}"
            )


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory):
    """A folder outside the tree with a third party's modules, on the path."""
    folder = tmp_path_factory.mktemp("outside")
    shutil.copytree(Path(__file__).parent / "outside", folder, dirs_exist_ok=True)
    names = {path.stem for path in folder.iterdir()}
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for module in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[module]


@pytest.fixture(scope="session")
def bring_compiled_kernels() -> Callable[[Path], None]:
    """Brings our compiled kernels to a copy of the packages; to compile them anew takes minutes.

    Numba believes its files while the source has the size and time it had.
    """
    root = Path(__file__).parents[1]

    def bring(copy: Path) -> None:
        for package in ("analysis", "brokers", "protocols", "scenarios", "topology"):
            for source in (root / package).rglob("*.py"):
                there = copy / source.relative_to(root)
                assert there.stat().st_size == source.stat().st_size
                shutil.copystat(source, there)
                for kernel in source.parent.glob(f"__pycache__/{source.stem}.*.nb?"):
                    target = there.parent / "__pycache__" / kernel.name
                    target.parent.mkdir(exist_ok=True)
                    shutil.copy2(kernel, target)

    return bring


@pytest.fixture(scope="session")
def shipped(request: pytest.FixtureRequest, bring_compiled_kernels: Callable[[Path], None]):
    """The caches of a user to whom a Ray that was there before has shipped this code already, kernels and all."""
    from brokers.engine import ray as engine_ray

    caches = request.config.cache.mkdir("shipped")
    name, data = engine_ray._code()
    target = caches / "brokerlab" / "code" / name
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=caches) as apart, pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", apart)
            code = Path(engine_ray._host_class()._unpack(name, data))
            bring_compiled_kernels(code)
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # another worker was first
                code.rename(target)
    return caches


@pytest.fixture(scope="session")
def listeners() -> Callable[[], set[tuple[str, str]]]:
    """Tells who listens for TCP among this process and those below it, and on which address: (name, address)."""
    from analysis.bench.trial_cluster import children

    def find() -> set[tuple[str, str]]:
        address_of = {inode: address for table in ("tcp", "tcp6") for inode, address in _listening(table)}
        found = set()
        for process in (os.getpid(), *(number for number, _ in children(os.getpid()))):
            here = Path("/proc") / str(process)
            try:
                name = (here / "comm").read_text("utf-8").strip()
                sockets = [os.readlink(handle) for handle in (here / "fd").iterdir()]
            except OSError:
                continue  # it ended meanwhile
            inodes = (socket.removeprefix("socket:[").rstrip("]") for socket in sockets)
            found |= {(name, address_of[inode]) for inode in inodes if inode in address_of}
        return found

    return find


def _listening(table: str) -> list[tuple[str, str]]:
    """Inode and local address of all sockets of a table of the kernel's that listen."""
    rows = [line.split() for line in (Path("/proc/net") / table).read_text("utf-8").splitlines()[1:]]
    return [(row[9], _address(row[1].partition(":")[0])) for row in rows if row[3] == "0A"]


def _address(words: str) -> str:
    """An address as the kernel writes it: 32 bits at a time, in the order of this machine's bytes."""
    packed = b"".join(int(words[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(words), 8))
    if len(packed) == 4:
        return str(IPv4Address(packed))
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address)


@pytest.fixture(scope="session")
def spark():
    """The one Spark of a test run, whose driver accepts next to nothing.

    Tests that use it, or commands that find it, are marked `xdist_group("spark")`: one worker runs them all.
    """
    pytest.importorskip("pyspark")
    from analysis.spark.session import session

    with session(config={"spark.driver.maxResultSize": "1m", "spark.driver.memory": "1g"}) as running:
        yield running
