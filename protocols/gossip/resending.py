"""What a broker of GossipSub says again: what found no place in front of a link, and what a link may have lost.

Rules, of which those on drops are go-libp2p's:
- A GRAFT or PRUNE that was dropped goes right behind the next message to that neighbour, or with the next heartbeat,
  unless the mesh is another by then. Of each topic the latest counts.
- SUBSCRIBE and UNSUBSCRIBE that were dropped go again with the next heartbeat, as far as they still hold. Its word is
  not told of what was dropped, so that a greeting which asked for an answer asks for none when it goes again.
- IHAVE, IWANT, IDONTWANT and payloads that were dropped are forgotten.
- Drops are counted by neighbour, and may be held against it (`scores.py`).
- With `announce_ticks` all own topics are said to all neighbours from time to time: who lost one learns of it, and who
  knows of one too many forgets it. No implementation has that, since their connections lose nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

from brokers.contract import Message
from protocols.gossip.options import Options
from protocols.gossip.scores import Topic
from protocols.gossip.talking import ALL, GRAFT, JOINED, LEFT, PRUNE, Talking


class Resending(Talking):
    """One broker, as far as it says things again."""

    said: Options
    ticks: int
    drops_told_ns: ClassVar[int] = 1_000_000

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.dropped: dict[int, int] = {}  # link -> how many messages
        self.again: dict[int, dict[Topic, list[Any]]] = {}  # link -> topic -> GRAFT, or PRUNE with what it says
        self.untold: dict[int, set[Topic]] = {}  # link -> topics of which its neighbour may not know how it is

    def on_drop(self, message: Message) -> None:
        link = message.link
        self.dropped[link] = self.dropped.get(link, 0) + 1
        if self.scores is not None:
            self.scores.dropped(link)
        if link not in self.links:
            return
        if message.type in (JOINED, LEFT):
            self.untold.setdefault(link, set()).update(map(tuple, self.node.body(message)))
        elif message.type == GRAFT:
            self.again.setdefault(link, {}).update((tuple(topic), [GRAFT]) for topic in self.node.body(message))
        elif message.type == PRUNE:
            *levels, backoff_ns, px = self.node.body(message)
            self.again.setdefault(link, {})[tuple(levels)] = [PRUNE, backoff_ns, px]

    def forget_dropped(self, link: int) -> None:
        """A neighbour is gone, and hears all anew if it comes again."""
        self.again.pop(link, None)
        self.untold.pop(link, None)

    def send_out(self, message: Message, link: int, type: int, body: Any, size: int, word: int = 0) -> None:
        super().send_out(message, link, type, body, size, word)
        if link in self.again:
            self.graft_and_prune_again(message, link)

    def graft_and_prune_again(self, message: Message, link: int) -> None:
        for topic, (type_, *said) in sorted(self.again.pop(link).items()):
            in_mesh = link in self.mesh.get(topic, ())
            if type_ == GRAFT and in_mesh:
                self.send_topics(message, link, GRAFT, [topic])
            elif type_ == PRUNE and not in_mesh:
                self.send_backoff(message, topic, link, *said)

    def say_again(self, message: Message) -> None:
        """What is left at the end of a heartbeat."""
        for link in self.ordered(set(self.again)):
            self.graft_and_prune_again(message, link)
        for link in self.ordered(set(self.untold)):
            topics = sorted(self.untold.pop(link))
            for type_, told in ((JOINED, self.mesh.keys() & topics), (LEFT, set(topics) - self.mesh.keys())):
                if told:
                    self.send_topics(message, link, type_, sorted(told))
        if self.said.announce_ticks and self.ticks % self.said.announce_ticks == 0:
            for link in self.links:
                self.send_topics(message, link, JOINED, sorted(self.mesh), ALL)

    def describe(self) -> dict[str, Any]:
        names = self.node.env.overlay.names
        dropped = {names[self.node.neighbour(link)]: count for link, count in sorted(self.dropped.items())}
        return {**super().describe(), "dropped": dropped}
