"""The kind `topics`: names with levels, and filters with wildcards, as MQTT 5 or NATS have them.

A publication is a row `[level, ...]`, the words of its name in numbers, and behind them its flags as a number below 0
where it has some; a subscription is a row `[flags, group, level, ...]`, whose levels may be wildcards
(`brokers.indexes.topics.syntax`). The definition: a publication reaches every client that has a subscription whose
filter has its name, and its own publisher too if that subscribed, unless the subscription says `no-local`: once per
client, or with `overlap: each` once for each such subscription.

A subscription may be that of a member of a *group*: those with one name of a group and one filter are one group. Of
each group whose filter has its name, one member gets a publication, whichever, beside what else it asked for. Who was
chosen stands in the table `chosen`.

A publication may be *retained*: the last one of a name is kept, unless it is empty, and a client that subscribes gets
what is kept under the names that its filter has. Which one is the last, and what is delivered as retained, say
`definition` and the table `retained`.

Where the service says `adverts: true`, publishers say beforehand under which names they will publish: an advertisement
is a filter as a subscription has one, until it is taken back. What none of its publisher's advertisements has is owed
to nobody (`protocols.content.kind`).

People write and read text: `site/+/temperature`. What its words are as numbers is said in `words`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator

from brokers.contract import Floats, Ints, Kind
from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids, RowIndex
from brokers.indexes.topics.contract import checked_filters, checked_names
from brokers.indexes.topics.syntax import DOLLAR, HASH, NATS, PLUS, WORD_MAX, Syntax, matches, syntax_named
from brokers.kinds import UNDRAWN, KindManifest
from brokers.schema import Column, Table
from protocols.content.kind import Content
from protocols.topics import words
from protocols.topics.manifest import TOPICS

PUBLISH, SUBSCRIBE, UNSUBSCRIBE, ADVERTISE, UNADVERTISE = range(5)
NAME_AT, FILTER_AT = 0, 2  # where the levels begin in a publication and in a subscription
FLAGS_AT, GROUP_AT = 0, 1  # in a subscription
NO_LOCAL, AS_PUBLISHED, IF_NEW, NEVER_KEPT = 1, 2, 4, 8  # flags of a subscription
RETAIN, EMPTY = 1, 2  # of a publication
FLAGS = {
    PUBLISH: {"retain": RETAIN, "empty": EMPTY},
    SUBSCRIBE: {
        "no-local": NO_LOCAL, "retain-as-published": AS_PUBLISHED, "retained-if-new": IF_NEW,
        "retained-never": NEVER_KEPT,
    },
}  # fmt: skip
ABSENT = -1  # the value of a level that a name does not have

_DEMANDS = {
    "groups": "of each group one member gets a publication",
    "no_local": "some subscriptions leave out what their clients publish",
    "overlap": "a client gets a publication for each subscription that has its name",
    "retained": "who subscribes gets the last publication that was retained",
}
_NEEDS = {NO_LOCAL: "no_local", AS_PUBLISHED: "retained", IF_NEW: "retained", NEVER_KEPT: "retained"}
_NO_GROUPS = "; the service has no groups, unless it says `groups: true`"
_NO_WILDCARDS = "has a wildcard; the service has names only, by `wildcards: false`"
_NO_LOCAL_GROUP = "no-local is for subscriptions that are in no group: who publishes may be the member that is chosen"
_UNKNOWN = "the service does not know {}, unless it says `{}: true`"
_EMPTY_ALONE = "`empty` takes back what is retained, so it stands beside `retain`"
_TWO_HANDLINGS = "what is retained comes always, `retained-if-new` or `retained-never`; leave out one of the two"
_HEADER_BYTES = 24
_LEVEL_BYTES = 8  # a word of seven letters and a separator


class Params(BaseModel):
    """Parameters of a `topics` service."""

    model_config = ConfigDict(extra="forbid")

    syntax: Annotated[
        Literal["mqtt", "nats"],
        Field(description="how names and filters are written, and what wildcards stand for: as in MQTT 5 or in NATS"),
    ] = "mqtt"
    levels: Annotated[int, Field(ge=1, le=128, description="how many levels a name or filter has at most")] = 16
    groups: Annotated[
        bool,
        Field(
            description="clients may subscribe as members of groups, of which one gets each publication: shared "
            "subscriptions, `$share/group/filter`; with nats queue groups, `filter group`"
        ),
    ] = False
    no_local: Annotated[
        bool,
        Field(description="clients may leave out of a subscription what they publish, by the flag `no-local`"),
    ] = False
    wildcards: Annotated[
        bool, Field(description="filters may have wildcards; `false`: a filter is a name, as gossip by topic needs it")
    ] = True
    adverts: Annotated[bool, UNDRAWN] = Field(
        False, description="whether publishers advertise: what lies outside of their advertisements is owed to nobody"
    )
    overlap: Annotated[
        Literal["one", "each"],
        Field(
            description="what a client gets that asks for a publication by several subscriptions: one copy, or one for "
            "each; for a group that it is chosen of it gets another either way"
        ),
    ] = "one"
    retained: Annotated[
        bool,
        Field(
            description="the last publication of a name with the flag `retain` is kept, and who subscribes gets it; "
            "mqtt only"
        ),
    ] = False

    @model_validator(mode="after")
    def _kept_by_mqtt_only(self) -> Params:
        if self.retained and self.syntax == "nats":
            raise ValueError("`retained` is for `syntax: mqtt`: NATS keeps no last value of a name")
        return self

    @model_validator(mode="after")
    def _adverts_alone(self) -> Params:
        with_them = [name for name in _DEMANDS if self.adverts and getattr(self, name) not in (False, "one")]
        if with_them:
            raise ValueError(f"no protocol can do both `adverts` and `{with_them[0]}`; leave out one of the two")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Services that ask for none of it are told as before it was there, and keep the ids of their runs."""
        usual = {"overlap": "one", "retained": False, "wildcards": True, "adverts": False}
        return {key: value for key, value in dump(self).items() if key not in usual or value != usual[key]}


class FilterRows(RowIndex):
    """An index of filters as tables use it, who know rows with what stands before the levels, and behind those."""

    def __init__(self, index: RowIndex, flagged: bool) -> None:
        self.index, self.flagged = index, flagged
        self.counters = index.counters

    def __len__(self) -> int:
        return len(self.index)

    def insert(self, ids: Any, rows: Any) -> None:
        self.index.insert(ids, rows[:, FILTER_AT:])

    def delete(self, ids: Any) -> None:
        self.index.delete(ids)

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        return self.index.match_many(self._names(values))

    def late_matches(self, values: Floats, since: Ids, log: Ids, rows: Floats) -> tuple[Ids, Ids]:
        return self.index.late_matches(self._names(values), since, log, rows[:, FILTER_AT:])

    def _names(self, values: Any) -> Any:
        return np.where(values < 0, np.nan, values) if self.flagged else values

    def memory_bytes(self) -> int:
        return self.index.memory_bytes()

    def check(self) -> None:
        self.index.check()


class Topics(Kind):
    """See the module."""

    manifest: ClassVar[KindManifest] = TOPICS
    types: ClassVar[Mapping[str, int]] = {
        "publish": PUBLISH,
        "subscribe": SUBSCRIBE,
        "unsubscribe": UNSUBSCRIBE,
        "advertise": ADVERTISE,
        "unadvertise": UNADVERTISE,
    }
    publications: ClassVar[frozenset[int]] = frozenset({PUBLISH})
    changes: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE, UNSUBSCRIBE, ADVERTISE, UNADVERTISE})
    interests: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE, ADVERTISE})
    offers: ClassVar[frozenset[int]] = frozenset({ADVERTISE})
    revocations: ClassVar[frozenset[int]] = frozenset({UNSUBSCRIBE, UNADVERTISE})
    tables: ClassVar[Mapping[str, Table]] = {
        **Content.tables,
        "chosen": Table(
            "Which member of a group got a publication for it.",
            "deliveries",
            (
                Column("service", "int16", "number of the service in the scenario"),
                Column("broker", "int32", "the member's broker"),
                Column("time_ns", "int64", "when"),
                Column("publication", "int64", "the publication"),
                Column("interest", "int64", "the member's subscription"),
                Column("client", "int64", "entity id of the member"),
            ),
        ),
        "retained": Table(
            "What clients got that says that it is retained.",
            "deliveries",
            (
                Column("service", "int16", "number of the service in the scenario"),
                Column("broker", "int32", "the client's broker"),
                Column("time_ns", "int64", "when its broker handled what made it so"),
                Column("publication", "int64", "the publication"),
                Column("interest", "int64", "the subscription"),
                Column("client", "int64", "entity id of the client"),
                Column("live", "int8", "1 as it was published, to a subscription that wants the flag; 0 what was kept"),
            ),
        ),
    }
    Params: ClassVar[type[BaseModel]] = Params

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.syntax: Syntax = syntax_named(params.get("syntax", "mqtt"))
        self.levels = int(params.get("levels", 16))
        self.groups, self.no_local = bool(params.get("groups")), bool(params.get("no_local"))
        self.wildcards = bool(params.get("wildcards", True))
        self.retained, self.each = bool(params.get("retained")), params.get("overlap") == "each"

    @property
    def pair_by_pair(self) -> bool:
        return not (self.groups or self.no_local or self.retained or self.each)

    @property
    def counts_copies(self) -> bool:
        return self.groups or self.each

    @property
    def advertised(self) -> bool:
        return bool(self.params.get("adverts"))

    @classmethod
    def unsaid(cls, params: Mapping[str, Any]) -> frozenset[int]:
        return Content.unsaid(params)

    @classmethod
    def misfits_of_workload(cls, params: Mapping[str, Any], workload: Sequence[Any]) -> list[tuple[str, str]]:
        from protocols.topics.advertise import misfits_of_adverts

        return misfits_of_adverts(params, workload)

    @classmethod
    def demands(cls, params: Mapping[str, Any]) -> Mapping[str, str]:
        usual = {**dict.fromkeys(_DEMANDS, False), "overlap": "one"}
        return {key: told for key, told in _DEMANDS.items() if params.get(key, usual[key]) != usual[key]}

    def new_index(self, index: type) -> Any:
        return index(self.syntax)

    def row_index(self, index: Any) -> RowIndex:
        return FilterRows(super().row_index(index), self.retained)

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        levels = rows[:, _levels_at(type) :]
        present = np.count_nonzero(levels >= 0 if type == PUBLISH else ~np.isnan(levels), axis=1)
        return (_HEADER_BYTES + _LEVEL_BYTES * present).astype(np.int64)

    # ---- the definition ----------------------------------------------------------------------------------

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        name = levels_of(PUBLISH, message)
        return {id_ for id_, row in interests.items() if matches(levels_of(SUBSCRIBE, row), name, self.syntax)}

    def point(self, row: Floats) -> Floats:
        found = np.full(self.range_attributes, np.nan)
        levels = levels_of(PUBLISH, row)
        found[: len(levels)] = levels
        found[len(levels)] = ABSENT
        return found

    @property
    def range_attributes(self) -> int:
        return self.levels + 1

    def ranges(self, rows: Floats) -> Floats:
        """A range for each level, where a level that a name does not have is `ABSENT`: that holds all that filters say.

        A word is a point, `PLUS` all words, `HASH` asks nothing more; where a filter ends, the name has to end. Both
        syntaxes differ in two ends: of `HASH`, which may ask for a level, and of leading wildcards (the `$` rule).
        """
        count, depth = len(rows), rows.shape[1] - FILTER_AT
        level = np.full((count, depth + 1), np.nan)
        level[:, :depth] = rows[:, FILTER_AT:]
        size = np.count_nonzero(~np.isnan(level), axis=1)
        rest = level == HASH
        low = np.where((level == PLUS) | rest, 0.0, level)
        high = np.where((level == PLUS) | rest, WORD_MAX, level)
        if self.syntax.dollar_rule:
            high[:, 0] = np.where(level[:, 0] < 0, DOLLAR - 1, high[:, 0])
        if self.syntax.rest_may_be_empty:
            low[:, 1:][rest[:, 1:]] = np.nan
        ends = np.flatnonzero(~rest.any(axis=1))
        low[ends, size[ends]] = high[ends, size[ends]] = ABSENT
        found = np.full((count, depth + 1, 3), np.nan)
        asked = ~np.isnan(low)
        found[:, :, 0] = np.where(asked, np.arange(depth + 1), np.nan)
        found[:, :, 1], found[:, :, 2] = low, np.where(asked, high, np.nan)
        return found.reshape(count, 3 * (depth + 1))

    # ---- numbers and text --------------------------------------------------------------------------------

    def row_to_object(self, type: int, row: Floats) -> Any:
        """The text of a name or filter."""
        return self.spelled(type, row.tolist())[0]

    def spelled(self, type: int, row: Sequence[float]) -> list[Any]:
        text = self.syntax.spelled(levels_of(type, row), self._word)
        if type == SUBSCRIBE and len(row) < FILTER_AT:
            return [text]
        if type == SUBSCRIBE and row[GROUP_AT]:
            group = self._word(int(row[GROUP_AT]))
            text = f"{text} {group}" if self.syntax is NATS else f"$share/{group}/{text}"
        flags = flags_of(type, row)
        return [text, *(flag for flag, bit in FLAGS.get(type, {}).items() if flags & bit)]

    def amiss(self, type: int, row: Floats | None) -> str | None:
        if type in self.revocations:
            return None if row is None else "a message of this type has no body; leave it out"
        if row is None:
            return "it needs a " + ("name, under which it is published" if type == PUBLISH else "filter")
        row = row[: np.flatnonzero(~np.isnan(row)).max(initial=-1) + 1]
        wrong = self._wrong_head(row) if type in self.interests else self._wrong_tail(row)
        if wrong:
            return wrong
        levels = row[_levels_at(type) :]
        if type == PUBLISH and row.size and row[-1] < 0:
            levels = levels[:-1]
        try:
            (checked_names if type == PUBLISH else checked_filters)(levels[None, :])
        except InvalidInput as error:
            return str(error)
        if type == SUBSCRIBE and not self.wildcards and np.isin(levels, (PLUS, HASH)).any():
            return f"the filter {_NO_WILDCARDS}"
        return self._too_deep(int(np.count_nonzero(~np.isnan(levels))))

    def words_read(self, type: int, text: str) -> Mapping[int, set[str]]:
        group, parts = self._split(type, text)
        return {words.LEVELS: {each for each in [group, *parts] if not words.is_spelled(each)}}

    def read(self, type: int, text: str, flags: Sequence[str] = ()) -> Floats:
        group, parts = self._split(type, text)
        said = self._flags(type, flags)
        if type == PUBLISH:
            return np.array([*map(self._number, parts), *([-said] if said else [])], np.float64)
        if said & NO_LOCAL and group:
            raise InvalidInput(_NO_LOCAL_GROUP)
        wildcards = {self.syntax.one: PLUS, self.syntax.rest: HASH}
        levels = [wildcards[each] if each in wildcards else self._number(each) for each in parts]
        return np.array([said, self._number(group), *levels], np.float64)

    @classmethod
    def code_of(cls, place: int, word: str) -> int:
        return words.code_of(place, word)

    def _flags(self, type: int, flags: Sequence[str]) -> int:
        """The words beside a text as a number; InvalidInput where they are none of this message's."""
        known, said = FLAGS.get(type, {}), 0
        for flag in flags:
            if flag not in known:
                raise InvalidInput(
                    f"no flag {flag!r} of this message; publications have {', '.join(FLAGS[PUBLISH])}, subscriptions "
                    f"{', '.join(FLAGS[SUBSCRIBE])}"
                )
            said |= known[flag]
        wrong = self._wrong_flags(type, said)
        if wrong:
            raise InvalidInput(wrong)
        return said

    def _wrong_flags(self, type: int, flags: int) -> str | None:
        """What keeps a service from knowing these flags, all of which there are."""
        if type == PUBLISH:
            if flags and not self.retained:
                return _UNKNOWN.format("what is retained", "retained")
            return _EMPTY_ALONE if flags == EMPTY else None
        for flag, bit in FLAGS[SUBSCRIBE].items():
            if flags & bit and not self.params.get(_NEEDS[bit]):
                return _UNKNOWN.format(flag, _NEEDS[bit])
        return _TWO_HANDLINGS if flags & IF_NEW and flags & NEVER_KEPT else None

    def _split(self, type: int, text: str) -> tuple[str, list[str]]:
        """The group, or nothing, and the words of what is written; InvalidInput if the syntax forbids it."""
        if type in self.revocations:
            raise InvalidInput("a message of this type has no body; leave it out")
        group, levels = ("", text) if type == PUBLISH else self._grouped(text)
        parts = self.syntax.levels_of_name(levels) if type == PUBLISH else self.syntax.levels_of_filter(levels)
        wrong = self._too_deep(len(parts))
        if wrong:
            raise InvalidInput(f"{text!r}: {wrong}")
        if type == SUBSCRIBE and not self.wildcards and {self.syntax.one, self.syntax.rest}.intersection(parts):
            raise InvalidInput(f"{text!r} {_NO_WILDCARDS}")
        return group, parts

    def _grouped(self, text: str) -> tuple[str, str]:
        """The group that a subscription's text names, or nothing, and its filter."""
        if self.syntax is NATS:
            filter_, blank, group = text.partition(" ")
            if blank and (not group or any(character.isspace() for character in group)):
                raise InvalidInput(f"{text!r} has no name of a group after its blank; a queue group is `filter group`")
        else:
            named, filter_ = self.syntax.subscription(text)
            group = named or ""
        if group and not self.groups:
            raise InvalidInput(f"{text!r} is of the group {group!r}{_NO_GROUPS}")
        return group, filter_

    def _wrong_head(self, row: Floats) -> str | None:
        """What is wrong with what stands before the levels of a subscription."""
        if row.size < FILTER_AT:
            return f"{row.size} numbers; a subscription is [flags, group, level, ...]"
        if row[FLAGS_AT] not in range(_flags_end(SUBSCRIBE)):
            return f"flags {row[FLAGS_AT]:g}; they are a sum of {_flags_told(SUBSCRIBE)}; 0 is none"
        if wrong := self._wrong_flags(SUBSCRIBE, int(row[FLAGS_AT])):
            return f"flags {row[FLAGS_AT]:g}: {wrong}"
        if not self._is_group(row[GROUP_AT]):
            return f"group {row[GROUP_AT]:g}; 0 says none" + ("" if self.groups else _NO_GROUPS)
        return _NO_LOCAL_GROUP if int(row[FLAGS_AT]) & NO_LOCAL and row[GROUP_AT] else None

    def _wrong_tail(self, row: Floats) -> str | None:
        """What is wrong with the flags behind the levels of a publication."""
        if not row.size or not row[-1] < 0:
            return None
        if -row[-1] not in range(_flags_end(PUBLISH)):
            return f"{row[-1]:g} behind the levels; flags stand there as -1 times a sum of {_flags_told(PUBLISH)}"
        wrong = self._wrong_flags(PUBLISH, int(-row[-1]))
        return None if wrong is None else f"{row[-1]:g} behind the levels: names have no wildcards, and {wrong}"

    def _is_group(self, number: float) -> bool:
        return number == 0 or (self.groups and 0 < number <= WORD_MAX and number == int(number))

    def _too_deep(self, levels: int) -> str | None:
        if levels <= self.levels:
            return None
        return f"{levels} levels; the service has names of at most {self.levels}, by its `levels`"

    def _number(self, word: str) -> int:
        return words.number_of(word, self.params)

    def _word(self, number: int) -> str:
        return words.word_of(number, self.params)


def levels_of(type: int, row: Any) -> list[int]:
    """The levels of a publication or subscription, without flags and padding."""
    levels = [int(level) for level in np.asarray(row)[_levels_at(type) :].tolist() if level == level]
    return [level for level in levels if level >= 0] if type == PUBLISH else levels


def flags_of(type: int, row: Any) -> int:
    """The flags of a publication, which stand behind its levels, or of a subscription."""
    if type == SUBSCRIBE:
        return int(row[FLAGS_AT])
    return -min((int(each) for each in np.asarray(row).tolist() if each < 0), default=0)


def _levels_at(type: int) -> int:
    return NAME_AT if type == PUBLISH else FILTER_AT


def _flags_end(type: int) -> int:
    return 2 * max(FLAGS[type].values())


def _flags_told(type: int) -> str:
    return ", ".join(f"{bit} ({flag})" for flag, bit in FLAGS[type].items())


def leaves_out(row: Any, client: int, publication: int) -> bool:
    """Whether a subscription of a client leaves out what it published itself; both by entity id and publication id."""
    return bool(int(row[FLAGS_AT]) & NO_LOCAL) and client == publication >> 32
