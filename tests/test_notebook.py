"""The notebook of the docs is run, cell by cell, as a script: nbclient would bring a kernel and twenty packages."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
CELLS = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
SHOWN = {"Run", "OpenedRun", "Audit", "Table", "DataFrame"}  # what a cell ends with, and shows itself


def test_it_is_ten_cells_whose_outputs_are_left_out():
    assert len(CELLS) == 10 and len({cell["id"] for cell in CELLS}) == 10
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert all(cell["source"][0].startswith("# ") for cell in code)


def shown_by(source: str, names: dict) -> object:
    """Run a cell, and give what its last line is worth, as a notebook does."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_every_cell_runs_and_shows_something(tmp_path, monkeypatch):
    for name in ("pandas", "matplotlib"):
        pytest.importorskip(name)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for cell in CELLS:
        if cell["cell_type"] == "code":
            found = shown_by("".join(cell["source"]), names)
            if type(found).__name__ in SHOWN:
                assert "<table" in found._repr_html_()
    assert len(names["way"]) > 1 and names["told"]["to"]["why"]["steps"]
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "latency.pdf", "slowest.json", "report.html"}
    assert (tmp_path / "latency.pdf").read_bytes().startswith(b"%PDF")
