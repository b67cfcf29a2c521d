"""brokerlab from Python: what the commands do, as functions, under the one name that scripts and notebooks need.

    >>> import brokerlab
    >>> one = brokerlab.run("news", engine="inline", overrides=["duration=2 s"])
    >>> other = brokerlab.run("news", engine="inline", actors=3, overrides=["duration=2 s"])
    >>> one.digest == other.digest
    True
    >>> one.deliveries.num_rows == sum(each["deliveries"] for each in one.metrics["services"].values())
    True
    >>> sorted(brokerlab.names("kinds"))
    ['channels', 'content', 'context', 'spatial', 'topics', 'topk']

Every table of a run is an attribute, a `pyarrow.Table`; docs/trace.md describes them. Of a run that `brokerlab.open`
opened they are lazy, and go to polars and DuckDB without a copy (docs/frames.md). A run can be given wherever
the path of its folder can. What a person can do something about is raised as a `BrokerlabError` that says what.

Each name is imported when it is first used, so that `import brokerlab` costs nothing.
"""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.export.making import export
    from analysis.frames.opening import open
    from analysis.report.making import report
    from analysis.report.plotting import plot
    from analysis.spark.aggregates import analyze
    from analysis.spark.audit import audit
    from analysis.spark.explain import explain
    from brokers.errors import BrokerlabError, EnvironmentProblem, Interrupted, InvalidInput
    from scenarios.commands.list import names_of as names
    from scenarios.loader import load as load_scenario
    from scenarios.many.carry import SweepResult, repeat, sweep
    from scenarios.many.compare import compare
    from scenarios.many.diff import diff
    from scenarios.plan import plan
    from scenarios.running import Run, resume, run
    from scenarios.schema import Scenario

    open_run = Run.load
    __version__: str

_HOMES = {
    # one run
    "load_scenario": "scenarios.loader:load",
    "plan": "scenarios.plan:plan",
    "run": "scenarios.running:run",
    "resume": "scenarios.running:resume",
    "open_run": "scenarios.running:Run.load",
    "open": "analysis.frames.opening:open",
    # what came of it
    "audit": "analysis.spark.audit:audit",
    "analyze": "analysis.spark.aggregates:analyze",
    "explain": "analysis.spark.explain:explain",
    "report": "analysis.report.making:report",
    "export": "analysis.export.making:export",
    "plot": "analysis.report.plotting:plot",
    # many runs
    "repeat": "scenarios.many.carry:repeat",
    "sweep": "scenarios.many.carry:sweep",
    "compare": "scenarios.many.compare:compare",
    "diff": "scenarios.many.diff:diff",
    # what there is to choose from
    "names": "scenarios.commands.list:names_of",
    # what these give and take, for annotations
    "Run": "scenarios.running:Run",
    "Scenario": "scenarios.schema:Scenario",
    "SweepResult": "scenarios.many.carry:SweepResult",
    # what they raise
    "BrokerlabError": "brokers.errors:BrokerlabError",
    "EnvironmentProblem": "brokers.errors:EnvironmentProblem",
    "Interrupted": "brokers.errors:Interrupted",
    "InvalidInput": "brokers.errors:InvalidInput",
}

__all__ = [
    "BrokerlabError",
    "EnvironmentProblem",
    "Interrupted",
    "InvalidInput",
    "Run",
    "Scenario",
    "SweepResult",
    "__version__",
    "analyze",
    "audit",
    "compare",
    "diff",
    "explain",
    "export",
    "load_scenario",
    "names",
    "open",
    "open_run",
    "plan",
    "plot",
    "repeat",
    "report",
    "resume",
    "run",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version("brokerlab")
    elif name in _HOMES:
        module, _, attribute = _HOMES[name].partition(":")
        found = attrgetter(attribute)(importlib.import_module(module))
    else:
        raise AttributeError(f"brokerlab has no {name!r}; it has {', '.join(sorted(_HOMES))}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
