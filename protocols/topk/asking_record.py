"""What compiled code sees of the protocols that ask, `ASKING`, and how it answers: `protocols/topk/asking_kernels.py`.

A *case* is a publication that brokers here are asked about; an *open* question is a broker's part of a case. What a
broker has in hand is a stretch of two arrays, ids and scores in rank order; so is what an answer brings, and, as
clients and the numbers of their brokers in the tree, whom a delivery names.

Numba does not notice an edit in a file whose functions it inlined elsewhere, so the record's name has a digest of them.
"""

from __future__ import annotations

from numba import njit, types

from brokers.compiled import digest
from brokers.records import Record, reader
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE, REALS, REALS_TABLE, View

DELIVERY = 16
QUESTION, ANSWER, TOO_LATE = 17, 18, 19
REFRESH, LOWER = 20, 21

_BYTES_TABLE, _SHORTS_TABLE = View(types.uint8, 2), View(types.int16, 2)

# What the record's `said` holds: the service's parameters.
(K, TIES_ALL, BY_RECEIVER, PRORATE, EXCLUDES, BOUNDED, AT_ONCE, LOSSY, SCANNED_MOST, CELLS) = range(10)
# What its `now` counts; and in OPEN_FREE, SNAPSHOTS_FREE how many places are left on those stacks.
(USED, SENDS, DELIVERIES, LIMITS, LOWERINGS, RANKED, MADE, LOGGED, TOUCHED, OPEN_FREE, SNAPSHOTS_FREE, WANTED, GIVEN,
 GIVEN_COUNT, CHANGES, LOWERED, BEGUN, TODO, SERVED, SENDS_MOST, DONE) = range(21)  # fmt: skip
COUNTS = 21
# Why `decide` stopped: no more room for rankings; an index has to be asked; a body has to be read.
ROOM, INDEX, READ = range(3)
# What is logged, as rows of four: event, what, and two numbers.
PUBLISHED, CONCLUDED, RAISED, UNCHANGED = range(4)
ROWS = ("broker", "kind", "type", "link", "word", "body", "case", "slot", "fresh")
AHEAD, AWAITED = 1, 2  # a branch that may be asked, and one that was

_MADE_OF = digest(
    __file__, "asking_record.py", "asking_kernels.py", "ranking_kernels.py", "bound_kernels.py",
    "tree_kernels.py", "../../brokers/indexes/ids.py", "../../brokers/indexes/topk/kernels.py",
    "../../brokers/views.py", "../../brokers/records.py",
)  # fmt: skip
ASKING = Record(f"asking {_MADE_OF}", {
    "broker": NARROW, "kind": NARROW, "type": NARROW, "link": NARROW, "word": INTS, "body": NARROW,  # by row
    "case": NARROW, "slot": NARROW, "fresh": NARROW,  # by row: -1 for none
    "todo": INTS,  # rows that Python has to see first
    "case_keys": INTS, "case_slots": NARROW, "body_key": INTS,
    "said": INTS, "said_real": REALS, "now": INTS,
    "id": INTS, "here": FLAGS, "total": REALS,  # by slot of a filter
    "attribute": _SHORTS_TABLE, "ends": REALS_TABLE, "weight": REALS_TABLE,
    "fresh_attribute": _SHORTS_TABLE, "fresh_ends": REALS_TABLE, "fresh_weight": REALS_TABLE, "fresh_total": REALS,
    "mine": NARROW, "first": INTS, "count": INTS, "large": FLAGS,  # filters mine[first[b]:][:count[b]] live at b
    "touched": INTS,  # filters that changed at large brokers
    "key": INTS, "publisher": INTS, "low": REALS_TABLE, "high": REALS_TABLE, "sent": REALS_TABLE, "weighs": FLAGS,
    "first_cell": NARROW_TABLE, "last_cell": NARROW_TABLE,  # these by case
    "opens": INTS, "at": NARROW_TABLE, "branch": _BYTES_TABLE, "limit": REALS_TABLE,  # by case and broker
    "open_case": INTS, "parent": INTS, "floor": REALS, "start": INTS, "held": INTS, "pending": INTS,  # by open question
    "open_free": INTS,
    "ids": INTS, "scores": REALS,
    "noted": NARROW, "generation": NARROW, "body_start": INTS, "body_count": INTS, "body_floor": REALS,  # by body
    "out_start": NARROW, "out_link": NARROW, "target": NARROW, "in_tree": FLAGS,
    "enter": NARROW, "leave": NARROW, "up": NARROW, "numbered": NARROW,
    "row_of": NARROW, "known": NARROW_TABLE,  # by row of a broker here, and broker: a snapshot
    "units": _BYTES_TABLE, "unit": REALS, "most": INTS, "top": REALS, "uses": INTS, "snapshot_free": INTS,
    "stale": FLAGS,
    "send_event": INTS, "send_link": INTS, "send_type": INTS, "send_body": INTS, "send_word": INTS,
    "deliver_event": INTS, "deliver_client": INTS, "limit_event": INTS, "lower_event": INTS,
    "ranked_event": INTS, "ranked_entries": INTS, "ranked_matches": INTS,
    "made_event": INTS, "made_case": INTS, "made_start": INTS, "made_count": INTS, "made_floor": REALS,
    "done": INTS,  # cases that nobody had open at some time
    "log_event": INTS, "log_what": INTS, "log_a": INTS, "log_b": INTS, "log_c": INTS,
})  # fmt: skip
asking_at = reader(ASKING)


@njit(cache=True)
def send(s, event, link, type_, body, word):
    at = s.now[SENDS]
    s.send_event[at], s.send_link[at], s.send_type[at] = event, link, type_
    s.send_body[at], s.send_word[at] = body, word
    s.now[SENDS] = at + 1


@njit(cache=True)
def make(s, event, case, start, count, floor):
    """The number of a body that has to be made."""
    at = s.now[MADE]
    s.made_event[at], s.made_case[at], s.made_start[at], s.made_count[at] = event, case, start, count
    s.made_floor[at] = floor
    s.now[MADE] = at + 1
    return -2 - at


@njit(cache=True)
def log(s, event, what, a, b, c):
    at = s.now[LOGGED]
    s.log_event[at], s.log_what[at], s.log_a[at], s.log_b[at], s.log_c[at] = event, what, a, b, c
    s.now[LOGGED] = at + 1
