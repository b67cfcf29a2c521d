"""`brokerlab plot RUN... --kind KIND`: figures of runs and sweeps, for a paper or a screen."""

from __future__ import annotations

import json
import sys

from brokers.errors import InvalidInput
from scenarios.commands import add_trust, parser, shown, time_of


def command(arguments: list[str]) -> int:
    result = parser(
        "plot",
        "Draw figures of runs: vector PDF or SVG with 8 points and a column wide, or for a screen. Several runs go "
        "into one figure; runs of one variant that differ in their seed become a line with a band. The figures of a "
        "report have their command beneath them.",
        """
        brokerlab plot --list
        brokerlab plot runs/latest --kind latency -o latency.pdf
        brokerlab plot sweeps/routing-1f0c9f2a3b --kind deliveries --service news -o deliveries.svg
        brokerlab plot runs/latest --kind all -o 'figures/{kind}.svg' --style screen
        brokerlab plot runs/latest --kind overlay --at 2.5s -o overlay.pdf
        brokerlab plot runs/latest --kind space-time --message 37#5 -o way.pdf
        brokerlab plot sweeps/routing-1f0c9f2a3b --kind means --metric network.messages --data
        """,
    )
    result.add_argument("runs", metavar="RUN", nargs="*", help="run folders, sweep folders")
    result.add_argument("--list", action="store_true", help="the kinds, with a line each")
    result.add_argument("--kind", action="append", default=[], metavar="KIND", help="what to draw; several; or all")
    result.add_argument(
        "-o", "--out", metavar="FILE",
        help="FILE.pdf, .svg, .png, or .csv for the data alone; {kind} stands for the kind (default: {kind}.pdf)",
    )  # fmt: skip
    result.add_argument("--style", default="paper", help="paper or screen (default: %(default)s)")
    result.add_argument("--data", action="store_true", help="write what is drawn as CSV, too")
    result.add_argument("--service", metavar="NAME", help="only this service")
    result.add_argument(
        "--metric", metavar="NAME",
        help="of means and differences, as compare has it; of an overlay: traffic, load, tables or waste; of a map: "
             "messages or deliveries",
    )  # fmt: skip
    result.add_argument("--at", metavar="T", help="of an overlay: around this simulated time, as in 2.5s")
    result.add_argument("--from", dest="begin", metavar="T", help="of space and time: from then on, as in 2.5s")
    result.add_argument("--to", dest="end", metavar="T", help="of space and time: until then")
    result.add_argument("--message", metavar="M", help="of an overlay, and of space and time: its way, as in 37#5")
    result.add_argument("--link", nargs=2, metavar=("FROM", "TO"), help="of a link: the brokers at its ends")
    result.add_argument("--baseline", metavar="LABEL", help="what means and differences are compared with")
    result.add_argument(
        "--band", default="student",
        help="around the mean of several runs: student, bootstrap, both at each place by itself; simultaneous, of the "
             "whole line; range or none (default: %(default)s)",
    )  # fmt: skip
    result.add_argument(
        "--part", type=int, metavar="N", help="of a map of two runs: of the whole time the N-th sixth alone"
    )
    result.add_argument("--each", action="store_true", help="a line for each run, no bands")
    result.add_argument(
        "--force", action="store_true", help="replace a file that is no figure of ours, or no data of this figure"
    )
    add_trust(result)
    result.add_argument("--json", action="store_true", help="[{kind, file, said}]")
    options = result.parse_args(arguments)

    from brokers.registry import load

    if options.list:
        kinds: dict[str, str] = load("analysis.report.plotting:known")()
        width = max(map(len, kinds))
        print("\n".join(f"{name:{width}}  {prose}" for name, prose in kinds.items()))
        return 0
    if not options.runs or not options.kind:
        raise InvalidInput("name a run and what to draw of it, as in brokerlab plot runs/latest --kind latency; "
                           "--list tells the kinds")  # fmt: skip
    made = load("analysis.report.plotting:plot")(
        options.runs, options.kind, options.out, style=options.style, data=options.data, service=options.service,
        metric=options.metric, baseline=options.baseline, band=options.band, each=options.each, trust=options.trust,
        notice=lambda sentence: print(f"brokerlab: {sentence}", file=sys.stderr), part=options.part,
        at_ns=time_of("--at", options.at), begin_ns=time_of("--from", options.begin),
        end_ns=time_of("--to", options.end), message=options.message,
        link=tuple(options.link) if options.link else None, force=options.force,
    )  # fmt: skip
    if options.json:
        print(json.dumps([{"kind": each.kind, "file": str(each.path), "said": each.said} for each in made], indent=2))
    else:
        for each in made:
            print(f"{shown(each.path)}  {each.said}")
    return 0
