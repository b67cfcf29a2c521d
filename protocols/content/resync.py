"""Neighbours that compare what they know of each other: how `subscription` and `covering` recover from faults.

A broker has *told* a neighbour of interests (those that it passed on over their link), and the neighbour has *got*
some: the same, unless the link lost a message, or one of the two lost what it knew. So when a link is up again, each
end asks whether the other has told what it got:

    HELLO    digests of what I got from you, bucket by bucket of their ids; with the word `ANSWER`: and send me yours
    KEPT     in these buckets, which do not agree, you have been told of these interests and of no others

Before a KEPT go the interests themselves, as ordinary subscriptions; what the neighbour has of these buckets beside
them it drops, as if it had been withdrawn. Nothing is said where all digests agree.

Theory. Links are FIFO. What is told of a bucket when HELLO is handled is all that the neighbour has of it when KEPT
arrives there, and what was told before is there before it, so that a change which crosses a HELLO does no harm. A
broker passes an interest on over a link exactly as long as it came by a link, or from a client, that leads there; so
once all links agree, what all know follows from the brokers of the clients outwards. A table that was lost altogether
is a large difference, no other thing.

Nobody tells of a message that a link lost by itself, or in a cut that was over before anybody noticed: with
`check_every` brokers ask all along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator

from brokers.contract import FIRST_PROTOCOL_TYPE, NEVER, BrokerProtocol, Message
from brokers.faults import LINK_UP, RESTART
from brokers.fingerprint import draw, scramble
from brokers.promises import Faced, Recovery
from topology.units import PositiveDuration

HELLO, KEPT, CHECK = range(FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 3)
ANSWER = 1  # in the word of a HELLO
_PER_BUCKET = 8  # interests, about
_BUCKETS_MAX = 4096
WAITING_NS = 1_000_000_000  # what is allowed for queues, bandwidth and jitter in what is promised


class Recovers(BaseModel):
    """Options of protocols that recover, of services that say so."""

    model_config = ConfigDict(extra="forbid")

    recover: Annotated[
        bool, Field(description="compare tables with a neighbour whose link is up again, and after a crash with all")
    ] = False
    recover_within: Annotated[
        PositiveDuration | None,
        Field(
            description="what is promised then: how long after the last fault all is exact again; by default "
            "detection, delays and a second for queues"
        ),
    ] = None

    @model_validator(mode="after")
    def _only_with_recover(self) -> Recovers:
        if not self.recover and (self.recover_within or getattr(self, "check_every", None)):
            raise ValueError("`recover_within` and `check_every` are for services with `recover: true`")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Services that do not recover are told as before there was such a thing, and keep the ids of their runs."""
        return {key: value for key, value in dump(self).items() if key not in _SAID_IF_SO or value}


class Compares(Recovers):
    """Those of protocols with tables to compare."""

    check_every: Annotated[
        PositiveDuration | None,
        Field(description="with `recover`: compare them so often as well, for what nobody is told of"),
    ] = None


_SAID_IF_SO = frozenset({"recover", "recover_within", "check_every"})


def recovery_of(options: Any, overlay: Any, faced: Faced) -> Recovery | None:
    """What is promised: to be told, or to ask; to ask and be answered over a link; and to pass it on to everybody."""
    if not options.recover:
        return None
    every = options.check_every
    if options.recover_within:
        return Recovery(options.recover_within, every is not None)
    told = min(faced.detect_ns, NEVER if every is None else every)
    if told >= NEVER:
        return Recovery(NEVER)  # nobody is told: there is no time to state, and it is not noticed either
    way = faced.way_ns if overlay.is_tree or options.routing == "per-publisher" else 2 * faced.way_ns
    return Recovery(max(told, every or 0) + 2 * faced.link_ns + way + WAITING_NS, every is not None)


@njit(cache=True)
def _digests(ids, count):
    """By bucket, the sum of scrambled ids; a number that any wire format has."""
    found = np.zeros(count, np.uint64)
    for id_ in ids:
        mixed = draw(id_, 1)
        found[mixed & np.uint64(count - 1)] += scramble(mixed)
    for bucket in range(count):
        found[bucket] >>= np.uint64(1)
    return found


@njit(cache=True)
def _bucket_of(ids, count):
    found = np.empty(ids.size, np.int64)
    for i in range(ids.size):
        found[i] = draw(ids[i], 1) & np.uint64(count - 1)
    return found


def digests(ids: Iterable[int], count: int) -> list[int]:
    """What is compared of these ids, by bucket; `count` of them, a power of two."""
    found: NDArray[np.uint64] = _digests(_array(ids), count)
    return found.tolist()


def _array(ids: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(ids, np.int64)


class Resynchronising(BrokerProtocol):
    """A broker that compares; which interests were told and got, how one is told and dropped, is its protocol's."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        every = node.options.check_every
        if every:
            self.timer_min_ns = every

    @classmethod
    def wants_faults(cls, options: Any) -> bool:
        return bool(options.recover)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        return recovery_of(options, overlay, faced)

    def told(self, link: int) -> list[int]:
        """The interests that were passed on over a link, ascending."""
        raise NotImplementedError

    def got(self, link: int) -> list[int]:
        """Those that came over it."""
        raise NotImplementedError

    def tell(self, message: Message, link: int, id: int) -> None:
        """Send an interest over a link once more."""
        raise NotImplementedError

    def drop(self, message: Message, link: int, id: int) -> None:
        """Forget that an interest came over a link."""
        raise NotImplementedError

    def first_timers(self) -> list[tuple[int, int, int]]:
        every = self.node.options.check_every
        return [(every, CHECK, 0)] if every else []

    def on_fault(self, message: Message) -> None:
        if not self.node.options.recover:
            return
        if message.type == LINK_UP and message.link in self.node.links:
            self._ask(message, message.link, 0)
        elif message.type == RESTART:
            for link in self.node.links:
                self._ask(message, link, ANSWER)

    def compare(self, message: Message) -> None:
        """Handle what neighbours and timers say of comparing."""
        node = self.node
        if message.type == HELLO:
            self._answer(message)
            if message.word == ANSWER:
                self._ask(message, message.link, 0)
        elif message.type == KEPT:
            self._keep(message)
        elif message.type == CHECK:
            for link in node.links:
                self._ask(message, link, 0)
            if message.time + node.options.check_every < node.env.duration_ns:
                node.timer(message, node.options.check_every, CHECK)

    def _ask(self, message: Message, link: int, word: int) -> None:
        got = self.got(link)
        count = 1
        while count * _PER_BUCKET < len(got) and count < _BUCKETS_MAX:
            count *= 2
        self.node.send(message, link, HELLO, {"digests": digests(got, count)}, word)

    def _answer(self, message: Message) -> None:
        theirs = self.node.body(message)["digests"]
        told = self.told(message.link)
        count = len(theirs)
        wrong = [bucket for bucket, one in enumerate(digests(told, count)) if one != theirs[bucket]]
        if not wrong:
            return
        here = np.isin(_bucket_of(_array(told), count), wrong)
        ids = [id_ for id_, is_wrong in zip(told, here.tolist()) if is_wrong]
        for id_ in ids:
            self.tell(message, message.link, id_)
        self.node.send(message, message.link, KEPT, {"count": count, "buckets": wrong, "ids": ids})

    def _keep(self, message: Message) -> None:
        said: Mapping[str, Any] = self.node.body(message)
        got = self.got(message.link)
        inside = np.isin(_bucket_of(_array(got), said["count"]), said["buckets"]).tolist()
        kept = frozenset(said["ids"])
        for id_, is_inside in zip(got, inside):
            if is_inside and id_ not in kept:
                self.drop(message, message.link, id_)
