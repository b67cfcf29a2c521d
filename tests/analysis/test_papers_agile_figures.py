"""The search tree goes through the paper's figures, and a tree that does not is told so."""

from __future__ import annotations

from analysis.papers.agile_figures import EXPERIMENT
from analysis.papers.claims import FAILS, HOLDS, judged
from analysis.papers.experiment import Run
from brokers.indexes.context.keyed import AgileTree


def verdicts() -> list[str]:
    tables = EXPERIMENT.measure(Run(1, False, lambda text: None))
    return [judged("", (1,), [each]).verdict for each in EXPERIMENT.judge(tables)]


def test_the_tree_is_what_the_paper_draws():
    assert verdicts() == [HOLDS]


def test_a_tree_that_always_escalates_to_everything_is_not(monkeypatch):
    def everywhere(self, id_):
        self._displace(id_)
        self._everywhere.add(id_)

    monkeypatch.setattr(AgileTree, "_escalate", everywhere)
    assert verdicts() == [FAILS]
