"""What a Ray for one machine keeps to this machine and this user: who can reach it, and who can read its files.

- Ray listens on what it takes for its node's address, and on all interfaces unless that is the loopback. An address
  given to `ray.init` it replaces by that of the machine where it is the loopback. Only where Ray knows no clusters, as
  on macOS, the loopback is its own first choice: so it knows none here either, while it starts.
- Ray opens the folder that it is given, and most of what it makes there, to everybody (0777). Below a folder that is
  closed, that opens nothing.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CLUSTERS = "ENABLE_RAY_CLUSTER"


@contextlib.contextmanager
def on_the_loopback() -> Iterator[None]:
    """Have a Ray that starts within listen on the loopback only; of a Ray that has no such switch nothing changes."""
    from ray._private import ray_constants

    switches: Any = ray_constants
    before = getattr(switches, _CLUSTERS, None)
    if before is None:
        yield
        return
    setattr(switches, _CLUSTERS, False)
    try:
        yield
    finally:
        setattr(switches, _CLUSTERS, before)


def closed_folder() -> tuple[str, str]:
    """A folder that only this user enters, and the one in it that Ray may open as it likes."""
    closed = tempfile.mkdtemp(prefix="bl-")  # short: paths of sockets have a limit of 107 bytes
    within = Path(closed) / "r"
    within.mkdir()
    return closed, str(within)
