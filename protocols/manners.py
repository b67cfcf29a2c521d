"""What a run may cost, by brute force over a full trace: a publication goes over a link once, and not for nobody.

The budget is asked of whoever promises anything. On a tree, of a class that says `frugal`, a publication may go over a
link only if somebody behind it may get it. What links doubled, and what was under way when brokers forgot what they had
seen, is excused; so is a class that says `resends`, and what is handed over to clients that moved. Bytes over links
are bounded by all that clients ever said (`heavy.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from brokers.contract import MESSAGE, Guarantees, Kind
from protocols import heavy
from protocols.judging import Audit, doubled, published
from protocols.standing import Standing, Tables, excused_of
from topology.units import format_duration


def over_budget(
    tables: Tables, kind: Kind, guarantees: Guarantees, protocol: Any, overlay: Any, service: int = 0
) -> Iterator[tuple[str, str]]:
    """What a run spent too much: sort and sentence of the first of each sort: `bytes`, `twice`, `waste`."""
    handed = guarantees.hands_over and "stays" in tables and len(tables["stays"]["stay"]) > 0
    if not kind.publications or handed or not guarantees.anything:
        return
    yield from over_bytes(tables, kind, service)
    went = _crossings(tables, kind, service)
    found = Audit.of(tables, guarantees)
    every = list(published(found, tables, kind, service))
    if not protocol.resends:
        twice, excuse = doubled(tables, service), excused_of(tables, kind, service, guarantees)
        excused = twice | {p.id for p in every if excuse.anything(p.sent, p.end)}
        again = [key for key, count in sorted(went.items()) if count > 1 and key[0] not in excused]
        if again:
            body, link = again[0]
            yield "twice", f"publication {found.message(body)} went over the link {_link(tables, link)} more than once"
    if protocol.frugal and overlay.is_tree and not (overlay.has_latent and protocol.opens):
        standing = Standing(tables, kind, service, guarantees)
        interests = {each.change: each for each in standing.versions if each.type in kind.wants()}
        rows = {change: version.values for change, version in interests.items()}
        over: dict[int, list[int]] = {}
        for body, link in sorted(went):
            over.setdefault(body, []).append(link)
        for p in every:
            may = {
                interests[change].broker
                for change in kind.oracle(rows, p.values)
                if standing.possible(interests[change], p)
            }
            for link in over.get(p.id, ()):
                if not may & _behind(tables, link):
                    yield "waste", (
                        f"publication {found.message(p.id)}, sent at {format_duration(p.sent)}, went over the link "
                        f"{_link(tables, link)}, behind which nobody may get it"
                    )
                    return


def over_bytes(tables: Tables, kind: Kind, service: int) -> Iterator[tuple[str, str]]:
    """The link that carried most bytes more than it may, if any did (`protocols/heavy.py`)."""
    hops, links = tables["hops"], tables["links"]
    if not heavy.asked(kind) or (hops["service"] != service).any():
        return
    came = (hops["kind"] == MESSAGE) & (hops["link"] >= 0)
    sizes = dict(zip(tables["publications"]["publication"].tolist(), tables["publications"]["size_bytes"].tolist()))
    at = {link: place for place, link in enumerate(links["link"].tolist())}
    published, weight = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    for link, type_, body in zip(*(hops[name][came].tolist() for name in ("link", "type", "body"))):
        if type_ in kind.publications and body in sizes:
            published[at[link]] += 1
            weight[at[link]] += sizes[body]
    changes = tables["changes"]
    said = heavy.said_bytes(kind, np.array(list(sizes.values()), np.int64), changes["operation"], changes["values"])
    carried = heavy.Carried(links["messages"], links["bytes"], published, weight)
    clients = {int(client) for name in ("publications", "changes") for client in tables[name]["client"]}
    more = heavy.too_heavy(carried, said, len(tables["brokers"]["broker"]) + len(clients))
    if more.any():
        row = int(more.argmax())
        told = f"{int(links['bytes'][row]):,} bytes went in {int(links['messages'][row]):,} messages over the link"
        yield "bytes", (
            f"{told} {_link(tables, int(links['link'][row]))}, {int(more[row]):,} more than if each had told all "
            f"that was ever said"
        )


def _crossings(tables: Tables, kind: Kind, service: int) -> Counter[tuple[int, int]]:
    """How often each publication went over each directed link."""
    hops = tables["hops"]
    mine = (hops["service"] == service) & (hops["kind"] == MESSAGE) & (hops["link"] >= 0) & (hops["body"] >= 0)
    mine &= np.isin(hops["type"], sorted(kind.publications))
    return Counter(zip(hops["body"][mine].tolist(), hops["link"][mine].tolist()))


def _ends(tables: Tables) -> dict[int, tuple[int, int]]:
    """From where to where each directed link leads."""
    links = tables["links"]
    return dict(zip(links["link"].tolist(), zip(links["from"].tolist(), links["to"].tolist())))


def _standing(tables: Tables) -> list[tuple[int, int]]:
    """The ends of those that are not latent."""
    ends, latent = _ends(tables), tables["links"]["latent"].tolist()
    return [ends[link] for link, each in zip(tables["links"]["link"].tolist(), latent) if not each]


def _behind(tables: Tables, link: int) -> set[int]:
    """The brokers behind a directed link of a tree."""
    over, standing = _ends(tables)[link], _standing(tables)
    seen = {over[1]}
    ahead = [over[1]]
    while ahead:
        at = ahead.pop()
        for one, other in standing:
            if one == at and other not in seen and {at, other} != set(over):
                seen.add(other)
                ahead.append(other)
    return seen


def _link(tables: Tables, link: int) -> str:
    one, other = _ends(tables)[link]
    return f"{one} -> {other}"
