"""What brokers decide on questions and answers, in order, over all brokers of a shard: `protocols/topk/asking.py`.

`decide` goes through the rows of a batch and stops at one for which there is no room, or which needs Python.
Answers are indices of rows, links and handles; -2 - n is the n-th of the bodies that have to be made.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.contract import TIMER
from brokers.indexes.ids import find_one
from protocols.topk.asking_record import (
    AHEAD,
    ANSWER,
    AT_ONCE,
    AWAITED,
    BEGUN,
    BOUNDED,
    CHANGES,
    CONCLUDED,
    DELIVERIES,
    DELIVERY,
    DONE,
    GIVEN,
    GIVEN_COUNT,
    INDEX,
    LIMITS,
    LOGGED,
    LOSSY,
    LOWER,
    LOWERED,
    LOWERINGS,
    MADE,
    OPEN_FREE,
    PUBLISHED,
    QUESTION,
    RANKED,
    REFRESH,
    ROOM,
    SCANNED_MOST,
    SENDS,
    SENDS_MOST,
    SERVED,
    TODO,
    TOO_LATE,
    TOUCHED,
    USED,
    WANTED,
    K,
    asking_at,
    log,
    make,
    send,
)
from protocols.topk.bound_kernels import limit_behind, lower, raise_here, tell
from protocols.topk.kind import PUBLISH, REWEIGHT, SUBSCRIBE, UNSUBSCRIBE
from protocols.topk.ranking_kernels import merge, rank
from protocols.topk.tree_kernels import leads


@njit(cache=True)
def survey(address, size):
    """Find the case of each row, and count what has to be ready before `decide`."""
    s = asking_at(address)
    now, bounded = s.now, s.said[BOUNDED] != 0
    for counter in (SENDS, DELIVERIES, LIMITS, LOWERINGS, RANKED, MADE, LOGGED, CHANGES, LOWERED, BEGUN, TODO, SERVED,
                    SENDS_MOST, DONE):  # fmt: skip
        now[counter] = 0
    now[GIVEN] = -1
    for i in range(size):
        type_, b, body = s.type[i], s.broker[i], s.body[i]
        now[SENDS_MOST] += s.out_start[b + 1] - s.out_start[b] + 1
        case = np.int64(-1)
        waits = False
        if type_ in (PUBLISH, QUESTION, ANSWER, TOO_LATE):
            case = find_one(s.case_keys, s.case_slots, s.body_key[body] if type_ == PUBLISH else s.word[i])
            if type_ in (PUBLISH, QUESTION):
                now[BEGUN] += 1
                waits = case < 0
        elif SUBSCRIBE <= type_ <= REWEIGHT:
            now[CHANGES] += 1
        elif type_ == LOWER:
            now[LOWERED] += 1
        s.case[i] = case
        if type_ in (ANSWER, DELIVERY) or (bounded and type_ == QUESTION):
            unread = s.noted[body] != s.generation[body]
            waits |= unread
            if type_ == DELIVERY and not unread:
                now[SERVED] += s.body_count[body]
        if waits:
            s.todo[now[TODO]] = i
            now[TODO] += 1


@njit(cache=True)
def decide(address, at, stop, why):
    """Decide on rows `at` to `stop`; the row that was reached, before which it stopped because of why[0]."""
    s = asking_at(address)
    for i in range(at, stop):
        type_ = s.type[i]
        done = True
        if s.kind[i] == TIMER:
            if type_ == LOWER:
                lower(s, i)
            else:
                _give_up(s, i)
        elif type_ in (QUESTION, PUBLISH):
            done = _begin(s, i, why)
        elif type_ == ANSWER:
            done = _hear(s, i, why)
        elif type_ == DELIVERY:
            _pass_on(s, i)
        elif type_ == REFRESH:
            done = tell(s, i, why)
        elif type_ in (SUBSCRIBE, REWEIGHT, UNSUBSCRIBE):
            _change(s, i)
        if not done:
            return i
    return stop


@njit(cache=True)
def _begin(s, i, why):
    """A question reached a broker, or a publication entered: rank the filters here, ask on."""
    b, c = np.int64(s.broker[i]), np.int64(s.case[i])
    if s.count[b] > s.said[SCANNED_MOST] and s.now[GIVEN] != i:
        why[0] = INDEX
        return False
    given = s.now[GIVEN] == i
    most = s.now[GIVEN_COUNT] if given else s.count[b]
    if s.now[USED] + most > s.ids.size:
        why[0], s.now[WANTED] = ROOM, most
        return False
    asked = s.type[i] == QUESTION
    if s.at[c, b] >= 0:  # a link doubled the question: it is asked anew, and the one before is forgotten
        _forget(s, c, np.int64(s.at[c, b]))
    left = s.now[OPEN_FREE] - 1
    o = s.open_free[left]
    s.now[OPEN_FREE] = left
    came_by = np.int64(s.link[i]) if asked else np.int64(-1)
    start = s.now[USED]
    count = most if given else rank(s, b, c, start)
    s.now[USED] = start + count
    at = s.now[RANKED]
    s.ranked_event[at], s.ranked_entries[at], s.ranked_matches[at] = i, s.count[b], count
    s.now[RANKED] = at + 1
    s.open_case[o], s.parent[o], s.start[o], s.held[o], s.pending[o] = c, came_by, start, count, 0
    s.floor[o] = s.body_floor[s.body[i]] if asked and s.said[BOUNDED] else 0.0
    s.at[c, b] = o
    s.opens[c] += 1
    if not asked:
        log(s, i, PUBLISHED, c, 0, 0)
    bounded = s.said[BOUNDED] != 0
    for j in range(s.out_start[b], s.out_start[b + 1]):
        link = s.out_link[j]
        if s.in_tree[link] and link != came_by:
            child = s.target[link]
            if bounded:
                s.branch[c, child] = AHEAD
                s.limit[c, child] = limit_behind(s, b, c, link)
            else:
                s.branch[c, child] = AWAITED
                s.pending[o] += 1
                send(s, i, link, QUESTION, s.body[i], s.key[c])
    if bounded:
        _go_on(s, i, b, o)
    waits = s.pending[o] > 0
    if waits and s.said[LOSSY]:
        s.limit_event[s.now[LIMITS]] = i
        s.now[LIMITS] += 1
    if not waits:
        _close(s, i, b, o)
    return True


@njit(cache=True)
def _forget(s, c, o):
    """A question is no longer open."""
    s.opens[c] -= 1
    s.open_case[o] = -1
    s.open_free[s.now[OPEN_FREE]] = o
    s.now[OPEN_FREE] += 1


@njit(cache=True)
def _hear(s, i, why):
    """A subtree answered."""
    b, c, body = np.int64(s.broker[i]), np.int64(s.case[i]), s.body[i]
    if c < 0 or s.at[c, b] < 0:
        return True  # given up
    o, sender = np.int64(s.at[c, b]), s.target[s.link[i]]
    if s.branch[c, sender] != AWAITED:
        return True
    count, held = s.body_count[body], s.held[o]
    if count > 0 and held > 0 and s.now[USED] + count + held > s.ids.size:
        why[0], s.now[WANTED] = ROOM, count + held
        return False
    s.branch[c, sender] = 0
    s.pending[o] -= 1
    if held == 0:
        s.start[o], s.held[o] = s.body_start[body], count
    elif count > 0:
        start = s.now[USED]
        s.held[o] = merge(s, s.start[o], held, s.body_start[body], count, start)
        s.start[o] = start
        s.now[USED] = start + s.held[o]
    s.noted[body] = -1  # nobody else hears it, and its stretch is free or another's
    if s.said[BOUNDED]:
        _go_on(s, i, b, o)
    if s.pending[o] == 0:
        _close(s, i, b, o)
    return True


@njit(cache=True)
def _give_up(s, i):
    """Whoever has not answered by now is taken to have nothing."""
    b, c = np.int64(s.broker[i]), np.int64(s.case[i])
    if c < 0 or s.at[c, b] < 0:
        return
    o = np.int64(s.at[c, b])
    _forget_branches(s, b, c, o)
    s.pending[o] = 0
    _close(s, i, b, o)


@njit(cache=True)
def _forget_branches(s, b, c, o):
    for j in range(s.out_start[b], s.out_start[b + 1]):
        link = s.out_link[j]
        if s.in_tree[link] and link != s.parent[o]:
            s.branch[c, s.target[link]] = 0


@njit(cache=True)
def _go_on(s, i, b, o):
    """Ask as many branches as may be asked now, the most promising first; of equal ones that of the lower link."""
    c, k = s.open_case[o], s.said[K]
    floor = s.floor[o]
    if s.held[o] >= k:
        floor = max(floor, s.scores[s.start[o] + k - 1])
    for _ in range(s.out_start[b], s.out_start[b + 1]):
        if s.pending[o] >= s.said[AT_ONCE]:
            return
        best, best_limit = np.int64(-1), -1.0
        for j in range(s.out_start[b], s.out_start[b + 1]):
            link = np.int64(s.out_link[j])
            if not s.in_tree[link] or link == s.parent[o] or s.branch[c, s.target[link]] != AHEAD:
                continue
            limit = s.limit[c, s.target[link]]
            if limit > best_limit or (limit == best_limit and link < best):
                best, best_limit = link, limit
        if best < 0:
            return
        if best_limit < floor or best_limit <= s.said_real[0]:
            for j in range(s.out_start[b], s.out_start[b + 1]):
                link = np.int64(s.out_link[j])
                child = s.target[link]
                if s.in_tree[link] and link != s.parent[o] and s.branch[c, child] == AHEAD:
                    s.branch[c, child] = 0
            return
        s.branch[c, s.target[best]] = AWAITED
        s.pending[o] += 1
        send(s, i, best, QUESTION, make(s, i, c, np.int64(0), np.int64(-1), floor), s.key[c])


@njit(cache=True)
def _close(s, i, b, o):
    """Nothing is pending: answer whoever asked, or have Python conclude."""
    c, start, count = s.open_case[o], s.start[o], s.held[o]
    s.at[c, b] = -1
    _forget(s, c, o)
    if s.opens[c] == 0:
        s.done[s.now[DONE]] = c
        s.now[DONE] += 1
    if s.parent[o] < 0:
        log(s, i, CONCLUDED, c, start, count)
        return
    if s.said[BOUNDED]:
        for j in range(count):  # whoever asked has k that score at least the floor
            if s.scores[start + j] < s.floor[o]:
                count = np.int64(j)
                break
    send(s, i, s.parent[o], ANSWER, make(s, i, c, start, count, 0.0), s.key[c])


@njit(cache=True)
def _pass_on(s, i):
    """A publication with its recipients came by: serve those here, send it on towards the others."""
    b, body = s.broker[i], s.body[i]
    start, count = s.body_start[body], s.body_count[body]
    for at in range(start, start + count):
        if s.scores[at] == s.enter[b]:
            s.deliver_event[s.now[DELIVERIES]], s.deliver_client[s.now[DELIVERIES]] = i, s.ids[at]
            s.now[DELIVERIES] += 1
    for j in range(s.out_start[b], s.out_start[b + 1]):
        link = s.out_link[j]
        away = s.in_tree[link] and link != s.link[i]
        if away and leads(s.enter, s.leave, s.up, s.scores, start, count, b, s.target[link], link):
            send(s, i, link, DELIVERY, body, s.word[i])


@njit(cache=True)
def _change(s, i):
    """A filter came, went, or weighs otherwise."""
    b, slot = s.broker[i], s.slot[i]
    known = slot >= 0 and s.here[slot]
    if s.type[i] != UNSUBSCRIBE:
        _take_over(s, s.fresh[i], slot)
        if not known:
            s.mine[s.first[b] + s.count[b]] = slot
            s.count[b] += 1
            s.here[slot] = True
    elif known:
        s.here[slot] = False
        first, last = s.first[b], s.first[b] + s.count[b] - 1
        gone = False
        for at in range(first, last):
            gone |= s.mine[at] == slot
            if gone:
                s.mine[at] = s.mine[at + 1]
        s.count[b] -= 1
    if s.large[b] and slot >= 0:
        s.touched[s.now[TOUCHED]] = s.id[slot]
        s.now[TOUCHED] += 1
    if s.said[BOUNDED]:
        if s.type[i] != UNSUBSCRIBE:
            raise_here(s, i, b, slot)
        if known and not s.stale[b]:
            s.stale[b] = True
            s.lower_event[s.now[LOWERINGS]] = i
            s.now[LOWERINGS] += 1


@njit(cache=True)
def _take_over(s, fresh, slot):
    for j in range(s.attribute.columns):
        there = j < s.fresh_attribute.columns
        s.attribute[slot, j] = s.fresh_attribute[fresh, j] if there else -1
        s.weight[slot, j] = s.fresh_weight[fresh, j] if there else 0.0
        s.ends[slot, 2 * j] = s.fresh_ends[fresh, 2 * j] if there else np.nan
        s.ends[slot, 2 * j + 1] = s.fresh_ends[fresh, 2 * j + 1] if there else np.nan
    s.total[slot] = s.fresh_total[fresh]
