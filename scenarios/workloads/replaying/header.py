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

REST = "*"  # in `ignore`: all that are not known

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
    patterns = [*fixed, *dict.fromkeys(column.name for column in form.taken())]
    wrong: list[str] = []
    notes: list[str] = []
    unknown: list[str] = []
    columns: dict[str, str] = {}
    about: dict[str, Column] = {}
    for name in [each for each in mapping if each not in file.names]:
        wrong.append(
            f"{start}: `columns` maps {name!r}, which is no column of the file; it has {_list(file.names)}"
        )
    for name in file.names:
        ours = mapping.get(name, name)
        if any(fnmatchcase(name, pattern) for pattern in ignore if pattern != REST):
            continue
        if _INDEX.fullmatch(name) and name not in mapping:
            notes.append(f"{file.path}: the column {name!r} is ignored; it is the index of a data frame")
            continue
        if ours in fixed:
            asked = ours
        elif ours in known:
            asked, about[known[ours][0]] = known[ours]
        elif REST in ignore and name not in mapping:
            continue
        elif beyond := _beyond(name, ours, form, patterns):
            wrong.append(f"{start}: {beyond}")
            continue
        else:
            close = get_close_matches(ours, [*known, *fixed], n=1)
            unknown.append(repr(name) + (f" (did you mean {close[0]!r}?)" if close else ""))
            continue
        if asked in columns:
            wrong.append(f"{start}: the columns {columns[asked]!r} and {name!r} are both {asked}")
        columns[asked] = name
    if unknown:
        wrong.append(f"{start}: {_unknown(unknown, patterns)}")
    times = [name for name in TIMES if name in columns]
    if len(times) != 1:
        wrong.insert(0, f"{start}: there must be one column {', '.join(TIMES[:-1])} or {TIMES[-1]}")
    wrong += [f"{start}: there is no column {name}" for name in needed if name not in columns]
    if wrong:
        raise InvalidInput("\n".join(wrong))
    return Header(times[0], columns, about, tuple(notes))


def _beyond(name: str, ours: str, form: Form, patterns: list[str]) -> str:
    """What is wrong with a column of an attribute that there is not; nothing if it is no such column."""
    number = re.fullmatch(r"(.*?)(\d{1,9})", ours)
    places = form.places().get("i")
    if not number or not places or f"{number[1]}<i>" not in patterns:
        return ""
    last = sum(written.isdigit() for written, _ in places) - 1
    return f"column {name!r}: the service has attributes 0 to {last}"


def _unknown(names: list[str], patterns: list[str]) -> str:
    many = len(names) > 1
    way = f"map {'them' if many else 'it'} by `columns`, or leave {'them' if many else 'it'} out by `ignore`"
    rest = f' (["{REST}"]: all that are not known)' if many else ""
    return f"unknown column{'s' if many else ''} {_list(names)}; known: {', '.join(patterns)}; {way}{rest}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
