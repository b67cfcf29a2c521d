"""Plumtree: publications go along a tree that grows out of the first of them; who only heard of one asks for it.

Rules:
- A broker's neighbours are *eager* or *lazy*; all begin as eager. A publication goes to the eager ones at once
  (GOSSIP, with the round: how many times it was passed on before), and the lazy ones are told of it after `dispatch`
  (IHAVE, with the round that it would come with).
- GOSSIP. Who has the publication makes the sender lazy and sends PRUNE. Who has not delivers it, passes it on in the
  next round to all eager neighbours but the sender, has it announced to all lazy ones but the sender, forgets who
  announced it, and then optimises.
- PRUNE makes the sender lazy.
- IHAVE of what is not there: the announcement is noted, and unless a timer of that publication is set, one of `t1`.
- The timer: if the publication has come meanwhile, that is all. Otherwise the first announcement that was noted is
  taken off, its sender made eager and sent GRAFT with the publication's id, and the timer set again, with `t2`. Where
  no announcement is left, nothing is done until another comes.
- GRAFT makes the sender eager, and what it names is sent, if it is cached still: for `cache` after it came.
- Optimise: if the lowest round that was announced is less by `threshold` or more than the one in which the publication
  came, that sender is made eager by a GRAFT which names nothing, and who sent the publication lazy by PRUNE; unless
  they are the same.
- A new neighbour is eager; one that has gone is forgotten, and so is what it announced.
- Which publications came is remembered for `ids` after each was sent; copies and announcements of older ones are
  dropped unread.

Two things are not as in other programs. An IHAVE is of one publication, and each waits `dispatch` by itself, where
others put what waits into one message. So whatever is sent for a publication stands for it, and what a link loses of it
excuses nothing else. And who is no neighbour any more is made neither eager nor lazy.

Theory. Over E links between n brokers that lose nothing, the first publication goes over each link but those of the
tree twice: 2E - (n - 1) copies, and as many PRUNEs as copies too many, 2 (E - (n - 1)). Where delays stay the same the
eager links are a tree of shortest ways then, and the next one from there takes n - 1 copies and 2 (E - (n - 1))
announcements. From elsewhere it takes the same tree, unless an announcement outruns it by `t1`: then there is a GRAFT,
a link too many, and later a PRUNE. So `t1` has to be longer than the tree lags behind; what it is too long by, repair
takes longer.

Whatever is eager: of a publication that nothing took, each neighbour of a broker that has it either gets a copy or an
announcement, and asks for what it does not get. So it reaches everybody as long as the neighbours connect all brokers,
once; GRAFTs mend the tree on the way. After faults nothing has to be mended but who is whose neighbour.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from brokers.contract import FIRST_PROTOCOL_TYPE, NEVER, TIMER, Demand, Guarantees, Message
from brokers.node import Body
from brokers.promises import Faced, Recovery
from protocols.content.kind import PUBLISH
from protocols.gossip.hyparview_options import ViewOptions, expected_of, remarks_of
from protocols.gossip.members import Gossiping
from topology.units import PositiveDuration

IHAVE, PRUNE, GRAFT, ANNOUNCE, ASK = range(FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 5)  # the last two: timers
_MS = 1_000_000


class Options(BaseModel):
    """Options of `plumtree`."""

    model_config = ConfigDict(extra="forbid")

    t1: Annotated[
        PositiveDuration,
        Field(
            examples=["5 ms", "30 ms", "80 ms"],
            description="after an announcement, how long the publication itself is waited for; longer than the tree "
            "lags behind, or links are grafted that it does not need",
        ),
    ] = 80 * _MS
    t2: Annotated[
        PositiveDuration,
        Field(examples=["5 ms", "20 ms", "40 ms"], description="after a GRAFT, how long until the next is asked"),
    ] = 40 * _MS
    dispatch: Annotated[
        PositiveDuration,
        Field(examples=["1 ms", "5 ms"], description="how long announcements wait before they are sent"),
    ] = 5 * _MS
    threshold: Annotated[
        int,
        Field(
            ge=1, le=1_000_000, examples=[1, 2, 7],
            description="by how many rounds an announcement is ahead of the publication for the tree to be changed",
        ),
    ] = 7
    cache: Annotated[
        PositiveDuration,
        Field(examples=["3 s", "30 s"], description="how long a publication is kept for those who ask"),
    ] = 30_000 * _MS
    ids: Annotated[
        PositiveDuration,
        Field(examples=["30 s", "90 s"], description="how long after it was sent a publication is known to have come"),
    ] = 90_000 * _MS
    membership: Annotated[
        Literal["fixed", "hyparview"],
        Field(description="who is whose neighbour: as the overlay's links say, or as brokers find each other"),
    ] = "fixed"
    hyparview: Annotated[
        ViewOptions, Field(description="with `membership: hyparview`: the views of brokers")
    ] = ViewOptions()

    @model_validator(mode="after")
    def _in_order(self) -> Options:
        if self.t2 > self.t1:
            told = f"{_ms(self.t2)} and {_ms(self.t1)}"
            raise ValueError(f"`t2` is at most `t1`, as a tree lags more than a link (got {told})")
        if self.cache <= self.dispatch + self.t1:
            raise ValueError(
                f"`cache` has to be longer than `dispatch` and `t1` together, {_ms(self.dispatch + self.t1)}, or "
                f"nobody who asks gets anything (got {_ms(self.cache)})"
            )
        if self.ids < self.cache:
            raise ValueError(
                f"`ids` is at least `cache`, or what was forgotten comes again (got {_ms(self.ids)} and "
                f"{_ms(self.cache)})"
            )
        return self


def _ms(ns: int) -> str:
    return f"{ns / _MS:g} ms"


class Plumtree(Gossiping):
    """One broker."""

    Options: ClassVar[type[BaseModel] | None] = Options
    resends: ClassVar[bool] = True  # what is asked for again
    announces: ClassVar[frozenset[int]] = frozenset({IHAVE, GRAFT})
    remade: ClassVar[tuple[str, ...]] = ("timer_min_ns",)

    def __init__(self, node: Any) -> None:
        options = node.options
        views = options.hyparview if options.membership == "hyparview" else None
        super().__init__(node, options.ids, views)
        self.timer_min_ns = min(options.t2, options.dispatch, NEVER if views is None else views.timer_min)
        self.eager: set[int] = set(self.members.active)  # links
        self.lazy: set[int] = set()
        self.cached: dict[int, list[Any]] = {}  # publication -> body, round, until when; in order of time
        self.announcing: dict[int, list[Any]] = {}  # publication -> round, links to those who are told of it
        self.missing: dict[int, list[list[int]]] = {}  # publication -> link and round of each who announced it
        self.asking: set[int] = set()  # publications with a timer

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        """Who is asked later than it caches has nothing to give."""
        if options.membership == "hyparview":
            return Guarantees(exact=False, fifo_per_publisher=False, lets_go=True, only_wanted=True)
        return Guarantees(fifo_per_publisher=False, lets_go=True, within_ns=options.cache)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        """As soon as everybody knows its neighbours again."""
        if options.membership == "hyparview":
            return None
        told = 0 if faced.detect_ns >= NEVER else faced.detect_ns
        return Recovery(told + faced.link_ns, heals_loss=True, lets_go=True)

    @classmethod
    def remarks(cls, options: Any, overlay: Any) -> list[str]:
        return remarks_of(options.hyparview, overlay) if options.membership == "hyparview" else []

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """Of a publication a copy at each broker, an announcement over each surplus link either way, and its timers."""
        brokers, options = demand.overlay.brokers, demand.options
        known = options.membership == "hyparview"
        links = brokers * options.hyparview.active // 2 if known else int(demand.overlay.degree.sum()) // 2
        surplus = max(0, links - (brokers - 1))
        each = brokers + min(brokers, 2 * surplus) + 2 * surplus * 2
        views = expected_of(options.hyparview, demand) if known else 0.0
        return float(demand.publications.sum()) * each + float(demand.changes.sum()) + views

    # ---- publications --------------------------------------------------------------------------------

    def publish(self, message: Message) -> None:
        came_by = message.link
        if self.seen_before(message):
            if came_by >= 0:
                self._prune(message, came_by)
            return
        round_ = 0 if came_by < 0 else message.word + 1
        self.hand_over(message)
        self._push(message, round_)
        announced = self.missing.pop(self.node.key(message), [])
        if announced and came_by >= 0:
            self._optimise(message, round_, min(announced, key=lambda each: each[1]))

    def _push(self, message: Message, round_: int) -> None:
        """To the eager at once, and to the lazy that it is there."""
        node, id_, came_by = self.node, self.node.key(message), message.link
        body = self._cache(message, id_, round_)
        for link in sorted(self.eager - {came_by}):
            node.send(message, link, PUBLISH, body, round_)
        lazy = sorted(self.lazy - {came_by})
        if lazy:
            self.announcing[id_] = [round_, lazy]
            node.timer(message, node.options.dispatch, ANNOUNCE, id_, body=body)

    def _cache(self, message: Message, id: int, round_: int) -> Body:
        while self.cached:
            oldest, (body, _, until) = next(iter(self.cached.items()))
            if until > message.time:
                break
            self.node.drop(body)
            del self.cached[oldest]
        body = self.node.keep(message)
        self.cached[id] = [body, round_, message.time + self.node.options.cache]
        return body

    def _optimise(self, message: Message, round_: int, best: list[int]) -> None:
        link, announced = best
        if round_ - announced < self.node.options.threshold or link == message.link:
            return
        if link not in self.eager:
            self._make_eager(link)
            self.node.send(message, link, GRAFT)
        self._prune(message, message.link)

    # ---- messages and timers -------------------------------------------------------------------------

    def gossip(self, message: Message) -> None:
        if message.kind == TIMER:
            (self._announce if message.type == ANNOUNCE else self._ask)(message)
        elif message.type == IHAVE:
            self._hear_of(message)
        elif message.type == GRAFT:
            self._graft(message)
        elif message.type == PRUNE:
            self._make_lazy(message.link)

    def _announce(self, message: Message) -> None:
        round_, links = self.announcing.pop(message.word, (0, ()))
        for link in links:
            if link in self.eager or link in self.lazy:
                self.node.send(message, link, IHAVE, [message.word, round_], message.word)

    def _hear_of(self, message: Message) -> None:
        id_ = message.word
        if self.is_old(message) or id_ in self.seen or message.link not in self.members.active:
            return
        self.missing.setdefault(id_, []).append([message.link, self.node.body(message)[1]])
        if id_ not in self.asking:
            self.asking.add(id_)
            self.node.timer(message, self.node.options.t1, ASK, id_, body=self.node.keep(message))

    def _ask(self, message: Message) -> None:
        """The timer of a publication: its body is the announcement that set it."""
        node, id_, announcement = self.node, message.word, Body(message.body)
        announced = self.missing.get(id_)
        if not announced:  # the publication came, or nobody is left to be asked
            self.missing.pop(id_, None)
            self.asking.discard(id_)
            node.drop(announcement)
            return
        link, round_ = announced.pop(0)
        self._make_eager(link)
        node.send(message, link, GRAFT, [id_, round_], id_)
        node.timer(message, node.options.t2, ASK, id_, body=announcement)

    def _graft(self, message: Message) -> None:
        if message.link not in self.members.active:
            return
        self._make_eager(message.link)
        body, round_, until = self.cached.get(message.word, (None, 0, 0)) if message.body >= 0 else (None, 0, 0)
        if until > message.time:
            self.node.send(message, message.link, PUBLISH, body, round_)

    def _prune(self, message: Message, link: int) -> None:
        if link in self.members.active:
            self._make_lazy(link)
            self.node.send(message, link, PRUNE)

    # ---- neighbours ----------------------------------------------------------------------------------

    def _make_eager(self, link: int) -> None:
        self.eager.add(link)
        self.lazy.discard(link)

    def _make_lazy(self, link: int) -> None:
        if link in self.eager:
            self.eager.discard(link)
            self.lazy.add(link)

    def up(self, message: Message, link: int) -> None:
        self._make_eager(link)

    def down(self, message: Message, link: int) -> None:
        self.eager.discard(link)
        self.lazy.discard(link)
        self.missing = {id_: [each for each in by if each[0] != link] for id_, by in self.missing.items()}

    # ---- what is to be seen --------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        kinds = {**dict.fromkeys(self.names_of(self.eager), "eager"), **dict.fromkeys(self.names_of(self.lazy), "lazy")}
        missing = {str(id_): len(by) for id_, by in sorted(self.missing.items())}
        return {**super().describe(), "neighbours": kinds, "missing": missing}
