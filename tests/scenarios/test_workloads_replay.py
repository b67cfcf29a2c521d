"""Replay: a file's events come out as they stand in it, or it is said by line what is wrong with it."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokers.contract import NEVER, SourceContext
from brokers.errors import InvalidInput
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from scenarios.workloads.replay import Replay

SECOND = 1_000_000_000
BASE = 100

STORY = """\
time_s,client,op,a0,a1,low_0,high_0,low_1,high_1,subscription
0,1,subscribe,,,0.2,0.4,,,
0.000000001,0,subscribe,,,,0.5,0.1,0.1,7
0.5,2,publish,0.3,,,,,,
0.5,2,publish,0.3,0.1,,,,,
1.25,0,unsubscribe,,,,,,,7
1.25,0,subscribe,,,,,0.9,,
1.25,0,unsubscribe,,,,,,,1

9.999999999,1,unsubscribe,,,,,,,0
"""


def context(clients=range(3), *, population=3, attributes=2, seconds=10, source=0):
    numbers = np.asarray(list(clients), np.int64)
    return SourceContext(
        1, 0, source, numbers, BASE, population, seconds * SECOND, False, {"attributes": attributes}
    )


def replay(path, *, first_client=0, **kwargs):
    return Replay({"file": str(path), "first_client": first_client}, context(**kwargs))


def taken(source):
    """The events of one take, in the order in which the engine sees them."""
    out = []
    for each in source.take():
        rows = [None] * each.time.size if each.rows is None else map(tuple, each.rows.tolist())
        types = [each.type] * each.time.size
        out += zip(each.time.tolist(), each.client.tolist(), types, each.word.tolist(), rows)
    return sorted(out, key=lambda event: event[0])


def events(source):
    """(time, client, type, word, row) of the whole file."""
    out = []
    while (wake := source.next_wake()) < NEVER:
        found = taken(source)
        assert wake == found[0][0] and found[-1][0] < source.next_wake()
        out += found
    return out


def plain(found):
    """Events with NaN as None, so that they compare."""
    return [
        (*event, row and tuple(None if math.isnan(x) else x for x in row)) for *event, row in found
    ]


def write(folder, text, name="events.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def word(client, number):
    return (BASE + client) << 32 | number


def expect_error(path, *messages, **kwargs):
    with pytest.raises(InvalidInput) as caught:
        replay(path, **kwargs)
    lines = str(caught.value).split("\n")
    assert lines == [f"{path}{message}" for message in messages]


def test_a_file_is_replayed_event_by_event(tmp_path):
    inf = math.inf
    assert plain(events(replay(write(tmp_path, STORY)))) == [
        (1, 1, SUBSCRIBE, word(1, 0), (0, 0.2, 0.4, None, None, None)),
        (1, 0, SUBSCRIBE, word(0, 7), (0, -inf, 0.5, 1, 0.1, 0.1)),
        (SECOND // 2, 2, PUBLISH, 0, (0.3, None)),
        (SECOND // 2, 2, PUBLISH, 0, (0.3, 0.1)),
        (5 * SECOND // 4, 0, UNSUBSCRIBE, word(0, 7), None),
        (5 * SECOND // 4, 0, SUBSCRIBE, word(0, 1), (1, 0.9, inf, None, None, None)),
        (5 * SECOND // 4, 0, UNSUBSCRIBE, word(0, 1), None),
        (10 * SECOND - 1, 1, UNSUBSCRIBE, word(1, 0), None),
    ]


def test_a_parquet_file_says_the_same_as_its_csv(tmp_path):
    lines = [line.split(",") for line in STORY.split("\n") if line]
    table = {}
    for i, name in enumerate(lines[0]):
        cells = [line[i] or None for line in lines[1:]]
        if name == "op":
            table[name] = arrow.array(cells)
        elif name in ("client", "subscription"):
            table[name] = arrow.array([cell and int(cell) for cell in cells], arrow.int64())
        else:
            table[name] = arrow.array([cell and float(cell) for cell in cells], arrow.float64())
    path = tmp_path / "events.parquet"
    parquet.write_table(arrow.table(table), path)
    assert plain(events(replay(path))) == plain(events(replay(write(tmp_path, STORY))))


def test_each_shard_replays_its_own_clients(tmp_path):
    path = write(tmp_path, STORY)
    together = plain(events(replay(path)))
    apart = [plain(events(replay(path, clients=[client]))) for client in range(3)]
    for client in range(3):
        mine = [event for event in together if event[1] == client]
        assert [event[:4] for event in apart[client]] == [event[:4] for event in mine]


@pytest.mark.parametrize("chunk_ns", [1, SECOND // 2, 100 * SECOND])
def test_chunks_do_not_show_in_a_replay(tmp_path, chunk_ns):
    path = write(tmp_path, STORY)
    cut = replay(path)
    cut.chunk_ns = chunk_ns
    assert plain(events(cut)) == plain(events(replay(path)))


def test_clients_are_counted_from_the_first_of_the_group(tmp_path):
    path = write(tmp_path, "time_ns,client,op,a0\n5,1,publish,1\n")
    found = events(replay(path, clients=[10, 11, 12], first_client=10))
    assert [event[:3] for event in found] == [(5, 11, PUBLISH)]
    with pytest.raises(InvalidInput, match="set `first_client` to the first client of the group"):
        replay(path, clients=[10, 11, 12])


def test_subscriptions_of_two_files_never_share_an_id(tmp_path):
    path = write(tmp_path, STORY)
    words = [{event[3] for event in events(replay(path, source=source))} - {0} for source in (0, 1)]
    assert len(words[0]) == len(words[1]) == 3 and not words[0] & words[1]


def test_an_empty_list_of_events_is_fine(tmp_path):
    assert replay(write(tmp_path, "time_ns,client,op\n")).next_wake() == NEVER


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbf" + STORY.replace("\n", "\r\n").encode())
    assert len(events(replay(path))) == 8


def test_every_mistake_is_told_with_its_line(tmp_path):
    text = """\
time_ns,client,op,a0,low_0,high_0,subscription
5,0,publish,x,,,
-1,zero,shout,1,,,
1.5,0,publish,inf,,,
"""
    path = write(tmp_path, text)
    expect_error(
        path,
        ":2: a0 must be a number (got 'x'); if it is text, say so by `text` of the service",
        ":3: client must be a whole number (got 'zero')",
        ":3: op must be one of publish, subscribe, unsubscribe (got 'shout')",
        ":4: time_ns must be a whole number (got '1.5')",
        ":4: a value must be finite",
    )


def test_events_that_do_not_fit_the_run_are_refused_before_it(tmp_path):
    text = """\
time_ns,client,op,a0,low_0,high_0,subscription
-1,0,publish,1,,,
7,3,publish,1,,,
6,0,publish,inf,,,
6,0,publish,1,0,1,
6,0,subscribe,1,0,1,
6,0,subscribe,,,,
6,0,subscribe,,0.5,0.25,

6,0,unsubscribe,,,,
10000000000,0,publish,1,,,
"""
    expect_error(
        write(tmp_path, text),
        ":2: a time cannot be negative (got -1 ns)",
        ":3: the group has clients 0 to 2 (got 3)",
        ":4: time 6 ns is before 7 ns above it; sort the file by time",
        ":4: a value must be finite",
        ":5: low_0 belongs to subscribe; leave it empty here",
        ":5: high_0 belongs to subscribe; leave it empty here",
        ":6: a0 belongs to publish; leave it empty here",
        ":7: a subscription needs at least one constraint",
        ":8: low_0 0.5 is above high_0 0.25",
        ":11: time 10000000000 ns is not within the duration of 10 s; raise the duration, let the file play faster by "
        "`speed`, or leave out what is beyond by `cut: true`",
    )


def test_the_life_of_each_subscription_is_checked(tmp_path):
    text = """\
time_ns,client,op,low_0,high_0,subscription
1,0,unsubscribe,,,0
2,0,subscribe,0,1,
3,1,unsubscribe,,,0
4,0,unsubscribe,,,0
5,0,unsubscribe,,,0
6,0,subscribe,0,1,0
7,0,subscribe,0,1,-5
8,0,unsubscribe,,,
"""
    expect_error(
        write(tmp_path, text),
        ":2: subscription 0 of client 0 was never begun",
        ":4: subscription 0 of client 1 was never begun",
        ":6: subscription 0 of client 0 has ended already",
        ":7: client 0 has used the subscription number 0 before",
        ":8: subscription is a number from 0, below 16,777,216 (got -5)",
        ":9: unsubscribe must say which `subscription` it is about",
    )


def test_of_many_mistakes_the_first_ten_are_told(tmp_path):
    path = write(tmp_path, "time_ns,client,op\n" + "1,9,publish\n" * 500)
    clients = [f":{line}: the group has clients 0 to 2 (got 9)" for line in range(2, 12)]
    expect_error(path, *clients, ": and more of this")


@pytest.mark.parametrize(
    ("header", "messages"),
    [
        ("client,op", [":1: there must be one column time, time_ns or time_s"]),
        ("time_ns,time_s,client,op", [":1: there must be one column time, time_ns or time_s"]),
        ("time_ns", [":1: there is no column client", ":1: there is no column op"]),
        ("time_ns,client,op,a2", [":1: column 'a2': the service has attributes 0 to 1"]),
        ("time_ns,client,op,op", [":1: the column 'op' appears twice"]),
        ("", [":1: the file is empty; it begins with a line of column names"]),
        ("time_ns;op", [":1: columns are separated by commas, and this header has ';' between them"]),
        (
            "time_ns,client,op,speed",
            [
                ":1: unknown column 'speed'; known: time, time_ns, time_s, client, op, a<i>, low_<i>, high_<i>, "
                "is_<i>, prefix_<i>, subscription; map it by `columns`, or leave it out by `ignore`"
            ],
        ),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, header, messages):
    expect_error(write(tmp_path, header), *messages)


def test_lines_of_another_length_and_files_that_are_none_are_refused(tmp_path):
    path = write(tmp_path, "time_ns,client,op\n1,0,publish\n2,0\n")
    expect_error(path, ":3: the header names 3 columns, this line has 2")
    expect_error(tmp_path / "none.csv", ": cannot be read: No such file or directory")
    expect_error(tmp_path / "none.parquet", ": cannot be read: there is no such file")
    expect_error(
        write(tmp_path, b"PAR1\xff\xfe"), ": not UTF-8 at byte 4; a Parquet file must end in .parquet"
    )
    packed = gzip.compress(STORY.encode() if isinstance(STORY, str) else STORY)
    expect_error(write(tmp_path, packed), ": is packed by gzip; unpack it first")
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        replay(write(tmp_path, STORY, "events.parquet"))


def test_columns_of_the_wrong_type_in_parquet_are_told_by_row(tmp_path):
    path = tmp_path / "events.parquet"
    columns = {
        "time_ns": [1.0, 2.5, 3.0],
        "client": [0, None, 0],
        "op": ["publish", None, "publish"],
        "a0": ["1", "x", "y"],
    }
    parquet.write_table(arrow.table(columns), path)
    expect_error(
        path,
        ": row 2: time_ns must be a whole number (got 2.5)",
        ": row 2: client must be a whole number (got None)",
        ": row 2: op must be one of publish, subscribe, unsubscribe (got None)",
        ": row 3: a0 must be a number (got 'y'); if it is text, say so by `text` of the service",
    )


CELLS = st.sampled_from(
    ["0", "1", "2", "", "-1", "1e3", "0.5", "inf", "nan", "publish", "subscribe", "é", '"', "\0"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(CELLS, min_size=6, max_size=7), max_size=6), noise=st.binary(max_size=8))
def test_any_file_is_replayed_or_refused_and_never_breaks(tmp_path, rows, noise):
    text = "time_s,client,op,a0,low_1,subscription\n" + "\n".join(",".join(row) for row in rows)
    for content in (text.encode(), text.encode() + noise, noise):
        for name in ("events.csv", "events.parquet"):
            try:
                found = events(replay(write(tmp_path, content, name)))
            except InvalidInput as error:
                assert str(error).startswith(str(tmp_path))
            else:
                assert all(1 <= time < 10 * SECOND for time, *_ in found)
