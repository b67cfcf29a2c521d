"""A Python process of our own, with a hash seed of its own, that is spoken to over a pipe and never left behind.

It is no fork and imports nothing of whoever starts it, so that a script without a guard may start one. It hears nothing
of Ctrl-C, which is for whoever started it; when the other end of its pipe is gone, so is it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from brokers import names
from brokers.errors import InvalidInput

_BEGIN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from scenarios.hunt.process import serve; serve()"
_PATIENCE_S = 5.0


class Process:
    """A process that runs the function `target`, module:name, which gets its end of the pipe."""

    def __init__(self, target: str, hash_seed: int) -> None:
        self.pipe, theirs = Pipe()
        asked = json.dumps([target, theirs.fileno(), names.beside.folders])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, json.dumps([os.path.abspath(each) for each in sys.path]), asked],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=2, process_group=0,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        )  # fmt: skip
        theirs.close()

    def say(self, thing: Any) -> None:
        """Tell it something, if it is still there."""
        try:
            self.pipe.send(thing)
        except OSError:
            return  # whoever listens to it hears of that

    def end(self) -> None:
        """End it, whatever it does."""
        self.pipe.close()
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """Of a process whose pipe is closed: how it ended."""
        code = self._process.wait()
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def serve() -> None:
    """What such a process does."""
    target, pipe, folders = json.loads(sys.argv[2])
    names.beside.look_in(folders)
    names.imported(target)(Connection(pipe))


def importable(target: str) -> bool:
    """Whether another process finds it: it is a program, or stands in a module under its name."""
    module = target.partition(":")[0]
    return module not in ("__main__", "protocols.rehearsing")


def refuse_local(target: str, kind: str, what: str) -> None:
    """InvalidInput where a class is known to this process only."""
    for each in (target, kind):
        if not importable(each):
            raise InvalidInput(
                f"{what} run in processes of their own, which cannot import {each}: put the class into a module"
            )


def told(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    return {"failed": f"{type(error).__name__}: {error}"}
