"""HyParView: each broker knows a few others well and some more by name, and mends its views when one of them is gone.

Rules:
- A broker may reach its *candidates*: those to whom it has a link, and those to whom one may be opened (latent links).
  Of them it holds an *active* view, its neighbours, each with a link that is open, and a *passive* one of spare names.
  It is in neither itself, and nobody is in both.
- JOIN. Broker number b joins b times `join` after the start, through its *contact*: the first broker where that is a
  candidate, or else the candidate nearest to it. The contact takes it in, dropping one drawn from a full view, and
  sends FORWARD_JOIN with it to all its other neighbours, with `arwl` steps. Where the contact is down, and for the
  first broker where it has lost everybody, another candidate is drawn.
- FORWARD_JOIN, of a broker that is no neighbour: where none is left of its steps, or there is one neighbour at most, it
  is asked to be one, with priority. Otherwise, with `prwl` steps left, it goes into the passive view; and on it goes, a
  step less, to a neighbour that is drawn, not back. Who is not a candidate is passed on, and given up at the end.
- NEIGHBOR asks to be taken in. With priority it is granted always, otherwise only where there is room; the answer is a
  NEIGHBOR too, and who asked adds the other on that. What is not granted is answered by DISCONNECT.
- DISCONNECT, also to who is dropped: the sender goes from the active into the passive view.
- Whoever loses a neighbour, or is refused, asks one drawn from the passive view, with priority if it has no neighbour
  left; and of several in turn, each once until the next shuffle. Who does not answer within `timeout` is struck off.
  Who has neither neighbours nor names joins again.
- SHUFFLE, every `shuffle` from joining on: to a neighbour that is drawn goes a list of itself, `shuffle_active` other
  neighbours and `shuffle_passive` spare names. It goes on to drawn neighbours, but not back nor to where it comes from,
  while it has steps left (`arwl`) and there are two or more; where it ends, as many names are sent back, passive ones
  first, and both take what is new to them into their passive views. A full one drops a name that is drawn.
- A neighbour is lost when the broker is told that its link is down, and what such a one has said before comes too late
  to make it a neighbour; or, where it is told of links that are open only, it makes it one for as long as that takes to
  be told again. Who is up again after a crash has lost all of them: it sends them DISCONNECT, and asks anew.
  To a message from who is no neighbour the answer is DISCONNECT.

A link is open while the other is a neighbour or is asked to be one, and for an answer to a SHUFFLE. Draws are of a
stream of the broker's own.

Theory. Who is asked and grants it has the other in its view before the other has it, and takes it out by a message that
comes after; links keep order. So once nothing is under way the relation is symmetric. Views connect all brokers with
high probability, not surely: whoever is dropped asks somebody else, and a broker that is asked takes in what has nobody
left.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from brokers.contract import FAULT, FIRST_PROTOCOL_TYPE, TIMER, LinkTable, Message
from brokers.faults import CLOSED, KEPT, LINK_DOWN, LINK_UP, RESTART
from protocols.gossip.hyparview_options import ViewOptions
from topology.draws import bits, stream

_FIRST = FIRST_PROTOCOL_TYPE + 16
JOIN, FORWARD_JOIN, NEIGHBOR, DISCONNECT, SHUFFLE, SHUFFLED = range(_FIRST, _FIRST + 6)
JOINING, ASKED, SHUFFLING = range(_FIRST + 6, _FIRST + 9)  # timers
LOW, HIGH, GRANTED = range(3)  # in the word of a NEIGHBOR
AT_FIRST = 1  # in the word of JOINING


def contacts(links: LinkTable, brokers: int) -> NDArray[np.int32]:
    """By broker, the link to the candidate nearest to the first of all, the lowest of several. O(links)."""
    start, out, target = (column.tolist() for column in (links.out_start, links.out_link, links.target))
    found = np.full(brokers, -1, np.int32)
    seen, frontier = {0}, [0]
    while frontier:
        onward = []
        for broker in sorted(frontier):
            for link in out[start[broker] : start[broker + 1]]:
                if target[link] < brokers and target[link] not in seen:
                    seen.add(target[link])
                    onward.append(target[link])
                    found[target[link]] = link ^ 1
        frontier = onward
    return found


class HyParView:
    """The views of one broker, as links."""

    types: ClassVar[frozenset[int]] = frozenset(range(JOIN, SHUFFLING + 1))

    def __init__(self, node: Any, options: ViewOptions) -> None:
        self.node = node
        self.active: list[int] = []
        self.passive: list[int] = []
        self.asked: dict[int, list[int]] = {}  # link -> number of the request, with which priority
        self.refused: set[int] = set()  # links to those who are not asked again for now
        self.unreachable: set[int] = set()  # links of which it was told that they are down
        self.requests = 0
        self.drawn = 0

    @property
    def options(self) -> ViewOptions:
        options: Any = self.node.options
        found: ViewOptions = options if isinstance(options, ViewOptions) else options.hyparview
        return found

    # ---- candidates ----------------------------------------------------------------------------------

    def candidates(self) -> list[int]:
        """Links to all that this broker may reach. O(candidates)."""
        return [*self.node.links, *getattr(self.node, "latent", ())]

    def contact(self) -> int:
        """The link to whom this broker joins through; -1 at the first of all."""
        env, shared = self.node.env, self.node.shared
        first = self.node.link_to(0)
        if first >= 0 or not self.node.broker:
            return first
        if "contacts" not in shared:
            shared["contacts"] = contacts(env.links if env.latent is None else env.latent.links, env.brokers)
        return int(shared["contacts"][self.node.broker])

    def _send(self, message: Message, link: int, type: int, body: Any = None, word: int = 0) -> bool:
        """Send to a candidate, over a link that is opened if it is not; False if it may not have another one open."""
        if not self._open(message, link):
            return False
        self.node.send(message, link, type, body, word, cause=-1)
        return True

    def _open(self, message: Message, link: int) -> bool:
        return self.node.stands(link) or self.node.open(message, link)

    def _hang_up(self, message: Message, link: int) -> None:
        if link not in self.active and link not in self.asked and not self.node.stands(link):
            self.node.close(message, link)

    def _names(self, links: list[int]) -> list[int]:
        return [self.node.neighbour(link) for link in links]

    # ---- what is heard -------------------------------------------------------------------------------

    def hear(self, message: Message) -> None:
        if message.kind == FAULT:
            self._fault(message)
        elif message.kind == TIMER:
            timers = {JOINING: self._join_in_time, ASKED: self._not_answered, SHUFFLING: self._shuffle}
            timers[message.type](message)
        else:
            messages = {
                JOIN: self._joined, FORWARD_JOIN: self._forward_join, NEIGHBOR: self._neighbour,
                DISCONNECT: self._disconnected, SHUFFLE: self._shuffled, SHUFFLED: self._learn_list,
            }  # fmt: skip
            messages[message.type](message)

    def stranger(self, message: Message) -> None:
        if message.type not in self.types and self._send(message, message.link, DISCONNECT):
            self._hang_up(message, message.link)

    def _fault(self, message: Message) -> None:
        link = message.link
        if message.type == RESTART:
            self._come_back(message)
        elif message.type == LINK_UP:
            self.unreachable.discard(link)
        elif message.type == LINK_DOWN:
            if self.node.watched(link):
                self.unreachable.add(link)
            if link in self.active:
                self.active.remove(link)
                self._hang_up(message, link)
                self._refill(message)
        elif message.type == CLOSED and (link in self.active or link in self.asked):
            self._gone(message, link)

    def _come_back(self, message: Message) -> None:
        if message.word != KEPT:
            self._join(message)
            return
        before, self.active, self.asked = self.active, [], {}
        for link in before:
            self._send(message, link, DISCONNECT)
            self._hang_up(message, link)
            self._spare(message, link)
        self._refill(message)
        self._shuffle_later(message)

    # ---- joining -------------------------------------------------------------------------------------

    def first_timers(self) -> list[tuple[int, int, int]]:
        here, options = self.node.broker, self.options
        joining = [(here * options.join, JOINING, AT_FIRST)] if here else []
        timers = [*joining, (here * options.join + options.shuffle, SHUFFLING, 0)]
        return [timer for timer in timers if timer[0] < self.node.env.duration_ns]

    def _join_in_time(self, message: Message) -> None:
        if message.word == AT_FIRST or not (self.active or self.asked):
            self._join(message)

    def _join(self, message: Message) -> None:
        """Ask the contact to take this broker in; and again, where that comes to nothing."""
        contact = self.contact()
        if contact < 0 or contact in self.unreachable:
            contact = self._draw([each for each in self.candidates() if each not in self.unreachable])
        if contact >= 0 and contact not in self.active:
            self._send(message, contact, JOIN)
            self._later(message, self.options.timeout, JOINING)

    def _joined(self, message: Message) -> None:
        new = message.link
        if not self._add(message, new):
            return
        self._send(message, new, NEIGHBOR, word=GRANTED)
        for link in [each for each in self.active if each != new]:
            self._send(message, link, FORWARD_JOIN, [self.node.neighbour(new), self.options.arwl])

    def _forward_join(self, message: Message) -> None:
        new, steps = self.node.body(message)
        link = self.node.link_to(new)
        if link in self.active:
            return
        if steps == 0 or len(self.active) <= 1:
            self._ask(message, link, HIGH)
            return
        if steps == self.options.prwl:
            self._spare(message, link)
        onward = self._draw([each for each in self.active if each != message.link])
        if onward < 0:
            self._ask(message, link, HIGH)
        else:
            self._send(message, onward, FORWARD_JOIN, [new, steps - 1])

    # ---- neighbours ----------------------------------------------------------------------------------

    def _add(self, message: Message, link: int) -> bool:
        """Take in a neighbour, in the place of another where there is no room; False if there can be no link."""
        self.asked.pop(link, None)
        if link in self.active or link in self.unreachable:
            return link in self.active
        if len(self.active) >= self.options.active:
            self._drop(message, self._draw(self.active))
        if not self._open(message, link):
            return False
        if link in self.passive:
            self.passive.remove(link)
        self.active.append(link)
        return True

    def _drop(self, message: Message, link: int) -> None:
        self.active.remove(link)
        self._send(message, link, DISCONNECT)
        self._hang_up(message, link)
        self._spare(message, link)

    def _ask(self, message: Message, link: int, priority: int) -> None:
        """Ask a candidate to be a neighbour."""
        if link < 0 or link in self.asked:
            return
        if not self._send(message, link, NEIGHBOR, word=priority):
            self.refused.add(link)
            return
        self.requests += 1
        self.asked[link] = [self.requests, priority]
        self._later(message, self.options.timeout, ASKED, self.requests)

    def _neighbour(self, message: Message) -> None:
        link, said = message.link, message.word
        room = link in self.active or len(self.active) < self.options.active
        asked = self.asked.pop(link, [0, LOW])[1]
        if room or HIGH in (said, asked):
            if self._add(message, link) and said != GRANTED:
                self._send(message, link, NEIGHBOR, word=GRANTED)
        else:
            self._send(message, link, DISCONNECT)
            self._hang_up(message, link)
            self._spare(message, link)

    def _not_answered(self, message: Message) -> None:
        late = [link for link, (number, _) in self.asked.items() if number == message.word]
        for link in late:
            del self.asked[link]
            self._hang_up(message, link)
            if link in self.passive:
                self.passive.remove(link)
            self._refill(message)

    def _disconnected(self, message: Message) -> None:
        self._gone(message, message.link)

    def _gone(self, message: Message, link: int) -> None:
        """A neighbour, or who was asked to be one, does not want to."""
        self.asked.pop(link, None)
        self.refused.add(link)
        if link in self.active:
            self.active.remove(link)
            self._spare(message, link)
        self._hang_up(message, link)
        self._refill(message)

    def _refill(self, message: Message) -> None:
        """Ask for another neighbour, where one is lacking."""
        if len(self.active) + len(self.asked) >= self.options.active:
            return
        lonely = not self.active
        spare = self._draw([each for each in self.passive if each not in self.refused and each not in self.asked])
        if spare >= 0:
            self._ask(message, spare, HIGH if lonely else LOW)
        elif lonely and not self.asked:
            self._later(message, self.options.timeout, JOINING)

    # ---- spare names ---------------------------------------------------------------------------------

    def _spare(self, message: Message, link: int) -> None:
        """Take a name into the passive view, in the place of a drawn one where it is full."""
        if link < 0 or link in self.active or link in self.passive or not self.options.passive:
            return
        if len(self.passive) >= self.options.passive:
            self.passive.remove(self._draw(self.passive))
        self.passive.append(link)

    def _shuffle(self, message: Message) -> None:
        self.refused.clear()
        self._shuffle_later(message)
        options, first = self.options, self._draw(self.active)
        if first >= 0:
            others = [each for each in self.active if each != first]
            listed = self._some(others, options.shuffle_active) + self._some(self.passive, options.shuffle_passive)
            here = self.node.broker
            self._send(message, first, SHUFFLE, [here, options.arwl, here, *self._names(listed)])
        self._refill(message)

    def _shuffle_later(self, message: Message) -> None:
        self._later(message, self.options.shuffle, SHUFFLING)

    def _shuffled(self, message: Message) -> None:
        origin, steps, *listed = self.node.body(message)
        back = self.node.link_to(origin)
        if steps > 0 and len(self.active) > 1:
            onward = self._draw([each for each in self.active if each not in (message.link, back)])
            if onward >= 0:
                self._send(message, onward, SHUFFLE, [origin, steps - 1, *listed])
                return
        if back >= 0:
            spare = self._some(self.passive, len(listed))
            spare += self._some([each for each in self.active if each != back], len(listed) - len(spare))
            if self._send(message, back, SHUFFLED, self._names(spare)):
                self._hang_up(message, back)
        self._learn(message, listed)

    def _learn_list(self, message: Message) -> None:
        self._learn(message, self.node.body(message))
        self._hang_up(message, message.link)

    def _learn(self, message: Message, listed: list[int]) -> None:
        for each in listed:
            self._spare(message, self.node.link_to(each))

    # ---- draws and timers ----------------------------------------------------------------------------

    def _below(self, limit: int) -> int:
        self.drawn += 1
        key = stream(self.node.env.seed, self.node.broker, f"hyparview/{self.node.env.service}")
        return int(bits(key, self.drawn)) % limit

    def _draw(self, links: list[int]) -> int:
        """One of them; -1 where there is none."""
        return links[self._below(len(links))] if links else -1

    def _some(self, links: list[int], count: int) -> list[int]:
        """As many of them as asked for, where there are so many."""
        left = list(links)
        found: list[int] = []
        while left and len(found) < count:
            found.append(left.pop(self._below(len(left))))
        return found

    def _later(self, message: Message, delay_ns: int, type: int, word: int = 0) -> None:
        if message.time + delay_ns < self.node.env.duration_ns:  # clients do nothing any more after that
            self.node.timer(message, delay_ns, type, word, cause=-1)

    def describe(self) -> dict[str, Any]:
        names = self.node.env.overlay.names
        views = {"active": self.active, "passive": self.passive}
        return {"views": {name: sorted(names[each] for each in self._names(links)) for name, links in views.items()}}
