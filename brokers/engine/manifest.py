"""What a manifest may hold: looked at as a whole when a run folder is opened, before any of it is believed.

A run folder comes from anywhere: from a full disk, a broken copy, a stranger. `_SUCCESS` tells that a manifest is
the one that was sealed with it, not that it makes sense. So every value that the program goes by has its form
checked here, once; whatever comes after may take a text for a text and a path for one inside the folder. What is
wrong is a `RunDamaged` with the folder, the file and the place within it, never a fault of the program.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from brokers.engine.trace_schema import TABLES
from brokers.errors import RunDamaged
from brokers.schema import LEVELS, column_types

MANIFEST, SUCCESS, LOCK = "manifest.json", "_SUCCESS", "_lock"
# The seconds of a year with a digest each, or the parts of a million tables, are smaller.
BYTES_MAX = 256 * 1024 * 1024
DEPTH_MAX = 64
COUNT_MAX = 2**63 - 1

OF_A_RUN = (MANIFEST, SUCCESS, LOCK, "tables", "checkpoints")
_OURS = (*OF_A_RUN, "analysis")
_PART = re.compile(r"tables/([a-z][a-z0-9_]*)/[A-Za-z0-9_-][A-Za-z0-9._-]*\.parquet")
_HEX = re.compile(r"[0-9a-f]{1,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}

Check = Callable[[Any, str], None]


class Facts(dict[str, Any]):
    """An object of a manifest. A key that somebody needs and that is not there is damage."""

    folder = ""

    def __missing__(self, key: str) -> Any:
        raise RunDamaged.at(self.folder, f"{MANIFEST} has no {key!r} where there has to be one")


class _Wrong(Exception):
    """What is wrong with a manifest, and where in it."""


def read_manifest(folder: Path, text: bytes, finished: bool = True) -> Facts:
    """The manifest of a run folder, checked; of an unfinished run, as far as it can be there already."""
    try:
        facts = _parsed(folder, text)
        _check_depth(facts)
        shape = {**_BEGUN, **_FINISHED} if finished else _BEGUN
        _object(shape, {**_LATER, **({} if finished else _FINISHED)})(facts, "")
        if finished:
            _check_files(facts)
    except _Wrong as wrong:
        raise RunDamaged.at(folder, f"{MANIFEST}: {wrong}") from None
    return facts


def refuse_links(folder: Path) -> None:
    """Refuse what a run never makes and what leads elsewhere: links, pipes, devices among its own files."""
    unfinished = [path.name for path in folder.glob("_tmp*")]
    for name in (*_OURS, *unfinished):
        _refuse_link(folder, folder / name)
        for where, folders, files in os.walk(folder / name):
            for entry in (*folders, *files):
                _refuse_link(folder, Path(where, entry))


def _refuse_link(folder: Path, path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        sort = "a link" if stat.S_ISLNK(mode) else "neither file nor folder"
        raise RunDamaged.at(folder, f"{path.relative_to(folder)} is {sort}, which no run makes")


def read_bytes(path: Path, bytes_max: int = BYTES_MAX) -> bytes:
    """A small file, whole; an OSError for what is no file or too large. Never waits, as for a pipe."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "is no file")
        if found.st_size > bytes_max:
            raise OSError(0, f"is larger than {bytes_max} bytes")
        return file.read(bytes_max)


# ---- from text to data -------------------------------------------------------------------------------


def _parsed(folder: Path, text: bytes) -> Facts:
    def facts_of(pairs: list[tuple[str, Any]]) -> Facts:
        facts = Facts(pairs)
        facts.folder = str(folder)
        if len(facts) < len(pairs):
            raise _Wrong("an object names a key twice")
        return facts

    def number(digits: str) -> float:
        if not math.isfinite(value := float(digits)):
            raise _Wrong(f"{digits:.20} is beyond what a number can be")
        return value

    def constant(name: str) -> float:
        raise _Wrong(f"{name} is no number")

    try:
        found = json.loads(
            text.decode("utf-8"), object_pairs_hook=facts_of, parse_float=number, parse_constant=constant
        )
    except (ValueError, RecursionError) as error:  # of ValueError: what is no UTF-8, no JSON, an endless integer
        said = "is nested too deeply" if isinstance(error, RecursionError) else f"is no JSON: {error}"
        raise _Wrong(said) from None
    if not isinstance(found, Facts):
        raise _Wrong(f"holds {_sort(found)}, not an object")
    return found


def _check_depth(facts: Facts) -> None:
    """So that nothing which walks a manifest can run out of stack, nor what is printed of it out of letters."""
    level: list[Any] = [facts]
    for _ in range(DEPTH_MAX):
        inner = [each for value in level for each in _within(value)]
        for text in (each for each in inner if isinstance(each, str) and not each.isascii()):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise _Wrong(f"{text!r:.60} is no Unicode text") from None
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            return
    raise _Wrong(f"is nested deeper than {DEPTH_MAX}")


def _within(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    else:
        yield from value


# ---- forms -------------------------------------------------------------------------------------------


def _sort(value: Any) -> str:
    return _KINDS.get(type(value), "an object" if isinstance(value, dict) else "a number")


def _expect(holds: bool, place: str, wanted: str, value: Any) -> None:
    if not holds:
        got = _sort(value) if isinstance(value, dict | list) else f"{json.dumps(value):.60}"
        raise _Wrong(f"{place or 'it'} has to be {wanted} (got {got})")


def _text(value: Any, place: str) -> None:
    _expect(isinstance(value, str) and "\0" not in value, place, "a text", value)


def _count(value: Any, place: str) -> None:
    _expect(type(value) is int and 0 <= value <= COUNT_MAX, place, "a count", value)


def _number(value: Any, place: str) -> None:
    _expect(type(value) in (int, float) and 0 <= value < math.inf, place, "a number of 0 or more", value)


def _truth(value: Any, place: str) -> None:
    _expect(isinstance(value, bool), place, "true or false", value)


def _anything(value: Any, place: str) -> None:
    """Told, but never gone by."""


def _matching(pattern: re.Pattern[str], wanted: str) -> Check:
    def check(value: Any, place: str) -> None:
        _expect(isinstance(value, str) and bool(pattern.fullmatch(value)), place, wanted, value)

    return check


def _one_of(*known: str) -> Check:
    return lambda value, place: _expect(value in known, place, f"one of {', '.join(known)}", value)


def _list_of(check: Check) -> Check:
    def each(value: Any, place: str) -> None:
        _expect(isinstance(value, list), place, "a list", value)
        for i, item in enumerate(value):
            check(item, f"{place}[{i}]")

    return each


def _map_of(check: Check) -> Check:
    def each(value: Any, place: str) -> None:
        _expect(isinstance(value, dict), place, "an object", value)
        for key, item in value.items():
            check(item, f"{place}.{key:.60}")

    return each


def _or_null(check: Check) -> Check:
    return lambda value, place: None if value is None else check(value, place)


def _object(needed: Mapping[str, Check], known: Mapping[str, Check] = {}) -> Check:
    """An object with these keys, and perhaps those; others are let be."""

    def check(value: Any, place: str) -> None:
        _expect(isinstance(value, dict), place, "an object", value)
        start = f"{place}." if place else ""
        for key, of_key in {**needed, **known}.items():
            if key in value:
                of_key(value[key], f"{start}{key}")
            elif key in needed:
                raise _Wrong(f"{start}{key} is missing")

    return check


def _columns(value: Any, place: str) -> None:
    _list_of(_list_of(_text))(value, place)
    for i, column in enumerate(value):
        _expect(len(column) == 2, f"{place}[{i}]", "a name and a type", column)
        _one_of(*column_types())(column[1], f"{place}[{i}][1]")
    names = [column[0] for column in value]
    _expect(0 < len(names) == len(set(names)), place, "columns of different names, at least one", names)


_METRICS = _object(
    {},
    {
        "network": _object(
            {},
            dict.fromkeys(("in_flight_at_end", "lost", "dropped", "changes", "changes_unsettled"), _count)
            | {"busiest_broker_s": _number},
        ),
        "services": _map_of(_map_of(_anything)),
        "run": _map_of(_anything),
    },
)
_JITTER = {"jitter": _or_null(_count)}
_SCENARIO = _object(
    {},
    {
        "name": _text,
        "duration": _count,
        "drain": _count,
        "clients": _map_of(_object({"count": _count})),
        "services": _list_of(_object({"name": _text, "kind": _text, "protocol": _text})),
        "expect": _list_of(_text),
        "links": _object({}, {**_JITTER, "overrides": _list_of(_object({}, _JITTER))}),
    },
)
# What an unfinished run has said already, what it may say, and what only a finished one has to.
_BEGUN: dict[str, Check] = {
    "schema_version": _count,
    "name": _text,
    "id": _matching(re.compile(r"[0-9a-f]{10}"), "ten hex digits"),
    "seed": _count,
    "scenario": _SCENARIO,
    "trace_level": _one_of(*LEVELS),
    "status": _text,
}
_SERVICE_NAMES = {"kind": _text, "protocol": _text, "index": _or_null(_text), "workload": _list_of(_text)}
_NAMES = _object({}, {"topology": _text, "services": _list_of(_object({}, _SERVICE_NAMES))})
_LATER: dict[str, Check] = {
    "versions": _map_of(_text),
    "git": _or_null(_object({})),
    "command": _list_of(_text),
    "started": _text,
    "ended": _text,
    "resumed": _list_of(_text),
    "scenario_folder": _text,
    "names": _NAMES,
}
_FINISHED: dict[str, Check] = {
    "digest": _matching(_HEX, "hex digits"),
    "digest_per_second": _list_of(_matching(_HEX, "hex digits")),
    "engine": _object(
        {}, {"metrics": _METRICS, "scenario_folder": _text, "engine": _text, "forms": _map_of(_map_of(_text))}
    ),
    "tables": _map_of(_object({"model": _truth, "rows": _count, "columns": _columns})),
    "files": _list_of(
        _object(
            {
                "path": _matching(_PART, "a path of the form tables/<table>/<part>.parquet"),
                "table": _text,
                "rows": _count,
                "bytes": _count,
                "sha256": _matching(_SHA256, "64 hex digits"),
            }
        )
    ),
}


def _check_files(facts: Facts) -> None:
    """What the entries have to say of one another."""
    tables = facts["tables"]
    for name, table in tables.items():
        if name in TABLES:
            declared = [[column.name, column.type] for column in TABLES[name].columns]
            _expect(table["columns"] == declared, f"tables.{name}.columns", "those of its table", table["columns"])
    rows = dict.fromkeys(tables, 0)
    seen = set()
    for i, file in enumerate(facts["files"]):
        place, table, path = f"files[{i}]", file["table"], file["path"]
        _expect(_PART.fullmatch(path)[1] == table, f"{place}.path", f"in tables/{table}", path)  # type: ignore[index]
        _expect(path not in seen, f"{place}.path", "listed once", path)
        seen.add(path)
        if table in rows:
            rows[table] += file["rows"]
    for name, table in tables.items():
        _expect(table["rows"] == rows[name], f"tables.{name}.rows", f"{rows[name]}, as its files say", table["rows"])
