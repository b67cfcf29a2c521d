"""What a file of events may hold for a kind: the contract between kinds and the workload `replay`.

A kind names its `Form` in its manifest, as `replay`, "module:Class". The form says which words may stand in the
column `op`, which columns there are beside those that all files have (a time, `client`, `op`), and makes numeric
bodies of their cells. `AnyForm` serves kinds without one.

A form is asked about some rows of one op at a time, and gets their cells as arrays. What is wrong with a cell it
notes by `Cells.wrong` and goes on, so that one look at a file tells all of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Floats, Ints, Kind
from brokers.names import load_as
from brokers.words import Words

Marks = NDArray[np.bool_]


class Op(NamedTuple):
    """What one word in the column `op` asks for."""

    type: int  # of the message
    role: Literal["", "begins", "changes", "ends"] = ""  # what it does to something that has a number
    number: str = ""  # the column with the client's own number of it


class Column(NamedTuple):
    """A column, or one for each place that stands between angle brackets in its name."""

    name: str  # e.g. "low_<i>"
    ops: tuple[str, ...]  # where it may have something in it
    prose: str


class Cells(Protocol):
    """The cells of some rows. A column that the file lacks is as one without anything in it."""

    @property
    def size(self) -> int:
        """How many rows."""
        ...

    @property
    def clients(self) -> Ints:
        """Who acts, counted from 0 in the group."""
        ...

    def has(self, name: str) -> bool:
        """Whether the file has the column."""
        ...

    def numbers(self, name: str) -> Floats:
        """Numbers, NaN where there is nothing."""
        ...

    def wholes(self, name: str, empty: int = -1) -> Ints:
        """Whole numbers, `empty` where there is nothing."""
        ...

    def codes(self, name: str, attribute: int) -> Floats:
        """The numbers of words, as `brokers.words` counts them; NaN where there is nothing."""
        ...

    def prefixes(self, name: str, attribute: int) -> tuple[Floats, Floats]:
        """The first and last number of the words that begin as the cells say; NaN where there is nothing."""
        ...

    def lists(self, name: str, attribute: int | None = None) -> Floats:
        """Numbers, or words, of cells that are lists or text with blanks between; rows are padded with NaN."""
        ...

    def texts(self, name: str) -> list[str | None]:
        """Text as it stands."""
        ...

    @property
    def words(self) -> Words:
        """The words of text by attribute, in order."""
        ...

    def wrong(self, marks: Any, tell: Callable[[int], str]) -> None:
        """Note what is wrong with the rows whose place in `marks` is true; `tell` gets the place of a row."""
        ...


class Form(ABC):
    """What a file of events holds for one kind."""

    ops: ClassVar[Mapping[str, Op]]
    header: ClassVar[tuple[Column, ...]]
    texts: ClassVar[tuple[str, ...]] = ()  # columns of which `words_in` tells the words

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def op_table(self) -> Mapping[str, Op]:
        """The words of `op`; by default the class's."""
        return self.ops

    def taken(self) -> list[Column]:
        """The columns of messages that this service takes, each with the words of `op` that it is for."""
        table = self.op_table()
        found = [column._replace(ops=tuple(op for op in column.ops if op in table)) for column in self.header]
        return [mine for mine, column in zip(found, self.header) if mine.ops or not column.ops]

    def places(self) -> dict[str, list[tuple[str, str]]]:
        """What may stand for "<i>" in a column's name: (as it is written, as the form will ask for it)."""
        return {}

    def words(self) -> dict[str, int]:
        """Columns that hold words rather than numbers, with the attribute whose words they are."""
        return {}

    def words_in(self, column: str, texts: Iterable[str]) -> Mapping[int, set[str]]:
        """The words in cells of a column of `texts`, by attribute."""
        return {}

    @abstractmethod
    def rows(self, op: str, cells: Cells) -> Floats | None:
        """The numeric bodies of these rows; None for messages without one."""

    def word(self, op: str, cells: Cells, rows: Floats | None) -> Ints | None:
        """The words of messages whose op has no number; None: 0."""
        return None

    def columns(self) -> Iterator[tuple[str, str, Column]]:
        """Every column: (as it is written, as the form asks for it, what it is)."""
        places = self.places()
        for column in self.taken():
            before, _, rest = column.name.partition("<")
            if not rest:
                yield column.name, column.name, column
                continue
            place, _, after = rest.partition(">")
            for written, asked in places[place]:
                named = (
                    before == "a" and not written.isdigit()
                )  # the value of an attribute is called as it is
                yield f"{'' if named else before}{written}{after}", f"{before}{asked}{after}", column


class AnyForm(Form):
    """Numeric bodies as they are, for kinds without a form of their own."""

    ops: ClassVar[Mapping[str, Op]] = {}
    header: ClassVar[tuple[Column, ...]] = (
        Column(
            "body",
            (),
            "the numbers of the body, as a list or with blanks between; empty: a message without one",
        ),
        Column("word", (), "the word of the message, a whole number; default: 0"),
    )

    def op_table(self) -> Mapping[str, Op]:
        return {name: Op(type) for name, type in self.kind.types.items()}

    def rows(self, op: str, cells: Cells) -> Floats | None:
        rows = cells.lists("body")
        for row, numbers in enumerate(rows):
            try:
                self.kind.row_to_object(self.op_table()[op].type, numbers)
            except Exception as error:  # whatever a third party's kind makes of it
                text = f"the kind cannot read this body: {type(error).__name__}: {error}"
                cells.wrong(np.arange(cells.size) == row, lambda _, text=text: text)  # type: ignore[misc]
        return rows if rows.shape[1] else None

    def word(self, op: str, cells: Cells, rows: Floats | None) -> Ints | None:
        return cells.wholes("word", 0)


def form_of(kind: Kind) -> Form:
    """The form of a kind."""
    target = kind.manifest.replay
    form: Any = load_as("replay forms", target) if target else AnyForm
    made: Form = form(kind)
    return made


# ---- what forms share --------------------------------------------------------------------------------


def attribute_places(count: int, names: Any = ()) -> list[tuple[str, str]]:
    """Attributes by number, and by name where they have names."""
    numbered = [(str(a), str(a)) for a in range(count)]
    return numbered + [(name, str(a)) for a, name in enumerate(names)]


def stacked(
    cells: Cells, prefix: str, count: int, read: Callable[[str, int], Floats] | None = None
) -> Floats:
    """One column per attribute side by side: [row, attribute]."""
    out = np.full((cells.size, count), np.nan)
    for a in range(count):
        if cells.has(f"{prefix}{a}"):
            out[:, a] = cells.numbers(f"{prefix}{a}") if read is None else read(f"{prefix}{a}", a)
    return out


def packed(given: Marks, *columns: Floats) -> Floats:
    """Rows [attribute, column, ...] * k of the attributes that are given; NaN behind them."""
    parts = 1 + len(columns)
    width = int(given.sum(axis=1).max(initial=1))
    rows = np.full((given.shape[0], parts * width), np.nan)
    event, attribute = np.nonzero(given)
    place = (np.cumsum(given, axis=1) - 1)[event, attribute] * parts
    rows[event, place] = attribute
    for i, column in enumerate(columns, 1):
        rows[event, place + i] = column[event, attribute]
    return rows


def upside_down(cells: Cells, low: Floats, high: Floats, names: tuple[str, str] = ("low_", "high_")) -> None:
    """Note the rows with a range whose ends are the wrong way round."""
    marks = low > high

    def tell(row: int) -> str:
        a = int(np.flatnonzero(marks[row])[0])
        begin, end = (f"{name}{a}" for name in names)
        return f"{begin} {cells.texts(begin)[row]} is above {end} {cells.texts(end)[row]}"

    cells.wrong(marks.any(axis=1), tell)


def finite(cells: Cells, values: Floats) -> None:
    """Note the rows with an infinite value."""
    cells.wrong(np.isinf(values).any(axis=1), lambda row: "a value must be finite")
