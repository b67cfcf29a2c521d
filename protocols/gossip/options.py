"""Options of `gossipsub`: every parameter of its specification, presets of them, and what has to hold between them.

The defaults are those of go-libp2p-pubsub. A preset takes the place of defaults, and what is said beside it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from brokers.kinds import UNDRAWN
from brokers.rates import Demand
from topology.units import Duration, Fraction, PositiveDuration, Size

SECOND = 1_000_000_000
_MS = 1_000_000

Whole = Annotated[int, Field(ge=0, le=1_000_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Reward = Annotated[float, Field(ge=0, le=1e12)]
Penalty = Annotated[float, Field(le=0, ge=-1e12)]
Amount = Annotated[float, Field(ge=0, le=1e12)]
Decay = Annotated[float, Field(gt=0, lt=1)]


class Section(BaseModel):
    """A section of the options."""

    model_config = ConfigDict(extra="forbid")


class TopicScoring(Section):
    """What neighbours do in one topic, and what it counts."""

    weight: Annotated[Reward, Field(description="of the topic: its sum counts so many times")] = 1.0
    mesh_weight: Annotated[Reward, Field(description="P1, of the time in the mesh")] = 0.0
    mesh_quantum: Annotated[PositiveDuration, Field(description="P1: in which that time is counted")] = SECOND
    mesh_cap: Annotated[Amount, Field(description="P1: it counts no more of them")] = 10.0
    first_weight: Annotated[Reward, Field(description="P2, of payloads that a neighbour brought first")] = 0.0
    first_decay: Annotated[Decay, Field(description="P2: its factor at each decay")] = 0.5
    first_cap: Annotated[Amount, Field(description="P2: it counts no more of them")] = 10.0
    rate_weight: Annotated[Penalty, Field(description="P3, of the square of what lacks at `rate_threshold`")] = 0.0
    rate_decay: Annotated[Decay, Field(description="P3: the factor of what was delivered in the mesh")] = 0.5
    rate_cap: Annotated[Amount, Field(description="P3: no more than that is counted as delivered")] = 10.0
    rate_threshold: Annotated[Amount, Field(description="P3: what a neighbour in the mesh should have delivered")] = 1.0
    rate_activation: Annotated[
        Duration, Field(examples=["100 ms"], description="P3: nothing lacks before it was in the mesh for so long")
    ] = SECOND
    rate_window: Annotated[
        Duration, Field(description="P3: a copy counts as delivered so long after the first was validated")
    ] = 10 * _MS
    failure_weight: Annotated[Penalty, Field(description="P3b, of what lacked when it left the mesh, squared")] = 0.0
    failure_decay: Annotated[Decay, Field(description="P3b: its factor at each decay")] = 0.5
    invalid_weight: Annotated[Penalty, Field(description="P4, of the square of invalid payloads")] = 0.0
    invalid_decay: Annotated[Decay, Field(description="P4: its factor at each decay")] = 0.5

    @model_validator(mode="after")
    def _reachable(self) -> TopicScoring:
        if self.rate_weight and self.rate_cap < self.rate_threshold:
            raise ValueError(
                f"`rate_cap` is {self.rate_cap:g}, below `rate_threshold`, {self.rate_threshold:g}: every neighbour in "
                "the mesh would lack something for ever"
            )
        return self


class Thresholds(Section):
    """What becomes of a neighbour whose score lies below: graylist < publish <= gossip < 0."""

    gossip: Annotated[float, Field(lt=0, description="no gossip to it or from it")] = -4_000.0
    publish: Annotated[float, Field(lt=0, description="it gets no flood publishing and nothing by fanout")] = -8_000.0
    graylist: Annotated[float, Field(lt=0, description="all that it sends is dropped, but for SUBSCRIBE")] = -16_000.0
    accept_px: Annotated[Amount, Field(description="nobody is connected to whom it names in a PRUNE")] = 100.0
    opportunistic: Annotated[
        Amount, Field(description="a mesh whose median score lies below takes in better neighbours")
    ] = 5.0

    @model_validator(mode="after")
    def _in_order(self) -> Thresholds:
        if not self.graylist < self.publish <= self.gossip:
            raise ValueError(
                "thresholds out of order: it takes graylist < publish <= gossip < 0 "
                f"(got {self.graylist:g}, {self.publish:g} and {self.gossip:g})"
            )
        return self


class Scoring(Section):
    """The score of a neighbour, P1 to P7, and what follows from it."""

    topic: Annotated[TopicScoring, Field(description="of every topic that is not in `topics`")] = TopicScoring()
    topics: Annotated[dict[str, TopicScoring], UNDRAWN, Field(description="by the name of a topic")] = {}
    cap: Annotated[Amount, Field(description="topics together count no more; 0: whatever they sum up to")] = 0.0
    app_weight: Annotated[Reward, Field(description="P5, of what the application thinks of a broker")] = 0.0
    app: Annotated[
        dict[int, float], UNDRAWN, Field(description="P5: that, by the number of the broker; of others it is 0")
    ] = {}
    address_weight: Annotated[
        Penalty, Field(description="P6, of the square of neighbours at one address beyond `address_threshold`")
    ] = 0.0
    address_threshold: Annotated[Whole, Field(description="P6: so many may share an address")] = 1
    address_brokers: Annotated[
        Count, Field(description="P6: so many brokers, by their numbers, have one address")
    ] = 1
    behaviour_weight: Annotated[
        Penalty, Field(description="P7, of grafts too early and promises that were broken, beyond a threshold, squared")
    ] = 0.0
    behaviour_threshold: Annotated[Amount, Field(description="P7: so much is forgiven")] = 0.0
    behaviour_decay: Annotated[Decay, Field(description="P7: its factor at each decay")] = 0.5
    slow_weight: Annotated[
        Penalty, Field(description="of messages that were dropped in front of a link to it, beyond a threshold")
    ] = 0.0
    slow_threshold: Annotated[Amount, Field(description="so many of them are forgiven")] = 0.0
    slow_decay: Annotated[Decay, Field(description="their factor at each decay")] = 0.2
    decay_every: Annotated[
        PositiveDuration, Field(ge=_MS, examples=["100 ms", "400 ms"], description="counters decay so often")
    ] = SECOND
    decay_to_zero: Annotated[Decay, Field(description="a counter below is 0")] = 0.01
    retain: Annotated[
        Duration, Field(description="a score that is not above 0 is kept for so long after its broker was gone")
    ] = 3_600 * SECOND
    thresholds: Thresholds = Thresholds()


ETHEREUM_BLOCKS = {
    "weight": 0.5, "mesh_weight": 0.0324, "mesh_quantum": "12 s", "mesh_cap": 300.0,
    "first_weight": 1.0, "first_decay": 0.9928, "first_cap": 23.0,
    "rate_weight": -0.724, "rate_decay": 0.9928, "rate_threshold": 14.0, "rate_cap": 139.0, "rate_activation": "1536 s",
    "rate_window": "2 s", "failure_weight": -0.724, "failure_decay": 0.9928,
    "invalid_weight": -142.0, "invalid_decay": 0.9971,
}  # fmt: skip
# Of `ethereum` what the simulator of jvm-libp2p says (`Eth2GossipParams.kt`) counts; what that leaves open, the
# consensus specification (`phase0/p2p-interface.md`) says, and what both leave open, jvm-libp2p (`GossipParams.kt`).
PRESETS: dict[str, dict[str, Any]] = {
    "none": {},
    "libp2p": {"d_lo": 4, "flood_publish": True},
    "ethereum": {
        "d": 8, "d_lo": 6, "d_hi": 12, "d_lazy": 8, "heartbeat": "700 ms", "history": 6, "opportunistic_ticks": 85,
        "ihave_messages": 5, "id_bytes": 20, "seen": "768 s", "idontwant_from": 16_384,
        "scoring": {
            "topic": ETHEREUM_BLOCKS, "cap": 35.5, "app_weight": 1.0, "address_weight": -35.5, "address_threshold": 10,
            "behaviour_weight": -15.92, "behaviour_decay": 0.9857, "behaviour_threshold": 6.0,
            "decay_every": "12 s", "decay_to_zero": 0.1, "retain": "38400 s",
        },
    },
}  # fmt: skip
# What a later version brought, and what scores alone decide.
_SINCE_1_1 = (
    "d_score", "d_out", "gossip_factor", "gossip_draw", "backoff", "leave_backoff", "graft_flood", "px_peers",
)  # fmt: skip
_SINCE_1_2 = ("idontwant_from", "idontwant_messages", "idontwant_ids", "idontwant_ticks")
_SCORED = ("opportunistic_ticks", "opportunistic_peers")
_SMALL: list[Any] = [
    {"d": 2, "d_lo": 1, "d_hi": 3, "d_score": 1, "d_out": 0, "d_lazy": 1},
    {"d": 3, "d_lo": 2, "d_hi": 4, "d_score": 2, "d_out": 1, "d_lazy": 2, "heartbeat": "100 ms"},
    {"d": 1, "d_lo": 1, "d_hi": 2, "d_score": 1, "d_out": 0, "d_lazy": 0, "heartbeat": "150 ms", "payload": 2000},
    {"d": 1, "d_lo": 0, "d_hi": 1, "d_score": 0, "d_out": 0, "heartbeat": "50 ms", "history": 3, "seen": "1 s"},
    {
        "d": 2, "d_lo": 2, "d_hi": 2, "d_score": 0, "d_out": 0, "heartbeat": "50 ms", "history": 2, "gossip_windows": 1,
        "px": True,
    },
    {
        "d": 2, "d_lo": 1, "d_hi": 2, "d_score": 1, "d_out": 0, "heartbeat": "80 ms", "backoff": "300 ms",
        "graft_flood": "50 ms", "invalid": 0.2,
        "scoring": {"topic": ETHEREUM_BLOCKS, "behaviour_weight": -10.0, "decay_every": "100 ms"},
    },
]  # fmt: skip


class Options(Section):
    """Options of `gossipsub`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _SMALL})

    version: Annotated[
        Literal["1.0", "1.1", "1.2"],
        Field(
            description="of the specification. 1.0 knows no scores, backoffs, D_out, adaptive gossip, flood publishing "
            "or px; before 1.2 there is no IDONTWANT"
        ),
    ] = "1.2"
    preset: Annotated[
        Literal["none", "libp2p", "ethereum"],
        Field(
            description="takes the place of the defaults, which are those of go-libp2p: what the specification of "
            "libp2p recommends, or what is known of Ethereum's block topic"
        ),
    ] = "none"

    d: Annotated[Count, UNDRAWN, Field(description="D, how many neighbours a mesh is to have")] = 6
    d_lo: Annotated[Whole, UNDRAWN, Field(description="D_lo, below which more are grafted, up to D")] = 5
    d_hi: Annotated[Count, UNDRAWN, Field(description="D_hi, from which all but D are pruned")] = 12
    d_score: Annotated[Whole, UNDRAWN, Field(description="of these, so many are kept for their scores")] = 4
    d_out: Annotated[
        Whole, UNDRAWN, Field(description="so many links of a mesh are to be such as this broker dialled itself")
    ] = 2
    d_lazy: Annotated[Whole, UNDRAWN, Field(description="gossip goes to so many neighbours, at least")] = 6
    gossip_factor: Annotated[Fraction, Field(description="and to this share of those that it may go to")] = 0.25
    gossip_draw: Annotated[
        Literal["share", "each"],
        Field(description="whether it goes to just that share, or to each of them with that probability"),
    ] = "share"
    history: Annotated[Count, UNDRAWN, Field(description="payloads are kept for so many heartbeats")] = 5
    gossip_windows: Annotated[Count, UNDRAWN, Field(description="and told of in so many")] = 3
    heartbeat: Annotated[
        PositiveDuration, Field(ge=_MS, examples=["80 ms", "200 ms", "500 ms"], description="how often a broker tends")
    ] = SECOND
    first_heartbeat: Annotated[
        PositiveDuration,
        Field(examples=["10 ms"], description="the first is so long after the start, and up to a heartbeat more"),
    ] = 100 * _MS
    fanout: Annotated[
        PositiveDuration, Field(description="whoever publishes without subscribing keeps whom it told so long")
    ] = 60 * SECOND
    seen: Annotated[
        PositiveDuration, UNDRAWN, Field(description="ids are remembered so long, and what is older is dropped unread")
    ] = 120 * SECOND

    backoff: Annotated[
        PositiveDuration, Field(examples=["300 ms", "2 s"], description="for so long after a PRUNE nobody grafts again")
    ] = 60 * SECOND
    leave_backoff: Annotated[
        PositiveDuration, Field(examples=["100 ms"], description="the same where the broker left the topic")
    ] = 10 * SECOND
    graft_flood: Annotated[
        Duration, Field(description="a GRAFT so soon after the prune counts twice against who sends it")
    ] = 10 * SECOND

    flood_publish: Annotated[bool, Field(description="own publications go to all neighbours of the topic")] = False
    exclude_author: Annotated[bool, Field(description="nobody passes a payload on to the broker of its author")] = True
    px: Annotated[bool, Field(description="who is pruned for want of room is told of other neighbours")] = False
    px_peers: Annotated[Whole, Field(description="of so many, and connects to as many")] = 16
    direct: Annotated[
        list[tuple[int, int]],
        Field(
            examples=[[[0, 1]]],
            description="pairs of brokers that pass everything on to each other and are in no mesh of each other",
        ),
    ] = []
    direct_ticks: Annotated[Count, Field(description="direct neighbours are connected again every so many ticks")] = 300
    opportunistic_ticks: Annotated[
        Count, Field(examples=[2, 5], description="meshes of low scores take in others every so many ticks")
    ] = 60
    opportunistic_peers: Annotated[Whole, Field(description="so many")] = 2

    ihave_messages: Annotated[Count, Field(description="of one neighbour in one heartbeat; more are ignored")] = 10
    ihave_ids: Annotated[
        Count, Field(description="in one IHAVE, and asked of one neighbour in one heartbeat, at most")
    ] = 5_000
    iwant_repeats: Annotated[Count, Field(description="a neighbour gets a payload that it asks for so often")] = 3
    iwant_followup: Annotated[
        PositiveDuration, Field(examples=["100 ms"], description="who told of an id has to bring it so soon")
    ] = 3 * SECOND
    idontwant_from: Annotated[Size, Field(examples=[0], description="payloads so large are told of")] = 1_024
    idontwant_messages: Annotated[Count, Field(description="of one neighbour in a heartbeat; more are ignored")] = 1_000
    idontwant_ids: Annotated[Count, Field(description="in one message; more are ignored")] = 10
    idontwant_ticks: Annotated[Count, Field(description="for so many heartbeats they are heeded")] = 3

    payload: Annotated[Size, Field(le=1 << 40, description="bytes of a publication beside its name")] = 0
    id_bytes: Annotated[Count, Field(description="bytes of an id in control messages")] = 40
    announce_ticks: Annotated[
        Whole,
        Field(
            examples=[1, 3],
            description="all own topics are said to all neighbours again every so many ticks, for who lost a word of "
            "them; 0: never",
        ),
    ] = 0
    validation: Annotated[
        Duration, Field(examples=["5 ms", "30 ms"], description="what comes is delivered and passed on after so long")
    ] = 0
    invalid: Annotated[Fraction, Field(description="which share of the publications proves invalid to others")] = 0.0
    invalid_from: Annotated[
        list[int],
        Field(examples=[[0]], description="and those of clients of these brokers, by number, are invalid, all of them"),
    ] = []
    ignored: Annotated[Fraction, Field(description="which share is neither passed on nor held against anybody")] = 0.0

    watch_ticks: Annotated[
        Whole,
        UNDRAWN,
        Field(description="every so many ticks the trace gets who is in meshes, and all scores; 0: never"),
    ] = 0
    scoring: Annotated[
        Scoring | None,
        Field(
            examples=[{}, {"topic": ETHEREUM_BLOCKS, "decay_every": "100 ms"}],
            description="scores of neighbours; left out, all are 0",
        ),
    ] = None

    @model_validator(mode="wrap")
    @classmethod
    def _on_top_of_preset(cls, said: Any, checked: ModelWrapValidatorHandler[Options]) -> Options:
        name = said.get("preset", "none") if isinstance(said, Mapping) else None
        preset = PRESETS.get(name, {}) if isinstance(name, str) else {}
        found = checked(_merged(preset, said) if preset else said)
        wrong = next(((rule, names) for holds, rule, names in found._rules() if not holds), None)
        if wrong is not None:
            rule, names = wrong
            unsaid = [each for each in names.split() if each in preset and each not in said]
            whose = f"; the preset {name!r} says {' and '.join(f'`{each}`' for each in unsaid)}" if unsaid else ""
            raise ValueError(rule + whose)
        return found

    def _rules(self) -> list[tuple[bool, str, str]]:
        """Whether it holds, the rule, and the options that it is about."""
        kept = (self.history + 1) * self.heartbeat
        old = self.version == "1.0"
        return [
            (self.d_lo <= self.d, f"it takes d_lo <= d (got {self.d_lo} and {self.d})", "d_lo d"),
            (self.d <= self.d_hi, f"it takes d <= d_hi (got {self.d} and {self.d_hi})", "d d_hi"),
            (self.d_score <= self.d, f"it takes d_score <= d (got {self.d_score} and {self.d})", "d_score d"),
            (
                old or self.d_out == 0 or (self.d_out < self.d_lo and 2 * self.d_out <= self.d),
                f"it takes d_out < d_lo and d_out <= d / 2, or 0 (got {self.d_out}, with {self.d_lo} and {self.d})",
                "d_out d_lo d",
            ),
            (
                self.gossip_windows <= self.history,
                f"it takes gossip_windows <= history (got {self.gossip_windows} and {self.history})",
                "gossip_windows history",
            ),
            (
                self.seen > kept,
                f"`seen` has to be longer than history + 1 heartbeats, {kept / SECOND:g} s, or what is told of "
                f"comes as new again (got {self.seen / SECOND:g} s)",
                "seen history heartbeat",
            ),
            (
                self.validation < self.heartbeat * self.history,
                "`validation` has to be shorter than what is kept, history * heartbeat",
                "validation history heartbeat",
            ),
            (
                self.invalid + self.ignored <= 1,
                "`invalid` and `ignored` are shares of all, and sum up to 1 at most",
                "invalid ignored",
            ),
            (
                not (old and self.scoring is not None),
                "version 1.0 knows no scores: it takes `scoring: null`, or version 1.1",
                "scoring",
            ),
            (
                not (old and self.flood_publish),
                "version 1.0 knows no flood publishing: it takes `flood_publish: false`, or version 1.1",
                "flood_publish",
            ),
            (not (old and self.px), "version 1.0 knows no px: it takes `px: false`, or version 1.1", "px"),
        ]


def _merged(usual: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What is said, on top of what is usual, section by section."""
    found = {**usual, **said}
    for name, section in usual.items():
        if isinstance(section, Mapping) and isinstance(said.get(name), Mapping):
            found[name] = _merged(section, said[name])
    return found


def misfits(options: Options, overlay: Any) -> list[tuple[str, str]]:
    """What is said of brokers that are not there, or not linked."""
    linked = {frozenset(pair) for pair in zip(overlay.link_a.tolist(), overlay.link_b.tolist())}
    found = [
        ("options.direct", f"{a} and {b} have no link; direct neighbours are linked brokers, by number")
        for a, b in options.direct
        if frozenset((a, b)) not in linked
    ]
    app = options.scoring.app if options.scoring else {}
    for key, brokers in (("options.invalid_from", options.invalid_from), ("options.scoring.app", app)):
        found += [
            (key, f"there is no broker {b}; they are numbered 0 to {overlay.brokers - 1}")
            for b in sorted(brokers)
            if not 0 <= b < overlay.brokers
        ]
    return found


def remarks(options: Options, overlay: Any) -> list[str]:
    """What to say of options that go with the overlay, but may not do what they seem to."""
    return [*_of_degrees(options, overlay), *_of_backoffs(options), *_of_what_is_unread(options)]


def _of_backoffs(options: Options) -> list[str]:
    """Times that the specification leaves free, so long that one of them tells nothing apart."""
    if options.scoring is None:
        return []
    flood, backoff, leave = (each / SECOND for each in (options.graft_flood, options.backoff, options.leave_backoff))
    found = []
    if flood >= backoff:
        found.append(
            "`graft_flood` is no shorter than `backoff`, so each GRAFT before its end counts twice "
            f"(got {flood:g} and {backoff:g} s)"
        )
    if leave > backoff:
        found.append(
            "`leave_backoff` is longer than `backoff`, so after a broker left a GRAFT counts twice for longer than "
            f"`graft_flood` (got {leave:g} and {backoff:g} s)"
        )
    return found


def _of_what_is_unread(options: Options) -> list[str]:
    """Options with a value of their own that nobody reads, since others rule it out."""
    usual = Options(preset=options.preset)
    found = []
    for applies, why, names in (
        (options.version == "1.0", "version 1.0 does not read", _SINCE_1_1),
        (options.version != "1.2", f"version {options.version} does not read", _SINCE_1_2),
        (options.scoring is None, "without `scoring` nobody reads", _SCORED),
    ):
        said = [f"`{name}`" for name in names if getattr(options, name) not in (0, getattr(usual, name))]
        if applies and said:
            found.append(f"{why} {' and '.join(said)}")
    return found


def _of_degrees(options: Options, overlay: Any) -> list[str]:
    """A mesh larger than what there are neighbours for."""
    degree = overlay.degree
    most, few, fewer = int(degree.max(initial=0)), int((degree < options.d_lo).sum()), int((degree < options.d).sum())
    if options.d > most:
        return [
            f"`d` is {options.d}, and no broker has more than {most} neighbours: it takes d <= the degree of the "
            "overlay, or a mesh is all neighbours of its topic, and nobody is left for gossip"
        ]
    if few:
        return [
            f"`d_lo` is {options.d_lo}, and {few} of {degree.size} brokers have fewer neighbours ({fewer} fewer than "
            f"`d`, {options.d}): it takes d <= the degree of the overlay, or meshes there stay too small, and whom all "
            "its neighbours prune is in none and misses publications"
        ]
    return []


def expected(demand: Demand) -> float:
    """Messages and timers per second: payloads by the closed form, IHAVE and heartbeats."""
    said, brokers = demand.options, demand.overlay.brokers
    neighbours = 2 * float(demand.overlay.links) / brokers
    degree = min(float(said.d), neighbours)
    sent = float(demand.publications.sum())
    every_s = said.heartbeat / SECOND
    told = brokers * said.d_lazy / every_s * min(1.0, sent * said.gossip_windows * every_s)
    return sent * (brokers * (degree - 1) + 2) + brokers / every_s + told + float(demand.changes.sum()) * neighbours
