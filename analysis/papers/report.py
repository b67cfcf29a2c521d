"""What a reproduction leaves behind: tables, plots, and the source's claims beside what was found.

A reproduction is a function that is handed a `Report`; its line in `analysis.papers.registry` makes it a name
of `brokerlab reproduce`. What it reports goes to a folder (`--out`): each table as Parquet, each plot as PNG,
`report.md` with all of it, `claims.json`. A claim that does not hold is stated as such and fails nothing: a
paper and a machine may differ.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.bench.rows import VERDICTS, number
from brokers.errors import InvalidInput
from scenarios.progress import Steps

Cells = Mapping[str, Any]
Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]


class Claim(TypedDict):
    """What a source says, and what was found."""

    name: str
    source: str  # where it is said
    expected: str
    measured: str
    holds: bool | None  # None: reported, not judged


class Report:
    """Collects what a reproduction found, and writes it as it comes."""

    def __init__(self, name: str, folder: Path, seed: int, full: bool, say: Callable[[str], None]) -> None:
        self.name, self.folder, self.seed, self.full = name, folder, seed, full
        self.claims: list[Claim] = []
        self._say = say
        self._begun = time.monotonic()
        self._parts: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """A line of progress, with the seconds since the start."""
        self._say(f"{time.monotonic() - self._begun:6.1f} s  {text}")

    def table(self, name: str, title: str, rows: Sequence[Cells]) -> None:
        """Rows with the same keys, as `NAME.parquet` and in the report."""
        if not rows:
            raise ValueError(f"table {name!r} has no rows")
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), self.folder / f"{name}.parquet")
        self._parts.append(f"## {title}\n\n{markdown(rows)}\n")
        self.say(f"{title}: {len(rows)} rows")

    def plot(
        self, name: str, title: str, x: str, y: str, series: Series,
        *, log_x: bool = False, log_y: bool = False,
    ) -> None:
        """Lines over x as `NAME.png`; left out, and said so once, where matplotlib is missing."""
        pyplot = _pyplot()
        if pyplot is None:
            note = "Plots are left out: matplotlib is missing (`pip install 'brokerlab[plots]'`).\n"
            if note not in self._parts:
                self._parts.append(note)
            return
        figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
        for label, (xs, ys) in series.items():
            axes.plot(xs, ys, marker="o", markersize=3.5, linewidth=1.3, label=label)
        axes.set(title=title, xlabel=x, ylabel=y)
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
        if len(series) > 1:
            axes.legend(fontsize="small")
        figure.savefig(self.folder / f"{name}.png", dpi=130)
        pyplot.close(figure)
        self._parts.append(f"![{title}]({name}.png)\n")

    def text(self, paragraph: str) -> None:
        """Words for the report: what was done otherwise than in the source, and why."""
        self._parts.append(f"{paragraph}\n")

    def claim(self, name: str, source: str, expected: str, measured: str, holds: bool | None) -> None:
        """A claim of the source beside what was found."""
        # A NumPy bool is no bool to json.
        verdict = None if holds is None else bool(holds)
        self.claims.append(
            {"name": name, "source": source, "expected": expected, "measured": measured, "holds": verdict}
        )
        self.say(f"{VERDICTS[verdict]}: {name}: {measured}")

    def finish(self) -> None:
        """Write `claims.json` and `report.md`."""
        document = {"name": self.name, "seed": self.seed, "full": self.full, "claims": self.claims}
        (self.folder / "claims.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        head = f"# {self.name}\n\nSeed {self.seed}, {'full' if self.full else 'default'} scale.\n"
        parts = [head, f"## Claims\n\n{self.claims_table()}\n", *self._parts]
        (self.folder / "report.md").write_text("\n".join(parts), encoding="utf-8")

    def claims_table(self) -> str:
        rows = [{**claim, "holds": VERDICTS[claim["holds"]]} for claim in self.claims]
        return markdown(rows) if rows else "None."


def markdown(rows: Sequence[Cells]) -> str:
    """Rows with the same keys as a Markdown table that reads well on a terminal too."""
    lines = [list(rows[0])] + [[_cell(row[key]) for key in rows[0]] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def reproduce(
    name: str,
    experiments: Sequence[Callable[[Report], None]],
    folder: Path,
    seed: int,
    full: bool,
    as_json: bool,
) -> None:
    """Run the experiments in turn, print the claims: as one JSON object, or as a table."""
    with Steps("experiments") as steps:
        try:
            report = Report(name, folder, seed, full, steps.say)
        except OSError as problem:
            raise InvalidInput(f"cannot write to {folder}: {problem.strerror}; choose another --out") from None
        for done, each in enumerate(experiments):
            steps(done, 0, len(experiments))
            each(report)
        report.finish()
    if as_json:
        print(json.dumps({"name": name, "folder": str(folder), "claims": report.claims}, indent=2))
        return
    print(report.claims_table())
    print(f"\nTables and plots: {folder / 'report.md'}")


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    return pyplot


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return "" if value is None else str(value)
