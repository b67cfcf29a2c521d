"""What a name stands for: one function for everything that has a name, in every command.

A name is built in, or an installed package registers it by an entry point of the group `brokerlab.<group>`, or it is
`package.module:Name`. Scenario files and run folders are data from strangers, and to import is to run code. So:

- `package.module:Name` is refused before anything is imported, unless a registered name stands for the same, or the
  caller says `trust`.
- Only with `trust` are modules found in the folder of a scenario, and after everything else: what lies there takes the
  place of nothing.
- What a name stands for has to be what its group's contract says before anything of it is called.
- `exec:` and a command names a program that is a protocol. It is started, and asked what it is, only with `trust`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from brokers import fitting, kinds
from brokers.errors import InvalidInput
from brokers.kinds import KindManifest
from brokers.programs import spelling
from brokers.registry import Entry, did_you_mean, entries, imported, load


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
    nothing else; `brokers.kinds.unreadable` tells which of these cannot be read.
    """
    known = _direct(group)
    if group in kinds.BROUGHT:
        for name, entry in kinds.brought_by_installed(group).items():
            known.setdefault(name, entry)
    return known


def find(group: str, name: str, *, trust: bool = False, folder: str | Path | None = None) -> Found:
    """What a name stands for.

    Parameters
    ----------
    group : kinds, protocols, behaviours, indexes, workloads, topologies, faults, connections, mobility or metrics
    trust : whether code from outside may be imported
    folder : where such code may lie too: beside the scenario

    Raises
    ------
    Untrusted
        If the name is of code from outside and `trust` was not said. Nothing has been imported then.
    InvalidInput
        If there is no such name, it cannot be imported, or it is not what the group's contract says.
    """
    if spelling.is_program(name):
        return _program(group, name, trust, folder)
    if ":" not in name:
        known = _direct(group)
        if name not in known:
            known = table(group)
        if name not in known:
            told = "".join(f"; {each}" for each in kinds.unreadable())
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


def found_again(group: str, name: str, was: str | None, *, trust: bool = False, folder: Path | None = None) -> Found:
    """What a name in a run's manifest stands for, if it still stands for what it `was`.

    A program is not asked again, as long as nobody is to run it: what it said of itself is in what it `was`.
    What is built in may move from module to module. A name of an installed package is refused once another package
    has taken it: it would be another thing that answers for the run.
    """
    if was is not None and group == "protocols" and spelling.is_program(name):
        return Found(was, _class_of(was))
    found = find(group, name, trust=trust, folder=folder)
    built_in = GROUPS[group].built_in
    if was is not None and was != found.target and ":" not in name and built_in and name not in built_in():
        raise InvalidInput(
            f"the {GROUPS[group].one} {name!r} was {was} when the run was made, and now is {found.target}; install the "
            "package that it was from"
        )
    return found


def _program(group: str, name: str, trust: bool, folder: str | Path | None) -> Found:
    """What a command stands for: what its program says of itself."""
    if group != "protocols":
        raise InvalidInput(f"{name!r} is a program, and programs are protocols; here a {GROUPS[group].one} is named")
    if not trust:
        raise Untrusted(
            f"{name!r} is a program from outside brokerlab, and was not started; if you trust whoever wrote it, "
            "say --trust (in Python: trust=True)"
        )
    from brokers.programs.protocol import find as greeted

    return Found(*greeted(name, folder))


def _class_of(target: str) -> Any:
    """The class of a program. Starts and imports nothing, whoever wrote the target."""
    from brokers.programs.protocol import class_of

    return class_of(target)


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
        targets.update(kinds.manifest_targets())
        targets.update(manifest.kind for manifest in kinds.installed_manifests())
    return targets


def _found(group: str, target: str) -> Found:
    if group != "kinds":
        return Found(target, load_as(group, target))
    loaded = imported(target)
    if not isinstance(loaded, KindManifest):
        return Found(target, load_as(group, target))
    kind = load_as(group, loaded.kind)
    if kind.manifest is not loaded:
        raise InvalidInput(f"{target!r} names the class {loaded.kind!r}, whose attribute `manifest` is another one")
    return Found(loaded.kind, kind)


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
    if group == "protocols" and spelling.is_program(target):
        return _class_of(target)
    loaded = imported(target)
    misfit = GROUPS[group].misfit(loaded)
    if misfit is not None:
        raise InvalidInput(f"{target!r} is no {GROUPS[group].one}: it {misfit}; expected {GROUPS[group].contract}")
    return loaded


GROUPS: dict[str, Group] = {
    "kinds": Group("kind", "a class derived from brokers.contract.Kind, or its manifest", fitting.kind, kinds.built_in),
    "protocols": Group(
        "protocol",
        "a class derived from BrokerProtocol or ShardProtocol of brokers.contract",
        fitting.protocol,
        lambda: kinds.brought("protocols"),
    ),
    "behaviours": Group(
        "behaviour",
        "a class derived from a BrokerProtocol of brokers.contract, with a pydantic model Params",
        fitting.behaviour,
        kinds.behaviours,
    ),
    "indexes": Group(
        "index",
        "a class derived from the contract of its question, as brokers.indexes.content.contract.ContentIndex",
        fitting.index,
        lambda: load("brokers.indexes.registry:INDEXES"),
    ),
    "topologies": Group(
        "topology",
        "a function with typed keywords that says it returns a networkx.Graph",
        fitting.topology,
        lambda: load("topology.registry:TOPOLOGIES"),
    ),
    "workloads": Group(
        "workload",
        "a class with next_wake() and take(), and a pydantic model Params if it has parameters",
        fitting.workload,
        lambda: {**kinds.brought("workloads"), **load("scenarios.workloads.registry:WORKLOADS")},
    ),
    "faults": Group(
        "fault",
        "a class with schedule(), and a pydantic model Params if it has parameters",
        fitting.fault,
        lambda: load("scenarios.faults.registry:FAULTS"),
    ),
    "connections": Group(
        "connections",
        "a class with spans(client), and a pydantic model Params if it has parameters",
        fitting.connections,
        lambda: load("scenarios.moving.registry:CONNECTIONS"),
    ),
    "mobility": Group(
        "mobility",
        "a class with path(client), and a pydantic model Params if it has parameters",
        fitting.mobility,
        lambda: load("scenarios.moving.registry:MOBILITY"),
    ),
    "metrics": Group("metric", "a brokers.metrics.Metric with a `measure`", fitting.metric, kinds.metrics),
    "measures": Group("measure", "a function of (tables, kind)", fitting.measure),
    "audit rules": Group("audit rule", "a class with decisions() or judge()", fitting.rule),
    "judges": Group("judge", "a function of (tables, kind, guarantees, service)", fitting.takes(4)),
    "explanations": Group("explanation", "a class with due() and may_want(), or with answered()", fitting.explanation),
    "replay forms": Group("replay form", "a class derived from brokers.replaying.Form", fitting.form),
    "rehearsals": Group("rehearsal", "a function of (rehearsal, brokers, clients, params, seed)", fitting.takes(5)),
}
