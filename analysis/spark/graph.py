"""What the overlay of a run says about it: distances, what lies behind a link, how long a message may travel.

Everything here is computed on the driver from the tables `brokers` and `links`, whose size is that of the
overlay and not of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import RunDamaged

if TYPE_CHECKING:
    import pyarrow as pa

    from brokers.engine.runfolder import RunFolder

Ints = NDArray[np.int64]
_SLOW = 1  # `what` in the table of faults


class Behind(NamedTuple):
    """The brokers that a message can reach only over a link, by the numbers in `Network.place`.

    Those with low <= place < high if `inside`, else all others.
    """

    low: int
    high: int
    inside: bool


@njit(cache=True)
def _distances(source, start, target, weight, distance):
    """Dijkstra over adjacency lists, with a binary heap in two arrays. O(E log E)."""
    distance[:] = -1
    key = np.empty(target.size + 1, np.int64)
    node = np.empty(target.size + 1, np.int64)
    size = 1
    key[0], node[0] = 0, source
    while size > 0:
        d, b = key[0], node[0]
        size -= 1
        last_key, last_node = key[size], node[size]
        i = 0
        while True:
            child = 2 * i + 1
            if child >= size:
                break
            if child + 1 < size and key[child + 1] < key[child]:
                child += 1
            if key[child] >= last_key:
                break
            key[i], node[i] = key[child], node[child]
            i = child
        key[i], node[i] = last_key, last_node
        if distance[b] >= 0:
            continue
        distance[b] = d
        for j in range(start[b], start[b + 1]):
            x = target[j]
            if distance[x] < 0:
                i = size
                size += 1
                reached = d + weight[j]
                while i > 0 and key[(i - 1) // 2] > reached:
                    key[i], node[i] = key[(i - 1) // 2], node[(i - 1) // 2]
                    i = (i - 1) // 2
                key[i], node[i] = reached, x


@dataclass(frozen=True)
class Network:
    """The overlay as the trace describes it. Directed links 2e and 2e + 1 are the two directions of one."""

    names: tuple[str, ...]
    source: Ints
    target: Ints
    delay_ns: Ints
    slack_ns: Ints  # per link: how much longer than its delay a message can take
    work_ns: Ints  # per broker: how long its queue was at work in all
    kept_ns: int = 0  # how much longer it may take what brokers keep for clients that are away
    latent: NDArray[np.bool_] | None = None  # per link: whether it is there only at times; None: none is
    opens: bool = True  # whether anybody may open those
    loss: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # per link: the share that it loses

    @classmethod
    def of(cls, run: RunFolder, opens: bool = True) -> Network:
        """Read from the run's tables. Where nobody `opens` latent links, nothing goes over any."""
        links, brokers = run.read("links").sort_by("link"), run.read("brokers").sort_by("broker")
        _refuse_impossible(run, links, brokers)
        names = ("from", "to", "delay_ns", "busy_ns", "latent")
        column = {name: links[name].to_numpy().astype(np.int64) for name in names}
        latent = column["latent"] != 0
        slack = column["busy_ns"] + _jitter_max(run.manifest["scenario"])
        work = brokers["busy_ns"].to_numpy().copy()
        _add_faults(run, slack, work)
        return cls(
            tuple(brokers["name"].to_pylist()), column["from"], column["to"], column["delay_ns"], slack, work,
            _kept_max(run.manifest["scenario"]), latent if latent.any() else None, opens,
            _losses(run.manifest["scenario"], brokers["name"].to_pylist(), column["from"][::2], column["to"][::2]),
        )  # fmt: skip

    @property
    def brokers(self) -> int:
        return len(self.names)

    @property
    def links(self) -> int:
        """How many undirected ones there are."""
        return self.source.size // 2

    @property
    def link_a(self) -> Ints:
        """The one end of each undirected link, as an overlay has it."""
        return self.source[::2]

    @property
    def link_b(self) -> Ints:
        """The other end."""
        return self.target[::2]

    @property
    def has_latent(self) -> bool:
        """Whether some of the links are there only at times."""
        return self.latent is not None

    @property
    def is_tree(self) -> bool:
        """Whether there is one path between any two brokers, but for latent links; a run's overlay is connected."""
        latent = 0 if self.latent is None else int(self.latent.sum())
        return self.source.size - latent == 2 * (self.brokers - 1)

    @cached_property
    def _carrying(self) -> Ints:
        """The links that may carry anything."""
        carries = np.ones(self.source.size, np.bool_) if self.latent is None or self.opens else ~self.latent
        return np.flatnonzero(carries)

    @cached_property
    def _start(self) -> tuple[Ints, Ints]:
        links = self._carrying
        order = links[np.lexsort((self.target[links], self.source[links]))]
        start = np.zeros(self.brokers + 1, np.int64)
        np.cumsum(np.bincount(self.source[links], minlength=self.brokers), out=start[1:])
        return start, order

    def distances(self, source: int, by: str = "delay") -> Ints:
        """From one broker to all: nanoseconds of the quickest path, or `by` "hops" links of the shortest one."""
        start, order = self._start
        weight = self.delay_ns[order] if by == "delay" else np.ones(order.size, np.int64)
        distance = np.empty(self.brokers, np.int64)
        _distances(source, start, self.target[order], weight, distance)
        return distance

    @cached_property
    def place(self) -> Ints:
        """A number per broker, such that what lies behind a link are the numbers in an interval."""
        return self._numbered[0]

    def behind(self, link: int) -> Behind:
        """Who is reached only over this directed link; everyone, if there is a way around it."""
        enter, leave, parent_link, bridge = self._numbered
        for child, inside in ((int(self.target[link]), True), (int(self.source[link]), False)):
            if parent_link[child] >> 1 == link >> 1 and parent_link[child] >= 0:
                if bridge[child]:
                    return Behind(int(enter[child]), int(leave[child]), inside)
                break
        return Behind(0, self.brokers, True)

    def is_behind(self, broker: int, link: int) -> bool:
        """Whether what was lost on this directed link can have been on its way to the broker."""
        low, high, inside = self.behind(link)
        return (low <= self.place[broker] < high) == inside

    @cached_property
    def _numbered(self) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
        """Depth first from broker 0: (enter, leave, link from the parent, whether that link is a bridge)."""
        start, order = self._start
        n = self.brokers
        enter, leave, low = [-1] * n, [0] * n, [0] * n
        parent_link = [-1] * n
        at = start[:-1].tolist()
        end, links, target = start[1:].tolist(), order.tolist(), self.target.tolist()
        source = self.source.tolist()
        enter[0], number, stack = 0, 1, [0]
        while stack:
            b = stack[-1]
            if at[b] < end[b]:
                link = links[at[b]]
                at[b] += 1
                x = target[link]
                if enter[x] < 0:
                    enter[x] = low[x] = number
                    number += 1
                    parent_link[x] = link
                    stack.append(x)
                elif link != parent_link[b] ^ 1 or parent_link[b] < 0:
                    low[b] = min(low[b], enter[x])
            else:
                stack.pop()
                leave[b] = number
                if parent_link[b] >= 0:
                    parent = source[parent_link[b]]
                    low[parent] = min(low[parent], low[b])
        bridge = np.array([parent_link[b] >= 0 and low[b] == enter[b] for b in range(n)])
        return np.array(enter), np.array(leave), np.array(parent_link), bridge

    @cached_property
    def travel_ns_max(self) -> int:
        """Longer than this no message takes from broker to broker without meeting one twice.

        A queue makes nobody wait for longer than it was at work in the whole run, a link for longer than it
        was transmitting. On a tree the bound is its longest path; else that of a path over all brokers.
        """
        weight = (self.delay_ns + self.slack_ns).reshape(-1, 2).max(axis=1)
        if self._carrying.size != 2 * (self.brokers - 1):
            return int(np.sort(weight)[::-1][: self.brokers - 1].sum() + self.work_ns.sum()) + self.kept_ns
        ends, far = 0, 0
        for _ in range(2):  # the farthest from the farthest
            reach = self._sweep(ends, weight)
            ends = int(np.argmax(reach))
            far = int(reach[ends])
        return far + self.kept_ns

    def _sweep(self, root: int, weight: Ints) -> Ints:
        start, order = self._start
        reach = np.full(self.brokers, -1, np.int64)
        reach[root] = self.work_ns[root]
        stack = [root]
        while stack:
            b = stack.pop()
            for link in order[start[b] : start[b + 1]].tolist():
                x = self.target[link]
                if reach[x] < 0:
                    reach[x] = reach[b] + weight[link >> 1] + self.work_ns[x]
                    stack.append(int(x))
        return reach


def _refuse_impossible(run: RunFolder, links: pa.Table, brokers: pa.Table) -> None:
    """Numbers that are none of this overlay would lead kernels astray."""
    for table, column in ((brokers, "broker"), (links, "link")):
        if not np.array_equal(table[column].to_numpy(), np.arange(len(table))):
            raise RunDamaged.at(run.path, f"table {column + 's'!r} does not count its rows from 0 in {column!r}")
    for end in ("from", "to"):
        at = links[end].to_numpy()
        if at.size and not 0 <= at.min() <= at.max() < len(brokers):
            raise RunDamaged.at(run.path, f"table 'links' has an end at a broker that is none of {len(brokers)}")


def _add_faults(run: RunFolder, slack: Ints, work: Ints) -> None:
    """Links that take longer for a while, and brokers that pause or are slow meanwhile."""
    faults = run.read("faults", ["what", "broker", "link", "begin_ns", "end_ns", "delay_ns"])
    column = {name: faults[name].to_numpy() for name in faults.column_names}
    for name, count in (("link", slack.size), ("broker", work.size)):
        if faults.num_rows and not -1 <= column[name].min() <= column[name].max() < count:
            raise RunDamaged.at(run.path, f"table 'faults' has a {name} that is none of {count}")
    worn = column["link"] >= 0
    np.add.at(slack, column["link"][worn], column["delay_ns"][worn])
    slow = column["what"] == _SLOW
    np.add.at(work, column["broker"][slow], (column["end_ns"] - column["begin_ns"])[slow])


def _kept_max(scenario: dict[str, Any]) -> int:
    """Handed over again and again, what is kept may come at any time of the run."""
    kept = any(group.get("session") for group in scenario.get("clients", {}).values())
    return int(scenario["duration"] + scenario["drain"]) if kept else 0


def _jitter_max(scenario: dict[str, Any]) -> int:
    links = scenario.get("links", {})
    overrides = [each.get("jitter") or 0 for each in links.get("overrides", [])]
    return max([links.get("jitter") or 0, *overrides])


def _losses(scenario: dict[str, Any], names: list[str], a: Ints, b: Ints) -> NDArray[np.float64]:
    """The share that each link loses, where that is a number; 1 where it is bursts."""
    links = scenario.get("links", {})
    number = {name: i for i, name in enumerate(names)}
    found = np.full(a.size, _share(links.get("loss")))
    for each in links.get("overrides", []):
        if "loss" in each:
            ends = {end if isinstance(end, int) else number.get(end, -1) for end in each["between"]}
            found[[{one, other} == ends for one, other in zip(a.tolist(), b.tolist())]] = _share(each["loss"])
    return found


def _share(loss: Any) -> float:
    return float(loss or 0.0) if not isinstance(loss, dict) else 1.0
