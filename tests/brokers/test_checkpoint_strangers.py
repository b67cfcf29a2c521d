"""A checkpoint may come from anybody: what it says is refused with a reason, or the run ends; nothing else happens."""

from __future__ import annotations

import copy
import os
import pickle
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from brokers.engine import checkpoint
from brokers.engine.model import protocol_class
from brokers.engine.runfolder import create_run
from brokers.engine.simulate import FileTraces, simulate, tables_of
from brokers.errors import InvalidInput, RunIncomplete
from brokers.wire import decode_frame, encode_frame
from protocols.conformance import REHEARSALS, rehearse

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
MS = 1_000_000


class Stopped(Exception):
    """Stands for whatever ends a process."""


class Interrupted:
    """A run that was stopped near its end, and what its newest checkpoint says."""

    def __init__(self, path: Path, protocol: str, level: str = "summary", share: float = 0.9, **said) -> None:
        self.path, self.level = path, level
        self.model = rehearse(TREE, protocol, **said)
        self.new = create_run(path, self.model.name, {}, scenario={}, seed=1, level=level)
        self.folder = self.new.path

        def stop(now_ns: int, events: int, under_way: int) -> None:
            if now_ns >= share * self.model.duration_ns:
                raise Stopped

        with pytest.raises(Stopped):
            simulate(self.model, actors=2, trace=self.traces(self.folder), progress=stop, checkpoint_every_s=0.0,
                    max_window_ns=20 * MS)  # fmt: skip
        self.number = checkpoint.numbers(self.folder)[-1]

    def traces(self, folder: Path) -> FileTraces:
        return FileTraces(str(folder), self.level, tables_of(self.model))

    def read(self, name: str) -> dict:
        return decode_frame((checkpoint.folder_of(self.folder, self.number) / name).read_bytes())[1]

    def copied(self, to: Path) -> Path:
        shutil.copytree(self.folder, to)
        return to

    def with_other(self, to: Path, name: str, said: dict) -> Path:
        """A copy of the folder in which both checkpoints say this."""
        kind = "checkpoint" if name.startswith("driver") else "shard-state"
        self.copied(to)
        (checkpoint.folder_of(to, self.number) / name).write_bytes(encode_frame(kind, said))
        return to

    def resume(self, folder: Path):
        return simulate(self.model, trace=self.traces(folder), resume=True)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# ---- nothing runs ------------------------------------------------------------------------------------


def test_a_pickle_where_a_broker_is_expected_is_refused_and_nothing_runs(tmp_path):
    run = Interrupted(tmp_path / "run", "topk-ingress", view="message")
    proof = tmp_path / "proof"

    class Trap:
        def __reduce__(self):
            return os.system, (f"touch {proof}",)

    said = run.read("shard-0000.blf")
    pickled = pickle.dumps((Trap(), []))
    brokers = said["protocols"][0]["brokers"]
    for place, forged in enumerate(([brokers[0][0], pickled], [brokers[0][0], pickled, brokers[0][2]], pickled)):
        said["protocols"][0]["brokers"] = [forged, *brokers[1:]]
        folder = run.with_other(tmp_path / f"forged-{place}", "shard-0000.blf", said)
        with pytest.raises(RunIncomplete, match=str(checkpoint.folder_of(folder, run.number))):
            run.resume(folder)
    assert not proof.exists()


def test_a_name_in_a_checkpoint_leads_to_nothing_that_the_protocol_did_not_declare(tmp_path):
    run = Interrupted(tmp_path / "run", "topk-ingress", view="message")
    said = run.read("shard-0000.blf")
    attributes = said["protocols"][0]["brokers"][0][1]
    for place, forged in enumerate(
        (["o", "os:system", ["a"], [1]], ["w", "system", ["touch proof"]], ["r", "Popen", ["true"]], ["shared", "os"])
    ):
        said["protocols"][0]["brokers"][0][1] = {**attributes, "held": forged}
        folder = run.with_other(tmp_path / f"forged-{place}", "shard-0000.blf", said)
        with pytest.raises(RunIncomplete, match=r"does not declare|do not share"):
            run.resume(folder)


UNPICKLING = re.compile(
    r"pickle\.loads?\(|Unpickler|allow_pickle\s*=\s*True|unsafe_load|yaml\.(full_)?load\(|yaml\.Loader|marshal"
    r"|shelve|(?<![\w.])eval\(|(?<![\w.])exec\("
)
# Between processes of one run: what came from a process that this one started, never from a file.
BETWEEN_PROCESSES = {"brokers/engine/ray.py": 1, "brokers/engine/tasks.py": 1}


def test_no_source_unpickles_or_runs_what_lies_in_a_file():
    root = Path(__file__).parents[2]
    found = {}
    for package in ("topology", "brokers", "protocols", "scenarios", "analysis"):
        for path in sorted((root / package).rglob("*.py")):
            count = len(UNPICKLING.findall(path.read_text()))
            if count:
                found[path.relative_to(root).as_posix()] = count
    assert found == BETWEEN_PROCESSES


# ---- versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["flooding", "topk-gather", "channels"])
def test_another_version_of_a_protocol_is_refused_by_name_and_both_versions(tmp_path, monkeypatch, protocol):
    run = Interrupted(tmp_path / "run", protocol)
    kind = protocol_class(run.model.services[0])
    kind = kind.server if protocol == "channels" else kind
    kept = kind.state_version
    monkeypatch.setattr(kind, "state_version", 7)
    before = files_of(run.folder)
    name = f"{kind.__module__}:{kind.__qualname__}"
    told = f"was kept by {name} in version {kept}, and here it is {name} in version 7"
    with pytest.raises(RunIncomplete, match=told):
        run.resume(run.folder)
    assert files_of(run.folder) == before


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    run = Interrupted(tmp_path / "run", "flooding")
    facts = run.read("driver.blf")
    del facts["format"]
    folder = run.with_other(tmp_path / "old", "driver.blf", facts)
    with pytest.raises(RunIncomplete, match="has format 1, and this program reads format 5"):
        run.resume(folder)


# ---- the parts of the trace --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    return Interrupted(tmp_path_factory.mktemp("traced"), "flooding", "full", share=0.6)


def committed(run: Interrupted, folder: Path) -> list[Path]:
    return [folder / path for path, _, _, _ in run.read("driver.blf")["parts"]]


def deleted(run, folder):
    committed(run, folder)[0].unlink()
    return [committed(run, folder)[0]], "is missing"


def truncated(run, folder):
    path = committed(run, folder)[1]
    path.write_bytes(path.read_bytes()[:-1])
    return [path], "bytes, not"


def flipped(run, folder):
    path = committed(run, folder)[2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return [path], "was changed"


def swapped(run, folder):
    hops = [p for p in committed(run, folder) if p.parent.name == "hops"]
    one, other = hops[0], next(p for p in hops if p.read_bytes() != hops[0].read_bytes())
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)
    return [one, other], "bytes, not|was changed"


def added(run, folder):
    strange = folder / "tables/hops/part-0000-0000.parquet"
    strange.write_bytes(committed(run, folder)[0].read_bytes())
    return [strange], "is not of this run"


@pytest.mark.parametrize("harm", [deleted, truncated, flipped, swapped, added])
def test_a_run_does_not_go_on_from_a_trace_that_was_changed_and_leaves_it_as_it_is(tmp_path, traced, harm):
    folder = traced.copied(tmp_path / "changed")
    paths, why = harm(traced, folder)
    before = files_of(folder)
    with pytest.raises(RunIncomplete, match=why) as refused:
        traced.resume(folder)
    assert all(str(path.relative_to(folder)) in str(refused.value) for path in paths)
    assert files_of(folder) == before


def test_a_run_goes_on_from_the_trace_it_left(tmp_path, traced):
    whole = simulate(traced.model)
    folder = traced.copied(tmp_path / "left")
    (folder / "tables/links").mkdir(exist_ok=True)
    (folder / "tables/links/part-driver.parquet").write_bytes(b"the driver was about to finish")
    assert traced.resume(folder).digest == whole.digest
    assert not list(folder.glob("tables/*/part-driver.parquet"))


def test_a_link_in_a_run_folder_leads_nowhere(tmp_path, traced):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "part-0000-9999.parquet").write_bytes(b"precious")
    folder = traced.copied(tmp_path / "linked")
    (folder / "tables/precious").symlink_to(elsewhere)
    with pytest.raises(RunIncomplete, match="is a link, which no run makes"):
        traced.resume(folder)
    assert (elsewhere / "part-0000-9999.parquet").exists()


# ---- any other content -------------------------------------------------------------------------------


def places(said, path=()):
    """Every place in plain data: the keys that lead there."""
    if path:
        yield path
    if isinstance(said, dict):
        for key, value in said.items():
            yield from places(value, (*path, key))
    elif isinstance(said, list):
        for key, value in enumerate(said):
            yield from places(value, (*path, key))


def deep(levels: int = 30):
    made: list = ["l", []]
    for _ in range(levels):
        made = ["l", [made]] if levels < 20 else [made]
    return made


def others(value, draw: random.Random):
    """Other things that may stand where this does."""
    yield from (None, -1, 1 << 62, -(1 << 63), "text", b"\x80\x05K\x01.", [], {}, deep(), deep(8), float("nan"))
    if isinstance(value, np.ndarray):
        yield np.zeros(value.shape, np.int32 if value.dtype == np.int64 else np.int64)
        yield np.concatenate([value, value])
        yield value[:-1]
        yield value.reshape(-1) if value.ndim == 2 else value[:, None]
        if value.size and value.dtype.kind in "iuf":
            for number in (np.iinfo(np.int32).max, -2, 1 << 40) if value.dtype.itemsize == 8 else (1 << 30, -2):
                wrong = value.copy()
                wrong.flat[draw.randrange(wrong.size)] = np.int64(number).astype(value.dtype)
                yield wrong
    elif isinstance(value, list):
        yield from (value[:-1], [*value, *value], value[::-1])
    elif isinstance(value, int):
        yield from (value + 1, value ^ 1, -value)


def changed(said: dict, draw: random.Random, under: tuple = ()) -> tuple[dict, str]:
    """The same with one thing in it otherwise, and what."""
    made = copy.deepcopy(said)
    holder = made
    for key in under:
        holder = holder[key]
    path = draw.choice(list(places(holder)))
    for key in path[:-1]:
        holder = holder[key]
    what = draw.choice(["other", "other", "other", "missing", "more"])
    if what == "missing":
        del holder[path[-1]]
    elif what == "more":
        if isinstance(holder, dict):
            holder["more"] = draw.choice([1, np.zeros(3), deep()])
        else:
            holder.insert(path[-1], holder[path[-1]])
    else:
        holder[path[-1]] = draw.choice(list(others(holder[path[-1]], draw)))
    return made, f"{'/'.join(map(str, (*under, *path)))}: {what}"


KINDS = ["flooding", "subscription", "covering", "topk-ingress", "topk-bounded", "context-escalated", "spatial",
         "channels"]  # fmt: skip
HOLDING = {"context-escalated": {"options": {"hold_back": 1_000_000}}, "channels": {"options": {"replan": "mended"}}}


def tried(run: Interrupted, tmp_path: Path, cases: int, seed: str) -> tuple[int, int]:
    """Have a run go on from so many checkpoints that somebody changed; how many were refused, and how many ended."""
    draw = random.Random(seed)
    driver, shards = run.read("driver.blf"), [run.read(f"shard-{n:04d}.blf") for n in range(2)]
    refused = ended = 0
    for case in range(cases):
        number = draw.randrange(2)
        if case % 8 == 0:
            name, (said, what) = "driver.blf", changed(driver, draw)
        else:
            name = f"shard-{number:04d}.blf"
            # Half of them below what the protocol keeps, of which there is most.
            said, what = changed(shards[number], draw, (("protocols", 0) if case % 2 else ()))
        folder = run.with_other(tmp_path / "changed", name, said)
        try:
            run.resume(folder)
            ended += 1
        except (RunIncomplete, InvalidInput) as error:
            assert error.exit_code in (2, 3)  # never one that means a bug, or a fault of the protocol
            assert str(folder) in str(error), (what, error)
            refused += 1
        except BaseException as error:
            raise AssertionError(f"case {case} of {seed}, {name}: {what}") from error
        shutil.rmtree(folder)
    return refused, ended


@pytest.mark.parametrize("protocol", KINDS)
def test_whatever_a_checkpoint_says_the_run_is_refused_with_a_reason_or_ends(tmp_path, protocol):
    run = Interrupted(tmp_path / "run", protocol, "none", **HOLDING.get(protocol, {}))
    refused, ended = tried(run, tmp_path, 40, protocol)
    assert refused + ended == 40 and refused > 15


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "protocol", [*KINDS, "merging", "leases", "topk-gather", "context-edge", "context-replicated", "spatial-keyword"]
)
def test_whatever_checkpoints_say_runs_are_refused_or_end(tmp_path, protocol, seed):
    run = Interrupted(tmp_path / "run", protocol, "none", **HOLDING.get(protocol, {}))
    refused, ended = tried(run, tmp_path, 100, f"{protocol} {seed}")
    assert refused + ended == 100


def test_numbers_that_a_kernel_would_index_by_are_refused_one_by_one(tmp_path):
    run = Interrupted(tmp_path / "run", "flooding", "none")
    said = run.read("shard-0000.blf")
    columns = ("brokers", "links", "lane", "clients", "under_way_uid", "unfinished_broker")
    tested = 0
    for name in columns:
        for number in (-2, 1 << 30):
            if said[name].size:
                wrong = said[name].copy()
                wrong[0] = number
                folder = run.with_other(tmp_path / f"{name}{number}", "shard-0000.blf", {**said, name: wrong})
                with pytest.raises(RunIncomplete, match=f"{folder}.*{name}|together|which is none of its"):
                    run.resume(folder)
                tested += 1
    assert tested >= 8
