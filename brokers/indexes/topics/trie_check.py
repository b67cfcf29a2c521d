"""Every invariant of a trie, in plain Python: what `trie_kernels` keeps, found out once more from the filters alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from brokers.indexes.contract import Ids, claim
from brokers.indexes.topics import trie_kernels as kernels
from brokers.indexes.topics.syntax import HASH, PLUS

Place = tuple[int, ...]  # the levels that lead to a node


def check(a: kernels.Arrays, ids: Ids, entries: Ids) -> None:
    """Raise AssertionError unless all holds. O(held · depth)."""
    held: dict[int, list[int]] = {}
    for id_, entry in zip(ids.tolist(), entries.tolist()):
        held.setdefault(entry, []).append(id_)
    filters = {entry: _levels(a, entry) for entry in held}
    claim(len(set(filters.values())) == len(filters), "no filter has two entries")
    for entry, members in held.items():
        _check_ids(a, entry, members)
    _check_table(a, filters)
    _check_tree(a, {levels: entry for entry, levels in filters.items() if min(levels) < 0})
    _check_blocks(a.levels, a.level_blocks, [a.entry[entry, [kernels.LEVELS, kernels.DEPTH]] for entry in held])
    roomy = [entry for entry in held if a.entry[entry, kernels.ROOM]]
    _check_blocks(a.ids, a.id_blocks, [a.entry[entry, [kernels.IDS, kernels.ROOM]] for entry in roomy])


def _levels(a: kernels.Arrays, entry: int) -> Place:
    start, depth = a.entry[entry, kernels.LEVELS], a.entry[entry, kernels.DEPTH]
    return tuple(a.levels[start : start + depth].tolist())


def _check_ids(a: kernels.Arrays, entry: int, members: list[int]) -> None:
    start, room, used, live, only = a.entry[entry, kernels.IDS :].tolist()
    claim(live == len(members), "an entry counts its ids")
    if room == 0:
        claim(members == [only], "an only id lies in its entry")
        return
    cells = a.ids[start : start + used]
    plain = cells ^ (cells >> 63)
    claim(live >= 2 and used <= room, "a block is for two or more, and holds what is used")
    claim((np.diff(plain) > 0).all(), "the ids of an entry ascend, those that are gone among them")
    claim(cells[cells >= 0].tolist() == sorted(members), "the ids of an entry are there")


def _check_table(a: kernels.Arrays, filters: dict[int, Place]) -> None:
    listed = (a.table[a.table != 0] & ((1 << 32) - 1)) - 1
    claim(sorted(listed.tolist()) == sorted(filters), "the table lists each entry once")
    claim(a.count[kernels.ENTRIES] == len(filters), "entries are counted")
    claim(5 * len(filters) <= 3 * len(a.table), "at most three places in five are taken")
    for entry, levels in filters.items():
        row = np.array(levels, np.int32)
        found = kernels.look_up(a, row)
        claim(found == entry, "every entry is reached by its levels")


def _check_tree(a: kernels.Arrays, wild: dict[Place, int]) -> None:
    """Where each node and entry has to hang follows from the filters with wildcards."""
    below = Counter(levels[:size] for levels in wild for size in range(len(levels) + 1))
    nodes: dict[Place, int] = {(): kernels.ROOT}
    edges = 0
    for place in sorted((p for p in below if p == () or (below[p] > 1 and p[-1] != HASH)), key=len):
        node = nodes[place]
        children = {}
        for child in sorted(p for p in below if len(p) == len(place) + 1 and p[:-1] == place):
            alone = below[child] == 1 or child[-1] == HASH
            ref = _ref_to(a, node, child)
            claim(ref < 0 if alone else ref > 0, "a ref leads to a node where two or more filters go on, else to one")
            children[child[-1]] = ref
            if not alone:
                nodes[child] = ref
            else:
                (entry,) = (wild[levels] for levels in wild if levels[: len(child)] == child)
                claim(~ref == entry, "a ref leads to the entry that is alone there")
        row = a.node[node].tolist()
        claim(row[kernels.END] == (~wild[place] if place in wild else 0), "a node knows who ends there")
        words = {word: ref for word, ref in children.items() if word >= 0}
        claim(row[kernels.WORDS] == len(words), "a node counts its children by words")
        claim(row[kernels.WORD] == _xor(words) and row[kernels.REF] == _xor(words.values()), "a node has their xors")
        claim((row[kernels.REST] != 0) == (HASH in children), "a node leads by # only where a filter does")
        claim((row[kernels.ONE] != 0) == (PLUS in children), "a node leads by + only where a filter does")
        edges += len(words) if len(words) > 1 else 0
    claim(len(set(nodes.values())) == len(nodes) == a.count[kernels.NODES], "there are no other nodes")
    claim(edges == a.count[kernels.EDGES] == (a.edge[:, 0] != kernels.NEVER).sum(), "there are no other edges")


def _ref_to(a: kernels.Arrays, node: int, child: Place) -> int:
    by = {HASH: kernels.REST, PLUS: kernels.ONE}.get(child[-1])
    return int(a.node[node, by] if by is not None else kernels.follow_word(a, node, child[-1]))


def _xor(numbers: Any) -> int:
    found = 0
    for number in numbers:
        found ^= number
    return found


def _check_blocks(data: Any, blocks: Ids, taken: list[Any]) -> None:
    """Taken and free blocks fill what was ever taken, without overlap."""
    spans = [(int(start), 1 << (int(size) - 1).bit_length()) for start, size in taken]
    for power, head in enumerate(blocks[1:].tolist()):
        while head >= 0:
            spans.append((head, 1 << power))
            head = int(data[head])
    end = 0
    for start, size in sorted(spans):
        claim(start == end, "blocks lie one behind the other")
        end += size
    claim(end == blocks[0] <= len(data), "all blocks are known")
