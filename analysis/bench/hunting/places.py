"""Where mutants are made, which protocols would show them, and which are taken.

A group is what is routed by one kind's protocols, what all of them share, or what judges. A sample goes round the
groups, the files of each, and the functions of each file, so that no large file crowds out a small one.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple, TypeVar

from analysis.bench.hunting.active import ROOT, module_of
from analysis.bench.hunting.by_hand import RULE, made_by_hand
from analysis.bench.hunting.rules import Mutant, mutants

KINDS = ("content", "topk", "spatial", "context", "channels", "topics")
SHARED = ("brokers/tables.py", "protocols/routes.py")
JUDGES = ("protocols/judging.py", "protocols/standing.py", "brokers/verdicts.py", "brokers/promises.py")
# What a kind has beside its protocols: what it is, what its clients do, and its rule in Spark and in NumPy.
_BESIDE = frozenset({
    "__init__", "audit", "kind", "manifest", "matching", "rehearsal", "replay", "publish", "subscribe", "updates",
    "expected", "cases", "objects", "profiles", "map_queries", "database", "rows", "words", "tree",
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
    for kind in KINDS:
        for path in sorted((ROOT / "protocols" / kind).glob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if path.stem == "judge":
                found.append(Place("judges", file, (kind,), True))
            elif path.stem not in _BESIDE:
                found.append(Place(kind, file, (kind,), False))
    found += [Place("shared", file, KINDS, False) for file in SHARED]
    found += [Place("judges", file, KINDS, True) for file in JUDGES]
    return tuple(found)


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


def protocols_using(file: str, protocols: dict[str, str]) -> list[str]:
    """Of these protocols, name to "module:Class", those whose code takes in the file; all, if none says so."""
    module = module_of(file)
    using = [name for name, target in protocols.items() if module in _taken_in(target.partition(":")[0])]
    return (using or list(protocols))[:_PROTOCOLS_MOST]


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
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_bytes())
    named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return frozenset(each for each in named if each.startswith("protocols."))
