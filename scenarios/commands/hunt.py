"""`brokerlab hunt PROTOCOL`: look for what is wrong with a protocol, and show it small."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers.errors import InvalidInput
from scenarios.commands import add_trust, parser, shown
from scenarios.progress import Line, clock_text

if TYPE_CHECKING:
    from scenarios.hunt.found import Finding, Report
    from scenarios.hunt.replaying import Replayed

FOUND, NOTHING, INCOMPLETE = 1, 0, 2
_JOBS_MOST = 256
# What says how to hunt, and where it is kept; a replay takes none of it.
_OF_HUNTS = {
    "--for": "time", "--runs": "runs", "--seed": "seed", "--jobs": "jobs", "--faults": "faults", "--first": "first",
    "--trees-only": "trees_only", "--schedules": "schedules", "--no-lines": "no_lines", "--strict": "strict",
}  # fmt: skip


def command(arguments: list[str]) -> int:
    """Exit code 0: nothing was found; 1: something was; 2: nothing was, but a process died before its end."""
    from brokers.names import beside

    options = _parser().parse_args(arguments)
    if ":" in options.protocol:  # whoever names code here trusts it; it may lie where they are
        beside.look_in([str(Path.cwd())])
    return _replay(options) if options.replay else _hunt(options)


def _parser() -> argparse.ArgumentParser:
    result = parser(
        "hunt",
        "Look for what is wrong with a protocol: small networks, scripts and faults are drawn, run and judged, and "
        "what fails is made smaller until nothing can be left out. A protocol that is named module:Class is imported.",
        """
        brokerlab hunt subscription --for 2min
        brokerlab hunt my.module:Mine --runs 500 --seed 7 --faults none
        brokerlab hunt covering --set recover=true --judges delivery,leaks
        brokerlab hunt my.module:Mine --replay hunts/mine-delivery-missed/scenario.yaml
        """,
    )
    result.add_argument(
        "protocol", metavar="PROTOCOL", help="a protocol of `brokerlab list`, or package.module:Class"
    )
    result.add_argument(
        "--for", dest="time", metavar="T", help="how long, as in 2min (default: 60 s, or as --runs says)"
    )
    result.add_argument("--runs", type=int, metavar="N", help="how many runs: the same are found each time")
    result.add_argument("--seed", type=int, help="of what is drawn (default: 1)")
    result.add_argument("--kind", help="its kind, package.module:Name, if that is not registered")
    result.add_argument(
        "--set",
        metavar="option=value",
        action="append",
        default=[],
        dest="said",
        help="an option of the protocol",
    )
    result.add_argument("--faults", choices=("some", "none"), help="whether anything fails (default: some)")
    result.add_argument("--first", action="store_true", help="end with the first thing that is found")
    result.add_argument("--trees-only", action="store_true", help="leave out graphs with cycles")
    result.add_argument(
        "--schedules", choices=("aimed", "random"),
        help="aimed at what happened in runs before (default), or plainly random",
    )  # fmt: skip
    result.add_argument("--judges", metavar="A,B", help="only these of `brokerlab list judges`")
    result.add_argument(
        "--jobs", type=int, metavar="N",
        help="so many processes, each with its part of the runs (default: 1); another number finds other things",
    )  # fmt: skip
    result.add_argument("--no-lines", action="store_true", help="do not watch which lines of the protocol run")
    result.add_argument(
        "--strict", action="store_true", help="exit code 1 too where a type or option was never exercised"
    )
    result.add_argument("--out", default="hunts", help="folder for what is found (default: hunts)")
    result.add_argument("--replay", metavar="FILE", help="run and judge the scenario of a finding again")
    result.add_argument(
        "--thresholds", type=int, metavar="N", help="with --replay: tables tidy themselves from so much"
    )
    result.add_argument("--shrink", action="store_true", help="with --replay: go on making the case smaller")
    add_trust(result)
    result.add_argument("--json", action="store_true", help="one JSON object at the end")
    return result


def _hunt(options: argparse.Namespace) -> int:
    from scenarios.hunt.hunt import hunt
    from scenarios.hunt.telling import summary

    if options.runs is not None and options.runs < 1:
        raise InvalidInput(f"--runs: at least 1 (got {options.runs})")
    jobs = 1 if options.jobs is None else options.jobs
    if not 1 <= jobs <= _JOBS_MOST:
        raise InvalidInput(f"--jobs: 1 to {_JOBS_MOST} (got {jobs})")
    if options.thresholds is not None:
        raise InvalidInput("--thresholds goes with --replay")
    if options.shrink:
        raise InvalidInput("--shrink goes with --replay; a hunt makes smaller what it finds")
    _refuse_out(options.out)
    folders: dict[tuple[str, str], str] = {}

    telling = _Telling()

    def on_finding(found: Finding) -> None:
        telling.close()
        folders[found.same] = str(_tell(options, found))

    report = hunt(
        options.protocol, seed=1 if options.seed is None else options.seed, seconds=_seconds(options.time),
        runs=options.runs, kind=options.kind, options=_options(options.said),
        judges=options.judges.split(",") if options.judges else None,
        schedules=options.schedules or "aimed", faults=options.faults != "none", trees_only=options.trees_only,
        enough=1 if options.first else None,
        on_finding=on_finding, jobs=jobs, lines=not options.no_lines,
        on_mistake=None if options.json else telling.say,
        on_run=telling if telling.terminal and not options.json else None,
    )  # fmt: skip
    telling.close()
    print(json.dumps(as_data(report, folders), indent=2) if options.json else summary(report))
    if report.findings or (options.strict and report.long_enough and report.unexercised):
        return FOUND
    return INCOMPLETE if report.troubles else NOTHING


def _refuse_out(out: str) -> None:
    """Say before anything is looked for that what is found could not be written."""
    folder = Path(out)
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise InvalidInput(f"--out: {out}: {folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(f"--out: {out}: nothing can be written to {folder}")


def _tell(options: argparse.Namespace, found: Finding) -> Path:
    """Write the folder of a finding, with its run and explanation, and print it unless JSON is asked for."""
    from scenarios.hunt.origin import origin
    from scenarios.hunt.telling import FILE, again, explained, keep_run, told, write

    folder = write(found, options.out, options.protocol)
    kept = keep_run(folder)
    why = explained(found, folder, kept)
    if not options.json:
        print(told(found))
        for line in why:
            print(f"    {line}")
        print(f"    again: {again(found, options.protocol, folder / FILE)}  # {origin(found)}", flush=True)
        if kept is not None:
            print(f"    the run: {shown(kept)}", flush=True)
    return folder


def as_data(report: Report, folders: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """A report as plain data, for --json."""
    return {
        "protocol": report.protocol,
        "seed": report.seed,
        "runs": report.runs,
        "interrupted": report.interrupted,
        "findings": [
            {
                "judge": each.judge, "sort": each.sort, "told": each.told, "run": each.run, "again": each.again,
                "minimal": each.minimal, "folder": folders[each.same], "digest": each.digest,
                "scenario": each.case.scenario(),
            }
            for each in report.findings
        ],
        "events": report.covered.events,
        "fresh": report.covered.fresh,
        "unexercised": [asdict(each) for each in report.unexercised],
        "lines": {
            "watched": report.covered.watched,
            "compiled": report.compiled_lines,
            "files": [{**asdict(each), "file": shown(each.file)} for each in report.lines],
        },
        "notes": report.notes,
        "troubles": report.troubles,
        "seconds": report.seconds,
    }  # fmt: skip


class _Telling(Line):
    """How far a hunt is, now and then."""

    def __call__(self, report: Report) -> None:
        now = self.clock()
        if self.due(now):
            self.show(
                f"{report.runs:,} runs · {len(report.covered.fresh):,} behaved in a new way · "
                f"{len(report.findings)} findings · {clock_text(report.seconds)}", now,
            )  # fmt: skip


def _seconds(text: str | None) -> float | None:
    from topology.units import QuantityError, parse_duration

    if text is None:
        return None
    try:
        return parse_duration(text) / 1e9
    except QuantityError as error:
        raise InvalidInput(f"--for: {error}") from None


def _options(said: list[str]) -> dict[str, Any]:
    """`option=value`, the values as YAML has them."""
    import yaml

    found = {}
    for each in said:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise InvalidInput(f"--set: expected option=value (got {each!r})")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise InvalidInput(f"--set: {name}: not a value (got {value!r})") from None
    return found


def _shrink(options: argparse.Namespace, found: Replayed) -> int:
    """Make the case of each sort of mistake smaller, and write it as a hunt does."""
    from scenarios.hunt.hunt import smaller

    for mistake in {each.same: each for each in found.mistakes}.values():
        finding = smaller(0, found.case, mistake)
        _tell(options, finding)
        if finding.interrupted:
            break
    if options.json:
        print(json.dumps({"digest": found.digest, "mistakes": [each._asdict() for each in found.mistakes]}, indent=2))
    return FOUND


def _replay(options: argparse.Namespace) -> int:
    from scenarios.hunt.replaying import refuse_code, replay
    from scenarios.hunt.telling import lines_of

    if options.said:
        raise InvalidInput("--set: the options of a replay are those of its scenario")
    for name, where in _OF_HUNTS.items():
        if getattr(options, where) not in (None, False):
            raise InvalidInput(f"{name}: a replay draws nothing, it runs the scenario as it is; leave it out")
    if options.thresholds is not None and options.thresholds < 1:
        raise InvalidInput(f"--thresholds: at least 1 (got {options.thresholds})")
    if options.shrink:
        _refuse_out(options.out)
    if not options.trust:
        refuse_code(options.replay, {options.protocol, options.kind})
    found = replay(
        options.replay, protocol=options.protocol, thresholds=options.thresholds,
        judges=options.judges.split(",") if options.judges else None,
    )  # fmt: skip
    if options.shrink and found.mistakes:
        return _shrink(options, found)
    mistakes = [{"judge": each.judge, "sort": each.sort, "told": each.told} for each in found.mistakes]
    if options.json:
        print(json.dumps({"digest": found.digest, "mistakes": mistakes, "changed": found.changed}, indent=2))
        return FOUND if mistakes else NOTHING
    for line in lines_of(found.case):
        print(line)
    for each in found.mistakes:
        print(f"{each.judge} ({each.sort}): {each.told}")
    if not mistakes:
        print("no judge has anything against it")
    print(f"digest {found.digest or 'none: it did not come to its end'}")
    for sentence in found.changed:
        print(sentence)
    return FOUND if mistakes else NOTHING
