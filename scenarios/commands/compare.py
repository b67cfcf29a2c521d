"""`brokerlab compare RUN…`: metrics side by side, with intervals over repeats."""

from __future__ import annotations

import json

from scenarios.commands import add_trust, parser


def command(arguments: list[str]) -> int:
    result = parser(
        "compare",
        "Metrics of runs side by side, per service kind, with Student-t intervals over seeds; each variant's "
        "difference from the first, paired over the seeds they have in common. A sweep folder stands for all its "
        "points; runs that differ in their seed only are repeats.",
        """
        brokerlab compare sweeps/routing-1f0c9f2a3b
        brokerlab compare runs/flooding-0a1b2c3d4e runs/covering-4e97ffb90b
        brokerlab compare sweeps/routing-1f0c9f2a3b --baseline protocol=covering --confidence 0.99 --json
        """,
    )
    result.add_argument("runs", metavar="RUN", nargs="+", help="run folders, or sweep folders")
    result.add_argument("--confidence", type=float, default=0.95, metavar="P", help="default: 0.95")
    result.add_argument(
        "--baseline", metavar="LABEL", help="what the others are compared with; default: the first"
    )
    add_trust(result, imports=False)
    result.add_argument("--json", action="store_true", help="one JSON object")
    options = result.parse_args(arguments)

    from scenarios.many.compare import compare, text

    found = compare(options.runs, options.confidence, options.baseline)
    print(json.dumps(found.as_data(), indent=2, ensure_ascii=False) if options.json else text(found))
    return 0
