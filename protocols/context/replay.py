"""What a file of events holds for the kind `context`: messages, values of contexts, and profiles."""

from __future__ import annotations

import json
from typing import Any, ClassVar, cast

import numpy as np

from brokers.contract import Floats, Ints, Kind
from brokers.errors import InvalidInput
from brokers.indexes.context.contract import OPERATORS, checked_profile
from brokers.replaying import Cells, Column, Form, Op, attribute_places, finite, stacked
from protocols.context.kind import ATOM, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, UPDATE, Context, row_of, value_word

_CONTEXTS_MAX = 1 << 45
_WITHIN, _AT_LEAST, _AT_MOST = (float(OPERATORS.index(sign)) for sign in ("~", ">=", "<="))
_NAN = np.nan


class ContextForm(Form):
    """See the module."""

    ops: ClassVar = {
        "publish": Op(PUBLISH),
        "update": Op(UPDATE),
        "subscribe": Op(SUBSCRIBE, "begins", "subscription"),
        "unsubscribe": Op(UNSUBSCRIBE, "ends", "subscription"),
    }
    header: ClassVar = (
        Column("a<i>", ("publish",), "the value of attribute i; empty where it is absent"),
        Column("context", ("update",), "number of the context; only one client, its owner, updates it"),
        Column("attribute", ("update",), "number of its attribute"),
        Column("value", ("update",), "the new value; empty: not known any more"),
        Column("low_<i>", ("subscribe",), "attribute i is at least this"),
        Column("high_<i>", ("subscribe",), "attribute i is at most this"),
        Column("near_<i>", ("subscribe",), "attribute i lies near that of this context, `within_<i>` of it"),
        Column("at_<i>", ("subscribe",), "attribute i lies near this value, `within_<i>` of it"),
        Column("within_<i>", ("subscribe",), "how near"),
        Column("profile", ("subscribe",), "instead: a profile as JSON, a list of conjuncts, lists of atoms"),
        Column(
            "subscription", ("subscribe", "unsubscribe"),
            "the client's own number of a profile; subscribe: may be empty, then they are counted 0, 1, 2, ...",
        ),
    )  # fmt: skip

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self._owner: dict[int, int] = {}

    def places(self) -> dict[str, list[tuple[str, str]]]:
        return {"i": attribute_places(self.kind.params["attributes"])}

    def rows(self, op: str, cells: Cells) -> Floats | None:
        attributes = self.kind.params["attributes"]
        if op == "publish":
            values = stacked(cells, "a", attributes)
            finite(cells, values)
            return values
        if op == "update":
            return self._updates(cells, attributes)
        if op == "subscribe":
            return self._profiles(cells, attributes)
        return None

    def word(self, op: str, cells: Cells, rows: Floats | None) -> Ints | None:
        if op != "update" or rows is None:
            return None
        return cast(Ints, value_word(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)))

    def _updates(self, cells: Cells, attributes: int) -> Floats:
        context, attribute, value = cells.wholes("context"), cells.wholes("attribute"), cells.numbers("value")
        cells.wrong(
            (context < 0) | (context >= _CONTEXTS_MAX),
            lambda row: f"context is a whole number from 0, below 2**45 (got {cells.texts('context')[row]})",
        )
        cells.wrong(
            (attribute < 0) | (attribute >= attributes),
            lambda row: (
                f"contexts have attributes 0 to {attributes - 1} (got {cells.texts('attribute')[row]})"
            ),
        )
        cells.wrong(np.isinf(value), lambda row: "a value must be finite; empty says that it is not known")
        pairs, first = np.unique(np.stack([context, cells.clients], axis=1), axis=0, return_index=True)
        for (which, who), row in zip(pairs.tolist(), first.tolist()):
            owner = self._owner.setdefault(which, who)
            if owner != who:
                self._tell_owner(cells, row, which, owner, who)
        fine = (context >= 0) & (attribute >= 0)  # what is not has been noted
        return np.stack([np.where(fine, context, 0), np.where(fine, attribute, 0), value], axis=1)

    @staticmethod
    def _tell_owner(cells: Cells, row: int, context: int, owner: int, who: int) -> None:
        text = f"context {context} is updated by client {owner} already, and not by client {who}; it has one owner"
        cells.wrong(np.arange(cells.size) == row, lambda _: text)

    def _profiles(self, cells: Cells, attributes: int) -> Floats:
        low, high, near, at, within = (
            stacked(cells, before, attributes) for before in ("low_", "high_", "near_", "at_", "within_")
        )
        for values in (low, high, at, within):
            finite(cells, values)
        whole = (near >= 0) & (near < _CONTEXTS_MAX) & (near == np.floor(near))
        cells.wrong(
            (~np.isnan(near) & ~whole).any(axis=1), lambda row: "near_<i> names a context, a whole number"
        )
        bound = ~(np.isnan(near) & np.isnan(at))
        cells.wrong(
            (bound != ~np.isnan(within)).any(axis=1), lambda row: "near_<i> or at_<i> go with within_<i>"
        )
        cells.wrong((within < 0).any(axis=1), lambda row: "within_<i> cannot be negative")
        blocks = []
        for a in range(attributes):
            blocks += [
                self._atoms(a, _WITHIN, near[:, a], None, within[:, a]),
                self._atoms(a, _WITHIN, None, at[:, a], within[:, a]),
                self._atoms(a, _AT_LEAST, None, low[:, a], None),
                self._atoms(a, _AT_MOST, None, high[:, a], None),
            ]
        rows = _to_the_left(np.stack(blocks, axis=1))
        given = ~np.isnan(rows).all(axis=1) if rows.shape[1] else np.zeros(cells.size, np.bool_)
        if cells.has("profile"):
            return self._with_written(cells, rows, given)
        cells.wrong(~given, lambda row: "a profile needs at least one condition")
        return rows

    @staticmethod
    def _atoms(
        attribute: int,
        operator: float,
        context: Floats | None,
        constant: Floats | None,
        epsilon: Floats | None,
    ) -> Floats:
        """One atom per row, NaN where there is none: see `protocols.context.kind`."""
        operand = context if context is not None else constant
        assert operand is not None
        there = ~np.isnan(operand)
        atoms = np.full((operand.size, ATOM), _NAN)
        atoms[there, :3] = 0.0, attribute, operator
        if context is not None:
            atoms[there, 3], atoms[there, 4] = context[there], attribute
        else:
            atoms[there, 5] = operand[there]
        if epsilon is not None:
            atoms[there, 6] = epsilon[there]
        return atoms

    def _with_written(self, cells: Cells, rows: Floats, given: Any) -> Floats:
        """Put profiles that are written as JSON in the place of empty ones."""
        kind = cast(Context, self.kind)
        made: dict[int, list[float]] = {}
        for row, text in enumerate(cells.texts("profile")):
            if text is None or not text.strip():
                continue
            try:
                profile = json.loads(text)
                checked_profile(profile, kind.schema)
                made[row] = row_of(_context_last(profile))
                kind.atoms(np.array(made[row]))
            except (ValueError, RecursionError, OverflowError, InvalidInput) as error:
                reason = (
                    str(error).splitlines()[0]
                    if not isinstance(error, RecursionError)
                    else "nested too deeply"
                )
                _tell(cells, row, f"profile is none: {reason}")
        written = np.zeros(cells.size, np.bool_)
        written[list(made)] = True
        cells.wrong(given & written, lambda row: "a profile is written as JSON, or by conditions, not both")
        blank = np.array([text is None or not text.strip() for text in cells.texts("profile")], np.bool_)
        cells.wrong(blank & ~given, lambda row: "a profile needs at least one condition")
        width = max([rows.shape[1], *map(len, made.values())])
        out = np.full((cells.size, width), _NAN)
        out[:, : rows.shape[1]] = rows
        for row, numbers in made.items():
            out[row, : len(numbers)] = numbers
        return out


def _context_last(profile: list[list[list[Any]]]) -> list[list[list[Any]]]:
    """The same profile with the message, or else the context, on the left of each atom."""
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

    def rank(operand: Any) -> int:
        return {"message": 0, "context": 1}.get(operand[0], 2) if isinstance(operand, list) else 2

    turned = []
    for conjunct in profile:
        atoms = []
        for left, sign, right, *epsilon in conjunct:
            if rank(left) > rank(right):
                left, sign, right = right, mirrored.get(sign, sign), left
            atoms.append([left, sign, right, *epsilon])
        turned.append(atoms)
    return turned


def _tell(cells: Cells, row: int, text: str) -> None:
    cells.wrong(np.arange(cells.size) == row, lambda _: text)


def _to_the_left(atoms: Floats) -> Floats:
    """Rows of atoms [row, atom, number] without the gaps between them."""
    there = ~np.isnan(atoms[:, :, 0])
    width = int(there.sum(axis=1).max(initial=0))
    order = np.argsort(~there, axis=1, kind="stable")[:, :width]
    return np.take_along_axis(atoms, order[:, :, None], axis=1).reshape(len(atoms), width * ATOM)
