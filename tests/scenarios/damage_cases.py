"""Ways to damage files and run folders, drawn from a seeded `random.Random`. Each tells in words what it did."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Draw = random.Random
MANIFEST, SUCCESS = "manifest.json", "_SUCCESS"

VALUES: list[Any] = [
    None, True, False, 0, -1, 7, 2**31, 2**63, 2**70, -(2**70), 0.5, -0.0, 1e308, "", "x", "none", "x" * 2_000,
    "../../outside", "/etc/passwd", "tables/../../outside", "a\0b", "\ud800", "ü", [], [[]], [7], {}, {"a": 1},
    "os:system",
]  # fmt: skip
_DEEP, _HUGE = "[" * 200 + "]" * 200, "[" * 100_000 + "]" * 100_000
TEXTS = ["NaN", "-Infinity", "1e999", "9" * 5_000, _DEEP, _HUGE]  # what no Python value is written as


def mutated(data: bytes, draw: Draw) -> tuple[bytes, str]:
    """Other bytes than these."""
    at = draw.randrange(len(data) + 1)
    length = draw.choice((1, 8, 100, 4_000))
    match draw.randrange(8):
        case 0:
            return data[:at], f"cut at {at}"
        case 1:
            return data + draw.randbytes(length), f"{length} bytes appended"
        case 2:
            return data[:at] + bytes(length) + data[at + length :], f"{length} bytes at {at} zeroed"
        case 3:
            return draw.randbytes(length), "random bytes"
        case 4:
            return data[:at] + b"\xff\xfe\x80" + data[at:], f"bytes at {at} that are no text"
        case 5:
            return data[:at] + data[at + length :], f"{length} bytes at {at} taken out"
        case 6:
            return b"", "emptied"
    return flipped(data, draw)


def flipped(data: bytes, draw: Draw) -> tuple[bytes, str]:
    """The same but for one bit."""
    if not data:
        return b"\1", "a byte for nothing"
    bit = draw.randrange(8 * len(data))
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed), f"bit {bit} flipped"


def mutated_json(text: str, draw: Draw) -> tuple[str, str]:
    """The same document with one value replaced, left out or named twice."""
    document = json.loads(text)
    places = list(_places(document, ()))
    place = draw.choice(places)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    name = ".".join(map(str, place))
    if not place:
        return json.dumps(draw.choice(VALUES)), "another document"
    roll = draw.random()
    if roll < 0.15:
        del inner[place[-1]]
        return json.dumps(document), f"{name} left out"
    if roll < 0.3:
        new = draw.choice(TEXTS)
        inner[place[-1]] = "@@"
        return json.dumps(document).replace('"@@"', new, 1), f"{name} = {new:.12}"
    if roll < 0.4 and isinstance(inner[place[-1]], int | float):
        inner[place[-1]] = draw.choice((-1, 1, 2, 10, 10**6, 10**9, 10**15)) * (inner[place[-1]] or 1)
    else:
        inner[place[-1]] = draw.choice(VALUES)
    return json.dumps(document), f"{name} = {str(inner[place[-1]])[:30]!r}"


def _places(value: Any, path: tuple[Any, ...]):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


# ---- run folders -------------------------------------------------------------------------------------


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def seal(folder: Path) -> None:
    """Make the manifest pass for the one that the run wrote."""
    if (folder / SUCCESS).exists():
        (folder / SUCCESS).write_text(hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest() + "\n")


def bytes_changed(folder: Path, draw: Draw, outside: Path) -> str:
    path = draw.choice(files_of(folder))
    data, how = mutated(path.read_bytes(), draw)
    path.write_bytes(data)
    return f"{path.relative_to(folder)}: {how}"


def bit_flipped(folder: Path, draw: Draw, outside: Path) -> str:
    path = draw.choice(files_of(folder))
    data, how = flipped(path.read_bytes(), draw)
    path.write_bytes(data)
    return f"{path.relative_to(folder)}: {how}"


def file_removed(folder: Path, draw: Draw, outside: Path) -> str:
    path = draw.choice(files_of(folder))
    path.unlink()
    return f"{path.relative_to(folder)} removed"


def files_swapped(folder: Path, draw: Draw, outside: Path) -> str:
    one, other = draw.sample(files_of(folder), 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"{one.relative_to(folder)} and {other.relative_to(folder)} swapped"


def file_replaced(folder: Path, draw: Draw, outside: Path) -> str:
    """By a folder, a link that leads outside, a link to itself, a pipe."""
    path = draw.choice([*files_of(folder), *(each for each in folder.rglob("*") if each.is_dir())])
    moved = path.with_name(f"{path.name}-moved")
    path.rename(moved)
    how = draw.choice(("folder", "link", "loop", "pipe"))
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if how == "loop" else outside / ("folder" if moved.is_dir() else "file"))
    return f"{path.relative_to(folder)} replaced by a {how}"


def link_added(folder: Path, draw: Draw, outside: Path) -> str:
    """Where the program would write."""
    name = draw.choice(("_lock", "_tmp-manifest.json", "_tmp-_SUCCESS", "analysis", "checkpoints"))
    path = folder / name
    if not path.exists():
        path.symlink_to(outside / ("file" if name.startswith("_") else "folder"))
        return f"{name} is a link"
    return bit_flipped(folder, draw, outside)


def manifest_forged(folder: Path, draw: Draw, outside: Path) -> str:
    said = []
    for _ in range(draw.choice((1, 1, 2))):
        try:
            text, how = mutated_json((folder / MANIFEST).read_text("utf-8"), draw)
        except (ValueError, RecursionError):
            break
        (folder / MANIFEST).write_text(text, "utf-8")
        said.append(how)
    seal(folder)
    return f"forged manifest: {' and '.join(said)}"


def part_forged(folder: Path, draw: Draw, outside: Path) -> str:
    """A part changed, or another table's put in its place, and the manifest with it."""
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    files = manifest.get("files")
    if not files:
        return bit_flipped(folder, draw, outside)
    file = draw.choice(files)
    path = folder / file["path"]
    if draw.random() < 0.2:
        other = draw.choice(files)
        data, how = (folder / other["path"]).read_bytes(), f"that of {other['table']}"
        file["rows"] = other["rows"]
    else:
        data, how = draw.choice((mutated, flipped, flipped))(path.read_bytes(), draw)
    path.write_bytes(data)
    file |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    table = manifest["tables"][file["table"]]
    table["rows"] = sum(each["rows"] for each in files if each["table"] == file["table"])
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    seal(folder)
    return f"forged {file['path']}: {how}"


def emptied_column(folder: Path, part: str, column: str) -> None:
    """Nothing in all rows of a column, and the manifest right about the part."""
    path = folder / part
    table = pq.read_table(path, partitioning=None)
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, pa.nulls(len(table), table.column(at).type)), path)
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    data = path.read_bytes()
    for file in manifest["files"]:
        if file["path"] == part:
            file |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    seal(folder)


FOLDERS: list[Callable[[Path, Draw, Path], str]] = [
    bytes_changed, bit_flipped, file_removed, files_swapped, file_replaced, link_added, manifest_forged,
    manifest_forged, manifest_forged, part_forged, part_forged,
]  # fmt: skip
