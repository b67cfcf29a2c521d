"""Whether anything was left behind: processes, their ports, files in the temporary folders and in HOME.

Exit code 1, and a line about each, if so. Only the standard library, and only Linux.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

# What tools of others keep on purpose, below HOME and below a temporary folder.
KEPT_AT_HOME = (
    ".cache/pip",
    ".rustup",  # pip asks for the version of rustc, and rustup makes its folder
    ".cache/brokerlab/code",  # what was shipped to a Ray cluster, see docs/cluster.md
    ".cache/matplotlib",
    ".config/matplotlib",
    ".cache/fontconfig",
)
KEPT_FOR_A_WHILE = (
    f"pytest-of-{getpass.getuser()}",  # the folders of the last runs of tests
    f"hsperfdata_{getpass.getuser()}",  # where each Java has a file while it runs
)
LISTENING = "0A"


def main() -> int:
    said = argparse.ArgumentParser(description=__doc__)
    said.add_argument("--home", type=Path, action="append", default=[])
    said.add_argument("--temporary", type=Path, action="append", default=[])
    said.add_argument("--clone", type=Path, required=True, help="which may be there, in a home")
    said.add_argument("--marked", help="only processes with this in their environment; else all that can be seen")
    said.add_argument("--ending", type=float, default=30.0, metavar="S", help="for processes on their way out")
    options = said.parse_args()
    found = list(processes_left(options.marked, options.ending))
    for folder in options.temporary:
        found += [f"{path} in the temporary folder" for path in files(folder, KEPT_FOR_A_WHILE)]
    for home in options.home:
        found += [f"{path} in HOME" for path in files(home, KEPT_AT_HOME) if path != options.clone]
    for line in found:
        print(f"left behind: {line}")
    if not found:
        print("nothing: no process, no port, no file")
    return 1 if found else 0


def processes_left(marked: str | None, ending_s: float) -> Iterator[str]:
    """A line about each process that does not end, with the ports it listens at."""
    until = time.monotonic() + ending_s
    while (left := processes(marked)) and time.monotonic() < until:
        time.sleep(0.2)
    for pid in left:
        ports = ", ".join(map(str, sorted(ports_of(pid))))
        yield f"process {pid}, {_read(pid, 'cmdline').replace(chr(0), ' ').strip()[:200]!r}" + (
            f", listening at {ports}" if ports else ""
        )


def processes(marked: str | None) -> list[int]:
    """Those that are neither ended nor above this one."""
    above, pid = set(), os.getpid()
    while pid > 0:
        above.add(pid)
        pid = _parent(pid)
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [
        pid
        for pid in sorted(pids)
        if pid not in above
        and _state(pid) not in ("", "Z", "X")
        and (marked is None or marked in _read(pid, "environ").split("\0"))
    ]


def ports_of(pid: int) -> set[int]:
    """The TCP ports at which a process listens."""
    sockets = set()
    try:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            sockets.add(os.readlink(file))
    except OSError:
        pass  # it ended meanwhile
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in _read(pid, f"net/{table}").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def files(folder: Path, kept: tuple[str, ...]) -> Iterator[Path]:
    """What lies below a folder and is not kept on purpose: the uppermost of it."""
    for path in sorted(folder.iterdir()):
        name = path.relative_to(folder).as_posix()
        if any(fnmatch(name, pattern) for pattern in kept):
            continue
        inner = tuple(pattern[len(name) + 1 :] for pattern in kept if pattern.startswith(f"{name}/"))
        if inner and path.is_dir() and not path.is_symlink():
            yield from files(path, inner)
        else:
            yield path


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _state(pid: int) -> str:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return fields[0] if fields else ""


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
