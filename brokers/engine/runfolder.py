"""The folder of a run: `runs/<name>-<id>/`.

    manifest.json        what ran, with what, how it ended, and every file with rows and sha256
    tables/<table>/      Parquet parts, one per shard; see docs/trace.md
    _SUCCESS             the sha256 of the manifest; written last, so a folder with it is complete
    _lock                held while a process writes here
    progress.json        what the run has come to, while it goes on

Rules:
- The id names what was simulated: a hash of the model parts of the scenario and the seed, not of engine,
  actors or host. The same model again gets a numbered suffix, or replaces the folder when told to.
- An unfinished folder is left alone: it may hold checkpoints. Only `overwrite` removes one.
- The lock is an flock, which the kernel drops with the process, however it dies.
- Paths in the manifest are relative, so the folder can be moved. `latest` points to the last finished run.
- Nothing in a folder is believed unchecked: the manifest has the form that `manifest.py` wants, a part the sha256
  that the manifest tells before the first byte of it is used (`parts.py`). What differs is `RunDamaged`.

Use:
    with create_run("runs", "quickstart", model_parts, scenario=..., seed=1) as run:
        ...                                   # TraceWriter(run.path, ...)
        finished = run.finish(digest=..., facts=...)
    open_run("runs/latest").read("deliveries")
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from brokers.engine.linkrows import LinkRows, link_rows
from brokers.engine.manifest import LOCK as _LOCK
from brokers.engine.manifest import MANIFEST as _MANIFEST
from brokers.engine.manifest import SUCCESS as _SUCCESS
from brokers.engine.manifest import read_bytes, read_manifest, refuse_links
from brokers.engine.parts import believe, listing, read_part, reading
from brokers.engine.trace import SCHEMA_VERSION, TABLES, Table, sync, tables_at
from brokers.engine.trace_compare import canonical, first_difference, same_rows
from brokers.errors import BrokerlabError, EnvironmentProblem, InvalidInput, RunDamaged, RunIncomplete

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NewRun",
    "RunFolder",
    "canonical",
    "create_run",
    "first_difference",
    "open_run",
    "reopen_run",
    "run_id",
    "same_rows",
]

_LATEST = "latest"
PROGRESS = "progress.json"
_PROGRESS_BYTES_MAX = 1 << 20
_SHOWN = 5  # runs in a message
_PACKAGES = ("brokerlab", "numpy", "numba", "networkx", "simpy", "msgpack", "pyarrow", "pydantic", "ray")
_NAME_CHARACTERS_MAX = 60


def run_id(model_parts: Mapping[str, Any]) -> str:
    """Ten hex digits that name what is simulated: equal for equal plain data, whatever its key order."""
    try:
        text = json.dumps(model_parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the model of a run must be plain data: {error}") from None
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def create_run(
    root: str | Path,
    name: str,
    model_parts: Mapping[str, Any],
    *,
    scenario: Mapping[str, Any],
    seed: int,
    level: str,
    extra_tables: Mapping[str, Table] | None = None,
    command: Sequence[str] | None = None,
    overwrite: bool = False,
) -> NewRun:
    """A fresh, locked folder under `root` for a run of this model."""
    wanted = tables_at(level, extra_tables)
    identity = run_id({"model": model_parts, "seed": seed})
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")[:_NAME_CHARACTERS_MAX] or "run"
    facts = {
        "schema_version": SCHEMA_VERSION,
        "name": name,
        "id": identity,
        "seed": seed,
        "scenario": dict(scenario),
        "trace_level": level,
        "versions": _versions(),
        "git": _git_state(),
        "command": list(sys.argv if command is None else command),
        "started": _now(),
        "status": "running",
    }
    folder = Path(root)
    with _explained(f"cannot make a run folder in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        # Without this, a second process could overwrite a folder between its making and its locking.
        with _locked(folder / ".lock"):
            path = _choose(folder, f"{slug}-{identity}", overwrite)
            path.mkdir()
            lock = _take_lock(path / _LOCK)
    assert lock is not None
    run = NewRun(path, lock, facts, wanted)
    run.note("running")
    return run


def reopen_run(path: str | Path) -> NewRun:
    """The folder of a run that did not finish, locked, to go on with it. Nothing in it has changed yet."""
    folder = Path(path)
    if not folder.is_dir():
        told = f"{folder}: no such run folder"
        raise InvalidInput(told + (_unfinished_in(folder.parent) or f"; list them with: ls {folder.parent}"))
    folder = folder.resolve()
    if (folder / _SUCCESS).exists():
        raise InvalidInput(f"{folder} is a finished run; there is nothing to resume{_unfinished_in(Path(path).parent)}")
    if not (folder / _MANIFEST).is_file():
        if (folder / "tables").is_dir() or (folder / "checkpoints").is_dir():
            raise RunDamaged.at(folder, f"{_MANIFEST} is missing")
        raise InvalidInput(f"{folder} is no run folder: it has no {_MANIFEST}")
    refuse_links(folder)
    with _explained(f"cannot open {folder}"):
        lock = _take_lock(folder / _LOCK)
    if lock is None:
        raise RunIncomplete(f"{folder} is being written by {_writer_of(folder)}: wait for it, or stop it")
    try:
        facts = read_manifest(folder, _bytes_of(folder, _MANIFEST), finished=False)
        wanted = tables_at(facts["trace_level"])
        if facts["schema_version"] != SCHEMA_VERSION:
            raise InvalidInput(
                f"{folder} has trace schema {facts['schema_version']}; this brokerlab writes {SCHEMA_VERSION}"
            )
    except BrokerlabError:
        os.close(lock)
        raise
    return NewRun(folder, lock, facts, wanted)


def _unfinished_in(folder: Path) -> str:
    """The runs that can be resumed there, as the end of a sentence: `latest` is one that has finished."""
    runs = [each.parent for each in folder.glob(f"*/{_MANIFEST}") if not (each.parent / _SUCCESS).exists()]
    shown = ", ".join(str(each) for each in sorted(runs)[:_SHOWN])
    return f"; not finished: {shown}{', ...' if len(runs) > _SHOWN else ''}" if runs else ""


def _choose(folder: Path, name: str, overwrite: bool) -> Path:
    path = folder / name
    if overwrite and os.path.lexists(path):
        writer = _writer_of(path)
        if writer is not None:
            raise RunIncomplete(f"{path} is being written by {writer}: wait for it, or stop it, to overwrite")
        if path.is_symlink() or not path.is_dir() or not _looks_like_a_run(path):
            raise InvalidInput(f"{path} is no run folder, so it is not overwritten: move it away")
        # The marker goes first, so that a half-removed folder never looks finished.
        (path / _SUCCESS).unlink(missing_ok=True)
        shutil.rmtree(path)
    number = 2
    while os.path.lexists(path):
        path = folder / f"{name}-{number}"
        number += 1
    return path


def _looks_like_a_run(path: Path) -> bool:
    names = {entry.name for entry in path.iterdir()}
    return not names or bool(names & {_MANIFEST, _LOCK})


class NewRun:
    """A run folder in the making, locked by this process."""

    def __init__(self, path: Path, lock: int, facts: dict[str, Any], tables: Mapping[str, Table]):
        self.path = path
        self.id: str = facts["id"]
        self.facts: Mapping[str, Any] = facts
        self._lock: int | None = lock
        self._facts = facts
        self._tables = tables

    def declare(self, extra_tables: Mapping[str, Table]) -> None:
        """Have the manifest list these tables too, once it is known which kinds the run has."""
        self._tables = tables_at(self._facts["trace_level"], extra_tables)

    def note(self, status: str, **facts: Any) -> None:
        """Keep how things stand in the manifest of an unfinished run."""
        self._facts.update(status=status, **facts)
        with _explained(f"cannot write to {self.path}"):
            _write_synced(self.path / _MANIFEST, _json(self._facts))

    def tell(self, text: str) -> None:
        """Keep what the run has come to, for whoever looks meanwhile. No run ends because that cannot be written."""
        unfinished = self.path / f"_tmp-{PROGRESS}"
        with contextlib.suppress(OSError):  # a full disk is told by what writes the trace
            unfinished.unlink(missing_ok=True)
            with open(unfinished, "x", encoding="utf-8") as file:
                file.write(text)
            os.replace(unfinished, self.path / PROGRESS)

    def resumed(self) -> None:
        """Note that the run goes on from here."""
        self.note("running", resumed=[*self._facts.get("resumed", []), _now()])

    def leave(self) -> None:
        """Let the lock go, and leave everything as it was."""
        self._check_open()
        self._release()

    def finish(
        self,
        digest: str,
        digest_per_second: Sequence[str] = (),
        facts: Mapping[str, Any] | None = None,
        status: str = "finished",
    ) -> RunFolder:
        """List every part, write the manifest, then `_SUCCESS`; update `latest`; let the lock go.

        `facts` is what the engine has to tell (engine, actors, lookahead, metrics …). Every trace writer of
        the run has been closed before.
        """
        self._check_open()
        with _explained(f"cannot finish {self.path}"):
            for leftover in self.path.glob("tables/*/_tmp*"):
                raise BrokerlabError(f"{leftover} was never closed: a writer of the trace is still open")
            files = [self._describe(path) for path in sorted(self.path.glob("tables/*/*.parquet"))]
            tables = {
                name: {
                    "model": table.model,
                    "rows": sum(file["rows"] for file in files if file["table"] == name),
                    "columns": [[column.name, column.type] for column in table.columns],
                }
                for name, table in self._tables.items()
            }
            self._facts.update(
                status=status,
                ended=_now(),
                digest=digest,
                digest_per_second=list(digest_per_second),
                engine=dict(facts or {}),
                tables=tables,
                files=files,
            )
            text = _json(self._facts)
            _write_synced(self.path / _MANIFEST, text)
            _write_synced(self.path / _SUCCESS, hashlib.sha256(text.encode()).hexdigest() + "\n")
            _point_latest(self.path)
            shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
        self._release()
        return open_run(self.path)

    def fail(self, status: str, **facts: Any) -> None:
        """Keep an unfinished run as it is: `status` says why (failed, interrupted). Lets the lock go."""
        self._check_open()
        if not (self.path / _SUCCESS).exists():
            # What stopped the run (a full disk, say) must reach the user, not what it did to this note.
            with contextlib.suppress(EnvironmentProblem):
                self.note(status, ended=_now(), **facts)
        self._release()

    def discard(self) -> bool:
        """Remove the folder if nothing but the manifest was written to it; whether it was removed."""
        self._check_open()
        if {entry.name for entry in self.path.iterdir()} - {_MANIFEST, _LOCK, PROGRESS}:
            return False
        shutil.rmtree(self.path, ignore_errors=True)
        self._release()
        return True

    def _describe(self, path: Path) -> dict[str, Any]:
        import pyarrow.parquet as pq

        with reading(self.path, path):  # what an interrupted run wrote may have been damaged since
            rows = pq.read_metadata(path).num_rows
        return {
            "path": path.relative_to(self.path).as_posix(),
            "table": path.parent.name,
            "rows": rows,
            "bytes": path.stat().st_size,
            "sha256": _sha256(path),
        }

    def _check_open(self) -> None:
        if self._lock is None:
            raise BrokerlabError(f"{self.path}: the run has ended already")

    def _release(self) -> None:
        assert self._lock is not None
        (self.path / PROGRESS).unlink(missing_ok=True)
        (self.path / _LOCK).unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> NewRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._lock is not None:
            interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
            self.fail("interrupted" if interrupted else "failed")


class RunFolder:
    """A finished run. Open one with `open_run`."""

    def __init__(self, path: Path, manifest: dict[str, Any]):
        self.path = path
        self.manifest = manifest

    @property
    def digest(self) -> str:
        """The fingerprint of the run."""
        return self.manifest["digest"]

    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(sorted(self.manifest["tables"]))

    def model_tables(self) -> tuple[str, ...]:
        """The names of the tables that count in comparisons."""
        return tuple(name for name in self.tables() if self.manifest["tables"][name]["model"])

    def rows(self, table: str) -> int:
        """The rows of a table, over all parts. Reads no part."""
        self._check(table)
        return self.manifest["tables"][table]["rows"]

    def parts(self, table: str) -> list[Path]:
        """The files of a table, in shard order, each compared with the manifest."""
        self.check([table])
        return [self.path / file["path"] for file in self._files(table)]

    def check(self, tables: Collection[str]) -> None:
        """Compare the parts of these tables with their sha256; a RunDamaged names those that differ.

        Once per process and part: what was found is remembered while the file stays as it is.
        """
        for table in tables:
            self._check(table)
        chosen = [file for table in tables for file in self._files(table)]
        believe(self.path, chosen, self.manifest["tables"])

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of a table, part after part; some of its columns, or all. Links are called by their rows."""
        import pyarrow as pa

        described = self.manifest["tables"]
        self._check(table)
        known = [name for name, _ in described[table]["columns"]]
        for name in columns or ():
            if name not in known:
                raise InvalidInput(f"{self.path}: table {table!r} has no column {name!r}; it has {known}")
        read = [read_part(self.path, path, list(columns) if columns else None) for path in self.parts(table)]
        if not read:
            raise RunDamaged.at(self.path, f"no part holds table {table!r}")
        # Parts may differ in whether a column could be without values; none is.
        found = pa.concat_tables(read, promote_options="default")
        return found if self.link_rows is None else self.link_rows.renamed(found)

    @cached_property
    def link_rows(self) -> LinkRows | None:
        """How links are called that are not called by their rows."""
        return link_rows(self.path) if "links" in self.manifest["tables"] else None

    def verify(self) -> None:
        """Read every file and compare it with its sha256; a RunDamaged names those that differ."""
        believe(self.path, self.manifest["files"], self.manifest["tables"], anew=True)

    def _files(self, table: str) -> list[dict[str, Any]]:
        return [file for file in self.manifest["files"] if file["table"] == table]

    def _check(self, table: str) -> None:
        if table in self.manifest["tables"]:
            return
        level = self.manifest["trace_level"]
        hint = f"its trace level is {level!r}"
        if table in TABLES and level not in TABLES[table].levels:
            hint += f", and {table!r} needs {TABLES[table].level!r}: run it again with that"
        there = ", ".join(self.tables()) or "no table at all"
        raise InvalidInput(f"{self.path} has no table {table!r}; {hint}; it has {there}")


def open_run(path: str | os.PathLike[str]) -> RunFolder:
    """A finished run, with every file there and of its size. What is not complete or damaged is refused and named."""
    folder = Path(path)
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: no such run folder; list them with: ls {folder.parent}")
    folder = folder.resolve()
    refuse_links(folder)
    if not (folder / _SUCCESS).is_file():
        raise RunIncomplete(_why_unfinished(folder))
    sealed, text = _bytes_of(folder, _SUCCESS), _bytes_of(folder, _MANIFEST)
    if sealed.strip() != hashlib.sha256(text).hexdigest().encode():
        raise RunDamaged.at(folder, f"{_MANIFEST} changed since the run: its sha256 is not the one in {_SUCCESS}")
    manifest = read_manifest(folder, text)
    if manifest["schema_version"] != SCHEMA_VERSION:
        raise InvalidInput(
            f"{folder} has trace schema {manifest['schema_version']}, this brokerlab reads {SCHEMA_VERSION}: "
            f"open it with brokerlab {manifest['versions'].get('brokerlab', 'of its time')}, or run it again"
        )
    problems = []
    for file in manifest["files"]:
        try:
            size = (folder / file["path"]).lstat().st_size
        except OSError:
            problems.append(f"{file['path']} is missing")
            continue
        if size != file["bytes"]:
            problems.append(f"{file['path']} has {size} bytes where the run wrote {file['bytes']}")
    if problems:
        raise RunDamaged.at(folder, listing(problems))
    return RunFolder(folder, manifest)


def _bytes_of(folder: Path, name: str) -> bytes:
    try:
        return read_bytes(folder / name)
    except OSError as error:
        raise RunDamaged.at(folder, f"{name} cannot be read: {error.strerror or error}") from None


def _why_unfinished(folder: Path) -> str:
    writer = _writer_of(folder)
    if writer is not None:
        return f"{folder} is being written by {writer}: wait for it to finish"
    try:
        status = read_manifest(folder, _bytes_of(folder, _MANIFEST), finished=False)["status"]
    except RunDamaged:
        return f"{folder} is no finished run: it has no {_SUCCESS}"
    ended = "died" if status == "running" else f"ended as {status!r}"
    return f"{folder} is no finished run: it {ended}; finish it with: brokerlab run --resume {folder}"


def is_written(folder: Path) -> bool:
    """Whether a process is at work on a run."""
    return _writer_of(folder) is not None and not (folder / _SUCCESS).exists()


def under_way(path: Path) -> Path:
    """The folder of a run that goes on: this one, or the one in it. What is no such folder is refused."""
    if (path / _MANIFEST).exists() or not path.is_dir():
        if path.is_dir() and is_written(path):
            return path.resolve()
        open_run(path)
        raise InvalidInput(f"{path} is a finished run; see it with: brokerlab report {path}")
    going = sorted({each.parent.resolve() for each in path.glob(f"*/{_MANIFEST}") if is_written(each.parent)})
    if len(going) != 1:
        shown = ", ".join(str(path / each.name) for each in going[:_SHOWN])
        told = f"{len(going)} runs are under way there, name one: {shown}" if going else "no run is under way there"
        raise InvalidInput(f"{path}: {told}")
    return going[0]


def progress_of(folder: Path) -> bytes | None:
    """What a run that goes on tells of itself, unchecked; nothing if it does not yet."""
    try:
        return read_bytes(folder / PROGRESS, _PROGRESS_BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDamaged.at(folder, f"{PROGRESS} cannot be read: {error.strerror or error}") from None


def _take_lock(path: Path) -> int | None:
    """The descriptor that holds the lock, or None when a living process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
    return descriptor


def _writer_of(folder: Path) -> str | None:
    """Who holds the lock of a run folder, or None."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.read(descriptor, 1000).decode(errors="replace") or "another process"
    finally:
        os.close(descriptor)
    return None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _point_latest(path: Path) -> None:
    """`latest` beside the folder becomes a relative link to it, at once."""
    fresh = path.parent / f".{_LATEST}-{os.getpid()}"
    # Some file systems have no links, and someone may have a folder of that name: the run is good anyway.
    with contextlib.suppress(OSError):
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(path.name, target_is_directory=True)
        os.replace(fresh, path.parent / _LATEST)
    with contextlib.suppress(OSError):
        fresh.unlink(missing_ok=True)


def _write_synced(path: Path, text: str) -> None:
    unfinished = path.with_name(f"_tmp-{path.name}")
    unfinished.unlink(missing_ok=True)  # in a stranger's folder it may be a link to anywhere
    with open(unfinished, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    sync(path.parent)


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps(_plain(facts), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """What JSON can hold: a NaN among the metrics must not cost a run that took an hour."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def _sha256(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RunIncomplete(f"{path} cannot be read: {error.strerror or error}") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _git_state() -> dict[str, Any] | None:
    """The commit this code was checked out at, and whether it was changed since; None outside a checkout."""
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # a copy may be installed inside another checkout
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(f"{what}: {error.strerror or error}") from error
