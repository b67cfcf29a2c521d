"""How a program is named: `exec:` and its command as a shell would have it, in scenarios also `{exec: [./broker]}`.

What such a name stands for is a *target*, plain data as text: the command, what the program said of itself, and in a
model also the folder in which it is started. A class is made of a target without starting anything.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from brokers.errors import InvalidInput

PREFIX = "exec:"
_SECTION = "exec"


def is_program(name: object) -> bool:
    """Whether a name of a protocol is a command."""
    return isinstance(name, str) and name.startswith(PREFIX)


def is_target(name: object) -> bool:
    """Whether it is what a command stands for; no name that `spelled` gives is."""
    return isinstance(name, str) and name.startswith(PREFIX + "{")


def spelled(command: Sequence[str]) -> str:
    """The name of a command."""
    return PREFIX + shlex.join(command)


def from_section(value: object) -> object:
    """A section `{exec: [./broker]}` as the name that means the same; anything else as it is.

    ValueError if it is such a section, and has no command.
    """
    if not isinstance(value, Mapping):
        return value
    if list(value) != [_SECTION]:
        raise ValueError("must be a name, or a section with one key, as in {exec: [./broker]}")
    command = value[_SECTION]
    if not isinstance(command, list) or not command or not all(isinstance(word, str) and word for word in command):
        raise ValueError("`exec` is a list of texts: the program and what it is called with, as in [./broker, --fast]")
    return spelled(command)


def command_of(name: str) -> list[str]:
    """The command that a name spells; InvalidInput if it spells none."""
    try:
        command = shlex.split(name.removeprefix(PREFIX))
    except ValueError as error:
        raise InvalidInput(f"{name!r} is no command: {error}") from None
    if not command or not command[0] or "\0" in name:
        raise InvalidInput(f"{name!r} names no program; write exec:./broker, or {{exec: [./broker]}}")
    return command


def files_of(name: str, folder: str | Path) -> dict[str, Path]:
    """The words of a command that are files, seen from its folder: the program, and scripts that it is called with."""
    found = {word: Path(folder) / word for word in command_of(name)}
    return {word: path for word, path in found.items() if path.is_file()}


def target_of(command: Sequence[str], said: Mapping[str, Any], folder: str | None = None) -> str:
    """The target of a command whose program said this of itself."""
    where = {} if folder is None else {"folder": folder}
    return PREFIX + json.dumps({"command": list(command), "hello": dict(said), **where}, sort_keys=True)


def parts_of(target: str) -> tuple[list[str], dict[str, Any], str | None]:
    """Command, what the program said, and folder; InvalidInput for what is no target."""
    try:
        parts = json.loads(target.removeprefix(PREFIX))
        command, said, folder = parts["command"], parts["hello"], parts.get("folder")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidInput(f"{target!r:.100} is not what a command stands for") from None
    texts = isinstance(command, list) and command and all(isinstance(word, str) for word in command)
    if not texts or not isinstance(said, dict) or not isinstance(folder, str | None):
        raise InvalidInput(f"{target!r:.100} is not what a command stands for")
    return command, said, folder


def placed(target: str, folder: str | Path) -> str:
    """The same target with the folder in which the program is started; one that is no program as it is."""
    if not is_program(target):
        return target
    command, said, _ = parts_of(target)
    return target_of(command, said, str(Path(folder).resolve()))


def shown(target: str) -> str:
    """A target for people."""
    return spelled(parts_of(target)[0]) if is_program(target) else target
