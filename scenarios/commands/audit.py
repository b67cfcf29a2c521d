"""`brokerlab audit RUN`: whether what was delivered is what had to be, recomputed."""

from __future__ import annotations

import json

from scenarios.commands import add_trust, parser
from scenarios.commands.analyze import add_spark


def command(arguments: list[str]) -> int:
    result = parser(
        "audit",
        "Recompute from publications and changes alone which deliveries were forced, free or forbidden, and compare "
        "with those that happened, on what each protocol declares. Exit code 0 for the verdict valid, 2 for "
        "unknown, 1 for invalid. Kept as RUN/analysis/audit.json.",
        """
        brokerlab audit runs/latest
        brokerlab audit runs/latest --sample 10000 --json
        """,
    )
    result.add_argument("run", metavar="RUN", help="a run folder")
    sample = "judge about N publications of each service; default: all, up to a limit"
    result.add_argument("--sample", type=int, metavar="N", help=sample)
    add_spark(result)
    add_trust(result)
    result.add_argument("--json", action="store_true", help="{run, digest, verdict, services}")
    options = result.parse_args(arguments)

    from brokers.errors import InvalidInput
    from brokers.registry import load

    if options.sample is not None and options.sample < 1:
        raise InvalidInput(f"--sample: at least one publication (got {options.sample})")
    found = load("analysis.spark.audit:audit")(
        options.run, master=options.master, remote=options.remote, sample=options.sample, trust=options.trust,
        progress=True,
    )  # fmt: skip
    print(json.dumps(found.as_data(), indent=2) if options.json else load("analysis.spark.audit_text:text")(found))
    return found.exit_code
