"""The judge of drops that go on: by hand, in the kit, in the audit, and of whose books have too little room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from brokers.faults import NO_PLACE, NO_PLACE_AHEAD
from protocols.conformance import judge_run, rehearse
from protocols.content.kind import PUBLISH, SUBSCRIBE, Content
from protocols.dropping import Stretch, stretches, unrelenting
from protocols.rehearsing import NARROW
from tests.analysis.test_manners import audited
from tests.planted import slow
from tests.planted.registry import PLANTED
from tests.planted.settings import MS, Ran, Setting, pressing

KIND = Content(Content.Params().model_dump())
FULL = next(each for each in PLANTED if each.number == "19")


def losses(*rows):
    """Rows of (link, time, type, reason, service)."""
    names = ("link", "time_ns", "type", "reason", "service")
    return dict(zip(names, np.array(rows, np.int64).reshape(-1, 5).T))


def test_a_stretch_is_of_publications_of_one_service_in_front_of_one_link_one_soon_after_the_other():
    rows = [(4, at, PUBLISH, NO_PLACE_AHEAD, 0) for at in (10, 15, 24, 40, 49)]
    others = [
        (5, 12, PUBLISH, NO_PLACE_AHEAD, 0), (4, 33, PUBLISH, NO_PLACE, 0), (4, 32, SUBSCRIBE, NO_PLACE_AHEAD, 0),
        (4, 31, PUBLISH, NO_PLACE_AHEAD, 1),
    ]  # fmt: skip
    assert list(stretches(losses(*others, *rows), KIND, 0, 10)) == [Stretch(4, 10, 24, 3), Stretch(4, 40, 49, 2)]
    assert list(stretches(losses(), KIND, 0, 10)) == []


@pytest.mark.parametrize(("within", "told"), [(0, False), (13, True), (14, False), (17, True), (39, False)])
def test_who_says_so_has_none_that_lasts_longer(within, told):
    rows = [(4, at, PUBLISH, NO_PLACE_AHEAD, 0) for at in (10, 15, 24, 40, 49)]
    tables = {"losses": losses(*rows), "links": {"link": np.array([4]), "from": np.array([2]), "to": np.array([7])}}

    class Relenting(slow.Scoring):
        relents_ns = within

    found = [each for _, each in unrelenting(tables, KIND, Relenting)]
    assert bool(found) == told and all("in front of the link 2 -> 7" in each for each in found)


def test_the_kit_asks_it():
    dense = replace(NARROW, publications=1_500)
    wrong, right = (judge_run(rehearse(dense, each))[1] for each in (slow.Unscored, slow.Scoring))
    assert right == [] and len(wrong) == 1 and wrong[0].startswith("drops: ")
    queueing = replace(dense, cost={"base": 1e6})  # what is dropped then was decided on long before
    assert judge_run(rehearse(queueing, slow.Unscored))[1] == []


def test_the_audit_has_it_as_figures(tmp_path):
    service, told = audited(FULL.setting, FULL.wrong, tmp_path / "wrong")
    assert service.drops == {"links": 1, "longest_ns": 50 * MS, "publications": 3}
    assert "drops: for up to 0.05 s in front of one link, and lasting in front of 1\n" in told
    service, _ = audited(FULL.setting, FULL.right, tmp_path / "right")
    assert service.drops is None or service.drops["links"] == 0


@pytest.mark.parametrize(("leaves", "found"), [(4, False), (5, True)])
def test_books_with_room_for_four_are_right_for_four_slow_neighbours_and_wrong_for_five(leaves, found):
    class Four(slow.Bounded):
        MOST = 4

    links = tuple((0, leaf) for leaf in range(1, leaves + 1))
    script = tuple((10 + 12 * i, 0, "!") for i in range(20))
    setting = Setting(links, (0,), script, slow=tuple(range(1, leaves + 1)), room=1)
    assert bool(pressing(Ran(setting, Four))) == found
    assert not pressing(Ran(setting, slow.Pressing))
