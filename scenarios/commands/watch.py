"""`brokerlab watch`: a run under way, on the terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from brokers.errors import InvalidInput
from scenarios.commands import overrides_of, parser
from scenarios.commands.run import add_running, show

_LOOK_MOST_S = 0.5
INTERRUPTED = 130


def command(arguments: list[str]) -> int:
    result = parser(
        "watch",
        "Show a run under way: rates, deliveries, latencies, queues, and what is expected so far; in place on a "
        "terminal, else a line now and then. A scenario is run while it is shown, as brokerlab run does it. Of a run "
        "folder that another process writes it only reads; so it does of the folder of runs, and takes the one that "
        "is under way there. Exit code as run.",
        """
        brokerlab watch quickstart
        brokerlab watch study/scenario.yaml --every 10s --set duration='10 min'
        brokerlab watch runs
        brokerlab watch sweeps/routing-1f0c9f2a3b/runs/covering-r0-8d61c47be0
        """,
    )
    add_running(result, "; or the folder of a run under way, or a folder of runs, to look on only")
    result.add_argument("--every", metavar="T", help="show it no more often than this, as in 2s")
    options = result.parse_args(arguments)
    every_s = _every(options.every)
    if options.scenario is None:
        raise InvalidInput("name a scenario to run, or a run folder that is under way, as in brokerlab watch runs")
    if Path(options.scenario).is_dir():
        return _follow(Path(options.scenario), every_s, options)
    return _run(options, every_s, arguments)


def _run(options: argparse.Namespace, every_s: float | None, arguments: list[str]) -> int:
    from scenarios.commands.run import say
    from scenarios.loader import load
    from scenarios.running import run
    from scenarios.watching import View

    scenario = load(options.scenario, overrides_of(options), trust=options.trust)
    with contextlib.closing(View(scenario.model.name or options.scenario, every_s)) as view:
        done = run(
            scenario, engine=options.engine, actors=options.actors, address=options.address, out=options.out,
            overwrite=options.overwrite, watch=view, command=["brokerlab", "watch", *arguments], notice=say,
        )  # fmt: skip
    return show(done, options)


def _follow(path: Path, every_s: float | None, options: argparse.Namespace) -> int:
    from brokers.engine.runfolder import under_way
    from scenarios.running import Run
    from scenarios.watching import View, follow

    if overrides_of(options) or options.actors or options.address or options.out or options.overwrite:
        raise InvalidInput(f"{path} is a folder: a run that goes on takes no --set, --seed, --actors or --out")
    folder = under_way(path)
    view = View(folder.name, every_s)
    try:
        follow(folder, view, min(view.every_s, _LOOK_MOST_S))
    except KeyboardInterrupt:
        print(f"no longer watched; the run goes on in {folder}", file=sys.stderr)
        return INTERRUPTED
    return show(Run.load(folder), options)


def _every(text: str | None) -> float | None:
    from topology.units import QuantityError, parse_duration

    if text is None:
        return None
    try:
        found = parse_duration(text) / 1e9
    except QuantityError as error:
        raise InvalidInput(f"--every: {error}") from None
    if found <= 0:
        raise InvalidInput(f"--every: more than nothing, as in 2s (got {text})")
    return found
