"""Small runs to analyze, and a way to tamper with them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from brokers.engine.runfolder import RunFolder, open_run

NEWS = """\
duration: {duration}
drain: {drain}
topology: {topology}
links: {{delay: {{kind: uniform, low: 5 ms, high: 30 ms}}, jitter: 2 ms, bandwidth: 10 Mbit/s, loss: {loss}}}
clients:
  publishers: {{count: 6, placement: even}}
  subscribers: {{count: 30, placement: even}}
services:
  - name: news
    kind: content
    attributes: 3
    protocol: {protocol}
    options: {options}
    cost: {{base: 200 us, per_entry: 1 us}}
    workload:
      - source: subscribe
        clients: subscribers
        number: [1, 3]
        constraints: [1, 2]
        width: [0.1, 0.8]
        ramp: 1 s
        churn: {{process: replace, rate: 20/min}}
      - {{source: publish, clients: publishers, rate: {rate}, missing: 5 %}}
trace: {{level: {level}}}
"""
TREE = "{kind: random-tree, nodes: 15}"
CYCLES = "{kind: watts-strogatz, nodes: 15, neighbours: 4, rewire: 0.2}"


@pytest.fixture(scope="session")
def news(tmp_path_factory):
    """Makes a run of subscribers who come and go, once for each way of calling it."""
    made: dict[tuple, RunFolder] = {}

    def make(
        protocol="covering", topology=TREE, loss="0", level="full", duration="4 s", drain="60 s", rate="10/s",
        options="{}",
    ) -> RunFolder:
        from scenarios.running import run

        key = (protocol, topology, loss, level, duration, drain, rate, options)
        if key not in made:
            folder = tmp_path_factory.mktemp("news")
            scenario = folder / "news.yaml"
            scenario.write_text(
                NEWS.format(
                    protocol=protocol, topology=topology, loss=loss, level=level, duration=duration, drain=drain,
                    rate=rate, options=options,
                ),
                encoding="utf-8",
            )  # fmt: skip
            made[key] = run(scenario, engine="inline", out=folder / "runs").folder
        return made[key]

    return make


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Makes runs of a scenario text with gaps, once for each way of filling them."""
    made: dict[tuple, RunFolder] = {}

    def make(text: str, **gaps: str) -> RunFolder:
        from scenarios.running import run

        key = (text, *sorted(gaps.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("filled")
            scenario = folder / "scenario.yaml"
            scenario.write_text(text.format(**gaps), encoding="utf-8")
            made[key] = run(scenario, engine="inline", out=folder / "runs").folder
        return made[key]

    return make


@pytest.fixture
def tampered(tmp_path) -> Callable:
    """Copies a run and changes tables of the copy, which passes for whole."""

    def tamper(run: RunFolder, **changes: Callable) -> Path:
        import pyarrow.parquet as pq

        copy = tmp_path / "tampered" / run.path.name
        shutil.copytree(run.path, copy, ignore=shutil.ignore_patterns("analysis"))
        manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
        for table, change in changes.items():
            rows = change(open_run(run.path).read(table))
            files = [file for file in manifest["files"] if file["table"] == table]
            for number, file in enumerate(files):
                part = rows if number == 0 else rows.slice(0, 0)
                pq.write_table(part, copy / file["path"])
                data = (copy / file["path"]).read_bytes()
                file |= {"rows": part.num_rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            manifest["tables"][table]["rows"] = rows.num_rows
        text = json.dumps(manifest).encode()
        (copy / "manifest.json").write_bytes(text)
        (copy / "_SUCCESS").write_text(hashlib.sha256(text).hexdigest() + "\n")
        return copy

    return tamper
