"""The workload `script`: what clients do, written down in the scenario."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from scenarios.running import run


def scenario(actions: list[dict[str, Any]], **service: Any) -> dict[str, Any]:
    return {
        "duration": "3 s",
        "topology": {"kind": "line", "nodes": 3},
        "clients": {"all": {"count": 3, "placement": "even"}},
        "services": [
            {
                "name": "news", "kind": "content", "protocol": "subscription", "attributes": 1,
                "workload": [{"source": "script", "actions": actions}], **service,
            }
        ],
    }  # fmt: skip


SUBSCRIBE = {"at": "1 ms", "client": 0, "op": "subscribe", "body": [0, 0.2, 0.4]}
PUBLISH = {"at": "2 s", "client": 2, "op": "publish", "body": [0.3]}


def carried_out(tmp_path, actions: list[dict[str, Any]], **service: Any) -> dict[str, Any]:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario(actions, **service)))
    found: dict[str, Any] = run(tmp_path / "s.yaml", engine="inline", out=tmp_path).metrics["services"][
        "news"
    ]
    return found


def test_what_is_written_happens(tmp_path):
    assert carried_out(tmp_path, [SUBSCRIBE, PUBLISH])["deliveries"] == 1


def test_what_ends_before_a_publication_gets_nothing(tmp_path):
    ends = {"at": "1 s", "client": 0, "op": "unsubscribe"}
    assert carried_out(tmp_path, [SUBSCRIBE, ends, PUBLISH])["deliveries"] == 0


def test_actions_of_a_client_at_one_time_keep_their_order(tmp_path):
    ends = {"at": "1 ms", "client": 0, "op": "unsubscribe"}
    later = {"at": "500 us", "client": 0, "op": "publish", "body": [0.9]}
    other = {**SUBSCRIBE, "number": 1}
    assert carried_out(tmp_path, [SUBSCRIBE, ends, PUBLISH, later])["deliveries"] == 0
    assert carried_out(tmp_path, [SUBSCRIBE, ends, other, PUBLISH, later])["deliveries"] == 1


def test_at_0_stands_what_was_there_from_the_start(tmp_path):
    stands = {**SUBSCRIBE, "at": 0}
    assert (
        carried_out(tmp_path, [stands, {**PUBLISH, "at": "1 ms"}], subscriptions="settled")["deliveries"] == 1
    )


@pytest.mark.parametrize(
    ("action", "path", "told"),
    [
        ({"op": "subscrib"}, "op", "did you mean 'subscribe'"),
        ({"client": 3}, "client", "clients 0 to 2"),
        ({"at": 0}, "at", "nothing happens before 1 ns"),
        ({"at": "3 s"}, "at", "raise `duration`"),
        ({"body": [1, 0.2, 0.4]}, "body", "no attribute 1"),
        ({"body": [0, 0.4, 0.2]}, "body", "does not run from low to high"),
        ({"body": [0, 0.4]}, "body", "no ranges"),
        ({"data": 3}, "data", "`body` or `data`"),
        ({"number": 1, "word": 3}, "word", "the `number` or the `word`"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(action, path, told):
    with pytest.raises(ScenarioErrors, match=told) as found:
        resolve(loads(yaml.safe_dump(scenario([PUBLISH, {**SUBSCRIBE, **action}]))))
    (problem,) = found.value.problems
    assert problem.path == ("services", 0, "workload", 0, "actions", 1, path)
    assert problem.line > 0


@pytest.mark.parametrize("between", [[], [{"at": "3 ms", "client": 0, "op": "unsubscribe"}]])
def test_nothing_begins_under_a_number_that_was_used_before(between):
    again = {**SUBSCRIBE, "at": "5 ms"}
    with pytest.raises(ScenarioErrors, match=r"client 0 has used it before, in actions\[0\]") as found:
        resolve(loads(yaml.safe_dump(scenario([SUBSCRIBE, *between, again]))))
    assert found.value.problems[0].path[-2:] == (1 + len(between), "number")
    resolve(loads(yaml.safe_dump(scenario([SUBSCRIBE, *between, {**again, "number": 1}, {**again, "client": 1}]))))


def test_a_body_that_is_missing_is_told():
    with pytest.raises(ScenarioErrors, match="it needs a body"):
        resolve(loads(yaml.safe_dump(scenario([{"at": "1 s", "client": 0, "op": "publish"}]))))


BODIES = {
    "topk": (
        [("publish", [0.5] * 8), ("publish", [0.5] * 24), ("subscribe", [0, 0.1, 0.2, 1.0])],
        [("publish", [0.5] * 9), ("subscribe", [0, 0.1, 0.2]), ("subscribe", [9, 0.1, 0.2, 1.0])],
    ),
    "context": (
        [("publish", [0.5] * 4), ("update", [0, 1, 0.5]), ("subscribe", [0, 1, 0, None, None, 0.5, None])],
        [("publish", [0.5] * 3), ("update", [0, 9, 0.5]), ("subscribe", [0, 1, 0]), ("unsubscribe", [1.0])],
    ),
    "channels": (
        [("subscribe", [24_000_000, 0, 100, 0, 100])],
        [("subscribe", [5, 0, 100, 0, 100]), ("subscribe", [24_000_000, 0, 100])],
    ),
    "spatial": (
        [("publish", [1, 1, 2, 100, 3]), ("subscribe", [1, 1, 3])],
        [
            ("publish", [1, 1, 99, 100, 3]),
            ("publish", [1, 1]),
            ("subscribe", [1, 1, 1000]),
            ("subscribe", [1, 1]),
        ],
    ),
    "topics": (
        [("publish", [0, 3, 1]), ("subscribe", [0, 0, 3, -1, -2])],
        [("publish", [0, -1]), ("subscribe", [0, 0, -2, 3]), ("subscribe", [0, 2, 3]), ("subscribe", [1, 0, 3])],
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_every_kind_knows_its_bodies(name):
    from brokers import names as all_names

    kind = all_names.find("kinds", name).object({})
    right, wrong = BODIES[name]
    import numpy as np

    def amiss(op: str, body: list[Any]) -> str | None:
        row = np.array([np.nan if each is None else each for each in body], np.float64)
        found: str | None = kind.amiss(kind.types[op], row)
        return found

    assert [amiss(*each) for each in right] == [None] * len(right)
    assert all(amiss(*each) for each in wrong)
