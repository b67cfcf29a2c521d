"""The scenario that tests of runs and of many runs begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TREE = """\
duration: 500 ms
topology: {kind: balanced-tree, branching: 2, height: 2}
links: {delay: {kind: uniform, low: 2 ms, high: 9 ms}}
clients:
  publishers: {count: 3}
  subscribers: {count: 12, placement: even}
services:
  - name: news
    kind: content
    attributes: 2
    protocol: flooding
    workload: &work
      - {source: subscribe, clients: subscribers, width: 0.5}
      - {source: publish, clients: publishers, rate: 40/s}
"""


@pytest.fixture(scope="session")
def tree() -> Callable[..., Path]:
    """Writes the scenario of a small tree to <folder>/tree.yaml, with some of its text changed and more at its end."""

    def write(folder: Path, *changes: tuple[str, str], more: str = "", name: str = "tree.yaml") -> Path:
        text = TREE
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} is there once"
            text = text.replace(old, new)
        path = folder / name
        path.write_text(text + more, encoding="utf-8")
        return path

    return write
