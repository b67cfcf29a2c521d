"""Damaged replay files: played, or refused in a sentence that names the file, whatever reads them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenarios.cli import main

from . import damage_cases

TIMES = 100  # of each sort of damage
SCENARIO = """\
duration: 1 s
topology: {{kind: line, nodes: 2}}
clients: {{all: {{count: 3}}}}
services:
  - name: news
    kind: content
    attributes: 2
    protocol: flooding
    workload: [{{source: replay, clients: all, file: {name}}}]
"""
COLUMNS: dict[str, list[Any]] = {
    "time_s": [0.0, 0.1, 0.2, 0.25, 0.3],
    "client": [0, 1, 2, 2, 0],
    "op": ["subscribe", "subscribe", "publish", "publish", "unsubscribe"],
    "a0": [None, None, 0.3, 0.7, None],
    "a1": [None, None, None, 0.1, None],
    "low_0": [0.2, None, None, None, None],
    "high_0": [0.4, 0.9, None, None, None],
    "subscription": [7, None, None, None, 7],
}
CELLS: list[Any] = [
    None, "", "x", "NaN", "-inf", "1e400", "9" * 5_000, "0x10", "1_0", " 7 ", "٣", "é", "a\0b", "\n", '"', "=1+1", "-1",
    "1e18", "9223372036854775808", "0.1", "publish", "true", "2026-01-01T00:00:00", "x" * 100_000, "\x1b[31m",
]  # fmt: skip
TYPES = [
    pa.int8(), pa.uint64(), pa.float32(), pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.decimal128(20, 3),
    pa.timestamp("ns"), pa.duration("s"), pa.date32(), pa.time64("us"), pa.list_(pa.int64()), pa.null(), pa.float16(),
    pa.struct([("x", pa.int64())]), pa.dictionary(pa.int8(), pa.string()),
]  # fmt: skip


def csv_of(columns: dict[str, list[Any]]) -> bytes:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return "\n".join([",".join(columns), *lines, ""]).encode("utf-8", "surrogatepass")


def cells_changed(draw: random.Random) -> dict[str, list[Any]]:
    """The columns with cells, names or order changed."""
    columns = {name: list(cells) for name, cells in COLUMNS.items()}
    for _ in range(draw.choice((1, 1, 2, 5))):
        name = draw.choice([*columns])
        match draw.randrange(6):
            case 0:
                columns[str(draw.choice(CELLS))] = columns.pop(name)
            case 1:
                columns = {name: columns.pop(name), **columns}
            case 2 if len(columns) > 1:
                del columns[name]
            case 3:
                draw.shuffle(columns[name])
            case _:
                columns[name][draw.randrange(5)] = draw.choice(CELLS)
    return columns


def as_csv(path: Path, draw: random.Random) -> None:
    path.write_bytes(csv_of(cells_changed(draw)))


def as_csv_bytes(path: Path, draw: random.Random) -> None:
    path.write_bytes(damage_cases.mutated(csv_of(COLUMNS), draw)[0])


def as_parquet_bytes(path: Path, draw: random.Random) -> None:
    pq.write_table(pa.table(COLUMNS), path)
    data = path.read_bytes()
    for _ in range(draw.choice((1, 1, 3))):
        data = draw.choice((damage_cases.mutated, damage_cases.flipped, damage_cases.flipped))(data, draw)[0]
    path.write_bytes(data)


def as_parquet_types(path: Path, draw: random.Random) -> None:
    """Whole Parquet, with columns of other types."""
    table = pa.table(COLUMNS)
    for _ in range(draw.choice((1, 2))):
        at = draw.randrange(table.num_columns)
        other = draw.choice(TYPES)
        try:
            column = table.column(at).cast(other)
        except (pa.ArrowException, ValueError):
            column = pa.nulls(table.num_rows, other)
        table = table.set_column(at, draw.choice((table.column_names[at], "x", "")), column)
    try:
        pq.write_table(table, path)
    except (pa.ArrowException, ValueError):  # a type that Parquet has not
        pq.write_table(pa.table({"x": [1]}), path)


# how -> name of the file
DAMAGE = {
    as_csv: "events.csv",
    as_csv_bytes: "events.csv",
    as_parquet_bytes: "events.parquet",
    as_parquet_types: "events.parquet",
}


def command(folder: Path, name: str) -> list[str]:
    (folder / "replay.yaml").write_text(SCENARIO.format(name=name), "utf-8")
    return ["validate", str(folder / "replay.yaml")]


@pytest.mark.parametrize("how", [as_csv, as_parquet_types])
def test_the_file_is_read_as_long_as_it_is_whole(tmp_path, capsys, how):
    name = DAMAGE[how]
    if how is as_csv:
        (tmp_path / name).write_bytes(csv_of(COLUMNS))
    else:
        pq.write_table(pa.table(COLUMNS), tmp_path / name)
    assert main(command(tmp_path, name)) == 0, capsys.readouterr().err


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_played_or_refused_by_name(tmp_path, capsys, how):
    name = DAMAGE[how]
    draw = random.Random(how.__name__)
    codes = []
    arguments = command(tmp_path, name)
    for i in range(TIMES):
        how(tmp_path / name, draw)
        code = main(arguments)
        told = capsys.readouterr().err
        assert code in (0, 3), f"{how.__name__} {i}: {told}"
        assert "Traceback" not in told
        if code:
            assert told.startswith("brokerlab: ") and name in told, f"{how.__name__} {i}: {told}"
        codes.append(code)
    assert codes.count(3) > 0
