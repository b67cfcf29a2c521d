"""What the three context protocols share: who knows which profile, the way of values, and the last step.

All use one tree of the overlay: the overlay itself if it is one, else the shortest paths from its best connected
broker. Profiles go to every broker. Where a publication comes by, it goes on over the links behind which a profile
may hold (`Sieve`), on what the protocol lets a broker know of context values; a profile's *home*, the broker of
its client, has the values and decides. The broker of a context's client, its *owner*, knows its values first.

What values a broker has to be told follows from the profiles it knows:

- An update flows from the owner over the links that `wants` names. Links are FIFO and there is one way, so values
  come in the order in which they were issued.
- A profile that is the first of its home to name a value is answered by the owner with that value, and until then
  the home does not know it: what it heard before may be old. The answer is part of the profile's change, which so
  settles when the value has come. A later one of that home leans on it.
- While a broker knows no profile that names a value, it passes on no updates. Once it has left out one and then
  hears of a profile, it tells those behind it, who may know another profile, and hold a value that is old. What
  passes that broker afterwards leans on this.
- Of a value of which a broker was told nothing, it knows nothing, and drops nothing on it.

With `hold_back`, see `protocols.context.holding`, what arrives is spread at once, but counts in the order of issue.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from brokers.columns import BadState, Column, check_columns
from brokers.contract import NEVER, TIMER, BrokerProtocol, Demand, Floats, Ints, Message
from brokers.errors import InvalidInput
from brokers.indexes.context.contract import checked_message, checked_profile
from brokers.node import Body
from protocols.context.holding import Holding
from protocols.context.kind import (
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    UPDATE,
    Context,
    is_value,
    value_of,
    value_word,
)
from protocols.context.sieve import Sieve, everything, range_of
from protocols.expected import Tree, across, flow, to_all, to_wanted
from protocols.routes import shared_tree

RANGE, MARK, TICK = 16, 17, 18  # the last is a timer's

UNKNOWN, OWN = -2, -1  # in place of the link by which a value comes

_ACTS = {"decide": 3, "know": 5, "let in": 7, "let go": 4}  # what may be held back, and of how many parts it is
_VALUES = {"newest": Column("f8", ("room", 2)), "ranges": Column("f8", ("room", 2)), "stamp": Column("i8", ("room",))}
_LET_IN = {"atoms": Column("f8", ("atoms", 7)), "keys": Column("i8", ("atoms",), low=-1, high="values")}

Answer = tuple[int, int]  # a home, and the change by which a profile there was the first to name a value
NOBODY: Answer = (-1, -1)


class Options(BaseModel):
    """Options of all three."""

    model_config = ConfigDict(extra="forbid")

    hold_back: Annotated[
        int | None,
        Field(ge=100_000, description="nanoseconds between watermarks: decide as of the time of publication"),
    ] = None


class ContextBroker(BrokerProtocol):
    """A broker of a `context` service. A subclass says who is told which values."""

    kind: ClassVar[str] = "context"
    Options: ClassVar[type[BaseModel] | None] = Options
    remade: ClassVar[tuple[str, ...]] = (
        "routes", "links", "here", "way", "publishes", "timer_min_ns",
        "index", "sieve", "holding", "numbers", "fed", "lossy",
    )  # fmt: skip
    values_known: ClassVar[bool] = True  # whether brokers on the way know values, exactly or nearly
    values_everywhere: ClassVar[bool] = False  # whether they are told wherever publications come by

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        updates, profiles = demand.of("updates"), demand.of("profiles")
        values = max(1.0, float(demand.of("values").sum()))
        naming = demand.of("names") / values  # profiles at each broker that name a value, in the mean
        entering = demand.publishes.astype(np.float64)

        def told(tree: Tree) -> Floats:
            named = -np.expm1(-tree.behind(naming))
            return np.where(tree.behind(entering) > 0, 1.0, named) if cls.values_everywhere else named

        events = to_all(demand, profiles) + flow(demand, updates, told)
        # The first profile of a broker that names a value is answered with it.
        standing = max(1e-300, float(demand.interests.sum()))
        first = float(profiles.sum() / standing * (values * -np.expm1(-naming)).sum())
        events += first * (1.0 + across(demand))
        static = float(demand.of("static").sum()) / standing
        events += to_wanted(demand, demand.share if cls.values_known else static)
        every = demand.options.hold_back
        if every is not None:
            events += (demand.overlay.brokers + 2 * (demand.overlay.brokers - 1)) * 1e9 / every
        return events

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Any) -> list[tuple[str, str]]:
        if options.hold_back is not None and (overlay.loss > 0).any():
            return [("options.hold_back", "needs links that lose nothing; leave it out, or set their loss to 0")]
        return []

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        env = node.env
        self.routes = shared_tree(node)
        self.links: list[int] = [link for link in node.links if self.routes.in_tree[link]]
        self.here = len(self.links)  # the place of this broker's own profiles
        self.way = self._ways()
        self.publishes = [bool((self.way[env.publisher_brokers] == p).any()) for p in range(self.here)]
        self.index = env.new_index()
        self.sieve = Sieve(self.here + 1)
        self.profiles: dict[int, tuple[int, list[int]]] = {}  # by id: its home, and the values it names
        self.lossy = bool((env.overlay.loss > 0).any())
        self.begun: dict[tuple[int, int], dict[int, int]] = {}  # where links lose, by value and home: profile -> change
        self.words: list[int] = []  # the names of values, by number
        self.numbers: dict[int, int] = {}
        self.named: list[dict[int, list[int]]] = []  # by value: home -> [profiles, the change that brought the first]
        self.source: list[int] = []  # by value: the link it comes by, OWN, UNKNOWN
        self.newest: Floats = everything(8)  # what is known of each value
        self.ranges: Floats = everything(8)  # what counts here: the same, unless something is held back
        self.stamp: Ints = np.full(8, -1, np.int64)  # when the newest was issued
        self.left_out: set[int] = set()  # values of which an update was not passed on
        self.revived_by: dict[int, int] = {}  # value -> the change whose revival may still be under way
        self.fed: dict[int, int] = {}  # value -> own profiles in the index that name it
        self.first_by: dict[int, int] = {}  # own value -> its first update, if that answered profiles
        self.awaited: dict[int, int] = {}  # value -> the change here whose answer is to come
        self.stood: dict[int, tuple[float, int]] | None = {}  # values from the start, with the owner's broker
        self.decided = self.useless = 0
        every = env.options.hold_back
        if every is not None and (env.overlay.loss > 0).any():
            raise InvalidInput("options.hold_back needs links that lose nothing; leave it out, or set their loss to 0")
        self.holding = None if every is None else Holding(every, self.links, env.duration_ns)
        self.timer_min_ns = NEVER if every is None else every

    @property
    def service(self) -> Context:
        return cast(Context, self.node.env.kind)

    def _ways(self) -> Any:
        """Per broker the place behind which it lies."""
        routes, here = self.routes, self.node.broker
        place = {link: i for i, link in enumerate(self.links)}
        way = np.full(routes.brokers, place.get(int(routes.up[0, here]), self.here), np.int32)
        for child in routes.children(0, here).tolist():
            below = (routes.enter[0] >= routes.enter[0, child]) & (routes.enter[0] < routes.leave[0, child])
            way[below] = place[int(routes.up[0, child]) ^ 1]
        way[here] = self.here
        return way

    # ---- what a protocol decides -----------------------------------------------------------------------

    def wants(self, key: int, place: int) -> bool:
        """Whether an update of this value goes over a link; some profile names it."""
        raise NotImplementedError

    def known(self) -> Floats:
        """The ranges on which a publication is passed on or dropped."""
        return self.ranges

    def spread(self, message: Message, key: int, to: Answer = NOBODY) -> None:
        """What is known of a value changed: tell those behind, by all means whom it answers."""
        for place in self.onward(key):
            aimed = self.leads_to(place, to)
            if not aimed and not self.wants(key, place):
                continue
            if message.type == UPDATE:
                self.node.forward(message, self.links[place])
            else:
                self.tell(message, place, key, to if aimed else NOBODY)

    def reset(self, message: Message, key: int) -> None:
        """Nothing is known of a value any more: tell those behind who may hold an old one."""

    def wasted(self, message: Message, values: Floats, place: int) -> None:
        """A publication came over a link in vain."""
        self.useless += 1

    def stands(self, key: int, owner: int) -> bool:
        """Whether this broker, not the owner's, is told updates of a value that stands from the start."""
        away = int(self.way[owner])
        return any(self.way[home] != away for home in self.named[key])

    # ---- messages --------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if self.stood is not None:
            self._begin(self.stood)
        if message.link < 0 and message.kind != TIMER:
            self._refuse_bad(message)
        if message.kind == TIMER:
            self._tick(message)
        elif message.type == PUBLISH:
            self._in_force(message, self._sent(message), 1, ("decide", self._kept(message), message.link))
        elif message.type == UPDATE:
            self._update(message)
        elif message.type == RANGE:
            self._range(message)
        elif message.type == SUBSCRIBE:
            self._subscribe(message)
        elif message.type == UNSUBSCRIBE:
            self._unsubscribe(message)
        elif message.type == MARK:
            assert self.holding is not None
            self.holding.marks[message.link] = message.word, self.node.body(message)
            self._release(message, message.time - 1)

    def _refuse_bad(self, message: Message) -> None:
        """What a client sends is checked where it enters, before anybody hears of it."""
        service = self.service
        row = self.node.row(message.body) if message.body >= 0 else np.empty(0)
        try:
            if message.type == PUBLISH:
                checked_message(service.message(row), service.schema)
            elif message.type == UPDATE:
                service.update(row)
            elif message.type == SUBSCRIBE:
                if message.word in self.profiles:
                    raise InvalidInput(f"profile {message.word} is there already; end it before it begins again")
                checked_profile(service.profile(row), service.schema)
        except InvalidInput as error:
            client = message.source - self.node.env.entity_base
            raise type(error)(f"client {client}, at {message.time} ns: {error}") from None

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if is_value(id):
            assert self.stood is not None
            _, _, value = self.service.update(row)
            self.stood[id] = np.nan if value is None else value, broker
            return
        atoms = self.service.atoms(row)
        keys = self._numbers_of(atoms)
        self._note(id, broker, keys, -1)
        self._let_in(None, id, broker, atoms, keys, [], -1)

    def _begin(self, stood: dict[int, tuple[float, int]]) -> None:
        """Know the values that stand from the start, as far as they would have been told."""
        self.stood = None
        for word, (value, owner) in stood.items():
            here = owner == self.node.broker
            if not here and word not in self.numbers:
                continue
            key = self._number(word)
            if here or self.stands(key, owner):
                self.source[key] = OWN if here else self.links[self.way[owner]]
                known = range_of(None if value != value else value)
                self.newest[key] = known
                self._let_know(None, key, *known, -1)
                self.stood_known(key)
            if here and not self.named[key]:
                self.left_out.add(key)

    def stood_known(self, key: int) -> None:
        """A value that stands from the start is known here, and was told to whom it concerns."""

    # ---- profiles --------------------------------------------------------------------------------------

    def _subscribe(self, message: Message) -> None:
        id_, node = message.word, self.node
        home = self.home(id_)
        atoms = self.service.atoms(node.row(message.body))
        keys = self._numbers_of(atoms)
        named = self._named_in(keys)
        if id_ in self.profiles:
            self._told_again(message, home, named)
            return
        for key in named:
            if key in self.left_out and self.source[key] != OWN:
                self.left_out.discard(key)
                self.newest[key] = -np.inf, np.inf
                self._in_force(message, message.time, 0, ("know", key, -np.inf, np.inf, -1))
                self.revived_by[key] = message.cause
                self.reset(message, key)
        for link in self.routes.forwards(node.broker, message.link, home):
            node.forward(message, link)
        first = [key for key in named if home not in self.named[key]]
        self._note(id_, home, keys, message.cause)
        for key in named:
            self.lean(message, self.revived_by.get(key, -1))
            self.lean(message, self.named[key][home][1])
            if self.lossy and key not in first and self.source[key] == OWN:
                # It is not answered, since others there are believed to know: a link may have lost that they ended.
                self.lean(message, next(iter(self.begun[key, home].values())))
            if key in first and self.source[key] == OWN:
                self._tell_first(message, key, home)
        self._in_force(message, self._sent(message), 0, ("let in", id_, home, atoms, keys, first, message.cause))

    def _told_again(self, message: Message, home: int, named: list[int]) -> None:
        """A profile that is known here: its home, or a broker on the way, has lost what it knew."""
        for link in self.routes.forwards(self.node.broker, message.link, home):
            self.node.forward(message, link)
        for key in named:
            if self.source[key] == OWN and home != self.node.broker:
                self.answer(message, key, home)

    def _tell_first(self, message: Message, key: int, home: int) -> None:
        """The owner tells a home the value that a profile there is the first to name."""
        if key in self.left_out:
            self.left_out.discard(key)
            self.revived_by[key] = message.cause
            self.spread(message, key, (home, message.cause))
        elif home != self.node.broker:
            self.answer(message, key, home)

    def answer(self, message: Message, key: int, home: int) -> None:
        """Tell one home the value; all others who need it were told before."""
        self.tell(message, int(self.way[home]), key, (home, self.named[key][home][1]))

    def lean(self, message: Message, on: int) -> None:
        """The change that this message comes from relies on one that may still be in flight; -1: on none."""
        if on >= 0 and message.cause >= 0 and on != message.cause:
            self.node.depends(message.cause, on)

    def _unsubscribe(self, message: Message) -> None:
        id_ = message.word
        if id_ not in self.profiles:
            return  # a link lost its beginning
        home, keys = self.profiles.pop(id_)
        for link in self.routes.forwards(self.node.broker, message.link, home):
            self.node.forward(message, link)
        for key in keys:
            record = self.named[key][home]
            record[0] -= 1
            if self.lossy:
                self.begun[key, home].pop(id_)
            if not record[0]:
                del self.named[key][home]
        self._in_force(message, self._sent(message), 0, ("let go", id_, home, keys))

    def _note(self, id: int, home: int, keys: Any, change: int) -> None:
        named = sorted(set(keys[keys >= 0].tolist()))
        self.profiles[id] = home, named
        for key in named:
            self.named[key].setdefault(home, [0, change])[0] += 1
            if self.lossy:
                self.begun.setdefault((key, home), {})[id] = change

    def _let_in(
        self, message: Message | None, id: int, home: int, atoms: Floats, keys: Any, first: list[int], change: int
    ) -> None:
        """A profile counts from now on. What it is the first here to name counts once it is answered."""
        self.sieve.add(id, int(self.way[home]), atoms, keys)
        if home == self.node.broker:
            self.index.insert([id], [self.service.profile(atoms.ravel())])
            for key in first:
                if self.source[key] != OWN:
                    self.awaited[key] = change
            for key in sorted(set(keys[keys >= 0].tolist())):
                self.fed[key] = self.fed.get(key, 0) + 1
                self._feed(key)

    def _let_go(self, message: Message, id: int, home: int, keys: list[int]) -> None:
        self.sieve.remove(id)
        if home == self.node.broker:
            self.index.delete([id])
            for key in keys:
                self.fed[key] -= 1
                if not self.fed[key]:
                    del self.fed[key]
                    self.awaited.pop(key, None)

    # ---- values ----------------------------------------------------------------------------------------

    def _update(self, message: Message) -> None:
        context, attribute, value = self.service.update(self.node.row(message.body))
        key = self._number(value_word(context, attribute))
        self._hear(message, key, *range_of(value), self._sent(message), NOBODY)

    def _range(self, message: Message) -> None:
        context, attribute, low, high, issued, target = self.node.row(message.body)[:6].tolist()
        key = self._number(value_word(int(context), int(attribute)))
        self._hear(message, key, low, high, int(issued), (int(target), message.word))

    def _hear(self, message: Message, key: int, low: float, high: float, issued: int, to: Answer) -> None:
        """News of a value."""
        own, new = message.link < 0, self.source[key] == UNKNOWN
        self.source[key] = OWN if own else message.link
        if not own and not self.named[key]:
            self.left_out.add(key)
            return
        self.newest[key] = low, high
        self.stamp[key] = issued
        answered = to[1] if to[0] == self.node.broker else -1
        self._in_force(message, issued, 0, ("know", key, low, high, answered))
        if not self.named[key]:
            self.left_out.add(key)
            return
        self.spread(message, key, to)
        if own:
            self.lean(message, self.first_by.get(key, -1))
            for home in sorted(set(self.named[key]) - {self.node.broker}) if new else []:
                self.first_by[key] = message.cause
                self.answer(message, key, home)

    def _let_know(self, message: Message | None, key: int, low: float, high: float, answered: int) -> None:
        """A value counts from now on."""
        self.ranges[key] = low, high
        if key in self.awaited and (self.source[key] == OWN or self.awaited[key] == answered):
            del self.awaited[key]
        if key in self.fed:
            self._feed(key)

    def _feed(self, key: int) -> None:
        """Give the index a value, if it is known to the point."""
        low, high = self.ranges[key].tolist()
        context, attribute = value_of(self.words[key])
        known = low == high and key not in self.awaited
        self.index.update_context(context, str(attribute), low if known else None)

    def tell(
        self, message: Message, place: int, key: int, to: Answer = NOBODY, known: Any = None, **more: Any
    ) -> None:
        """Send what is known of a value, or `known`, to a place; the answer to a profile counts not before it."""
        low, high = self.newest[key] if known is None else known
        issued = self.stamp[key]
        if message.type == SUBSCRIBE:
            issued = max(issued, self._sent(message))
        home, asked = to
        row = [*value_of(self.words[key]), low, high, issued, home]
        self.node.send_row(message, self.links[place], RANGE, row, asked, **more)

    def onward(self, key: int) -> list[int]:
        """The places to which news of a value go: all but the one they come from."""
        source = self.place(self.source[key])
        return [place for place in range(self.here) if place != source]

    def leads(self, key: int, place: int) -> bool:
        """Whether a profile at a home behind a place names the value."""
        return any(self.way[home] == place for home in self.named[key])

    def leads_to(self, place: int, to: Answer) -> bool:
        """Whether whom an answer is for lies behind a place."""
        return to[0] >= 0 and int(self.way[to[0]]) == place

    # ---- publications ----------------------------------------------------------------------------------

    def _decide(self, message: Message, body: Body, link: int) -> None:
        """Serve the clients here, and send a publication on to where others may be."""
        node, service = self.node, self.service
        row = node.row(body.handle)
        values = np.full(service.attributes, np.nan)
        values[: row.size] = row[: service.attributes]
        came_by = self.place(link)
        behind = self.sieve.behind(values, self.known(), came_by)
        found = self.index.handle_message(service.message(row)) if len(self.index) else np.empty(0, np.int64)
        node.work(message, len(self.sieve), len(found))
        for place in np.flatnonzero(behind[: self.here]).tolist():
            node.send(message, self.links[place], PUBLISH, body)
        for client in np.unique(found >> 32).tolist():
            node.deliver(message, client - node.env.entity_base, body)
        self.decided += 1
        if link >= 0 and not len(found) and not behind[: self.here].any():
            self.wasted(message, values, came_by)
        if self.holding is not None:
            node.drop(body)

    # ---- in the order of issue -------------------------------------------------------------------------

    def _in_force(self, message: Message, issued: int, rank: int, act: tuple[Any, ...]) -> None:
        """Do now, or when all that was issued before has come; at one instant publications come last."""
        if self.holding is None:
            self._do(message, act)
        else:
            self.holding.push(issued, rank, act)
            self._release(message, message.time - 1)

    def _do(self, message: Message, act: tuple[Any, ...]) -> None:
        name, *said = act
        if name == "decide":
            self._decide(message, *said)
        elif name == "know":
            self._let_know(message, *said)
        elif name == "let in":
            self._let_in(message, *said)
        else:
            self._let_go(message, *said)

    def _release(self, message: Message, clock_ns: int) -> None:
        assert self.holding is not None
        for act in self.holding.release(clock_ns):
            self._do(message, act)

    def _tick(self, message: Message) -> None:
        """Let everybody know how far what comes by here is complete."""
        holding = self.holding
        assert holding is not None
        clock_ns = holding.clock(message.time)
        self._release(message, clock_ns)
        for link in self.links:
            changes_ns, publications_ns = holding.mark(clock_ns, link)
            self.node.send(message, link, MARK, publications_ns, changes_ns, cause=-1)
        if not holding.is_over(clock_ns):
            self.node.timer(message, holding.every_ns, TICK, cause=-1)

    def first_timers(self) -> list[tuple[int, int, int]]:
        return [] if self.holding is None else [(self.holding.every_ns, TICK, 0)]

    # ---- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        holding = None if self.holding is None else self.holding.state()
        return {**super().state(), "profiles let in": self.sieve.state(), "held back": holding}

    def load(self, state: dict[str, Any]) -> None:
        sieve, held = state.pop("profiles let in"), state.pop("held back")
        super().load(state)
        self._check_values()
        self.numbers = {word: key for key, word in enumerate(self.words)}
        own = [(id_, known) for id_, place, known in self.sieve.load(sieve, len(self.words), self._known_atoms)
               if place == self.here]  # fmt: skip
        if own:
            self.index.insert([id_ for id_, _ in own], [self.service.profile(atoms.ravel()) for _, (atoms, _) in own])
        for _, (_, keys) in own:
            for key in set(keys[keys >= 0].tolist()):
                self.fed[key] = self.fed.get(key, 0) + 1
        for key in self.fed:
            self._feed(key)
        if self.holding is not None:
            self.holding.load(held, self._check_act)

    def _check_values(self) -> None:
        """What is known of values is as long as there are values: kernels look it up by their numbers."""
        if any(type(each) is not list for each in (self.words, self.named, self.source)):
            raise BadState("what is known of values are no lists")
        sizes = {"room": max(len(self.newest), len(self.words))}
        check_columns({"newest": self.newest, "ranges": self.ranges, "stamp": self.stamp}, _VALUES, sizes)
        if not len(self.words) == len(self.named) == len(self.source):
            raise BadState(f"{len(self.words)} values, and {len(self.named)} and {len(self.source)} are told of")

    def _known_atoms(self, lines: Floats) -> tuple[Floats, Ints]:
        """A profile as it came, from how a sieve has it: its atoms, and the numbers of its values."""
        keys = np.where(np.isnan(lines[:, 3]), -1, lines[:, 3]).astype(np.int64)
        atoms = np.full((len(lines), 7), np.nan)
        atoms[:, :3], atoms[:, 5:] = lines[:, :3], lines[:, 4:]
        for at in np.flatnonzero(keys >= 0).tolist():
            atoms[at, 3:5] = value_of(self.words[keys[at]])
        return self._checked_atoms(atoms), keys

    def _checked_atoms(self, atoms: Any) -> Floats:
        """The atoms of a profile, or an error; a sieve trusts them."""
        if not np.array_equal(self.service.atoms(np.ravel(atoms)), atoms, equal_nan=True):
            raise BadState("a profile has lines that are no atoms")
        checked_profile(self.service.profile(np.ravel(atoms)), self.service.schema)
        return cast(Floats, atoms)

    def _check_act(self, act: Any) -> None:
        """Refuse what is held back and no act of this class; a profile to let in goes into kernels."""
        if type(act) is not tuple or not act or _ACTS.get(act[0]) != len(act):
            raise BadState("something held back is no act")
        if act[0] == "let in":
            sizes = {"values": len(self.words)}
            check_columns({"atoms": act[3], "keys": act[4]}, _LET_IN, sizes)
            self._checked_atoms(act[3])

    # ---- small things ----------------------------------------------------------------------------------

    def home(self, interest: int) -> int:
        """The broker of the client behind an interest's id."""
        env = self.node.env
        return int(env.client_broker[(interest >> 32) - env.entity_base])

    def place(self, link: int) -> int:
        """The place behind a link of this broker; -1 where a client sent."""
        return -1 if link < 0 else self.links.index(link)

    def _sent(self, message: Message) -> int:
        """When the client sent what the message carries."""
        return int(self.node.env.bodies.time[message.body]) if message.body >= 0 else message.time

    def _kept(self, message: Message) -> Body:
        return Body(message.body) if self.holding is None else self.node.keep(message)

    def _named_in(self, keys: Any) -> list[int]:
        """The values that atoms name, in the order of their names."""
        return sorted(set(keys[keys >= 0].tolist()), key=self.words.__getitem__)

    def _numbers_of(self, atoms: Floats) -> Any:
        """Of each atom the number of the value it names, or -1."""
        keys = np.full(len(atoms), -1, np.int64)
        for i in np.flatnonzero(~np.isnan(atoms[:, 3])).tolist():
            keys[i] = self._number(value_word(int(atoms[i, 3]), int(atoms[i, 4])))
        return keys

    def _number(self, word: int) -> int:
        """The number of a value here."""
        key = self.numbers.get(word)
        if key is None:
            key = self.numbers[word] = len(self.words)
            self.words.append(word)
            self.named.append({})
            self.source.append(UNKNOWN)
            if key == len(self.newest):
                self._grow()
        return key

    def _grow(self) -> None:
        """Twice the room for values."""
        count = len(self.newest)
        self.newest = np.concatenate([self.newest, everything(count)])
        self.ranges = np.concatenate([self.ranges, everything(count)])
        self.stamp = np.concatenate([self.stamp, np.full(count, -1, np.int64)])

    def entries(self) -> int:
        return len(self.profiles)

    def describe(self) -> dict[str, Any]:
        known = int((self.newest[: len(self.words)] != everything(1)).any(axis=1).sum())
        held = 0 if self.holding is None else len(self.holding)
        return {
            "profiles": len(self.profiles), "own profiles": len(self.index), "values known": known,
            "decided": self.decided, "came in vain": self.useless, "held back": held,
        }  # fmt: skip
