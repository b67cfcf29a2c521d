"""`brokerlab diff RUN RUN`: where two runs part."""

from __future__ import annotations

import json

from scenarios.commands import add_trust, parser, shown


def command(arguments: list[str]) -> int:
    result = parser(
        "diff",
        "What differs between two runs: scenario, circumstances, metrics, and the first event that went another way "
        "(the first simulated second, where one was not run with trace level full). Exit code 0 if their digests are "
        "equal, 1 if not.",
        "brokerlab diff runs/quickstart-4e97ffb90b runs/quickstart-4e97ffb90b-2",
    )
    result.add_argument("first", metavar="RUN", help="a run folder")
    result.add_argument("second", metavar="RUN", help="another")
    add_trust(result, imports=False)
    result.add_argument("--json", action="store_true", help="one JSON object")
    options = result.parse_args(arguments)

    from scenarios.many.diff import diff, text

    found = diff(options.first, options.second)
    if options.json:
        print(json.dumps(found.as_data(), indent=2, ensure_ascii=False))
    else:
        print(text(found, (shown(found.runs[0]), shown(found.runs[1]))))
    return 0 if found.equal else 1
