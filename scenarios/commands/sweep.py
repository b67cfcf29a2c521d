"""`brokerlab sweep FILE`: many runs of one scenario, varied."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from scenarios.commands import add_trust, parser, shown

if TYPE_CHECKING:
    from scenarios.many.carry import SweepResult
    from scenarios.many.sweep import Sweep

FAILED_SHOWN_MAX = 10
VARIANTS_SHOWN_MAX = 6


def command(arguments: list[str]) -> int:
    result = parser(
        "sweep",
        "Run a scenario at every point of a sweep file: what varies, with how many independent seeds. Points of one "
        "repeat share their seed. Finished points are not run again; failed ones are kept apart and do not stop the "
        "others. Exit code 1 if an expectation does not hold or points failed, after all have run.",
        """
        brokerlab sweep study/routing.yaml
        brokerlab sweep study/routing.yaml --engine inline --jobs 2
        brokerlab sweep study/routing.yaml --set repeats=10 --dry-run
        """,
    )
    result.add_argument("sweep", metavar="FILE", help="a sweep file; docs/many-runs.md describes it")
    result.add_argument(
        "--set",
        metavar="a=b",
        action="append",
        default=[],
        dest="overrides",
        help="override a value of the sweep file, as in repeats=10 or set.duration='5 s'",
    )
    result.add_argument("--dry-run", action="store_true", help="check the sweep and list its points")
    add_trust(result)
    add_execution(result)
    options = result.parse_args(arguments)

    from scenarios.many.reader import load_sweep

    return carry_out(load_sweep(options.sweep, options.overrides, trust=options.trust), options)


def add_execution(result: argparse.ArgumentParser) -> None:
    """How points are run, for `sweep` and `repeat`."""
    result.add_argument(
        "--engine",
        choices=("ray", "inline"),
        help="points as Ray tasks, or in processes; default: ray if installed",
    )
    result.add_argument(
        "--jobs", type=int, metavar="N", help="points at a time; default: the CPUs; inline: 1"
    )
    result.add_argument("--address", metavar="A", help="address of an existing Ray cluster")
    result.add_argument("--out", metavar="DIR", help="where sweep folders are made; default: sweeps")
    result.add_argument(
        "--again",
        action="store_true",
        help="run every point from its beginning, as after a change to a protocol's code",
    )
    result.add_argument("--quiet", action="store_true", help="no progress")
    result.add_argument(
        "--json", action="store_true", help="end with one object {sweep, table, points, failed, …}"
    )


def carry_out(sweep: Sweep, options: argparse.Namespace) -> int:
    """Carry a sweep out and tell what came of it."""
    from scenarios.choosing import where_ray_is
    from scenarios.many.carry import carry_out

    engine = where_ray_is(options.engine, options.address)
    if getattr(options, "dry_run", False):
        print(json.dumps(_points(sweep), indent=2) if options.json else listing(sweep))
        return 0
    if options.engine is None and options.address is None:
        print(f"engine: {engine}, since Ray is {'' if engine == 'ray' else 'not '}installed", file=sys.stderr)
    done = carry_out(
        sweep,
        engine=engine,
        jobs=options.jobs,
        address=options.address,
        out=options.out,
        again=options.again,
        progress=not options.quiet,
    )
    print(json.dumps(done.as_data(), indent=2, ensure_ascii=False) if options.json else summary(done))
    return done.exit_code


def _points(sweep: Sweep) -> list[dict[str, object]]:
    return [
        {"point": p.slug, "values": dict(p.values), "repeat": p.repeat, "seed": p.seed} for p in sweep.points
    ]


def listing(sweep: Sweep) -> str:
    """The points of a sweep, for people."""
    width = max(len(point.slug) for point in sweep.points)
    lines = [f"{point.slug:{width}}  {point.label}  seed {point.seed}" for point in sweep.points]
    left_out = f"; {sweep.left_out} combinations left out by where" if sweep.left_out else ""
    variants = len(sweep.points) // sweep.repeats
    return "\n".join(
        [*lines, f"{len(sweep.points)} points: {variants} variants, {sweep.repeats} seeds{left_out}"]
    )


def summary(done: SweepResult) -> str:
    """What came of a sweep, for people: expectations first."""
    lines = [*_expectations(done)]
    finished, failed = done.finished, done.failed
    reused = f", {done.reused} of them before" if done.reused else ""
    lines.append(f"points  {len(finished)} of {len(done.states)} finished{reused}; {len(failed)} failed")
    lines += [f"  {state.point}: {state.error}" for state in failed[:FAILED_SHOWN_MAX]]
    if len(failed) > FAILED_SHOWN_MAX:
        lines.append(f"  … and {len(failed) - FAILED_SHOWN_MAX} more, in {shown(done.path / 'failed')}")
    lines.append(f"table   {shown(done.path / 'points.parquet')}")
    variants = len({state.point.label for state in finished})
    if 1 <= variants <= VARIANTS_SHOWN_MAX:
        from scenarios.many import compare

        lines += ["", compare.text(compare.compare([done.path]))]
    elif finished:
        lines.append(f"{variants} variants; compare them with: brokerlab compare {shown(done.path)}")
    return "\n".join(lines)


def _expectations(done: SweepResult) -> list[str]:
    """One line per expectation over all points, then the points it fails at."""
    from scenarios.many.expect import mark

    lines = []
    for i, text in enumerate(done.sweep.expect):
        judged = [(state, state.judged[i]) for state in done.finished]
        failing = [(state, each) for state, each in judged if not each.holds]
        if not judged:
            lines.append(f"{mark(False)} {text}: no point finished")
        elif not failing:
            values = list(dict.fromkeys(each.measured for _, each in judged))
            among = values[0] if len(values) == 1 else f"{_low_and_high(judged)}"
            lines.append(f"{mark(True)} {text}: {among} at {_count(len(judged))}")
        else:
            lines.append(f"{mark(False)} {text}: does not hold at {len(failing)} of {_count(len(judged))}")
            lines += [f"    {state.point}: {each.measured}" for state, each in failing[:FAILED_SHOWN_MAX]]
            if len(failing) > FAILED_SHOWN_MAX:
                lines.append(f"    … and {len(failing) - FAILED_SHOWN_MAX} more")
    return [*lines, ""] if lines else []


def _low_and_high(judged: list) -> str:
    ordered = sorted((each for _, each in judged), key=lambda each: each.value)
    return f"{ordered[0].measured} to {ordered[-1].measured}"


def _count(points: int) -> str:
    return "1 point" if points == 1 else f"{points} points"
