"""Files that appear whole or not at all, and never in place of what is not ours.

A file that this program wrote may be written again: it carries a mark, or a table's heading. So does an empty one. Any
other stays, unless somebody says `--force`; and what a run is made of stays whatever is said.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from brokers.engine.manifest import MANIFEST, OF_A_RUN
from brokers.errors import EnvironmentProblem, InvalidInput

_READ = 1 << 16  # bytes at either end of a file, in which its mark stands
_MARKS = (  # how a file of each format begins, and what stands in it if this program wrote it
    (b"<!doctype html>", b'<meta name="generator" content="brokerlab">'),
    (b'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="', b"<style>"),
    (b"<?xml", b"<dc:title>brokerlab</dc:title>"),
    (b"%PDF", b"/Creator (brokerlab)"),
    (b"\x89PNG", b"Software\0brokerlab"),
)
LINES_BEGIN, LINES_END = "series,", ",low,high,runs"  # the heading of lines that a figure shows


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Write a file beside the target, which takes its place once all of it is there."""
    check_place(target)
    unfinished = target.with_name(f"_tmp-{target.name}")
    new = [each for each in (target.parent, *target.parent.parents) if not each.exists()]
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished.unlink(missing_ok=True)
            with open(unfinished, "xb") as file:
                yield file
            os.replace(unfinished, target)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
                for folder in new:
                    folder.rmdir()
            raise
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {target}: {error.strerror or error}") from None


def check_place(target: Path) -> None:
    """No file goes where a folder is, or into what a run is made of."""
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder; name a file in it")
    at = target.parent.resolve() / target.name  # a link at the target would be replaced, not what it leads to
    for folder in at.parents:
        if os.path.isfile(folder / MANIFEST) and at.relative_to(folder).parts[0] in OF_A_RUN:
            raise InvalidInput(f"{target} is part of the run {folder.name} and stays as it is; name another place")


def refuse_to_replace(target: Path, force: bool, is_ours: Callable[[Path], bool] = lambda target: False) -> None:
    """What is there already stays, unless somebody says otherwise, or `is_ours` finds that this program wrote it."""
    check_place(target)
    there = target.exists() or target.is_symlink()
    if there and not force and not (target.is_file() and is_ours(target)):
        raise InvalidInput(f"{target} is there already; --force replaces it, --out names another place")


def written_by_us(target: Path) -> bool:
    """Whether a page or a picture has the mark that this program leaves in them. An empty file is nobody's."""
    ends = _ends(target)
    return not ends or any(ends.startswith(begins) and mark in ends for begins, mark in _MARKS)


def data_by_us(heading: str) -> Callable[[Path], bool]:
    """Tells whether a file is empty, or data of a figure: with this heading, or with that of lines."""

    def is_ours(target: Path) -> bool:
        ends = _ends(target)
        first = ends.partition(b"\n")[0].decode(errors="replace")
        of_lines = first.startswith(LINES_BEGIN) and first.endswith(LINES_END)
        return not ends or first == heading or of_lines

    return is_ours


def _ends(target: Path) -> bytes:
    try:
        with open(target, "rb") as file:
            first = file.read(_READ)
            file.seek(max(len(first), target.stat().st_size - _READ))
            return first + file.read(_READ)
    except OSError as error:
        raise EnvironmentProblem(f"cannot read {target}: {error.strerror or error}") from None
