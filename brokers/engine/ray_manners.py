"""What Ray does to the process that starts it, undone for as long as it is up.

- `ray.init` puts a handler on SIGTERM that calls sys.exit(15) wherever the program is, and a second one below it that
  prints a stack. With them, what stops a run looks like a mistake of whatever the run was at. Here SIGTERM does what
  it did before; where that was to end the process at once, leaving Ray behind, it interrupts as Ctrl-C does.
- A thread of Ray's prints on stdout that a worker or a node has died. The run says so itself, in a sentence and on
  stderr, and stdout may be one JSON object.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

# Read when Ray's core starts, in this process and in its workers.
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")


class Manners:
    """Made before Ray starts, taken up again with `insist` once it is up, given back with `close`."""

    def __init__(self) -> None:
        from ray._private import worker

        self._worker: Any = worker
        self._prints = worker.print_to_stdstream
        worker.print_to_stdstream = _says_nothing
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():  # only there signals can be handled
            self._before = signal.getsignal(signal.SIGTERM)

    def insist(self) -> None:
        """Take SIGTERM back from Ray."""
        if self._before is not None:
            ends_at_once = self._before is signal.SIG_DFL
            signal.signal(signal.SIGTERM, signal.default_int_handler if ends_at_once else self._before)

    def close(self) -> None:
        """Leave all as it was."""
        self._worker.print_to_stdstream = self._prints
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)


def _says_nothing(data: Any, ignore_prefix: bool) -> None:
    """In the place of Ray's function that prints what happened to workers."""
