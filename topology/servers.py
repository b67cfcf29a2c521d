"""Servers: nodes behind a link of their own, that no client is attached to.

A server is a node of the overlay like a broker, numbered after all brokers, with one link to one of them. So
order, queues, links, trace and digest know nothing special about it; what it does is its protocol's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from topology.overlay import BURSTS, Overlay


class Server(NamedTuple):
    """A server and its link."""

    name: str
    broker: str | int  # by name or number
    delay_ns: int
    jitter_ns: int = 0
    bandwidth_bps: int = 0  # 0 = unlimited
    loss: float = 0.0


def with_servers(overlay: Overlay, servers: Sequence[Server]) -> Overlay:
    """The overlay with these servers as its last nodes, in this order.

    Raises
    ------
    TopologyError
        If a server's broker does not exist, or a figure of its link is out of range.
    """
    if not servers:
        return overlay
    first = overlay.nodes
    at = np.array([overlay.broker(server.broker) for server in servers], np.int32)
    link_a = np.concatenate([overlay.link_a, at])
    link_b = np.concatenate([overlay.link_b, first + np.arange(len(servers), dtype=np.int32)])
    order = np.lexsort((link_b, link_a))

    def column(known: np.ndarray, field: str) -> np.ndarray:
        added = np.array([getattr(server, field) for server in servers], known.dtype)
        return np.concatenate([known, added])[order]

    return replace(
        overlay,
        names=overlay.names + tuple(server.name for server in servers),
        position=np.concatenate([overlay.position, np.full((len(servers), 2), np.nan)]),
        link_a=link_a[order].astype(np.int32),
        link_b=link_b[order].astype(np.int32),
        delay_ns=column(overlay.delay_ns, "delay_ns"),
        jitter_ns=column(overlay.jitter_ns, "jitter_ns"),
        bandwidth_bps=column(overlay.bandwidth_bps, "bandwidth_bps"),
        loss=column(overlay.loss, "loss"),
        bursts=_bursts_with(overlay, len(servers), order),
        latent=_latent_with(overlay, len(servers), order),
        servers=len(servers),
    )


def _bursts_with(overlay: Overlay, servers: int, order: np.ndarray) -> np.ndarray | None:
    """Those of the links between brokers; a server's link has none."""
    if overlay.bursts is None:
        return None
    return np.asarray(np.concatenate([overlay.bursts, np.zeros((servers, BURSTS))])[order])


def _latent_with(overlay: Overlay, servers: int, order: np.ndarray) -> np.ndarray | None:
    if overlay.latent is None:
        return None
    return np.asarray(np.concatenate([overlay.latent, np.zeros(servers, np.bool_)])[order])


def without_servers(overlay: Overlay) -> Overlay:
    """The brokers and the links between them."""
    if not overlay.servers:
        return overlay
    brokers = overlay.brokers
    kept = overlay.link_b < brokers  # the higher end of a server's link is the server
    columns = ("link_a", "link_b", "delay_ns", "jitter_ns", "bandwidth_bps", "loss")
    return replace(
        overlay,
        names=overlay.names[:brokers],
        position=overlay.position[:brokers],
        servers=0,
        bursts=None if overlay.bursts is None else overlay.bursts[kept],
        latent=None if overlay.latent is None else overlay.latent[kept],
        **{name: getattr(overlay, name)[kept] for name in columns},
    )
