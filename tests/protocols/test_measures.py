"""What routing costs, counted by hand on small traces."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from brokers.contract import FAULT, MESSAGE, TIMER
from brokers.registry import load
from protocols import measures
from protocols.registry import METRICS

KIND = SimpleNamespace(announced=frozenset())


def columns(**lists):
    return {name: np.array(values, np.int64) for name, values in lists.items()}


# Publication 100 enters broker 0 and goes to 1 and 2; from 1 to 3. It is delivered at 3 alone. 7 is a change.
HOPS = columns(
    link=[-1, 0, 2, 4, 0, -1],
    body=[100, 100, 100, 100, 7, -1],
    time_ns=[1, 11, 12, 21, 30, 40],
    broker=[0, 1, 2, 3, 1, 1],
    source=[9, 0, 0, 1, 0, 1],
    type=[0, 0, 0, 0, 1, 9],
    kind=[MESSAGE, MESSAGE, MESSAGE, MESSAGE, MESSAGE, TIMER],
)
TABLES = {
    "hops": HOPS,
    "publications": columns(publication=[100], broker=[0]),
    "deliveries": columns(publication=[100], broker=[3], published_ns=[1], time_ns=[31]),
    "links": columns(**{"from": [0, 1, 0, 2, 1, 3], "to": [1, 0, 2, 0, 3, 1], "delay_ns": [10, 10, 4, 4, 10, 10]}),
    "changes": columns(change=[7, 8]),
    "samples": columns(entries=[0, 2, 4, 2]),
}


def with_row(**more):
    return {name: np.append(column, more[name]) for name, column in HOPS.items()}


def test_what_a_broker_is_told_of_a_fault_at_a_link_is_no_control():
    hops = with_row(link=4, body=-1, time_ns=25, broker=3, source=1, type=0, kind=FAULT)
    assert measures.control({**TABLES, "hops": hops}, KIND) == measures.control(TABLES, KIND) == 1


def test_drops_are_counted_by_neighbour_and_losses_are_none():
    losses = columns(link=[4, 5, 4, 4, 2], reason=[4, 4, 0, 4, 3])
    assert measures.dropped({"losses": losses}, KIND) == 3
    assert measures.dropped_worst({"losses": losses}, KIND) == 2
    assert measures.dropped_worst({"losses": columns(link=[], reason=[])}, KIND) == 0


def test_what_carries_a_publication_is_told_from_what_does_not():
    assert measures.carried(TABLES, KIND) == 3
    assert measures.control(TABLES, KIND) == 1
    assert measures.control_per_change(TABLES, KIND) == 0.5


def test_word_of_a_publication_is_control_and_no_waste():
    hops = with_row(link=4, body=100, time_ns=25, broker=2, source=3, type=16, kind=MESSAGE)
    tables, kind = {**TABLES, "hops": hops}, SimpleNamespace(announced=frozenset({16}))
    assert (measures.carried(tables, kind), measures.control(tables, kind)) == (3, 2)
    assert measures.carried(tables, KIND) == 4
    assert measures.waste(tables, kind) == measures.waste(TABLES, KIND) < measures.waste(tables, KIND)


def test_waste_is_what_led_to_nobody():
    assert measures.waste(TABLES, KIND) == pytest.approx(1 / 3)  # that to broker 2
    nobody = {**TABLES, "deliveries": {name: column[:0] for name, column in TABLES["deliveries"].items()}}
    assert measures.waste(nobody, KIND) == 1


def test_what_comes_again_is_waste_but_for_what_is_of_another_type():
    def with_another(broker, source, type):
        hops = with_row(link=4, body=100, time_ns=25, broker=broker, source=source, type=type, kind=MESSAGE)
        return {**TABLES, "hops": hops}

    assert measures.waste(with_another(3, 1, 0), KIND) == pytest.approx(2 / 4)
    assert measures.waste(with_another(0, 1, 0), KIND) == pytest.approx(2 / 4)  # back where it was published
    assert measures.waste(with_another(3, 1, 7), KIND) == pytest.approx(1 / 4)


def test_stretch_is_beside_the_shortest_way():
    assert measures.stretch(TABLES, KIND) == pytest.approx(30 / 20)
    here = {**TABLES, "deliveries": columns(publication=[100], broker=[0], published_ns=[1], time_ns=[1])}
    assert measures.stretch(here, KIND) is None


def test_tables_in_the_mean_and_at_most():
    assert (measures.tables_mean(TABLES, KIND), measures.tables_largest(TABLES, KIND)) == (2, 4)


def test_nothing_measured_where_nothing_happened():
    nothing = {table: {name: column[:0] for name, column in rows.items()} for table, rows in TABLES.items()}
    assert measures.waste(nothing, KIND) is None and measures.tables_mean(nothing, KIND) is None
    assert measures.control_per_change(nothing, KIND) is None and measures.carried(nothing, KIND) == 0


def test_each_is_listed_by_its_own_name():
    for name, entry in METRICS.items():
        assert load(entry.target).name == name


def test_what_is_left_is_that_of_the_last_sample():
    samples = columns(time_ns=[5, 5, 9, 9], entries=[4, 4, 1, 2])
    assert measures.tables_left({"samples": samples}, KIND) == 3
    assert measures.tables_left({"samples": {name: each[:0] for name, each in samples.items()}}, KIND) is None


def test_how_long_it_goes_on_counts_from_the_last_that_clients_or_faults_did():
    second = 1_000_000_000
    tables = {
        "hops": columns(time_ns=[second, 2 * second, 14 * second, 12 * second], kind=[1, 2, 1, 0]),
        "publications": columns(time_ns=[second]), "changes": columns(issued_ns=[second // 2]),
        "faults": columns(begin_ns=[second], end_ns=[3 * second]),
    }  # fmt: skip
    assert (measures.quiet_after(tables, KIND), measures.quiet_late(tables, KIND)) == (11.0, 1)
    assert measures.quiet_late({**tables, "stays": columns(begin_ns=[0], end_ns=[5 * second])}, KIND) == 0  # 9 s
    assert measures.quiet_after({"hops": columns(time_ns=[3], kind=[0])}, KIND) is None
