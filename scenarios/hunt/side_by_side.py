"""A hunt in several processes: each has its part of the numbers, its own kept cases, and a hash seed of its own.

None hears of another, so that what each finds follows from seed, number of processes and runs. What several find of one
sort counts once: that of the lowest number stays, whichever came first.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pickle import UnpicklingError
from typing import Any

from scenarios.hunt.found import Covered, Finding, Report
from scenarios.hunt.plan import Plan
from scenarios.hunt.process import Process, refuse_local, told
from scenarios.hunt.running import Stopwatch

_TOLD_EVERY_S = 1.0
_PATIENCE_S = 10.0  # for what a process says last, once it is to stop
_STOP = "stop"
_GONE = 75  # exit code of a process whose parent is gone


def side_by_side(
    plan: Plan, jobs: int, on_finding: Callable[[Finding], None] | None, on_run: Callable[[Report], None] | None,
    on_mistake: Callable[[str], None] | None = None,
) -> Report:  # fmt: skip
    """Hunt in so many processes, and put together what they found."""
    refuse_local(plan.protocol, plan.kind or "", "jobs")
    report, watch = Report(plan.protocol, plan.seed), Stopwatch()
    parts: dict[int, Covered] = {}
    runs = [0] * jobs
    processes: dict[int, Process] = {}

    def heard(i: int, said: dict[str, Any]) -> None:
        if "finding" in said:
            enough = plan.enough is not None and len(report.findings) >= plan.enough
            if not (enough and said["finding"].interrupted):  # it was stopped since there were enough
                _merge(report, said["finding"], on_finding)
            return
        if "mistake" in said:
            if on_mistake is not None:
                on_mistake(said["mistake"])
            return
        runs[i] = said.get("runs", runs[i])
        report.runs, report.seconds = sum(runs), watch.seconds
        if "covered" in said:
            parts[i] = said["covered"]
            for same, again in said["again"].items():
                _of(report, same).again += again
            report.notes += [note for note in said["notes"] if note not in report.notes]
        elif "failed" in said:
            report.troubles.append(f"process {i} of {jobs} failed after {runs[i]:,} runs: {said['failed']}")
        elif on_run is not None:
            report.covered.fresh = [0] * said["fresh"]
            on_run(report)

    try:
        for i in range(jobs):
            processes[i] = Process("scenarios.hunt.side_by_side:work", hash_seed=1 + i)
            processes[i].pipe.send(replace(plan, share=(i, jobs)))
        try:
            while processes and not (plan.enough is not None and len(report.findings) >= plan.enough):
                _listen(processes, heard)
        except KeyboardInterrupt:
            report.interrupted = True
        for process in processes.values():
            process.say(_STOP)
        while processes and _ready(processes, _PATIENCE_S):
            _listen(processes, heard)
    finally:
        for process in processes.values():
            process.end()
    report.covered = Covered()
    for part in parts.values():
        report.covered.add(part)
    report.findings.sort(key=lambda each: each.run)
    report.seconds = watch.seconds
    return report


def _listen(processes: dict[int, Process], heard: Callable[[int, dict[str, Any]], None]) -> None:
    """Hear those that have something to say, and let go of those that have said the last."""
    for i in _ready(processes):
        try:
            said = processes[i].pipe.recv()
        except (EOFError, OSError, UnpicklingError):
            said = {"failed": f"it {processes[i].last_words()}"}
        heard(i, said)
        if "covered" in said or "failed" in said:
            processes.pop(i).end()


def _ready(processes: dict[int, Process], patience_s: float | None = None) -> list[int]:
    """Those that have something to say, once there are any."""
    of = {process.pipe: i for i, process in processes.items()}
    return [of[pipe] for pipe in wait(list(of), patience_s) if isinstance(pipe, Connection)]


def _merge(report: Report, found: Finding, on_finding: Callable[[Finding], None] | None) -> None:
    """Of two of one sort that of the lower number stays, and the other is counted."""
    known = [each for each in report.findings if each.same == found.same]
    if known and known[0].run < found.run:
        known[0].again += 1
        return
    for each in known:
        found.again += each.again + 1
        report.findings.remove(each)
    report.findings.append(found)
    if on_finding is not None:
        on_finding(found)


def _of(report: Report, same: tuple[str, str]) -> Finding:
    return next(each for each in report.findings if each.same == same)


# ---- in a process of its own -------------------------------------------------------------------------


def work(pipe: Connection) -> None:
    """Hunt one part, tell of it, and end when nobody listens any more."""
    from scenarios.hunt.hunt import alone

    plan = pipe.recv()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    last = Stopwatch()
    sent: dict[tuple[str, str], Finding] = {}

    def on_finding(found: Finding) -> None:
        sent[found.same] = found
        pipe.send({"finding": found})

    def on_run(report: Report) -> None:
        nonlocal last
        if last.seconds > _TOLD_EVERY_S:
            last = Stopwatch()
            pipe.send({"runs": report.runs, "fresh": len(report.covered.fresh)})

    try:
        report = alone(plan, on_finding, on_run, on_mistake=lambda told: pipe.send({"mistake": told}))
    except Exception as error:  # the protocol's, or ours: it is told there
        pipe.send(told(error))
        return
    again = {same: found.again for same, found in sent.items() if found.again}
    pipe.send({"runs": report.runs, "covered": report.covered, "again": again, "notes": report.notes})
    pipe.close()
    os._exit(0)  # the thread waits for the other end, which may take its time


def _end_with(pipe: Connection) -> None:
    """Stop hunting when that is said; be gone when the other end is."""
    while True:
        try:
            pipe.recv()
        except (EOFError, OSError):
            os._exit(_GONE)
        _thread.interrupt_main()
