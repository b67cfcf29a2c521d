"""`brokerlab calibrate INDEX`: what an index costs on this machine, as the `cost` section of a service."""

from __future__ import annotations

import json

from scenarios.commands import add_trust, parser


def command(arguments: list[str]) -> int:
    result = parser(
        "calibrate",
        "Measure an index on this machine and fit the cost model of a service to it: service time as a function "
        "of table entries and matches. Takes some seconds. Paste the line into a scenario to simulate this machine.",
        """
        brokerlab calibrate cells
        brokerlab calibrate my_package.my_index:MyIndex --trust --json
        """,
    )
    result.add_argument("index", metavar="INDEX", help="a registered name, or module:Class")
    add_trust(result)
    result.add_argument("--json", action="store_true", help="{base_ns, per_entry_ns, per_match_ns}")
    options = result.parse_args(arguments)

    from brokers.indexes.calibrate import calibrate

    fitted = calibrate(options.index, trust=options.trust)
    if options.json:
        print(json.dumps(fitted, indent=2))
    else:
        terms = ", ".join(f"{name.removesuffix('_ns')}: {value:.4g} ns" for name, value in fitted.items())
        print(f"cost: {{{terms}}}")
    return 0
