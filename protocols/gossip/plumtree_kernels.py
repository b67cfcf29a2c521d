"""`plumtree` in compiled code: the rules of `plumtree.py` over the arrays of a shard.

State. A link is eager or lazy, as its own broker has it. A publication has a *slot*, and each broker here a row in it:
when it came, in which round, and whether a timer asks for it. A row has also a chain of *notes*, each a link and a
round: while the publication has not come, of those who announced it; once it has, of the links over which it is to be
announced. So what waits takes room while it waits, and a slot while somebody may still ask for it.

A row that lacks something here, room or a slot, has changed nothing, and Python sees to it (`PlumtreeShard`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import fits, handler, makes, send, timer
from brokers.indexes.ids import find_one
from brokers.making import begin, data_of, finish
from brokers.records import Record, reader
from brokers.tables import AT_HOME, change_at_home, deliver_at_home, hits_at_home, is_known
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE
from brokers.wire.numbers import WIDEST, read_head, read_int, write_head, write_int
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.gossip.plumtree import ANNOUNCE, ASK, GRAFT, IHAVE, PRUNE

# Options, by the place in `said`.
SAID = ("t1", "t2", "dispatch", "threshold", "cache", "ids")
T1, T2, DISPATCH, THRESHOLD, CACHE, IDS = range(len(SAID))
ROUND, ASKING, FIRST, LAST = range(4)  # of a row in `row`
ROW = 4
LINK, IN_ROUND, FOLLOWS = range(3)  # of a note
NOTE = 3
FREE, NOTES, NOW = range(3)  # of `counts`: the first free note, how many are not free, the latest time
COUNTS = 3
NOBODY = np.int64(-1)

MINE = Record("plumtree", {
    **AT_HOME,
    "said": INTS, "counts": INTS,
    "eager": FLAGS,  # by directed link, as its own broker has it
    "local": NARROW, "locals": INTS,  # by broker, its place among those here; how many there are
    "id_keys": INTS, "id_slots": NARROW,
    "slot_body": NARROW, "slot_uses": INTS, "slot_cached": INTS,  # by slot; uses are timers, cached until when
    "came": INTS, "row": NARROW_TABLE,  # by slot, and in it by place; -1: has not come
    "note": NARROW_TABLE,
})  # fmt: skip
mine_at = reader(MINE)


@handler(MINE, speaks=True)
def decide(desk, mine, at, stop):
    me = mine_at(mine)
    for i in range(at, stop):
        if not _row(desk, me, i):
            return i
        me.counts[NOW] = max(me.counts[NOW], desk.time[i])
    return stop


@njit(cache=True)
def _row(desk, me, i):
    """Decide on a row; whether it could."""
    type_, b, link = desk.type[i], np.int64(desk.broker[i]), np.int64(desk.link[i])
    if type_ == PUBLISH:
        return _publish(desk, me, i, b, link)
    if type_ == IHAVE:
        return _hear_of(desk, me, i, b, link)
    if type_ == PRUNE:
        me.eager[link] = False
        return True
    if type_ == ANNOUNCE:
        return _announce(desk, me, i, b)
    if type_ == ASK:
        return _ask(desk, me, i, b)
    if type_ == GRAFT:
        return _graft(desk, me, i, b, link)
    return type_ not in (SUBSCRIBE, UNSUBSCRIBE) or change_at_home(desk, me, i, type_ == SUBSCRIBE)


# ---- publications ------------------------------------------------------------------------------------


@njit(cache=True)
def _publish(desk, me, i, b, link):
    """A client's own, or a copy from a neighbour."""
    body, now = np.int64(desk.body[i]), desk.time[i]
    old = now >= desk.published_ns[body] + me.said[IDS]
    slot = find_one(me.id_keys, me.id_slots, desk.key[body])
    if slot < 0 and not old:
        return False
    if old or me.came[_at(me, slot, b)] >= 0:
        if link >= 0:
            if not fits(desk, 1, 0):
                return False
            _prune(desk, me, i, link)
        return True
    low = high = np.int64(0)
    if me.entries[b] > 0:
        if not is_known(desk, me, body):
            return False
        low, high = hits_at_home(me, b, body)
    degree = np.int64(desk.out_start[b + 1] - desk.out_start[b])
    if not fits(desk, degree + 2, high - low) or not makes(desk, 1, 0, 0) or not _has_notes(me, degree):
        return False
    deliver_at_home(desk, me, i, low, high)
    at, round_ = _at(me, slot, b), np.int64(0) if link < 0 else desk.word[i] + 1
    best, announced = _forget_announcers(me, at)
    _push(desk, me, i, b, link, slot, round_)
    if best >= 0 and link >= 0 and best != link and round_ - announced >= me.said[THRESHOLD]:
        if not me.eager[best]:
            me.eager[best] = True
            send(desk, i, best, GRAFT, NOBODY, 0, -1)
        _prune(desk, me, i, link)
    return True


@njit(cache=True)
def _push(desk, me, i, b, came_by, slot, round_):
    """To the eager at once, and to the lazy that it is there; links by neighbour, which is by their numbers."""
    body, now, at = np.int64(desk.body[i]), desk.time[i], _at(me, slot, b)
    me.came[at], me.row[at, ROUND] = now, round_
    me.slot_body[slot] = body
    me.slot_cached[slot] = max(me.slot_cached[slot], now + me.said[CACHE])
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        link = np.int64(desk.out_link[j])
        if link == came_by:
            continue
        if me.eager[link]:
            send(desk, i, link, PUBLISH, body, round_, -1)
        else:
            _note(me, at, link, round_)
    if me.row[at, FIRST] >= 0:
        me.slot_uses[slot] += 1
        timer(desk, i, me.said[DISPATCH], ANNOUNCE, desk.key[body], body)


@njit(cache=True)
def _forget_announcers(me, at):
    """(The link of the first among those who announced it in the lowest round, that round); -1 where nobody did."""
    best, lowest = NOBODY, NOBODY
    for _ in range(me.note.rows):
        if me.row[at, FIRST] < 0:
            break
        link, round_ = _take_note(me, at)
        if best < 0 or round_ < lowest:
            best, lowest = link, round_
    return best, lowest


# ---- messages and timers -----------------------------------------------------------------------------


@njit(cache=True)
def _announce(desk, me, i, b):
    """Tell the lazy, as they were when it came."""
    id_ = desk.word[i]
    slot = find_one(me.id_keys, me.id_slots, id_)
    degree = np.int64(desk.out_start[b + 1] - desk.out_start[b])
    if slot < 0 or not fits(desk, degree, 0) or not makes(desk, 0, 1, 3 * WIDEST):
        return False
    at = _at(me, slot, b)
    body = _named(desk, i, IHAVE, id_, me.row[at, ROUND])
    for _ in range(degree):
        if me.row[at, FIRST] >= 0:
            link, _ = _take_note(me, at)
            send(desk, i, link, IHAVE, body, id_, -1)
    me.slot_uses[slot] -= 1
    return True


@njit(cache=True)
def _hear_of(desk, me, i, b, link):
    """IHAVE: of what is not there it is noted."""
    body, id_ = np.int64(desk.body[i]), desk.word[i]
    if desk.time[i] >= desk.published_ns[body] + me.said[IDS]:
        return True
    slot = find_one(me.id_keys, me.id_slots, id_)
    if slot < 0:
        return False
    at = _at(me, slot, b)
    if me.came[at] >= 0:
        return True
    if not _has_notes(me, 1) or not makes(desk, 1, 0, 0):
        return False
    _, where = read_head(data_of(desk, body), 0)
    _, where = read_int(data_of(desk, body), where)
    round_, _ = read_int(data_of(desk, body), where)
    _note(me, at, link, round_)
    if not me.row[at, ASKING]:
        me.row[at, ASKING] = 1
        me.slot_uses[slot] += 1
        timer(desk, i, me.said[T1], ASK, id_, body)
    return True


@njit(cache=True)
def _ask(desk, me, i, b):
    """The timer of a publication: its body is the announcement that set it."""
    id_ = desk.word[i]
    slot = find_one(me.id_keys, me.id_slots, id_)
    if slot < 0 or not fits(desk, 1, 0) or not makes(desk, 1, 1, 3 * WIDEST):
        return False
    at = _at(me, slot, b)
    if me.came[at] >= 0 or me.row[at, FIRST] < 0:  # it came, or nobody is left to be asked
        me.row[at, ASKING] = 0
        me.slot_uses[slot] -= 1
        return True
    link, round_ = _take_note(me, at)
    me.eager[link] = True
    send(desk, i, link, GRAFT, _named(desk, i, GRAFT, id_, round_), id_, -1)
    timer(desk, i, me.said[T2], ASK, id_, np.int64(desk.body[i]))
    return True


@njit(cache=True)
def _graft(desk, me, i, b, link):
    """GRAFT: what it names is sent, if it is cached still."""
    if not fits(desk, 1, 0):
        return False
    me.eager[link] = True
    slot = find_one(me.id_keys, me.id_slots, desk.word[i]) if desk.body[i] >= 0 else NOBODY
    if slot >= 0:
        at, body = _at(me, slot, b), np.int64(me.slot_body[slot])
        if body >= 0 and me.came[at] >= 0 and me.came[at] + me.said[CACHE] > desk.time[i]:
            send(desk, i, link, PUBLISH, body, me.row[at, ROUND], -1)
    return True


@njit(inline="always")
def _prune(desk, me, i, link):
    me.eager[link] = False
    send(desk, i, link, PRUNE, NOBODY, 0, -1)


@njit(cache=True)
def _named(desk, i, type_, id_, round_):
    """A body that names a publication, and a round."""
    at = write_head(desk.bytes, begin(desk), 2)
    return finish(desk, i, type_, write_int(desk.bytes, write_int(desk.bytes, at, id_), round_))


# ---- rows and notes ----------------------------------------------------------------------------------


@njit(inline="always")
def _at(me, slot, b):
    return slot * me.locals[0] + me.local[b]


@njit(inline="always")
def _has_notes(me, more):
    """Whether so many more are free."""
    return me.counts[NOTES] + more <= me.note.rows


@njit(cache=True)
def _note(me, at, link, round_):
    """Behind the other notes of a row."""
    note = me.counts[FREE]
    me.counts[FREE] = me.note[note, FOLLOWS]
    me.counts[NOTES] += 1
    me.note[note, LINK], me.note[note, IN_ROUND], me.note[note, FOLLOWS] = link, round_, -1
    if me.row[at, FIRST] < 0:
        me.row[at, FIRST] = note
    else:
        me.note[me.row[at, LAST], FOLLOWS] = note
    me.row[at, LAST] = note


@njit(cache=True)
def _take_note(me, at):
    """The first note of a row: its link and its round."""
    note = np.int64(me.row[at, FIRST])
    me.row[at, FIRST] = me.note[note, FOLLOWS]
    me.note[note, FOLLOWS] = me.counts[FREE]
    me.counts[FREE] = note
    me.counts[NOTES] -= 1
    return np.int64(me.note[note, LINK]), np.int64(me.note[note, IN_ROUND])


@njit(cache=True)
def note_all(mine, at, link, round_):
    """Note all of these, each behind the others of its row."""
    me = mine_at(mine)
    for k in range(at.size):
        _note(me, at[k], link[k], round_[k])


@njit(cache=True)
def notes_of(mine, at):
    """(Place in `at`, link, round) of all notes of these rows, in order."""
    me = mine_at(mine)
    found, count = np.empty((3, me.counts[NOTES]), np.int64), 0
    for k in range(at.size):
        note = np.int64(me.row[at[k], FIRST])
        for _ in range(me.note.rows):
            if note < 0:
                break
            found[0, count], found[1, count] = k, me.note[note, LINK]
            found[2, count] = me.note[note, IN_ROUND]
            note = np.int64(me.note[note, FOLLOWS])
            count += 1
    return found[:, :count].copy()
