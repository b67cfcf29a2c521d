"""`brokerlab demo`: the quickstart scenario, run twice and audited, with what it shows."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from brokers.errors import EnvironmentProblem
from scenarios.commands import parser, shown
from scenarios.many.pool import cpus

if TYPE_CHECKING:
    from brokers.engine.runfolder import RunFolder

SCENARIO = "quickstart"


def command(arguments: list[str]) -> int:
    result = parser(
        "demo",
        "Run the quickstart scenario on Ray where it is installed, then once more in one process, and compare the "
        "digests; then audit what was delivered, and write a report of it. Exit code 1 if the digests differ, else "
        "that of the audit.",
        "brokerlab demo",
    )
    result.add_argument("--out", metavar="DIR", help="where run folders are made; default: runs")
    result.add_argument("--engine", choices=("ray", "inline"), help="of the first run")
    options = result.parse_args(arguments)

    from brokers.registry import load as load_name
    from scenarios.choosing import where_ray_is
    from scenarios.commands.run import summary
    from scenarios.loader import load
    from scenarios.plan import resolve
    from scenarios.running import execute, run

    scenario = load(SCENARIO)
    engine = where_ray_is(options.engine, None)
    if options.engine is None:
        why = "to show both engines" if engine == "ray" else "since Ray is not installed"
        print(f"engine: {engine}, {why}", file=sys.stderr)
    print(f"{SCENARIO}: {scenario.model.title}\n", flush=True)
    done = run(
        scenario,
        engine=engine,
        out=options.out,
        overwrite=True,
        progress=True,
        command=["brokerlab", "demo", *arguments],
    )
    print(summary(done))
    with _spark_meanwhile(done.folder):
        again = execute(scenario, resolve(scenario), "inline", 1)
    same = again.digest == done.digest
    print(f"\nonce more in one process: digest {again.digest}")
    if not same:
        print("THE DIGESTS DIFFER: one of the two runs is wrong; please report it")
        return 1
    print("the same to the byte: engine and number of actors change the speed and nothing else\n", flush=True)
    code = _audit(done.path)
    seen = load_name("analysis.report.making:report")([done.path])
    print(
        f"\n  {shown(seen)}  shows it: open it in a browser\n"
        f"  {shown(scenario.where)}  is what was run\n"
        f"  {shown(done.path)}/tables  is what happened, as Parquet: every hop, delivery and change\n"
        "  brokerlab init my-study  writes a scenario of your own to start from"
    )
    return code


def _spark_meanwhile(folder: RunFolder) -> AbstractContextManager[None]:
    """Have the Java of the audit, where it needs one, start on a CPU that one process leaves free."""
    from brokers.registry import load

    if cpus() < 2 or not load("analysis.spark.audit:needs_spark")(folder):
        return nullcontext()
    if importlib.util.find_spec("pyspark") is None:
        return nullcontext()
    rows = load("analysis.spark.trace:rows_of")(folder)
    meanwhile: AbstractContextManager[None] = load("analysis.spark.session:started_meanwhile")(rows)
    return meanwhile


def _audit(run: Path) -> int:
    """Audit the run, or say in a line why it was not."""
    from brokers.registry import load

    print("audit, computed from publications and changes alone:", flush=True)
    try:
        found = load("analysis.spark.audit:audit")(run, progress=True)
    except EnvironmentProblem as error:
        print(f"not audited: {error}")
        return 0
    print(load("analysis.spark.audit_text:text")(found))
    return int(found.exit_code)
