"""Rows of indexes of topic filters: their data are what their names say, they are all there. No figure is judged."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.bench import filters_of_topics
from analysis.bench.topic_cases import HARD, LITERAL, TENTH
from brokers.indexes.topics.contract import checked_filters, checked_names
from brokers.indexes.topics.scan import Scan

FEW = filters_of_topics.Sizes(
    filters=300, smaller=(100,), batch=16, batches=2, scanned=4, turns=1, changes=20, hard=(200,), hard_batch=4
)
HITS = {  # the share of filters that a name has
    "deep # chains": (1.0, 1.0), "all +": (0.01, 0.02), "every branch": (1.0, 1.0), "one hot filter": (1.0, 1.0),
    "one hot filter, ids in no order": (1.0, 1.0), "one hot name": (1.0, 1.0),
    "64 levels, one name has all": (1.0, 1.0), "64 levels, two words": (0.0, 0.0),
    "64 levels, two by two": (0.5, 0.5), "everything is #": (1.0, 1.0),
    "the last level differs": (0.0, 0.01), "few words": (0.1, 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_a_hard_case_is_as_its_name_says(name):
    case, rng = HARD[name], np.random.Generator(np.random.PCG64(1))
    filters, names = checked_filters(case.filters(rng, 640)), checked_names(case.names(rng, 16))
    scan = Scan.build("mqtt", np.arange(640), filters)
    assert HITS[name][0] <= scan.match_many(names)[1].size / (640 * 16) <= HITS[name][1]


def test_the_tree_has_the_share_of_wildcards_that_is_asked():
    rng = np.random.Generator(np.random.PCG64(1))
    assert not np.isin(checked_filters(LITERAL.filters(rng, 500)), [-1, -2]).any()
    share = np.isin(checked_filters(TENTH.filters(rng, 5_000)), [-1, -2]).any(axis=1).mean()
    assert 0.08 < share < 0.12


def test_every_row_is_there_with_its_target():
    rows = list(filters_of_topics.rows(FEW))
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    assert all(row["value"] >= 0 for row in rows)
    judged = {row["name"]: row["target"] for row in rows if row["target"]}
    assert judged["300 filters, no wildcards: trie"] == "at least 1 M names/s"
    assert judged["300 filters, a tenth wildcards: trie"] == "at least 200 k names/s"
    assert sum(target == "at most 1.15 times the scan's" for target in judged.values()) == 2 * len(HARD)
