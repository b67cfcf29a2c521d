"""The room of links: what they are, what they carried, and what is under way on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.bodies import Bodies
from brokers.contract import Ints, LinkTable
from brokers.engine import heads
from brokers.engine import layout as L
from brokers.engine.bursts import table_of
from brokers.engine.causes import Causes
from brokers.engine.exchange import Outbox
from brokers.engine.rings import Rings
from topology import draws


class Links:
    """The directed links of an overlay, and those of them that a shard keeps: the ones that leave its brokers."""

    def __init__(self, overlay: Any, seed: int, assignment: NDArray[np.int32], number: int) -> None:
        self.table = LinkTable.of(overlay)
        self.names: Sequence[str] = overlay.names
        self._assignment = assignment
        self.peer_of = assignment[self.table.target]
        self.local = assignment == number  # by broker
        count = self.count
        self._described, self.numbers = overlay.described, overlay.numbers
        self._arisen: dict[int, int] = {}  # by number of a link that is described, its row
        self._posting = np.array([L.NEVER, 0, L.NEVER, L.NEVER], np.int64)
        if self._described is not None:
            self._posting[:] = count, self.local.size, self._described.shortest_ns, count + self.local.size
        self.facts = np.zeros((count, L.LINK_FACTS), np.int64)
        self.facts[:, L.F_DELAY] = self.table.delay_ns
        self.facts[:, L.F_JITTER] = np.repeat(overlay.jitter_ns, 2)
        self.facts[:, L.F_BANDWIDTH] = np.repeat(overlay.bandwidth_bps, 2)
        self.facts[:, L.F_TARGET] = self.table.target
        self.facts[:, L.F_LOCAL] = self.local[self.table.target]
        self.link_state = np.zeros((count, L.LINK_STATE), np.int64)
        loss = np.repeat(overlay.loss, 2)
        self.loss_limit = np.array([int(p * 2.0**64) for p in loss], np.uint64)
        self.link_source = self.table.source
        self._bursts = table_of(overlay.bursts)
        ends = (self.table.source.astype(np.int64) << 32) | self.table.target
        self._loss_key = draws.streams(draws.purpose_key(seed, "link/loss"), ends)
        self._jitter_key = draws.streams(draws.purpose_key(seed, "link/jitter"), ends)
        sources = self.table.source[self.table.in_link].astype(np.int64)
        self._in_source = np.where(self.local[sources], sources, -1)
        self.in_delay = self.table.delay_ns[self.table.in_link]
        self._lanes = self._lanes_by_broker(sources)
        self.rings = Rings(count, self.local.size, self.describes)
        self._heads = heads.empty(count, self.local.size, self.table.source)
        self.outbox = Outbox()

    def arrays(self) -> dict[str, Any]:
        """What kernels see of the links; `arena` and `outbox` are replaced when they grow."""
        return {
            "facts": self.facts, "link_state": self.link_state, "loss_limit": self.loss_limit,
            "posting": self._posting,
            "bursts": self._bursts, "loss_key": self._loss_key, "jitter_key": self._jitter_key,
            "link_source": self.link_source,
            "in_start": self.table.in_start, "in_source": self._in_source, "in_delay": self.in_delay,
            "rings": self.rings.table, "arena": self.rings.arena, "arena_used": self.rings.used,
            "ring_wanted": self.rings.wanted, "outbox": self.outbox.rows, "outbox_used": self.outbox.used,
            **self._lanes, **self._heads,
        }  # fmt: skip

    def _lanes_by_broker(self, sources: Ints) -> dict[str, Ints]:
        """The rings that each broker reads: of the links that reach it, then of its timers and its post."""
        brokers = self.local.size
        own = 1 if self._described is None else 2  # the order of a post is that of its first row
        behind = np.repeat(self.table.in_start[1:], own)
        each = np.arange(brokers)[:, None] + np.arange(own) * brokers
        order = np.insert(sources, behind, (L.TIMER_ORDER + each).ravel())
        ring = np.insert(self.table.in_link.astype(np.int64), behind, (self.count + each).ravel())
        start = self.table.in_start.astype(np.int64) + own * np.arange(brokers + 1)
        return {"lane_start": start, "lane_ring": ring, "lane_order": order}

    @property
    def count(self) -> int:
        """How many are listed."""
        return self.table.source.size

    @property
    def mine(self) -> Ints:
        """The links that leave local brokers."""
        return np.flatnonzero(self.local[self.table.source])

    @property
    def fan_in(self) -> int:
        """The most rings of links that one broker reads."""
        return int(np.diff(self.table.in_start).max(initial=0)) + (self._described is not None)

    def patience_ns(self) -> Ints:
        """By broker, half the delay of its shortest in-link: how long it waits for more."""
        shortest = np.full(self.local.size, L.NEVER, np.int64)
        np.minimum.at(shortest, self.table.target, self.table.delay_ns)
        return np.minimum(shortest, self._posting[L.P_SHORTEST]) // 2

    def ends(self, link: int) -> tuple[int, int]:
        """From which broker to which a link runs."""
        if link < self.count:
            return int(self.table.source[link]), int(self.table.target[link])
        return self.numbers.source(link), self.numbers.target(link)

    def name(self, link: int) -> str:
        """A link as errors name it."""
        source, target = self.ends(link)
        return f"link {link} ({self.names[source]} to {self.names[target]})"

    # ---- links that are described --------------------------------------------------------------------

    @property
    def describes(self) -> bool:
        """Whether there are any."""
        return self._described is not None

    def growing(self) -> dict[str, tuple[Any, str]]:
        """Where arrays are that get a row for each of them that is sent over."""
        return {name: (self, name) for name in ("facts", "link_state", "loss_limit", "link_source")}

    def rows_of(self, links: Ints) -> Ints:
        """The rows of links by number, which are made of those that are described and have none; -1 of no link."""
        far = links >= self.count
        if not far.any():
            return links
        asked = links[far].tolist()
        new = sorted({number for number in asked if number not in self._arisen and self._may_arise(number)})
        if new:
            self._arise(np.array(new, np.int64))
        rows = links.copy()
        rows[far] = [self._arisen.get(number, -1) for number in asked]
        return rows

    def _may_arise(self, number: int) -> bool:
        ends = self.ends(number)
        return number < self.numbers.end and ends[0] != ends[1]

    def _arise(self, numbers: Ints) -> None:
        """Make rows of links that are described. O(links that arose), amortised."""
        assert self._described is not None
        source, target = self.numbers.source(numbers), self.numbers.target(numbers)
        first = self.count + len(self._arisen)
        last = first + numbers.size
        if last > len(self.facts):
            for name in self.growing():
                known = getattr(self, name)
                grown = np.zeros((2 * last, *known.shape[1:]), known.dtype)
                grown[:first] = known[:first]
                setattr(self, name, grown)
        self._arisen.update(zip(numbers.tolist(), range(first, last)))
        self.facts[first:last, L.F_DELAY] = self._described.delays(source, target)
        self.facts[first:last, L.F_TARGET] = target
        self.facts[first:last, L.F_LOCAL] = self.local[target]
        self.link_source[first:last] = source

    def rings_over(self, links: Ints) -> Ints:
        """The rings that take what is sent over links, by number."""
        return np.where(links < self.count, links, self._posting[L.P_RINGS] + self.numbers.target(links))

    def peers_of(self, links: Ints) -> NDArray[np.int32]:
        """The shards that carry their far ends."""
        near = np.minimum(links, self.count - 1)
        return np.where(links < self.count, self.peer_of[near], self._assignment[self.numbers.target(links)])

    def arisen(self) -> tuple[Ints, Ints]:
        """The numbers of those that are described and that local brokers have sent over, in order, and their state."""
        numbers = np.array(sorted(self._arisen), np.int64)
        return numbers, self.link_state[[self._arisen[number] for number in numbers.tolist()]]

    def timer_rings(self, brokers: Ints) -> Ints:
        """The rings that hold the timers of brokers."""
        return self.rings.links + brokers

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self, bodies: Bodies, causes: Causes) -> dict[str, Any]:
        """What local links carried, and what is under way; its bodies by uid and its causes by key."""
        ring, rows = self.rings.rows()
        arisen, arisen_state = self.arisen()
        body = rows[:, L.M_PACKED] >> 24
        return {
            "links": self.mine,
            "link_state": self.link_state[self.mine],
            "arisen": arisen,
            "arisen_state": arisen_state,
            "lane": ring,
            "under_way": rows,
            "under_way_uid": bodies.uids(body),
            "under_way_cause": causes.keys(rows[:, L.M_CAUSE]),
        }

    def load(
        self,
        states: Sequence[dict[str, Any]],
        handle_of: dict[int, int],
        bodies: Bodies,
        causes: Causes,
        lane: int = 0,
    ) -> tuple[Ints, Ints]:
        """Take over, from the states of all shards, what is ours; (broker, time) of everything under way to it."""
        brokers, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for state in states:
            self.link_state[state["links"]] = state["link_state"]
            leaving = self.local[self.numbers.source(state["arisen"])]
            rows = self.rows_of(state["arisen"][leaving])  # before, since it may replace the array
            self.link_state[rows] = state["arisen_state"][leaving]
            ring = state["lane"]
            target = (ring - self.rings.links) % self.local.size
            on_link = ring < self.rings.links
            target[on_link] = self.table.target[ring[on_link]]
            mine = np.flatnonzero(self.local[target])
            rows = state["under_way"][mine].copy()
            body = np.array([handle_of.get(u, -1) for u in state["under_way_uid"][mine].tolist()], np.int64)
            rows[:, L.M_PACKED] = (body << 24) | (rows[:, L.M_PACKED] & 0xFFFFFF)
            rows[:, L.M_CAUSE] = causes.handles(state["under_way_cause"][mine])
            bodies.carry(body, 1, lane)
            self.rings.put(ring[mine], rows)
            brokers.append(target[mine])
            times.append(rows[:, L.M_TIME])
        return np.concatenate(brokers), np.concatenate(times)
