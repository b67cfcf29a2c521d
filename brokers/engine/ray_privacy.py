"""What a Ray for one machine keeps to this machine and this user: who can reach it, who may talk to it, who can read
its files.

- Ray listens on what it takes for its node's address, and on all interfaces unless that is the loopback. An address
  given to `ray.init` it replaces by that of the machine where it is the loopback. Only where Ray knows no clusters, as
  on macOS, the loopback is its own first choice: so it knows none here either, while it starts.
- Ray opens the folder that it is given, and most of what it makes there, to everybody (0777). Below a folder that is
  closed, that opens nothing.
- Ray asks for a token; where it is told none it writes one into HOME, for good. So each run tells its own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
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


@contextlib.contextmanager
def own_token() -> Iterator[None]:
    """Have a Ray that lives within ask for a token that nobody else knows, and that is written nowhere."""
    said = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    _read_token_again()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _read_token_again()


def _read_token_again() -> None:
    """Ray caches mode and token when it is imported, and a process may run many clusters."""
    from ray import _raylet

    raylet: Any = _raylet
    # The mode before the cache: a thread still draining must not look for a token that is gone.
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
