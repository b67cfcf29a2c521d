"""What was measured of a reproduction, on disk: a file per experiment and seed, so that what was stopped goes on.

A file counts only if it was made by the same code at the same scale: its name carries a fingerprint of both.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

FOLDER = "measured"
_PACKAGES = ("analysis", "brokers", "protocols", "scenarios", "topology")


class Kept:
    """The measurements in a folder."""

    def __init__(self, folder: Path, full: bool) -> None:
        self.folder = folder / FOLDER
        self.mark = hashlib.sha256(f"{code()}/{full}".encode()).hexdigest()[:16]

    def path(self, experiment: str, seed: int) -> Path:
        return self.folder / f"{experiment}-{seed}-{self.mark}.json"

    def read(self, experiment: str, seed: int) -> dict[str, Any] | None:
        """What was measured; None if it was not, or the file is damaged."""
        try:
            found = json.loads(self.path(experiment, seed).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def any_of(self, experiment: str) -> dict[str, Any] | None:
        """What was measured of some seed; None if nothing was."""
        seeds = (path.name[len(experiment) + 1 :].split("-")[0] for path in sorted(self.folder.glob(
            f"{experiment}-*-{self.mark}.json")))  # fmt: skip
        found = (self.read(experiment, int(seed)) for seed in seeds if seed.isdigit())
        return next((each for each in found if each is not None), None)

    def write(self, experiment: str, seed: int, found: dict[str, Any]) -> dict[str, Any]:
        """Whole or not at all; gives what `read` would, so that nothing depends on who measured it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(experiment, seed)
        beside = path.with_suffix(".part")
        text = json.dumps(found, default=_plain)
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
        return cast("dict[str, Any]", json.loads(text))


def code() -> str:
    """What a measurement is made by: all that is brokerlab."""
    found = hashlib.sha256()
    for package in _PACKAGES:
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*.py")):
            found.update(f"{path.relative_to(root)}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item()
