"""`gossipsub` in compiled code: the rules of `gossipsub.py` and `scores.py` over the arrays of a shard.

State. A *seat* is a topic at a broker that heard of it, in a chain by topic; it has a *cell* for each of the broker's
links, at the link's place among them. A publication has a *slot*; `held` says in a row for each (broker, slot) when it
came, and chains what the broker has seen, and what it has in its cache, by age. So what a shard keeps of publications
is a row for each broker of those that somebody remembers, and slots are used again.

What the author's form keeps in dictionaries that it empties at heartbeats is here often a count that is compared: who
does not want an id says so up to a heartbeat, an arrival counts as known up to a decay. Draws are the same ones.

Each function of a message looks first whether there is room for all that may come of it, and whether all that it names
is known here; if not, nothing has changed and Python sees to it (`GossipShard`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import deliver, fits, handler, makes, send, timer, work
from brokers.contract import TIMER
from brokers.fingerprint import OTHER, absorb, draw
from brokers.indexes.ids import find_one
from brokers.making import begin, data_of, finish
from brokers.records import Record, reader
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE, REALS, REALS_TABLE, TABLE, WORDS, WORDS_TABLE
from brokers.wire.numbers import WIDEST, read_head, read_int, write_head, write_int
from protocols.gossip.gossipsub import SLACK_HEARTBEATS, SWEEP_TICKS
from protocols.gossip.scores import INVALID, NEW, VALID
from protocols.gossip.talking import (
    DECAY,
    FRAME_BYTES,
    GRAFT,
    HEARTBEAT,
    IDONTWANT,
    IHAVE,
    IWANT,
    JOINED,
    LEFT,
    LEVEL_BYTES,
    PRUNE,
    TIME_BYTES,
    VALIDATED,
)
from protocols.topics.kind import PUBLISH, SUBSCRIBE

# Draws by purpose, as `Talking.draw` names them.
PURPOSES = (
    "phase", "join", "fanout", "graft", "prune", "outbound", "opportunistic", "gossip", "factor", "ihave", "iwant",
    "promise",
)  # fmt: skip
(
    PHASE, BY_JOIN, BY_FANOUT, BY_GRAFT, BY_PRUNE, BY_OUTBOUND, BY_OPPORTUNISTIC, BY_GOSSIP, BY_FACTOR, BY_IHAVE,
    BY_IWANT, BY_PROMISE,
) = range(len(PURPOSES))  # fmt: skip

# Options that are whole numbers, and those that are not, by the place in `said` and `amount`.
WHOLE = (
    "d", "d_lo", "d_hi", "d_score", "d_out", "d_lazy", "history", "gossip_windows", "heartbeat", "fanout", "seen",
    "backoff", "leave_backoff", "graft_flood", "flood_publish", "exclude_author", "opportunistic_ticks",
    "opportunistic_peers", "ihave_messages", "ihave_ids", "iwant_repeats", "iwant_followup", "idontwant_from",
    "idontwant_messages", "idontwant_ids", "idontwant_ticks", "payload", "id_bytes", "validation",
)  # fmt: skip
(
    D, D_LO, D_HI, D_SCORE, D_OUT, D_LAZY, HISTORY, GOSSIP_WINDOWS, EVERY_NS, FANOUT_NS, SEEN_NS, BACKOFF_NS, LEAVE_NS,
    FLOOD_NS, FLOODS, EXCLUDES, OPPORTUNISTIC_TICKS, OPPORTUNISTIC_PEERS, IHAVE_MESSAGES, IHAVE_IDS, IWANT_REPEATS,
    FOLLOWUP_NS, IDONTWANT_FROM, IDONTWANT_MESSAGES, IDONTWANT_IDS, IDONTWANT_TICKS, PAYLOAD_BYTES, ID_BYTES,
    VALIDATION_NS, BACKS_OFF, REFUSES, SHARES, ENDS_NS, SCORED, DECAY_NS,
) = range(len(WHOLE) + 6)  # fmt: skip
(
    FACTOR, CAP, BEHAVIOUR_WEIGHT, BEHAVIOUR_THRESHOLD, BEHAVIOUR_DECAY, TO_ZERO, GOSSIP, PUBLISHING, GRAYLIST,
    OPPORTUNISTIC,
) = range(10)  # fmt: skip
AMOUNTS = 10
# What a topic says of scores (`TopicScoring`).
TOPIC_SAYS = (
    "weight", "mesh_weight", "mesh_quantum", "mesh_cap", "first_weight", "first_decay", "first_cap", "rate_weight",
    "rate_decay", "rate_cap", "rate_threshold", "rate_activation", "rate_window", "failure_weight", "failure_decay",
    "invalid_weight", "invalid_decay",
)  # fmt: skip
(
    WEIGHT, MESH_WEIGHT, MESH_QUANTUM, MESH_CAP, FIRST_WEIGHT, FIRST_DECAY, FIRST_CAP, RATE_WEIGHT, RATE_DECAY,
    RATE_CAP, RATE_THRESHOLD, RATE_ACTIVATION, RATE_WINDOW, FAILURE_WEIGHT, FAILURE_DECAY, INVALID_WEIGHT,
    INVALID_DECAY,
) = range(len(TOPIC_SAYS))  # fmt: skip

TOLD, IN_MESH, IN_FANOUT, MARKED = 1, 2, 4, 8  # of a cell
JOINED_IT, FANS_OUT = 1, 2  # of a seat
CAME, VALIDATED_AT, META, NEXT_SEEN, NEXT_CACHED = range(5)  # of what is held of a publication
HELD = 5
SEEN, CACHED, PROMISED = 1, 2, 4  # in its META; above them its state and who brought it first
STATE_SHIFT, FROM_SHIFT = 4, 8
FIRST, DELIVERED, FAILURES, INVALIDS, QUANTA, ACTIVE = range(6)  # of what a neighbour did in a topic
DID = 6
SEATS, CELLS, REFUSALS, ASKED_FOR, PROMISES, FREE_PROMISE, NOW, WANTS_PICKED, WANTS_TOLD = range(9)  # of `counts`
COUNTS = 9
NOBODY = np.int64(-1)

MINE = Record("gossipsub", {
    "said": INTS, "amount": REALS, "counts": INTS,
    # by directed link, as its own broker names it
    "place": NARROW, "dialled": FLAGS, "direct": FLAGS, "application": REALS, "address": REALS, "behaviour": REALS,
    "had": INTS, "asked": INTS, "refused": INTS, "frozen": REALS,
    # by broker
    "local": NARROW, "ticks": INTS, "shifts": INTS, "drawn": TABLE, "keys": WORDS_TABLE, "first_seat": NARROW,
    "seen_first": INTS, "seen_last": INTS, "cached": INTS, "cache_first": INTS, "cache_last": INTS,
    "window_first": TABLE, "window_count": TABLE, "decayed": INTS, "promise_first": NARROW,
    # by seat, and by cell
    "seat_of": NARROW_TABLE, "seat_topic": NARROW, "seat_broker": NARROW, "seat_next": NARROW, "seat_cell": INTS,
    "seat_flags": NARROW,
    "seat_told": NARROW, "seat_mesh": NARROW, "seat_published": INTS, "seat_members": NARROW, "seat_interest": NARROW,
    "cell": NARROW, "until": INTS, "grafted": INTS, "did": REALS_TABLE,
    # by topic
    "topic_keys": INTS, "topic_slots": NARROW, "topic_start": INTS, "topic_level": INTS, "rank": NARROW,
    "says": REALS_TABLE,
    # subscriptions of clients here
    "interest_keys": INTS, "interest_slots": NARROW, "interest_seat": NARROW, "interest_client": INTS,
    "interest_next": NARROW, "interest_stands": FLAGS,
    # publications
    "id_keys": INTS, "id_slots": NARROW, "slot_id": INTS, "slot_topic": NARROW, "slot_verdict": NARROW,
    "slot_body": NARROW, "slot_cached": INTS, "slot_uses": INTS, "slot_until": INTS, "slot_of_body": NARROW,
    "body_generation": NARROW, "held": TABLE, "brought": WORDS, "brought_from": INTS, "slots": INTS,
    # promises, who does not want what, and how often somebody was sent what it asked for
    "promise_next": NARROW, "promise_link": NARROW, "promise_slot": NARROW, "promise_until": INTS,
    "refusal": TABLE, "asking": TABLE,
    # room to work in
    "chosen": INTS, "ranked": INTS, "picked": INTS, "told": TABLE,
})  # fmt: skip
mine_at = reader(MINE)


@handler(MINE, speaks=True)
def decide(desk, mine, at, stop):
    me = mine_at(mine)
    for i in range(at, stop):
        if not _row(desk, me, i):
            return i
    return stop


@njit(cache=True)
def _row(desk, me, i):
    """Decide on a row; whether it could."""
    b, type_, link = np.int64(desk.broker[i]), desk.type[i], np.int64(desk.link[i])
    if desk.kind[i] == TIMER:
        if type_ == HEARTBEAT:
            return _heartbeat(desk, me, i, b)
        if type_ == DECAY:
            return _decay(desk, me, i, b)
        return _validated_now(desk, me, i, b)
    if link < 0:
        if type_ == PUBLISH:
            return _publish(desk, me, i, b)
        return _subscribe(desk, me, i, b) if type_ == SUBSCRIBE else _unsubscribe(desk, me, i, b)
    if type_ in (JOINED, LEFT):
        return _neighbour_said(desk, me, i, b, link)
    if not me.direct[link] and _is_below(me, b, link, GRAYLIST):
        return True
    if type_ == PUBLISH:
        return _payload_came(desk, me, i, b, link)
    if type_ == IHAVE:
        return _ihave_came(desk, me, i, b, link)
    if type_ == IWANT:
        return _iwant_came(desk, me, i, b, link)
    if type_ == GRAFT:
        return _graft_came(desk, me, i, b, link)
    if type_ == PRUNE:
        return _prune_came(desk, me, i, b, link)
    return _idontwant_came(desk, me, i, b, link)


# ---- clients -----------------------------------------------------------------------------------------


@njit(cache=True)
def _subscribe(desk, me, i, b):
    """The first subscription of a topic makes the broker join."""
    interest = find_one(me.interest_keys, me.interest_slots, desk.word[i])
    degree = _degree(desk, b)
    if interest < 0 or not fits(desk, 2 * degree, 0):
        return False
    seat = me.interest_seat[interest]
    topic = me.seat_topic[seat]
    if not makes(desk, 0, 2, 2 * _topic_bytes(me, topic)):
        return False
    if not me.interest_stands[interest]:
        me.interest_stands[interest] = True
        me.seat_members[seat] += 1
    if not me.seat_flags[seat] & JOINED_IT:
        _tell_all(desk, me, i, b, JOINED, topic)
        _join(desk, me, i, b, seat)
    return True


@njit(cache=True)
def _unsubscribe(desk, me, i, b):
    """The last one makes it leave."""
    interest = find_one(me.interest_keys, me.interest_slots, desk.word[i])
    if interest < 0 or not me.interest_stands[interest]:
        return True
    seat = np.int64(me.interest_seat[interest])
    topic = me.seat_topic[seat]
    if not fits(desk, 2 * _degree(desk, b), 0) or not makes(desk, 0, 2, 2 * _topic_bytes(me, topic)):
        return False
    me.interest_stands[interest] = False
    me.seat_members[seat] -= 1
    if me.seat_flags[seat] & JOINED_IT and me.seat_members[seat] == 0:
        _tell_all(desk, me, i, b, LEFT, topic)
        _leave(desk, me, i, b, seat)
    return True


@njit(cache=True)
def _tell_all(desk, me, i, b, type_, topic):
    first, last = desk.out_start[b], desk.out_start[b + 1]
    body = _topic_body(desk, me, i, type_, topic) if last > first else NOBODY
    for j in range(first, last):
        send(desk, i, desk.out_link[j], type_, body, 0, _topic_size(me, topic))


@njit(cache=True)
def _join(desk, me, i, b, seat):
    """Take over the fanout, and fill up."""
    first, cells, degree, now = desk.out_start[b], me.seat_cell[seat], _degree(desk, b), desk.time[i]
    _freeze(desk, me, b)
    me.seat_flags[seat] = JOINED_IT
    known = 0
    for p in range(degree):
        if me.cell[cells + p] & IN_FANOUT:
            me.cell[cells + p] &= ~IN_FANOUT
            if _may_graft(desk, me, first + p, cells + p):
                me.cell[cells + p] |= MARKED
                known += 1
    count = 0
    for p in range(degree):
        flags = me.cell[cells + p]
        if flags & TOLD and not flags & MARKED and _may_graft(desk, me, first + p, cells + p):
            me.chosen[count] = p
            count += 1
    _mark(me, cells, _some(me, b, BY_JOIN, me.chosen, 0, count, me.said[D] - known))
    _graft_marked(desk, me, i, b, seat, now)


@njit(cache=True)
def _leave(desk, me, i, b, seat):
    """Prune all."""
    first, cells, topic = desk.out_start[b], me.seat_cell[seat], me.seat_topic[seat]
    body = NOBODY
    for p in range(_degree(desk, b)):
        if me.cell[cells + p] & IN_MESH:
            _let_go(me, seat, cells + p)
            if body < 0:
                body = _prune_body(desk, me, i, topic, me.said[LEAVE_NS])
            _prune(desk, me, i, desk.out_link[first + p], cells + p, topic, me.said[LEAVE_NS], body, True)
    me.seat_flags[seat] &= ~JOINED_IT


# ---- payloads ----------------------------------------------------------------------------------------


@njit(cache=True)
def _publish(desk, me, i, b):
    """A client's own."""
    body = np.int64(desk.body[i])
    slot = _slot_of(desk, me, body)
    if slot < 0:
        return False
    topic, degree = np.int64(me.slot_topic[slot]), _degree(desk, b)
    seat = np.int64(me.seat_of[topic, b])
    if seat < 0 and not _has_seat(desk, me, b):
        return False
    if not fits(desk, degree, 0 if seat < 0 else me.seat_members[seat]):
        return False
    seat = _seat(desk, me, b, topic)
    first, cells, now = desk.out_start[b], me.seat_cell[seat], desk.time[i]
    _see(me, b, slot, now)
    _put(me, b, slot, body)
    _deliver(desk, me, i, seat)
    wanted = TOLD
    if not me.said[FLOODS]:
        wanted = IN_MESH
        if not me.seat_flags[seat] & JOINED_IT:
            wanted = IN_FANOUT
            _fan_out(desk, me, b, seat, now)
    size = desk.body_size[body] + me.said[PAYLOAD_BYTES]
    for p in range(degree):
        link, flags = np.int64(desk.out_link[first + p]), me.cell[cells + p]
        is_in = flags & wanted != 0 and not (wanted == TOLD and _is_below(me, b, link, PUBLISHING))
        if is_in or (me.direct[link] and flags & TOLD):
            send(desk, i, link, PUBLISH, body, 0, size)
    return True


@njit(cache=True)
def _fan_out(desk, me, b, seat, now):
    """A fanout that is empty is filled."""
    cells, degree = me.seat_cell[seat], _degree(desk, b)
    empty = True
    for p in range(degree):
        empty &= me.cell[cells + p] & IN_FANOUT == 0
    if empty:
        _freeze(desk, me, b)
        count = _publishable(desk, me, b, seat, False)
        for k in range(_some(me, b, BY_FANOUT, me.chosen, 0, count, me.said[D])):
            me.cell[cells + me.chosen[k]] |= IN_FANOUT
    me.seat_flags[seat] |= FANS_OUT
    me.seat_published[seat] = now


@njit(cache=True)
def _publishable(desk, me, b, seat, beside):
    """Neighbours of a topic that own publications may go to, into `chosen`; `beside`: those not in the fanout."""
    first, cells, count = desk.out_start[b], me.seat_cell[seat], 0
    for p in range(_degree(desk, b)):
        flags, link = me.cell[cells + p], desk.out_link[first + p]
        low = me.said[SCORED] and me.frozen[link] < me.amount[PUBLISHING]
        if flags & TOLD and not me.direct[link] and not low and not (beside and flags & IN_FANOUT):
            me.chosen[count] = p
            count += 1
    return count


@njit(cache=True)
def _payload_came(desk, me, i, b, link):
    """PUBLISH. Known: it only feeds the score. New: IDONTWANT, and then validation."""
    body, now = np.int64(desk.body[i]), desk.time[i]
    slot = _slot_of(desk, me, body)
    if slot < 0:
        return False
    at = me.local[b] * me.slots[0] + slot
    seat = np.int64(me.seat_of[me.slot_topic[slot], b])
    if me.held[at, META] & SEEN:
        known = me.held[at, META] >> FROM_SHIFT > 0 and me.decayed[b] < me.held[at, CAME] + me.said[SEEN_NS]
        if me.said[SCORED] and known:
            _brought_again(desk, me, b, slot, at, seat, link, now)
        return True
    if seat < 0 or not me.seat_flags[seat] & JOINED_IT or now >= desk.published_ns[body] + me.said[SEEN_NS]:
        return True
    if not fits(desk, 2 * _degree(desk, b), me.seat_members[seat]):
        return False
    size = desk.body_size[body] + me.said[PAYLOAD_BYTES]
    refuses = me.said[REFUSES] and size >= me.said[IDONTWANT_FROM]
    if (refuses or me.said[VALIDATION_NS]) and not makes(desk, 1, 1, 2 * WIDEST):
        return False
    _see(me, b, slot, now)
    if me.held[at, META] & PROMISED:
        _keep_promises(me, b, slot)
    me.held[at, META] = SEEN | (NEW << STATE_SHIFT) | ((np.int64(me.place[link]) + 1) << FROM_SHIFT)
    if me.said[SCORED]:
        _forget_bringers(desk, me, b, slot)
        _brought(desk, me, b, slot, np.int64(me.place[link]))
    if refuses:
        _refuse(desk, me, i, b, seat, link, me.slot_id[slot])
    if me.said[VALIDATION_NS]:
        timer(desk, i, me.said[VALIDATION_NS], VALIDATED, link, body)
    else:
        _validated(desk, me, i, b, slot, seat, link, body)
    return True


@njit(cache=True)
def _refuse(desk, me, i, b, seat, link, id_):
    """IDONTWANT, to the mesh but for who brought it."""
    first, cells, body = desk.out_start[b], me.seat_cell[seat], NOBODY
    for p in range(_degree(desk, b)):
        other = desk.out_link[first + p]
        if me.cell[cells + p] & IN_MESH and other != link:
            if body < 0:
                at = write_head(desk.bytes, begin(desk), 1)
                body = finish(desk, i, IDONTWANT, write_int(desk.bytes, at, id_))
            send(desk, i, other, IDONTWANT, body, 0, FRAME_BYTES + me.said[ID_BYTES])


@njit(cache=True)
def _validated_now(desk, me, i, b):
    """The time that validation takes is over."""
    body = np.int64(desk.body[i])
    slot = _slot_of(desk, me, body)
    if slot < 0:
        return False
    seat = np.int64(me.seat_of[me.slot_topic[slot], b])
    if not fits(desk, _degree(desk, b), me.seat_members[seat]):
        return False
    _validated(desk, me, i, b, slot, seat, desk.word[i], body)
    return True


@njit(cache=True)
def _validated(desk, me, i, b, slot, seat, link, body):
    """Accepted: deliver and pass on. Rejected: P4. Ignored: nothing."""
    at, verdict = me.local[b] * me.slots[0] + slot, me.slot_verdict[slot]
    if me.said[SCORED] and me.decayed[b] < me.held[at, CAME] + me.said[SEEN_NS]:
        _judged(desk, me, b, slot, at, seat, verdict, desk.time[i])
    if verdict != VALID or not me.seat_flags[seat] & JOINED_IT:
        return
    _put(me, b, slot, body)
    _deliver(desk, me, i, seat)
    author = np.int64(desk.origin[body]) if me.said[EXCLUDES] else NOBODY
    first, cells, size = desk.out_start[b], me.seat_cell[seat], desk.body_size[body] + me.said[PAYLOAD_BYTES]
    for p in range(_degree(desk, b)):
        other, flags = np.int64(desk.out_link[first + p]), me.cell[cells + p]
        if not (flags & IN_MESH or (me.direct[other] and flags & TOLD)):
            continue
        if other != link and desk.target[other] != author and not _is_refused(me, b, other, slot):
            send(desk, i, other, PUBLISH, body, 0, size)


@njit(cache=True)
def _deliver(desk, me, i, seat):
    """To each client once, whatever it subscribed."""
    found, before = 0, NOBODY
    interest = np.int64(me.seat_interest[seat])
    while interest >= 0:
        client = me.interest_client[interest]
        if me.interest_stands[interest] and client != before:
            before = client
            found += 1
            deliver(desk, i, client)
        interest = np.int64(me.interest_next[interest])
    work(desk, i, me.seat_told[seat], found)


@njit(cache=True)
def _slot_of(desk, me, body):
    """The slot of a publication, -1 if it is not known here."""
    if body < 0 or body >= me.slot_of_body.size or me.body_generation[body] != desk.generation[body]:
        return NOBODY
    return np.int64(me.slot_of_body[body])


@njit(cache=True)
def _see(me, b, slot, now):
    """Remember an id, behind those that came before."""
    base = me.local[b] * me.slots[0]
    at = base + slot
    me.held[at, CAME], me.held[at, NEXT_SEEN] = now, -1
    me.held[at, META] = (me.held[at, META] & PROMISED) | SEEN
    if me.seen_first[b] < 0:
        me.seen_first[b] = slot
    else:
        me.held[base + me.seen_last[b], NEXT_SEEN] = slot
    me.seen_last[b] = slot
    me.slot_uses[slot] += 1


@njit(cache=True)
def _put(me, b, slot, body):
    """Into the cache, and the newest window."""
    base, window = me.local[b] * me.slots[0], me.shifts[b] % me.said[HISTORY]
    at = base + slot
    me.held[at, META] |= CACHED
    me.held[at, NEXT_CACHED] = -1
    if me.cached[b] == 0:
        me.cache_first[b] = slot
    else:
        me.held[base + me.cache_last[b], NEXT_CACHED] = slot
    me.cache_last[b] = slot
    me.cached[b] += 1
    if me.window_count[b, window] == 0:
        me.window_first[b, window] = slot
    me.window_count[b, window] += 1
    me.slot_body[slot] = body
    me.slot_cached[slot] += 1
    me.slot_uses[slot] += 1


# ---- control -----------------------------------------------------------------------------------------


@njit(cache=True)
def _neighbour_said(desk, me, i, b, link):
    """SUBSCRIBE and UNSUBSCRIBE of a neighbour count whatever its score is."""
    topic = _topic_said(desk, me, np.int64(desk.body[i]))
    if topic < 0 or not _has_seat(desk, me, b):
        return False
    seat = _seat(desk, me, b, topic)
    cell = me.seat_cell[seat] + me.place[link]
    if desk.type[i] == JOINED and not me.cell[cell] & TOLD:
        me.cell[cell] |= TOLD
        me.seat_told[seat] += 1
    elif desk.type[i] == LEFT and me.cell[cell] & TOLD:
        me.cell[cell] &= ~TOLD
        me.seat_told[seat] -= 1
    return True


@njit(cache=True)
def _ihave_came(desk, me, i, b, link):
    """Ask for what is new, as far as there is a budget; one of the ids becomes a promise."""
    if _is_below(me, b, link, GOSSIP):
        return True
    left = me.said[IHAVE_IDS] - me.asked[link]
    if me.had[link] + 1 > me.said[IHAVE_MESSAGES] or left <= 0:
        me.had[link] += 1
        return True
    count = _unseen(desk, me, b, data_of(desk, np.int64(desk.body[i])))
    if count < 0 or me.counts[PROMISES] + 1 >= me.promise_next.size:
        return False
    taken = min(count, left)
    if not fits(desk, 1, 0) or not makes(desk, 0, 1, (taken + 1) * WIDEST):
        return False
    me.had[link] += 1
    if taken == 0:
        return True
    _some(me, b, BY_IWANT, me.chosen, 0, count, taken)
    me.asked[link] += taken
    at = write_head(desk.bytes, begin(desk), taken)
    for k in range(taken):
        at = write_int(desk.bytes, at, me.slot_id[me.chosen[k]])
    send(desk, i, link, IWANT, finish(desk, i, IWANT, at), 0, FRAME_BYTES + taken * me.said[ID_BYTES])
    if me.said[SCORED]:
        promised = np.int64(_draw(me, b, BY_PROMISE) % np.uint64(taken))
        promise(me, b, me.chosen[promised], link, desk.time[i] + me.said[FOLLOWUP_NS])
    return True


@njit(cache=True)
def _unseen(desk, me, b, data):
    """The slots of ids that were told of and not seen, into `chosen`: how many; -1 if Python has to see to one."""
    topics, at = read_head(data, 0)
    base, count = me.local[b] * me.slots[0], 0
    for _ in range(topics):
        _, at = read_head(data, at)
        topic, at = _topic_at(me, data, at)
        ids, at = read_head(data, at)
        seat = np.int64(me.seat_of[topic, b]) if topic >= 0 else NOBODY
        joined = seat >= 0 and me.seat_flags[seat] & JOINED_IT
        for _ in range(ids):
            id_, at = read_int(data, at)
            if joined:
                slot = find_one(me.id_keys, me.id_slots, id_)
                if slot < 0 or count >= me.chosen.size:
                    return NOBODY
                if not me.held[base + slot, META] & SEEN:
                    me.chosen[count] = slot
                    count += 1
    return count


@njit(cache=True)
def _iwant_came(desk, me, i, b, link):
    """Send what is in the cache, to one neighbour not too often."""
    if _is_below(me, b, link, GOSSIP):
        return True
    data = data_of(desk, np.int64(desk.body[i]))
    ids, at = read_head(data, 0)
    if not fits(desk, ids, 0) or not _has_places(me.asking, me.counts[ASKED_FOR] + ids):
        return False
    base = me.local[b] * me.slots[0]
    for _ in range(ids):
        id_, at = read_int(data, at)
        slot = find_one(me.id_keys, me.id_slots, id_)
        if slot < 0 or not me.held[base + slot, META] & CACHED or _is_refused(me, b, link, slot):
            continue
        came, place = me.held[base + slot, CAME], _pair_at(me.asking, link, slot)
        if me.asking[place, 0] < 0:
            me.counts[ASKED_FOR] += 1
            me.asking[place, 0], me.asking[place, 2] = _key(link, slot), 0
        elif me.asking[place, 1] != came:
            me.asking[place, 2] = 0
        me.asking[place, 1] = came
        me.asking[place, 2] += 1
        if me.asking[place, 2] <= me.said[IWANT_REPEATS]:
            body = np.int64(me.slot_body[slot])
            send(desk, i, link, PUBLISH, body, 0, desk.body_size[body] + me.said[PAYLOAD_BYTES])
    return True


@njit(cache=True)
def _graft_came(desk, me, i, b, link):
    """Of the reasons not to take it in, the first that applies."""
    topic, now = _topic_said(desk, me, np.int64(desk.body[i])), desk.time[i]
    if topic < 0 or not _has_seat(desk, me, b) or not fits(desk, 1, 0):
        return False
    if not makes(desk, 0, 1, _topic_bytes(me, topic)):
        return False
    seat = np.int64(me.seat_of[topic, b])
    if seat < 0 or not me.seat_flags[seat] & JOINED_IT:
        if not me.said[BACKS_OFF]:
            body = _prune_body(desk, me, i, topic, me.said[BACKOFF_NS])
            _prune(desk, me, i, link, NOBODY, topic, me.said[BACKOFF_NS], body, False)
        return True
    cell = me.seat_cell[seat] + me.place[link]
    if me.cell[cell] & IN_MESH:
        return True
    noted = not me.direct[link]
    refused = me.direct[link]
    if not refused and now < me.until[cell]:
        early = now < me.until[cell] + me.said[FLOOD_NS] - me.said[BACKOFF_NS]
        if me.said[SCORED]:
            me.behaviour[link] += 2 if early else 1
        refused = True
    refused = refused or (me.said[SCORED] and score_of(me, b, link) < 0)
    full = me.said[BACKS_OFF] and me.seat_mesh[seat] >= me.said[D_HI] and not me.dialled[link]
    if refused or full:
        body = _prune_body(desk, me, i, topic, me.said[BACKOFF_NS])
        _prune(desk, me, i, link, cell, topic, me.said[BACKOFF_NS], body, noted)
    else:
        _take_in(me, seat, cell, now)
    return True


@njit(cache=True)
def _prune_came(desk, me, i, b, link):
    """Out of the mesh, for as long as it says."""
    data = data_of(desk, np.int64(desk.body[i]))
    count, at = read_head(data, 0)
    topic, at = _topic_of(me, data, at, count - 2)
    if topic < 0 or not _has_seat(desk, me, b):
        return False
    backoff_ns, _ = read_int(data, at)
    seat = _seat(desk, me, b, topic)
    cell = me.seat_cell[seat] + me.place[link]
    if me.cell[cell] & IN_MESH:
        _let_go(me, seat, cell)
    if me.said[BACKS_OFF]:
        me.until[cell] = max(me.until[cell], desk.time[i] + backoff_ns)
    return True


@njit(cache=True)
def _idontwant_came(desk, me, i, b, link):
    if me.refused[link] + 1 > me.said[IDONTWANT_MESSAGES]:
        me.refused[link] += 1
        return True
    data = data_of(desk, np.int64(desk.body[i]))
    ids, at = read_head(data, 0)
    ids = min(ids, me.said[IDONTWANT_IDS])
    if ids > me.chosen.size or not _has_places(me.refusal, me.counts[REFUSALS] + ids):
        return False
    for k in range(ids):
        id_, at = read_int(data, at)
        slot = find_one(me.id_keys, me.id_slots, id_)
        if slot < 0:
            return False
        me.chosen[k] = slot
    me.refused[link] += 1
    for k in range(ids):
        slot = me.chosen[k]
        place = _pair_at(me.refusal, link, slot)
        if me.refusal[place, 0] < 0:
            me.counts[REFUSALS] += 1
            me.refusal[place, 0] = _key(link, slot)
        me.refusal[place, 1] = me.ticks[b] + me.said[IDONTWANT_TICKS]
        lasts = desk.time[i] + (me.said[IDONTWANT_TICKS] + 1) * me.said[EVERY_NS]
        me.slot_until[slot] = max(me.slot_until[slot], lasts)
    return True


@njit(inline="always")
def _is_refused(me, b, link, slot):
    """Whether a neighbour said that it does not want this, some heartbeats ago at most."""
    if me.counts[REFUSALS] == 0:
        return False
    place = _pair_at(me.refusal, link, slot)
    return me.refusal[place, 0] >= 0 and me.refusal[place, 1] > me.ticks[b]


# ---- the heartbeat -----------------------------------------------------------------------------------


@njit(cache=True)
def _heartbeat(desk, me, i, b):
    """The steps in their order."""
    if not _has_room_for_heartbeat(desk, me, b):
        return False
    now, first = desk.time[i], desk.out_start[b]
    me.counts[NOW] = now
    me.ticks[b] += 1
    if me.ticks[b] % SWEEP_TICKS == 0:
        _sweep(desk, me, b, now - SLACK_HEARTBEATS * me.said[EVERY_NS])
    for p in range(_degree(desk, b)):
        link = desk.out_link[first + p]
        me.had[link] = me.asked[link] = me.refused[link] = 0
    _hold_to_promises(me, b, now)
    _freeze(desk, me, b)
    told, picked = 0, 0
    seat = np.int64(me.first_seat[b])
    while seat >= 0:
        if me.seat_flags[seat] & JOINED_IT:
            _tend(desk, me, i, b, seat, now)
            told, picked = _tell_of(desk, me, b, seat, IN_MESH, told, picked)
        seat = np.int64(me.seat_next[seat])
    seat = np.int64(me.first_seat[b])
    while seat >= 0:
        if me.seat_flags[seat] & FANS_OUT:
            _tend_fanout(desk, me, b, seat, now)
        seat = np.int64(me.seat_next[seat])
    seat = np.int64(me.first_seat[b])
    while seat >= 0:
        if me.seat_flags[seat] & FANS_OUT:
            told, picked = _tell_of(desk, me, b, seat, IN_FANOUT, told, picked)
        seat = np.int64(me.seat_next[seat])
    _send_told(desk, me, i, b, told)
    _shift(me, b, now)
    if _goes_on(me, b, now, me.said[EVERY_NS]):
        timer(desk, i, me.said[EVERY_NS], HEARTBEAT, 0, -1)
    return True


@njit(cache=True)
def _has_room_for_heartbeat(desk, me, b):
    """For all that may be sent in it."""
    degree, seats, levels = _degree(desk, b), 0, 0
    seat = np.int64(me.first_seat[b])
    while seat >= 0:
        seats += 1
        levels += _topic_bytes(me, me.seat_topic[seat])
        seat = np.int64(me.seat_next[seat])
    each = me.cached[b]
    picked = each if each <= me.said[IHAVE_IDS] else each * (degree + 1)
    if degree * seats > min(me.told.rows, me.chosen.size, me.ranked.size) or picked > me.picked.size:
        me.counts[WANTS_TOLD], me.counts[WANTS_PICKED] = degree * seats, picked
        return False
    bodies = _STEPS * seats + degree
    size = _STEPS * levels + degree * (levels + (each + 2) * WIDEST)
    return fits(desk, _STEPS * degree * seats + degree, 0) and makes(desk, 1, bodies, size)


_STEPS = 5  # of `_tend`, each of which may send to all neighbours


@njit(cache=True)
def _sweep(desk, me, b, before):
    """Entries of backoff that expired a while ago."""
    seat = np.int64(me.first_seat[b])
    while seat >= 0:
        for cell in range(me.seat_cell[seat], me.seat_cell[seat] + _degree(desk, b)):
            if me.until[cell] < before:
                me.until[cell] = -1
        seat = np.int64(me.seat_next[seat])


@njit(cache=True)
def _tend(desk, me, i, b, seat, now):
    """A mesh back between its bounds."""
    first, cells, degree = desk.out_start[b], me.seat_cell[seat], _degree(desk, b)
    for p in range(degree):
        if me.cell[cells + p] & IN_MESH and me.frozen[desk.out_link[first + p]] < 0:
            me.cell[cells + p] |= MARKED
    _turn_out_marked(desk, me, i, b, seat)
    if me.seat_mesh[seat] < me.said[D_LO]:
        count = _eligible(desk, me, b, seat, False, -np.inf)
        _mark(me, cells, _some(me, b, BY_GRAFT, me.chosen, 0, count, me.said[D] - me.seat_mesh[seat]))
        _graft_marked(desk, me, i, b, seat, now)
    if me.seat_mesh[seat] >= me.said[D_HI]:
        _mark_too_many(desk, me, b, seat)
        _turn_out_marked(desk, me, i, b, seat)
    if not me.said[BACKS_OFF]:
        return
    outbound = 0
    for p in range(degree):
        outbound += me.cell[cells + p] & IN_MESH != 0 and me.dialled[desk.out_link[first + p]]
    if me.seat_mesh[seat] >= me.said[D_LO] and outbound < me.said[D_OUT]:
        count = _eligible(desk, me, b, seat, True, -np.inf)
        _mark(me, cells, _some(me, b, BY_OUTBOUND, me.chosen, 0, count, me.said[D_OUT] - outbound))
        _graft_marked(desk, me, i, b, seat, now)
    if me.said[SCORED] and me.ticks[b] % me.said[OPPORTUNISTIC_TICKS] == 0 and me.seat_mesh[seat] > 1:
        median = _median(desk, me, b, seat)
        if median < me.amount[OPPORTUNISTIC]:
            count = _eligible(desk, me, b, seat, False, median)
            _mark(me, cells, _some(me, b, BY_OPPORTUNISTIC, me.chosen, 0, count, me.said[OPPORTUNISTIC_PEERS]))
            _graft_marked(desk, me, i, b, seat, now)


@njit(cache=True)
def _eligible(desk, me, b, seat, dialled, above):
    """Whom this broker may graft, into `chosen`: how many. `dialled`: such as it dialled; `above` that score."""
    first, cells, count = desk.out_start[b], me.seat_cell[seat], 0
    for p in range(_degree(desk, b)):
        link, flags = desk.out_link[first + p], me.cell[cells + p]
        suits = (not dialled or me.dialled[link]) and me.frozen[link] > above
        if flags & TOLD and not flags & IN_MESH and suits and _may_graft(desk, me, first + p, cells + p):
            me.chosen[count] = p
            count += 1
    return count


@njit(cache=True)
def _may_graft(desk, me, at, cell):
    """Whether the neighbour of the link out_link[at] may be grafted; scores are frozen."""
    link = desk.out_link[at]
    return not me.direct[link] and me.until[cell] < 0 and me.frozen[link] >= 0


@njit(cache=True)
def _mark_too_many(desk, me, b, seat):
    """Mark whom to prune: of D that stay some have the best scores, and some are such as this broker dialled."""
    first, cells, said, links = desk.out_start[b], me.seat_cell[seat], me.said, me.chosen
    count = 0
    for p in range(_degree(desk, b)):
        if me.cell[cells + p] & IN_MESH:
            links[count] = p
            count += 1
    _some(me, b, BY_PRUNE, links, 0, count, count)
    if not said[BACKS_OFF]:
        for k in range(said[D], count):
            me.cell[cells + links[k]] |= MARKED
        return
    for k in range(1, count):  # by score, the best first; equal ones stay as drawn
        p, at = links[k], k
        while at > 0 and me.frozen[desk.out_link[first + links[at - 1]]] < me.frozen[desk.out_link[first + p]]:
            links[at] = links[at - 1]
            at -= 1
        links[at] = p
    _some(me, b, BY_PRUNE, links, said[D_SCORE], count - said[D_SCORE], count)
    outbound = 0
    for k in range(said[D]):
        outbound += me.dialled[desk.out_link[first + links[k]]]
    lacking = max(0, said[D_OUT] - outbound)
    for k in range(said[D], count):
        if lacking > 0 and me.dialled[desk.out_link[first + links[k]]]:
            lacking -= 1
            me.ranked[k] = 0
        else:
            me.ranked[k] = 1
            me.cell[cells + links[k]] |= MARKED
    more = 0
    for k in range(said[D], count):
        more += me.ranked[k] == 0
    for k in range(said[D] - 1, -1, -1):
        if more > 0 and not me.dialled[desk.out_link[first + links[k]]]:
            more -= 1
            me.cell[cells + links[k]] |= MARKED


@njit(cache=True)
def _median(desk, me, b, seat):
    """The middle one of the scores in a mesh, of two the upper."""
    first, cells, ranked, count = desk.out_start[b], me.seat_cell[seat], me.ranked, 0
    for p in range(_degree(desk, b)):
        if me.cell[cells + p] & IN_MESH:
            at = count
            score = me.frozen[desk.out_link[first + p]]
            while at > 0 and me.frozen[desk.out_link[first + ranked[at - 1]]] > score:
                ranked[at] = ranked[at - 1]
                at -= 1
            ranked[at] = p
            count += 1
    return me.frozen[desk.out_link[first + ranked[count // 2]]]


@njit(cache=True)
def _tend_fanout(desk, me, b, seat, now):
    """Forget it after a while; else drop who left or is below the publish threshold, and fill up."""
    first, cells, degree = desk.out_start[b], me.seat_cell[seat], _degree(desk, b)
    if me.seat_published[seat] + me.said[FANOUT_NS] < now:
        for cell in range(cells, cells + degree):
            me.cell[cell] &= ~IN_FANOUT
        me.seat_flags[seat] &= ~FANS_OUT
        return
    kept = 0
    for p in range(degree):
        link = desk.out_link[first + p]
        low = me.said[SCORED] and me.frozen[link] < me.amount[PUBLISHING]
        if not me.cell[cells + p] & TOLD or me.direct[link] or low:
            me.cell[cells + p] &= ~IN_FANOUT
        kept += me.cell[cells + p] & IN_FANOUT != 0
    count = _publishable(desk, me, b, seat, True)
    for k in range(_some(me, b, BY_FANOUT, me.chosen, 0, count, me.said[D] - kept)):
        me.cell[cells + me.chosen[k]] |= IN_FANOUT


@njit(cache=True)
def _tell_of(desk, me, b, seat, without, told, picked):
    """Note whom to tell of which ids of a topic: how many rows of `told` and of `picked` there are then."""
    ids = _recent(me, b, me.seat_topic[seat], picked)
    if ids == 0:
        return told, picked
    first, cells, count = desk.out_start[b], me.seat_cell[seat], 0
    for p in range(_degree(desk, b)):
        link, flags = desk.out_link[first + p], me.cell[cells + p]
        low = me.said[SCORED] and me.frozen[link] < me.amount[GOSSIP]
        if flags & TOLD and not flags & without and not me.direct[link] and not low:
            me.chosen[count] = p
            count += 1
    _mark(me, cells, _listeners(me, b, count))
    all_at, after = picked, picked + ids
    for p in range(_degree(desk, b)):
        if not me.cell[cells + p] & MARKED:
            continue
        me.cell[cells + p] &= ~MARKED
        me.told[told, 0], me.told[told, 1] = p, me.seat_topic[seat]
        me.told[told, 2], me.told[told, 3] = all_at, ids
        if ids > me.said[IHAVE_IDS]:
            for k in range(ids):
                me.picked[after + k] = me.picked[all_at + k]
            me.told[told, 2] = after
            me.told[told, 3] = _some(me, b, BY_IHAVE, me.picked, after, ids, me.said[IHAVE_IDS])
            after += me.told[told, 3]
        told += 1
    return told, after


@njit(cache=True)
def _recent(me, b, topic, picked):
    """The slots of a topic in the newest windows, into `picked` from there on: how many."""
    base, count = me.local[b] * me.slots[0], 0
    for back in range(min(me.said[GOSSIP_WINDOWS], me.shifts[b] + 1)):
        window = (me.shifts[b] - back) % me.said[HISTORY]
        slot = me.window_first[b, window]
        for _ in range(me.window_count[b, window]):
            if me.slot_topic[slot] == topic:
                me.picked[picked + count] = slot
                count += 1
            slot = me.held[base + slot, NEXT_CACHED]
    return count


@njit(cache=True)
def _listeners(me, b, count):
    """Of those in `chosen` who is told, in front of it: how many."""
    said = me.said
    if not said[BACKS_OFF]:
        return _some(me, b, BY_GOSSIP, me.chosen, 0, count, said[D_LAZY])
    if said[SHARES]:
        share = np.int64(me.amount[FACTOR] * count)
        return _some(me, b, BY_GOSSIP, me.chosen, 0, count, max(said[D_LAZY], share))
    limit = np.uint64(me.amount[FACTOR] * 4294967296.0)
    drawn, rest = 0, 0
    for k in range(count):
        if _draw(me, b, BY_FACTOR) & np.uint64(0xFFFFFFFF) < limit:
            me.chosen[drawn] = me.chosen[k]
            drawn += 1
        else:
            me.ranked[rest] = me.chosen[k]
            rest += 1
    for k in range(rest):
        me.chosen[drawn + k] = me.ranked[k]
    return drawn + _some(me, b, BY_GOSSIP, me.chosen, drawn, rest, said[D_LAZY] - drawn)


@njit(cache=True)
def _send_told(desk, me, i, b, told):
    """One IHAVE for each neighbour that is told of something, by neighbour; who is told the same gets the same body."""
    first, body, before = desk.out_start[b], NOBODY, 0
    for p in range(_degree(desk, b)):
        topics, size = 0, FRAME_BYTES
        for row in range(told):
            if me.told[row, 0] == p:
                me.ranked[topics] = row
                topics += 1
                size += LEVEL_BYTES * _levels(me, me.told[row, 1]) + me.told[row, 3] * me.said[ID_BYTES]
        if topics == 0:
            continue
        same = topics == before
        for k in range(topics):
            same = same and _are_the_same(me, me.ranked[k], me.chosen[k])
        if not same:
            body = _ihave_body(desk, me, i, topics)
            before = topics
            for k in range(topics):
                me.chosen[k] = me.ranked[k]
        send(desk, i, desk.out_link[first + p], IHAVE, body, 0, size)


@njit(cache=True)
def _are_the_same(me, row, other):
    """Whether two rows tell of the same ids."""
    same = me.told[row, 1] == me.told[other, 1]
    return same and me.told[row, 2] == me.told[other, 2] and me.told[row, 3] == me.told[other, 3]


@njit(cache=True)
def _ihave_body(desk, me, i, topics):
    """Of the rows in `ranked`."""
    at = write_head(desk.bytes, begin(desk), topics)
    for k in range(topics):
        row = me.ranked[k]
        at = _write_topic(desk, me, write_head(desk.bytes, at, 2), me.told[row, 1], 0)
        at = write_head(desk.bytes, at, me.told[row, 3])
        for j in range(me.told[row, 2], me.told[row, 2] + me.told[row, 3]):
            at = write_int(desk.bytes, at, me.slot_id[me.picked[j]])
    return finish(desk, i, IHAVE, at)


@njit(cache=True)
def _shift(me, b, now):
    """A new window; what is in none any more goes, and ids that are old."""
    base = me.local[b] * me.slots[0]
    me.shifts[b] += 1
    window = me.shifts[b] % me.said[HISTORY]
    for _ in range(me.window_count[b, window]):
        slot = me.cache_first[b]
        me.cache_first[b] = me.held[base + slot, NEXT_CACHED]
        me.held[base + slot, META] &= ~CACHED
        me.cached[b] -= 1
        me.slot_cached[slot] -= 1
        me.slot_uses[slot] -= 1
    me.window_count[b, window] = 0
    while me.seen_first[b] >= 0 and me.held[base + me.seen_first[b], CAME] + me.said[SEEN_NS] <= now:
        slot = me.seen_first[b]
        me.seen_first[b] = me.held[base + slot, NEXT_SEEN]
        me.held[base + slot, META] &= ~SEEN
        me.slot_uses[slot] -= 1


@njit(inline="always")
def _goes_on(me, b, now, every_ns):
    return now + every_ns < me.said[ENDS_NS] or me.cached[b] > 0 or me.promise_first[b] >= 0


# ---- promises ----------------------------------------------------------------------------------------


@njit(cache=True)
def promise(me, b, slot, link, until_ns):
    """Whoever told of an id has to bring it so soon; a promise that runs already stays as it is."""
    node = np.int64(me.promise_first[b])
    while node >= 0:
        if me.promise_slot[node] == slot and me.promise_link[node] == link:
            return
        node = np.int64(me.promise_next[node])
    node = me.counts[FREE_PROMISE]
    me.counts[FREE_PROMISE] = me.promise_next[node]
    me.counts[PROMISES] += 1
    me.promise_slot[node], me.promise_link[node], me.promise_until[node] = slot, link, until_ns
    me.promise_next[node] = me.promise_first[b]
    me.promise_first[b] = node
    me.held[me.local[b] * me.slots[0] + slot, META] |= PROMISED
    me.slot_until[slot] = max(me.slot_until[slot], until_ns)


@njit(cache=True)
def _keep_promises(me, b, slot):
    """Somebody brought it."""
    before, node = NOBODY, np.int64(me.promise_first[b])
    while node >= 0:
        follows = np.int64(me.promise_next[node])
        if me.promise_slot[node] == slot:
            _droppromise(me, b, before, node)
        else:
            before = node
        node = follows


@njit(cache=True)
def _hold_to_promises(me, b, now):
    """Those that were broken count against who made them."""
    before, node = NOBODY, np.int64(me.promise_first[b])
    while node >= 0:
        follows = np.int64(me.promise_next[node])
        if me.promise_until[node] < now:
            me.behaviour[me.promise_link[node]] += 1
            _droppromise(me, b, before, node)
        else:
            before = node
        node = follows


@njit(cache=True)
def _droppromise(me, b, before, node):
    if before < 0:
        me.promise_first[b] = me.promise_next[node]
    else:
        me.promise_next[before] = me.promise_next[node]
    me.promise_next[node] = me.counts[FREE_PROMISE]
    me.counts[FREE_PROMISE] = node
    me.counts[PROMISES] -= 1


# ---- the mesh ----------------------------------------------------------------------------------------


@njit(cache=True)
def _mark(me, cells, count):
    """Those in `chosen`, by their places."""
    for k in range(count):
        me.cell[cells + me.chosen[k]] |= MARKED


@njit(cache=True)
def _graft_marked(desk, me, i, b, seat, now):
    first, cells, body = desk.out_start[b], me.seat_cell[seat], NOBODY
    topic = np.int64(me.seat_topic[seat])
    for p in range(_degree(desk, b)):
        if me.cell[cells + p] & MARKED:
            me.cell[cells + p] &= ~MARKED
            _take_in(me, seat, cells + p, now)
            if body < 0:
                body = _topic_body(desk, me, i, GRAFT, topic)
            send(desk, i, desk.out_link[first + p], GRAFT, body, 0, _topic_size(me, topic))


@njit(cache=True)
def _turn_out_marked(desk, me, i, b, seat):
    first, cells, body = desk.out_start[b], me.seat_cell[seat], NOBODY
    topic, backoff_ns = np.int64(me.seat_topic[seat]), me.said[BACKOFF_NS]
    for p in range(_degree(desk, b)):
        if me.cell[cells + p] & MARKED:
            me.cell[cells + p] &= ~MARKED
            _let_go(me, seat, cells + p)
            if body < 0:
                body = _prune_body(desk, me, i, topic, backoff_ns)
            _prune(desk, me, i, desk.out_link[first + p], cells + p, topic, backoff_ns, body, True)


@njit(cache=True)
def _prune(desk, me, i, link, cell, topic, backoff_ns, body, noted):
    send(desk, i, link, PRUNE, body, 0, _topic_size(me, topic) + TIME_BYTES)
    if noted and me.said[BACKS_OFF]:
        me.until[cell] = max(me.until[cell], desk.time[i] + backoff_ns)


@njit(cache=True)
def _take_in(me, seat, cell, now):
    me.cell[cell] |= IN_MESH
    me.seat_mesh[seat] += 1
    if me.said[SCORED]:
        me.grafted[cell] = now
        me.did[cell, QUANTA] = me.did[cell, ACTIVE] = 0.0


@njit(cache=True)
def _let_go(me, seat, cell):
    me.cell[cell] &= ~IN_MESH
    me.seat_mesh[seat] -= 1
    if me.said[SCORED]:
        lacks = _lacks(me, me.seat_topic[seat], cell)
        me.did[cell, FAILURES] += lacks * lacks
        me.grafted[cell] = -1


@njit(inline="always")
def _degree(desk, b):
    return np.int64(desk.out_start[b + 1] - desk.out_start[b])


@njit(inline="always")
def _has_seat(desk, me, b):
    """Whether there is room for one more."""
    is_there = me.counts[SEATS] < me.seat_topic.size
    return is_there and me.counts[CELLS] + _degree(desk, b) <= me.cell.size


@njit(inline="always")
def _seat(desk, me, b, topic):
    return seat_of(me, _degree(desk, b), b, topic)


@njit(cache=True)
def seat_of(me, degree, b, topic):
    """The seat of a topic at a broker, made if there is none; they are chained in the order of topics."""
    seat = np.int64(me.seat_of[topic, b])
    if seat >= 0:
        return seat
    seat = me.counts[SEATS]
    me.seat_of[topic, b], me.seat_topic[seat], me.seat_cell[seat] = seat, topic, me.counts[CELLS]
    me.seat_broker[seat] = b
    me.counts[SEATS] += 1
    me.counts[CELLS] += degree
    before, follows = NOBODY, np.int64(me.first_seat[b])
    while follows >= 0 and me.rank[me.seat_topic[follows]] < me.rank[topic]:
        before, follows = follows, np.int64(me.seat_next[follows])
    me.seat_next[seat] = follows
    if before < 0:
        me.first_seat[b] = seat
    else:
        me.seat_next[before] = seat
    return seat


# ---- scores ------------------------------------------------------------------------------------------


@njit(inline="always")
def _is_below(me, b, link, threshold):
    return me.said[SCORED] != 0 and score_of(me, b, link) < me.amount[threshold]


@njit(cache=True)
def _freeze(desk, me, b):
    """Scores for the time of a heartbeat."""
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        link = np.int64(desk.out_link[j])
        me.frozen[link] = score_of(me, b, link) if me.said[SCORED] else 0.0


@njit(cache=True)
def score_of(me, b, link):
    """The score of a neighbour; the order of sums is that of `Scores.score`."""
    total, place = 0.0, np.int64(me.place[link])
    seat = np.int64(me.first_seat[b])
    while seat >= 0:
        total += _in_topic(me, me.seat_topic[seat], me.seat_cell[seat] + place)
        seat = np.int64(me.seat_next[seat])
    if 0 < me.amount[CAP] < total:
        total = me.amount[CAP]
    total += me.application[link]
    excess = max(0.0, me.behaviour[link] - me.amount[BEHAVIOUR_THRESHOLD])
    return total + me.address[link] + me.amount[BEHAVIOUR_WEIGHT] * (excess * excess)


@njit(inline="always")
def _in_topic(me, topic, cell):
    says, did = me.says, me.did
    mesh = min(did[cell, QUANTA], says[topic, MESH_CAP]) if me.grafted[cell] >= 0 else 0.0
    lacks = _lacks(me, topic, cell)
    return says[topic, WEIGHT] * (
        says[topic, MESH_WEIGHT] * mesh
        + says[topic, FIRST_WEIGHT] * did[cell, FIRST]
        + says[topic, RATE_WEIGHT] * (lacks * lacks)
        + says[topic, FAILURE_WEIGHT] * did[cell, FAILURES]
        + says[topic, INVALID_WEIGHT] * (did[cell, INVALIDS] * did[cell, INVALIDS])
    )


@njit(inline="always")
def _lacks(me, topic, cell):
    if me.did[cell, ACTIVE] == 0.0:
        return 0.0
    return max(0.0, me.says[topic, RATE_THRESHOLD] - me.did[cell, DELIVERED])


@njit(inline="always")
def _words(desk, b):
    """For a bit of each neighbour."""
    return (_degree(desk, b) + 63) >> 6


@njit(cache=True)
def _forget_bringers(desk, me, b, slot):
    words = _words(desk, b)
    first = me.brought_from[me.local[b]] * me.slots[0] + slot * words
    for k in range(words):
        me.brought[first + k] = np.uint64(0)


@njit(cache=True)
def _brought(desk, me, b, slot, place):
    """Note that a neighbour brought a payload; whether it had not before."""
    at = me.brought_from[me.local[b]] * me.slots[0] + slot * _words(desk, b) + (place >> 6)
    bit = np.uint64(1) << np.uint64(place & 63)
    if me.brought[at] & bit:
        return False
    me.brought[at] |= bit
    return True


@njit(cache=True)
def _brought_again(desk, me, b, slot, at, seat, link, now):
    """A payload that is known came from a neighbour."""
    place, state = np.int64(me.place[link]), (me.held[at, META] >> STATE_SHIFT) & 3
    if not _brought(desk, me, b, slot, place):
        return
    cell, topic = me.seat_cell[seat] + place, me.seat_topic[seat]
    if state == VALID and now - me.held[at, VALIDATED_AT] <= np.int64(me.says[topic, RATE_WINDOW]):
        _delivered(me, topic, cell)
    elif state == INVALID:
        me.did[cell, INVALIDS] += 1


@njit(cache=True)
def _judged(desk, me, b, slot, at, seat, verdict, now):
    """A payload was validated: it counts for all that brought it by then."""
    me.held[at, META] = (me.held[at, META] & ~(3 << STATE_SHIFT)) | (np.int64(verdict) << STATE_SHIFT)
    me.held[at, VALIDATED_AT] = now
    cells, topic = me.seat_cell[seat], me.seat_topic[seat]
    if verdict == VALID:
        cell = cells + (me.held[at, META] >> FROM_SHIFT) - 1
        me.did[cell, FIRST] = min(me.did[cell, FIRST] + 1, me.says[topic, FIRST_CAP])
    first = me.brought_from[me.local[b]] * me.slots[0] + slot * _words(desk, b)
    for place in range(_degree(desk, b)):
        if me.brought[first + (place >> 6)] & (np.uint64(1) << np.uint64(place & 63)):
            if verdict == VALID:
                _delivered(me, topic, cells + place)
            elif verdict == INVALID:
                me.did[cells + place, INVALIDS] += 1


@njit(inline="always")
def _delivered(me, topic, cell):
    if me.grafted[cell] >= 0:
        me.did[cell, DELIVERED] = min(me.did[cell, DELIVERED] + 1, me.says[topic, RATE_CAP])


@njit(cache=True)
def _decay(desk, me, i, b):
    """All counters go down."""
    if not makes(desk, 1, 0, 0):
        return False
    now, says = desk.time[i], me.says
    seat = np.int64(me.first_seat[b])
    while seat >= 0:
        topic = np.int64(me.seat_topic[seat])
        for cell in range(me.seat_cell[seat], me.seat_cell[seat] + _degree(desk, b)):
            _less(me, cell, FIRST, says[topic, FIRST_DECAY])
            _less(me, cell, DELIVERED, says[topic, RATE_DECAY])
            _less(me, cell, FAILURES, says[topic, FAILURE_DECAY])
            _less(me, cell, INVALIDS, says[topic, INVALID_DECAY])
            if me.grafted[cell] >= 0:
                for_ns = now - me.grafted[cell]
                me.did[cell, QUANTA] = np.float64(for_ns // np.int64(says[topic, MESH_QUANTUM]))
                if for_ns > np.int64(says[topic, RATE_ACTIVATION]):
                    me.did[cell, ACTIVE] = 1.0
        seat = np.int64(me.seat_next[seat])
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        link = desk.out_link[j]
        counter = me.behaviour[link] * me.amount[BEHAVIOUR_DECAY]
        me.behaviour[link] = counter if counter >= me.amount[TO_ZERO] else 0.0
    me.decayed[b] = now
    if _goes_on(me, b, now, me.said[DECAY_NS]):
        timer(desk, i, me.said[DECAY_NS], DECAY, 0, -1)
    return True


@njit(inline="always")
def _less(me, cell, which, factor):
    counter = me.did[cell, which] * factor
    me.did[cell, which] = counter if counter >= me.amount[TO_ZERO] else 0.0


# ---- draws -------------------------------------------------------------------------------------------


@njit(inline="always")
def _draw(me, b, purpose):
    """The next of a broker's stream, as `Talking.draw` has it."""
    me.drawn[purpose, b] += 1
    return draw(me.keys[purpose, b], me.drawn[purpose, b])


@njit(cache=True)
def _some(me, b, purpose, items, first, size, count):
    """So many of items[first:first + size], in an order that is drawn, to its front: how many."""
    taken = max(np.int64(0), min(np.int64(count), np.int64(size)))
    for at in range(taken):
        other = first + at + np.int64(_draw(me, b, purpose) % np.uint64(size - at))
        items[first + at], items[other] = items[other], items[first + at]
    return taken


# ---- topics, and tables of pairs ---------------------------------------------------------------------


@njit(inline="always")
def _levels(me, topic):
    return me.topic_start[topic + 1] - me.topic_start[topic]


@njit(inline="always")
def _topic_size(me, topic):
    """Of a message that names it."""
    return FRAME_BYTES + LEVEL_BYTES * _levels(me, topic)


@njit(inline="always")
def _topic_bytes(me, topic):
    """Of a body that names it and has a time, at most."""
    return (_levels(me, topic) + 5) * WIDEST


@njit(cache=True)
def _write_topic(desk, me, at, topic, more):
    """The levels of a topic in a list that has `more` behind them."""
    at = write_head(desk.bytes, at, _levels(me, topic) + more)
    for j in range(me.topic_start[topic], me.topic_start[topic + 1]):
        at = write_int(desk.bytes, at, me.topic_level[j])
    return at


@njit(cache=True)
def _topic_body(desk, me, i, type_, topic):
    at = write_head(desk.bytes, begin(desk), 1)
    return finish(desk, i, type_, _write_topic(desk, me, at, topic, 0))


@njit(cache=True)
def _prune_body(desk, me, i, topic, backoff_ns):
    at = _write_topic(desk, me, begin(desk), topic, 2)
    return finish(desk, i, PRUNE, write_head(desk.bytes, write_int(desk.bytes, at, backoff_ns), 0))


@njit(cache=True)
def _topic_said(desk, me, body):
    """The one topic that a message names; -1 if it is not known here."""
    data = data_of(desk, body)
    _, at = read_head(data, 0)
    return _topic_at(me, data, at)[0]


@njit(cache=True)
def _topic_at(me, data, at):
    """(The topic that is a list there, what comes after it)."""
    count, at = read_head(data, at)
    return _topic_of(me, data, at, count)


@njit(cache=True)
def _topic_of(me, data, at, count):
    """(The topic of so many levels from there on, what comes after them)."""
    h = absorb(OTHER, count)
    for _ in range(count):
        level, at = read_int(data, at)
        h = absorb(h, level)
    return find_one(me.topic_keys, me.topic_slots, np.int64(h >> np.uint64(1))), at


@njit(cache=True)
def name_of(levels):
    """By which a topic is looked up."""
    h = absorb(OTHER, levels.size)
    for level in levels:
        h = absorb(h, level)
    return np.int64(h >> np.uint64(1))


@njit(inline="always")
def _key(link, slot):
    return (np.int64(link) << 32) | np.int64(slot)


@njit(cache=True)
def _pair_at(table, link, slot):
    """Where a pair stands in a table, or would."""
    key, mask = _key(link, slot), table.shape[0] - 1
    place = np.int64(absorb(OTHER, key) >> np.uint64(33)) & mask
    while table[place, 0] >= 0 and table[place, 0] != key:
        place = (place + 1) & mask
    return place


@njit(inline="always")
def _has_places(table, count):
    """Whether so many pairs are few enough for a table."""
    return 5 * count <= 3 * table.shape[0]


@njit(cache=True)
def move_pairs(old, new, still):
    """Enter those rows of a table that are `still` needed into an empty one; how many."""
    moved = 0
    for row in range(old.shape[0]):
        if still[row]:
            place = _pair_at(new, old[row, 0] >> 32, old[row, 0] & 0xFFFFFFFF)
            for column in range(old.shape[1]):
                new[place, column] = old[row, column]
            moved += 1
    return moved
