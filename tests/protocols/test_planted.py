"""The planted bugs show in their minimal settings by the checks that are named, and what is repaired shows nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import pytest

from brokers.contract import FIRST_PROTOCOL_TYPE
from brokers.faults import NOTHING, Crash
from brokers.verdicts import VALID
from protocols.conformance import REHEARSALS, Variant, audit_run, check_digests, rehearse
from protocols.rehearsing import Rehearsal
from tests.planted import __main__ as program
from tests.planted import announcing, bridges, lives
from tests.planted.registry import ABSENT, ALL, MESHES, PLANTED, TREES, Planted, crash, failing
from tests.planted.settings import EVERYWHERE, MS, Ran, Setting
from tests.protocols.test_recovery import LOSSLESS, faults_until

NUMBERS = {each.number: each for each in PLANTED}
BY_NUMBER = [pytest.param(each, id=each.number) for each in PLANTED]
_MESH = {"nodes": 5, "probability": 1.0}
MESH = tuple(
    replace(each, name=f"{each.name}, as a mesh", topology="erdos-renyi", params=_MESH)
    for each in REHEARSALS if each.topology in ("random-tree", "balanced-tree") and not each.cost
)  # fmt: skip


def shown(planted: Planted, setting: Any, protocol: type) -> dict[str, str | None]:
    """What each check says of a run."""
    ran = Ran(setting, protocol)
    return {letter: check(ran) for letter, check in planted.checks.items()}


def overlays(planted: Planted) -> tuple[Rehearsal, ...]:
    """The rehearsals on which the repaired twin promises something."""
    every = {ALL: REHEARSALS, TREES: tuple(each for each in REHEARSALS if each.tree), MESHES: MESH}
    return every.get(planted.overlays, ())


@pytest.mark.parametrize("planted", BY_NUMBER)
def test_each_bug_shows_in_its_setting_and_not_in_what_is_repaired(planted):
    wrong, right = (shown(planted, planted.setting, each) for each in (planted.wrong, planted.right))
    assert all(wrong.values()), wrong
    assert not any(right.values()), right
    ran = Ran(planted.setting, planted.right)
    assert [check(ran) for check in EVERYWHERE] == [None] * len(EVERYWHERE)


@pytest.mark.parametrize("planted", BY_NUMBER)
def test_nothing_can_be_left_out_of_a_setting(planted):
    """Without one action, without a client, or without what fails, some check that shows the bug shows it no more."""
    setting, kept = planted.setting, []
    scripts = [[*setting.script[:at], *setting.script[at + 1 :]] for at in range(len(setting.script))]
    smaller = [replace(setting, script=tuple(each)) for each in scripts if makes_sense(each)]
    if setting.faults:
        smaller.append(replace(setting, faults=NOTHING))
    for each in smaller:
        kept.append(all(shown(planted, each, planted.wrong).values()))
    assert not any(kept), [each.script for each, still in zip(smaller, kept) if still]


def makes_sense(script: Any) -> bool:
    """Whether there is a probe, and nobody takes back what it has not."""
    asked: set[int] = set()
    for _, client, what in script:
        if what == "-" and client not in asked:
            return False
        asked = asked | {client} if what == "+" else asked - {client} if what == "-" else asked
    return any(what == "!" for _, _, what in script)


RIGHT = {each.right: each for each in PLANTED}


@pytest.mark.parametrize("planted", RIGHT.values(), ids=lambda each: each.right.__name__)
def test_what_is_repaired_keeps_what_it_promises_whatever_clients_do(planted):
    for rehearsal in overlays(planted):
        found = audit_run(rehearse(rehearsal, planted.right))
        assert found.verdict == VALID, (rehearsal.name, str(found))


@pytest.mark.parametrize("planted", RIGHT.values(), ids=lambda each: each.right.__name__)
def test_what_is_repaired_keeps_it_under_faults(planted):
    """Seeds are few: each class was run with many when it was written."""
    rehearsals = {ALL: (LOSSLESS[0], LOSSLESS[4]), TREES: (LOSSLESS[0], LOSSLESS[1]), MESHES: (MESH[0],)}
    for rehearsal in rehearsals.get(planted.overlays, ()):
        model = rehearse(replace(rehearsal, duration_ns=400 * MS), planted.right)
        found = audit_run(replace(model, faults=faults_until(model, 1)))
        assert not found.broken, str(found)


@pytest.mark.parametrize("planted", RIGHT.values(), ids=lambda each: each.right.__name__)
def test_what_is_repaired_is_the_same_in_every_way_of_running(planted):
    rehearsal = MESH[1] if planted.overlays == MESHES else REHEARSALS[1]
    ways = [
        Variant("first"), Variant("own tables", tables="own", view="message"), Variant("three shards", actors=3)
    ]  # fmt: skip
    assert check_digests(rehearse(rehearsal, planted.right), ways) == []


def test_every_number_of_the_list_is_there_or_said_to_be_absent():
    plain = {number.rstrip("abcd") for number in NUMBERS}
    assert plain | set(ABSENT) == {str(number) for number in range(1, 25)}
    assert not plain & set(ABSENT) and len(NUMBERS) == len(PLANTED)
    assert all(each.setting.size <= 14 for each in PLANTED)


def test_the_command_looks_at_a_bug_and_at_its_twin(capsys):
    assert program.main(["--only", "8", "--for", "1s"]) == 0
    first, *_, last, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("8    spoke that is also hub: found") and "smallest setting 9" in first
    assert last == "found 1 of 1; something in 0 of 1 twins"
    with pytest.raises(SystemExit):
        program.main(["--only", "99"])
    assert "there is no bug 99" in capsys.readouterr().err


# ---- what is known in figures --------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [1, 2, 4])
def test_a_route_of_each_life_is_a_copy_more_per_restart(restarts):
    setting = replace(
        NUMBERS["17"].setting, faults=failing(*(crash(1, 20 + 40 * r, 40 + 40 * r) for r in range(restarts)))
    )
    assert Ran(setting, lives.OneCopyPerLife).got == [0] * (restarts + 1)
    assert Ran(setting, lives.Incarnations).got == [0]


def test_a_list_that_never_forgets_grows_with_each_restart_and_so_do_the_messages_that_carry_it():
    sizes, messages = [], []
    for restarts in (2, 4, 6):
        faults = failing(*(crash(2, 30 + 60 * r, 60 + 60 * r) for r in range(restarts)))
        ran = Ran(replace(NUMBERS["16"].setting, faults=faults), announcing.NeverForgotten)
        sizes.append(max(ran.left))
        messages.append(int((ran.tables["hops"]["type"] == announcing.LIST).sum()))
    assert sizes == [4, 6, 8]  # the other one, and each life of the one that restarts
    grown = [b - a for a, b in pairwise(messages)]
    assert grown[0] == grown[1] > 0  # as many messages for each restart: it is their bytes that grow


def test_interest_that_is_announced_as_ones_own_storms_on_a_ring_and_not_on_a_line():
    setting = NUMBERS["18"].setting
    line = replace(setting, links=((0, 1), (1, 2)))
    assert not Ran(line, announcing.AnnouncedAsOwn).endless
    announced = Ran(line, announcing.Announcing).tables["hops"]["type"]
    assert (announced == FIRST_PROTOCOL_TYPE + 8).sum() == 2


def test_an_echo_of_a_spoke_is_one_copy_more_and_two_spokes_never_end():
    setting = NUMBERS["13b"].setting
    assert Ran(setting, bridges.EchoingSpokes).got == [0, 0]
    two = replace(setting, links=((0, 1), (0, 2)))
    assert Ran(two, bridges.EchoingSpokes).endless


def test_a_broker_that_restarts_in_the_middle_hides_that_snapshots_lack_what_was_learned():
    """Restarting B mends the first bug: it tells the bug from a loss."""
    planted = NUMBERS["1"]
    faults = replace(planted.setting.faults, faults=(*planted.setting.faults.faults, Crash(1, 120 * MS, 150 * MS, 2)))
    assert shown(planted, planted.setting, planted.wrong)["R"]
    assert Ran(replace(planted.setting, faults=faults), planted.wrong).got == [0]


def test_whether_a_client_is_heard_of_depends_on_the_order_of_arrival():
    """A source, a direct subscriber, a router and a client behind it appear in all orders (bug 15 of the list)."""
    planted, deaf = NUMBERS["1"], set()
    for order in permutations(("source", "direct", "router", "client")):
        at = {who: 20 + 40 * place for place, who in enumerate(order)}
        up = [crash(broker, 0, at[who]) for broker, who in enumerate(("source", "direct", "router"))]
        script = ((0, 1, "+"), (at["client"], 2, "+"), (300, 0, "!"))
        setting = Setting(((0, 1), (0, 2), (2, 3)), (0, 1, 3), script, failing(*up))
        assert Ran(setting, planted.right).got == [1, 2]
        if Ran(setting, planted.wrong).got != [1, 2]:
            deaf.add(order)
    # A direct subscriber that comes after the source has the router say all again.
    assert deaf == {each for each in permutations(at) if each[-1] == "source"} and len(deaf) == 6
