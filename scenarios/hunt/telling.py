"""A finding for people: a sentence, the case in some lines, and a folder that shows it again.

The folder has the scenario, with an expectation that fails where a run by itself can tell, a test, and the run, which
`brokerlab explain` takes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from brokers.errors import BrokerlabError
from brokers.registry import load
from scenarios.commands import shown
from scenarios.hunt.case import Case
from scenarios.hunt.expecting import expected
from scenarios.hunt.found import Covered, Finding, Report
from scenarios.hunt.judges import JUDGES
from scenarios.hunt.lines import some
from scenarios.hunt.origin import origin
from scenarios.hunt.running import EVENTS_MOST
from scenarios.hunt.running import run as run_case
from topology.units import format_duration

_KINDS = ("fault", "message", "timer")
ACTS_SHOWN = 30
_FILES_SHOWN = 8
FILE = "scenario.yaml"


def told(finding: Finding) -> str:
    """A finding in some lines."""
    case = finding.case
    lines = [f"run {finding.run}: {finding}"]
    lines += [f"    {line}" for line in lines_of(case)]
    least = "nothing single can be left out" if finding.minimal else "more could be left out, given more time"
    lines.append(
        f"    from {_counted(len(finding.first.acts), 'action')} to {len(case.acts)} "
        f"by {_counted(finding.tried, 'run')}; {least}"
    )
    return "\n".join(lines)


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def lines_of(case: Case) -> Iterator[str]:
    """A case for people."""
    links = ", ".join(
        f"{edge.a}-{edge.b} {format_duration(edge.delay_ns)}"
        + (f" + {format_duration(edge.jitter_ns)}" if edge.jitter_ns else "")
        + (f" loses {edge.loss:g}" if edge.loss else "")
        for edge in case.edges
    )
    yield f"{_counted(case.brokers, 'broker')}, links {links or 'none'}"
    yield "clients " + ", ".join(f"{i} at {broker}" for i, broker in enumerate(case.clients))
    if case.detect_ns is not None:
        yield f"brokers are told of what fails after {format_duration(case.detect_ns)}"
    names = ("params", "cost", "options", "session", "queues", "latent")
    said = {name: dict(getattr(case, name)) for name in names if getattr(case, name)}
    if case.settled:
        said["subscriptions"] = {"": "settled"}
    for name in ("view", "tables"):
        if getattr(case, name) != "auto":
            said[name] = {"": getattr(case, name)}
    if case.thresholds is not None:
        said["thresholds"] = {"": case.thresholds}
    for name, each in said.items():
        yield f"{name} " + ", ".join(f"{key} {value}".strip() for key, value in each.items())
    happens = [(act.at, _act(act)) for act in case.acts]
    happens += [(int(each["at"]), _fault(each)) for each in case.faults]
    happens += [(move.at, _move(move)) for move in case.moves]
    for at, line in sorted(happens, key=lambda pair: pair[0])[:ACTS_SHOWN]:
        yield f"{format_duration(at):>12}  {line}"
    if len(happens) > ACTS_SHOWN:
        yield f"... and {len(happens) - ACTS_SHOWN} more"


def _act(act: Any) -> str:
    of = "" if act.number is None else f" #{act.number}"
    body = (
        "" if act.body is None else " [" + ", ".join("-" if v is None else f"{v:g}" for v in act.body) + "]"
    )
    return f"client {act.client}: {act.op}{of}{body}"


def _move(move: Any) -> str:
    return f"client {move.client}: {'is away' if move.broker is None else f'is at broker {move.broker}'}"


def _fault(fault: Any) -> str:
    rest = ", ".join(f"{key} {value}" for key, value in fault.items() if key not in ("fault", "at"))
    return f"{fault['fault']}: {rest}"


# ---- a folder ----------------------------------------------------------------------------------------


def write(finding: Finding, out: str | Path, protocol: str) -> Path:
    """Write a finding's folder; returns its path."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{protocol} {finding.judge} {finding.sort}").strip("-").lower()
    folder = Path(out) / name[:80]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    file.write_text(scenario_text(finding, again(finding, protocol, file)), "utf-8")
    (folder / f"test_{name.replace('-', '_')[:60]}.py").write_text(_test(finding, name), "utf-8")
    return folder


def again(finding: Finding, protocol: str, file: Path) -> str:
    """The command that shows a finding again."""
    lowered = "" if finding.case.thresholds is None else f" --thresholds {finding.case.thresholds}"
    named = f" --judges {finding.judge}" if JUDGES[finding.judge].late else ""
    return f"brokerlab hunt {shlex.quote(protocol)} --replay {shlex.quote(str(file))}{lowered}{named}"


def scenario_text(finding: Finding, command: str) -> str:
    """The scenario of a finding, with what is expected and fails."""
    data = finding.case.scenario()
    data["title"] = f"{finding.judge} ({finding.sort})"
    asked = expected(finding.judge, finding.sort, run_case(finding.case))
    if asked.expect:
        data["expect"] = [asked.expect]
    if asked.metric:
        data["services"][0]["metrics"] = [asked.metric]
    if finding.judge == "storm":
        data["engine"] = {"messages_max": EVENTS_MOST}
    lines = [f"# {finding.told}", f"# {command}", f"# {origin(finding)}"]
    lines += [f"# digest {finding.digest}"] if finding.digest else []
    lines += [f"# it expects nothing, since {asked.why_not}; the command above shows it"] if asked.why_not else []
    return (
        "\n".join(line.replace("\n", " ") for line in lines)
        + "\n"
        + yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=150)
    )


class _Dumper(yaml.SafeDumper):
    """Without anchors: what is said twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _test(finding: Finding, name: str) -> str:
    lowered = "" if finding.case.thresholds is None else f", thresholds={finding.case.thresholds}"
    return (
        "from pathlib import Path\n\nfrom scenarios.hunt.replaying import replay\n\n\n"
        f"def test_{name.replace('-', '_')}():\n"
        f'    assert replay(Path(__file__).with_name("{FILE}"), judges=["{finding.judge}"]{lowered}).mistakes == []\n'
    )


def keep_run(folder: Path) -> Path | None:
    """Run the scenario of a finding into its folder, for `brokerlab explain`; None where it does not end well."""
    from scenarios.running import run

    try:
        done = run(folder / FILE, engine="inline", out=folder / "runs", trust=True, overwrite=True)
    except BrokerlabError:
        return None
    return done.path


def explained(finding: Finding, folder: Path, kept: Path | None) -> list[str]:
    """Write why it came so into a finding's folder, and its diagram; what to print of that, a few lines."""
    try:
        if kept is None:
            return _cut_short(finding, folder)
        explain: Any = load("analysis.ways.findings:explained")
        said: list[str] = explain(finding.judge, finding.told, kept, folder, finding.case.scenario())
    except BrokerlabError as error:
        return [f"it cannot be explained: {error}"]
    return said


def _cut_short(finding: Finding, folder: Path) -> list[str]:
    """The same of a case that does not come to its end."""
    from scenarios.hunt.stopped import stopped

    found = stopped(finding.case)
    explain: Any = load("analysis.ways.findings:cut_short")
    said: list[str] = [] if found is None else explain(found, folder)
    return said


# ---- the end -----------------------------------------------------------------------------------------


def summary(report: Report) -> str:
    """What came of a hunt, and what it covered."""
    runs, seconds = report.runs, report.seconds
    speed = f", {runs / seconds:.0f} a second" if seconds > 0 else ""
    stopped = "interrupted: " if report.interrupted else ""
    count = len(report.findings)
    findings = _counted(count, "finding") if count else "nothing found"
    return "\n".join([f"{stopped}{_counted(runs, 'run')} in {seconds:.1f} s{speed}: {findings}", *covered(report)])


def covered(report: Report) -> Iterator[str]:
    """What the runs did, and what none of them did."""
    found: Covered = report.covered
    deliveries = f"{found.deliveries:,} deliver{'y' if found.deliveries == 1 else 'ies'}"
    yield f"  {_counted(found.events, 'event')}, {deliveries}, {_counted(found.faulty, 'run')} with faults"
    last = max(0, report.runs - max(1, report.runs // 10))
    late = sum(number >= last for number in found.fresh)
    told = (
        f"{late} of them in the last tenth"
        if late
        else "none in the last tenth: more of the same finds little"
    )
    yield f"  {_counted(len(found.fresh), 'run')} behaved in a new way, {told}"
    types = ", ".join(
        f"{_KINDS[kind]} {type_}: {count:,}" for (kind, type_), count in sorted(found.types.items())
    )
    yield f"  handled by type: {types or 'nothing'}"
    yield from _lines(report)
    if report.long_enough:
        yield from (f"  never exercised: {each.told}" for each in report.unexercised)
    elif report.unexercised:
        yield f"  not exercised in so few runs: {', '.join(each.name for each in report.unexercised)}"
    for note in [*report.notes, *report.troubles]:
        yield f"  {note}"


def _lines(report: Report) -> Iterator[str]:
    """Lines of the protocol that ran in watched runs."""
    every, seen = sum(each.lines for each in report.lines), sum(each.reached for each in report.lines)
    if not every:
        return
    hidden = f"; {report.compiled_lines:,} compiled ones cannot be seen" if report.compiled_lines else ""
    runs = _counted(report.covered.watched, "watched run")
    yield f"  lines reached: {100 * seen // every} % of {every:,} in {runs}{hidden}"
    lacking = [each for each in report.lines if each.never]
    for file in lacking[:_FILES_SHOWN]:
        share, where = 100 * file.reached // file.lines, shown(file.file)
        yield f"    {share} % of {file.lines} in {where}; never: {some(file.never)}"
    if len(lacking) > _FILES_SHOWN:
        yield f"    ... and {len(lacking) - _FILES_SHOWN} more files"
