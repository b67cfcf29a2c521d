"""The judge that runs a case in another process, with another hash seed: nothing may go by the order of a set of text.

Processes are started when they are first asked, and stay until the end of the hunt. Two of them are compared, not one
with this: what is otherwise here, as a module that was changed while it was in memory, is no matter of hash seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Connection

from scenarios.hunt.case import Case
from scenarios.hunt.process import Process, importable
from scenarios.hunt.running import Outcome, run

SEEDS = (101, 102, 103)
_processes: dict[int, Process] = {}
_notes: dict[str, None] = {}


def hashing(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Another digest under another hash seed."""
    case = outcome.case
    if outcome.failed:
        return
    if local := [each for each in (case.protocol, case.kind) if not importable(each)]:
        _notes[f"hashing: not asked, since no other process can import {local[0]}"] = None
        return
    first = _digest(case, SEEDS[0])
    if first == outcome.digest:
        return
    for seed in SEEDS[1:]:
        if (other := _digest(case, seed)) != first:
            yield (
                "hash seed",
                f"with PYTHONHASHSEED={SEEDS[0]} its digest is {first or 'none'}, with {seed} {other or 'none'}: "
                "something goes by the order of a set, or by hash()",
            )
            return


def _digest(case: Case, hash_seed: int) -> str:
    """The digest of a case in a process with this hash seed; empty where it fails there."""
    process = _processes.get(hash_seed)
    if process is None:
        process = _processes[hash_seed] = Process("scenarios.hunt.hashing:work", hash_seed)
    process.say(case)
    try:
        return str(process.pipe.recv())
    except (EOFError, OSError):
        _processes.pop(hash_seed)
        _notes[f"hashing: the process with PYTHONHASHSEED={hash_seed} {process.last_words()}"] = None
        process.end()
        return ""


def close() -> list[str]:
    """End the processes; what is to be told of them."""
    while _processes:
        _processes.popitem()[1].end()
    told = list(_notes)
    _notes.clear()
    return told


def work(pipe: Connection) -> None:
    """What such a process does: run what comes, until nobody is there."""
    while True:
        try:
            case: Case = pipe.recv()
        except EOFError:
            return
        pipe.send(run(case).digest)
