"""Where mutants are made, which protocols would show them, and which are taken.

A group is what one kind's protocols take in, or those of several kinds, what all of them share, or what judges. What
neither a protocol nor a judge takes in decides on nothing that a run comes to: explanations, measures, workloads, and
what the audit asks in Spark or NumPy have tests of their own. A sample goes round the groups, the files of each, and
the functions of each file, so that no large file crowds out a small one.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from analysis.bench.hunting.active import ROOT, module_of
from analysis.bench.hunting.by_hand import RULE, made_by_hand
from analysis.bench.hunting.rules import Mutant, mutants

KINDS = ("content", "topk", "spatial", "context", "channels", "topics")
SHARED = ("brokers/tables.py", "protocols/routes.py")
JUDGES = ("protocols/judging.py", "protocols/standing.py", "brokers/verdicts.py", "brokers/promises.py")
FOLDERS = {**{kind: (kind,) for kind in KINDS}, "gossip": ("content", "topics"), "practice": ("content", "topics")}
# What a kind is, and what its clients do, though protocols take it in.
_BESIDE = frozenset({
    "__init__", "kind", "manifest", "rehearsal", "replay", "publish", "subscribe", "updates", "expected", "cases",
    "objects", "profiles", "map_queries", "database", "rows", "words", "tree", "advertise", "matching",
})  # fmt: skip
_PROTOCOLS_MOST = 4  # that are asked about one mutant
T = TypeVar("T")


class Place(NamedTuple):
    """A file, and who would show what is wrong in it."""

    group: str
    file: str
    kinds: tuple[str, ...]
    judges: bool  # whether the file says what is right, and does not do it


@cache
def places() -> tuple[Place, ...]:
    """All files of which mutants are made."""
    found = []
    for folder, kinds in FOLDERS.items():
        routing, judging = (_taken_in_by(targets) for targets in _targets(kinds))
        for path in sorted((ROOT / "protocols" / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if path.stem in _BESIDE:
                continue
            if module_of(file) in routing:
                found.append(Place(folder, file, kinds, False))
            elif module_of(file) in judging:
                found.append(Place("judges", file, kinds, True))
    found += [Place("shared", file, KINDS, False) for file in SHARED]
    found += [Place("judges", file, KINDS, True) for file in JUDGES]
    return tuple(found)


def _targets(kinds: Sequence[str]) -> tuple[list[str], list[str]]:
    """The "module:Class" of the protocols of these kinds, and of their judges."""
    from brokers.kinds import manifests  # not before a mutant is active

    mine = [kind for kind in manifests() if kind.name in kinds]
    protocols = [entry.target for kind in mine for entry in kind.protocols.values()]
    return protocols, [kind.judge for kind in mine if kind.judge]


def _taken_in_by(targets: Iterable[str]) -> frozenset[str]:
    return frozenset(module for target in targets for module in _taken_in(target.partition(":")[0]))


def place_of(file: str) -> Place:
    """The place of a file."""
    return next(each for each in places() if each.file == file)


@cache
def mutants_of(file: str) -> tuple[Mutant, ...]:
    """All mutants of a file of the tree: by rules, and by hand."""
    source = (ROOT / file).read_bytes()
    return (*mutants(file, source), *made_by_hand(file, source))


def by_hand() -> list[Mutant]:
    """All that are made by hand."""
    return [each for place in places() for each in mutants_of(place.file) if each.rule == RULE]


def sample(count: int, seed: int, kernels: bool = False) -> list[Mutant]:
    """So many mutants by rules, the same for the same seed: outside of what Numba compiles, or inside."""
    used: Counter[str] = Counter()  # how often a rule was
    groups: dict[str, list[Iterator[Mutant]]] = {}
    for place in sorted(places(), key=lambda each: _drawn(seed, each.file)):
        ways = [each for each in mutants_of(place.file) if each.in_kernel == kernels and each.rule != RULE]
        groups.setdefault(place.group, []).append(_by_function(ways, seed, used))
    found = _turns([_turns(files) for _, files in sorted(groups.items())])
    return list(islice(found, count))


def by_turns(each: Iterable[Iterator[T]]) -> list[T]:
    """The first of each, then the second of each, and so on."""
    return list(_turns(list(each)))


def _turns(each: list[Iterator[T]]) -> Iterator[T]:
    """One of each in turn, until all are at their ends."""
    while each:
        for one in list(each):
            try:
                yield next(one)
            except StopIteration:
                each.remove(one)


def _by_function(ways: Sequence[Mutant], seed: int, used: Counter[str]) -> Iterator[Mutant]:
    """Drawn mutants of a file, of each function one before any has two; by rules that were used least."""
    functions: dict[str, list[Mutant]] = {}
    for each in sorted(ways, key=lambda each: _drawn(seed, each.id)):
        functions.setdefault(each.function, []).append(each)
    turns = sorted(functions.values(), key=lambda each: _drawn(seed, each[0].function))
    while turns := [each for each in turns if each]:
        for left in turns:
            while left:
                mutant = left.pop(min(range(len(left)), key=lambda at: (used[left[at].rule], at)))
                if mutant.compiles((ROOT / mutant.file).read_bytes()):
                    used[mutant.rule] += 1
                    yield mutant
                    break


def _drawn(seed: int, *names: str) -> bytes:
    return hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=8).digest()


# ---- who uses a file -----------------------------------------------------------------------------------


def protocols_using(file: str, protocols: dict[str, str], function: str = "") -> list[str]:
    """Of these protocols, name to "module:Class", those whose code takes in the file; all, if none says so.

    Those whose code names the function, which not all that take in a file do, come first.
    """
    module, named = module_of(file), function.rpartition(".")[2]
    taken_in = {name: _taken_in(target.partition(":")[0]) for name, target in protocols.items()}
    using = [name for name in protocols if module in taken_in[name]] or list(protocols)
    naming = [name for name in using if named and any(_names(each, named) for each in taken_in[name] - {module})]
    return list(dict.fromkeys([*naming, *using]))[:_PROTOCOLS_MOST]


@cache
def _names(module: str, function: str) -> bool:
    return bool(re.search(rf"\b{function}\(", _path(module).read_text(encoding="utf-8")))


@cache
def _taken_in(module: str) -> frozenset[str]:
    """The modules of the tree that one takes in, over any number of steps."""
    found, ahead = {module}, [module]
    while ahead:
        for each in _imports(ahead.pop()) - found:
            found.add(each)
            ahead.append(each)
    return frozenset(found)


@cache
def _imports(module: str) -> frozenset[str]:
    tree = ast.parse(_path(module).read_bytes())
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    named = {node.module or "" for node in asked}
    named |= {f"{node.module}.{each.name}" for node in asked for each in node.names}  # which may be modules
    return frozenset(each for each in named if each.startswith("protocols.") and _path(each).is_file())


def _path(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
