"""Kernels that the shard's view of the spatial protocols calls one by one: for what is rarer than objects are.

They take the record of `protocols.spatial.kernels`; its name says what they were compiled with.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.errors import EndlessWalk
from brokers.indexes.ids import find_one
from protocols.spatial.kernels import (
    FRESH,
    GONE,
    LEANS,
    fill,
    find_head,
    find_topic,
    forget,
    key_of,
    leads_on,
    learn,
    let_go,
    topic_of,
    wanted_from,
)


@njit(cache=True)
def head_at(state, broker, id_):
    """The head of an object at a broker; -1 if it is not known there."""
    return find_head(state, broker, id_)


@njit(cache=True)
def take_in(state, broker, id_, object_, link):
    """Have a broker know an object; False if it does already."""
    if find_head(state, broker, id_) >= 0:
        return False
    learn(state, broker, id_, object_, link)
    return True


@njit(cache=True)
def take_in_all(state, broker, ids, objects, link, links):
    """Have a broker know objects that a neighbour told; of each whether it was new, and goes on over links[j]."""
    new, over = np.zeros(ids.size, np.bool_), np.zeros((ids.size, links.size), np.bool_)
    for i in range(ids.size):
        if wanted_from(state, link, objects[i]) and find_head(state, broker, ids[i]) < 0:
            learn(state, broker, ids[i], objects[i], link)
            new[i] = True
            for j in range(links.size):
                over[i, j] = leads_on(state, links[j], link, objects[i])
    return new, over


@njit(cache=True)
def drop(state, head):
    """Have a broker forget a head."""
    forget(state, head)


@njit(cache=True)
def asked_for(state, link, object_):
    """Whether one of an object's keywords is asked of the neighbour behind a link."""
    return wanted_from(state, link, object_)


@njit(cache=True)
def ways(state, links, came_by, object_):
    """Those of a broker's links over which an object goes on."""
    found = np.empty(links.size, np.int64)
    count = 0
    for link in links:
        if leads_on(state, link, came_by, object_):
            found[count] = link
            count += 1
    return found[:count]


@njit(cache=True)
def subscribe(state, s):
    """Enter a subscription into the topics of its broker, and list its nearest objects."""
    width = state.sub_next.columns
    broker = state.sub_broker[s]
    state.subscriptions[broker] += 1
    for c in range(state.sub_word.columns):
        word = state.sub_word[s, c]
        if word < 0:
            break
        topic = topic_of(state, broker, word)
        state.sub_topic[s, c] = topic
        state.here[topic] += 1
        after = state.first_sub[topic]
        state.sub_next[s, c], state.sub_prev[s, c] = after, -1
        if after >= 0:
            state.sub_prev[after // width, after % width] = s * width + c
        state.first_sub[topic] = s * width + c
    fill(state, s)


@njit(cache=True)
def unsubscribe(state, s):
    """Take a subscription out of the topics of its broker."""
    width = state.sub_next.columns
    state.subscriptions[state.sub_broker[s]] -= 1
    for c in range(state.sub_word.columns):
        if state.sub_word[s, c] < 0:
            break
        topic, after, before = state.sub_topic[s, c], state.sub_next[s, c], state.sub_prev[s, c]
        if before < 0:
            state.first_sub[topic] = after
        else:
            state.sub_next[before // width, before % width] = after
        if after >= 0:
            state.sub_prev[after // width, after % width] = before
        state.here[topic] -= 1
        let_go(state, topic)


@njit(cache=True)
def subscribe_all(state, slots):
    """Enter subscriptions."""
    for s in slots:
        subscribe(state, s)


@njit(cache=True)
def count_wanting(state, brokers, words, by):
    """So many more neighbours of brokers want keywords, or fewer."""
    for i in range(words.size):
        topic = topic_of(state, brokers[i], words[i])
        state.wanting[topic] += by
        let_go(state, topic)


@njit(cache=True)
def heads_with(state, broker, words):
    """The heads that a broker knows with these keywords, keyword by keyword as they were learned, each once."""
    columns = state.head_next.columns
    found = np.empty(64, np.int64)
    count = 0
    for w in range(words.size):
        topic = find_topic(state, broker, words[w])
        node = np.int64(-1) if topic < 0 else np.int64(state.first_head[topic])
        for _ in range(state.head_next.size + 1):
            if node < 0:
                break
            head = node // columns
            node = np.int64(state.head_next[head, node % columns])
            if not _has_one(state, state.head_object[head], words, w):
                if count == found.size:
                    larger = np.empty(2 * count, np.int64)
                    larger[:count] = found
                    found = larger
                found[count] = head
                count += 1
        else:
            raise EndlessWalk("a list of heads has a ring")
    return found[:count]


@njit(cache=True)
def _has_one(state, object_, words, count):
    """Whether an object has one of the first so many keywords."""
    for w in range(count):
        for c in range(state.word.columns):
            if state.word[object_, c] == words[w]:
                return True
    return False


@njit(cache=True)
def revise(state, broker, links, words, asker, anyone, lossy):
    """What a broker has to tell its neighbours of keywords now: (link, word, what), by link, then as the words are.

    `asker` is -1 for a client, or the link; with `anyone` False nobody asked.
    """
    found = np.empty((links.size * words.size, 3), np.int64)
    count = 0
    for link in links:
        for word in words:
            topic = find_topic(state, broker, word)
            asked = find_one(state.asked_keys, state.asked_slots, key_of(link, word)) >= 0
            needed = False
            if topic >= 0:
                others = state.wanting[topic]
                if others and find_one(state.want_keys, state.want_slots, key_of(link, word)) >= 0:
                    others -= 1
                needed = state.here[topic] > 0 or others > 0
            what = -1
            if not needed:
                if asked:
                    what = GONE
            elif not asked:
                what = FRESH
            elif anyone and asker != link:
                what = FRESH if lossy else LEANS
            if what >= 0:
                found[count, 0], found[count, 1], found[count, 2] = link, word, what
                count += 1
    return found[:count]
