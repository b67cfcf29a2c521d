"""What a hunt covered: types, options and lines, told where no run came by; and hunts in several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from brokers import names
from brokers.contract import FIRST_PROTOCOL_TYPE, TIMER
from brokers.errors import InvalidInput
from protocols.content.subscription import PlainSubscription
from protocols.rehearsing import Dice
from scenarios.cli import main
from scenarios.hunt.apart import apart
from scenarios.hunt.case import Act, Case, Edge, Move
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.found import RUNS_ENOUGH, Covered, Report, unexercised
from scenarios.hunt.hashing import close, hashing
from scenarios.hunt.hunt import hunt
from scenarios.hunt.judges import JUDGES, judged
from scenarios.hunt.lines import Lines, never
from scenarios.hunt.options import draw_options
from scenarios.hunt.own_code import OwnCode
from scenarios.hunt.running import run
from scenarios.hunt.shrinking import shrink
from scenarios.hunt.telling import summary

WAKE, RARE = FIRST_PROTOCOL_TYPE + 30, FIRST_PROTOCOL_TYPE + 31


class Chatty(PlainSubscription):
    """Has a timer that fires, a type that nobody ever sends, and an option."""

    class Options(PlainSubscription.Options):
        note: str = Field("", description="of no consequence, and nothing that is drawn")

    timer_min_ns: ClassVar[int] = 1_000

    def on_message(self, message: Any) -> None:
        if message.type == WAKE:
            return
        if message.type == RARE:
            self.rarely()
        if message.kind != TIMER and message.link < 0:
            self.node.timer(message, 1_000, WAKE)
        super().on_message(message)

    def rarely(self) -> None:
        self.node.cost(None, 1)


@pytest.fixture(scope="module")
def chatty_report():
    return hunt(Chatty, runs=15, faults=False, kind="content")


# ---- what is never exercised --------------------------------------------------------------------------


def test_a_type_that_the_code_names_and_nobody_sends_is_told(chatty_report):
    told = {(each.sort, each.name) for each in chatty_report.unexercised}
    assert ("own type", "RARE") in told and ("own type", "WAKE") not in told


def test_an_option_that_no_run_draws_is_told(chatty_report):
    assert ("option", "note") in {(each.sort, each.name) for each in chatty_report.unexercised}


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(names.table("protocols")))
def test_a_hunt_of_a_built_in_protocol_leaves_nothing_unexercised(name):
    assert hunt(name, runs=500, seed=5, judges=["fails"], lines=False).unexercised == []


def test_what_a_protocol_cannot_use_is_not_told():
    prey = Prey.of("topk-ingress")
    names = {each.name for each in unexercised(prey, OwnCode.of(prey.protocol_class), Covered())}
    assert "DELIVERY" in names and "QUESTION" not in names


def test_it_counts_as_a_finding_only_once_there_were_runs_enough():
    report = Report("mine", 1)
    report.unexercised = list(unexercised(Prey.of("topk-ingress"), OwnCode.of(object), Covered()))
    assert "not exercised in so few runs: publish, " in summary(report)
    report.runs = RUNS_ENOUGH
    assert report.long_enough and "never exercised: no client ever said 'publish'" in summary(report)


def test_strict_makes_an_exit_code_of_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("scenarios.hunt.found.RUNS_ENOUGH", 2)
    arguments = ["hunt", "subscription", "--runs", "2", "--faults", "none", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert main([*arguments, "--strict"]) == 1
    assert "never exercised" in capsys.readouterr().out


# ---- lines ---------------------------------------------------------------------------------------------


def test_lines_that_no_run_reached_are_told(chatty_report):
    mine = chatty_report.lines[0]
    source = Path(__file__).read_text().splitlines()
    assert mine.file == __file__ and mine.lines == 8
    assert [source[int(each) - 1].strip() for each in mine.never] == ["self.rarely()", "self.node.cost(None, 1)"]


def test_lines_that_follow_each_other_are_a_range():
    assert never({3, 5, 6, 9, 11}, {6}) == ["3-5", "9-11"]
    assert never({1, 2}, {1, 2}) == []


def test_nothing_is_watched_where_somebody_else_watches():
    lines = Lines(OwnCode.of(Chatty))
    sys.settrace(lambda *_: None)
    try:
        with lines.watching():
            assert sys.gettrace() is not None and not any(lines.reached.values())
    finally:
        sys.settrace(None)


def test_a_hunt_without_lines_has_none_and_finds_nothing_either():
    report = hunt(PlainSubscription, runs=4, lines=False)
    assert report.lines == [] and report.findings == []


def test_compiled_code_is_counted_apart():
    own = OwnCode.of(Prey.of("topk-gather").protocol_class)
    assert own.compiled_lines > 100 and not {code for code in own.functions if code in own.compiled}


# ---- side by side ---------------------------------------------------------------------------------------


def test_two_processes_find_the_same_each_time_and_count_a_sort_once():
    def found() -> list[tuple[str, str, int, str]]:
        report = hunt(
            "tests.scenarios.planted:ForgetsALink", runs=16, seed=3, faults=False, jobs=2,
            judges=["delivery"], shrink_seconds=0, lines=False,
        )  # fmt: skip
        assert report.runs == 16 and report.troubles == []
        return [(*each.same, each.run, each.told) for each in report.findings]

    first = found()
    assert len(first) == 1 and found() == first


def test_a_class_that_no_other_process_can_import_is_refused():
    class Local(PlainSubscription):
        pass

    with pytest.raises(InvalidInput, match="put the class into a module"):
        hunt(Local, runs=2, jobs=2)


def test_a_process_that_dies_is_told_and_the_exit_code_is_2(tmp_path, capsys):
    protocol = "tests.scenarios.planted:Dies"
    assert main(["hunt", protocol, "--runs", "4", "--jobs", "2", "--out", str(tmp_path)]) == 2
    assert "failed after 0 runs: it ended with exit code 7" in capsys.readouterr().out


def test_ctrl_c_ends_all_processes_and_tells_what_there_is(tmp_path):
    begin = "import sys; from scenarios.cli import main; raise SystemExit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", begin, "hunt"]
    arguments = ["tests.scenarios.planted:SharesState", "--judges", "isolation", "--jobs", "2", "--for", "10min"]
    process = subprocess.Popen(
        [*command, *arguments, "--out", str(tmp_path)], stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait() == 1
    assert first.startswith("run ") and "interrupted: " in rest
    assert len(children) >= 2 and not any(os.path.exists(f"/proc/{child}/cmdline") for child in children)


def test_what_was_covered_is_in_the_json(tmp_path, capsys):
    assert main(["hunt", "flooding", "--runs", "3", "--json", "--out", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["lines"]["watched"] == 1 and told["lines"]["files"][0]["file"].endswith("flooding.py")
    assert {each["sort"] for each in told["unexercised"]} <= {"kind's type", "own type", "option"}


# ---- judges that look apart ---------------------------------------------------------------------------


def test_another_hash_seed_shows_what_goes_by_the_order_of_a_set():
    acts = (Act(10**6, 0, "subscribe", 0, body=(0.0, 0.0, 1.0)),)
    case = Case("tests.scenarios.planted:GoesBySets", "content", 2, (Edge(0, 1, 10**6),), (0,), acts, 10**9)
    try:
        assert [sort for sort, _ in hashing(run(case))] == ["hash seed"]
        assert list(hashing(run(case.but(protocol="subscription")))) == []
    finally:
        assert close() == []


def test_no_process_is_asked_about_a_class_that_it_cannot_import():
    class Local(PlainSubscription):
        pass

    case = Case(Prey.of(Local).protocol, "content", 1, (), (0,), (), 10**9)
    assert list(hashing(run(case))) == []
    (told,) = close()
    assert "no other process can import protocols.rehearsing:local_Local" in told


@pytest.mark.parametrize("name", ["covering", "topk-bounded", "context-escalated", "spatial"])
def test_brokers_of_built_in_protocols_have_nothing_in_common(name):
    for number in range(6):
        assert list(apart(run(draw(Prey.of(name), 9, number)))) == []


# ---- what most cases leave out ------------------------------------------------------------------------


_MOVING = Case(
    "subscription", "content", 3, (Edge(0, 1, 10**6), Edge(1, 2, 10**6)), (0, 2),
    (Act(1, 1, "subscribe", 0, body=(0.0, 0.0, 1.0)), Act(90 * 10**6, 0, "publish", body=(0.5, 0.5))), 10**9,
    moves=(Move(1, 50 * 10**6), Move(1, 100 * 10**6, 1)), session={"keep": 10**9},
    queues={"places": 3, "full": "oldest"}, params={"attributes": 2},
)  # fmt: skip


def test_a_case_in_which_clients_move_is_the_case_of_its_scenario():
    outcome = run(_MOVING)
    again = Case.of(_MOVING.loaded())
    assert again == _MOVING and run(again).digest == outcome.digest
    assert len(outcome.tables["deliveries"]["client"]) == 1  # handed over where the client came to
    assert judged(outcome, JUDGES) == judged(outcome, JUDGES, dear=True) == []


def test_what_a_mistake_does_not_need_of_it_is_left_out():
    shrunk = shrink(_MOVING, lambda case: any(act.op == "subscribe" for act in case.acts))
    assert shrunk.minimal and not (shrunk.case.moves or shrunk.case.session or shrunk.case.queues or shrunk.case.params)
    shrunk = shrink(_MOVING, lambda case: any(move.broker is not None for move in case.moves))
    (move,) = shrunk.case.moves
    assert shrunk.minimal and shrunk.case.brokers == 1 and move.client == 0 and not shrunk.case.session


def test_each_feature_is_left_out_by_most_cases_and_had_by_some():
    cases = [draw(Prey.of("covering"), 4, number) for number in range(60)]
    for name in ("moves", "session", "queues", "params"):
        assert 0 < sum(bool(getattr(case, name)) for case in cases) < 30, name
    assert not any(case.latent for case in cases)  # it opens none


def test_links_that_may_arise_are_drawn_where_a_protocol_opens_them():
    class Opens(PlainSubscription):
        opens: ClassVar[bool] = True

    cases = [draw(Prey.of(Opens), 4, number) for number in range(20)]
    assert 0 < sum(bool(case.latent) for case in cases) < 20
    case = next(case for case in cases if case.latent)
    assert Case.of(case.loaded()).edges == tuple(sorted(case.edges)) and not run(case).failed


def test_what_only_goes_together_is_drawn_from_examples():
    drawn = [draw_options(names.find("protocols", "channels").object, {}, Dice(1, i, "test")) for i in range(60)]
    assert {"weights", "costs", "algorithm"} <= {name for each in drawn for name in each}
