"""Neighbours that agree on who wants what, whatever is lost: the tables of `reliable`.

Brokers stand on one tree. Each tells each neighbour of all interests that live on its own side of their link, by
numbered changes. A *life* is what a broker knows between two crashes that took something from it; it is named by the
time at which it began.

    CHANGE   the next interest that begins or ends on my side, with its number in my life
    TABLE    all interests on my side, as of a number; what else you have from me is gone
    SEEN     I have your changes up to one number, and everybody beyond me has them up to another
    ASK      I have lost your table; send me all of it
    POLL     how far are you?

Rules:
- A change is sent again until it is seen. Whoever begins a new life tells its table anew and asks for that of others.
- A table is *whole* while it has all that its neighbour ever got confirmed. A broker that lost some tells its own only
  once the others are whole, so that what it tells never lacks what it told before. Leaves begin; on a tree brokers do
  not wait for each other in a ring. Snapshot and registration are one step: changes follow a TABLE by number.
- SEEN says that everybody beyond has a change once all other neighbours have said so of what was told to them. It comes
  when that is new, and as an answer to what came again.

Theory. Once everybody beyond has an interest, each broker has it in a table, or knows of that table that it is not
whole, whoever crashes afterwards. So a broker that filters by whole tables only never filters out what such an interest
wants. Only then the change has settled: the client's broker handles something then that belongs to the change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from brokers.contract import FIRST_PROTOCOL_TYPE, BrokerProtocol, Message
from protocols.routes import Routes

CHANGE, TABLE, SEEN, ASK, POLL, SETTLED, BEAT = range(FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 7)
TABLES = frozenset({CHANGE, TABLE, SEEN, ASK, POLL})  # what is said of tables
LOCAL = -1  # in place of a link: a client of this broker
NO_CAUSE = -1
BEATS_MOST = 8  # after as many what is not answered is said again, however long that lasts
_NOTHING_YET = -1  # in place of a number of changes, or of a life


@dataclass
class Neighbour:
    """What stands between a broker and one neighbour."""

    # Its table, as it is here.
    whole: bool = True
    life: int = 0  # of the neighbour, in which it told what is here
    version: int = 0  # up to which change it is here
    beyond: int = 0  # up to which everybody beyond this broker has it
    awaited: list[Any] = field(default_factory=list)  # [change, {link: what has to be had beyond there}], ascending
    # This broker's table, as it is there.
    owed: bool = False  # it has to be told all of it
    told: int = 0  # the last change
    unseen: list[Any] = field(default_factory=list)  # [change, interest, row or None], ascending
    agreed: int = 0  # up to which the neighbour and everybody beyond it have it
    told_before: int = 0  # the last change at the last beat
    beats: int = 0  # since something new was heard of it, or told to it

    @classmethod
    def forgotten(cls) -> Neighbour:
        """One of which nothing is known."""
        return cls(
            whole=False, life=_NOTHING_YET, version=_NOTHING_YET, beyond=_NOTHING_YET, owed=True, agreed=_NOTHING_YET
        )

    @property
    def waits(self) -> bool:
        """Whether anything is to be said or heard yet."""
        return not self.whole or self.owed or self.agreed < self.told


def is_due(beats: int) -> bool:
    """Whether something is said again after so many beats: soon at first, and then less and less often."""
    return beats in (1, 2, 4) or beats % BEATS_MOST == 0


def plain(row: Any) -> list[float]:
    """A row without what pads it."""
    return [float(number) for number in row if number == number]


_UNSETTLED = "unsettled "  # and a change, in the store: a crash does not settle it


def _unsettled(change: int) -> str:
    return f"{_UNSETTLED}{change}"


class Agreeing(BrokerProtocol):
    """A broker that agrees with its neighbours on the tree."""

    keeps: ClassVar[tuple[Any, ...]] = (Neighbour,)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        shared = node.shared
        if "routes" not in shared:
            env = node.env
            shared["routes"] = Routes(env.links, env.overlay.is_tree, env.publisher_brokers, False)
        self.routes: Routes = shared["routes"]
        self.life = 0
        self.told_again = True  # whether clients have told all they want, after a crash
        self.ways = {link: Neighbour() for link in node.links if self.routes.in_tree[link]}
        self.came_by: dict[int, set[int]] = {}  # interest -> links it came over, or LOCAL
        self.known = 0  # how many of these
        self.unsettled: dict[int, dict[int, int]] = {}  # change of a client here -> what has to be agreed, by link
        self.beating = False

    @property
    def every_ns(self) -> int:
        return int(self.node.options.every)

    def began_anew(self, message: Message) -> None:
        """Another life begins with nothing known."""
        self.life = message.time
        self.told_again = False
        self.ways = {link: Neighbour.forgotten() for link in self.ways}
        for link in self.ways:
            self.node.send(message, link, ASK)
        changes = [self.node.store.get(name) for name in self.node.store if str(name).startswith(_UNSETTLED)]
        self.unsettled = {change: self._told_but_to(LOCAL) for change in changes}
        self.keep_beating(message)

    # ---- changes -------------------------------------------------------------------------------------

    def client_changes(self, message: Message, row: Any) -> None:
        """A client here begins an interest, or ends one (no row)."""
        self.alter(message, message.word, row, LOCAL)
        needed = self._told_but_to(LOCAL)
        if message.cause >= 0 and not self._are_agreed(needed):
            self.unsettled[message.cause] = needed
            self.node.store.put(message, _unsettled(message.cause), message.cause)

    def _settle(self, message: Message) -> None:
        """Have changes of clients count as under way until now, where all have them by now."""
        for change in [change for change, needed in self.unsettled.items() if self._are_agreed(needed)]:
            del self.unsettled[change]
            self.node.store.remove(message, _unsettled(change))
            if change != message.cause:
                self.node.timer(message, self.timer_min_ns, SETTLED, cause=change)

    def alter(self, message: Message, id: int, row: Any, via: int) -> None:
        """An interest is on the side of a link from now on, or not any more (no row)."""
        before = self.came_by.get(id, set())
        after = before - {via} if row is None else before | {via}
        if after == before:
            return
        self.known += len(after) - len(before)
        self.came_by[id] = after
        if not before:
            self.node.table.add(id, (id >> 32) - self.node.env.entity_base, row, None)
        elif not after:
            del self.came_by[id]
            self.node.table.remove(id)
        for link, neighbour in self.ways.items():
            if bool(before - {link}) != bool(after - {link}):
                self._tell_change(message, link, neighbour, id, row)

    def _tell_change(self, message: Message, link: int, neighbour: Neighbour, id: int, row: Any) -> None:
        neighbour.told += 1
        neighbour.beats = 0
        if not neighbour.owed:
            change = [neighbour.told, id, None if row is None else self.said_of(id, row)]
            neighbour.unseen.append(change)
            self._send_change(message, link, change)
        self.keep_beating(message)

    def _send_change(self, message: Message, link: int, change: list[Any]) -> None:
        number, id_, row = change
        self.node.send(message, link, CHANGE, {"life": self.life, "number": number, "row": row}, id_)

    # ---- what neighbours say -------------------------------------------------------------------------

    def agree(self, message: Message) -> None:
        """Handle what a neighbour says of tables."""
        link = message.link
        neighbour, said = self.ways[link], self.node.body(message)
        if message.type == CHANGE:
            self._change_came(message, neighbour, said)
        elif message.type == TABLE:
            self._table_came(message, neighbour, said)
        elif message.type == SEEN:
            self._was_seen(message, neighbour, said)
        elif message.type == ASK:
            neighbour.owed, neighbour.unseen, neighbour.beats = True, [], 0
            self.forgot(message, link)
            self._tell_tables(message)
            self.keep_beating(message)
        elif neighbour.whole:
            self._say_seen(message, link)

    def _change_came(self, message: Message, neighbour: Neighbour, said: Any) -> None:
        if not neighbour.whole or said["life"] != neighbour.life or said["number"] > neighbour.version + 1:
            return  # it is going to tell its table, or this again, behind what was lost
        if said["number"] <= neighbour.version:
            self._say_seen(message, message.link)
            return
        self.heard_from(message.link, message.word)
        self._learn(message, message.word, said["row"], message.link)
        neighbour.version = said["number"]
        neighbour.awaited.append([neighbour.version, self._told_but_to(message.link)])
        self._pass_agreement_on(message)

    def _table_came(self, message: Message, neighbour: Neighbour, said: Any) -> None:
        if said["life"] < neighbour.life:
            return
        if said["life"] > neighbour.life or said["number"] > neighbour.version:
            was_whole = neighbour.whole
            if said["life"] > neighbour.life:
                neighbour.life, neighbour.beyond, neighbour.awaited = said["life"], _NOTHING_YET, []
            self._replace_table(message, said["interests"])
            neighbour.whole = True
            neighbour.version = said["number"]
            neighbour.awaited.append([neighbour.version, self._told_but_to(message.link)])
            if not was_whole:
                self.became_whole(message, message.link)
                self._tell_tables(message)
            self._pass_agreement_on(message, message.link)
        self._say_seen(message, message.link)

    def _replace_table(self, message: Message, interests: list[Any]) -> None:
        link = message.link
        self.heard_from(link)
        there = {id_ for id_, _ in interests}
        for id_ in sorted(id_ for id_, came_by in self.came_by.items() if link in came_by and id_ not in there):
            self.alter(message, id_, None, link)
        for id_, said in interests:
            self._learn(message, id_, said, link)

    def _learn(self, message: Message, id: int, said: Any, link: int) -> None:
        """What a neighbour says of an interest; None: that it has ended."""
        self.alter(message, id, None if said is None else self.heard_of(id, said, link), link)

    def _was_seen(self, message: Message, neighbour: Neighbour, said: Any) -> None:
        if said["life"] != self.life:
            return
        if said["beyond"] > neighbour.agreed or any(change[0] <= said["seen"] for change in neighbour.unseen):
            neighbour.beats = 0
        neighbour.unseen = [change for change in neighbour.unseen if change[0] > said["seen"]]
        if said["seen"] == neighbour.told:
            neighbour.owed = False
        if said["beyond"] > neighbour.agreed:
            neighbour.agreed = said["beyond"]
            self._pass_agreement_on(message)
            self._settle(message)

    def _pass_agreement_on(self, message: Message, silent: int = LOCAL) -> None:
        """Say of what neighbours told that everybody beyond has it, where that is new; `silent` is told anyway."""
        for link, neighbour in self.ways.items():
            before = neighbour.beyond
            while neighbour.awaited and self._are_agreed(neighbour.awaited[0][1]):
                neighbour.beyond = neighbour.awaited.pop(0)[0]
            if neighbour.beyond > before and link != silent:
                self._say_seen(message, link)

    def _told_but_to(self, link: int) -> dict[int, int]:
        return {other: neighbour.told for other, neighbour in self.ways.items() if other != link}

    def _are_agreed(self, needed: dict[int, int]) -> bool:
        return all(self.ways[link].agreed >= number for link, number in needed.items())

    def _say_seen(self, message: Message, link: int) -> None:
        neighbour = self.ways[link]
        said = {"life": neighbour.life, "seen": neighbour.version, "beyond": neighbour.beyond}
        self.node.send(message, link, SEEN, said)

    def _tell_tables(self, message: Message) -> None:
        for link, neighbour in self.ways.items():
            if neighbour.owed:
                self._tell_table(message, link, neighbour)

    def _tell_table(self, message: Message, link: int, neighbour: Neighbour) -> None:
        """Tell a neighbour all that is on this side, if this broker has all of it."""
        if not self.told_again or not all(other.whole for way, other in self.ways.items() if way != link):
            return
        here = sorted(id_ for id_, came_by in self.came_by.items() if came_by - {link})
        interests = [[id_, self.said_of(id_, self.node.table.interest(id_)[1])] for id_ in here]
        said = {"life": self.life, "number": neighbour.told, "interests": interests}
        self.node.send(message, link, TABLE, said)

    def clients_told_again(self, message: Message) -> None:
        """Clients have said all they want once more."""
        self.told_again = True
        self._tell_tables(message)

    # ---- time and again ------------------------------------------------------------------------------

    def keep_beating(self, message: Message) -> None:
        """Have a beat come, so that what is lost is said again."""
        if not self.beating:
            self.beating = True
            self.node.timer(message, self.every_ns, BEAT, cause=NO_CAUSE)

    def remind(self, message: Message) -> bool:
        """Say again what stands since the last beat and may be lost; whether anything is to be said or heard yet."""
        for link, neighbour in self.ways.items():
            if neighbour.waits and self.reaches(link):
                neighbour.beats += 1
                if is_due(neighbour.beats):
                    self.say_again(message, link)
            neighbour.told_before = neighbour.told
        return any(neighbour.waits for neighbour in self.ways.values())

    def say_again(self, message: Message, link: int) -> None:
        """Say to a neighbour again what it may not have heard."""
        neighbour = self.ways[link]
        if not neighbour.whole:
            self.node.send(message, link, ASK)
        if neighbour.owed:
            self._tell_table(message, link, neighbour)
            return
        again = [change for change in neighbour.unseen if change[0] <= neighbour.told_before]
        for change in again:
            self._send_change(message, link, change)
        if not again and neighbour.agreed < neighbour.told_before:
            self.node.send(message, link, POLL)

    # ---- what the broker does about it ---------------------------------------------------------------

    def said_of(self, id: int, row: Any) -> Any:
        """An interest, as a neighbour is told of it."""
        return plain(row)

    def heard_of(self, id: int, said: Any, link: int) -> Any:
        """The row of an interest of which a neighbour said that."""
        return said

    def heard_from(self, link: int, id: int | None = None) -> None:
        """A neighbour itself is going to say how an interest stands, or all of them."""

    def reaches(self, link: int) -> bool:
        """Whether it makes sense to send anything over a link."""
        return True

    def became_whole(self, message: Message, link: int) -> None:
        """The table of a neighbour is whole again."""
        raise NotImplementedError

    def forgot(self, message: Message, link: int) -> None:
        """A neighbour has lost what it knew."""
        raise NotImplementedError
