"""What GossipSub sends, counted by the types of its messages: `metrics: [gossipsub.payloads, gossipsub.ihave]`."""

from __future__ import annotations

from brokers.contract import Kind
from brokers.metrics import Metric, Together
from protocols.gossip.talking import GRAFT, IDONTWANT, IHAVE, IWANT, PRUNE
from protocols.measures import Tables
from protocols.topics.kind import PUBLISH


def payloads(tables: Tables, kind: Kind) -> int:
    """Copies of publications, new or not to who gets them."""
    return _over_links(tables, PUBLISH)


def ihave(tables: Tables, kind: Kind) -> int:
    """IHAVE; one for each neighbour and heartbeat, whatever it has of topics and ids."""
    return _over_links(tables, IHAVE)


def iwant(tables: Tables, kind: Kind) -> int:
    """IWANT."""
    return _over_links(tables, IWANT)


def grafts(tables: Tables, kind: Kind) -> int:
    """GRAFT."""
    return _over_links(tables, GRAFT)


def prunes(tables: Tables, kind: Kind) -> int:
    """PRUNE."""
    return _over_links(tables, PRUNE)


def idontwant(tables: Tables, kind: Kind) -> int:
    """IDONTWANT."""
    return _over_links(tables, IDONTWANT)


def _over_links(tables: Tables, type: int) -> int:
    hops = tables["hops"]
    return int(((hops["type"] == type) & (hops["link"] >= 0)).sum())


def _counted(name: str) -> Metric:
    return Metric(
        f"gossipsub.{name}", Together.SUM, measure=f"protocols.gossip.measures:{name}", reads={"hops": ("type", "link")}
    )


PAYLOADS, IHAVES, IWANTS, GRAFTS, PRUNES, IDONTWANTS = map(
    _counted, ("payloads", "ihave", "iwant", "grafts", "prunes", "idontwant")
)
