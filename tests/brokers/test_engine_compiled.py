"""Windows in compiled code: that they run there, what leaves them, and what the engine says of a handler that errs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from brokers.compiled import charge, deliver, fits, forward, handler, handler_of
from brokers.contract import TIMER, Batch, ShardProtocol
from brokers.engine import advance, carrying, heads
from brokers.engine.batching import Cutting
from brokers.engine.course import Course
from brokers.engine.layout import NEVER, R_CAPACITY, ROWS
from brokers.engine.shard import Shard
from brokers.engine.simulate import MemoryTraces, simulate
from brokers.errors import ProtocolFault
from brokers.out import Out
from brokers.records import Record, reader
from brokers.views import FLAGS, INTS, TABLE
from protocols.conformance import REHEARSALS, Recorded, join, rehearse
from protocols.content.covering import Covering
from protocols.content.flooding import Flooding
from protocols.content.kind import Content
from protocols.content.subscription import Subscription

WAYS = [Cutting(compiled="never"), Cutting(compiled="events"), Cutting(compiled="rounds")]


@pytest.fixture
def in_python(monkeypatch):
    """The sizes of the rounds that went through Python."""
    sizes: list[int] = []
    whole = Shard.round
    monkeypatch.setattr(Shard, "round", lambda shard, size: (sizes.append(size), whole(shard, size))[1])
    return sizes


@pytest.mark.parametrize("how", ["events", "rounds", "auto"])
@pytest.mark.parametrize("protocol", ["flooding", "subscription"])
@pytest.mark.parametrize("rehearsal", [REHEARSALS[0], REHEARSALS[-1]], ids=["a tree", "cycles"])
def test_nothing_of_flooding_or_subscription_goes_through_python(how, protocol, rehearsal, in_python):
    model = rehearse(rehearsal, protocol)
    for window in (None, 1_000_000):  # a subscription that is under way over a border may be at its end already
        result = simulate(model, cutting=Cutting(compiled=how), max_window_ns=window)
        assert result.metrics["services"]["service"]["deliveries"] > 100
        assert len(result.changes["change"]) > 20
        assert in_python == []


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_nothing_is_sent_to_the_servers_of_other_services(protocol, monkeypatch):
    with monkeypatch.context() as during:
        during.setattr(Content, "server", True)
        model = rehearse(REHEARSALS[0], protocol)
    assert model.overlay.servers == 1
    model.services[0].server = -1  # it is another's
    digests = {simulate(model, cutting=cutting).digest for cutting in WAYS}
    model.services[0].view = "message"
    assert digests == {simulate(model).digest}


def test_of_covering_only_rounds_with_changes_go_through_python(in_python):
    model = rehearse(REHEARSALS[0], "covering")
    simulate(model, cutting=Cutting(compiled="events"))
    some, handled = len(in_python), sum(in_python)
    in_python.clear()
    result = simulate(model, cutting=Cutting(compiled="never"))
    assert 0 < some < len(in_python)
    assert 0 < handled < sum(in_python) == result.metrics["network"]["events"]


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
@pytest.mark.parametrize("rehearsal", [REHEARSALS[2], REHEARSALS[3]], ids=["overload", "losses"])
def test_the_whole_trace_is_the_same_to_the_row(protocol, rehearsal):
    model = rehearse(rehearsal, protocol)
    found = []
    for cutting in WAYS:
        traces = MemoryTraces("full")
        simulate(model, trace=traces, cutting=cutting)
        read = Recorded(traces).read
        found.append({name: sorted(map(str, read(name).to_pylist())) for name in ("hops", "deliveries", "samples")})
        if rehearsal is REHEARSALS[3]:
            found[-1]["losses"] = sorted(map(str, read("losses").to_pylist()))
            assert found[-1]["losses"]
    assert found[0]["hops"] and found[0]["deliveries"]
    assert found[0] == found[1] == found[2]


def test_the_engine_goes_over_to_rounds_when_they_are_full_and_back_when_they_are_not(monkeypatch):
    from analysis.bench.models import Setting
    from analysis.bench.models import model as measured

    monkeypatch.setattr(Course, "_change_over", _noted := _Noted(Course._change_over))
    full = simulate(measured(Setting(brokers=32, publications_per_s=20_000, seconds=0.2)))
    assert _noted.after == [False]
    _noted.after.clear()
    thin = simulate(measured(Setting(brokers=32, publications_per_s=20, seconds=60)))
    assert _noted.after == [False, True], "after many events it tries rounds, and finds them thin"
    assert min(full.metrics["network"]["events"], thin.metrics["network"]["events"]) > 30_000


class _Noted:
    """Calls a method of a course and notes whether it takes one event at a time afterwards."""

    def __init__(self, method: Any) -> None:
        self.method = method
        self.after: list[bool] = []

    def __get__(self, course: Any, owner: Any) -> Any:
        def call(end: int) -> None:
            self.method(course, end)
            self.after.append(course._thin)

        return call


@pytest.mark.parametrize("how", ["events", "rounds"])
@pytest.mark.parametrize("protocol", ["flooding", "subscription"])
def test_room_that_is_short_everywhere_shows_in_nothing(how, protocol, monkeypatch):
    model = rehearse(REHEARSALS[2], protocol)
    whole = simulate(model)
    whys: list[int] = []
    goes_on = advance.advance

    def counted(*arguments: Any) -> int:
        whys.append(goes_on(*arguments))
        return whys[-1]

    begin = Shard.__init__

    def cramped(shard: Shard, *arguments: Any, **more: Any) -> None:
        begin(shard, *arguments, **more)
        bench, rings = shard.bench, shard.links.rings
        bench.send_event, bench.send_link = np.empty(3, np.int64), np.empty(3, np.int64)
        bench.deliver_event, bench.deliver_client = np.empty(1, np.int64), np.empty(1, np.int64)
        rings.arena = rings.arena[: rings.table[:, R_CAPACITY].sum()].copy()

    monkeypatch.setattr(advance, "advance", counted)
    assert simulate(model, cutting=Cutting(compiled=how, limit=20)).digest == whole.digest
    assert advance.FULL in whys
    monkeypatch.setattr(Shard, "__init__", cramped)
    assert simulate(model, cutting=Cutting(compiled=how, limit=20)).digest == whole.digest
    assert {advance.ROOM, advance.RINGS} <= set(whys)


@pytest.mark.parametrize("how", ["events", "rounds"])
def test_a_bench_that_nobody_looks_at_is_cleared_in_compiled_code_and_shows_in_nothing(how, monkeypatch):
    from analysis.bench.models import Setting
    from analysis.bench.models import model as measured

    model = measured(Setting(brokers=32, publications_per_s=2_000, seconds=0.5))
    written: list[int] = []
    whole = Course._write_down

    def counted(course: Course) -> None:
        written.append(int(course._shard.bench.course[ROWS]))
        whole(course)

    monkeypatch.setattr(Course, "_write_down", counted)
    cutting = Cutting(compiled=how, limit=1000)
    bare = simulate(model, cutting=cutting)
    events, bare_rows = bare.metrics["network"]["events"], sum(written)
    assert bare_rows < events > 2 * cutting.limit
    written.clear()
    assert simulate(model, cutting=cutting, trace=MemoryTraces("full")).digest == bare.digest
    assert sum(written) == events, "a trace sees every row"


@pytest.fixture
def carried(monkeypatch):
    """How many sends were carried out for Python, and what came of it."""
    seen: list[tuple[int, int]] = []
    goes_on = carrying.carry_out

    def noted(*arguments: Any) -> Any:
        result = goes_on(*arguments)
        seen.append((arguments[2].size, result[0]))
        return result

    monkeypatch.setattr(carrying, "carry_out", noted)
    return seen


def test_a_round_in_python_may_send_more_than_outbox_and_rings_hold(carried):
    from analysis.bench.models import Setting
    from analysis.bench.models import model as measured

    model = measured(Setting(brokers=64, publications_per_s=3_000, seconds=0.1))
    digest = simulate(model, cutting=Cutting(compiled="never")).digest
    assert max(size for size, _ in carried) > 256
    assert carrying.ROOM in {code for _, code in carried}
    assert digest == simulate(model).digest


def test_answers_that_come_out_of_the_order_of_their_events_are_put_in_it(carried):
    model = rehearse(REHEARSALS[0], "channels")  # its server answers after its brokers
    digest = simulate(model).digest
    assert carrying.UNORDERED in {code for _, code in carried}
    assert digest == simulate(model, cutting=Cutting("one")).digest


def test_bodies_that_nobody_needs_are_freed_while_windows_are_compiled():
    from analysis.bench.models import Setting
    from analysis.bench.models import model as measured

    model = measured(Setting(brokers=8, publications_per_s=500, seconds=40))
    shard = Shard(model, 0, np.zeros(8, np.int32), MemoryTraces("none")(0))
    most = 0
    while (now := shard.next_time()) < NEVER:
        shard.window(now + 10**9, [b""])
        most = max(most, len(shard.services.bodies))
    assert shard.queues.handled > 100_000
    assert most < 3_000


# ---- handlers that err -------------------------------------------------------------------------------

_NOTHING = Record("nothing", {})


class Errs(ShardProtocol):
    """Decides nothing in Python."""

    kind: ClassVar[str] = "content"

    def handle(self, batch: Batch, out: Out) -> None:
        pass


@handler(_NOTHING)
def _another_row(desk, mine, at, stop):
    forward(desk, at + 1, desk.out_link[desk.out_start[desk.broker[at]]])
    return stop


@handler(_NOTHING)
def _no_link(desk, mine, at, stop):
    forward(desk, at, 4)
    return stop


@handler(_NOTHING)
def _link_of_another(desk, mine, at, stop):
    forward(desk, at, 2)
    return stop


@handler(_NOTHING)
def _no_client(desk, mine, at, stop):
    deliver(desk, at, 99)
    return stop


@handler(_NOTHING)
def _too_far(desk, mine, at, stop):
    return stop + 1


@handler(_NOTHING)
def _bad_cost(desk, mine, at, stop):
    desk.cost[at] = -5
    return stop


@handler(_NOTHING)
def _raises(desk, mine, at, stop):
    if desk.type[at] >= 0:
        raise ValueError("out of ideas")
    return stop


@handler(_NOTHING)
def _asks_for_nothing(desk, mine, at, stop):
    for _ in range(5_000):
        forward(desk, at, 0)
    return stop


@handler(_NOTHING)
def _never(desk, mine, at, stop):
    return at


@handler(_NOTHING)
def _wants_more(desk, mine, at, stop):
    for i in range(at, stop):
        if not fits(desk, 20_000, 30_000):
            return i
    return stop


def said_of(wrong, how="events"):
    protocol = type("Wrong", (Errs,), {"compiled": wrong})
    net = join(protocol, [(0, 1), (1, 2)])
    net.send(0, "publish", [1.0, 2.0])
    with pytest.raises(ProtocolFault) as caught:
        simulate(net.model(), cutting=Cutting(compiled=how))
    return str(caught.value)


@pytest.mark.parametrize("how", ["events", "rounds"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (_another_row, "answers to a row that it was not given"),
        (_no_link, "a send names link 4; there are links 0 to 3"),
        (_link_of_another, "broker b0 (0) sent over link 2 (b1 to b2), which is not one of its own"),
        (_no_client, "delivered to client 99"),
        (_too_far, "a row that it was not given"),
        (_bad_cost, "a negative service time (-5 ns)"),
        (_raises, "ValueError: out of ideas"),
        (_asks_for_nothing, "it sends more than it asked `fits` for"),
    ],
    ids=["row", "link", "another's link", "client", "reached", "cost", "raises", "no room"],
)  # fmt: skip
def test_a_handler_that_errs_is_told_what_is_wrong(wrong, words, how):
    assert words in said_of(wrong, how)


@pytest.mark.parametrize("how", ["events", "rounds"])
def test_what_a_handler_leaves_goes_to_handle_and_room_is_made_for_what_it_wants(how, in_python):
    for wrong, left in ((_never, 1), (_wants_more, 0)):
        in_python.clear()
        net = join(type("Leaves", (Errs,), {"compiled": wrong}), [(0, 1), (1, 2)])
        net.send(0, "publish", [1.0, 2.0])
        assert simulate(net.model(), cutting=Cutting(compiled=how)).metrics["network"]["events"] == 1
        assert len(in_python) == left


@handler(_NOTHING)
def _says_nothing(desk, mine, at, stop):
    pass


@handler(_NOTHING)
def _no_such_column(desk, mine, at, stop):
    return desk.colour[at]


@handler(_NOTHING)
def _all(desk, mine, at, stop):
    return stop


@handler(Record("marked", {"marks": FLAGS}))
def _marked(desk, mine, at, stop):
    return stop


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"compiled": _says_nothing}, "the compiled handler '_says_nothing' cannot be compiled"),
        ({"compiled": _no_such_column}, "the compiled handler '_no_such_column' cannot be compiled"),
        ({"compiled": _all, "prepare": lambda *_: 1 / 0}, "service 'service': its protocol raised ZeroDivisionError"),
        ({"compiled": _all, "tidy": lambda _: 1 / 0}, "service 'service': its protocol raised ZeroDivisionError"),
        ({"compiled": _marked}, "service 'service': its protocol raised KeyError: 'marks'"),
        ({"compiled": _marked, "columns": lambda _: {"marks": np.zeros(2)}}, "'marks' is float64 in 1 dimensions"),
    ],
    ids=["no row", "no such column", "prepare", "tidy", "a column is missing", "another type"],
)  # fmt: skip
def test_what_a_handler_needs_and_is_not_given_is_named(more, words):
    net = join(type("Wrong", (Errs,), more), [(0, 1), (1, 2)])
    net.send(0, "publish", [1.0, 2.0])
    with pytest.raises(ProtocolFault) as caught:
        simulate(net.model())
    assert words in str(caught.value)


@handler(_NOTHING)
def _charges(desk, mine, at, stop):
    for i in range(at, stop):
        charge(desk, i, 700 + i)
    return stop


@handler(_NOTHING)
def _publications_only(desk, mine, at, stop):
    for i in range(at, stop):
        if desk.kind[i] == TIMER and desk.word[i] % 2 == 1:
            return i
    return stop


@pytest.mark.parametrize("how", ["events", "rounds"])
def test_what_a_handler_charges_dates_the_end_of_the_service(how):
    net = join(type("Charges", (Errs,), {"compiled": _charges}), [(0, 1)])
    net.send(0, "publish", [1.0, 2.0])
    traces = MemoryTraces("full")
    simulate(net.model(), trace=traces, cutting=Cutting(compiled=how))
    (hop,) = Recorded(traces).read("hops").to_pylist()
    assert hop["finish_ns"] - hop["time_ns"] == 700


class Ticks(Errs):
    """A timer at each broker, ten times; every second one is left to Python, and all are set there."""

    compiled = _publications_only
    timer_min_ns = 1_000

    def first_timers(self) -> list[tuple[int, int, int, int]]:
        return [(b, 5_000 + b // 2, 16, word) for b in range(self.env.brokers) for word in (1, 2)]

    def handle(self, batch: Batch, out: Out) -> None:
        again = np.flatnonzero((batch.kind == TIMER) & (batch.word % 2 == 1) & (batch.word < 19))
        out.timer(again, 1_000 + batch.broker[again], 16, batch.word[again] + 2)
        out.timer(again, 1_000, 16, batch.word[again] + 1)


def test_timers_come_in_their_order_whoever_decides_on_them():
    model = join(Ticks, [(0, 1), (1, 2), (2, 3)]).model()
    found = [simulate(model, cutting=cutting) for cutting in (Cutting("one"), *WAYS, Cutting())]
    assert {each.metrics["network"]["events"] for each in found} == {4 * (2 + 2 * 9)}
    assert len({each.digest for each in found}) == 1


def test_a_handler_is_not_inherited_past_a_new_handle():
    class Another(Flooding):
        def handle(self, batch: Batch, out: Out) -> None:
            pass

    class Renamed(Flooding):
        pass

    assert handler_of(Flooding) is handler_of(Renamed) is not None
    assert handler_of(Another) is None
    assert len({id(handler_of(each)) for each in (Flooding, Subscription, Covering)}) == 3


# ---- the winner tree ---------------------------------------------------------------------------------

@njit
def _moved(time, leaf, order, which, new_time):
    heads.moved(time, leaf, order, which, new_time)


@njit
def _sooner(time, leaf, order, which, new_time):
    heads.sooner(time, leaf, order, which, new_time)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 12)), max_size=60))
def test_the_winner_tree_tells_what_comes_first_like_a_scan(links, brokers, steps):
    """Times are few, so that ties are many; 12 stands for nothing to come."""
    tree = heads.empty(2 * links, brokers, np.arange(2 * links, dtype=np.int32) % brokers)
    time, leaf, order = tree["head_time"], tree["head_leaf"], tree["head_order"]
    order[-brokers:] = 7 + np.arange(brokers)  # clients
    leaves = order.size
    comes = np.full(leaves, NEVER, np.int64)
    for which, when in steps:
        which, new = which % leaves, NEVER if when == 12 else np.int64(when)
        (_sooner if new < comes[which] else _moved)(time, leaf, order, which, new)
        comes[which] = new
        first = min(range(leaves), key=lambda i: (comes[i], order[i]))
        assert time[1] == comes[first]
        if time[1] != NEVER:
            assert order[leaf[1]] == order[first] and comes[leaf[1]] == time[1]


def test_the_tree_that_is_planted_is_that_of_what_is_under_way():
    shard = Shard(rehearse(REHEARSALS[1], "flooding"), 0, np.zeros(7, np.int32), MemoryTraces("none")(0),
                  Cutting(compiled="rounds"))  # fmt: skip
    for _ in range(20):
        shard.window(shard.next_time() + 3_000_000, [b""])
        world = shard.renew_world()
        heads.plant(world)
        assert shard.links.arrays()["head_time"][1] == shard.queues.earliest()
    before = shard.queues.next_time.copy()
    advance.leave(world, shard.now)
    assert np.array_equal(before, shard.queues.next_time)


# ---- records and views -------------------------------------------------------------------------------

_BOTH = Record("both", {"keys": INTS, "marks": FLAGS, "table": TABLE})
_both = reader(_BOTH)


@njit(inline="always")
def _find(keys, key):
    for i in range(keys.size):
        if keys[i] == key:
            break
    else:
        raise ValueError("there is no such key")
    return i


@njit
def _mark(address, key):
    both = _both(address)
    at = _find(both.keys, key)
    both.marks[at] = not both.marks[at]
    both.table[at, 1] += both.table.shape[1] * key
    return both.table.size


def test_what_is_written_through_a_view_stays_written_where_functions_are_inlined():
    """Numba drops writes to what it takes for dead, if an attribute of it is inlined; so none is."""
    arrays = {"keys": np.array([5, 7, 9]), "marks": np.zeros(3, bool), "table": np.zeros((3, 2), np.int64)}
    held = _BOTH.of(arrays)
    assert _mark(held.address, 7) == 6
    assert arrays["marks"].tolist() == [False, True, False]
    assert arrays["table"].tolist() == [[0, 0], [0, 14], [0, 0]]
    held.follow({"marks": (fresh := np.ones(3, bool))})
    _mark(held.address, 9)
    assert fresh.tolist() == [True, True, False]
    assert arrays["marks"].tolist() == [False, True, False]
    with pytest.raises(ValueError, match="no such key"):
        _mark(held.address, 8)


@pytest.mark.parametrize("wrong", [np.zeros(3, np.int32), np.zeros((3, 1), np.int64), np.zeros(6, np.int64)[::2]])
def test_a_record_refuses_an_array_that_is_not_as_its_view(wrong):
    arrays = {"keys": np.zeros(3, np.int64), "marks": np.zeros(3, bool), "table": np.zeros((3, 2), np.int64)}
    with pytest.raises(TypeError, match="'keys' is int"):
        _BOTH.of({**arrays, "keys": wrong})
    held = _BOTH.of(arrays)
    with pytest.raises(TypeError, match="'keys' is int"):
        held.follow({"keys": wrong})


# ---- windows in which much is sent -------------------------------------------------------------------


@pytest.mark.parametrize("how", ["never", "events", "rounds"])
def test_a_window_in_which_clients_send_much_is_handled_in_stretches(how, monkeypatch):
    from analysis.bench.models import SUBSCRIPTION, Setting
    from analysis.bench.models import model as measured
    from brokers.engine import inputs

    model = measured(Setting(16, 1_000, 2.5, subscriptions=60, protocol=SUBSCRIPTION, settled=False, ramp_s=1.5))
    whole = MemoryTraces("full")
    digest = simulate(model, trace=whole).digest
    stretches: list[int] = []
    stretch = Shard._stretch
    monkeypatch.setattr(
        Shard, "_stretch", lambda shard, end, samples: (stretches.append(end), stretch(shard, end, samples))[1]
    )
    monkeypatch.setattr(inputs, "_PLENTY", 50)
    monkeypatch.setattr("brokers.workloads.common.CHUNK_EVENTS", 20)
    parted = MemoryTraces("full")
    result = simulate(model, trace=parted, cutting=Cutting(compiled=how))
    assert result.digest == digest
    assert len(stretches) > 2 * result.engine["windows"]
    samples = [Recorded(traces).read("samples").to_pylist() for traces in (whole, parted)]
    assert len(samples[0]) == 2 * 16
    assert samples[0] == samples[1]


def test_a_burst_after_a_long_quiet_does_not_come_to_be_all_at_once():
    """Windows have grown to minutes when it comes; bodies under way stay few."""
    from analysis.bench.models import Setting
    from analysis.bench.models import model as measured

    model = measured(Setting(brokers=8, publications_per_s=20_000, seconds=60))
    source = model.services[0].sources[-1]
    source.params["start"] = 40_000_000_000
    model.duration_ns = 60_000_000_000
    shard = Shard(model, 0, np.zeros(8, np.int32), MemoryTraces("none")(0))
    shard.window(NEVER, [b""])
    assert shard.queues.handled > 3_000_000
    assert shard.services.bodies.capacity < 1 << 19
