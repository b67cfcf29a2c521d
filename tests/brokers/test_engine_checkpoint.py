"""A run that is stopped anywhere and goes on, under any partition, leaves the trace of the undisturbed run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brokers.engine import checkpoint
from brokers.engine.runfolder import create_run, same_rows
from brokers.engine.simulate import FileTraces, simulate, tables_of
from brokers.errors import ActorsLost, EnvironmentProblem
from brokers.faults import NEVER, Schedule, Worn
from brokers.kinds import manifests
from brokers.limits import NEWEST, OLDEST, REFUSE, WAYS, Limits
from protocols.conformance import REHEARSALS, rehearse
from protocols.spatial.summarised import SUMMARY, WIDER
from tests.brokers.test_forgetting import forgetting
from tests.brokers.test_outages import some_of_everything
from tests.brokers.test_stays import wandering

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
WINDOW_NS = 3_000_000


class Stopped(Exception):
    """Stands for whatever ends a process."""


def folder_for(root: Path, model):
    return create_run(root, model.name, {}, scenario={}, seed=model.seed, level="full")


def undisturbed(root: Path, model):
    new = folder_for(root, model)
    result = simulate(model, trace=FileTraces(str(new.path), "full", tables_of(model)))
    return new.finish(result.digest), result


def stopped_at(share: float, model, path: Path, actors: int) -> None:
    """Run with a checkpoint after every window, up to a share of the duration."""

    def stop(now_ns: int, events: int, under_way: int) -> None:
        if now_ns >= share * model.duration_ns:
            raise Stopped

    with pytest.raises(Stopped):
        simulate(
            model,
            actors=actors,
            trace=FileTraces(str(path), "full", tables_of(model)),
            progress=stop,
            checkpoint_every_s=0.0,
            max_window_ns=WINDOW_NS,
        )


def continued(model, path: Path, actors: int):
    return simulate(model, actors=actors, trace=FileTraces(str(path), "full", tables_of(model)), resume=True)


def differing_tables(one, other) -> list[str]:
    return [table for table in one.model_tables() if not same_rows(one.read(table), other.read(table))]


CASES = [
    ("flooding", STRAINED, 1, 1, 0.3),
    ("flooding", CYCLES, 3, 2, 0.6),
    ("subscription", LOSSY, 2, 4, 0.5),
    ("subscription", CYCLES, 4, 1, 0.25),
    ("covering", TREE, 3, 2, 0.5),
    ("covering", CYCLES, 2, 3, 0.75),
    ("flooding", SETTLED, 2, 1, 0.5),
    ("subscription", SETTLED, 1, 3, 0.5),
    ("covering", SETTLED, 3, 2, 0.4),
    ("merging", CYCLES, 3, 2, 0.5),
    ("merging", SETTLED, 1, 3, 0.4),
    ("leases", SETTLED, 3, 1, 0.5),
    ("pings:Pings", LOSSY, 2, 3, 0.4),
    ("topk-bounded", CYCLES, 2, 3, 0.5),
    ("context-replicated", SETTLED, 1, 3, 0.4),
    ("context-edge", CYCLES, 3, 2, 0.5),
    ("context-escalated", CYCLES, 3, 2, 0.5),
    ("topics", CYCLES, 3, 2, 0.5),
    ("plumtree", CYCLES, 3, 2, 0.5),
    ("plumtree", LOSSY, 1, 3, 0.4),
    ("gossipsub", CYCLES, 2, 3, 0.5),
    pytest.param("context-edge", SETTLED, 2, 3, 0.4, marks=pytest.mark.full),
    pytest.param("spatial", CYCLES, 3, 2, 0.5, marks=pytest.mark.full),
    pytest.param("spatial-keyword", LOSSY, 1, 4, 0.4, marks=pytest.mark.full),
    pytest.param("spatial-flooding", STRAINED, 2, 1, 0.6, marks=pytest.mark.full),
    pytest.param("context-edge", LOSSY, 2, 1, 0.6, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("protocol", "rehearsal", "before", "after", "share"), CASES)
@pytest.mark.parametrize("view", ["auto", pytest.param("message", marks=pytest.mark.full)])
def test_a_resumed_run_equals_the_whole_run(
    tmp_path, outside, protocol, rehearsal, before, after, share, view
):
    model = rehearse(rehearsal, protocol)
    for service in model.services:
        service.view = view
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(share, model, halves.path, before)
    assert len(checkpoint.numbers(halves.path)) == checkpoint.KEPT
    resumed = continued(model, halves.path, after)
    assert resumed.digest == result.digest
    assert resumed.digest_per_second == result.digest_per_second
    assert resumed.metrics["services"] == result.metrics["services"]
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


@pytest.mark.parametrize(
    ("protocol", "rehearsal"),
    [("covering", SETTLED), ("context-escalated", SETTLED), ("spatial", STRAINED), ("topk-gather", CYCLES)],
)
def test_clients_that_come_and_go_are_where_they_were(tmp_path, protocol, rehearsal):
    model = wandering(rehearse(rehearsal, protocol))
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.5, model, halves.path, 2)
    resumed = continued(model, halves.path, 3)
    assert resumed.digest == result.digest
    assert resumed.metrics["services"] == result.metrics["services"]
    assert result.metrics["services"]["service"]["absent"] > 0
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


@pytest.mark.parametrize(
    ("protocol", "rehearsal"), [("subscription", STRAINED), ("covering", CYCLES), ("topk-bounded", CYCLES)]
)
def test_faults_go_on_where_they_were(tmp_path, protocol, rehearsal):
    model = rehearse(rehearsal, protocol)
    goes_on(tmp_path, model, replace(model, faults=some_of_everything(model, 7)))


@pytest.mark.parametrize("protocol", ["subscription", "context-edge"])
def test_brokers_that_forget_go_on_where_they_were(tmp_path, protocol):
    model = rehearse(TREE, protocol)
    goes_on(tmp_path, model, replace(model, faults=forgetting(model, 3)))


@pytest.mark.parametrize("full", [NEWEST, OLDEST, REFUSE], ids=WAYS)
def test_full_queues_go_on_where_they_were(tmp_path, full):
    model = rehearse(STRAINED, "subscription")
    limits = Limits((3,) * model.overlay.brokers, full, messages=2)
    goes_on(tmp_path, model, replace(model, limits=limits, faults=some_of_everything(model, 7)))


def goes_on(tmp_path, model, broken):
    """A model with faults stops half way, and goes on over other shards."""
    whole, result = undisturbed(tmp_path / "whole", broken)
    halves = folder_for(tmp_path / "halves", broken)
    stopped_at(0.5, broken, halves.path, 2)
    resumed = continued(broken, halves.path, 3)
    assert resumed.digest == result.digest != simulate(model).digest
    assert resumed.metrics["services"] == result.metrics["services"]
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


@pytest.mark.parametrize(
    "protocol", ["context-escalated", pytest.param("context-edge", marks=pytest.mark.full)]
)
def test_what_is_held_back_survives_a_stop(tmp_path, protocol):
    model = rehearse(TREE, protocol, options={"hold_back": 1_000_000})
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.5, model, halves.path, 3)
    resumed = continued(model, halves.path, 2)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


@pytest.mark.parametrize(("before", "after"), [(3, 2), pytest.param(1, 7, marks=pytest.mark.full)])
def test_summaries_and_windows_over_objects_survive_a_stop(tmp_path, before, after):
    said = {"keywords": 4, "k_max": 3, "delta": 1.0, "geometry": "plane", "last": 9, "lifetime_ms": 20}
    options = {"shrink_every": 2_000_000, "boxes": 2}
    model = rehearse(SETTLED, "spatial", params=said, options=options, clients=20)
    whole, result = undisturbed(tmp_path / "whole", model)
    told = [int((whole.read("hops")["type"].to_numpy() == type_).sum()) for type_ in (SUMMARY, WIDER)]
    assert min(told) > 5
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.5, model, halves.path, before)
    resumed = continued(model, halves.path, after)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


def test_a_run_may_be_stopped_again_and_again(tmp_path):
    model = rehearse(TREE, "covering")
    whole, result = undisturbed(tmp_path / "whole", model)
    pieces = folder_for(tmp_path / "pieces", model)
    stopped_at(0.2, model, pieces.path, 2)
    for share, actors in ((0.4, 1), (0.6, 3)):

        def stop(now_ns: int, events: int, under_way: int, share: float = share) -> None:
            if now_ns >= share * model.duration_ns:
                raise Stopped

        with pytest.raises(Stopped):
            simulate(
                model,
                actors=actors,
                trace=FileTraces(str(pieces.path), "full"),
                progress=stop,
                checkpoint_every_s=0.0,
                max_window_ns=WINDOW_NS,
                resume=True,
            )
    resumed = continued(model, pieces.path, 2)
    assert resumed.digest == result.digest
    assert differing_tables(whole, pieces.finish(resumed.digest)) == []


@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing", "unsealed"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, harm):
    model = rehearse(TREE, "subscription")
    _, result = undisturbed(tmp_path / "whole", model)
    new = folder_for(tmp_path / "halves", model)
    stopped_at(0.5, model, new.path, 2)
    number = checkpoint.numbers(new.path)[-1]
    state = checkpoint.folder_of(new.path, number) / "shard-0001.blf"
    data = state.read_bytes()
    if harm == "truncated":
        state.write_bytes(data[: len(data) // 2])
    elif harm == "flipped":
        middle = len(data) // 2
        state.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    elif harm == "missing":
        state.unlink()
    else:
        (state.parent / "driver.blf").unlink()
    told: list[str] = []
    resumed = simulate(model, trace=FileTraces(str(new.path), "full"), resume=True, notice=told.append)
    assert resumed.digest == result.digest
    assert len(told) == 1 and f"checkpoint {number} cannot be used" in told[0]
    new.fail("tested")


def test_without_any_usable_checkpoint_the_run_starts_again(tmp_path):
    model = rehearse(TREE, "flooding")
    whole, result = undisturbed(tmp_path / "whole", model)
    new = folder_for(tmp_path / "again", model)
    stopped_at(0.5, model, new.path, 1)
    for number in checkpoint.numbers(new.path):
        (checkpoint.folder_of(new.path, number) / "driver.blf").write_bytes(b"nothing")
    resumed = continued(model, new.path, 1)
    assert resumed.digest == result.digest
    assert differing_tables(whole, new.finish(resumed.digest)) == []


def test_actors_that_are_lost_again_and_again_without_progress_end_the_run(tmp_path, monkeypatch):
    from brokers.engine.inline import InlineShards

    def lost(self, end, sample):
        raise ActorsLost("lost the actor of shard 0")

    monkeypatch.setattr(InlineShards, "step", lost)
    model = rehearse(TREE, "flooding")
    new = folder_for(tmp_path, model)
    with pytest.raises(EnvironmentProblem, match="3 attempts from the same point failed"):
        simulate(model, trace=FileTraces(str(new.path), "full", tables_of(model)))
    new.fail("tested")


def test_a_protocol_without_state_runs_without_checkpoints_and_says_so(tmp_path, monkeypatch):
    from brokers.contract import ShardProtocol
    from protocols.content.flooding import Flooding

    monkeypatch.setattr(Flooding, "state", ShardProtocol.state)
    model = rehearse(TREE, "flooding")
    new = folder_for(tmp_path, model)
    told: list[str] = []
    simulate(model, trace=FileTraces(str(new.path), "full"), checkpoint_every_s=0.0, notice=told.append)
    assert checkpoint.numbers(new.path) == []
    assert told == ["the protocol protocols.content.flooding:Flooding has no state(), so no checkpoints are taken"]
    new.fail("tested")


@pytest.mark.parametrize("protocol", [name for kind in manifests() for name in kind.protocols])
def test_what_links_doubled_is_no_obstacle_to_going_on_after_a_stop(protocol, tmp_path):
    model = rehearse(replace(TREE, publications=40), protocol, clients=8)
    every = tuple(Worn(link, 0, NEVER, twice=0.3) for link in range(2 * model.overlay.links))
    model = replace(model, faults=Schedule(every))
    _, whole = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.4, model, halves.path, 2)
    assert continued(model, halves.path, 1).digest == whole.digest
