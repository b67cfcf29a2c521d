"""What a broker remembers goes to plain data and back; what is no plain data is named."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.columns import BadState, Column, check_columns
from brokers.engine.plainstate import DEPTH_MAX, NotPlain, Reader, Writer
from brokers.engine.runfolder import create_run
from brokers.engine.simulate import FileTraces, simulate
from brokers.errors import ProtocolFault
from brokers.wire import decode_frame, encode_frame
from protocols.conformance import REHEARSALS, rehearse


class Bid(NamedTuple):
    client: int
    price: float


@dataclass
class Lot:
    bids: list[Bid]
    best: Bid | None = None


class Colour(enum.Enum):
    RED = 1


class Slotted:
    __slots__ = ("a", "b")


KEEPS = {kind.__name__: kind for kind in (Bid, Lot, Colour, Slotted)}


def there_and_back(value):
    """Through a frame, as a checkpoint has it."""
    writer = Writer(KEEPS, {}, lambda thing: None)
    _, said = decode_frame(encode_frame("test", {"said": writer.plain(value)}))
    return Reader(KEEPS, {}, lambda uid: None).value(said["said"])


numbers = st.integers() | st.floats(allow_nan=False) | st.booleans()
scalars = st.none() | numbers | st.text() | st.binary()
keys = st.integers() | st.text() | st.tuples(st.integers(), st.integers())
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner)
    | st.dictionaries(keys, inner)
    | st.tuples(inner, inner)
    | st.builds(deque, st.lists(inner))
    | st.builds(Bid, st.integers(), st.floats(allow_nan=False))
    | st.builds(Lot, st.lists(st.builds(Bid, st.integers(), st.integers())), st.none()),
    max_leaves=20,
)


def alike(one, other) -> bool:
    """Equal and of the same types, all the way down."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple, deque)):
        return all(alike(a, b) for a, b in zip(one, other, strict=True))
    return alike(vars(one), vars(other)) if isinstance(one, Lot) else True


@given(values | st.lists(st.integers(), min_size=16) | st.lists(numbers, min_size=16) | st.sets(keys))
def test_what_is_plain_comes_back_as_it_was(value):
    assert alike(there_and_back(value), value)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2}, frozenset({"a"}), set(range(100)), OrderedDict([(2, 1), (1, 2)]), Counter("abba"), bytearray(b"x"),
        deque([1, 2], maxlen=2), Colour.RED, np.float32(1.5), np.int64(-1), np.bool_(True), 1 << 200,
        -(1 << 63), 1 << 63,
    ],
)  # fmt: skip
def test_these_come_back_with_their_type(value):
    back = there_and_back(value)
    assert type(back) is type(value) and back == value
    assert getattr(back, "maxlen", None) == getattr(value, "maxlen", None)


def test_a_defaultdict_goes_on_making_what_it_made():
    back = there_and_back(defaultdict(list, {1: [2]}))
    back[5].append(6)
    assert back == {1: [2], 5: [6]}


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3), (0, 4)])
def test_arrays_of_numbers_come_back_writable(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    back = there_and_back(array)
    assert back.dtype == array.dtype and back.shape == shape and np.array_equal(back, array)
    back[...] = 0


def test_one_object_in_two_places_stays_one_and_a_cycle_stays_a_cycle():
    row, shared = np.zeros(2), [1]
    loop: list = [shared, shared, {"row": row, "again": row}]
    loop.append(loop)
    back = there_and_back(loop)
    assert back[0] is back[1] and back[2]["row"] is back[2]["again"] and back[3] is back


def test_rows_of_one_length_stay_arrays_of_their_own():
    rows = {n: np.full(3, float(n)) for n in range(20)}
    back = there_and_back({"rows": rows, "first": rows[0]})
    back["rows"][0][0] = 9.0
    assert back["first"][0] == 9.0 and back["rows"][1].tolist() == [1.0] * 3


def test_slots_come_back():
    thing = Slotted()
    thing.a = 1
    back = there_and_back(thing)
    assert back.a == 1 and not hasattr(back, "b")


@pytest.mark.parametrize(
    "value", [lambda: 1, iter([1]), object(), np.array([object()]), np.array(["a"]), defaultdict(lambda: 1), st]
)
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(NotPlain):
        there_and_back([value])


def test_what_lies_too_deep_is_refused():
    value: list = []
    for _ in range(DEPTH_MAX + 1):
        value = [value]
    with pytest.raises(NotPlain, match="within each other"):
        there_and_back(value)


@pytest.mark.parametrize(
    "said",
    [
        ["?"], ["l"], ["l", 1], ["d", [1], []], ["d", [1, 1], [2, 3]], ["d", [["l", []]], [1]], ["@", 0], ["@", -1],
        ["i", "zz"], ["i", 5], ["n", "O", b"12345678"], ["a", "f8", [1 << 40], b""], ["a", "f8", [-1], b""], {}, [],
        [[]], ["r", "Bid", [1]], ["r", "Nobody", []], ["o", "Lot", ["bids"], [1]], ["o", "Bid", [], []],
        ["e", "Colour", "BLUE"],
        ["o", "Slotted", ["__class__"], [1]], ["o", "Slotted", [5], [1]], ["q", -1, []], ["D", "system", [], []],
        ["w", "Bid", []], ["shared", "x"], ["s", [["l", []]]], ["y", "text"], ["C", [1], ["x"], 3],
    ],
)  # fmt: skip
def test_what_nobody_wrote_is_refused(said):
    with pytest.raises(BadState):
        Reader(KEEPS, {}, lambda uid: None).value(said)


def test_columns_are_checked_for_type_length_and_range():
    columns = {"at": Column("i8", ("n",), 0, "places"), "row": Column("f8", ("n", 2))}
    good = {"at": np.array([0, 4]), "row": np.zeros((2, 2))}
    assert check_columns(good, columns, {"places": 5}) is good
    for name, wrong, why in (
        ("at", np.array([0, 5]), "holds 5; its numbers are 0 to 4"),
        ("at", np.array([-1, 0]), "holds -1"),
        ("at", np.array([0.0, 1.0]), "float64 values"),
        ("at", np.array([[0, 1]]), "2 dimensions"),
        ("row", np.zeros((3, 2)), "2 are expected where it has 3"),
        ("row", [[0.0, 0.0]], "is a list"),
    ):
        with pytest.raises(BadState, match=why):
            check_columns({**good, name: wrong}, columns, {"places": 5})
    with pytest.raises(BadState, match="lacks 'row'"):
        check_columns({"at": good["at"]}, columns, {"places": 5})
    with pytest.raises(BadState, match="has 'more'"):
        check_columns({**good, "more": 1}, columns, {"places": 5})


def test_an_attribute_that_is_no_plain_data_is_named_at_the_first_checkpoint(tmp_path, outside, monkeypatch):
    import pings

    def with_a_generator(self, node):
        original(self, node)
        self.source = (n for n in range(3))

    original = pings.Pings.__init__
    monkeypatch.setattr(pings.Pings, "__init__", with_a_generator)
    model = rehearse(REHEARSALS[0], "pings:Pings")
    new = create_run(tmp_path, model.name, {}, scenario={}, seed=1, level="none")
    with pytest.raises(ProtocolFault, match=r"Pings\.source holds an object of builtins\.generator.*`keeps`.*`remade`"):
        simulate(model, trace=FileTraces(str(new.path), "none"), checkpoint_every_s=0.0, max_window_ns=3_000_000)
    new.fail("tested")
