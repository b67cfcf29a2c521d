"""`brokerlab repeat FILE --times N`: one scenario with independent seeds."""

from __future__ import annotations

from scenarios.commands import add_scenario, overrides_of, parser
from scenarios.commands.sweep import add_execution, carry_out


def command(arguments: list[str]) -> int:
    result = parser(
        "repeat",
        "Run a scenario several times with independent seeds, the first being its own: a sweep in which nothing "
        "varies. Shows means with Student-t intervals. More times later run only what is new.",
        """
        brokerlab repeat quickstart --times 5
        brokerlab repeat study/scenario.yaml --times 20 --engine inline --jobs 2 --set duration='1 min'
        """,
    )
    add_scenario(result)
    result.add_argument("--times", type=int, required=True, metavar="N", help="how many seeds")
    add_execution(result)
    options = result.parse_args(arguments)

    from scenarios.many.sweep import repeated

    sweep = repeated(options.scenario, options.times, overrides_of(options), trust=options.trust)
    return carry_out(sweep, options)
