"""`brokerlab export RUN --to FORMAT`: a run as files for other programs."""

from __future__ import annotations

import json

from scenarios.commands import add_trust, parser, shown


def command(arguments: list[str]) -> int:
    result = parser(
        "export",
        "Write a run for other programs. csv: a file for each table, for spreadsheets. perfetto: brokers as processes, "
        "messages as arrows between them, for ui.perfetto.dev. pcapng: messages as packets on links, for Wireshark. "
        "graphml: the overlay with what its links carried, for Gephi, yEd, networkx.",
        """
        brokerlab export runs/latest --to csv --table deliveries --named --out tables
        brokerlab export runs/latest --to perfetto --from '2 s' --to-time '2.5 s' --out trace.json
        brokerlab export runs/latest --to pcapng --service news
        brokerlab export runs/latest --to graphml --out overlay.graphml --force
        """,
    )
    result.add_argument("run", metavar="RUN", help="a run folder")
    result.add_argument("--to", required=True, metavar="FORMAT", help="csv, perfetto, pcapng or graphml")
    result.add_argument("--out", metavar="PATH", help="the file, of csv the folder; default: in RUN/analysis")
    result.add_argument(
        "--table", metavar="NAME", action="append", default=[], help="csv: this table, again for more; default: all"
    )
    result.add_argument("--named", action="store_true", help="csv: names of brokers, clients, messages for ids")
    result.add_argument("--from", dest="since", metavar="T", help="from this simulated time on, as in '2.5 s'")
    result.add_argument("--to-time", dest="until", metavar="T", help="up to before this simulated time")
    result.add_argument(
        "--service", metavar="NAME", action="append", default=[], help="only this service, again for more; default: all"
    )
    result.add_argument(
        "--limit", type=int, metavar="N",
        help="perfetto: about N events; of more a share of all messages, each whole (default: 100,000)",
    )  # fmt: skip
    result.add_argument("--force", action="store_true", help="replace what is there")
    add_trust(result)
    result.add_argument("--json", action="store_true", help="[{path, bytes, told}]")
    options = result.parse_args(arguments)

    from brokers.registry import load

    made = load("analysis.export.making:export")(
        options.run, options.to, options.out, tables=options.table, named=options.named, since=options.since,
        until=options.until, services=options.service, limit=options.limit, force=options.force, trust=options.trust,
    )  # fmt: skip
    sizes = [each.path.stat().st_size for each in made]
    if options.json:
        rows = [{"path": str(each.path), "bytes": size, "told": each.told} for each, size in zip(made, sizes)]
        print(json.dumps(rows))
        return 0
    for each, size in zip(made, sizes):
        print(f"{shown(each.path)}  {size:,} bytes: {each.told}")
    return 0
