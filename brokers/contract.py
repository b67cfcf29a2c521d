"""What protocols, kinds and workloads are written against.

The division of work: the engine does horizons, order, queues, links, sequence numbers, digest, trace and
the keeping of bodies; a protocol only decides. It is sans-IO: told what reached its brokers, it answers
with sends, deliveries, timers and costs. It never sees Ray, SimPy, files, finish times or queue lengths.

Two views of the same contract:

- `BrokerProtocol` is one broker. `on_message` is required; `on_run` is optional and gets a stretch of
  messages of one type as arrays. This is the view to write a new protocol in (docs/protocols.md).
- `ShardProtocol` is all brokers of a shard at once, `handle(batch, out)` over arrays. The built-in
  protocols implement it directly. An adaptor derives it from a `BrokerProtocol`.

The rule that both live by: **handling a batch equals handling its events one by one**. How the engine cuts
what reached a broker into batches never shows in what a protocol sends, delivers or remembers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput, ProtocolFault
from brokers.indexes.contract import RowIndex
from brokers.rates import Demand, Rates, everywhere

if TYPE_CHECKING:
    from pydantic import BaseModel

    from brokers.bodies import Bodies
    from brokers.compiled import Handler
    from brokers.kinds import KindManifest
    from brokers.node import Node, Run
    from brokers.out import Out
    from brokers.promises import Faced, Recovery
    from brokers.schema import Table

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]

NEVER = 1 << 62

# The kinds of event, in the order in which they are handled at one instant. The order is deliberate:
# a fault at t is known to what arrives at t, and a timer at t sees what arrived at t.
FAULT, MESSAGE, TIMER = 0, 1, 2

# Message types below this belong to the kind (what clients send); a protocol's own types start here.
FIRST_PROTOCOL_TYPE = 16


# ---- workloads ---------------------------------------------------------------------------------------


@dataclass
class Emission:
    """Messages of one type that clients send, as arrays."""

    type: int
    time: Ints
    client: Ints  # client numbers
    word: Ints
    rows: Floats | None = None  # numeric bodies, one row each
    objects: list[Any] | None = None  # or bodies of plain data
    meant: Ints | None = None  # when clients would have sent it, where they wait for a broker; the engine's


@dataclass(frozen=True)
class SourceContext:
    """What a source may know. A client's stream depends on (seed, entity, purpose), on nothing else here."""

    seed: int
    service: int
    source: int
    clients: Ints  # the client numbers this shard carries that take part
    entity_base: int  # entity id = entity_base + client number
    population: int  # clients of the whole group, over all shards
    duration_ns: int
    settled: bool
    service_params: Mapping[str, Any]
    client_broker: NDArray[np.int32] | None = None  # per client number: its broker
    kind: Kind | None = None  # the service's; None only where a source is built alone


class Source(Protocol):
    """A workload: what acts of its own accord, on its own schedule.

    It depends on its parameters and its context alone: a resumed run makes it anew and lets it begin again, without
    effect up to where the checkpoint was taken.

    A class may have `rates(params, context)`, a class method: what `context.clients`, the whole group, are expected to
    do, as `Rates`, or None if that is not known; and `publishes`, False if no publication of theirs enters.
    """

    def next_wake(self) -> int:
        """The simulated time at which `take` has to be called next; NEVER when exhausted."""
        ...

    def take(self) -> list[Emission]:
        """Called at `next_wake()`: everything from then up to the next wake."""
        ...


# ---- service kinds -----------------------------------------------------------------------------------


class Kind(ABC):
    """What a service promises, independent of how.

    `types` are the messages clients send. A type in `publications` asks for deliveries; one in `changes`
    alters what is wanted, and is traced from issue to settlement.
    """

    manifest: ClassVar[KindManifest]  # all parts of the kind by their names
    name: ClassVar[str]  # that of the manifest
    server: ClassVar[bool] = False  # whether a service of this kind has a server: a node that is no broker
    types: ClassVar[Mapping[str, int]]
    publications: ClassVar[frozenset[int]]
    changes: ClassVar[frozenset[int]]
    revocations: ClassVar[frozenset[int]] = frozenset()  # changes that end the interest named by their word
    interests: ClassVar[frozenset[int]] = frozenset()  # changes that begin the interest named by their word
    # Of the interests those that want nothing: a client says what it will publish. They begin, end and are told again
    # as interests are, and never stand from the start.
    offers: ClassVar[frozenset[int]] = frozenset()
    replacements: ClassVar[frozenset[int]] = frozenset()  # changes that take the place of the last with their word
    tables: ClassVar[Mapping[str, Table]] = {}  # trace tables of this kind's own, written by `Out.record`
    announced: frozenset[int] = frozenset()  # types that the protocol of a service `announces`, for metrics
    padding: int = 0  # bytes that the protocol of a service adds to each copy (`pads`), for metrics
    Params: ClassVar[type[BaseModel]]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "manifest" in vars(cls):
            cls.name = cls.manifest.name

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = dict(params)

    @classmethod
    def misfits(cls, params: Mapping[str, Any], index: type | None) -> list[tuple[str, str]]:
        """What in a service does not go together, as (key in the service, what is wrong)."""
        return []

    @classmethod
    def demands(cls, params: Mapping[str, Any]) -> Mapping[str, str]:
        """What a service of these parameters asks beyond `oracle`: by the parameter that says so, in words.

        Only a protocol that says it `meets` them may serve it.
        """
        return {}

    @classmethod
    def misfits_of_workload(cls, params: Mapping[str, Any], workload: Sequence[Any]) -> list[tuple[str, str]]:
        """What of the sources of a service does not go together, as (key in the service, what is wrong).

        Of each source `name`, `group` (of clients) and `params` are known.
        """
        return []

    @classmethod
    def unsaid(cls, params: Mapping[str, Any]) -> frozenset[int]:
        """The types that no client of a service with these parameters may send."""
        return frozenset()

    @classmethod
    def wants(cls) -> frozenset[int]:
        """The interests that want something."""
        return cls.interests - cls.offers

    @property
    def advertised(self) -> bool:
        """Whether a publication is owed to nobody unless an offer of its publisher holds it, as the oracle says."""
        return False

    @abstractmethod
    def row_bytes(self, type: int, rows: Floats) -> Ints:
        """The size on the wire of each numeric body of this type."""

    @abstractmethod
    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        """By brute force: which of the interests (id -> row) the message answers; it too is a row."""

    def new_index(self, index: type) -> Any:
        """An empty index of this class for this kind's parameters."""
        raise NotImplementedError

    def row_index(self, index: Any) -> RowIndex:
        """An empty index of this kind as tables use it: which of the interests answer a message, each by itself.

        By default the index itself, where that is what it is asked; ProtocolFault where it is asked something else.
        """
        if not isinstance(index, RowIndex):
            raise ProtocolFault(
                f"node.table cannot serve the kind {self.name!r}: {type(index).__name__} does not tell which interests "
                "answer a message, each by itself; keep them in the protocol, or define row_index() in the kind"
            )
        return index

    @property
    def pair_by_pair(self) -> bool:
        """Whether each interest by itself, and `oracle`, say who gets a publication."""
        return not self.manifest.judge

    @property
    def counts_copies(self) -> bool:
        """Whether a client may rightly get a publication several times: its judge, and its rule, say then how often."""
        return False

    def ranges(self, rows: Floats) -> Floats:
        """Interests as conjunctions of closed ranges, `[attribute, low, high] * k`, where they are such.

        One asks for all that another asks for if each of its ranges holds the other's of the same attribute; where no
        value can be in both ranges of an attribute, no message answers both. By default the rows themselves.
        """
        return rows

    def point(self, row: Floats) -> Floats:
        """A publication as a point of the space that `ranges` are of, NaN where it has no value."""
        return row

    @property
    def range_attributes(self) -> int:
        """How many attributes `ranges` names at most."""
        return int(self.params.get("attributes", 4))

    def row_to_object(self, type: int, row: Floats) -> Any:
        """A numeric body as its author sees it; by default the row itself."""
        return row

    def amiss(self, type: int, row: Floats | None) -> str | None:
        """What keeps a numeric body (None: no body) from being one of this type; None if nothing does.

        Asked of what a person wrote, before kernels trust it.
        """
        if row is None:
            return None
        try:
            self.row_bytes(type, row[None, :])
            self.row_to_object(type, row)
        except Exception as error:  # whatever a third party's kind makes of it
            return f"the kind cannot read this body: {error}"
        return None

    def word_of(self, type: int, row: Floats) -> int | None:
        """The word of a message that follows from its body; None where none does."""
        return None

    def words_read(self, type: int, text: str) -> Mapping[int, set[str]]:
        """The words in a body that is written as text, by attribute (`brokers.words`): a run counts them beforehand."""
        return {}

    def read(self, type: int, text: str, flags: Sequence[str] = ()) -> Floats:
        """The numeric body that a text, with words beside it, stands for; InvalidInput where it is none."""
        raise InvalidInput(f"the kind {self.name!r} reads no text; say the `body` in numbers")

    @classmethod
    def code_of(cls, place: int, word: str) -> int:
        """The number of a word that has this place among all words of its attribute."""
        return place

    def spelled(self, type: int, row: Sequence[float]) -> list[Any]:
        """A numeric body for people: None where there is nothing, words in the place of the numbers of text."""
        return [None if value != value else value for value in row]


@dataclass(frozen=True)
class Guarantees:
    """What a protocol declares, and is audited on."""

    exact: bool = True
    no_duplicates: bool = True
    fifo_per_publisher: bool = True
    under_loss: bool = False
    # What is promised under faults: "nothing", "recovers" or "reliable" (`brokers.promises`); a protocol whose options
    # decide answers by `recovery` instead.
    under_faults: str = "nothing"
    recovers_ns: int = NEVER  # how long after the last fault all holds again, where it recovers
    heals_loss: bool = False  # whether it also finds out by itself what links lost unnoticed
    lets_go: bool = False  # whether it forgets a neighbour that is out of reach: until it recovered it owes nothing
    # Whether what a client's session keeps reaches it where it is next: after, in order and once.
    hands_over: bool = False
    # Exactness is promised of publications no copy of which is handled so long after they were sent.
    within_ns: int = NEVER
    only_wanted: bool = False  # who gets a publication asked for it, although not all who asked may get it

    @property
    def anything(self) -> bool:
        """Whether anything is promised that a run could break."""
        return self.exact or self.only_wanted or self.no_duplicates or self.fifo_per_publisher

    @property
    def without_excuse(self) -> bool:
        """Whether no loss excuses anything."""
        return self.under_loss or self.under_faults == "reliable"

    @property
    def ends(self) -> bool:
        """Whether exactness is no longer promised of what is under way for long."""
        return self.within_ns < NEVER


# ---- what a protocol is given ------------------------------------------------------------------------


class CostModel(NamedTuple):
    """Service time of one message, in ns; functions of logical quantities only."""

    base: float = 0.0
    per_entry: float = 0.0  # per table entry at this broker
    per_match: float = 0.0  # per match found
    per_link: float = 0.0  # per message sent
    per_byte: float = 0.0  # per byte received
    per_write: float = 0.0  # per entry written into `node.store`


class Causes(Protocol):
    """The changes that a shard has met: a handle within the shard, an id everywhere."""

    def keys(self, handles: Ints) -> Ints:
        """The ids of handles; -1 for none."""
        ...

    def handles(self, keys: Ints) -> Ints:
        """The handles of ids, made where they are new; -1 for none."""
        ...


@dataclass(frozen=True)
class Sessions:
    """What clients say when they come and go that have a session, by the number of a client or stay."""

    keep_ns: Ints  # for how long what comes is kept once the stay is over; 0: not at all
    most: Ints  # how many messages
    before: Ints  # the stay before, of which something may be kept; -1: none
    begin: Ints
    end: Ints


@dataclass
class ShardEnv:
    """The world of one service on one shard."""

    seed: int
    service: int
    kind: Kind
    options: Any  # the protocol's validated Options, or a mapping
    overlay: Any  # topology.overlay.Overlay: the whole network
    local: NDArray[np.bool_]  # per broker: carried by this shard
    client_broker: NDArray[np.int32]  # per client number: its broker
    duration_ns: int
    cost: CostModel
    bodies: Bodies
    causes: Causes  # the changes this shard has met: handle <-> id
    publisher_brokers: NDArray[np.int32]  # brokers with a client that publishes to this service
    tables: str  # "shared" or "own"
    new_index: Any  # () -> an index for the kind's question
    links: LinkTable = field(default=None)  # type: ignore[assignment]
    server: int = -1  # the node of this service's server; -1: it has none
    forgetful: bool = False  # whether a broker ever comes back without what it knew
    unsure: bool = False  # whether a broker may not know what its clients told it: it forgot, or had no place for it
    latent: Any = None  # the links that may arise (`brokers.arising.Latent`); None: none
    loads: Any = None  # () -> the load of brokers (`brokers.load.Loads`)
    sessions: Sessions | None = None  # what is kept for clients that are away; None: nothing
    lane: int = 0  # which of the shards it is that have bodies and causes in common
    attackers: NDArray[np.int16] | None = None  # by broker the number of its entry there, from 1; None: none attacks

    @property
    def brokers(self) -> int:
        return int(self.local.size)

    @property
    def entity_base(self) -> int:
        return int(self.local.size)


@dataclass(frozen=True)
class LinkTable:
    """Directed links: 2e runs from link_a to link_b of undirected link e, 2e+1 back. `l ^ 1` is the way back."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    delay_ns: Ints
    out_start: NDArray[np.int32]  # out_link[out_start[b]:out_start[b + 1]] leave broker b, by neighbour
    out_link: NDArray[np.int32]
    in_start: NDArray[np.int32]
    in_link: NDArray[np.int32]

    @classmethod
    def of(
        cls, overlay: Any, without: frozenset[int] = frozenset(), hidden: NDArray[np.bool_] | None = None
    ) -> LinkTable:
        """The directed links of an overlay. O(links log links).

        The links of the nodes `without`, and those that are `hidden`, keep their numbers, but leave no broker and reach
        none.
        """
        count = overlay.link_a.size
        source = np.empty(2 * count, np.int32)
        target = np.empty(2 * count, np.int32)
        source[0::2], source[1::2] = overlay.link_a, overlay.link_b
        target[0::2], target[1::2] = overlay.link_b, overlay.link_a
        out_link = np.lexsort((target, source)).astype(np.int32)
        if without:
            nodes = np.array(sorted(without), np.int32)
            out_link = out_link[~(np.isin(source[out_link], nodes) | np.isin(target[out_link], nodes))]
        if hidden is not None:
            out_link = out_link[~hidden[out_link // 2]]
        in_link = (out_link ^ 1).astype(np.int32)
        start = np.zeros(len(overlay.names) + 1, np.int32)
        np.cumsum(np.bincount(source[out_link], minlength=len(overlay.names)), out=start[1:])
        return cls(source, target, np.repeat(overlay.delay_ns, 2), start, out_link, start.copy(), in_link)


@dataclass
class Interests:
    """Interests that stand at time 0 (`subscriptions: settled`), of all clients of the model."""

    id: Ints
    client: Ints  # client numbers
    rows: Floats | None
    objects: Sequence[Any] | None = None


class Batch:
    """What reached the brokers of a shard before their horizons, for one service.

    Arrays of one length. Rows of one broker are adjacent, and in that broker's order (time, kind, source,
    sequence). `starts` bounds the stretches: rows starts[i]:starts[i+1] are one broker's.
    """

    __slots__ = (
        "_starts",
        "body",
        "broker",
        "cause",
        "kind",
        "link",
        "rows",
        "sequence",
        "size",
        "source",
        "time",
        "type",
        "word",
    )

    size: int
    broker: NDArray[np.int32]
    time: Ints
    kind: NDArray[np.int32]  # MESSAGE or TIMER; FAULT, where the protocol hears of faults
    source: Ints  # entity id of the sender
    sequence: Ints
    link: NDArray[np.int32]  # this broker's own link towards the sender; -1 from a client or a timer
    type: NDArray[np.int32]
    body: NDArray[np.int32]  # handle in env.bodies; -1 for none
    word: Ints
    cause: NDArray[np.int32]  # handle of the change that caused it; -1 for none
    rows: NDArray[np.int64] | None  # positions in the shard's batch; None where they are the same

    @property
    def starts(self) -> Ints:
        if self._starts is None:
            broker = self.broker
            cuts = np.flatnonzero(broker[1:] != broker[:-1]) + 1
            self._starts = np.concatenate(([0], cuts, [self.size])).astype(np.int64)
        return self._starts

    def recut(self) -> None:
        """Its rows are others now."""
        self._starts = None

    _starts: Ints | None


# ---- the two views -----------------------------------------------------------------------------------


class ShardProtocol(ABC):
    """A protocol as the engine sees it: one object per shard and service, over arrays."""

    kind: ClassVar[str]  # the one that it serves unless another is said
    kinds: ClassVar[tuple[str, ...]] = ()  # all that it serves, where there are several
    meets: ClassVar[frozenset[str]] = frozenset()  # what of `Kind.demands` it can do
    guarantees: Guarantees = Guarantees()  # `guarantees_for` may know better: it knows the overlay
    Options: ClassVar[type[BaseModel] | None] = None
    plain: ClassVar[type[BrokerProtocol] | None] = None  # the same protocol in the author's view
    server: ClassVar[type[BrokerProtocol] | None] = None  # what a server runs, which `handle` passes over
    state_version: ClassVar[int] = 1  # goes up when `load` would misread what `state` gave before
    hands_over: ClassVar[bool] = False  # whether `plain` hands over what came for a client that was away
    frugal: ClassVar[bool] = False  # on a tree a publication goes over a link only if somebody behind may get it
    resends: ClassVar[bool] = False  # whether a publication may rightly go over a link once more
    # Types of its messages whose body stands for a publication, so that losing one excuses, and does not carry it.
    announces: ClassVar[frozenset[int]] = frozenset()
    pads: ClassVar[str] = ""  # its option that says how many bytes a copy of a publication has beside its own
    relents_ns: ClassVar[int] = 0  # within what time it sends no more publications where they are dropped; 0: never
    requires: ClassVar[Mapping[str, Any]] = {}  # what the parameters of its kind have to say
    hears_faults: ClassVar[bool] = False  # whether `handle` gets events of the kind FAULT
    # Whether `handle` gets them for brokers that come back without what they knew, and forgets it (the word of a
    # RESTART says what is left); where such brokers are and it does not, `plain` runs in its place.
    forgets: ClassVar[bool] = False
    opens: ClassVar[bool] = False  # whether its brokers may open latent links
    sees_load: ClassVar[bool] = False  # whether its brokers get their events one at a time, and see their load
    # How long after it brokers are told that a message of theirs found no place in front of a link, which is a timer of
    # the type `brokers.limits.TOLD`; 0: they are not.
    drops_told_ns: ClassVar[int] = 0
    compiled: ClassVar[Handler | None] = None  # decides as `handle` does, in compiled code, on what it can

    def __init__(self, env: ShardEnv) -> None:
        self.env = env

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        """What is promised on this overlay, where that depends on it.

        Of `overlay` are known `is_tree`, `brokers`, `links`, and by link `link_a`, `link_b` and `loss`.
        """
        return cls.guarantees

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        """What is promised with these options, where that depends on them too."""
        return cls.guarantees_for(overlay)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        """How long after the last fault all that it promises holds again; None: it promises nothing under faults.

        Asked where something fails, with what there is to recover from; of `overlay`, `is_tree` is known.
        """
        return None

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What does not go together, as (key in the service, what is wrong); `params` are the kind's."""
        return []

    @classmethod
    def remarks(cls, options: Any, overlay: Any) -> list[str]:
        """What goes together and may not do what it seems to, as sentences for who plans or validates a run."""
        return []

    @classmethod
    def latent_hops(cls, options: Any) -> int:
        """At most how many links apart any two brokers are that have to have a latent link; 0: it needs none.

        Kit and hunts supply them; a scenario names them, and where it does not `misfits` says so.
        """
        return 0

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """How many messages and timers brokers are expected to handle per simulated second, for `brokerlab plan`."""
        return everywhere(demand)

    @classmethod
    def unsuited(cls, options: Any, overlay: Any) -> str:
        """Why it is not written for these options or this overlay, so that `plain` runs in its place; empty: it is."""
        return ""

    @property
    def timer_min_ns(self) -> int:
        """The shortest delay of a timer this protocol ever sets. A broker never runs ahead of it."""
        return NEVER

    def timer_min_by_broker(self) -> Ints:
        """The same for each broker, where one sets no timers, or longer ones."""
        return np.full(self.env.brokers, self.timer_min_ns, np.int64)

    def stand(self, interests: Interests) -> None:
        """Set up tables as if `interests` had been issued and settled long ago."""
        raise ProtocolFault(
            f"{type(self).__name__} cannot start with settled subscriptions; say `subscriptions: messages`"
        )

    def first_timers(self) -> list[tuple[int, int, int, int]]:
        """Timers that stand at time 0: (broker, delay_ns, type, word), for local brokers."""
        return []

    @abstractmethod
    def handle(self, batch: Batch, out: Out) -> None:
        """Decide on everything in the batch. Outputs of one event keep the order of the calls to `out`."""

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:  # noqa: B027
        """These messages are on their way to brokers: have ready what `compiled` needs to decide on them.

        Called before each window that has any, with all that clients send in it and what other shards sent, and with
        nothing after `handle` was called in between; nothing is handled before `now` any more. What was not made ready
        here, `compiled` leaves to `handle`.
        """

    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of the record that `compiled` takes as `mine`; asked for again whenever one may be another."""
        return {}

    def tidy(self) -> None:  # noqa: B027
        """A window that ran compiled is over: forget what nobody needs any more."""

    def close(self) -> None:  # noqa: B027
        """The run is over, however it ended: let go of what lies outside of this process. May be called twice."""

    def held(self) -> Sequence[int] | Ints:
        """Handles of bodies that must outlive their last message."""
        return ()

    def entries(self) -> Ints:
        """Logical table size per broker (all brokers of the model; 0 where not local)."""
        return np.zeros(self.env.brokers, np.int64)

    def describe(self, broker: int) -> dict[str, Any]:
        """A broker's tables, for `brokerlab inspect`."""
        return {"entries": int(self.entries()[broker])}

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here: plain data and arrays, keyed by what belongs to the model.

        Brokers, links, ids of interests and changes; never slots or handles, which are this shard's own.
        """
        raise NotImplementedError(f"{type(self).__name__} has no state(), so a run of it takes no checkpoints")

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        """Take over, from the states of all shards, what belongs to local brokers.

        `handle_of` gives the handles of the bodies that were `held()`, by their uid. The states come out of files
        that anybody may have written: what reaches a kernel is checked first (`brokers.columns`).
        """
        raise NotImplementedError


class Message(NamedTuple):
    """One message or timer, as `on_message` gets it. `event` only names it towards the node."""

    event: int
    time: int
    kind: int
    source: int
    link: int
    type: int
    body: int
    word: int
    cause: int


class BrokerProtocol(ABC):
    """A protocol as its author writes it: one object per broker and service."""

    kind: ClassVar[str]  # the one that it serves unless another is said
    kinds: ClassVar[tuple[str, ...]] = ()  # all that it serves, where there are several
    meets: ClassVar[frozenset[str]] = frozenset()  # what of `Kind.demands` it can do
    guarantees: Guarantees = Guarantees()  # `guarantees_for` may know better: it knows the overlay
    Options: ClassVar[type[BaseModel] | None] = None
    server: ClassVar[type[BrokerProtocol] | None] = None  # what the server of a service runs, if there is one
    opens: ClassVar[bool] = False  # whether it opens latent links, and is told of them (`brokers.arising`)
    watches: ClassVar[bool] = False  # whether it is told of latent links that go down while they are closed, too
    sees_load: ClassVar[bool] = False  # whether it reads `node.load`; its brokers get their events one at a time
    drops_told_ns: ClassVar[int] = 0  # how long after it `on_drop` is told of a message that found no place; 0: never
    timer_min_ns: int = NEVER
    hands_over: ClassVar[bool] = False  # whether it heeds `env.sessions`
    frugal: ClassVar[bool] = False  # on a tree a publication goes over a link only if somebody behind may get it
    resends: ClassVar[bool] = False  # whether a publication may rightly go over a link once more
    # Types of its messages whose body stands for a publication, so that losing one excuses, and does not carry it.
    announces: ClassVar[frozenset[int]] = frozenset()
    pads: ClassVar[str] = ""  # its option that says how many bytes a copy of a publication has beside its own
    relents_ns: ClassVar[int] = 0  # within what time it sends no more publications where they are dropped; 0: never
    requires: ClassVar[Mapping[str, Any]] = {}  # what the parameters of its kind have to say
    state_version: ClassVar[int] = 1  # goes up when `load` would misread what `state` gave before
    own_tables: ClassVar[Mapping[str, Table]] = {}  # trace tables beside those of its kind, written by `node.record`
    # What attributes hold beside plain data: classes of records, functions that an `Aside` computes.
    keeps: ClassVar[tuple[Any, ...]] = ()
    remade: ClassVar[tuple[str, ...]] = ()  # attributes that no checkpoint keeps: `__init__` or `load` makes them anew

    def __init__(self, node: Node) -> None:
        self.node = node

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        """What is promised on this overlay, where that depends on it.

        Of `overlay` are known `is_tree`, `brokers`, `links`, and by link `link_a`, `link_b` and `loss`.
        """
        return cls.guarantees

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        """What is promised with these options, where that depends on them too."""
        return cls.guarantees_for(overlay)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        """How long after the last fault all that it promises holds again; None: it promises nothing under faults.

        Asked where something fails, with what there is to recover from; of `overlay`, `is_tree` is known.
        """
        return None

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What does not go together, as (key in the service, what is wrong); `params` are the kind's."""
        return []

    @classmethod
    def remarks(cls, options: Any, overlay: Any) -> list[str]:
        """What goes together and may not do what it seems to, as sentences for who plans or validates a run."""
        return []

    @classmethod
    def latent_hops(cls, options: Any) -> int:
        """At most how many links apart any two brokers are that have to have a latent link; 0: it needs none.

        Kit and hunts supply them; a scenario names them, and where it does not `misfits` says so.
        """
        return 0

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """How many messages and timers brokers are expected to handle per simulated second, for `brokerlab plan`."""
        return everywhere(demand)

    @abstractmethod
    def on_message(self, message: Message) -> None:
        """Decide on one message or timer."""

    # Optional: `def on_run(self, run: Run) -> None`, a stretch of one type as arrays. A class that
    # defines it must do in it exactly what `on_message` would do for each row in turn.
    on_run: ClassVar[Any] = None

    # Optional: `def on_fault(self, message: Message) -> None`, told that `message.link` went down or came up (types
    # LINK_DOWN and LINK_UP of `brokers.faults`), or that this broker is up again (RESTART; its `word` says with what
    # state, and if that was lost, this is another object than before, which has `node.store` if it was stored).
    on_fault: ClassVar[Any] = None

    @classmethod
    def wants_faults(cls, options: Any) -> bool:
        """Whether brokers are told of faults; by default where there is an `on_fault`."""
        return cls.on_fault is not None

    @classmethod
    def wants_load(cls, options: Any) -> bool:
        """Whether brokers read `node.load` with these options; by default as `sees_load` says."""
        return cls.sees_load

    def on_drop(self, message: Message) -> None:  # noqa: B027
        """A message of this broker's found no place in front of `message.link`; needs `drops_told_ns`.

        `type`, `body` and `cause` are those that it was sent with; the time is now.
        """

    def on_standing(self, id: int, client: int, broker: int, row: Floats) -> None:
        """Set up the table for an interest that stands at time 0 (`subscriptions: settled`)."""
        raise ProtocolFault(
            f"{type(self).__name__} cannot start with settled subscriptions; say `subscriptions: messages`"
        )

    def first_timers(self) -> list[tuple[int, int, int]]:
        """Timers that stand at time 0: (delay_ns, type, word)."""
        return []

    def entries(self) -> int:
        """Logical table size."""
        return 0

    def describe(self) -> dict[str, Any]:
        return {"entries": self.entries()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of this broker, by name: its attributes, but those that are `remade`.

        Plain data: numbers, text, containers of them, NumPy arrays, bodies from `keep`, and records of `keeps`.
        """
        left_out = {"node"}.union(*(vars(kind).get("remade", ()) for kind in type(self).__mro__))
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def load(self, state: dict[str, Any]) -> None:
        """Take over in a new broker what `state` gave in another one. The table has its entries already.

        The types are those that were written, the values whatever a file says: override this to check what
        goes into a kernel of yours.
        """
        vars(self).update(state)


__all__ = [
    "FAULT",
    "FIRST_PROTOCOL_TYPE",
    "MESSAGE",
    "NEVER",
    "TIMER",
    "Batch",
    "BrokerProtocol",
    "CostModel",
    "Demand",
    "Emission",
    "Guarantees",
    "Interests",
    "Kind",
    "LinkTable",
    "Message",
    "Rates",
    "ShardEnv",
    "ShardProtocol",
    "Source",
    "SourceContext",
]
if TYPE_CHECKING:
    __all__ += ["Node", "Run"]
