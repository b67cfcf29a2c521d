"""Mutants made by hand: mistakes that mean something, which no rule of `rules.py` makes.

Each is a stretch of text that stands once in a function, and what stands there in its place, on as many lines. Most
are mistakes of real brokers: what is told twice or not at all, in the wrong order, or to one too few.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from analysis.bench.hunting.rules import Mutant, functions, line_begins


class Mistake(NamedTuple):
    """What somebody would write, and what it breaks."""

    file: str
    function: str
    before: str
    after: str
    breaks: str


RULE = "by hand"
MISTAKES = (
    Mistake(
        "protocols/content/covering.py", "Covering._release", "inward[inward != link]", "inward[inward < 0]",
        "of what a withdrawn subscription kept back only that of own clients is sent, nothing of neighbours",
    ),
    Mistake(
        "protocols/content/covering.py", "Covering._release", "sent[other] = True", "pass",
        "what was just sent covers nothing of the rest: more is sent than need be",
    ),
    Mistake(
        "protocols/content/covering.py", "Covering._subscribe",
        "out.leans(int(self.store.id[slot]), int(self.store.id[cover]))", "pass",
        "nobody hears that what is kept back relies on another",
    ),
    Mistake(
        "protocols/content/covering.py", "PlainCovering._cover", "self.routes.serves(link, home, self.home(other))",
        "True", "on a cycle one covers another behind whose link it does not live",
    ),
    Mistake(
        "protocols/content/subscription.py", "Subscription.tidy", "(self.uses[slots] > 0) | coming",
        "self.uses[slots] > 0", "a slot is given away while its subscription is on its way to another broker",
    ),
    Mistake(
        "protocols/content/subscription.py", "Subscription.tidy", "self.sent[gone] = 0",
        "pass", "a slot's next subscription seems to have been sent over the links of the last one",
    ),
    Mistake(
        "protocols/content/subscription.py", "Subscription.load", "self.local[slots] + ", "",
        "after a stop a slot counts one use too few, and is dropped too early",
    ),
    Mistake(
        "protocols/content/subscription.py", "PlainSubscription._leave", "if not came_by:", "if via == LOCAL:",
        "a broker keeps what was withdrawn over a link for ever",
    ),
    Mistake(
        "protocols/content/flooding.py", "PlainFlooding.on_message", "link != came_by", "link > came_by",
        "a publication goes to neighbours of higher numbers only",
    ),
    Mistake(
        "protocols/spatial/keyword.py", "Keyword.needed",
        "any(word in self.wants[other] for other in self.links if other != link)",
        "any(word in self.wants[other] for other in self.links)",
        "two brokers keep asking each other for what nobody else needs",
    ),
    Mistake(
        "protocols/spatial/keyword.py", "Keyword.take_back",
        "head.link == link and not self.wanted_from(link, head.words)", "head.link == link",
        "an object is forgotten with the first of its keywords that nobody needs",
    ),
    Mistake(
        "protocols/channels/server.py", "Server.change", "max(message.time + TIMER_NS_MIN, self.busy_until_ns)",
        "message.time + TIMER_NS_MIN", "planning begins while another is under way",
    ),
    Mistake(
        "protocols/channels/server.py", "Server.change", "self.stale.add(before.period_ns)",
        "pass", "a query that changed its period is answered by the old plan too",
    ),
    Mistake(
        "protocols/channels/plain.py", "PlainChannels.listen", "self.told = told", "self.told.update({})",
        "what a broker told below is never noted, so what becomes as it was before is not told",
    ),
    Mistake(
        "protocols/channels/plain.py", "PlainChannels.sift",
        "(parts[0].period_ns, parts[0].round) != (came.period_ns, came.round)", "parts[0].round != came.round",
        "parts of two periods are taken for one answer",
    ),
    Mistake(
        "protocols/topk/gather.py", "PlainGather.publish",
        "self.order.setdefault(publication >> 32, []).append(publication)",
        "self.order.setdefault(publication >> 32, []).insert(0, publication)",
        "decisions about one publisher leave in the wrong order, or never",
    ),
    Mistake(
        "protocols/topk/bounded.py", "PlainBounded.change", "self.last_raise = message.cause", "pass",
        "a filter that raises no bound does not say that it relies on one that did",
    ),
    Mistake(
        "protocols/topk/bounded.py", "PlainBounded.go_on", "limit < floor or", "limit <= floor or",
        "a branch that would tie is not asked, and a lower id there is left out",
    ),
    Mistake(
        "protocols/context/replicated.py", "PlainReplicated.wants", "self.publishes[place] or self.leads(key, place)",
        "self.leads(key, place)", "brokers with publishers and without profiles are not told of a value",
    ),
    Mistake(
        "protocols/topics/forwarding.py", "Forwarding.wanting", "id_ >> 32 == publisher", "id_ == publisher",
        "no-local compares a subscription with a client, and never holds",
    ),
)


def made_by_hand(file: str, source: bytes) -> Iterator[Mutant]:
    """The mutants of a file; ValueError where the text of one does not stand there once any more."""
    mine = [each for each in MISTAKES if each.file == file]
    bodies = {name: body for name, body, _ in functions(ast.parse(source))} if mine else {}
    begins = line_begins(source)
    for mistake in mine:
        body, before = bodies.get(mistake.function), mistake.before.encode()
        low, high = (begins[body.lineno - 1], begins[body.end_lineno or -1]) if body else (0, 0)
        if source.count(before, low, high) != 1:
            raise ValueError(f"{file}: {mistake.function} does not have {mistake.before!r} once any more")
        start = source.index(before, low, high)
        line = source.count(b"\n", 0, start) + 1
        place = line, start - begins[line - 1]
        yield Mutant(
            file, mistake.function, *place, RULE, mistake.before, mistake.after, 0, False, start, start + len(before)
        )
