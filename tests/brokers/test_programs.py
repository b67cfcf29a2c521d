"""Programs as brokers: what they do wrong ends the run with a finding that names it, and leaves no process behind."""

from __future__ import annotations

import os
import time

import pytest

from brokers import names
from brokers.engine.simulate import simulate
from brokers.errors import InvalidInput, ProtocolFault
from brokers.names import Untrusted
from brokers.programs import spelling
from protocols.conformance import join, target_of
from tests.brokers.program_cases import alive_of, children_of, naughty


def run_of(how: str, **options):
    """Two brokers of this program; a client publishes. What came of it."""
    pair = join(naughty(how), [(0, 1)], options=options)
    pair.send(0, "publish", [0.5, 0.0, 0.0, 0.0])
    return simulate(pair.model())


WRONG = {
    "exit": r"ended by itself, with exit code 7, when it was asked about event 0, type 0 at broker b0 \(0\) at 1 s",
    "kill": r"was ended by SIGSEGV",
    "close": r"closed its standard input or output, and goes on",
    "flood": r"answered with more than 1,000 bytes \(option `answer_max`\): 'xxx",
    "no JSON": r"answered with what is no json: '\{nonsense'",
    "no object": r"answered with what is no object: '\[1, 2\]'",
    "NaN": r"answered with what is no json: .*NaN is no number in JSON",
    "no actions": r"`actions` is no list but None",
    "more than actions": r"an answer to events has `actions` and nothing else, not 'more'",
    "two answers": r"answered more than once: '\{\"actions\": \[\]\}",
    "error": r"says: I know no such broker \[31m , when it was asked about event 0",
    "an action that is none": r"there is no action 'fly'; there are forward, deliver, .*\(it said|there are",
    "no list": r"an action is a list that begins with its name, as \[\"forward\", 0, 7\] \(it said 'forward'\)",
    "too few arguments": r"'forward' takes the event and the link \(it said \['forward', 0\]\)",
    "unknown client": r"there is no client 10000; there are 0 to 1 \(it said \['deliver', 0, 10000\]\)",
    "a client elsewhere": r"client 1 is at broker 1, not at 0",
    "a link of another": r"1 is no link of broker 0, whose links are 0",
    "no such link": r"999 is no link of broker 0",
    "a link in words": r"'7' is no link of broker 0",
    "a timer too short": r"a timer of 4999999 ns is below its `timer_min_ns` of 5000000 ns",
    "another event": r"there is no event 77; those asked about are 0 to 0",
    "a type too large": r"the type is 128; there are 0 to 127",
    "a word too large": r"`word` is 18446744073709551616, which is no whole number of 64 bits",
    "a body too large": r"its body cannot be sent: .*1180591620717411303424 is outside of",
    "no row": r"a row is a list of numbers",
    "a negative cost": r"`ns` is -1, which is no count",
    "wrong timers": r"answered with `timers` that are none: a delay of 1 ns.*when it was told its brokers",
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
def test_what_a_program_does_wrong_is_a_finding_that_names_it_and_leaves_no_process(how):
    before = children_of(os.getpid())
    options = {"answer_max": 1000} if how == "flood" else {}
    with pytest.raises(ProtocolFault, match=f"(?s)the program exec:.*naughty.py.* {WRONG[how]}") as found:
        run_of(how, **options)
    if how not in ("wrong timers", "flood"):
        assert "its standard error ends with\n  about to do it\n  it is: " + how in str(found.value)
    assert children_of(os.getpid()) == before


def test_an_answer_nested_without_end_is_no_answer():
    with pytest.raises(ProtocolFault, match="answered with what is no json"):
        run_of("deep")


def test_a_program_that_ends_among_many_events_is_told_with_the_first_and_the_last():
    pair = join(naughty("exit"), [(0, 1)])
    for client in (0, 1):
        pair.send(client, "publish", [0.5, 0.0, 0.0, 0.0], at_ns=1_000_000)
    with pytest.raises(ProtocolFault, match=r"about 2 events, from type 0 at broker b0 \(0\) at 1 ms to .* b1"):
        simulate(pair.model())


def test_a_program_that_hangs_is_ended_after_its_time_with_all_that_it_started():
    before = children_of(os.getpid())
    said = r"(?s)gave no answer within 5 s \(option `answer_within`\), when it was asked.*process (\d+)"
    with pytest.raises(ProtocolFault, match=said) as found:
        run_of("hang for good", answer_within=5_000_000_000)
    assert children_of(os.getpid()) == before
    group = int(str(found.value).rpartition(" ")[2])
    until = time.monotonic() + 10  # what was told to end does so at once, but not before we look
    while alive := alive_of(group):
        assert time.monotonic() < until, alive


def test_a_program_may_write_to_its_standard_error_as_much_as_it_likes():
    assert run_of("chatter").metrics["network"]["events"] == 1


def test_a_program_may_refuse_what_it_is_told_at_the_start():
    with pytest.raises(ProtocolFault, match="says: there is no option hub, when it was told its brokers"):
        run_of("refuses options", hub=3)
    with pytest.raises(ProtocolFault, match="ended by itself"):
        run_of("exit", answer_max=1_000_000)  # which is an option of ours, and not told


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("says no JSON", "answered hello with what is no JSON: 'hello?'"),
        ("of no kind", "answered hello, but its answer 'kind' is missing"),
        ("unknown key", "answered hello, but its answer 'flies' is not known"),
        ("another version", "answered hello, but its answer 'hello' input should be 1"),
    ],
)
def test_what_a_program_says_of_itself_has_to_make_sense(how, said):
    before = children_of(os.getpid())
    with pytest.raises(InvalidInput, match=said.replace("?", r"\?")):
        names.find("protocols", naughty(how), trust=True)
    assert children_of(os.getpid()) == before


def test_a_program_that_says_nothing_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("brokers.programs.protocol.WITHIN_NS", 200_000_000)
    with pytest.raises(InvalidInput, match=r"gave no answer within 0\.2 s"):
        names.find("protocols", naughty("silent"), trust=True)


def test_a_program_that_cannot_be_started_is_told_with_what_to_do(tmp_path):
    (tmp_path / "plain").write_text("text", encoding="utf-8")
    (tmp_path / "headless").write_text("text", encoding="utf-8")
    (tmp_path / "lost").write_text("#!/no/such/interpreter\n", encoding="utf-8")
    for name in ("headless", "lost"):
        (tmp_path / name).chmod(0o755)
    for command, said in (
        ("./nothing", "there is no such file"),
        ("nothing-on-the-path", r"it is not on the PATH \(a file here is ./NAME\)"),
        ("./plain", r"it may not be executed \(chmod \+x\)"),
        ("./headless", "exec format error; a script begins with #!"),
        ("./lost", "there is no interpreter as its first line names it"),
        (".", "it is not on the PATH|it is a folder"),
    ):
        with pytest.raises(InvalidInput, match=f"the program exec:{command} cannot be started: ({said})"):
            names.find("protocols", f"exec:{command}", trust=True, folder=tmp_path)


def test_nothing_is_started_unless_somebody_trusts_it(tmp_path):
    program = tmp_path / "touch"
    program.write_text("#!/bin/sh\ntouch started\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(Untrusted, match=r"'exec:./touch' is a program from outside .*, and was not started; .*--trust"):
        names.find("protocols", "exec:./touch", folder=tmp_path)
    assert not (tmp_path / "started").exists()
    with pytest.raises(InvalidInput, match="ended by itself, with exit code 0"):
        names.find("protocols", "exec:./touch", folder=tmp_path, trust=True)
    assert (tmp_path / "started").exists()


def test_a_program_is_a_protocol_and_nothing_else():
    with pytest.raises(InvalidInput, match="is a program, and programs are protocols; here a topology is named"):
        names.find("topologies", "exec:./touch", trust=True)


def test_what_a_program_was_when_a_run_was_made_is_read_without_starting_it():
    was = spelling.target_of(["./gone"], {"hello": 1, "kind": "content", "promises": {"exact": False}})
    found = names.found_again("protocols", "exec:./gone", was)
    assert (found.object.kind, found.object.guarantees.exact) == ("content", False)

@pytest.mark.parametrize("was", ["exec:./gone", "os:system", "exec:[]", 'exec:{"command": [], "hello": {}}', "exec:{}"])
def test_what_a_strangers_manifest_says_that_a_program_was_is_never_imported(was):
    with pytest.raises(InvalidInput, match="is not what a command stands for"):
        names.found_again("protocols", "exec:./gone", was)


@pytest.mark.parametrize("command", [["./a"], ["./a b", "--c", ""], ["x", "it's", '"', "{y}", "exec:"], ["ü", "$HOME"]])
def test_a_command_is_spelled_and_read_back(command):
    assert spelling.command_of(spelling.spelled(command)) == command
    assert spelling.shown(spelling.placed(spelling.target_of(command, {"hello": 1}), ".")) == spelling.spelled(command)


def test_a_target_stands_for_itself_so_that_a_program_is_not_asked_for_each_model():
    target = spelling.target_of(["./gone"], {"hello": 1, "kind": "content"})
    assert target_of(target) == target
    assert not spelling.is_target(spelling.spelled(["{x}"]))


def test_commands_that_are_none_are_refused():
    for name in ("exec:", "exec: ", "exec:'./a", "exec:''", "exec:./a\0"):
        with pytest.raises(InvalidInput, match=r"is no command|names no program"):
            spelling.command_of(name)
    for section in ({"exec": "./a"}, {"exec": []}, {"exec": [1]}, {"exec": ["./a"], "more": 1}, {}):
        with pytest.raises(ValueError, match="exec"):
            spelling.from_section(section)


def test_a_program_that_is_another_by_the_time_it_runs_is_refused(tmp_path):
    program = tmp_path / "turncoat"
    hello = '{"hello": 1, "kind": "content", "faults": %s}'
    program.write_text(f"#!/bin/sh\nread line\necho '{hello % 'false'}'\n", encoding="utf-8")
    program.chmod(0o755)
    pair = join(f"exec:{program}", [(0, 1)])
    program.write_text(f"#!/bin/sh\nread line\necho '{hello % 'true'}'\n", encoding="utf-8")
    with pytest.raises(ProtocolFault, match=r"says other things of itself than when .* was loaded \(faults\)"):
        simulate(pair.model())
