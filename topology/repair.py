"""From whatever a file or a generator gave to a graph that can be an overlay.

Rules. Nodes become 0..n-1 in their given order, with unique names; directions, self-loops and repeated links
go; of several components the largest stays (the earliest of equals). Each repair leaves a note for people,
and under `strict` whatever would drop something is an error instead, naming all of it at once.

A repaired graph carries `graph["notes"]`, `graph["coordinates"]` ("degrees" or "plane"), and per node `name`
and, where they are known, `position` and `region`, a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import networkx as nx

from topology.errors import TopologyError

Position = tuple[float, float]
NAME_LENGTH_MAX = 120


def simple_graph(
    names: Sequence[str],
    positions: Sequence[Position | None],
    ends: Sequence[tuple[int, int]],
    *,
    where: str,
    coordinates: str = "plane",
    strict: bool = False,
    dropped: Sequence[str] = (),
    notes: Sequence[str] = (),
    regions: Sequence[int | None] = (),
) -> nx.Graph:
    """A connected simple graph of these nodes and links.

    Parameters
    ----------
    names, positions : one per node
    ends : node numbers of each link, in any order, with loops and repetitions
    where : what an error names as its place
    dropped : notes of what the caller has already left out; errors under `strict`
    notes : notes of what the caller has merely changed
    regions : the region of each node, where there are regions

    Raises
    ------
    TopologyError
        If there is no node, or under `strict` if anything was or would be dropped.
    """
    if not names:
        raise TopologyError(f"{where}: there is no node")
    lost = list(dropped)
    loops = sum(1 for a, b in ends if a == b)
    links = sorted({(a, b) if a < b else (b, a) for a, b in ends if a != b})
    if loops:
        lost.append(f"{counted(loops, 'self-loop')} dropped")
    if len(ends) - loops > len(links):
        lost.append(f"{counted(len(ends) - loops - len(links), 'repeated link')} merged")
    graph = nx.Graph()
    graph.add_nodes_from(range(len(names)))
    graph.add_edges_from(links)
    parts: list[set[int]] = [set(part) for part in nx.connected_components(graph)]
    keep: list[int] = list(range(len(names)))
    if len(parts) > 1:
        largest = max(parts, key=lambda part: (len(part), -min(part)))
        keep = sorted(largest)
        lost.append(f"{len(parts)} components: the largest kept, {len(keep)} of {len(names)} nodes")
    if strict and lost:
        raise TopologyError(f"{where}: refused, as strict: {'; '.join(lost)}")
    said = [*notes, *lost]
    new_number = {old: new for new, old in enumerate(keep)}
    unique, repeated = unique_names([names[old] for old in keep])
    if repeated:
        said.append(f"{counted(repeated, 'repeated name')} made unique")
    result = nx.Graph(coordinates=coordinates)
    placed = [positions[old] for old in keep]
    for new, (name, position) in enumerate(zip(unique, placed)):
        result.add_node(new, name=name)
        if position is not None:
            result.nodes[new]["position"] = position
    for new, old in enumerate(keep if regions else ()):
        if regions[old] is not None:
            result.nodes[new]["region"] = regions[old]
    missing = placed.count(None)
    if 0 < missing < len(placed):
        said.append(f"{counted(missing, 'node')} without a position")
    result.graph["notes"] = list(dict.fromkeys(said))  # a graph repaired twice says it once
    result.add_edges_from((new_number[a], new_number[b]) for a, b in links if a in new_number)
    return result


def normalise(graph: nx.Graph, where: str) -> nx.Graph:
    """The same for any graph: directed, with parallel edges, with whatever stands for its nodes."""
    nodes: list[Hashable] = list(graph)
    number = {node: i for i, node in enumerate(nodes)}
    notes = [str(note) for note in graph.graph.get("notes", ())]
    if graph.is_directed():
        notes.append("directions dropped")
    names, positions, regions = [], [], []
    for node in nodes:
        data = graph.nodes[node]
        plain = f"b{node}" if isinstance(node, int) else str(node)
        names.append(clean_name(data.get("name", data.get("label", plain))) or f"b{number[node]}")
        positions.append(as_position(data.get("position", data.get("pos"))))
        region = data.get("region")
        regions.append(region if type(region) is int and region >= 0 else None)
    ends = [(number[a], number[b]) for a, b in graph.edges()]
    coordinates = "degrees" if graph.graph.get("coordinates") == "degrees" else "plane"
    return simple_graph(names, positions, ends, where=where, coordinates=coordinates, notes=notes, regions=regions)


def unique_names(names: Sequence[str]) -> tuple[list[str], int]:
    """The names with " #2", " #3", ... on repetitions, and how many were changed."""
    taken = set(names)
    seen: set[str] = set()
    next_suffix: dict[str, int] = {}
    result = []
    changed = 0
    for name in names:
        if name in seen:
            changed += 1
            suffix = next_suffix.get(name, 2)
            while f"{name} #{suffix}" in taken:
                suffix += 1
            next_suffix[name] = suffix + 1
            name = f"{name} #{suffix}"
            taken.add(name)
        seen.add(name)
        result.append(name)
    return result, changed


def clean_name(value: Any) -> str:
    """Text for one line that can be stored and sent: no control characters, no lone surrogates."""
    text = str(value)[: 4 * NAME_LENGTH_MAX].encode("utf-8", "replace").decode("utf-8")
    text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())[:NAME_LENGTH_MAX].rstrip()


def as_position(value: Any) -> Position | None:
    """A pair of finite numbers, given as a sequence, or None."""
    try:
        x, y = (float(part) for part in value)
    except (TypeError, ValueError, OverflowError):
        return None
    return (x, y) if math.isfinite(x) and math.isfinite(y) else None


def counted(count: int, noun: str) -> str:
    """`3 links`, `1 link`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
