"""Topologies made from a formula: one function each, named in `topology.registry`.

Rules. A generator takes keyword parameters and returns a networkx graph on the nodes 0..n-1. The typed
signature is the schema of a scenario's `topology` section; `seed` is supplied by `build`, never by the user.
Randomness comes from `topology.draws`, directly or as the seed of a `random.Random`, and no logarithm or
exponential of a library decides on a link: the same seed gives the same links on every machine.

Nodes may carry a `name` and a `position`; `graph["notes"]` tells people what was added. A result in several
pieces is joined where `connect` says so, otherwise `build` keeps the largest piece and says so.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Annotated, Literal

import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, model_validator

from topology.errors import TopologyError
from topology.overlay import NAME, broker_number
from topology.repair import clean_name, counted, simple_graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NODES_MAX = 1_000_000
PAIRWISE_NODES_MAX = 100_000  # every pair is looked at: some twenty seconds
LINKS_MAX = 20_000_000

Nodes = Annotated[int, Field(ge=1, le=NODES_MAX, description="number of brokers")]
PairwiseNodes = Annotated[int, Field(ge=1, le=PAIRWISE_NODES_MAX, description="number of brokers")]
Side = Annotated[int, Field(ge=1, le=NODES_MAX)]
Probability = Annotated[float, Field(ge=0, le=1)]
Connect = Annotated[
    bool, Field(description="join separate pieces by added links; else keep the largest piece")
]


# ---- regular shapes ----------------------------------------------------------------------------------


def line(*, nodes: Nodes) -> nx.Graph:
    """Brokers in a row: 0 - 1 - 2 - ...

    Parameters
    ----------
    nodes : number of brokers

    Examples
    --------
    >>> sorted(line(nodes=3).edges())
    [(0, 1), (1, 2)]
    """
    return nx.path_graph(nodes)


def ring(*, nodes: Annotated[int, Field(ge=3, le=NODES_MAX, description="number of brokers")]) -> nx.Graph:
    """Brokers in a circle.

    Parameters
    ----------
    nodes : number of brokers, at least 3

    Examples
    --------
    >>> sorted(ring(nodes=3).edges())
    [(0, 1), (0, 2), (1, 2)]
    """
    return nx.cycle_graph(nodes)


def star(*, nodes: Nodes) -> nx.Graph:
    """Broker 0 in the middle, all others linked to it.

    Parameters
    ----------
    nodes : number of brokers, the hub included

    Examples
    --------
    >>> sorted(star(nodes=4).edges())
    [(0, 1), (0, 2), (0, 3)]
    """
    return nx.star_graph(nodes - 1)


def balanced_tree(
    *,
    branching: Annotated[int, Field(ge=1, le=NODES_MAX, description="children of each inner broker")],
    height: Annotated[int, Field(ge=0, le=NODES_MAX, description="links from the root to a leaf")],
) -> nx.Graph:
    """A tree in which every inner broker has `branching` children; broker 0 is the root, levels are numbered
    in turn.

    Raises
    ------
    TopologyError
        If that would be more than a million brokers.

    Examples
    --------
    >>> sorted(balanced_tree(branching=2, height=1).edges())
    [(0, 1), (0, 2)]
    """
    size, level = 1, 1
    for _ in range(height):
        level *= branching
        size += level
        if size > NODES_MAX:
            raise TopologyError(
                f"balanced-tree: branching {branching} and height {height} make more than {NODES_MAX} brokers"
            )
    graph = nx.empty_graph(size)
    graph.add_edges_from(((child - 1) // branching, child) for child in range(1, size))
    return graph


def grid(*, rows: Side, columns: Side) -> nx.Graph:
    """Rows and columns; broker row * columns + column sits at (column, row) of the plane.

    Examples
    --------
    >>> sorted(grid(rows=2, columns=2).edges())
    [(0, 1), (0, 2), (1, 3), (2, 3)]
    """
    return _lattice(rows, columns, joined=False)


def torus(
    *, rows: Annotated[int, Field(ge=3, le=NODES_MAX)], columns: Annotated[int, Field(ge=3, le=NODES_MAX)]
) -> nx.Graph:
    """A grid whose opposite borders are joined: every broker has four links.

    Examples
    --------
    >>> set(dict(torus(rows=3, columns=4).degree()).values())
    {4}
    """
    return _lattice(rows, columns, joined=True)


def _lattice(rows: int, columns: int, joined: bool) -> nx.Graph:
    if rows * columns > NODES_MAX:
        raise TopologyError(f"{rows} rows of {columns} make more than {NODES_MAX} brokers")
    graph = nx.Graph()
    for row in range(rows):
        for column in range(columns):
            graph.add_node(row * columns + column, position=(float(column), float(row)))
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            if column + 1 < columns or joined:
                graph.add_edge(here, row * columns + (column + 1) % columns)
            if row + 1 < rows or joined:
                graph.add_edge(here, (row + 1) % rows * columns + column)
    return graph


# ---- random graphs -----------------------------------------------------------------------------------


def random_tree(*, nodes: Nodes, seed: int) -> nx.Graph:
    """A tree drawn uniformly from all labelled trees, by its Prüfer sequence.

    References
    ----------
    H. Prüfer, "Neuer Beweis eines Satzes über Permutationen", Archiv der Mathematik und Physik 27, 1918.

    Examples
    --------
    >>> nx.is_tree(random_tree(nodes=50, seed=1))
    True
    """
    if nodes <= 2:
        return nx.path_graph(nodes)
    chance = _random(seed, "random-tree")
    return nx.from_prufer_sequence([chance.randrange(nodes) for _ in range(nodes - 2)])


def erdos_renyi(
    *, nodes: PairwiseNodes, probability: Probability, connect: Connect = True, seed: int
) -> nx.Graph:
    """Every pair of brokers is linked with the same probability, independently.

    With `connect`, each further piece is linked, by its lowest broker, to a broker drawn from those joined
    before it.

    Raises
    ------
    TopologyError
        If more than twenty million links are to be expected.

    References
    ----------
    E. N. Gilbert, "Random Graphs", Annals of Mathematical Statistics 30, 1959;
    P. Erdős, A. Rényi, "On Random Graphs I", Publicationes Mathematicae 6, 1959.

    Examples
    --------
    >>> erdos_renyi(nodes=5, probability=1.0, seed=1).number_of_edges()
    10
    """
    _refuse_too_many("erdos-renyi", probability * nodes * (nodes - 1) / 2, "probability")
    from topology import pairs

    graph = nx.empty_graph(nodes)
    graph.add_edges_from(
        pairs.links_by_chance(_keys(seed, nodes, "erdos-renyi"), float(probability)).tolist()
    )
    return _joined_by_lot(graph, _random(seed, "erdos-renyi/connect")) if connect else graph


def barabasi_albert(
    *,
    nodes: Nodes,
    attach: Annotated[int, Field(ge=1, le=NODES_MAX, description="links each new broker brings")] = 1,
    seed: int,
) -> nx.Graph:
    """Grown by preferential attachment: each new broker links to `attach` others, likelier to those with many
    links.

    It starts from a star of `attach` + 1 brokers and ends with (nodes - attach) * attach links; with `attach`
    1 it is a tree.

    Raises
    ------
    TopologyError
        If there are not more nodes than `attach`.

    References
    ----------
    A.-L. Barabási, R. Albert, "Emergence of Scaling in Random Networks", Science 286, 1999.

    Examples
    --------
    >>> nx.is_tree(barabasi_albert(nodes=100, seed=1))
    True
    """
    if nodes == 1:
        return nx.empty_graph(1)
    if attach >= nodes:
        raise TopologyError(
            f"barabasi-albert: attach is {attach}, it must be below the number of nodes, {nodes}"
        )
    _refuse_too_many("barabasi-albert", (nodes - attach) * attach, "attach")
    return nx.barabasi_albert_graph(nodes, attach, seed=_random(seed, "barabasi-albert"))


def watts_strogatz(
    *,
    nodes: Annotated[int, Field(ge=3, le=NODES_MAX, description="number of brokers")],
    neighbours: Annotated[
        int, Field(ge=2, le=NODES_MAX, multiple_of=2, description="links of each before rewiring")
    ] = 4,
    rewire: Annotated[float, Field(ge=0, le=1, description="probability that a link is moved")] = 0.1,
    connect: Connect = True,
    seed: int,
) -> nx.Graph:
    """A small world: a ring in which each broker links to its nearest `neighbours`, some links moved
    elsewhere.

    Raises
    ------
    TopologyError
        If there are not more nodes than `neighbours`.

    References
    ----------
    D. J. Watts, S. H. Strogatz, "Collective Dynamics of Small-World Networks", Nature 393, 1998.

    Examples
    --------
    >>> watts_strogatz(nodes=20, neighbours=4, rewire=0.0, seed=1).number_of_edges()
    40
    """
    if neighbours >= nodes:
        raise TopologyError(
            f"watts-strogatz: neighbours is {neighbours}, it must be below the number of nodes, {nodes}"
        )
    _refuse_too_many("watts-strogatz", nodes * neighbours / 2, "neighbours")
    graph = nx.watts_strogatz_graph(nodes, neighbours, rewire, seed=_random(seed, "watts-strogatz"))
    return _joined_by_lot(graph, _random(seed, "watts-strogatz/connect")) if connect else graph


def random_geometric(
    *,
    nodes: PairwiseNodes,
    radius: Annotated[float, Field(gt=0, le=2, description="reach, in sides of the square")],
    connect: Connect = True,
    seed: int,
) -> nx.Graph:
    """Points drawn uniformly in a unit square, linked when at most `radius` apart.

    With `connect`, separate pieces are joined by the shortest links that do.

    References
    ----------
    M. Penrose, "Random Geometric Graphs", Oxford University Press, 2003.

    Examples
    --------
    >>> random_geometric(nodes=6, radius=1.5, seed=1).number_of_edges()
    15
    """
    reach = 3.141592653589793 * radius * radius
    _refuse_too_many("random-geometric", min(1.0, reach) * nodes * (nodes - 1) / 2, "radius")
    from topology import pairs

    x, y = points(seed, nodes, "random-geometric")
    graph = _placed(x, y)
    graph.add_edges_from(pairs.links_within(x, y, float(radius)).tolist())
    return _joined_by_distance(graph, x, y) if connect else graph


def waxman(
    *,
    nodes: PairwiseNodes,
    alpha: Annotated[
        float, Field(gt=0, le=100, description="length of links, in diagonals of the square")
    ] = 0.1,
    beta: Annotated[
        float, Field(gt=0, le=1, description="density: the probability of a link of no length")
    ] = 0.4,
    connect: Connect = True,
    seed: int,
) -> nx.Graph:
    """Points drawn uniformly in a unit square; a pair at distance d is linked with probability β·exp(-d /
    (α·L)).

    L is the diagonal of the square. With `connect`, separate pieces are joined by the shortest links that do.

    Raises
    ------
    TopologyError
        If more than twenty million links are to be expected.

    References
    ----------
    B. M. Waxman, "Routing of Multipoint Connections", IEEE Journal on Selected Areas in Communications 6(9),
    1988.

    Examples
    --------
    >>> nx.is_connected(waxman(nodes=60, seed=1))
    True
    """
    scale = alpha * 1.4142135623730951
    reach = min(1.0, 2 * 3.141592653589793 * scale * scale)
    _refuse_too_many("waxman", beta * reach * nodes * (nodes - 1) / 2, "beta")
    from topology import pairs

    x, y = points(seed, nodes, "waxman")
    graph = _placed(x, y)
    keys = _keys(seed, nodes, "waxman")
    graph.add_edges_from(pairs.links_by_waxman(keys, x, y, float(beta), scale).tolist())
    return _joined_by_distance(graph, x, y) if connect else graph


Sizes = Annotated[list[Annotated[int, Field(ge=1, le=NODES_MAX)]], Field(min_length=1, max_length=NODES_MAX)]


def hierarchical(
    *,
    regions: Annotated[
        Annotated[int, Field(ge=1, le=NODES_MAX)] | Sizes,
        Field(description="how many, each behind a gateway; or the size of each, its gateway included"),
    ],
    region_size: Annotated[
        int | None, Field(ge=1, le=NODES_MAX, description="brokers of each region, its gateway included")
    ] = None,
    nodes: Annotated[
        int | None, Field(ge=1, le=NODES_MAX, description="or of all together, split as evenly as can be")
    ] = None,
    backbone: Literal["line", "ring", "full", "star"] = "ring",
    region: Literal["star", "line", "ring", "random-tree"] = "star",
    seed: int,
) -> nx.Graph:
    """A backbone of gateways with a region behind each.

    Gateways are brokers 0..regions-1, named `r0`, `r1`, ...; the others of region 3 are named `r3.1`, `r3.2`,
    .... Regions lie at random places of a unit square, their brokers within a twentieth of it, so that delays
    by geography are short within a region and long between regions. Every broker carries the number of its `region`,
    so that `links.regions` may give the links of one region, or between two, delays of their own.

    Sizes are given in one of three ways: a list of them as `regions`, one `region_size`, or `nodes` for all regions
    together, of which the first get one more where that does not come out even.

    Raises
    ------
    TopologyError
        If sizes are given in no way or in two, if that would be more than a million brokers, or a full backbone of
        more than twenty million links.

    References
    ----------
    K. Calvert, M. Doar, E. Zegura, "Modeling Internet Topology", IEEE Communications Magazine 35(6), 1997.

    Examples
    --------
    >>> hierarchical(regions=3, region_size=5, seed=1).number_of_edges()
    15
    >>> len(hierarchical(regions=3, nodes=40, seed=1)), len(hierarchical(regions=[20, 12, 8], seed=1))
    (40, 40)
    """
    sizes = counted_sizes("hierarchical", regions, region_size, nodes, ("regions", "region_size"))
    count = len(sizes)
    if backbone == "full":
        _refuse_too_many("hierarchical", count * (count - 1) / 2, "regions")
    x, y = points(seed, sum(sizes), "hierarchical")
    graph = nx.Graph()
    for gateway in range(count):
        place = float(x[gateway]), float(y[gateway])
        graph.add_node(gateway, name=f"r{gateway}", position=place, region=gateway)
    graph.add_edges_from(_shape(backbone, count).edges())
    first = count
    for gateway, size in enumerate(sizes):
        member = [gateway, *range(first, first + size - 1)]
        first += size - 1
        for i, node in enumerate(member[1:], 1):
            near = (float(x[gateway] + (x[node] - 0.5) * 0.1), float(y[gateway] + (y[node] - 0.5) * 0.1))
            graph.add_node(node, name=f"r{gateway}.{i}", position=near, region=gateway)
        chance = _random(seed, "hierarchical/region", gateway)
        inside = _shape(region, size, chance)
        graph.add_edges_from((member[a], member[b]) for a, b in inside.edges())
    return graph


def attached(
    *,
    nodes: Annotated[int, Field(ge=2, le=NODES_MAX, description="number of brokers that dial others")],
    dials: Annotated[int, Field(ge=1, le=NODES_MAX, description="how many others each of them dials")],
    further: Annotated[int, Field(ge=0, le=NODES_MAX, description="number of further brokers")] = 0,
    links: Annotated[int, Field(ge=1, le=NODES_MAX, description="to how many of the first each is linked")] = 20,
    seed: int,
) -> nx.Graph:
    """Brokers that each dial so many others, drawn, and further ones that are linked to many of them.

    A link that two brokers dial is one. The further brokers are named `s0`, `s1`, …: sybils, say.

    Raises
    ------
    TopologyError
        If more links are asked for than there are brokers, or more than twenty million.

    Examples
    --------
    >>> graph = attached(nodes=8, dials=2, further=2, links=8, seed=1)
    >>> [graph.degree[node] for node in (8, 9)], graph.nodes[9]["name"]
    ([8, 8], 's1')
    """
    for key, count, most in (("dials", dials, nodes - 1), ("links", links if further else 0, nodes)):
        if count > most:
            raise TopologyError(f"attached: {key}: there are {most} brokers to be linked to (got {count})")
    _refuse_too_many("attached", float(nodes * dials + further * links), "dials or links")
    chance = _random(seed, "attached")
    graph = nx.empty_graph(nodes)
    for node in range(nodes):
        others = chance.sample(range(nodes - 1), dials)
        graph.add_edges_from((node, other + (other >= node)) for other in others)
    for number in range(further):
        graph.add_node(nodes + number, name=f"s{number}")
        graph.add_edges_from((nodes + number, node) for node in chance.sample(range(nodes), links))
    return graph


def counted_sizes(
    topology: str, many: int | list[int], size: int | None, nodes: int | None, keys: tuple[str, str]
) -> list[int]:
    """The size of each of many parts, from one of the three ways to say it; `keys` are the first two."""
    several, each = keys
    if isinstance(many, list):
        if size is not None or nodes is not None:
            raise TopologyError(f"{topology}: `{several}` lists the sizes already; leave out `{each}` and `nodes`")
        sizes = many
    elif (size is None) == (nodes is None):
        raise TopologyError(
            f"{topology}: say how large {several} are, in one way: `{each}`, or `nodes` for all together, or a "
            f"list of sizes as `{several}`"
        )
    elif nodes is not None:
        if nodes < many:
            least = "its gateway" if topology == "hierarchical" else "one broker"
            raise TopologyError(f"{topology}: {nodes} nodes for {many} {several}; each has at least {least}")
        sizes = [nodes // many + (number < nodes % many) for number in range(many)]
    else:
        assert size is not None
        if many * size > NODES_MAX:
            raise TopologyError(f"{topology}: {many} {several} of {size} make more than {NODES_MAX} brokers")
        sizes = [size] * many
    if sum(sizes) > NODES_MAX:
        raise TopologyError(f"{topology}: {several} of {sum(sizes)} brokers together; at most {NODES_MAX}")
    return sizes


def _shape(name: str, nodes: int, chance: Random | None = None) -> nx.Graph:
    if name == "full":
        return nx.complete_graph(nodes)
    if name == "star":
        return nx.star_graph(nodes - 1)
    if name == "ring" and nodes >= 3:
        return nx.cycle_graph(nodes)
    if name == "random-tree" and chance is not None and nodes > 2:
        return nx.from_prufer_sequence([chance.randrange(nodes) for _ in range(nodes - 2)])
    return nx.path_graph(nodes)


# ---- listed by hand ----------------------------------------------------------------------------------


class ListedBroker(BaseModel):
    """One broker of an explicit list, with a place if it has one: degrees, or a point of the plane."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    longitude: Annotated[float | None, Field(ge=-180, le=180)] = None
    latitude: Annotated[float | None, Field(ge=-90, le=90)] = None
    x: Annotated[float | None, Field(allow_inf_nan=False)] = None
    y: Annotated[float | None, Field(allow_inf_nan=False)] = None

    @model_validator(mode="after")
    def _whole(self) -> ListedBroker:
        if (self.longitude is None) != (self.latitude is None) or (self.x is None) != (self.y is None):
            raise ValueError("a place needs longitude and latitude, or x and y")
        return self


def explicit(
    *,
    nodes: Annotated[
        Annotated[int, Field(ge=1, le=NODES_MAX)] | list[str | ListedBroker] | None,
        Field(description="how many, or their names; without it, those that the links mention"),
    ] = None,
    links: Annotated[
        list[tuple[str | int, str | int]], Field(description="pairs of broker names or numbers")
    ],
    strict: Annotated[
        bool, Field(description="refuse repeated links, self-loops and several components")
    ] = True,
) -> nx.Graph:
    """Brokers and links as listed.

    Parameters
    ----------
    nodes : how many, or a list of names or of brokers with a place; left out, the brokers that the links
        mention
    links : pairs; a number means the broker at that place of the list, a text its name
    strict : what is repeated, looped or apart is an error; otherwise it is dropped, with a note

    Raises
    ------
    TopologyError
        If a link names a broker that is not listed, a name is listed twice, or as `strict` says.

    Examples
    --------
    >>> graph = explicit(links=[("oslo", "rome"), ("rome", "bern")])
    >>> [graph.nodes[b]["name"] for b in graph]
    ['oslo', 'rome', 'bern']
    """
    named = nodes is None
    listed: list[str | ListedBroker]
    if nodes is None:
        listed = list(dict.fromkeys(str(end) for link in links for end in link))
    elif isinstance(nodes, int):
        listed = [f"b{i}" for i in range(nodes)]
    else:
        listed = list(nodes)
    names: list[str] = []
    positions: list[tuple[float, float] | None] = []
    kinds: set[str] = set()
    for entry in listed:
        broker = ListedBroker(name=entry) if isinstance(entry, str) else entry
        names.append(clean_name(broker.name))
        if not names[-1]:
            raise TopologyError(f"explicit: broker {len(names) - 1} has an empty name")
        if broker.longitude is not None and broker.latitude is not None:
            positions.append((broker.longitude, broker.latitude))
            kinds.add("degrees")
        elif broker.x is not None and broker.y is not None:
            positions.append((broker.x, broker.y))
            kinds.add("plane")
        else:
            positions.append(None)
    if len(kinds) > 1:
        raise TopologyError(
            "explicit: some brokers have longitude and latitude, others x and y; use one of the two"
        )
    number: dict[str, int] = {}
    for i, name in enumerate(names):
        if number.setdefault(name, i) != i:
            raise TopologyError(f"explicit: broker {name!r} is listed twice")
    ends = []
    for i, link in enumerate(links):
        where = f"explicit: link {i} {list(link)!r}"
        a, b = (broker_number(_listed(e, number, named), number, where) for e in link)
        ends.append((a, b))
    coordinates = kinds.pop() if kinds else "plane"
    try:
        return simple_graph(names, positions, ends, where="explicit", coordinates=coordinates, strict=strict)
    except TopologyError as error:
        raise TopologyError(
            f"{error}" + ("; correct the list or say strict: false" if strict and names else "")
        ) from None


def _listed(end: str | int, number: dict[str, int], named: bool) -> str | int:
    """One end of a listed link: a text is a name as it was listed; where no names were, so is a number."""
    name = clean_name(end)
    return NAME + name if named or (isinstance(end, str) and name in number) else end


# ---- what they share ---------------------------------------------------------------------------------


def _random(seed: int, purpose: str, entity: int = 0) -> Random:
    """A generator of integers and floats whose whole sequence is fixed by the named draw."""
    from topology import draws

    return Random(int(draws.stream(seed, entity, f"topology/{purpose}")))


def _keys(seed: int, nodes: int, purpose: str) -> NDArray[np.uint64]:
    import numpy as np

    from topology import draws

    return draws.streams(draws.purpose_key(seed, f"topology/{purpose}"), np.arange(nodes, dtype=np.int64))


def points(seed: int, nodes: int, purpose: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from topology import draws

    return (
        draws.uniforms(draws.stream(seed, 0, f"topology/{purpose}/x"), 0, nodes),
        draws.uniforms(draws.stream(seed, 0, f"topology/{purpose}/y"), 0, nodes),
    )


def _placed(x: NDArray[np.float64], y: NDArray[np.float64]) -> nx.Graph:
    graph = nx.Graph()
    for node, place in enumerate(zip(x.tolist(), y.tolist())):
        graph.add_node(node, position=place)
    return graph


def _refuse_too_many(kind: str, expected: float, parameter: str) -> None:
    if expected > LINKS_MAX:
        raise TopologyError(
            f"{kind}: about {expected:.3g} links are to be expected, the limit is {LINKS_MAX}; "
            f"lower {parameter}"
        )


def _joined_by_lot(graph: nx.Graph, chance: Random) -> nx.Graph:
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda part: part[0])
    joined = list(parts[0])
    for part in parts[1:]:
        graph.add_edge(part[0], joined[chance.randrange(len(joined))])
        joined.extend(part)
    return _noting_joins(graph, len(parts))


def _joined_by_distance(graph: nx.Graph, x: NDArray[np.float64], y: NDArray[np.float64]) -> nx.Graph:
    """Prim's algorithm over the components, keeping each node's nearest joined node.

    O(n^2) array work at worst.
    """
    import numpy as np

    parts = [sorted(part) for part in nx.connected_components(graph)]
    if len(parts) == 1:
        return graph
    part_of = np.empty(len(x), np.int64)
    for p, part in enumerate(parts):
        part_of[part] = p
    nearest = np.full(len(x), np.inf)
    via = np.zeros(len(x), np.int64)
    outside = np.ones(len(x), bool)
    arriving = max(parts, key=lambda part: (len(part), -part[0]))
    for _ in range(len(parts) - 1):
        outside[arriving] = False
        waiting = np.flatnonzero(outside)
        for node in arriving:
            dx, dy = x[waiting] - x[node], y[waiting] - y[node]
            distance = dx * dx + dy * dy
            closer = distance < nearest[waiting]
            nearest[waiting[closer]] = distance[closer]
            via[waiting[closer]] = node
        best = int(waiting[np.argmin(nearest[waiting])])
        graph.add_edge(best, int(via[best]))
        arriving = parts[part_of[best]]
    return _noting_joins(graph, len(parts))


def _noting_joins(graph: nx.Graph, parts: int) -> nx.Graph:
    if parts > 1:
        graph.graph.setdefault("notes", []).append(
            f"{parts} components joined by {counted(parts - 1, 'added link')}"
        )
    return graph
