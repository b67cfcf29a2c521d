"""Real reproductions, of little: what the command does with several can be seen in seconds."""

from __future__ import annotations

from dataclasses import replace

from analysis.papers import merging_network, routing
from analysis.papers.experiment import Run, Tables
from brokers.registry import Entry

ROUTING = [each for each in routing.EXPERIMENTS if each.name in ("rendezvous", "trees")]


def modes(run: Run) -> Tables:
    """Two modes of the server, at the ends of the clustering factor; with --full there are more queries."""
    rows = []
    for clustered in (merging_network.CLUSTERING[0], merging_network.CLUSTERING[-1]):
        for mode in merging_network.MODES:
            setting = merging_network.Setting(90 if run.full else 60, 6, 1_000, clustered, mode, channels=4)
            found = merging_network.measure(setting, run.seed)
            rows.append({"clustering factor": clustered, "mode": mode, **vars(found)})
    return {"network": rows}


MERGING = [replace(merging_network.EXPERIMENTS[0], measure=modes, draw=lambda tables: ())]
PAPERS = {
    "merging": Entry("tests.analysis.small_papers:MERGING", "modes of the server | in the network", {}),
    "routing": Entry("tests.analysis.small_papers:ROUTING", "a hub, and trees", {"seeds": 2}),
}
