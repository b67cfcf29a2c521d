"""The judge of what a publication may cost: over a link once, and only where somebody behind it may get it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from brokers.contract import MESSAGE
from brokers.promises import excused, unnoticed_ns
from protocols.judging import Audit, published
from protocols.standing import Standing
from scenarios.hunt.running import Outcome


def budget(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Publications that go over a link twice though no broker forgot them; of frugal protocols, that go for nobody."""
    if outcome.failed:
        return
    hops, kind = outcome.tables["hops"], outcome.kind
    mine = (hops["kind"] == MESSAGE) & (hops["link"] >= 0) & (hops["body"] >= 0)
    mine &= np.isin(hops["type"], sorted(kind.publications))
    if outcome.case.faults:
        mine &= ~np.isin(hops["body"], _forgotten(outcome))
    links, bodies = hops["link"][mine].tolist(), hops["body"][mine].tolist()
    doubled = outcome.tables["doubled"]
    excused = set(zip(doubled["link"].tolist(), doubled["body"].tolist()))
    twice_ago = {body for _, body in excused}
    seen: set[tuple[int, int]] = set()
    for link, body in zip(links, bodies):
        if (link, body) in seen and body not in twice_ago:
            yield (
                "twice",
                f"{_publication(outcome, body)} went over the link {_link(outcome, link)} more than once",
            )
            break
        seen.add((link, body))
    frugal = getattr(outcome.model.services[0].protocol_class, "frugal", False)
    if frugal and outcome.model.overlay.is_tree and not outcome.case.session:  # a session is asked for where nobody is
        yield from _waste(outcome, seen)


def _forgotten(outcome: Outcome) -> list[int]:
    """Publications that were under way when brokers forgot what they had seen, or had not recovered from that."""
    tables = outcome.tables
    faults, losses, hops = tables["faults"], tables["losses"], tables["hops"]
    excuse = excused(outcome.guarantees, faults, unnoticed_ns(faults, losses, outcome.kind.publications))
    handled: dict[int, int] = {}
    for body, time in zip(hops["body"].tolist(), hops["time_ns"].tolist()):
        handled[body] = max(handled.get(body, time), time)
    sent = zip(tables["publications"]["publication"].tolist(), tables["publications"]["time_ns"].tolist())
    return [body for body, time in sent if excuse.anything(time, handled.get(body, time))]


def _waste(outcome: Outcome, went: set[tuple[int, int]]) -> Iterator[tuple[str, str]]:
    """On a tree: over links behind which nobody may get it."""
    tables, kind, guarantees = outcome.tables, outcome.kind, outcome.guarantees
    standing = Standing(tables, kind, 0, guarantees)
    interests = {each.change: each for each in standing.versions if each.type in kind.interests}
    rows = {change: version.values for change, version in interests.items()}
    by_body: dict[int, list[int]] = {}
    for link, body in went:
        by_body.setdefault(body, []).append(link)
    source, target = tables["links"]["from"], tables["links"]["to"]
    behind = _behind(outcome)
    for p in published(Audit.of(tables, guarantees), tables, kind, 0):
        may = {
            interests[change].broker
            for change in kind.oracle(rows, p.values)
            if standing.possible(interests[change], p)
        }
        for link in sorted(by_body.get(p.id, ())):
            if not may & behind[int(source[link]), int(target[link])]:
                yield "waste", (
                    f"{_publication(outcome, p.id)}, sent at {p.sent} ns, went over the link {_link(outcome, link)}, "
                    "behind which nobody may get it"
                )  # fmt: skip
                return


def _behind(outcome: Outcome) -> dict[tuple[int, int], set[int]]:
    """For each directed link of a tree the brokers behind it."""
    graph = outcome.model.overlay.adjacency
    start, neighbour = graph.start.tolist(), graph.neighbour.tolist()
    found = {}
    for a in range(outcome.model.overlay.nodes):
        for b in neighbour[start[a] : start[a + 1]]:
            seen, ahead = {a, b}, [b]
            while ahead:
                at = ahead.pop()
                for other in neighbour[start[at] : start[at + 1]]:
                    if other not in seen:
                        seen.add(other)
                        ahead.append(other)
            found[a, b] = seen - {a}
    return found


def _publication(outcome: Outcome, body: int) -> str:
    return f"publication {Audit.of(outcome.tables, outcome.guarantees).message(body)}"


def _link(outcome: Outcome, link: int) -> str:
    names, links = outcome.model.overlay.names, outcome.tables["links"]
    at = int(np.flatnonzero(links["link"] == link)[0])
    return f"{names[links['from'][at]]} -> {names[links['to'][at]]}"
