"""The overlay: what the engine needs of a network, as plain arrays.

Rules. Brokers are numbered 0..n-1. A link joins two different brokers, is listed once with its lower end
first, and links are sorted by (a, b). Link e carries two directed links, 2e from a to b and 2e+1 from b to a,
so that `l ^ 1` is the opposite direction. Every delay is at least one nanosecond. `build` delivers connected
overlays only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from topology.errors import TopologyError
from topology.numbers import Numbers

if TYPE_CHECKING:
    from topology.described import Described

NEVER = 2**62
BURSTS = 4  # columns of `Overlay.bursts`


class Adjacency(NamedTuple):
    """Neighbours by broker: those of b are at start[b]:start[b+1], in ascending order."""

    start: NDArray[np.int64]
    neighbour: NDArray[np.int32]
    link: NDArray[np.int32]  # undirected link numbers


@dataclass(frozen=True, eq=False)
class Overlay:
    """Brokers and links."""

    names: tuple[str, ...]
    position: NDArray[np.float64]  # (longitude, latitude) or plane (x, y); NaN where unknown
    link_a: NDArray[np.int32]
    link_b: NDArray[np.int32]
    delay_ns: NDArray[np.int64]
    jitter_ns: NDArray[np.int64]
    bandwidth_bps: NDArray[np.int64]  # 0 = unlimited
    loss: NDArray[np.float64]
    notes: tuple[str, ...] = ()
    servers: int = 0  # the last so many nodes are servers; see `topology.servers`
    # By link: how likely a good one turns bad and a bad one good, and what either loses; zeros where `loss` is all.
    bursts: NDArray[np.float64] | None = None
    region: NDArray[np.int64] | None = None  # by broker, where the topology has regions
    on_globe: bool = False  # positions are degrees
    latent: NDArray[np.bool_] | None = None  # by link, whether it carries nothing until somebody opens it
    described: Described | None = None  # what links are like that brokers without one may open
    open_most: int = 0  # how many latent ones a broker may have open at once; 0: any number

    def __post_init__(self) -> None:
        n, size = len(self.names), len(self.link_a)
        if n == 0:
            raise TopologyError("an overlay needs at least one broker")
        if self.position.shape != (n, 2):
            raise TopologyError(f"positions have shape {self.position.shape}, {n} brokers need ({n}, 2)")
        for field in ("link_b", "delay_ns", "jitter_ns", "bandwidth_bps", "loss"):
            if len(getattr(self, field)) != size:
                raise TopologyError(f"{field} has {len(getattr(self, field))} values for {size} links")
        if self.bursts is not None and self.bursts.shape != (size, BURSTS):
            raise TopologyError(f"bursts have shape {self.bursts.shape}, {size} links need ({size}, {BURSTS})")
        if self.latent is not None and self.latent.shape != (size,):
            raise TopologyError(f"latent has {len(self.latent)} values for {size} links")
        a, b = self.link_a.astype(np.int64), self.link_b.astype(np.int64)
        if size and not (a.min() >= 0 and b.max() < n and bool((a < b).all())):
            raise TopologyError("links must join brokers 0..n-1, the lower end first")
        if not bool((np.diff(a * n + b) > 0).all()):
            raise TopologyError("links must be sorted by (a, b) and not repeat")
        for field, good in (
            ("delay_ns", self.delay_ns >= 1),
            ("jitter_ns", self.jitter_ns >= 0),
            ("bandwidth_bps", self.bandwidth_bps >= 0),
            ("loss", (self.loss >= 0) & (self.loss < 1)),
        ):
            if not bool(good.all()):
                worst = int(np.argmin(good))
                raise TopologyError(
                    f"link {self.names[a[worst]]} - {self.names[b[worst]]}: "
                    f"{field} is {getattr(self, field)[worst]}"
                )

    @property
    def brokers(self) -> int:
        """Number of brokers."""
        return self.nodes - self.servers

    @property
    def nodes(self) -> int:
        """Number of brokers and servers; the servers come last."""
        return len(self.names)

    @property
    def links(self) -> int:
        """Number of undirected links."""
        return len(self.link_a)

    @cached_property
    def degree(self) -> NDArray[np.int32]:
        """Links per broker, without latent ones."""
        both = np.concatenate([self.link_a[self._standing], self.link_b[self._standing]])
        return np.bincount(both, minlength=self.nodes).astype(np.int32)

    @cached_property
    def adjacency(self) -> Adjacency:
        """Neighbours by broker, over links that are not latent."""
        standing = self._standing
        found = adjacency(self.nodes, self.link_a[standing], self.link_b[standing])
        return found._replace(link=standing[found.link])

    @cached_property
    def _standing(self) -> NDArray[np.int32]:
        """The links that are not latent."""
        return np.flatnonzero(np.ones(self.links, np.bool_) if self.latent is None else ~self.latent).astype(np.int32)

    @property
    def has_latent(self) -> bool:
        """Whether the network may get more links than it has."""
        return self.latent is not None or self.described is not None

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of directed links that are described."""
        return Numbers(2 * self.links, self.nodes)

    @cached_property
    def is_tree(self) -> bool:
        """Whether there is exactly one path between any two brokers."""
        return self._standing.size == self.nodes - 1 and bool((hops_from(self.adjacency, 0) >= 0).all())

    def broker(self, reference: str | int) -> int:
        """The number of the broker with this name or number; see `broker_number`."""
        return broker_number(reference, {name: b for b, name in enumerate(self.names)}, "broker")

    def brokers_like(self, reference: str | int) -> list[int]:
        """The brokers whose names are like `b*`; of any other reference the one that it means."""
        names = self.names[: self.brokers]
        if not isinstance(reference, str) or "*" not in reference or reference in names:
            return [self.broker(reference)]
        found = [number for number, name in enumerate(names) if fnmatchcase(name, reference)]
        if not found:
            raise TopologyError(f"broker: no broker has a name like {reference!r}")
        return found


def adjacency(n: int, link_a: NDArray[np.int32], link_b: NDArray[np.int32]) -> Adjacency:
    """Neighbour lists of `n` nodes. O(E log E)."""
    source = np.concatenate([link_a, link_b]).astype(np.int64)
    target = np.concatenate([link_b, link_a]).astype(np.int64)
    link = np.tile(np.arange(len(link_a), dtype=np.int32), 2)
    order = np.lexsort((link, target, source))
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=start[1:])
    return Adjacency(start, target[order].astype(np.int32), link[order])


def hops_from(graph: Adjacency, origin: int) -> NDArray[np.int32]:
    """Hops from `origin` to every node, -1 where there is no path. O(n + E)."""
    start, neighbour = graph.start.tolist(), graph.neighbour.tolist()
    hops = [-1] * (len(start) - 1)
    hops[origin] = 0
    frontier = [origin]
    while frontier:
        following = []
        for node in frontier:
            for other in neighbour[start[node] : start[node + 1]]:
                if hops[other] < 0:
                    hops[other] = hops[node] + 1
                    following.append(other)
        frontier = following
    return np.array(hops, np.int32)


NAME, NUMBER = "name:", "number:"  # what a reference may begin with, to leave no doubt


def broker_number(reference: str | int, number_of: Mapping[str, int], where: str) -> int:
    """The broker that a name or a number means; `number_of` maps all names in order.

    Graphs from files often have numbers for names. Where a number is that of one broker and the name of another,
    TopologyError shows both, and how to say which: `number:5` or `name:5`.
    """
    text = str(reference)
    named = number_of.get(text)
    if named is None and text.startswith(NAME):
        text = text.removeprefix(NAME)
        if text not in number_of:
            raise TopologyError(f"{where}: there is no broker named {text!r}{did_you_mean(text, list(number_of))}")
        return number_of[text]
    only_number = named is None and text.startswith(NUMBER)
    numbered = _as_number(text.removeprefix(NUMBER) if only_number else text, len(number_of))
    if named is not None and numbered is not None and named != numbered:
        other = next(name for name, number in number_of.items() if number == numbered)
        raise TopologyError(
            f"{where}: {text} may mean broker number {numbered}, whose name is {other!r}, or the broker named "
            f"{text!r}, whose number is {named}; write {NUMBER}{text} or {NAME}{text}"
        )
    found = numbered if named is None else named
    if found is not None:
        return found
    if only_number or isinstance(reference, int) or (text.isascii() and text.isdigit()):
        raise TopologyError(
            f"{where}: there is no broker {text.removeprefix(NUMBER)}; they are numbered 0 to {len(number_of) - 1}"
        )
    raise TopologyError(f"{where}: there is no broker named {text!r}{did_you_mean(text, list(number_of))}")


def _as_number(text: str, brokers: int) -> int | None:
    """The broker number that a text is, if it is one; 07 is a name."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(brokers)) or text != str(int(text)):
        return None
    return int(text) if int(text) < brokers else None


def broker_label(number: int, names: Sequence[str]) -> str:
    """A broker as it is shown: by its name, which can be given back; name:10 where that might be a number."""
    name = names[number]
    return f"{NAME}{name}" if name.isascii() and name.isdigit() and name != str(number) else name


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A closing half sentence with the nearest name, or with what there is."""
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    return f"; there are: {shown}" if known else ""
