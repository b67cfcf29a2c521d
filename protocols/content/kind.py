"""The kind `content`: ranges over numeric attributes.

A publication is a row of values, NaN where one is missing; where an attribute holds text, the value is the place of
the word among all words of the service (`brokers.words`). A subscription is a conjunction of closed
ranges, `[attribute, low, high] * k`, padded with NaN. The definition: a publication reaches every client
that has a subscription whose every range holds the publication's value; once per client, and its own
publisher too if that subscribed.

Where the service says `adverts: true`, publishers say beforehand what they will publish: an advertisement is a
conjunction of ranges as a subscription is, until it is taken back. A publication that none of its publisher's
advertisements holds is owed to nobody; a protocol may drop it, and counts that in the table `outside`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator

from brokers.contract import Floats, Ints, Kind
from brokers.kinds import UNDRAWN, KindManifest
from brokers.schema import Column, Table
from brokers.words import word_of, words_of
from protocols.content.manifest import CONTENT

PUBLISH, SUBSCRIBE, UNSUBSCRIBE, ADVERTISE, UNADVERTISE = range(5)

_HEADER_BYTES = 24
_VALUE_BYTES = 9  # a float64 in msgpack


class Params(BaseModel):
    """Parameters of a `content` service."""

    model_config = ConfigDict(extra="forbid")

    attributes: Annotated[int, Field(ge=1, le=1000, description="numeric attributes of a publication")] = 4
    names: list[str] = Field([], description="of the attributes, if they have any, in order; files may use them")
    text: list[int | str] = Field(
        [], description="attributes, by number or name, whose values are text: replayed from files, by their words"
    )
    adverts: Annotated[bool, UNDRAWN] = Field(
        False, description="whether publishers advertise: what lies outside of their advertisements is owed to nobody"
    )

    @model_validator(mode="before")
    @classmethod
    def _as_many_as_names(cls, given: Any) -> Any:
        if isinstance(given, dict) and "attributes" not in given and isinstance(given.get("names"), list):
            return {**given, "attributes": len(given["names"]) or 4}
        return given

    @model_validator(mode="after")
    def _names_of_attributes(self) -> Params:
        if self.names and len(self.names) != self.attributes:
            raise ValueError(f"{len(self.names)} `names` for {self.attributes} attributes; give one each")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"`names` has a name twice (got {', '.join(self.names)})")
        for name in self.names:
            if not name or name.isdigit() or name != name.strip():
                raise ValueError(f"`names` are words, no numbers (got {name!r})")
        for each in self.text:
            if isinstance(each, str) and each not in self.names:
                known = ", ".join(self.names) or "none"
                raise ValueError(f"`text`: no attribute is named {each!r}; `names` has {known}")
            if isinstance(each, int) and not 0 <= each < self.attributes:
                raise ValueError(f"`text`: the service has attributes 0 to {self.attributes - 1} (got {each})")
        numbers = sorted({self.names.index(each) if isinstance(each, str) else each for each in self.text})
        object.__setattr__(self, "text", numbers)
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Services without names, text, adverts are told as before there were any, and keep the ids of their runs."""
        return {key: value for key, value in dump(self).items() if key == "attributes" or value}


class Content(Kind):
    """See the module."""

    manifest: ClassVar[KindManifest] = CONTENT
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
        "outside": Table(
            "Publications that were dropped where they entered: no advertisement of their publisher held them.",
            "deliveries",
            (
                Column("service", "int16", "the service"),
                Column("broker", "int32", "where it entered"),
                Column("time_ns", "int64", "when"),
                Column("publication", "int64", "what was dropped"),
            ),
        )
    }
    Params: ClassVar[type[BaseModel]] = Params

    @property
    def advertised(self) -> bool:
        return bool(self.params.get("adverts"))

    @classmethod
    def unsaid(cls, params: Mapping[str, Any]) -> frozenset[int]:
        return frozenset() if params.get("adverts") else frozenset({ADVERTISE, UNADVERTISE})

    @classmethod
    def misfits_of_workload(cls, params: Mapping[str, Any], workload: Sequence[Any]) -> list[tuple[str, str]]:
        from protocols.content.advertise import misfits_of_adverts

        return misfits_of_adverts(bool(params.get("adverts")), workload)

    def new_index(self, index: type) -> Any:
        return index(self.params.get("attributes", 4))

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        present = np.count_nonzero(~np.isnan(rows), axis=1)
        return (_HEADER_BYTES + _VALUE_BYTES * present).astype(np.int64)

    def row_to_object(self, type: int, row: Floats) -> Any:
        """A publication as {attribute: value}; a subscription or an advertisement as {attribute: (low, high)}."""
        if type == PUBLISH:
            return {a: v for a, v in enumerate(row.tolist()) if v == v}
        triples = row.reshape(-1, 3).tolist()
        return {int(a): (low, high) for a, low, high in triples if a == a}

    def amiss(self, type: int, row: Floats | None) -> str | None:
        attributes = int(self.params.get("attributes", 4))
        return amiss_of_ranges(type == PUBLISH, type in self.interests, row, attributes, (1,), 3)

    def spelled(self, type: int, row: Sequence[float]) -> list[Any]:
        words, told = words_of(self.params), super().spelled(type, row)
        if type == PUBLISH:
            return [word_of(words, attribute, value) for attribute, value in enumerate(told)]
        spelled: list[Any] = []
        for attribute, *ends in zip(*(iter(told),) * 3):
            spelled.append(attribute)
            spelled += [end if attribute is None else word_of(words, int(attribute), end) for end in ends]
        return spelled

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        return {
            id_
            for id_, row in interests.items()
            if all(
                low <= message[int(a)] <= high for a, low, high in _ranges(row) if a == a
            )
        }


def _ranges(row: Any) -> list[list[float]]:
    """(attribute, low, high) of a row; in a trace it is as long as that of the service with the longest."""
    found: list[list[float]] = np.reshape(row[: len(row) // 3 * 3], (-1, 3)).tolist()
    return found


def amiss_of_ranges(
    publishes: bool, asks: bool, row: Floats | None, attributes: int, times: tuple[int, ...], width: int
) -> str | None:
    """What is wrong with a publication of values, so many times one for each attribute, or with ranges side by side."""
    if not publishes and not asks:
        return None if row is None else "a message of this type has no body; leave it out"
    if row is None:
        return "it needs a body: " + ("values, one for each attribute" if publishes else "ranges of attributes")
    if publishes:
        if row.size in [n * attributes for n in times]:
            return None
        sizes = " or ".join(str(n * attributes) for n in times)
        return f"{row.size} values for {attributes} attributes; give {sizes}, null where one is missing"
    if row.size % width:
        told = "attribute, low, high" + (", weight" if width == 4 else "")
        return f"{row.size} numbers are no ranges of {told}"
    ranges = row.reshape(-1, width)
    for attribute, low, high, *_ in ranges[~np.isnan(ranges[:, 0])].tolist():
        if not (0 <= attribute < attributes and attribute == int(attribute)):
            return f"there is no attribute {attribute:g}; there are 0 to {attributes - 1}"
        if not low <= high:
            return f"the range {low:g} to {high:g} of attribute {attribute:g} does not run from low to high"
    return None
