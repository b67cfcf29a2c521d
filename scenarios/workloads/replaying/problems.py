"""Everything that is wrong with a file, told at once: the first few in full, by line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from scenarios.workloads.replaying.files import EventFile

SHOWN = 10


class Problems:
    """What was found so far, by row of the file."""

    def __init__(self, file: EventFile) -> None:
        self._file = file
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    @property
    def enough(self) -> bool:
        """Whether there is no need to look further."""
        return len(self._found) > SHOWN

    def at(self, row: int, text: str) -> None:
        self._found.append((row, text))

    def among(self, rows: NDArray[np.int64]) -> Callable[[int, str], None]:
        """A function that notes what is wrong with the place of one of these rows."""
        return lambda place, text: self.at(int(rows[place]), text)

    def where(self, rows: NDArray[np.int64], wrong: NDArray[np.bool_], text: Callable[[int], str]) -> None:
        """Note each place that is marked, the first few in full; `rows` gives their rows in the file."""
        places = np.flatnonzero(wrong)
        for place in places[: SHOWN + 1].tolist():
            self.at(int(rows[place]), text(place))

    def stop(self) -> None:
        """Raise if there was any."""
        if not self._found:
            return
        self._found.sort(key=lambda each: each[0])
        shown = self._found[:SHOWN]
        names = self._file.where([row for row, _ in shown])
        lines = [f"{names[row]}: {text}" for row, text in shown]
        if len(self._found) > SHOWN:
            lines.append(f"{self._file.path}: and more of this")
        raise InvalidInput("\n".join(lines))
