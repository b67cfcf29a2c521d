"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from brokers.errors import EnvironmentProblem, InvalidInput


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Write a file beside the target, which takes its place once all of it is there."""
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder; name a file in it")
    unfinished = target.with_name(f"_tmp-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        try:
            with open(unfinished, "xb") as file:
                yield file
            os.replace(unfinished, target)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {target}: {error.strerror or error}") from None


def refuse_to_replace(target: Path, force: bool) -> None:
    """What is there already stays, unless somebody says otherwise."""
    if not force and (target.exists() or target.is_symlink()):
        raise InvalidInput(f"{target} is there already; --force replaces it, --out names another place")
