"""Hand-over with replay: what came for a client that was away reaches it where it is next, after, in order and once.

A client whose group has a `session` leaves its subscriptions behind when it leaves: the broker goes on drawing what
they ask for, and keeps it. Where the client comes next it subscribes anew, and each subscription that is new there
*fetches* what its predecessor kept:

    new broker   SUBSCRIBE goes out as ever, FETCH behind it to the old broker; deliveries are held back
    old broker   REPLAYs what was kept, then END, which tells the last that came of each publisher; and withdraws
                 the old subscription
    new broker   at the last END delivers what was replayed, then what was held back and came later than those last

Theory. On a tree FETCH goes the way that SUBSCRIBE went, behind it. What a broker on that way sent towards the old
place before it knew the new subscription is ahead of FETCH on each link, so it is kept when FETCH comes; what it sends
after that, it sends to the new place too. So nothing falls in between. What came both ways, or comes by for others and
had reached the client before it left, is no later than the last of its publisher: links keep the order.

Who leaves before the last END takes it along: what comes is kept here then, and the next FETCH waits for that END. What
is kept has a bound (the oldest goes first) and a time, after which the subscription is withdrawn. As long a client
waits for an END: links that lose messages may lose that.
"""

from __future__ import annotations

from typing import Any

from brokers.contract import FIRST_PROTOCOL_TYPE, Message

FETCH, REPLAY, END, EXPIRE = range(FIRST_PROTOCOL_TYPE + 4, FIRST_PROTOCOL_TYPE + 8)  # behind those of `resync`
HANDED = frozenset({FETCH, REPLAY, END, EXPIRE})
_UNDER_WAY_NS = 600_000_000_000  # longer than any message is
_NUMBER = 0xFFFFFFFF  # of a subscription id, that among those of its client
_Kept = list[Any]  # a body, the publication's id, the subscriptions that it answers, whether it was replayed


class HandOver:
    """What a broker keeps for clients that are away, and holds back for those that have just come."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.kept: dict[int, list[_Kept]] = {}  # stay that is over -> what came since
        self.parked: set[int] = set()  # subscriptions of those, still drawing
        self.awaited: dict[int, set[int]] = {}  # stay that began -> its subscriptions whose END is to come
        self.replayed: dict[int, list[_Kept]] = {}
        self.held: dict[int, list[_Kept]] = {}
        self.late: dict[int, list[int]] = {}  # stay -> FETCHes that wait for its last END
        self.last: dict[int, dict[int, int]] = {}  # stay -> publisher -> the last of its publications that came

    @property
    def sessions(self) -> Any:
        return self.broker.node.env.sessions

    def stay(self, id: int) -> int:
        """The number of the stay behind a subscription."""
        return (id >> 32) - int(self.broker.node.env.entity_base)

    def before(self, id: int) -> int:
        """The subscription that had the place of this one during the stay before; -1 if there was none."""
        stay = int(self.sessions.before[self.stay(id)])
        return -1 if stay < 0 else (stay + int(self.broker.node.env.entity_base)) << 32 | (id & _NUMBER)

    def _is_of(self, message: Message, time_ns: int) -> bool:
        """Whether a client's change is of when it came or left; where queues have limits it may have waited."""
        return message.time == time_ns or (self.broker.node.env.unsure and message.time > time_ns)

    # ---- where a client leaves -------------------------------------------------------------------------

    def leaves(self, message: Message) -> bool:
        """Whether a withdrawal is that of a client who leaves for a time: then its subscription stays."""
        if message.link >= 0:
            return False
        stay = self.stay(message.word)
        lasts = int(self.sessions.keep_ns[stay])
        if lasts == 0 or not self._is_of(message, int(self.sessions.end[stay])):
            return False
        self.kept.setdefault(stay, [])
        self.parked.add(message.word)
        self.broker.node.timer(message, lasts, EXPIRE, message.word, cause=-1)
        return True

    def hand(self, message: Message, client: int, ids: list[int]) -> None:
        """A publication answers these subscriptions of a client here."""
        node = self.broker.node
        if client in self.awaited:
            self.held.setdefault(client, []).append([node.keep(message), node.key(message), ids, False])
            return
        if self.sessions.keep_ns[client] and client not in self.last:  # of others nothing is noted
            self._forget_over(message.time)
        self._note(client, node.key(message))
        if client in self.kept:
            self._keep(message, client, [node.keep(message), node.key(message), ids, False])
        else:
            node.deliver(message, client)

    def _note(self, stay: int, key: int) -> None:
        if self.sessions.keep_ns[stay]:
            last = self.last.setdefault(stay, {})
            last[key >> 32] = max(last.get(key >> 32, -1), key)

    def _forget_over(self, now: int) -> None:
        """Stays that were over long ago: nobody fetches anything there, and nothing of theirs is under way any more."""
        if self.broker.node.env.unsure:
            return
        base = int(self.broker.node.env.entity_base)
        end, keep, before = self.sessions.end, self.sessions.keep_ns, now - _UNDER_WAY_NS
        for stay in [each for each in self.last if each not in self.kept and each not in self.awaited]:
            if end[stay] + keep[stay] < before:
                del self.last[stay]
        for last in self.last.values():
            for publisher in [each for each in last if 0 < end[each - base] < before]:  # 0: it always stays
                del last[publisher]

    def _keep(self, message: Message, client: int, one: _Kept) -> None:
        kept = self.kept[client]
        kept.append(one)
        if len(kept) > self.sessions.most[client]:
            self._give_up(message, client, kept.pop(0))

    def _give_up(self, message: Message, client: int, one: _Kept) -> None:
        """A delivery to somebody who has left: it falls, and the trace tells of it."""
        if not one[3]:
            self.broker.node.deliver(message, client, one[0])
        self.broker.node.drop(one[0])

    # ---- where it comes --------------------------------------------------------------------------------

    def comes(self, message: Message) -> None:
        """A client subscribed here: if it has just come from elsewhere, what was kept there is fetched."""
        if message.link >= 0:
            return
        id_, stay = message.word, self.stay(message.word)
        old = self.before(id_)
        if old < 0 or not self._is_of(message, int(self.sessions.begin[stay])):
            return
        self._forget_over(message.time)
        awaited = self.awaited.setdefault(stay, set())
        if awaited:  # what comes is held back until the END of all, so each has settled only with all others
            self.broker.node.leans(id_, max(awaited))
            self.broker.node.leans(max(awaited), id_)
        awaited.add(id_)
        self.broker.node.timer(message, int(self.sessions.keep_ns[self.stay(old)]), EXPIRE, id_, cause=-1)
        self._send(message, FETCH, id_, self.broker.home(old))

    def _send(self, message: Message, type: int, id: int, to: int, body: Any = None) -> None:
        node = self.broker.node
        if to == node.broker:
            node.timer(message, 1, type, id, body=body)
        else:
            node.send(message, self._towards(to), type, body, id)

    def _towards(self, target: int) -> int:
        """The link that leads to a broker."""
        routes, here = self.broker.routes, self.broker.node.broker
        for child in routes.children(0, here).tolist():
            if routes.is_below(0, child, target):
                return int(routes.up[0, child]) ^ 1
        return int(routes.up[0, here])

    # ---- between the two -------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        """A message or timer of the hand-over."""
        id_ = message.word
        if message.type == EXPIRE:
            self._expire(message, id_)
            return
        to = self.broker.home(self.before(id_) if message.type == FETCH else id_)
        if to != self.broker.node.broker:
            self.broker.node.forward(message, self._towards(to))
        elif message.type == FETCH:
            self._fetched(message, id_)
        elif id_ in self.awaited.get(self.stay(id_), ()):
            if message.type == END:
                for key in self.broker.node.body(message) or ():
                    self._note(self.stay(id_), key)
                self._forget_over(message.time)  # what came along may be of publishers that left long ago
                self._ended(message, id_)
            else:
                node = self.broker.node
                kept = [node.keep(message), node.key(message), [id_], False]
                self.replayed.setdefault(self.stay(id_), []).append(kept)

    def _expire(self, message: Message, id: int) -> None:
        """It has been parked, or awaited, for as long as what came before is kept; not if the timer is of the other."""
        stay, keep, sessions = self.stay(id), self.sessions.keep_ns, self.sessions
        if id in self.awaited.get(stay, ()) and message.time >= sessions.begin[stay] + keep[sessions.before[stay]]:
            self._ended(message, id)
        if id in self.parked and message.time >= sessions.end[stay] + keep[stay]:
            self._release(message, id)

    def _fetched(self, message: Message, id: int) -> None:
        """A client that was here asks for what was kept."""
        old = self.before(id)
        stay = self.stay(old)
        if stay in self.awaited:
            self.late.setdefault(stay, []).append(id)
            for awaited in sorted(self.awaited[stay]):  # what is to come there decides on what is handed on from here
                self.broker.node.leans(id, awaited)
            return
        to = self.broker.home(id)
        for each in self.kept.get(stay, ()):
            if old in each[2] and not each[3]:
                each[3] = True
                self._send(message, REPLAY, id, to, each[0])
        last = sorted(self.last.get(stay, {}).values())
        if to == self.broker.node.broker:  # a timer has nothing to carry that nobody kept
            for key in last:
                self._note(self.stay(id), key)
            self._send(message, END, id, to)
        else:
            self._send(message, END, id, to, last)
        if old in self.parked:
            self._release(message, old)

    def _release(self, message: Message, id: int) -> None:
        """Withdraw a subscription that was left behind."""
        self.parked.discard(id)
        self.broker.withdraw(message, id, -1)
        stay = self.stay(id)
        if not any(self.stay(other) == stay for other in self.parked):
            self.last.pop(stay, None)
            for each in self.kept.pop(stay, ()):
                self._give_up(message, stay, each)

    def _ended(self, message: Message, id: int) -> None:
        """All that was kept for a subscription has come."""
        stay, node = self.stay(id), self.broker.node
        self.awaited[stay].discard(id)
        if self.awaited[stay]:
            return
        del self.awaited[stay]
        last = self.last.get(stay, {})
        replayed = self.replayed.pop(stay, [])
        came = {each[1] for each in replayed}  # of which an END that did not come in time has not told
        held = [
            each
            for each in self.held.pop(stay, [])
            if not self._drop_early(each, each[1] if each[1] in came else last.get(each[1] >> 32, -1))
        ]
        for each in replayed + held:
            self._note(stay, each[1])
            if stay in self.kept:
                self._keep(message, stay, each)
            else:
                node.deliver(message, stay, each[0])
                node.drop(each[0])
        for late in self.late.pop(stay, ()):
            self._fetched(message, late)

    def _drop_early(self, one: _Kept, last: int) -> bool:
        """Whether something held back is no later than the last that came of its publisher, and is dropped."""
        if one[1] > last:
            return False
        self.broker.node.drop(one[0])
        return True

    # ---- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What is kept, as plain data."""
        return {name: value for name, value in vars(self).items() if name != "broker"}
