"""`brokerlab reproduce NAME`: a paper's experiments. The names live in `analysis.papers.registry`."""

from __future__ import annotations

from pathlib import Path

from brokers.errors import InvalidInput
from scenarios.commands import parser


def command(arguments: list[str]) -> int:
    from brokers.registry import load

    papers = load("analysis.papers.registry:PAPERS")
    names = "\n".join(f"  {name:9} {papers[name].prose}" for name in papers)
    result = parser(
        "reproduce",
        "Repeat the experiments of a paper: tables, plots, and its claims beside what was found.\n\n"
        f"names:\n{names or '  none in this version'}",
        """
        brokerlab reproduce htree
        brokerlab reproduce htree --json --out results/htree
        """,
    )
    result.add_argument("name", metavar="NAME", help="which experiments")
    result.add_argument(
        "--out", type=Path, metavar="DIR",
        help="where report.md, tables and plots go (default: reproductions/NAME)",
    )
    result.add_argument(
        "--full", action="store_true", help="the scale of the source where feasible (default: some minutes)"
    )
    result.add_argument("--seed", type=int, default=1, metavar="N", help="of every draw (default: %(default)s)")
    result.add_argument(
        "--json", action="store_true", help="claims {name, source, expected, measured, holds}"
    )
    options = result.parse_args(arguments)

    from scenarios.problems import did_you_mean

    if options.name not in papers:
        known = did_you_mean(options.name, papers) if papers else "this version knows no experiments yet"
        raise InvalidInput(f"nothing to reproduce under the name {options.name!r}; {known}")
    if options.seed < 0:
        raise InvalidInput(f"--seed {options.seed} is negative; pass zero or more")

    reproduce = load("analysis.papers.report:reproduce")
    folder = options.out or Path("reproductions") / options.name
    entry = papers[options.name]
    experiments = [load(target) for target in (entry.target, *entry.facts.get("further", ()))]
    reproduce(options.name, experiments, folder, options.seed, options.full, options.json)
    return 0
