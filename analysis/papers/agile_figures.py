"""Figures 5 to 7 of the AGILE paper: one key on a binary search tree, through two updates and a de-escalation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from analysis.papers.claims import Claim, Figure, exactly, printed
from analysis.papers.experiment import Experiment, Run, Tables
from brokers.indexes.context.keyed import AgileTree, Region, contains

_A, _B = 1, 2  # two warehouses, both at key 2 in the beginning


def figures_5_to_7(run: Run) -> Tables:
    """K of warehouse A after each step, beside what the paper draws."""
    tree = AgileTree()
    tree.insert(9, 5)  # the root, whose id goes again
    tree.insert(_A, 2)
    tree.insert(_B, 2)
    tree.delete(9)
    steps = (
        ("figure 5", "A changes from 2 to 3", lambda: tree.update(_A, 3), True, (-math.inf, 5, False)),
        ("figure 6", "A changes from 3 to 1", lambda: tree.update(_A, 1), False, (-math.inf, 5, False)),
        ("figure 7", "a false positive", lambda: tree.deescalate(_A), True, (-math.inf, 2, False)),
    )
    rows = []
    for figure, what, step, moves, drawn in steps:
        moved, found = step(), tree.region(_A)
        right = (moved, found) == (moves, drawn)
        right = right and tree.probe(4) == ({_A} if contains(drawn, 4) else set()) and _B in tree.probe(2)
        rows.append({"figure": figure, "step": what, "moved": moved, "K of A": _shown(found), "drawn": _shown(drawn),
                     "as drawn": int(right)})  # fmt: skip
    return {"figures-5-to-7": rows}


def judge(tables: Tables) -> Iterator[Claim]:
    yield Claim(
        "as-drawn", "K on a search tree is as the paper draws it", printed("figures 5 to 7"),
        {row["figure"]: Figure(row["as drawn"], exactly(1)) for row in tables["figures-5-to-7"]},
        ", ".join(str(row["drawn"]) for row in tables["figures-5-to-7"]),
    )  # fmt: skip


def _shown(region: Region) -> str:
    low, high, closed = region
    return f"[{low:g}, {high:g}]" if closed else f"]{low:g}, {high:g}["


EXPERIMENT = Experiment(
    "figures-5-7", "Figures 5 to 7: K of warehouse A on a search tree", figures_5_to_7, judge,
    titles={"figures-5-to-7": "K of warehouse A"},
)  # fmt: skip
