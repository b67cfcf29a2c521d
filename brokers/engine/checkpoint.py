"""Checkpoints: the state of all shards at a window's border, from which a run goes on as if nothing had been.

Taken where every shard has handled everything before one simulated time and what they sent each other is on
the links. What is kept belongs to a broker, a link, a client or a change, never to a shard: another number of
actors, or another assignment, picks up the same files.

    checkpoints/<number>/shard-<n>.blf    one frame of the wire format per shard, with its checksum
    checkpoints/<number>/driver.blf       when it was taken, over how many shards, by which version of which
                                          protocols, and the parts of the trace until then; written last

Sources are not kept. They are pure functions of seed, client and counter, so a resumed run lets them run
again from the start and drops what they emit for times already past.

A frame that does not decode makes its checkpoint invalid, and the one before it is used. The trace is cut into
segments at checkpoints, so what was written after a checkpoint can be told from what it vouches for.

What decodes is still data that anybody may have written. It is plain data, so nothing in it can run; and
`checkpoint_check`, `parts` and every protocol's `load` look at all of it before it is used.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from brokers.columns import BadState, taken_over
from brokers.engine.checkpoint_check import check_facts, check_states
from brokers.engine.committed import Part, check_parts, checked_list, remove_later
from brokers.engine.model import Model, protocol_class
from brokers.engine.trace import sync
from brokers.errors import EnvironmentProblem, RunIncomplete, WireError
from brokers.wire import decode_frame, encode_frame

FOLDER = "checkpoints"
FORMAT = 5  # of all that is kept; goes up when a reader of the old one would misread the new
KEPT = 2  # the newest, and the one before it in case the newest turns out unreadable
_SHARDS_MAX = 1 << 16
_SHARD, _DRIVER = "shard-state", "checkpoint"


# ---- files -------------------------------------------------------------------------------------------


def write_shard(folder: str | Path, shard: int, state: dict[str, Any]) -> int:
    """Write one shard's state; returns its bytes."""
    data = encode_frame(_SHARD, state)
    _write(Path(folder) / f"shard-{shard:04d}.blf", data)
    return len(data)


def write_driver(folder: str | Path, facts: dict[str, Any]) -> None:
    """Seal a checkpoint: from here on it counts."""
    _write(Path(folder) / "driver.blf", encode_frame(_DRIVER, {"format": FORMAT, **facts}))
    sync(Path(folder).parent)


def _write(path: Path, data: bytes) -> None:
    fresh = path.with_name(f"_tmp-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(fresh, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        sync(path.parent)
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot write a checkpoint to {path.parent}: {error.strerror or error}; make room, then continue with "
            "brokerlab run --resume"
        ) from error


def folder_of(run: str | Path, number: int) -> Path:
    """The folder of a checkpoint. Numbers count from 1."""
    return Path(run) / FOLDER / f"{number:06d}"


def numbers(run: str | Path) -> list[int]:
    """The checkpoints there, sealed or not, oldest first."""
    folder = Path(run) / FOLDER
    return (
        sorted(int(path.name) for path in folder.glob("[0-9]*") if re.fullmatch("[0-9]{6,18}", path.name))
        if folder.is_dir()
        else []
    )


class Found(NamedTuple):
    """A checkpoint that can be read whole."""

    number: int
    facts: dict[str, Any]  # of the driver
    states: list[dict[str, Any]]  # of the shards
    passed: list[str]  # which newer ones cannot be read, and why


def newest(run: str | Path) -> Found | None:
    """The newest checkpoint that can be read whole."""
    passed: list[str] = []
    for number in reversed(numbers(run)):
        folder = folder_of(run, number)
        try:
            facts = _read(folder / "driver.blf", _DRIVER)
            _check_format(folder, facts)
            states = read_shards(folder, facts)
        except (OSError, WireError) as error:
            passed.append(f"checkpoint {number} cannot be used: {error}")
            continue
        return Found(number, facts, states, passed)
    return None


def verify(run: str | Path, found: Found, model: Model) -> list[Part]:
    """The parts that a checkpoint vouches for, once all that it says and they are was found to be right.

    Raises RunIncomplete, and changes nothing: what it says is not taken for a fault of the program.
    """
    folder, facts = folder_of(run, found.number), found.facts
    with taken_over(str(folder)):
        parts = checked_list(facts.get("parts"))
    _check_versions(folder, facts, model)
    with taken_over(str(folder)):
        check_facts(facts, model)
        check_states(found.states, facts, model)
    check_parts(Path(run), parts, found.number)
    return parts


def _check_format(folder: Path, facts: dict[str, Any]) -> None:
    found = facts.get("format", 1)
    if found != FORMAT:
        raise RunIncomplete(
            f"{folder}: the checkpoint has format {found!r:.20}, and this program reads format {FORMAT}: go on with "
            "the version that wrote it, or run the scenario anew with --overwrite"
        )
    shards = facts.get("shards")
    if type(shards) is not int or not 1 <= shards <= _SHARDS_MAX:
        raise BadState(f"{folder / 'driver.blf'}: 'shards' is {shards!r:.40}; it is a number from 1 to {_SHARDS_MAX}")


def versions(model: Model) -> list[list[Any]]:
    """Of each service its name, and the classes that keep its state with the version of each."""
    found = []
    for spec in model.services:
        protocol = protocol_class(spec)
        server = getattr(protocol, "server", None) if spec.server >= 0 else None
        found.append([spec.name, [_named(each) for each in (protocol, server) if each is not None]])
    return found


def _named(protocol: Any) -> list[Any]:
    """A class by name, with the version of its state. What is no protocol, the shard refuses."""
    return [f"{protocol.__module__}:{protocol.__qualname__}", getattr(protocol, "state_version", 0)]


def _check_versions(folder: Path, facts: dict[str, Any], model: Model) -> None:
    """Refuse what another protocol, or another version of one, has kept."""
    said, here = facts.get("services"), versions(model)
    if said == here:
        return
    for theirs, (service, ours) in zip(said if type(said) is list else [], here):
        kept = theirs[1] if type(theirs) is list and len(theirs) == 2 else None
        for other, (name, version) in zip(kept if type(kept) is list else [], ours):
            if type(other) is list and len(other) == 2 and other != [name, version]:
                raise RunIncomplete(
                    f"{folder}: the state of service {service!r} was kept by {other[0]!s:.100} in version "
                    f"{other[1]!s:.20}, and here it is {name} in version {version}: go on with the one that kept it, "
                    "or run the scenario anew with --overwrite"
                )
    raise BadState(f"{folder}: 'services' are not those of the run")


def read_shards(folder: str | Path, facts: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The states of all shards of a checkpoint; WireError names a file that is not whole."""
    folder = Path(folder)
    facts = _read(folder / "driver.blf", _DRIVER) if facts is None else facts
    return [_read(folder / f"shard-{n:04d}.blf", _SHARD) for n in range(int(facts["shards"]))]


def _read(path: Path, kind: str) -> dict[str, Any]:
    try:
        found, payload = decode_frame(path.read_bytes())
    except WireError as error:
        raise WireError(f"{path}: {error}") from None
    if found != kind:
        raise WireError(f"{path}: holds a {found!r}, not a {kind!r}")
    return payload


def prune(run: str | Path) -> None:
    """Remove all but the newest checkpoints."""
    for number in numbers(run)[:-KEPT]:
        shutil.rmtree(folder_of(run, number), ignore_errors=True)


def rewind(run: str | Path, number: int) -> None:
    """Remove what was written after checkpoint `number` (0: everything): trace parts and later checkpoints."""
    remove_later(Path(run), number)
    for later in numbers(run):
        if later > number:
            shutil.rmtree(folder_of(run, later), ignore_errors=True)


__all__ = [
    "FOLDER",
    "folder_of",
    "newest",
    "numbers",
    "prune",
    "read_shards",
    "rewind",
    "verify",
    "versions",
    "write_driver",
    "write_shard",
]
