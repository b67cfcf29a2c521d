"""The search tree goes through the paper's figures, and a tree that does not is told so."""

from __future__ import annotations

from analysis.papers.agile_figures import figures_5_to_7
from analysis.papers.claims import HOLDS
from analysis.papers.experiment import Run, Told
from brokers.indexes.context.keyed import AgileTree


def claims(folder) -> list[bool | None]:
    report = Told(Run(1, False, lambda text: None))
    figures_5_to_7(report)
    return [claim.verdict == HOLDS for claim in report.claims]


def test_the_tree_is_what_the_paper_draws(tmp_path):
    assert claims(tmp_path) == [True]


def test_a_tree_that_always_escalates_to_everything_is_not(tmp_path, monkeypatch):
    def everywhere(self, id_):
        self._displace(id_)
        self._everywhere.add(id_)

    monkeypatch.setattr(AgileTree, "_escalate", everywhere)
    assert claims(tmp_path) == [False]
