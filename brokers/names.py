"""What a name stands for: one function for everything that has a name, in every command.

A name is built in, or an installed package registers it by an entry point of the group `brokerlab.<group>`, or it is
`package.module:Name`. Scenario files and run folders are data from strangers, and to import is to run code. So:

- `package.module:Name` is refused before anything is imported, unless a registered name stands for the same, or the
  caller says `trust`.
- Only with `trust` are modules found in the folder of a scenario, and after everything else: what lies there takes the
  place of nothing.
- What a name stands for has to be what its group's contract says before anything of it is called.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from brokers.errors import BrokerlabError, InvalidInput
from brokers.kinds import KindManifest
from brokers.metrics import Metric
from brokers.registry import Entry, did_you_mean, entries, installed, load


@dataclass(frozen=True)
class Group:
    """Names of one sort, and what may stand behind them."""

    one: str  # what one of them is called
    contract: str  # what it has to be, in words
    misfit: Callable[[Any], str | None]  # what keeps an object from being one
    built_in: Callable[[], dict[str, Entry]] | None = None  # None: only code names these


class Untrusted(InvalidInput):
    """A name of code from outside, where nobody said that it may run."""


class Found(NamedTuple):
    """What a name stands for."""

    target: str  # "module:attribute"
    object: Any


def table(group: str) -> dict[str, Entry]:
    """The registered names of a group, built in or of installed packages.

    Of installed packages it imports the manifests of their kinds, where the group is one that kinds bring names of, and
    nothing else; `unreadable` tells which of these manifests cannot be.
    """
    known = _direct(group)
    for name, entry in _of_installed_kinds(group).items():
        known.setdefault(name, entry)
    return known


def find(group: str, name: str, *, trust: bool = False, folder: str | Path | None = None) -> Found:
    """What a name stands for.

    Parameters
    ----------
    group : kinds, protocols, indexes, workloads, topologies or metrics
    trust : whether code from outside may be imported
    folder : where such code may lie too: beside the scenario

    Raises
    ------
    Untrusted
        If the name is of code from outside and `trust` was not said. Nothing has been imported then.
    InvalidInput
        If there is no such name, it cannot be imported, or it is not what the group's contract says.
    """
    if ":" not in name:
        known = _direct(group)
        if name not in known:
            known = table(group)
        if name not in known:
            told = "".join(f"; {each}" for each in unreadable())
            raise InvalidInput(f"no {GROUPS[group].one} named {name!r}; {did_you_mean(name, known)}{told}")
        return _found(group, known[name].target)
    if name not in _registered(group):
        if not trust:
            raise Untrusted(
                f"{name!r} is code from outside brokerlab, and was not looked at; if you trust whoever wrote it, "
                "say --trust (in Python: trust=True)"
            )
        if folder is not None:
            beside.look_in([str(folder)])
    return _found(group, name)


def _direct(group: str) -> dict[str, Entry]:
    """The names that are built in, and those that an entry point of the group itself gives."""
    found = GROUPS.get(group)
    if found is None or found.built_in is None:
        known = [name for name, each in GROUPS.items() if each.built_in is not None]
        raise InvalidInput(f"no registry {group!r}; {did_you_mean(group, known)}")
    return entries(found.built_in(), group)


def _registered(group: str) -> set[str]:
    """Every target that a registered name stands for."""
    targets = {entry.target for entry in table(group).values()}
    if group == "kinds":  # by their manifests, or by their classes
        targets.update(load(KINDS).values())
        targets.update(manifest.kind for manifest in installed_kinds())
    return targets


def _found(group: str, target: str) -> Found:
    if group != "kinds":
        return Found(target, load_as(group, target))
    loaded = _imported(target)
    if not isinstance(loaded, KindManifest):
        return Found(target, load_as(group, target))
    kind = load_as(group, loaded.kind)
    if kind.manifest is not loaded:
        raise InvalidInput(f"{target!r} names the class {loaded.kind!r}, whose attribute `manifest` is another one")
    return Found(loaded.kind, kind)


# ---- what kinds bring --------------------------------------------------------------------------------

KINDS = "protocols.registry:KINDS"


def manifests() -> list[KindManifest]:
    """Of the kinds that come with brokerlab."""
    return [load(target) for target in load(KINDS).values()]


def unreadable() -> list[str]:
    """Which kinds of installed packages cannot be read, and why; a sentence for each."""
    return [told for _, told in _read_kinds() if told]


def _kinds() -> dict[str, Entry]:
    return {
        each.name: Entry(each.kind, each.prose, {"question": each.question, "default_index": each.default_index})
        for each in manifests()
    }


def _protocols() -> dict[str, Entry]:
    return _brought("protocols", manifests())


def _workloads() -> dict[str, Entry]:
    return {**_brought("workloads", manifests()), **load("scenarios.workloads.registry:WORKLOADS")}


def _brought(group: str, kinds: Iterable[KindManifest]) -> dict[str, Entry]:
    """The protocols or workloads of kinds, with the fact for which kinds they are."""
    found: dict[str, Entry] = {}
    for kind in kinds:
        for name, entry in getattr(kind, group).items():
            if group == "protocols":
                facts: dict[str, Any] = {"kind": kind.name}
            else:
                before = found[name].facts["kinds"] if name in found else []
                facts = {"kinds": [*before, kind.name]}
            found[name] = Entry(entry.target, entry.prose, facts)
    return found


def _of_installed_kinds(group: str) -> dict[str, Entry]:
    if group not in ("protocols", "workloads"):
        return {}
    return _brought(group, installed_kinds())


def installed_kinds() -> list[KindManifest]:
    """Of the kinds of installed packages, as far as they can be read."""
    return [manifest for manifest, _ in _read_kinds() if manifest is not None]


def _read_kinds() -> Iterator[tuple[KindManifest | None, str]]:
    """The manifest of each kind that an entry point gives, or why it cannot be read."""
    for name, entry in installed("kinds"):
        try:
            loaded = _imported(entry.target)
            manifest = loaded if isinstance(loaded, KindManifest) else load_as("kinds", entry.target).manifest
        except BrokerlabError as error:
            yield None, f"the kind {name!r} {entry.prose} cannot be read: {error}"
        else:
            yield manifest, ""


class Beside:
    """Finds modules beside trusted scenarios, where nothing else has them.

    At the end of `sys.path` such folders would still come before what is installed to be edited, as this program often
    is: a finder behind the path has that.
    """

    def __init__(self) -> None:
        self.folders: list[str] = []

    def look_in(self, folders: Iterable[str]) -> None:
        """From now on in these too."""
        self.folders += [folder for folder in folders if folder not in self.folders]
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """As the import system asks; `path` is that of a package, None for what is in none."""
        return PathFinder.find_spec(name, self.folders) if path is None else None


beside = Beside()


def load_as(group: str, target: str) -> Any:
    """The object behind a target, checked against its group's contract.

    For targets that `find` gave, and for those that code names: the judge of a kind, for one. Never for a name that
    comes out of a file.
    """
    loaded = _imported(target)
    misfit = GROUPS[group].misfit(loaded)
    if misfit is not None:
        raise InvalidInput(f"{target!r} is no {GROUPS[group].one}: it {misfit}; expected {GROUPS[group].contract}")
    return loaded


def _imported(target: str) -> Any:
    try:
        return load(target)
    except BrokerlabError:
        raise
    except (Exception, SystemExit) as error:  # whatever a third party's module does while it is imported
        raise InvalidInput(f"{target!r} cannot be imported: {type(error).__name__}: {error}") from error


# ---- contracts ---------------------------------------------------------------------------------------


def _kind(loaded: Any) -> str | None:
    from brokers.contract import Kind

    misfit = _derives(loaded, Kind)
    if misfit is None and not isinstance(getattr(loaded, "manifest", None), KindManifest):
        return "has no manifest, a brokers.kinds.KindManifest"
    if misfit is None and loaded.name != loaded.manifest.name:
        return f"has the name {loaded.name!r}, and its manifest {loaded.manifest.name!r}"
    return misfit


def _protocol(loaded: Any) -> str | None:
    from brokers.contract import BrokerProtocol, ShardProtocol

    return _derives(loaded, BrokerProtocol, ShardProtocol)


def _index(loaded: Any) -> str | None:
    question = str(getattr(loaded, "question", None))
    return _derives(loaded, load(_QUESTIONS.get(question, "brokers.indexes.contract:Index")))


_QUESTIONS = {  # each with its contract
    "content-match": "brokers.indexes.content.contract:ContentIndex",
    "ranked-match": "brokers.indexes.topk.contract:RankedIndex",
    "context-filter": "brokers.indexes.context.contract:ContextFilter",
    "reverse-topk": "brokers.indexes.spatial.contract:ReverseTopK",
}


def _workload(loaded: Any) -> str | None:
    from pydantic import BaseModel

    params = getattr(loaded, "Params", None)
    if params is not None and not (isinstance(params, type) and issubclass(params, BaseModel)):
        return "has Params that are no pydantic model"
    return _has(loaded, "next_wake", "take")


def _topology(loaded: Any) -> str | None:
    import networkx as nx

    if not inspect.isfunction(loaded):
        return f"is {_called(loaded)}, not a function written in Python"
    for parameter in inspect.signature(loaded).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            return f"takes {parameter.name!r} by position"
        supplied = parameter.kind is parameter.VAR_KEYWORD or parameter.name in ("seed", "base")
        if parameter.annotation is parameter.empty and not supplied:
            return f"has a parameter {parameter.name!r} without a type"
    returned = loaded.__annotations__.get("return")
    try:
        returned = typing.get_type_hints(loaded).get("return")
    except Exception:  # annotations of third parties may name what is not there at run time
        if isinstance(returned, str) and returned.endswith("Graph"):
            return None
    graph = isinstance(returned, type) and issubclass(returned, nx.Graph)
    return None if graph else "does not say that it returns a graph"


def _rule(loaded: Any) -> str | None:
    if _has(loaded, "decisions") is None or _has(loaded, "judge") is None:
        return None
    return "has neither decisions() nor judge()" if isinstance(loaded, type) else _has(loaded)


def _metric(loaded: Any) -> str | None:
    if not isinstance(loaded, Metric):
        return f"is {_called(loaded)}, not one"
    return None if loaded.measure else "names nothing that measures it"


def _form(loaded: Any) -> str | None:
    from brokers.replaying import Form

    return _derives(loaded, Form)


def _takes(count: int) -> Callable[[Any], str | None]:
    """What keeps an object from being a function of so many arguments."""

    def misfit(loaded: Any) -> str | None:
        if not inspect.isfunction(loaded):
            return f"is {_called(loaded)}, not a function written in Python"
        signature = inspect.signature(loaded)
        try:
            signature.bind(*range(count))
        except TypeError:
            return f"does not take {count} arguments"
        any_number = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
        return "takes any number of arguments" if any_number else None

    return misfit


def _measure(loaded: Any) -> str | None:
    misfit = _takes(2)(loaded)
    if misfit is None and len(inspect.signature(loaded).parameters) != 2:
        return "takes more than tables and kind"
    return misfit


def _derives(loaded: Any, *bases: type) -> str | None:
    if not isinstance(loaded, type):
        return f"is {_called(loaded)}, not a class"
    if not issubclass(loaded, bases):
        return f"does not derive from {' or '.join(base.__name__ for base in bases)}"
    missing = sorted(getattr(loaded, "__abstractmethods__", ()))
    return f"does not define {', '.join(missing)}" if missing else None


def _has(loaded: Any, *methods: str) -> str | None:
    if not isinstance(loaded, type):
        return f"is {_called(loaded)}, not a class"
    missing = [name for name in methods if not callable(getattr(loaded, name, None))]
    return f"has no method {missing[0]}" if missing else None


def _called(loaded: Any) -> str:
    return f"the class {loaded.__name__}" if isinstance(loaded, type) else f"a {type(loaded).__name__}"


GROUPS: dict[str, Group] = {
    "kinds": Group("kind", "a class derived from brokers.contract.Kind, or its manifest", _kind, _kinds),
    "protocols": Group(
        "protocol",
        "a class derived from BrokerProtocol or ShardProtocol of brokers.contract",
        _protocol,
        _protocols,
    ),
    "indexes": Group(
        "index",
        "a class derived from the contract of its question, as brokers.indexes.content.contract.ContentIndex",
        _index,
        lambda: load("brokers.indexes.registry:INDEXES"),
    ),
    "topologies": Group(
        "topology",
        "a function with typed keywords that says it returns a networkx.Graph",
        _topology,
        lambda: load("topology.registry:TOPOLOGIES"),
    ),
    "workloads": Group(
        "workload",
        "a class with next_wake() and take(), and a pydantic model Params if it has parameters",
        _workload,
        _workloads,
    ),
    "metrics": Group("metric", "a brokers.metrics.Metric with a `measure`", _metric, dict),
    "measures": Group("measure", "a function of (tables, kind)", _measure),
    "audit rules": Group("audit rule", "a class with decisions() or judge()", _rule),
    "judges": Group("judge", "a function of (tables, kind, guarantees, service)", _takes(4)),
    "replay forms": Group("replay form", "a class derived from brokers.replaying.Form", _form),
    "rehearsals": Group("rehearsal", "a function of (rehearsal, brokers, clients, params, seed)", _takes(5)),
}
