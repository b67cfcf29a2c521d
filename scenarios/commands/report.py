"""`brokerlab report RUN`: what happened in a run, as one HTML file that opens offline."""

from __future__ import annotations

import json

from scenarios.commands import add_trust, parser, shown


def command(arguments: list[str]) -> int:
    result = parser(
        "report",
        "Write one HTML file that anybody can open offline. Of a run: what matters, the overlay over time, why a "
        "client got a message or did not, charts. Of two runs: what differs, where they part, maps of differences. "
        "Of a sweep: means with intervals and differences from the first. Needs neither Spark nor Java; what analyze "
        "and audit left is shown as well.",
        """
        brokerlab report runs/latest
        brokerlab report runs/latest --out report.html --svg picture.svg
        brokerlab report runs/flooding-0a1b2c3d4e runs/covering-4e97ffb90b
        brokerlab report sweeps/routing-1f0c9f2a3b --baseline protocol=covering
        """,
    )
    result.add_argument("runs", metavar="RUN", nargs="+", help="a run folder, two run folders, or a sweep folder")
    result.add_argument(
        "--out", metavar="FILE", help="default: report.html in the run's folder analysis, in the sweep's, or here"
    )
    result.add_argument("--svg", metavar="FILE", help="of one run: its overlay and what was delivered, as a picture")
    result.add_argument(
        "--hops", type=int, metavar="N",
        help="draw at most about N events one by one; of more a share of all messages, each whole (default: 1,000,000)",
    )  # fmt: skip
    result.add_argument("--baseline", metavar="LABEL", help="of a sweep: what the others are compared with")
    result.add_argument("--force", action="store_true", help="replace a file that is no report or picture of ours")
    add_trust(result)
    result.add_argument("--json", action="store_true", help="{report, bytes}")
    options = result.parse_args(arguments)

    from brokers.registry import load

    made = load("analysis.report.making:report")(
        options.runs, options.out, svg=options.svg, hops_most=options.hops, baseline=options.baseline,
        trust=options.trust, force=options.force,
    )  # fmt: skip
    size = made.stat().st_size
    if options.json:
        print(json.dumps({"report": str(made), "bytes": size}))
    else:
        print(f"{shown(made)}  {size:,} bytes; open it in a browser")
    return 0
