"""Which column of a file is which: as the kind calls it, as the scenario maps it, or none that matters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from brokers.errors import InvalidInput
from brokers.replaying import Column, Form
from scenarios.workloads.replaying.files import EventFile
from scenarios.workloads.replaying.times import COLUMNS as TIMES

# What data frames write for their index.
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")


@dataclass(frozen=True)
class Header:
    """The columns of a file that are read: what they are called there, by what they are."""

    time: str  # time, time_ns or time_s
    columns: Mapping[str, str]
    about: Mapping[str, Column]  # those of the form
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return list(self.columns.values())


def read_header(
    file: EventFile, form: Form, mapping: Mapping[str, str], ignore: Sequence[str], needed: Sequence[str]
) -> Header:
    """InvalidInput tells all that is wrong with the header. `needed` are columns that no parameter stands for."""
    start = f"{file.path}:1"
    known = {written: (asked, column) for written, asked, column in form.columns()}
    fixed = (*TIMES, "client", "op")
    patterns = [*fixed, *dict.fromkeys(column.name for column in form.header)]
    wrong, notes = [], []
    columns: dict[str, str] = {}
    about: dict[str, Column] = {}
    for name in [each for each in mapping if each not in file.names]:
        wrong.append(
            f"{start}: `columns` maps {name!r}, which is no column of the file; it has {_list(file.names)}"
        )
    for name in file.names:
        ours = mapping.get(name, name)
        if any(fnmatchcase(name, pattern) for pattern in ignore):
            continue
        if _INDEX.fullmatch(name) and name not in mapping:
            notes.append(f"{file.path}: the column {name!r} is ignored; it is the index of a data frame")
            continue
        if ours in fixed:
            asked = ours
        elif ours in known:
            asked, about[known[ours][0]] = known[ours]
        else:
            wrong.append(f"{start}: {_unknown(name, ours, form, list(known), patterns)}")
            continue
        if asked in columns:
            wrong.append(f"{start}: the columns {columns[asked]!r} and {name!r} are both {asked}")
        columns[asked] = name
    times = [name for name in TIMES if name in columns]
    if len(times) != 1:
        wrong.insert(0, f"{start}: there must be one column {', '.join(TIMES[:-1])} or {TIMES[-1]}")
    wrong += [f"{start}: there is no column {name}" for name in needed if name not in columns]
    if wrong:
        raise InvalidInput("\n".join(wrong))
    return Header(times[0], columns, about, tuple(notes))


def _unknown(name: str, ours: str, form: Form, known: list[str], patterns: list[str]) -> str:
    number = re.fullmatch(r"(.*?)(\d{1,9})", ours)
    places = form.places().get("i")
    if number and places and f"{number[1]}<i>" in patterns:
        last = sum(written.isdigit() for written, _ in places) - 1
        return f"column {name!r}: the service has attributes 0 to {last}"
    close = get_close_matches(ours, [*known, *TIMES, "client", "op"], n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    way = "map it by `columns`, or leave it out by `ignore`"
    return f"unknown column {name!r}; {hint}known: {', '.join(patterns)}; {way}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
