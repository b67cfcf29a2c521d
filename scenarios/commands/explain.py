"""`brokerlab explain RUN MESSAGE [CLIENT]`: the way of a message, and why a client got it or did not."""

from __future__ import annotations

import argparse
import json

from scenarios.commands import add_trust, parser


def command(arguments: list[str]) -> int:
    result = parser(
        "explain",
        "Show where a message went, when, and what became of it; with a client, why it was or was not delivered "
        "there. Needs a run with trace level full, and neither Spark nor Java.",
        """
        brokerlab explain runs/latest 37#5
        brokerlab explain runs/latest 37#5 61
        """,
    )
    result.add_argument("run", metavar="RUN", help="a run folder")
    result.add_argument("message", metavar="MESSAGE", help="id of a publication or change, or client#number")
    result.add_argument("client", metavar="CLIENT", nargs="?", type=_number, help="number of a client, from 0")
    add_trust(result)
    result.add_argument("--json", action="store_true", help="all of it as one object")
    options = result.parse_args(arguments)

    from brokers.registry import load

    explain = load("analysis.spark.explain:explain")
    found = explain(options.run, options.message, options.client, trust=options.trust)
    print(json.dumps(found, indent=2) if options.json else load("analysis.spark.explain:text")(found))
    return 0


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"clients go by their number, from 0 (got {text!r})")
    return int(text)
