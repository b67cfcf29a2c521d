"""Which engine a run takes where none is named, and what it says of that."""

import importlib.util

import pytest

from brokers.errors import InvalidInput
from scenarios import cli
from scenarios.choosing import AUTO, Choice, choose, where_ray_is
from scenarios.loader import load, loads
from scenarios.plan import resolve
from scenarios.running import run

STUDY = """
duration: 20 min
topology: {kind: line, nodes: 40}
links: {delay: 300 ms}
clients: {all: {count: 40, placement: even}}
services:
  - {name: a, kind: content, attributes: 1, protocol: flooding, workload: [{source: publish, rate: 40/s}]}
"""


@pytest.fixture
def two_cpus(monkeypatch):
    monkeypatch.setattr("scenarios.many.pool.cpus", lambda: 2)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "ray" else find(name))


def taken(*overrides, engine=None, actors=None, address=None):
    scenario = loads(STUDY, overrides)
    return choose(scenario, resolve(scenario), engine, actors, address)


PLAIN = "services.0.view=message"


def test_a_long_run_whose_actors_need_not_wait_goes_to_ray(two_cpus):
    assert taken(PLAIN) == taken(PLAIN, engine=AUTO) == Choice("ray", 2, "since λ is 12.8: actors pay")


def test_where_all_is_compiled_threads_do_it(two_cpus):
    assert taken() == Choice("threads", 2, "since λ is 96: threads pay")
    four = taken(f"engine.partition={[0, 1, 2, 3] * 10}", "links.delay=1 s")
    assert four == Choice("threads", 4, "since λ is 320: threads pay")


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ([PLAIN, "links.delay=1 ms"], "since λ is 0.043, below 10: actors would only wait"),
        (["links.delay=1 ms"], "since λ is 0.32, below 10: threads would only wait"),
        (["duration=10 s"], "since about 640,000 events are expected, too few to share out"),
        ([PLAIN, "duration=40 s"], "since about 2,600,000 events are expected, too few to share out"),
        (["topology.nodes=1"], "since there is one CPU or broker"),
        ([f"engine.partition={[0] * 40}"], "since there is one shard"),
        (["engine.actors=1"], "since one actor is asked for"),
    ],
)
def test_what_would_not_be_done_sooner_stays_on_one_core(two_cpus, overrides, why):
    assert taken(*overrides) == Choice("inline", 1, why)


def test_whoever_asks_for_a_cluster_or_several_actors_gets_ray(two_cpus):
    assert taken("duration=1 s", actors=3) == Choice("ray", 3, "since 3 actors are asked for")
    assert taken("duration=1 s", "engine.actors=2") == Choice("ray", 2, "since 2 actors are asked for")
    assert taken("duration=1 s", actors=2, address="10.0.0.1:6379") == Choice("ray", 2, "since an address is given")
    assert taken("duration=1 s", engine="ray") == Choice("ray", 2)
    assert taken(engine="inline", actors=2) == Choice("inline", 2)


def test_where_nobody_knows_what_clients_do_nothing_is_started(two_cpus, monkeypatch):
    from protocols.content.publish import Publish

    monkeypatch.setattr(Publish, "rates", classmethod(lambda cls, params, context: None))
    assert taken() == Choice("inline", 1, "since it is not known how much clients will do")


def test_an_engine_that_does_not_exist_or_fit_is_refused():
    with pytest.raises(InvalidInput, match="no engine 'warp'; known: auto, ray, threads, inline"):
        where_ray_is("warp", None)
    for engine in ("inline", "threads"):
        with pytest.raises(InvalidInput, match=f"the engine {engine} uses no cluster"):
            where_ray_is(engine, "10.0.0.1:6379")
    with pytest.raises(InvalidInput, match="at least one actor"):
        taken(engine="inline", actors=0)


def test_without_ray_the_engine_is_inline_and_asking_for_ray_is_exit_code_4(tree, tmp_path, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))
    scenario = tree(tmp_path)
    assert cli.main(["run", str(scenario), "--engine", "ray"]) == 4
    assert "pip install 'brokerlab[ray]'" in capsys.readouterr().err
    out = ["--out", str(tmp_path / "out"), "--quiet"]
    assert cli.main(["run", str(scenario), "--actors", "2", *out]) == 0
    assert "engine: inline, since 2 actors are asked for and Ray is not installed" in capsys.readouterr().err
    monkeypatch.setattr("scenarios.many.pool.cpus", lambda: 2)
    assert taken(PLAIN) == Choice("inline", 1, "since Ray is not installed")


def test_a_run_says_what_it_took_and_why_and_keeps_it(tree, tmp_path, two_cpus):
    said = []
    done = run(load(tree(tmp_path)), out=tmp_path / "runs", notice=said.append)
    assert said == [f"engine: inline, {done.engine['chosen']}"]
    assert "events are expected, too few to share out" in done.engine["chosen"]
    for engine in ("threads", "inline"):
        again = run(load(tree(tmp_path)), engine=engine, actors=2, out=tmp_path / "runs", notice=said.append)
        assert (again.engine["engine"], again.engine["chosen"], again.digest) == (engine, "", done.digest)
    named = run(load(tree(tmp_path)), engine="inline", out=tmp_path / "runs", notice=said.append)
    assert (named.engine["chosen"], named.digest, len(said)) == ("", done.digest, 1)
