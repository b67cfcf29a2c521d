"""The engine on Ray gives the same digest as in one process. The Ray is a real one."""

from __future__ import annotations

import os
import secrets
import select
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.engine.ray_privacy import own_token
from brokers.engine.simulate import simulate
from brokers.errors import EnvironmentProblem, ProtocolFault
from protocols.conformance import REHEARSALS, Variant, check_digests, rehearse
from tests.brokers.program_cases import children_of, naughty, telling
from tests.brokers.test_outages import some_of_everything

pytestmark = pytest.mark.ray
TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS


@pytest.fixture(scope="module")
def session(shipped, outside):
    """One Ray for all tests here, as a user who started one has it: brokerlab comes to it as shipped code."""
    ray = pytest.importorskip("ray")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(shipped)
    folder = tempfile.mkdtemp(prefix="bl-")  # short: paths of sockets have a limit
    with own_token():
        ray.init(
            address="local",
            num_cpus=3,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=1 << 28,
            _temp_dir=folder,
        )
        yield ray
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


def on_ray(actors: int, **said) -> Variant:
    return Variant(f"{actors} actors on Ray", actors=actors, engine="ray", **said)


@pytest.mark.parametrize(
    ("protocol", "rehearsal"),
    [
        ("flooding", STRAINED),
        ("covering", CYCLES),
        ("pings:Pings", LOSSY),
        pytest.param("context-escalated", CYCLES, marks=pytest.mark.full),
        pytest.param("context-replicated", SETTLED, marks=pytest.mark.full),
        pytest.param("subscription", TIES, marks=pytest.mark.full),
        pytest.param("flooding", SETTLED, marks=pytest.mark.full),
        pytest.param("covering", RING, marks=pytest.mark.full),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_actors_give_the_digest_of_one_process(session, protocol, rehearsal):
    model = rehearse(rehearsal, protocol)
    model.services.append(replace(model.services[0], name="beside", cost={"base": 7_000.0}))
    ways = [Variant("one process"), on_ray(2, partition="round-robin"), on_ray(3)]
    assert check_digests(model, ways) == []


@pytest.mark.parametrize("protocol", ["gossipsub", "plumtree"])
def test_gossip_gives_one_digest_compiled_in_actors_in_one_process_and_in_the_authors_view(session, protocol):
    model = rehearse(CYCLES, protocol)
    author, here = Variant("author's view", view="message"), Variant("one process")
    assert check_digests(model, [author, here, on_ray(2, partition="round-robin")]) == []
    result = simulate(model, engine="ray", actors=3)
    assert result.digest == here.run(model).digest
    assert result.engine["forms"] == {"service": {"form": "compiled", "why": ""}}
    assert result.metrics["services"]["service"]["deliveries"] > 20


def test_programs_of_actors_give_the_digest_of_one_process_and_end_with_them(session):
    mark = f"mark-{secrets.token_hex(8)}"  # which tells these processes from those of other tests
    model = rehearse(TREE, f"{telling()} {mark}")
    assert check_digests(model, [Variant("one process"), on_ray(2, partition="round-robin")]) == []
    model = rehearse(TREE, f"{naughty('exit')} {mark}")
    with pytest.raises(ProtocolFault, match=r"naughty.py exit .*ended by itself, with exit code 7, when it was asked"):
        simulate(model, engine="ray", actors=2)
    assert [command for _, command in children_of(1) if mark in command] == []


@pytest.mark.parametrize("protocol", ["subscription", pytest.param("covering", marks=pytest.mark.full)])
def test_faults_give_the_digest_of_one_process_on_ray(session, protocol):
    model = rehearse(CYCLES, protocol)
    broken = replace(model, faults=some_of_everything(model, 7))
    here, there = simulate(broken), simulate(broken, engine="ray", actors=3)
    assert there.digest == here.digest != simulate(model).digest
    assert there.metrics["services"] == here.metrics["services"]
    assert check_digests(broken, [Variant("one process"), on_ray(2, partition="round-robin")]) == []


def test_own_tables_and_the_authors_view_give_the_digest_of_one_process_on_ray(session):
    model = rehearse(TREE, "flooding")
    ways = [
        Variant("one process"),
        on_ray(2, view="message", tables="own"),
        on_ray(2, view="run", run_from=1),
    ]
    assert check_digests(model, ways) == []


def test_another_seed_gives_another_digest_on_ray(session):
    digests = {simulate(rehearse(TREE, "flooding", seed), engine="ray", actors=2).digest for seed in (1, 2)}
    assert len(digests) == 2


def test_metrics_changes_and_digests_per_second_are_those_of_one_process(session):
    model = rehearse(STRAINED, "subscription")
    here, there = simulate(model), simulate(model, engine="ray", actors=3)
    assert here.digest_per_second == there.digest_per_second
    assert here.metrics["network"] == there.metrics["network"]
    assert here.metrics["services"] == there.metrics["services"]
    assert {name: column.tolist() for name, column in here.changes.items() if name != "values"} == {
        name: column.tolist() for name, column in there.changes.items() if name != "values"
    }
    assert there.engine["engine"] == "ray"
    assert there.engine["actors"] == 3


def test_a_protocols_fault_in_an_actor_reaches_the_caller_as_what_it_is_and_ray_stays_up(session):
    model = rehearse(TREE, "pings:Trespasser")
    with pytest.raises(ProtocolFault, match="which is not one of its own"):
        simulate(model, engine="ray", actors=2)
    assert session.is_initialized()
    fine = rehearse(TREE, "pings:Plain")
    assert simulate(fine, engine="ray", actors=2).digest == simulate(fine).digest


def test_code_is_not_run_from_where_somebody_else_may_have_put_it(session, tmp_path, monkeypatch):
    from brokers.engine import ray as engine_ray

    caches = tmp_path / "caches"
    name, data = engine_ray._code()
    unpack = engine_ray._host_class()._unpack
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    (caches / "brokerlab").mkdir(parents=True)
    (caches / "brokerlab").chmod(0o777)
    before = os.umask(0)
    try:
        target = Path(unpack(name, data))
    finally:
        os.umask(before)
    assert (target / "brokers" / "engine" / "ray.py").is_file()
    folders = [folder for folder in target.parents if folder.is_relative_to(caches / "brokerlab")]
    assert [folder.stat().st_mode & 0o777 for folder in (target, *folders)] == [0o700] * 3
    monkeypatch.setattr(os, "getuid", lambda: target.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        unpack(name, data)


def test_an_actor_that_is_refused_the_code_says_so_instead_of_being_lost(session, monkeypatch):
    from brokers.engine import ray as engine_ray

    def refused(name, data):
        raise PermissionError(f"{name} belongs to another user")

    made = engine_ray._host_class

    def host():
        kind = made()
        kind._unpack = staticmethod(refused)
        return kind

    monkeypatch.setattr(engine_ray, "_host_class", host)
    with pytest.raises(EnvironmentProblem, match=r"an actor could not start: \w+ belongs to another user$"):
        simulate(rehearse(TREE, "flooding"), engine="ray", actors=2)


def test_a_run_leaves_no_actor_in_a_ray_that_it_was_given(session):
    running: list[int] = []

    def look(shards) -> None:
        running.extend(os.pidfd_open(process) for process, _ in shards.where())

    simulate(rehearse(TREE, "flooding"), engine="ray", actors=2, observe=look)
    assert len(running) == 2
    for handle in running:
        assert select.select([handle], [], [], 20)[0]  # readable once the process has ended
        os.close(handle)
