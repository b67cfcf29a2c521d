"""`brokerlab reproduce NAME`: a paper's experiments. The names live in `analysis.papers.registry`."""

from __future__ import annotations

import json
from pathlib import Path

from brokers.errors import InvalidInput
from scenarios.commands import parser

ALL = "all"


def command(arguments: list[str]) -> int:
    from brokers.registry import load

    papers, usual = load("analysis.papers.registry:PAPERS"), load("analysis.papers.registry:SEEDS")
    seeds = {name: entry.facts.get("seeds", usual) for name, entry in papers.items()}
    others = "".join(f"; {name}: {count}" for name, count in seeds.items() if count != usual)
    names = "\n".join(f"  {name:9} {papers[name].prose}" for name in papers)
    result = parser(
        "reproduce",
        "Repeat the experiments of a paper: its claims beside what was found, tables and figures.\n\n"
        f"names:\n{names or '  none in this version'}",
        """
        brokerlab reproduce htree
        brokerlab reproduce merging --seeds 10 --claim figure-14/about-20
        brokerlab reproduce htree --json --out results/htree
        brokerlab reproduce all --full --jobs 2
        """,
    )
    result.add_argument("name", metavar="NAME", help=f"which experiments; {ALL}: one after the other")
    result.add_argument(
        "--out", type=Path, metavar="DIR",
        help="where the report, tables and figures go (default: reproductions/NAME, with --full NAME-full)"
        f"; of {ALL}: where their folders go",
    )
    result.add_argument(
        "--full", action="store_true", help="the scale of the source where feasible (default: some minutes)"
    )
    result.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the first of those that draw (default: %(default)s)"
    )
    result.add_argument(
        "--seeds", type=int, default=None, metavar="N",
        help=f"how many, for the spread of what is measured (default: {usual}{others})",
    )
    result.add_argument(
        "--claim", default="", metavar="KEY",
        help="this claim alone, or all of an experiment, as the report names them; no report is written",
    )
    result.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="measurements at a time, in processes (default: %(default)s)"
    )
    result.add_argument("--fresh", action="store_true", help="measure again what an earlier call measured")
    result.add_argument(
        "--json", action="store_true", help="the claims as one JSON object"
    )
    options = result.parse_args(arguments)

    from scenarios.problems import did_you_mean

    if options.name != ALL and options.name not in papers:
        known = did_you_mean(options.name, papers) if papers else "this version knows no experiments yet"
        raise InvalidInput(f"nothing to reproduce under the name {options.name!r}; {known}")
    if options.seed < 0:
        raise InvalidInput(f"--seed {options.seed} is negative; pass zero or more")
    if options.seeds is not None and options.seeds < 1:
        raise InvalidInput(f"--seeds {options.seeds} is not positive; pass one or more")

    if options.jobs < 1:
        raise InvalidInput(f"--jobs {options.jobs} is not positive; pass one or more")
    if options.name == ALL and options.claim:
        raise InvalidInput(f"--claim {options.claim} is of one reproduction; name it instead of {ALL}")

    folder_of, asked_for = load("analysis.papers.registry:folder_of"), load("analysis.papers.reproducing:Asked")
    reproduce = load("analysis.papers.reproducing:reproduce")
    found = []
    for name in papers if options.name == ALL else [options.name]:
        entry = papers[name]
        experiments = [each for target in (entry.target, *entry.facts.get("further", ())) for each in load(target)]
        usual = Path("reproductions") if options.out is None else options.out
        folder = options.out if options.out and options.name != ALL else usual / folder_of(name, options.full)
        asked = asked_for(
            name, folder, options.seed, options.seeds or seeds[name], seeds[name], options.full, options.claim,
            options.fresh, options.jobs,
        )  # fmt: skip
        if options.name == ALL and not options.json:
            print(f"{name}: {entry.prose}\n", flush=True)
        found.append(reproduce(entry.prose, experiments, asked, not options.json))
    if options.json:
        print(json.dumps({"reproductions": found} if options.name == ALL else found[0], indent=2))
    return 0
