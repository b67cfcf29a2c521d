"""`brokerlab reproduce NAME`: a paper's experiments. The names live in `analysis.papers.registry`."""

from __future__ import annotations

from brokers.errors import InvalidInput
from scenarios.commands import parser


def command(arguments: list[str]) -> int:
    result = parser(
        "reproduce",
        "Repeat the experiments of a paper and state its claims beside what was found.",
        "brokerlab reproduce htree --json",
    )
    result.add_argument("name", metavar="NAME", help="which experiments")
    result.add_argument(
        "--json", action="store_true", help="claims {name, source, expected, measured, holds}"
    )
    options, rest = result.parse_known_args(arguments)

    from brokers.registry import load
    from scenarios.problems import did_you_mean

    papers = load("analysis.papers.registry:PAPERS")
    if options.name not in papers:
        known = did_you_mean(options.name, papers) if papers else "this version knows no experiments yet"
        raise InvalidInput(f"nothing to reproduce under the name {options.name!r}; {known}")
    return int(load(papers[options.name].target)([*rest, *(["--json"] if options.json else [])]))
