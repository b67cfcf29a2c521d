"""`brokerlab run FILE`: run a scenario into a run folder."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from brokers.errors import InvalidInput, NeverQuiet
from scenarios.commands import add_scenario, overrides_of, parser, shown

if TYPE_CHECKING:
    from scenarios.running import Run


def command(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if (options.scenario is None) == (options.resume is None):
        raise InvalidInput("name a scenario to run, or a run folder with --resume: one of the two")
    try:
        return _resume(options) if options.resume is not None else _run(options, arguments)
    except NeverQuiet as found:
        if options.json:  # a finding, though there is no whole run
            told: dict[str, Any] = {"run": None, "digest": None, "verdict": found.verdict, "reason": str(found)}
            print(json.dumps({**told, "metrics": {}}, indent=2))
        raise


def _run(options: argparse.Namespace, arguments: list[str]) -> int:
    from scenarios.loader import load
    from scenarios.running import run

    scenario = load(options.scenario, overrides_of(options), trust=options.trust)
    done = run(
        scenario,
        engine=options.engine,
        actors=options.actors,
        address=options.address,
        out=options.out,
        overwrite=options.overwrite,
        progress=not options.quiet,
        command=["brokerlab", "run", *arguments],
        notice=say,
    )
    return show(done, options)


def _resume(options: argparse.Namespace) -> int:
    from scenarios.running import resume

    if overrides_of(options) or options.out or options.overwrite:
        raise InvalidInput(
            "--resume goes on with a run as it is: leave out --set, --seed, --out and --overwrite"
        )
    done = resume(
        options.resume,
        engine=options.engine,
        actors=options.actors,
        address=options.address,
        progress=not options.quiet,
        notice=say,
        trust=options.trust,
    )
    return show(done, options)


def show(done: Run, options: argparse.Namespace) -> int:
    """Tell what came of a run, expectations first; 1 if one does not hold."""
    from scenarios.many.expect import judged_run

    judged = judged_run(done.folder, trust=options.trust)
    if options.json:
        for note in done.engine.get("notes", ()):
            print(f"note: {note}", file=sys.stderr)
        expected = {"expect": [each.as_data() for each in judged]} if judged else {}
        print(json.dumps({**done.as_data(), **expected}, indent=2))
    else:
        print("\n".join([*map(str, judged), *([""] if judged else []), summary(done)]))
    return 0 if all(each.holds for each in judged) else 1


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def simulated(seconds: float) -> str:
    """A simulated time, as exact as people want it."""
    from topology.units import format_duration

    return f"{seconds:,.1f} s" if seconds >= 0.1 else format_duration(round(seconds * 1e9))


def summary(done: Run) -> str:
    """What came of a run, for people."""
    metrics, engine = done.metrics, done.engine
    network, timing = metrics["network"], metrics["run"]
    rows = [
        ("run", shown(done.path)),
        (
            "engine",
            f"{engine['engine']}, {engine['actors']} {'actor' if engine['actors'] == 1 else 'actors'}",
        ),
        (
            "time",
            f"{simulated(timing['simulated_s'])} simulated in {timing['loop_wall_s']:.1f} s, "
            f"{timing['events_per_s']:,.0f} events/s",
        ),
        (
            "network",
            f"{network['events']:,} events, {network['messages']:,} messages, {network['bytes']:,} bytes, "
            f"{network['lost']:,} lost" + (f", {network['dropped']:,} dropped" if network["dropped"] else ""),
        ),
        ("changes", f"{network['changes']:,}, {network['changes_unsettled']:,} not settled at the end"),
    ]
    rows += [("note", note) for note in engine.get("notes", ())]
    rows += [(name, service_line(service)) for name, service in metrics["services"].items()]
    rows += [("digest", done.digest), ("verdict", done.verdict)]
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:{width}}  {value}" for label, value in rows)


def service_line(service: dict[str, Any]) -> str:
    """One service's figures."""
    latency = service["latency"]
    text = f"{service['deliveries']:,} deliveries"
    if service["publications"] or not service["deliveries"]:  # else they are of what a server sent
        text = f"{service['publications']:,} publications, {text}"
    if latency["p50_ms"] is None:
        return text
    return f"{text}, latency {latency['p50_ms']:.1f} ms median, {latency['p99_ms']:.1f} ms p99"


def _parser() -> argparse.ArgumentParser:
    result = parser(
        "run",
        "Run a scenario into a run folder. Ends in a digest: the fingerprint of everything that happened, "
        "the same for every engine and number of actors. Exit code 1 if the scenario expects what does not hold.",
        """
        brokerlab run quickstart
        brokerlab run study/scenario.yaml --engine inline --seed 7 --set duration='1 min'
        brokerlab run ten-thousand --actors 4 --json
        brokerlab run study/scenario.yaml --address 10.0.0.1:6379 --out /shared/runs
        brokerlab run --resume runs/quickstart-4e97ffb90b
        """,
    )
    add_running(result)
    result.add_argument("--resume", metavar="DIR", help="finish the interrupted run in this folder")
    result.add_argument("--quiet", action="store_true", help="no progress")
    return result


def add_running(result: argparse.ArgumentParser, also: str = "") -> None:
    """What is run and how, for `run` and `watch`; `also`: what is taken in place of a scenario."""
    add_scenario(result, optional=True, also=also)
    result.add_argument(
        "--engine", choices=("auto", "ray", "threads", "inline"), default="auto",
        help="default: auto, which takes threads or Ray where that pays, and says what it takes and why",
    )  # fmt: skip
    result.add_argument(
        "--actors", type=int, metavar="N", help="number of shards; default: one per CPU, inline 1"
    )
    result.add_argument("--address", metavar="A", help="address of an existing Ray cluster")
    result.add_argument("--out", metavar="DIR", help="where run folders are made; default: runs")
    result.add_argument("--overwrite", action="store_true", help="replace the run of the same model")
    result.add_argument(
        "--json", action="store_true", help="end with one object {run, digest, verdict, metrics}"
    )
