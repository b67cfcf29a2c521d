"""The parts of a trace that a checkpoint vouches for, and whether they are still what they were.

A checkpoint lists every part that was complete when it was taken, with rows, bytes and sha256. Only parts that came
since the one before are read for that. Who goes on from a checkpoint checks all of them before anything is removed:
a run that goes on from half a trace would end well, and be wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from brokers.columns import BadState
from brokers.engine.manifest import refuse_links
from brokers.errors import RunIncomplete

_NAME = re.compile(r"part-(driver|\d{4,})(?:-(\d{4,}))?\.parquet")
_PATH = re.compile(r"tables/[A-Za-z0-9_]+/" + _NAME.pattern)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAMED_MAX = 5  # parts in one message


class Part(NamedTuple):
    """One part: its path in the run folder, and what it has to be."""

    path: str
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, run: Path, path: Path) -> Part:
        """What a part is now. O(bytes)."""
        import pyarrow.parquet as pq

        rows = pq.read_metadata(path).num_rows
        return cls(path.relative_to(run).as_posix(), rows, path.stat().st_size, sha256_of(path))


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def segment_of(name: str) -> int | None:
    """Between which checkpoints a part was written, from its name; None for what is no part of a shard.

    The driver writes at the end, so that a part of its is never vouched for.
    """
    found = _NAME.fullmatch(name)
    return None if found is None or found[1] == "driver" else int(found[2] or 0)


def new_parts(run: Path, known: Iterable[Part], number: int) -> list[Part]:
    """What is complete at checkpoint `number` and not yet known, by path. O(bytes of these)."""
    paths = {part.path for part in known}
    fresh = []
    for path in sorted(run.glob("tables/*/*.parquet")):
        segment = segment_of(path.name)
        if segment is not None and segment < number and path.relative_to(run).as_posix() not in paths:
            fresh.append(Part.of(run, path))
    return fresh


def checked_list(said: Any) -> list[Part]:
    """Parts as a checkpoint lists them, or BadState: paths stay in the run folder."""
    if type(said) is not list:
        raise BadState("'parts' is no list")
    parts = []
    for each in said:
        if type(each) is not list or list(map(type, each)) != [str, int, int, str]:
            raise BadState("'parts' are not path, rows, bytes and sha256 each")
        part = Part(*each)
        if not _PATH.fullmatch(part.path) or not _SHA256.fullmatch(part.sha256) or part.rows < 0:
            raise BadState(f"{part.path!r:.100} is no part of a trace")
        parts.append(part)
    if len({part.path for part in parts}) < len(parts):
        raise BadState("'parts' names one twice")
    return parts


def check_parts(run: Path, listed: list[Part], number: int) -> None:
    """Raise RunIncomplete, naming them, unless just these parts were there at checkpoint `number`. O(bytes)."""
    refuse_links(run)
    wrong = [f"{part.path} {why}" for part in listed if (why := _changed(run, part))]
    known = {part.path for part in listed}
    for path in sorted(run.glob("tables/*/*")):
        name = path.relative_to(run).as_posix()
        if name in known or path.name.startswith(("_", ".", "part-driver")):
            continue
        segment = segment_of(path.name)
        if segment is None or segment < number:
            wrong.append(f"{name} is not of this run")
    if wrong:
        more = f", and {len(wrong) - _NAMED_MAX} more" if len(wrong) > _NAMED_MAX else ""
        raise RunIncomplete(
            f"{run}: the trace is not what it was at checkpoint {number}: {'; '.join(wrong[:_NAMED_MAX])}{more}. "
            "Nothing was changed; put back what it was, or run the scenario anew with --overwrite"
        )


def _changed(run: Path, part: Part) -> str:
    path = run / part.path
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size != part.bytes:
        return f"has {size:,} bytes, not {part.bytes:,}"
    return "" if sha256_of(path) == part.sha256 else "was changed (its sha256 differs)"


def remove_later(run: Path, number: int) -> None:
    """Remove what was written after checkpoint `number`; 0: every part."""
    refuse_links(run)
    for path in run.glob("tables/*/*.parquet"):
        segment = segment_of(path.name)
        if number == 0 or path.name.startswith("_tmp") or segment is None or segment >= number:
            path.unlink()


__all__ = ["Part", "check_parts", "checked_list", "new_parts", "remove_later", "segment_of", "sha256_of"]
