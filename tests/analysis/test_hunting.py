"""Mutants: rules make what they say, ids stay, and what is looked for is really active where it is looked for."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap

import pytest

from analysis.bench.hunting import __main__ as program
from analysis.bench.hunting import judges as judging
from analysis.bench.hunting import rows as figures
from analysis.bench.hunting.active import ROOT
from analysis.bench.hunting.attempts import CRASHED, FOUND, SURVIVED, TIMED_OUT, Answer, Attempt, attempt
from analysis.bench.hunting.by_hand import MISTAKES, made_by_hand
from analysis.bench.hunting.equivalent import EQUIVALENT
from analysis.bench.hunting.places import (
    KINDS,
    by_hand,
    mutants_of,
    place_of,
    places,
    protocols_using,
    sample,
)
from analysis.bench.hunting.rules import RULES, Mutant, mutants
from analysis.bench.hunting.spoiling import BREAKS, Clear, Judged, spoilt
from protocols.conformance import audit
from protocols.content.manifest import CONTENT
from protocols.rehearsing import Dice
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.running import run

FLOODING = "protocols/content/flooding.py"
SOURCE = textwrap.dedent('''
    """A module."""
    GOOD, WRONG = 1, 2

    def route(self, message, link, home):
        """Not `a < b`."""
        if message.time < link and not home:
            self.node.forward(message, link ^ 1)
        for other in (
            self.links
        ):
            if other == GOOD:
                continue
            self.count += 7
        raise ValueError(f"{link < 1}")

    @njit(cache=True)
    def fast(a):
        return a is not WRONG or a is GOOD

    class Broker:
        def near(self, a, b):
            self.deep(1, a, b)
            while a not in b:
                break
            self.found[a] = True

        def describe(self):
            return 1 < 2
''').encode()


def made(rule: str) -> set[tuple[str, str, str]]:
    every = [each for each in mutants("m.py", SOURCE) if each.rule == rule]
    return {(each.function, each.before.strip(), each.after.strip()) for each in every}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("comparison", {("route", "<", "<="), ("route", "==", "!="), ("Broker.near", "not in", "in"),
                        ("fast", "is not", "is"), ("fast", "is", "is not")}),
        ("and or", {("route", "and", "or"), ("fast", "or", "and")}),
        ("negated condition", {
            ("route", "message.time < link and not home", "not (message.time < link and not home)"),
            ("route", "other == GOOD", "not (other == GOOD)"), ("Broker.near", "a not in b", "not (a not in b)"),
        }),
        ("off by one", {("route", "1", "2"), ("route", "7", "8"), ("Broker.near", "1", "2")}),
        ("wrong constant", {("Broker.near", "True", "False"), ("fast", "WRONG", "GOOD"), ("fast", "GOOD", "WRONG")}),
        ("swapped links", {("route", "^ 1", "")}),
        ("swapped arguments", {("Broker.near", "a, b", "b, a")}),
        ("dropped statement", {("route", "self.count += 7", "pass"), ("Broker.near", "self.found[a] = True", "pass")}),
        ("dropped call", {("route", "self.node.forward(message, link ^ 1)", "pass"),
                          ("Broker.near", "self.deep(1, a, b)", "pass")}),
        ("break continue", {("route", "continue", "break"), ("Broker.near", "break", "continue")}),
    ],
)  # fmt: skip
def test_each_rule_makes_what_it_says_and_nothing_of_what_is_only_told(rule, expected):
    assert made(rule) == expected


def test_what_returns_early_leaves_before_a_loop_or_a_condition():
    early = [each for each in mutants("m.py", SOURCE) if each.rule == "returned early"]
    assert {(each.function, each.before.split()[0], each.after.strip()) for each in early} == {
        ("route", "if", "return"), ("route", "for", "return"), ("Broker.near", "while", "return"),
    }  # fmt: skip


def test_a_mutant_has_the_lines_of_its_file_and_another_tree():
    before = ast.dump(ast.parse(SOURCE))
    for each in mutants("m.py", SOURCE):
        after = each.of(SOURCE)
        assert each.compiles(SOURCE) and after.count(b"\n") == SOURCE.count(b"\n")
        assert ast.dump(ast.parse(after)) != before, each
        assert SOURCE.splitlines()[each.line - 1][each.column :].decode().startswith(each.before.split("\n")[0])


def test_ids_stay_while_their_function_stays():
    here = {each.id: each for each in mutants("m.py", SOURCE)}
    moved = {each.id: each for each in mutants("m.py", b"import numba\n\n" + SOURCE)}
    assert here.keys() == moved.keys() and len(here) == len(mutants("m.py", SOURCE)) > 25
    assert all(moved[id].line == each.line + 2 for id, each in here.items())
    assert {each.in_kernel for each in here.values() if each.function == "fast"} == {True}


def test_the_shipped_sample_has_every_rule_and_group_and_is_the_same_every_time():
    taken = sample(program.SHIPPED, 1)
    again = "from analysis.bench.hunting.places import sample; print(*(each.id for each in sample(20, 1)))"
    said = subprocess.run([sys.executable, "-c", again], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.split() == [each.id for each in taken[:20]]
    assert len({each.id for each in taken}) == len(taken) >= 120
    assert {each.rule for each in taken} == set(RULES)
    files = {each.file for each in taken}
    assert {place.group for place in places() if place.file in files} == {place.group for place in places()}
    assert not any(each.in_kernel for each in taken) and all(each.in_kernel for each in sample(20, 1, True))
    assert [each.id for each in sample(20, 2)] != [each.id for each in taken[:20]]


def test_mistakes_made_by_hand_stand_where_they_say_and_are_python():
    made = by_hand()
    assert len(made) == len(MISTAKES) == len({each.id for each in made}) >= 19
    for each in made:
        source = (ROOT / each.file).read_bytes()
        changed = each.of(source)
        assert each.compiles(source) and changed != source
        assert changed.count(b"\n") == source.count(b"\n")
    assert {place_of(each.file).group for each in made} == set(KINDS)


def test_a_mistake_whose_text_is_gone_is_told():
    first = MISTAKES[0]
    with pytest.raises(ValueError, match=r"does not have .* once any more"):
        list(made_by_hand(first.file, (ROOT / first.file).read_bytes().replace(first.before.encode(), b"inward")))


def test_protocols_that_take_in_a_file_are_asked():
    known = {"flooding": "protocols.content.flooding:Flooding", "covering": "protocols.content.covering:Covering"}
    assert protocols_using("protocols/content/covering.py", known) == ["covering"]
    assert protocols_using("protocols/content/subscription.py", known) == ["covering"]
    assert protocols_using("brokers/tables.py", known) == list(known)


def test_of_many_protocols_those_that_name_a_function_are_asked_first():
    known = {name: entry.target for name, entry in CONTENT.protocols.items()}
    assert "reliable" in protocols_using("protocols/routes.py", known, "Routes.towards")
    assert "reliable" not in protocols_using("protocols/routes.py", known)


def test_what_no_protocol_and_no_judge_takes_in_is_left_to_its_own_tests():
    groups = {place.file: place.group for place in places()}
    assert groups["protocols/topics/retained.py"] == "topics"
    assert groups["protocols/topics/judge_retained.py"] == "judges"
    assert groups["protocols/content/reliable/broker.py"] == "content" and "gossip" in groups.values()
    assert not {"protocols/topics/measures.py", "protocols/spatial/explaining.py"} & set(groups)


def test_equivalent_mutants_are_there_and_say_why():
    every = {each.id for place in places() for each in mutants_of(place.file)}
    assert set(EQUIVALENT) <= every
    assert all(len(reason) > 30 for reason in EQUIVALENT.values())


# ---- processes -----------------------------------------------------------------------------------------


def mutant(file: str, function: str, before: str, rule: str) -> Mutant:
    return next(
        each for each in mutants_of(file) if (each.function, each.before, each.rule) == (function, before, rule)
    )


def test_a_mutant_is_active_in_its_process_and_nowhere_else():
    """A broker that does not forward is found by the first question; the file is what it was."""
    before = (ROOT / FLOODING).read_bytes()
    found = attempt(mutant(FLOODING, "PlainFlooding.on_message", "node.forward(message, link)", "dropped call"))
    assert found.outcome == FOUND and "flooding" in found.told and found.cpu_s > 0
    assert (ROOT / FLOODING).read_bytes() == before


def test_what_was_never_found_is_told_apart_from_what_was(monkeypatch):
    one, other, third, fourth = mutants_of(FLOODING)[:4]
    monkeypatch.setitem(EQUIVALENT, third.id, "nothing that anybody does depends on this in any way")
    said = program.summary([
        Attempt(one, FOUND, "missed", 2.0, 3.0), Attempt(other, SURVIVED, "", 30.0, 40.0),
        Attempt(third, SURVIVED, "", 30.0, 40.0), Attempt(fourth, TIMED_OUT, "ended", -1.0, 90.0),
        Attempt(one, CRASHED, "signal 11", -1.0, 1.0),
    ])  # fmt: skip
    first, times, *rest = said.splitlines()
    assert first == (
        "found 2 of 4 (50%): 1 by a judge or an error, 1 crashed; 1 survived, 1 timed out; 1 equivalent"
    )
    assert times == "CPU seconds until found: 2.0 median, 2.0 worst"
    assert [line.split(":")[0] for line in rest if not line.startswith("  ")] == [SURVIVED, TIMED_OUT, "equivalent"]


def test_a_process_that_does_not_come_back_is_ended(monkeypatch):
    from analysis.bench.hunting import attempts

    monkeypatch.setattr(attempts, "_START_S", 0.05)
    monkeypatch.setattr(attempts, "_LONGER", 0.0)
    assert attempt(mutants_of(FLOODING)[0]).outcome == TIMED_OUT


def test_the_command_lists_what_it_would_take_and_refuses_what_it_does_not_know(capsys):
    assert program.main(["--list", "--mutants", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [each.id for each in sample(3, 1)]
    for wrong, told in ((["--only", "nothing"], "no mutant nothing"), (["--for", "soon"], "is no time")):
        with pytest.raises(SystemExit):
            program.main(wrong)
        assert told in capsys.readouterr().err


def test_a_finder_that_does_not_work_makes_no_mutant_count_as_found(capsys):
    with pytest.raises(SystemExit):
        program.main(["--mutants", "1", "--finder", "analysis.bench.hunting.finders:nobody"])
    assert "--finder: the tree as it is is crashed" in capsys.readouterr().err


def test_finders_find_nothing_in_the_tree_as_it_is():
    from analysis.bench.hunting.finders import kit

    assert kit(["flooding"], 1, 1.0) is None
    assert judging.judges(["covering", "topk-gather", "topics", "channels"], 1, 3.0) is None


def test_what_has_a_line_in_the_log_is_not_looked_for_again(tmp_path, monkeypatch, capsys):
    """A call that was stopped is gone on with; another seed is another question."""
    looked = []

    def attempts(wanted, finder, seed, seconds, jobs):
        looked.append([each.id for each in wanted])
        return [Attempt(each, FOUND, "missed", 1.0, 2.0) for each in wanted]

    monkeypatch.setattr(program, "attempts", attempts)
    monkeypatch.setattr(program, "searched", lambda *_: Answer(SURVIVED, "", 0.0, 0.0))  # the tree as it is
    log = tmp_path / "log"
    for count, seed in (("2", "1"), ("3", "1"), ("2", "5")):
        assert program.main(["--mutants", count, "--seed", seed, "--log", str(log)]) == 0
    every = [each.id for each in sample(3, 1)]
    assert looked == [every[:2], every[2:], [each.id for each in sample(2, 5)]]
    assert "found 3 of 3" in capsys.readouterr().out


# ---- judges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finding", BREAKS)
def test_a_judge_that_overlooks_one_finding_is_found(finding, monkeypatch):
    def overlooking(tables, kind, guarantees):
        found = audit(tables, kind, guarantees)
        getattr(found, finding).count = 0
        return found

    monkeypatch.setattr(judging, "audit", overlooking)
    told = judging.judges(["subscription"], 1, 10.0)
    assert told and "a run with" in told


def test_a_judge_that_accuses_who_is_right_or_takes_what_was_sure_for_free_is_found(monkeypatch):
    def strict(tables, kind, guarantees):
        found = audit(tables, kind, guarantees)
        found.missed.add("something")
        return found

    def lenient(tables, kind, guarantees):
        found = audit(tables, kind, guarantees)
        found.free += 1
        return found

    for wrong, said in ((strict, "a right run is invalid"), (lenient, "nothing is free")):
        monkeypatch.setattr(judging, "audit", wrong)
        assert said in (judging.judges(["subscription"], 1, 10.0) or "")


@pytest.mark.parametrize(
    ("protocol", "ways"),
    [
        ("topk-gather", {"another rank", "another score", "another tie", "a rank lost", "a rank twice"}),
        ("channels", {"an answer lost", "an answer twice", "other objects", "other marks", "a query of nobody"}),
        ("topics", {"nobody chosen", "a stranger chosen", "a delivery lost", "one of two late"}),
        ("spatial-flooding", {"a delivery lost", "a delivery to a stranger too", "one of two early"}),
    ],
)
def test_rows_of_every_table_are_spoilt(protocol, ways):
    spoilt_so, prey = set(), Prey.of(protocol)
    for number in range(120):
        outcome = run(judging.apart(draw(prey, 1, number)))
        if outcome.tables:
            judged = Judged(outcome.tables, outcome.kind, outcome.guarantees)
            spoilt_so |= {each.how for each in spoilt(judged, Clear(judged), Dice(1, number, "test"))}
        if ways <= spoilt_so:
            return
    assert ways <= spoilt_so


def test_the_group_hunt_tells_of_speed_of_planted_bugs_and_of_mutants():
    sizes = figures.Sizes(runs=2, bugs=("13d",), seconds=10, mutants=1)
    told = {each["name"]: each["value"] for each in figures.rows(sizes)}
    assert told["planted bugs found, of 1"] == 100 and told["size of a shrunk case beside that by hand, worst"] <= 2
    assert told["judged runs, flooding"] > 0 and told["mutants found, of 1"] in (0, 100)
