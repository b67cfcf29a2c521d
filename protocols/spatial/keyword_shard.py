"""spatial-keyword in the shard's view: who wants what of whom, for all brokers of a shard. `Keyword` has the rules.

What neighbours want and are asked for lies in tables by link and keyword, which the compiled handler reads. Of a
question only those know more that were asked since the start: `Asked`, by link and keyword.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from brokers.columns import BadState, Column
from brokers.contract import NEVER, BrokerProtocol, Interests, Ints, ShardEnv
from protocols.spatial import asking
from protocols.spatial.kernels import FRESH, GONE, WORD_BITS
from protocols.spatial.keyword import HEADS, STANDING, UNWANT, WANT, Asked, Keyword
from protocols.spatial.kind import SUBSCRIPTION_KEYWORDS
from protocols.spatial.known import Object, keys_of
from protocols.spatial.shard import RankingShard, Told

Needs = dict[int, int]  # link and keyword -> number of the question, or a later one, to be answered

_WORD = (1 << WORD_BITS) - 1
_STAND_CELLS = 1 << 22  # of brokers by keywords, at a time
_STATE = {
    "want_link": Column("i8", ("wants",), 0, "links"),
    "want_word": Column("i8", ("wants",), 0, "keywords"),
    "asked_link": Column("i8", ("asked",), 0, "links"),
    "asked_word": Column("i8", ("asked",), 0, "keywords"),
    "asked": Column("i8", ("asked", 4), STANDING),  # change, first, last, answered
    "questions": Column("i8", (None, 2), 0),  # broker, how many
    "waiting": Column("i8", (None, 4), 0),  # subscription, link, keyword, number
}


class KeywordShard(RankingShard):
    """spatial-keyword over the brokers of a shard."""

    plain: ClassVar[type[BrokerProtocol] | None] = Keyword
    flood = False
    others: ClassVar[frozenset[str]] = frozenset({"open"})

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.lossy = bool((env.overlay.loss > 0).any())
        self.details: dict[int, Asked] = {}  # by link and keyword, of what was asked for since the start
        self.questions: dict[int, int] = {}  # by broker: asked so far
        self.open: dict[int, list[tuple[int, int, list[int], Needs]]] = {}  # by broker: link, number, keywords
        self.waiting: dict[int, dict[int, Needs]] = {}  # by broker and slot: subscriptions that are not served yet

    def hear(self, told: Told) -> None:
        said = self.env.bodies.object(told.body)
        if told.type == WANT:
            self.hear_want(told, said)
        elif told.type == UNWANT:
            self.hear_unwant(told, said)
        elif told.type == HEADS:
            self.hear_heads(told, said)

    def send(self, told: Told, link: int, type: int, body: Any) -> None:
        """Send plain data over a link."""
        self.out.send(told.row, link, type, self.out.body(body, type, told.row))

    # ---- who wants what --------------------------------------------------------------------------------

    def came(self, told: Told, slot: int) -> None:
        words = self.known.sub_words[slot]
        self._revise(told, words, -1)
        needs = self._needs(told.broker, words, -1)
        if not self._met(needs):
            self.waiting.setdefault(told.broker, {})[slot] = needs
            self.known.arrays["waiting"][slot] = True
        self._answer(told)

    def left(self, told: Told, slot: int, words: tuple[int, ...]) -> None:
        self.waiting.get(told.broker, {}).pop(slot, None)
        self._revise(told, words)
        self._answer(told)

    def hear_want(self, told: Told, said: dict[str, Any]) -> None:
        words = said["words"]
        fresh = self.known.add_keys(self.known.wants, keys_of(told.link, words))
        self.known.count_wanting(np.full(fresh.size, told.broker), fresh & _WORD, 1)
        self._revise(told, words, told.link)
        needs = self._needs(told.broker, words, told.link)
        self.open.setdefault(told.broker, []).append((told.link, said["number"], words, needs))
        self._answer(told)

    def hear_unwant(self, told: Told, words: list[int]) -> None:
        gone = self.known.remove_keys(self.known.wants, keys_of(told.link, words))
        self.known.count_wanting(np.full(gone.size, told.broker), gone & _WORD, -1)
        self._revise(told, words)
        self._answer(told)

    def _revise(self, told: Told, words: Iterable[int], asker: int | None = None) -> None:
        """Ask neighbours for what is needed now, and take back what is not. `asker`: -1 for a client, or the link."""
        links, numbers = np.array(self.links(told.broker), np.int64), np.array(words, np.int64)
        anyone, by = asker is not None, -1 if asker is None else asker
        found = asking.revise(self.known.record, told.broker, links, numbers, by, anyone, self.lossy)
        if not len(found):
            return
        for link, rows in groupby(found.tolist(), lambda row: row[0]):
            fresh, gone = [], []
            for _, word, what in rows:
                if what == FRESH:
                    fresh.append(word)
                elif what == GONE:
                    gone.append(word)
                else:
                    asked = self.details.get(link << WORD_BITS | word)
                    if asked is not None and asked.change not in (STANDING, told.cause):
                        self.out.depends(told.cause, asked.change)
            if fresh:
                self._ask(told, link, fresh)
            if gone:
                self._take_back(told, link, gone)

    def _ask(self, told: Told, link: int, words: list[int]) -> None:
        number = self.questions[told.broker] = self.questions.get(told.broker, 0) + 1
        keys = keys_of(link, words)
        fresh = set(self.known.add_keys(self.known.asked, keys).tolist())
        self.asked_for(told, link, keys, fresh)
        for key in keys.tolist():
            before = self.details.get(key)
            first, answered = (0, 0) if before is None else (before.first, before.answered)
            self.details[key] = Asked(told.cause, number if key in fresh else first, number, answered)
        self.send(told, link, WANT, {"number": number, "words": words})

    def _take_back(self, told: Told, link: int, words: list[int]) -> None:
        self.taken_back(link, keys_of(link, words))
        for key in self.known.remove_keys(self.known.asked, keys_of(link, words)).tolist():
            self.details.pop(key, None)
        self.send(told, link, UNWANT, words)
        for head in self._heads_with(told.broker, words):
            came_by = self.known.arrays["head_link"][head]
            if came_by == link and not asking.asked_for(self.known.record, link, self.known.head_object(head)):
                self.forget(told, head)

    def asked_for(self, told: Told, link: int, keys: Ints, fresh: set[int]) -> None:
        """A neighbour is asked for keywords, some of which it was not asked for before."""

    def taken_back(self, link: int, keys: Ints) -> None:
        """A neighbour will not be asked for keywords any more."""

    def learned(self, told: Told, objects: Ints) -> None:
        """A neighbour told of objects that were not known."""

    # ---- answers ---------------------------------------------------------------------------------------

    def _heads_with(self, broker: int, words: Sequence[int]) -> list[int]:
        found: list[int] = asking.heads_with(self.known.record, broker, np.array(words, np.int64)).tolist()
        return found

    def _needs(self, broker: int, words: Sequence[int], asker: int) -> Needs:
        """What has to be answered before all that lies beyond a broker, seen from a link, is known."""
        links = [link for link in self.links(broker) if link != asker]
        if not links:
            return {}
        keys = keys_of(np.array(links)[:, None], np.array(words)).ravel()
        details = self.details
        return {
            key: details[key].last if key in details else 0 for key in keys[self.known.asked.find(keys) >= 0].tolist()
        }

    def _met(self, needs: Needs) -> bool:
        """Whether that was answered. What was taken back since nobody needs, though it may be asked for anew."""
        details = self.details
        return all(
            key not in details or details[key].first > number or details[key].answered >= number
            for key, number in needs.items()
        )

    def _answer(self, told: Told) -> None:
        """Answer the questions that can be answered, and begin to serve the subscriptions that can be served."""
        known, broker = self.known, told.broker
        questions = self.open.get(broker)
        if questions:
            unmet = []
            for link, number, words, needs in questions:
                if self._met(needs):
                    heads = self._heads_with(broker, words)
                    came_by = known.arrays["head_link"][heads].tolist()
                    heads = [self._told(head) for head, by in zip(heads, came_by) if by != link]
                    self.send(told, link, HEADS, {"number": number, "words": words, "heads": heads})
                else:
                    unmet.append((link, number, words, needs))
            self.open[broker] = unmet
        waiting = self.waiting.get(broker)
        if waiting:
            for slot in [slot for slot, needs in waiting.items() if self._met(needs)]:
                del waiting[slot]
                known.arrays["waiting"][slot] = False

    def _told(self, head: int) -> Any:
        """A head as brokers tell each other of it."""
        thing = self.known.objects[self.known.head_object(head)]
        assert thing is not None
        return _listed(int(self.known.arrays["head_id"][head]), thing)

    def hear_heads(self, told: Told, said: dict[str, Any]) -> None:
        """An answer to a question; or, with no keywords, heads that a neighbour was answered with."""
        known, link, number = self.known, told.link, said["number"]
        keys = keys_of(link, said["words"])
        asked = keys[known.asked.find(keys) >= 0].tolist()
        asked = [key for key in asked if key not in self.details or self.details[key].first <= number]
        listed = {
            id_: Object((place[0], place[1]), tuple(words), size) for id_, place, words, size in said["heads"]
        }
        for head in self._heads_with(told.broker, [key & _WORD for key in asked]):
            id_ = int(known.arrays["head_id"][head])
            if id_ not in listed and known.arrays["head_link"][head] == link:
                self.expire(told, id_)
        if listed:
            self._take_in(told, listed)
        for key in asked:
            if key in self.details:
                self.details[key].answered = max(self.details[key].answered, number)
        self._answer(told)

    def _take_in(self, told: Told, listed: Mapping[int, Object]) -> None:
        """Know what a neighbour told, and tell it to those who want it."""
        known, links = self.known, self.links(told.broker)
        numbers = np.array([known.number(thing) for thing in listed.values()], np.int64)
        ids = np.array(list(listed), np.int64)
        known.make_room(ids.size)
        new, over = asking.take_in_all(
            known.record, told.broker, ids, numbers, told.link, np.array(links, np.int64)
        )
        self.learned(told, numbers[new])
        for j in np.flatnonzero(over.any(axis=0)).tolist():
            heads = [_listed(id_, listed[id_]) for id_ in ids[over[:, j]].tolist()]
            self.send(told, links[j], HEADS, {"number": 0, "words": [], "heads": heads})

    # ---- what stands from the start --------------------------------------------------------------------

    def stand(self, interests: Interests) -> None:
        super().stand(interests)
        assert interests.rows is not None
        env, routes = self.env, self.routes
        words = interests.rows[:, SUBSCRIPTION_KEYWORDS:]
        row, column = np.nonzero(words == words)
        home, numbers = env.client_broker[interests.client][row], words[row, column].astype(np.int64)
        child = np.flatnonzero(routes.up[0] >= 0)
        up = routes.up[0, child].astype(np.int64)
        together = max(1, _STAND_CELLS // (routes.brokers + 2))
        used = np.unique(numbers)
        for at in range(0, used.size, together):
            part = used[at : at + together]
            chosen = (numbers >= part[0]) & (numbers <= part[-1])
            below, above = self._first(home[chosen], np.searchsorted(part, numbers[chosen]), row[chosen], part.size)
            self._stand(up ^ 1, below[child], above[child], part)  # a parent, and what is below its child
            self._stand(up, above[child], below[child], part)

    def _first(self, home: Ints, word: Ints, number: Ints, words: int) -> tuple[Ints, Ints]:
        """By broker and keyword the first of these interests in its subtree, and the first elsewhere, or NEVER."""
        routes = self.routes
        enter, leave, up = routes.enter[0], routes.leave[0], routes.up[0]
        below = np.full((routes.brokers, words), NEVER, np.int64)
        np.minimum.at(below, (home, word), number)
        outer = np.full((2, routes.brokers + 2, words), NEVER, np.int64)  # of those before a place, and from it on
        there = np.flatnonzero((up >= 0) | (np.arange(up.size) == 0))  # a server hangs on no tree
        outer[0, enter[there] + 1] = outer[1, enter[there]] = below[there]
        np.minimum.accumulate(outer[0], axis=0, out=outer[0])
        np.minimum.accumulate(outer[1, ::-1], axis=0, out=outer[1, ::-1])
        for broker in there[np.argsort(-enter[there], kind="stable")].tolist():
            if up[broker] >= 0:
                parent = below[self.env.links.target[up[broker]]]
                np.minimum(parent, below[broker], out=parent)
        return below, np.minimum(outer[0, enter], outer[1, leave])

    def _stand(self, links: Ints, wanted: Ints, needed: Ints, words: Ints) -> None:
        """What the brokers that these links leave know: what is wanted behind, and needed before."""
        known, source = self.known, self.env.links.source.astype(np.int64)
        local = self.env.local[source[links]][:, None]
        row, column = np.nonzero((wanted < NEVER) & local)
        known.add_keys(known.wants, keys_of(links[row], words[column]))
        known.count_wanting(source[links[row]], words[column], 1)
        row, column = np.nonzero((needed < NEVER) & local)
        known.add_keys(known.asked, keys_of(links[row], words[column]))
        self.stood(links[row], words[column], needed[row, column])

    def stood(self, links: Ints, words: Ints, first: Ints) -> None:
        """Neighbours were asked for these keywords before the start, and which interest asked first."""

    # ---- what is kept ----------------------------------------------------------------------------------

    def describe(self, broker: int) -> dict[str, Any]:
        keys = self.known.wants.items()[0]
        target = self.env.links.target
        wants = {
            str(target[link]): np.sort(keys[keys >> WORD_BITS == link] & _WORD).tolist() for link in self.links(broker)
        }
        return {**super().describe(broker), "waiting": len(self.waiting.get(broker, ())), "wants": wants}

    def state(self) -> dict[str, Any]:
        wants, asked = np.sort(self.known.wants.items()[0]), np.sort(self.known.asked.items()[0])
        nothing = Asked(STANDING, 0, 0, 0)
        details = [self.details.get(key, nothing) for key in asked.tolist()]
        ids = self.known.sub_id
        waiting = [
            (ids[slot], key >> WORD_BITS, key & _WORD, number)
            for _, by_slot in sorted(self.waiting.items())
            for slot, needs in by_slot.items()
            for key, number in needs.items()
        ]
        return {
            **super().state(),
            "want_link": wants >> WORD_BITS, "want_word": wants & _WORD,
            "asked_link": asked >> WORD_BITS, "asked_word": asked & _WORD,
            "asked": np.array([(a.change, a.first, a.last, a.answered) for a in details], np.int64).reshape(-1, 4),
            "questions": np.array(sorted(self.questions.items()), np.int64).reshape(-1, 2),
            "waiting": np.array(waiting, np.int64).reshape(-1, 4),
            "open": [
                [broker, link, number, list(words), [[key >> WORD_BITS, key & _WORD, n] for key, n in needs.items()]]
                for broker, questions in sorted(self.open.items())
                for link, number, words, needs in questions
            ],
        }  # fmt: skip

    def state_columns(self) -> dict[str, Column]:
        return {**super().state_columns(), **_STATE}

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        super().load(states, handle_of)
        env, known = self.env, self.known
        source = env.links.source.astype(np.int64)
        for state in states:
            mine = env.local[source[state["want_link"]]]
            links, words = state["want_link"][mine], state["want_word"][mine]
            if known.add_keys(known.wants, np.unique(keys_of(links, words))).size < links.size:
                raise BadState("a neighbour wants a keyword twice")
            known.count_wanting(source[links], words, 1)
            mine = env.local[source[state["asked_link"]]]
            keys = keys_of(state["asked_link"][mine], state["asked_word"][mine])
            if known.add_keys(known.asked, np.unique(keys)).size < keys.size:
                raise BadState("a neighbour is asked for a keyword twice")
            for key, details in zip(keys.tolist(), state["asked"][mine].tolist()):
                if details != [STANDING, 0, 0, 0]:
                    self.details[key] = Asked(*details)
            self.questions.update((b, n) for b, n in state["questions"].tolist() if self._is_local(b))
            for id_, link, word, number in state["waiting"].tolist():
                slot = known.slot_of.get(id_)
                if slot is not None:
                    by_slot = self.waiting.setdefault(int(known.arrays["sub_broker"][slot]), {})
                    by_slot.setdefault(slot, {})[self._key(link, word)] = number
                    known.arrays["waiting"][slot] = True
            if type(state["open"]) is not list:
                raise BadState("'open' is no list")
            for broker, link, number, words, needs in state["open"]:
                for word in words:
                    self._key(link, word)
                if self._is_local(broker):
                    question = link, int(number), list(words), {self._key(by, word): int(n) for by, word, n in needs}
                    self.open.setdefault(broker, []).append(question)

    def _is_local(self, broker: int) -> bool:
        if type(broker) is not int or not 0 <= broker < self.env.brokers:
            raise BadState(f"there is no broker {broker!r:.60}")
        return bool(self.env.local[broker])

    def _key(self, link: int, word: int) -> int:
        """A link and a keyword out of a file, as one number."""
        for what, number, below in (
            ("link", link, self.env.links.source.size), ("keyword", word, self.service.params["keywords"])
        ):  # fmt: skip
            if type(number) is not int or not 0 <= number < below:
                raise BadState(f"there is no {what} {number!r:.60}")
        return link << WORD_BITS | word


def _listed(id: int, thing: Object) -> list[Any]:
    return [id, list(thing.place), list(thing.words), thing.bytes]
