"""`brokerlab explain RUN MESSAGE [CLIENT]`: the way of a message, and why a client got it or did not."""

from __future__ import annotations

import argparse
import json

from brokers.errors import InvalidInput
from scenarios.commands import add_trust, parser, time_of


def command(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.client is not None and options.number is not None and options.client != options.number:
        raise InvalidInput("CLIENT and --client name two clients; give one")
    client = options.number if options.client is None else options.client
    begin, end = time_of("--from", options.begin), time_of("--to", options.end)
    window = begin is not None or end is not None
    at = time_of("--at", options.at)
    if options.message is None and not window:
        raise InvalidInput("give a MESSAGE, as in 37#5, or a stretch of time with --from and --to")
    if options.message is None and (client is not None or options.beside is not None or at is not None):
        raise InvalidInput("--client, --beside and --at go with a MESSAGE")
    if options.message is None and options.json:
        raise InvalidInput("--json goes with a MESSAGE")

    from brokers.registry import load

    if options.message is not None:
        found = load("analysis.spark.explain:explain")(
            options.run, options.message, client, beside=options.beside, at_ns=at, trust=options.trust
        )
        print(json.dumps(found, indent=2) if options.json else load("analysis.spark.explain:text")(found))
    if options.diagram or options.svg or options.message is None:
        shown = load("analysis.ways.picturing:picture")(
            options.run, options.message, client, begin_ns=begin, end_ns=end, at_ns=at, service=options.service,
            trust=options.trust,
        )  # fmt: skip
        if not options.json and (options.diagram or not options.svg):
            print(load("analysis.ways.picturing:as_text")(shown))
        if options.svg:
            load("analysis.ways.picturing:write_svg")(shown, options.svg)
    return 0


def _parser() -> argparse.ArgumentParser:
    result = parser(
        "explain",
        "Show where a message went, when, and what became of it; with a client, why it was or was not delivered "
        "there, step by step. Needs a run with trace level full, and neither Spark nor Java.",
        """
        brokerlab explain runs/latest 37#5
        brokerlab explain runs/latest 37#5 --client 61 --diagram
        brokerlab explain runs/mine 37#5 --client 61 --beside runs/flooding --svg way.svg
        brokerlab explain runs/latest 12#0 --at 500ms
        brokerlab explain runs/latest --from 100ms --to 120ms
        """,
    )
    result.add_argument("run", metavar="RUN", help="a run folder")
    result.add_argument(
        "message", metavar="MESSAGE", nargs="?", help="client#number, server#number, or the id of a message"
    )
    result.add_argument("client", metavar="CLIENT", nargs="?", type=_number, help="number of a client, from 0")
    result.add_argument("--client", dest="number", metavar="N", type=_number, help="the same")
    result.add_argument(
        "--at", metavar="T", help="MESSAGE is a query that a server answers: the round at that time, as in 500ms"
    )
    result.add_argument("--beside", metavar="RUN2", help="another run of the same case: where the ways differ")
    result.add_argument(
        "--diagram", action="store_true", help="a message diagram: brokers side by side, time downwards"
    )
    result.add_argument("--svg", metavar="FILE", help="the diagram as an SVG file")
    result.add_argument("--from", dest="begin", metavar="T", help="without MESSAGE: a diagram of all from then on")
    result.add_argument("--to", dest="end", metavar="T", help="and until then, as in 120ms")
    result.add_argument(
        "--service", metavar="NAME", help="of which service the stretch of time is shown (default: the first)"
    )
    add_trust(result)
    result.add_argument("--json", action="store_true", help="all of it as one object")
    return result


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"clients go by their number, from 0 (got {text!r})")
    return int(text)
