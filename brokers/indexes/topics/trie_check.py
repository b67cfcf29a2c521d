"""Every invariant of a trie, in plain Python: what `trie_kernels` keeps, found out once more from the filters alone."""

from __future__ import annotations

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
    stems = _check_tree(a, {levels: entry for entry, levels in filters.items() if min(levels) < 0})
    own = [(a.entry[entry, kernels.LEVELS], len(levels)) for entry, levels in filters.items()]
    _check_blocks(a.levels, a.level_blocks, own + stems)
    roomy = [entry for entry in held if a.entry[entry, kernels.ROOM]]
    _check_blocks(a.ids, a.id_blocks, [a.entry[entry, [kernels.IDS, kernels.ROOM]] for entry in roomy])


def _levels(a: kernels.Arrays, entry: int) -> Place:
    start, depth = a.entry[entry, kernels.LEVELS], a.entry[entry, kernels.SHAPE] >> 1
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
    claim(used <= 2 * live, "at most half of the ids of an entry are gone")
    claim((np.diff(plain) > 0).all(), "the ids of an entry ascend, those that are gone among them")
    claim(cells[cells >= 0].tolist() == sorted(members), "the ids of an entry are there")


def _check_table(a: kernels.Arrays, filters: dict[int, Place]) -> None:
    listed = (a.table[a.table != 0] & ((1 << 32) - 1)) - 1
    claim(sorted(listed.tolist()) == sorted(filters), "the table lists each entry once")
    claim(a.counts[kernels.ENTRIES] == len(filters), "entries are counted")
    claim(5 * len(filters) <= 3 * len(a.table), "at most three places in five are taken")
    for entry, levels in filters.items():
        claim(kernels.look_up(a, np.array([levels], np.int32), 0) == entry, "every entry is reached by its levels")


def _check_tree(a: kernels.Arrays, wild: dict[Place, int]) -> list[tuple[int, int]]:
    """Where each node and entry has to hang follows from the filters with wildcards; where the stems lie."""
    claim(a.counts[kernels.WILD] == len(wild), "filters with wildcards are counted")
    edges, nodes, stems = 0, 0, []
    ahead = [(kernels.ROOT, 0, {(*levels, kernels.END): entry for levels, entry in wild.items()})]
    while ahead:
        node, level, below = ahead.pop()
        nodes += 1
        row = a.node[node].tolist()
        if node != kernels.ROOT:
            shared = _shared(list(below), level)
            stem = tuple(a.levels[row[kernels.STEM] :][: row[kernels.LENGTH]].tolist())
            claim(stem == next(iter(below))[level:shared], "a stem is what all below a node share")
            level = shared
            stems += [(row[kernels.STEM], row[kernels.LENGTH])] if stem else []
        ways: dict[int, dict[Place, int]] = {}
        for levels, entry in below.items():
            ways.setdefault(levels[level], {})[levels] = entry
        claim(node == kernels.ROOT or len(ways) > 1, "filters part at a node")
        refs = {word: int(kernels.lead(a, node, word)) for word in ways}
        for word, behind in ways.items():
            if len(behind) == 1:
                claim([~refs[word]] == list(behind.values()), "a node leads to the entry that is alone there")
            else:
                claim(refs[word] > 0, "a node leads to a node where several filters go on")
                ahead.append((refs[word], level + 1, behind))
        for word in (PLUS, HASH, kernels.END):
            claim(word in ways or kernels.lead(a, node, word) == kernels.NOTHING, "a node leads nowhere else")
        words = {word: ref for word, ref in refs.items() if word >= 0}
        claim(row[kernels.WORDS] == len(words), "a node counts its ways by words")
        claim(row[kernels.WORD] == _xor(words) and row[kernels.REF] == _xor(words.values()), "a node has their xors")
        edges += len(words) if len(words) > 1 else 0
    claim(nodes == a.counts[kernels.NODES] <= max(len(wild), 1), "there are no other nodes, and fewer than filters")
    claim(edges == a.counts[kernels.EDGES] == (a.edge[:, 0] != kernels.NEVER).sum(), "there are no other edges")
    return stems


def _shared(filters: list[Place], level: int) -> int:
    """Up to which level filters agree that agree before this one."""
    while len({levels[level] for levels in filters}) == 1:
        level += 1
    return level


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
