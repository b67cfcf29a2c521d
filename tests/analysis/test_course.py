"""The pictures in docs/hunt.md are those of the protocols that stand above them."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from analysis.ways import plain
from analysis.ways.deciding import decided
from analysis.ways.pair import Pair
from analysis.ways.rows import of_pair, of_window
from scenarios.hunt.case import Case, Edge
from scenarios.hunt.running import run
from tests.analysis.test_ways import LINE, case, told_by
from tests.test_docs import ROOT, blocks_of

BLOCKS = blocks_of(ROOT / "docs" / "hunt.md")
PICTURES = [block.text for block in BLOCKS if block.language == "text"]
STAR, SECOND = ((0, 3), (1, 3), (2, 3)), 1000


def slow_ring() -> Case:
    ring = case("ringing:Ringing", [(100, 0, "+", 0), (200, 0, "!")], clients=(1,), edges=((0, 1), (0, 2), (1, 2)))
    return ring.but(edges=(*ring.edges[:2], Edge(1, 2, 9_000_000)))


# By chapter: the case, and of which publication and client; None: all of it.
CHAPTERS = {
    "hasty": (
        case("hasty:Hasty", [(SECOND, 1, "+", 0), (2 * SECOND, 0, "!")], clients=(2, 3), edges=STAR), ("0#0", 1),
    ),
    "rebuilding": (
        case(
            "rebuilding:Rebuilding",
            [(100, 1, "+", 0), (100, 1, "+", 1, (1, 0.5, 1.0)), (200, 1, "-", 1), (200, 0, "!")],
            clients=(0, 1), edges=((0, 1),),
        ),
        ("0#0", 1),
    ),
    "quitting": (
        case("quitting:Quitting", [(SECOND, 0, "+", 0), (SECOND, 0, "-", 0)], clients=(2,), edges=((0, 1), (0, 2))),
        None,
    ),
    "ringing": (slow_ring(), ("0#1", 0)),
    "common": (case("common:Common", [(10, 0, "+", 0), (20, 1, "!")], clients=(0, 2), edges=LINE), ("1#0", 0)),
}  # fmt: skip


@pytest.fixture
def modules(monkeypatch):
    """What the page writes to files, as modules."""
    for block in BLOCKS:
        if block.language == "python" and block.said.startswith("file="):
            name = block.said.removeprefix("file=").removesuffix(".py")
            module = ModuleType(name)
            exec(compile(block.text, block.place, "exec"), module.__dict__)
            monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_picture_of_a_chapter_is_that_of_its_protocol(chapter, modules):
    each, about = CHAPTERS[chapter]
    long = each.but(duration_ns=3 * 10**9, acts=tuple(sorted(each.acts, key=lambda act: act.at)))
    told = told_by(run(long))
    if about is None:
        picture = of_window(told, 0, 10**12)
    else:
        source, number = map(int, about[0].split("#"))
        (row,) = told.rows("publications", publication=(source + told.nodes) << 32 | number)
        pair = Pair(told, row, about[1] + told.nodes)
        picture = of_pair(pair, decided(pair))
    assert plain.drawn(picture) + "\n" == PICTURES[list(CHAPTERS).index(chapter)]


def test_each_chapter_has_one_picture():
    assert len(PICTURES) == len(CHAPTERS) == 5
