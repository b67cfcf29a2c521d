"""What is promised only of publications that are not under way for too long."""

from __future__ import annotations

import pytest

from brokers.verdicts import INVALID, VALID
from protocols.conformance import REHEARSALS, audit_run, rehearse
from protocols.content.flooding import PlainFlooding
from scenarios import cli

CYCLIC = [each for each in REHEARSALS if not each.tree]


@pytest.mark.parametrize("rehearsal", CYCLIC, ids=lambda r: r.name)
def test_flooding_that_forgets_before_a_publication_is_everywhere_promises_it_only_in_time(rehearsal):
    found = audit_run(rehearse(rehearsal, "flooding", 1, options={"remember_s": 0.002}))
    assert found.verdict == VALID and found.late_missed > found.forced / 5, str(found)
    assert found.guarantees.within_ns == 2_000_000 and "exactness within 0.002 s" in str(found)


class Losing(PlainFlooding):
    """Hands over nothing at some brokers."""

    def hand_over(self, message):
        if self.node.broker % 2:
            super().hand_over(message)


def test_what_is_missed_in_time_is_held_against_it_all_the_same():
    found = audit_run(rehearse(CYCLIC[0], Losing, 1))
    assert found.verdict == INVALID and found.missed.count > 0 == found.late_missed


def test_validate_notes_where_ways_take_longer_than_exactness_is_promised(capsys):
    said = ["validate", "news", "--set", "topology={kind: ring, nodes: 20}", "--set", "services.news.protocol=flooding"]
    assert cli.main([*said, "--set", "services.news.options.remember_s=0.05"]) == 0
    assert "under way for less than 50 ms; from the first broker to the farthest they take" in capsys.readouterr().out
    assert cli.main(said) == 0
    assert "under way" not in capsys.readouterr().out
