"""Cutting a graph in two: the kernels of the partition.

Graph growing gives a first cut, Fiduccia and Mattheyses' moves ("A Linear-Time Heuristic for Improving
Network Partitions", DAC 1982) improve it: move the node that saves most, lock it, go on through losses, keep
the best prefix. Gains sit in binary heaps as one integer, (offset - gain) << 31 | node, so that ties go to
the lower node and the result is the same everywhere; entries whose gain has changed since are skipped when
they surface.

A graph is (start, neighbour, strength): node v's neighbours are at start[v]:start[v+1], each way once.
One module per kernel family.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numba import njit

_OFFSET = 1 << 30
_NODE_BITS = 31
_NODE_MASK = (1 << 31) - 1


@njit(cache=True)
def components(n, link_a, link_b, chosen):
    """The lowest node of each node's component, by the links that are chosen (union-find)."""
    parent = np.arange(n)
    for e in range(link_a.size):
        if chosen[e]:
            # A parent is lower than its child, so both walks go down.
            a, b = link_a[e], link_b[e]
            while parent[a] < a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] < b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a < b:
                parent[b] = a
            else:
                parent[a] = b
    for v in range(n):  # parents are lower, so they are final before their children
        parent[v] = parent[parent[v]]
    return parent


@njit(cache=True)
def farthest(start, neighbour, origin):
    """The node reached last by a breadth-first walk."""
    seen = np.zeros(start.size - 1, np.bool_)
    queue = np.empty(start.size - 1, np.int64)
    queue[0] = origin
    seen[origin] = True
    head, tail = 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        for i in range(start[v], start[v + 1]):
            w = neighbour[i]
            if not seen[w]:
                seen[w] = True
                queue[tail] = w
                tail += 1
    return queue[tail - 1]


@njit(cache=True)
def grow(start, neighbour, strength, load, target, origin):
    """Side 0 grown from `origin` to about `target`, each time by the node with most links inside."""
    n = start.size - 1
    side = np.ones(n, np.int8)
    passed = np.zeros(n, np.bool_)
    gain = np.zeros(n, np.int64)
    for v in range(n):
        for i in range(start[v], start[v + 1]):
            gain[v] -= strength[i]
    heap = [(_OFFSET - gain[origin]) << _NODE_BITS | origin]
    inside = 0.0
    fresh = 0
    while inside < target:
        if len(heap) == 0:
            while fresh < n and (side[fresh] == 0 or passed[fresh]):
                fresh += 1
            if fresh == n:
                break
            heap.append((_OFFSET - gain[fresh]) << _NODE_BITS | fresh)
        entry = heappop(heap)
        v = entry & _NODE_MASK
        if side[v] == 0 or passed[v] or _OFFSET - (entry >> _NODE_BITS) != gain[v]:
            continue
        if inside + load[v] - target > target - inside:
            passed[v] = True
            continue
        side[v] = 0
        inside += load[v]
        for i in range(start[v], start[v + 1]):
            w = neighbour[i]
            if side[w] == 1:
                gain[w] += 2 * strength[i]
                heappush(heap, (_OFFSET - gain[w]) << _NODE_BITS | w)
    return side


@njit(cache=True)
def refine(start, neighbour, strength, load, side, cap_0, cap_1, passes):
    """Improve `side` in place; returns (what the loads exceed their caps by, strength of the cut)."""
    n = start.size - 1
    cap = np.array([cap_0, cap_1])
    loads = np.zeros(2)
    gain = np.zeros(n, np.int64)
    cut = 0
    for v in range(n):
        loads[side[v]] += load[v]
        for i in range(start[v], start[v + 1]):
            if side[neighbour[i]] == side[v]:
                gain[v] -= strength[i]
            else:
                gain[v] += strength[i]
                cut += strength[i]
    cut //= 2
    patience = 64 + n // 20
    moved = np.empty(n, np.int64)
    best_excess = max(0.0, loads[0] - cap[0]) + max(0.0, loads[1] - cap[1])
    for _ in range(passes):
        locked = np.zeros(n, np.bool_)
        heap_0 = [0 for _ in range(0)]
        heap_1 = [0 for _ in range(0)]
        for v in range(n):
            entry = (_OFFSET - gain[v]) << _NODE_BITS | v
            if side[v] == 0:
                heap_0.append(entry)
            else:
                heap_1.append(entry)
        heapify(heap_0)
        heapify(heap_1)
        count, kept, best_cut = 0, 0, cut
        while count - kept <= patience:
            v_0, v_1 = -1, -1
            while len(heap_0) > 0:
                top = heap_0[0]
                v_0 = top & _NODE_MASK
                if not locked[v_0] and side[v_0] == 0 and _OFFSET - (top >> _NODE_BITS) == gain[v_0]:
                    break
                v_0 = -1
                heappop(heap_0)
            while len(heap_1) > 0:
                top = heap_1[0]
                v_1 = top & _NODE_MASK
                if not locked[v_1] and side[v_1] == 1 and _OFFSET - (top >> _NODE_BITS) == gain[v_1]:
                    break
                v_1 = -1
                heappop(heap_1)
            if v_0 < 0 and v_1 < 0:
                break
            open_0 = v_0 >= 0 and (loads[1] + load[v_0] <= cap[1] or loads[0] > cap[0])
            open_1 = v_1 >= 0 and (loads[0] + load[v_1] <= cap[0] or loads[1] > cap[1])
            if loads[0] > cap[0] and open_0:
                open_1 = False
            elif loads[1] > cap[1] and open_1:
                open_0 = False
            if not open_0 and not open_1:  # too heavy for the other side: out of this pass
                if v_0 >= 0 and (v_1 < 0 or load[v_0] >= load[v_1]):
                    heappop(heap_0)
                else:
                    heappop(heap_1)
                continue
            if open_0 and open_1:
                if gain[v_0] != gain[v_1]:
                    open_0 = gain[v_0] > gain[v_1]
                else:
                    open_0 = loads[0] * cap[1] >= loads[1] * cap[0]
            v = v_0 if open_0 else v_1
            heappop(heap_0 if open_0 else heap_1)
            locked[v] = True
            cut -= gain[v]
            _move(start, neighbour, strength, load, side, gain, loads, v)
            for i in range(start[v], start[v + 1]):
                w = neighbour[i]
                if not locked[w]:
                    entry = (_OFFSET - gain[w]) << _NODE_BITS | w
                    if side[w] == 0:
                        heappush(heap_0, entry)
                    else:
                        heappush(heap_1, entry)
            moved[count] = v
            count += 1
            excess = max(0.0, loads[0] - cap[0]) + max(0.0, loads[1] - cap[1])
            if excess < best_excess or (excess == best_excess and cut < best_cut):
                best_excess, best_cut, kept = excess, cut, count
        for i in range(count - 1, kept - 1, -1):
            _move(start, neighbour, strength, load, side, gain, loads, moved[i])
        cut = best_cut
        if kept == 0:
            break
    return best_excess, cut


@njit(cache=True)
def _move(start, neighbour, strength, load, side, gain, loads, v):
    here = side[v]
    there = np.int8(1 - here)
    side[v] = there
    loads[here] -= load[v]
    loads[there] += load[v]
    gain[v] = -gain[v]
    for i in range(start[v], start[v + 1]):
        w = neighbour[i]
        if side[w] == there:
            gain[w] -= 2 * strength[i]
        else:
            gain[w] += 2 * strength[i]
