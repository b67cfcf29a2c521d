"""What all brokers of a shard know of objects and subscriptions, in arrays, and the kernels over them.

An *object* is a place, keywords and a size, kept once in the shard. A *head* is that a broker knows one: which, under
which id, and by which link it came. A *topic* is a keyword at a broker: how many subscriptions there have it, how many
neighbours want it, and lists of the heads and subscriptions with it, heads in the order in which they were learned.

A subscription lives at one broker and keeps its nearest objects there, as `brokers.indexes.spatial.materialised` does
and with its arithmetic: of up to `2 (k_max + 1)` in order, entered as heads come and struck out as they go, and filled
again from the topics when so many are left that there may be others.

Heads and topics are found by hashing, with removals that shift back. A node of a list is a row and a column of a table,
as one number. Nothing here grows an array: who calls has seen to `spare`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import deliver, digest, fits, forward, handler, work
from brokers.errors import EndlessWalk
from brokers.indexes.ids import find_one
from brokers.records import Record, reader
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE, REALS_TABLE
from protocols.spatial.kind import EXPIRE, PUBLISH

WORD_BITS = 20  # of a keyword, beside a link in one number
FLOOD, WINDOWED, K_MAX, SINCE = range(4)  # facts
HEADS, TOPICS = range(2)  # spare
FRESH, GONE, LEANS = range(3)  # what `revise` finds of a keyword and a link

MADE_OF = digest(__file__, "kernels.py", "../../brokers/indexes/ids.py")
FIELDS = {
    "point": REALS_TABLE, "word": NARROW_TABLE, "uses": NARROW, "bytes": INTS,  # by object; keywords ascend, then -1
    "body_object": NARROW, "body_generation": NARROW, "body_k": NARROW,  # by body
    "head_place": NARROW,  # the table behind `find_head`
    "head_broker": NARROW, "head_id": INTS, "head_object": NARROW, "head_link": NARROW, "head_since": INTS,
    "head_topic": NARROW_TABLE, "head_next": NARROW_TABLE, "head_prev": NARROW_TABLE,  # by keyword
    "head_free": NARROW,
    "topic_place": NARROW,  # the table behind `find_topic`
    "topic_broker": NARROW, "topic_word": NARROW, "here": NARROW, "wanting": NARROW,
    "first_head": NARROW, "last_head": NARROW, "first_sub": NARROW, "topic_free": NARROW,
    "sub_point": REALS_TABLE, "sub_word": NARROW_TABLE, "sub_broker": NARROW, "sub_client": NARROW,
    "sub_id": INTS, "waiting": FLAGS,
    "sub_topic": NARROW_TABLE, "sub_next": NARROW_TABLE, "sub_prev": NARROW_TABLE,
    "near": NARROW_TABLE, "squared": REALS_TABLE, "held": NARROW,  # heads, distances, how many
    "subscriptions": INTS, "heads": INTS,  # by broker
    "want_keys": INTS, "want_slots": NARROW, "asked_keys": INTS, "asked_slots": NARROW,  # by link and keyword
    "in_tree": FLAGS,  # by link
    "found": NARROW,  # room for answers
    "facts": INTS, "spare": INTS,
}  # fmt: skip
RECORD = Record(f"spatial {MADE_OF}", FIELDS)
_record = reader(RECORD)


# ---- finding -----------------------------------------------------------------------------------------


@njit(inline="always")
def home_of(broker, number, mask):
    mixed = (np.uint64(number) ^ (np.uint64(broker) << np.uint64(40))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(20)) & mask


@njit(cache=True)
def find_head(state, broker, id_):
    """The head of an object at a broker; -1 if it is not known there."""
    place, mask = state.head_place, state.head_place.size - 1
    at = home_of(broker, id_, mask)
    for _ in range(place.size):
        head = place[at]
        if head < 0 or (state.head_id[head] == id_ and state.head_broker[head] == broker):
            return np.int64(head)
        at = (at + 1) & mask
    raise EndlessWalk("a table of heads is full")


@njit(cache=True)
def find_topic(state, broker, word):
    """The topic of a keyword at a broker; -1 if there is none."""
    place, mask = state.topic_place, state.topic_place.size - 1
    at = home_of(broker, word, mask)
    for _ in range(place.size):
        topic = place[at]
        if topic < 0 or (state.topic_word[topic] == word and state.topic_broker[topic] == broker):
            return np.int64(topic)
        at = (at + 1) & mask
    raise EndlessWalk("a table of topics is full")


@njit(cache=True)
def enter(place, at, number):
    mask = place.size - 1
    for _ in range(place.size):
        if place[at] < 0:
            place[at] = number
            return
        at = (at + 1) & mask
    raise EndlessWalk("a table is full")


@njit(cache=True)
def rehash(place, brokers, numbers, used):
    """Enter those in use into an empty table."""
    for which in range(used.size):
        if used[which]:
            enter(place, home_of(brokers[which], numbers[which], place.size - 1), which)


@njit(cache=True)
def _leave(place, brokers, numbers, at, which):
    """Take one out of a table, and shift back what it had pushed on."""
    mask = place.size - 1
    for _ in range(place.size):
        if place[at] == which:
            break
        at = (at + 1) & mask
    else:
        raise EndlessWalk("what is to be removed is not in its table")
    hole, at = at, (at + 1) & mask
    for _ in range(place.size):
        other = place[at]
        if other < 0:
            break
        if ((at - home_of(brokers[other], numbers[other], mask)) & mask) >= ((at - hole) & mask):
            place[hole] = other
            hole = at
        at = (at + 1) & mask
    else:
        raise EndlessWalk("a table is full")
    place[hole] = -1


@njit(cache=True)
def topic_of(state, broker, word):
    """The topic of a keyword at a broker, made if there is none."""
    topic = find_topic(state, broker, word)
    if topic < 0:
        state.spare[TOPICS] -= 1
        if state.spare[TOPICS] < 0:
            raise IndexError("no room for a topic")
        topic = np.int64(state.topic_free[state.spare[TOPICS]])
        state.topic_broker[topic], state.topic_word[topic] = broker, word
        state.here[topic] = state.wanting[topic] = 0
        state.first_head[topic] = state.last_head[topic] = state.first_sub[topic] = -1
        enter(state.topic_place, home_of(broker, word, state.topic_place.size - 1), topic)
    return topic


@njit(cache=True)
def let_go(state, topic):
    """Forget a topic that nothing is left of."""
    if state.first_head[topic] < 0 and state.here[topic] == 0 and state.wanting[topic] == 0:
        home = home_of(state.topic_broker[topic], state.topic_word[topic], state.topic_place.size - 1)
        _leave(state.topic_place, state.topic_broker, state.topic_word, home, topic)
        state.topic_free[state.spare[TOPICS]] = topic
        state.spare[TOPICS] += 1


@njit(inline="always")
def key_of(link, word):
    return (np.int64(link) << WORD_BITS) | np.int64(word)


@njit(cache=True)
def wanted_from(state, link, object_):
    """Whether one of an object's keywords is asked of the neighbour behind a link."""
    if state.facts[FLOOD]:
        return True
    for c in range(state.word.columns):
        word = state.word[object_, c]
        if word < 0:
            break
        if find_one(state.asked_keys, state.asked_slots, key_of(link, word)) >= 0:
            return True
    return False


@njit(cache=True)
def leads_on(state, link, came_by, object_):
    """Whether a link is one over which an object goes on."""
    if link == came_by or not state.in_tree[link]:
        return False
    if state.facts[FLOOD]:
        return True
    for c in range(state.word.columns):
        word = state.word[object_, c]
        if word < 0:
            break
        if find_one(state.want_keys, state.want_slots, key_of(link, word)) >= 0:
            return True
    return False


# ---- the nearest objects of subscriptions ------------------------------------------------------------


@njit(cache=True)
def _distance(sub_point, s, point, o):
    total = 0.0
    for axis in range(point.columns):
        gap = sub_point[s, axis] - point[o, axis]
        total += gap * gap
    return total


@njit(cache=True)
def first_shared(words, a, others, b, word):
    """Whether `word` is the first that both rows have: elsewhere the pair is left alone."""
    for c in range(words.columns):
        mine = words[a, c]
        if mine < 0 or mine >= word:
            return True
        for d in range(others.columns):
            if others[b, d] == mine:
                return False
    return True


@njit(cache=True)
def matters_to(state, broker, object_, own, k):
    """Write the subscriptions of a broker that an object matters to into `found`; returns how many.

    `own` is its head, if there is one, which does not count.
    """
    near, squared, held, width = state.near, state.squared, state.held, state.sub_word.columns
    count = 0
    for c in range(state.word.columns):
        word = state.word[object_, c]
        if word < 0:
            break
        topic = find_topic(state, broker, word)
        node = np.int64(-1) if topic < 0 else np.int64(state.first_sub[topic])
        for _ in range(state.sub_next.size + 1):
            if node < 0:
                break
            s = node // width
            node = np.int64(state.sub_next[s, node % width])
            distance = _distance(state.sub_point, s, state.point, object_)
            closer, at = 0, 0
            while closer < k and at < held[s] and squared[s, at] < distance:
                closer += near[s, at] != own
                at += 1
            if closer < k and first_shared(state.sub_word, s, state.word, object_, word):
                state.found[count] = s
                count += 1
        else:
            raise EndlessWalk("a list of subscriptions has a ring")
    return count


@njit(cache=True)
def _list(state, s, head, distance):
    """Enter a head into the list of a subscription, behind those that are as near."""
    near, squared, capacity = state.near, state.squared, state.near.columns
    i = np.int64(min(state.held[s], capacity - 1))
    state.held[s] = i + 1
    while i > 0 and squared[s, i - 1] > distance:
        squared[s, i] = squared[s, i - 1]
        near[s, i] = near[s, i - 1]
        i -= 1
    squared[s, i] = distance
    near[s, i] = head


@njit(cache=True)
def fill(state, s):
    """List the nearest heads of a subscription anew."""
    width, capacity = state.head_next.columns, state.near.columns
    state.held[s] = 0
    for c in range(state.sub_word.columns):
        word = state.sub_word[s, c]
        if word < 0:
            break
        node = np.int64(state.first_head[state.sub_topic[s, c]])
        for _ in range(state.head_next.size + 1):
            if node < 0:
                break
            head = node // width
            node = np.int64(state.head_next[head, node % width])
            object_ = state.head_object[head]
            distance = _distance(state.sub_point, s, state.point, object_)
            if state.held[s] == capacity and distance >= state.squared[s, capacity - 1]:
                continue
            if first_shared(state.word, object_, state.sub_word, s, word):
                _list(state, s, head, distance)
        else:
            raise EndlessWalk("a list of heads has a ring")


@njit(cache=True)
def _strike(state, s, head):
    """Take a head out of the list of a subscription, which is filled again if others may be missing."""
    near, squared, last = state.near, state.squared, np.int64(state.held[s]) - 1
    i = np.int64(0)
    while i <= last and near[s, i] != head:
        i += 1
    if i > last:
        return
    for later in range(i, last):
        squared[s, later] = squared[s, later + 1]
        near[s, later] = near[s, later + 1]
    state.held[s] = last
    if last == state.facts[K_MAX]:
        fill(state, s)


# ---- heads -------------------------------------------------------------------------------------------


@njit(cache=True)
def has_room(state):
    return state.spare[HEADS] > 0 and state.spare[TOPICS] >= state.word.columns


@njit(cache=True)
def learn(state, broker, id_, object_, link):
    """Hold a head that a broker does not know, and list it where it is near enough; returns it."""
    state.spare[HEADS] -= 1
    if state.spare[HEADS] < 0:
        raise IndexError("no room for a head")
    head = np.int64(state.head_free[state.spare[HEADS]])
    state.head_broker[head], state.head_id[head] = broker, id_
    state.head_object[head], state.head_link[head] = object_, link
    state.head_since[head] = state.facts[SINCE]
    state.facts[SINCE] += 1
    state.heads[broker] += 1
    state.uses[object_] += 1
    enter(state.head_place, home_of(broker, id_, state.head_place.size - 1), head)
    columns, width, k_max = state.head_next.columns, state.sub_word.columns, state.facts[K_MAX]
    for c in range(state.word.columns):
        word = state.word[object_, c]
        if word < 0:
            break
        topic = topic_of(state, broker, word)
        state.head_topic[head, c] = topic
        node, before = head * columns + c, np.int64(state.last_head[topic])
        state.head_next[head, c], state.head_prev[head, c] = -1, before
        if before < 0:
            state.first_head[topic] = node
        else:
            state.head_next[before // columns, before % columns] = node
        state.last_head[topic] = node
        at = np.int64(state.first_sub[topic])
        for _ in range(state.sub_next.size + 1):
            if at < 0:
                break
            s = at // width
            at = np.int64(state.sub_next[s, at % width])
            distance = _distance(state.sub_point, s, state.point, object_)
            last = np.int64(state.held[s]) - 1
            # A list that may not be whole ends where it ends; one that is takes what comes.
            if last >= k_max and distance >= state.squared[s, last]:
                continue
            if first_shared(state.sub_word, s, state.word, object_, word):
                _list(state, s, head, distance)
        else:
            raise EndlessWalk("a list of subscriptions has a ring")
    return head


@njit(cache=True)
def forget(state, head):
    """Let go of a head: out of its topics first, so that no list is filled with it again."""
    columns, width, object_ = state.head_next.columns, state.sub_word.columns, state.head_object[head]
    broker = state.head_broker[head]
    for c in range(state.word.columns):
        if state.word[object_, c] < 0:
            break
        topic, after, before = state.head_topic[head, c], state.head_next[head, c], state.head_prev[head, c]
        if before < 0:
            state.first_head[topic] = after
        else:
            state.head_next[before // columns, before % columns] = after
        if after < 0:
            state.last_head[topic] = before
        else:
            state.head_prev[after // columns, after % columns] = before
    for c in range(state.word.columns):
        if state.word[object_, c] < 0:
            break
        topic = state.head_topic[head, c]
        at = np.int64(state.first_sub[topic])
        for _ in range(state.sub_next.size + 1):
            if at < 0:
                break
            s = at // width
            at = np.int64(state.sub_next[s, at % width])
            last = np.int64(state.held[s]) - 1
            if last >= 0 and _distance(state.sub_point, s, state.point, object_) <= state.squared[s, last]:
                _strike(state, s, head)
        else:
            raise EndlessWalk("a list of subscriptions has a ring")
        let_go(state, topic)
    home = home_of(broker, state.head_id[head], state.head_place.size - 1)
    _leave(state.head_place, state.head_broker, state.head_id, home, head)
    state.head_free[state.spare[HEADS]] = head
    state.spare[HEADS] += 1
    state.heads[broker] -= 1
    state.uses[object_] -= 1


# ---- what the handler decides ------------------------------------------------------------------------


@handler(RECORD)
def spread(desk, mine, at, stop):
    """Decides on objects and their ends, and leaves all else to Python."""
    state = _record(mine)
    for i in range(at, stop):
        done = False
        if desk.type[i] == PUBLISH:
            done = _publish(desk, state, i)
        elif desk.type[i] == EXPIRE:
            done = _expire(desk, state, i)
        if not done:
            return i
    return stop


@njit(cache=True)
def object_of(desk, state, body):
    """The object of a body; negative where Python has not made it one."""
    if body < 0 or body >= state.body_object.size or state.body_generation[body] != desk.generation[body]:
        return np.int64(-1)
    return np.int64(state.body_object[body])


@njit(cache=True)
def _publish(desk, state, i):
    """Hand an object to whom it matters here, take it in, pass it on; False where that is left to Python."""
    b, link, id_, body = desk.broker[i], desk.link[i], desk.word[i], desk.body[i]
    object_ = object_of(desk, state, body)
    if object_ < 0 or (link < 0 and state.facts[WINDOWED]):
        return False
    if link >= 0 and not wanted_from(state, link, object_):
        return True
    own = find_head(state, b, id_)
    if (own < 0 and not has_room(state)) or (own >= 0 and link < 0):
        return False
    count = 0
    if state.subscriptions[b] > 0:
        count = matters_to(state, b, object_, own, state.body_k[body])
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, count):
        return False
    if state.subscriptions[b] > 0:
        hand_over(desk, state, i, b, object_, count)
    if own < 0:
        learn(state, b, id_, object_, link)
    for j in range(first, last):
        if leads_on(state, desk.out_link[j], link, object_):
            forward(desk, i, desk.out_link[j])
    return True


@njit(cache=True)
def hand_over(desk, state, i, b, object_, count):
    """Deliver to the clients of the subscriptions in `found` that are served."""
    here = False
    for c in range(state.word.columns):
        if state.word[object_, c] < 0:
            break
        topic = find_topic(state, b, state.word[object_, c])
        here |= topic >= 0 and state.here[topic] > 0
    if not here:
        return
    work(desk, i, state.subscriptions[b], count)
    clients = np.empty(count, np.int32)
    served = 0
    for j in range(count):
        if not state.waiting[state.found[j]]:
            clients[served] = state.sub_client[state.found[j]]
            served += 1
    before = np.int64(-1)
    for client in np.sort(clients[:served]):
        if client != before:
            before = np.int64(client)
            deliver(desk, i, before)


@njit(cache=True)
def _expire(desk, state, i):
    """Let go of an object that is no more, and pass that on; False where that is left to Python."""
    b, link = desk.broker[i], desk.link[i]
    head = find_head(state, b, desk.word[i])
    if head < 0 or state.head_link[head] != link:
        return link >= 0 or state.facts[WINDOWED] != 0
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, 0):
        return False
    object_ = state.head_object[head]
    forget(state, head)
    for j in range(first, last):
        if leads_on(state, desk.out_link[j], link, object_):
            forward(desk, i, desk.out_link[j])
    return True
