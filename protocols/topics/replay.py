"""What a file of events holds for the kind `topics`: names and filters as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np

from brokers.contract import Floats
from brokers.errors import InvalidInput
from brokers.replaying import Cells, Column, Form, Op
from brokers.words import PARAMETER
from protocols.topics.kind import ADVERTISE, PUBLISH, SUBSCRIBE, UNADVERTISE, UNSUBSCRIBE, Topics

_WRITTEN = {"publish": "topic", "subscribe": "filter", "advertise": "filter"}  # the column of each op
_TYPES = {"topic": PUBLISH, "filter": SUBSCRIBE}


class TopicsForm(Form):
    """See the module."""

    ops: ClassVar = {
        "publish": Op(PUBLISH),
        "subscribe": Op(SUBSCRIBE, "begins", "subscription"),
        "unsubscribe": Op(UNSUBSCRIBE, "ends", "subscription"),
    }
    adverts: ClassVar = {
        "advertise": Op(ADVERTISE, "begins", "advert"),
        "unadvertise": Op(UNADVERTISE, "ends", "advert"),
    }
    header: ClassVar = (
        Column("topic", ("publish",), "the name, as in `site/7/temperature`"),
        Column("filter", ("subscribe", "advertise"), "the filter, as in `site/+/temperature`"),
        Column(
            "flags", ("publish", "subscribe"),
            "words between blanks, or nothing. publish: `retain`, `empty`; subscribe: `no-local`, "
            "`retain-as-published`, `retained-if-new` or `retained-never`",
        ),
        Column(
            "subscription", ("subscribe", "unsubscribe"),
            "the client's own number of a subscription. unsubscribe: which one ends; subscribe: may be empty, then "
            "a client's subscriptions are counted 0, 1, 2, ...",
        ),
        Column("advert", ("advertise", "unadvertise"), "the same of an advertisement; both are counted together"),
    )  # fmt: skip
    texts: ClassVar[tuple[str, ...]] = tuple(_TYPES)

    def op_table(self) -> Mapping[str, Op]:
        return {**self.ops, **self.adverts} if self.kind.advertised else self.ops

    def words_in(self, column: str, texts: Iterable[str]) -> Mapping[int, set[str]]:
        found: dict[int, set[str]] = {}
        for text in texts:
            try:
                read = self.kind.words_read(_TYPES[column], text)
            except InvalidInput:
                continue  # told where its row is read
            for attribute, words in read.items():
                found.setdefault(attribute, set()).update(words)
        return found

    def rows(self, op: str, cells: Cells) -> Floats | None:
        if op not in _WRITTEN:
            return None
        kind, column = Topics({**self.kind.params, PARAMETER: cells.words}), _WRITTEN[op]
        texts = list(zip(*([text or "" for text in cells.texts(name)] for name in (column, "flags"))))
        read: dict[tuple[str, ...], Floats | str] = {}
        for text, flags in set(texts):
            try:
                read[text, flags] = kind.read(_TYPES[column], text, flags.split())
            except InvalidInput as error:
                read[text, flags] = str(error)
        bodies = [read[text] for text in texts]
        cells.wrong(np.array([isinstance(each, str) for each in bodies], np.bool_), lambda row: str(bodies[row]))
        fine = [each for each in bodies if not isinstance(each, str)]
        rows = np.full((len(bodies), max(map(len, fine), default=1)), np.nan)
        for row, body in zip(rows, bodies):
            if not isinstance(body, str):
                row[: body.size] = body
        return rows
