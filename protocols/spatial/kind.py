"""The kind `spatial`: reverse top-k over keywords and places.

A publication is an object: `[x, y, k, bytes, keyword, ...]`, padded with NaN. It has a place, keywords by number,
and a payload of so many bytes, of which only the size is modelled; it asks to be among the k nearest, with k at
most the service's `k_max`. Its word is its id, under which it stays until it expires: it is a publication and a
change. A subscription is `[x, y, keyword, ...]`. `brokers.indexes.spatial.contract` defines what is relevant and
nearer.

The definition: an object reaches every client with a subscription in RT(object), and none without one in
RT_delta(object), as of the objects that were there before it.

An object expires when its client withdraws it (`expire`, by its id), or when its broker, that of its client, says so:
where the service has a window. With `last: n` that is when n more were published there; with `lifetime_ms` when one is
published there that is so much younger. Both go by the order of publication at one broker alone, so an end is caused by
a change, the newer object, and is traced as that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_serializer

from brokers.contract import Floats, Ints, Kind
from brokers.errors import InvalidInput
from brokers.indexes.contract import RowIndex
from brokers.indexes.spatial.contract import ReverseTopK
from brokers.indexes.spatial.geometry import geometry_named
from brokers.indexes.spatial.materialised import Materialised
from brokers.indexes.spatial.words import KeywordSets, Vocabulary
from brokers.kinds import KindManifest
from brokers.words import KEYWORDS, word_of, words_of
from protocols.spatial.manifest import SPATIAL

PUBLISH, SUBSCRIBE, UNSUBSCRIBE, EXPIRE = 0, 1, 2, 3

_HEADER_BYTES = 24
_VALUE_BYTES = 9  # a float64 in msgpack
OBJECT_KEYWORDS, SUBSCRIPTION_KEYWORDS = 4, 2  # where keywords begin in a row
_ROWS = {PUBLISH: "object: [x, y, k, bytes, keyword, ...]", SUBSCRIBE: "subscription: [x, y, keyword, ...]"}


class Params(BaseModel):
    """Parameters of a `spatial` service."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    keywords: Annotated[int, Field(ge=1, le=1_000_000, description="how many keywords there are")] = 100
    text: Annotated[
        bool, Field(description="keywords are words, replayed from files; at most as many as `keywords` says")
    ] = False
    k_max: Annotated[int, Field(ge=1, le=4096, description="the largest k that an object may ask for")] = 10
    delta: Annotated[
        float, Field(ge=1, description="an object that is up to so many times as far as the k-th may be delivered")
    ] = 1.0
    geometry: Annotated[
        Literal["plane", "sphere"], Field(description="places are x and y, or latitude and longitude in degrees")
    ] = "plane"
    last: Annotated[
        int | None, Field(ge=1, description="of the objects published at a broker only the last so many count")
    ] = None
    lifetime_ms: Annotated[
        int | None,
        Field(
            ge=1, le=1_000_000_000,
            description="an object counts until one is published at its broker so much later, or later still",
        ),
    ] = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Services whose keywords are numbers are told as before there was text, and keep the ids of their runs."""
        return {key: value for key, value in dump(self).items() if key != "text" or value}


class Spatial(Kind):
    """See the module."""

    manifest: ClassVar[KindManifest] = SPATIAL
    types: ClassVar[Mapping[str, int]] = {
        "publish": PUBLISH,
        "subscribe": SUBSCRIBE,
        "unsubscribe": UNSUBSCRIBE,
        "expire": EXPIRE,
    }
    publications: ClassVar[frozenset[int]] = frozenset({PUBLISH})
    changes: ClassVar[frozenset[int]] = frozenset({PUBLISH, SUBSCRIBE, UNSUBSCRIBE, EXPIRE})
    interests: ClassVar[frozenset[int]] = frozenset({PUBLISH, SUBSCRIBE})
    revocations: ClassVar[frozenset[int]] = frozenset({UNSUBSCRIBE, EXPIRE})
    Params: ClassVar[type[BaseModel]] = Params

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({**Params().model_dump(), **params})
        p = self.params
        self.k_max: int = p["k_max"]
        self.delta: float = p["delta"]
        self.last: int | None = p["last"]
        self.lifetime_ns: int | None = None if p["lifetime_ms"] is None else p["lifetime_ms"] * 1_000_000
        self.geometry: str = p["geometry"]
        self._places = geometry_named(self.geometry)
        known = len(words_of(p).get(KEYWORDS, ()))
        if known > p["keywords"]:
            raise InvalidInput(f"{known:,} different keywords, the service has {p['keywords']:,}; raise `keywords`")
        self.vocabulary = Vocabulary()
        self.vocabulary.encode([[str(word)] for word in range(p["keywords"])])

    @classmethod
    def misfits(cls, params: Mapping[str, Any], index: type | None) -> list[tuple[str, str]]:
        delta = params.get("delta", 1.0)
        if delta > 1 and index is not None and not getattr(index, "exact", True):
            return [
                (
                    "index",
                    f"{index.__name__} answers by how it is laid out where `delta` is above 1 (it is {delta:g}); "
                    "take an index that is exact, as `materialised`, or `delta: 1`",
                )
            ]
        return []

    def new_index(self, index: type) -> ReverseTopK:
        """An index whose numbers of keywords are the kind's."""
        assert issubclass(index, ReverseTopK)
        for _, wrong in self.misfits(self.params, index):
            raise InvalidInput(wrong)
        if issubclass(index, Materialised):
            return index(self.geometry, self.vocabulary, k_max=self.k_max)
        return index(self.geometry, self.vocabulary)

    def row_index(self, index: Any) -> RowIndex:
        from protocols.spatial.sharing import Sharing

        return Sharing(self, index)

    def asked(self, row: Floats) -> int:
        """The k of an object's row."""
        k = row[2]
        if not (1 <= k <= self.k_max and k == int(k)):
            raise InvalidInput(f"an object asks for k = {k:g}; the service answers whole numbers in 1..{self.k_max}")
        return int(k)

    def check(self, row: Floats, start: int) -> None:
        """InvalidInput unless what a client sent has a place and keywords, from `start` on, that there are."""
        self._places.points([row[:2]], 1, "objects" if start == OBJECT_KEYWORDS else "subscriptions")
        words = row[start:][~np.isnan(row[start:])]
        if not words.size:
            raise InvalidInput("it has no keywords; give at least one")
        wrong = words[(words < 0) | (words >= self.params["keywords"]) | (words != np.floor(words))]
        if wrong.size:
            raise InvalidInput(f"keyword {wrong[0]:g} is none of 0..{self.params['keywords'] - 1}")

    def amiss(self, type: int, row: Floats | None) -> str | None:
        if type not in _ROWS:
            return None if row is None else "a message of this type has no body; leave it out"
        start = OBJECT_KEYWORDS if type == PUBLISH else SUBSCRIPTION_KEYWORDS
        if row is None or row.size < start:
            return f"it needs a body: an {_ROWS[type]}" if type == PUBLISH else f"it needs a body: a {_ROWS[type]}"
        try:
            self.check(row, start)
            if type == PUBLISH:
                self.asked(row)
        except InvalidInput as error:
            return str(error)
        return super().amiss(type, row)

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        start = {PUBLISH: OBJECT_KEYWORDS, SUBSCRIBE: SUBSCRIPTION_KEYWORDS}.get(type, 0)
        if rows.shape[1] < start:
            raise InvalidInput(f"{rows.shape[1]} numbers are no {_ROWS[type]}")
        if type == PUBLISH and not (rows[:, 3] >= 0).all():
            raise InvalidInput(f"the payload of an object has {rows[:, 3].min():g} bytes; it has 0 or more")
        present = np.count_nonzero(~np.isnan(rows), axis=1)
        sizes = _HEADER_BYTES + _VALUE_BYTES * present
        if type == PUBLISH:
            sizes = sizes + rows[:, 3].astype(np.int64)
        return sizes.astype(np.int64)

    def row_to_object(self, type: int, row: Floats) -> Any:
        """An object or a subscription by the names of its parts."""
        if type == PUBLISH:
            told = {"place": row[:2].tolist(), "k": int(row[2]), "bytes": int(row[3])}
            return {**told, "keywords": list(keywords_of(row, OBJECT_KEYWORDS))}
        return {"place": row[:2].tolist(), "keywords": list(keywords_of(row, SUBSCRIPTION_KEYWORDS))}

    def spelled(self, type: int, row: Sequence[float]) -> list[Any]:
        start = OBJECT_KEYWORDS if type == PUBLISH else SUBSCRIPTION_KEYWORDS
        told = super().spelled(type, row)
        return told[:start] + [word_of(words_of(self.params), KEYWORDS, word) for word in told[start:]]

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        """Which subscriptions an object matters to if there are no other objects: those that share a keyword."""
        wanted = set(keywords_of(np.asarray(message, np.float64), OBJECT_KEYWORDS))
        return {
            id_
            for id_, row in interests.items()
            if wanted & set(keywords_of(np.asarray(row, np.float64), SUBSCRIPTION_KEYWORDS))
        }


def keywords_of(row: Floats, start: int) -> tuple[int, ...]:
    """The keywords in a row, ascending."""
    return tuple(sorted({int(word) for word in row[start:].tolist() if word == word}))


def encoded(sets: list[tuple[int, ...]]) -> KeywordSets:
    """Keywords by number, as indexes take them."""
    if len(sets) == 1:
        return KeywordSets(np.array([0, len(sets[0])]), np.array(sets[0], np.int32))
    ptr = np.zeros(len(sets) + 1, np.int64)
    np.cumsum([len(words) for words in sets], out=ptr[1:])
    return KeywordSets(ptr, np.array([word for words in sets for word in words], np.int32))


def head_bytes(words: tuple[int, ...]) -> int:
    """The size on the wire of an object's head: id, place, size of the payload, keywords."""
    return _HEADER_BYTES + _VALUE_BYTES * (3 + len(words))


__all__ = ["EXPIRE", "PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", "Spatial", "encoded", "head_bytes", "keywords_of"]
