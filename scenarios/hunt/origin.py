"""Where a finding comes from: what has to be the same for it to be found, and to run, as it was.

It stands beside the command that shows it again, as a comment, and at the head of its scenario; a replay reads it
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from scenarios.hunt.found import Finding

_HEAD = re.compile(r"^# (?:found|made smaller) by brokerlab (\S+)", re.MULTILINE)
_DIGEST = re.compile(r"^# digest ([0-9a-f]+)$", re.MULTILINE)


def origin(finding: Finding) -> str:
    """Version, seed and run, in words."""
    if finding.seed is None:
        return f"made smaller by brokerlab {version('brokerlab')}"
    return f"found by brokerlab {version('brokerlab')} with seed {finding.seed} in run {finding.run}"


def changed(file: Path, digest: str) -> Iterator[str]:
    """What is not as it was when this file was written; a digest is asked of its own protocol only, else empty."""
    text = file.read_text("utf-8")
    head, kept, here = _HEAD.search(text), _DIGEST.search(text), version("brokerlab")
    if head and head[1] != here:
        yield f"it was found by brokerlab {head[1]}, and this is {here}: it may run otherwise"
    if kept and digest and kept[1] != digest:
        yield f"it does not run as it did when it was found: the digest was {kept[1]}"
