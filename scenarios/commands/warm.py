"""`brokerlab warm`: compile every kernel, so that no run has to. It lives in `analysis.warm`."""

from __future__ import annotations

import sys
import time

from scenarios.commands import parser

SAID = "Compiling kernels, once: Numba keeps them on disk ..."


def command(arguments: list[str]) -> int:
    result = parser(
        "warm",
        "Compile every kernel that shipped scenarios, audits and reproductions need, as `make` does when it sets up. "
        "What is compiled already is not compiled again.",
        """
        brokerlab warm
        brokerlab warm --costs
        """,
    )
    result.add_argument("--jobs", type=int, metavar="N", help="processes; default: one per CPU")
    result.add_argument("--costs", action="store_true", help="say which kernels took longest")
    options = result.parse_args(arguments)

    from brokers.errors import InvalidInput
    from brokers.registry import load

    if options.jobs is not None and options.jobs < 1:
        raise InvalidInput(f"--jobs {options.jobs}: at least one process has to do it")
    print(SAID, file=sys.stderr, flush=True)
    began = time.monotonic()
    done = load("analysis.warm.compiling:warm")(options.jobs)
    compiled = [each for work in done for each in work.compiled]
    took, cpu_s = time.monotonic() - began, sum(each.seconds for each in compiled)
    print(f"Kernels ready after {took:.0f} s: {len(compiled)} compiled in {cpu_s:.0f} s of CPU time.", file=sys.stderr)
    if options.costs:
        for each in sorted(compiled, key=lambda each: -each.seconds)[:10]:
            print(f"{each.seconds:6.2f} s  {each.function}")
    return 0
