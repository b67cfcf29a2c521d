"""A new tree for values that have moved, decided in steps so that no change waits for it.

The source chooses attributes and cells once, offline. Where values move on, what comes lies in the outermost cells
or is too wide for any, and every event reaches it. So what comes is counted by cell, as the default index does
(`cells_drift`), and where it crowds all is decided anew from a sample: the positions, for what is held and for what is
to come while a quarter of it is replaced, then attributes, levels and cells by the rules of `htree_plan`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from brokers.indexes.content.cells_drift import ends_on, expected_ends
from brokers.indexes.content.contract import Floats
from brokers.indexes.content.htree_domain import Domain, Domains, polygon
from brokers.indexes.content.htree_plan import TreeShape, Wishes, choosing, sampled
from brokers.indexes.content.htree_store import SingleStore
from brokers.indexes.content.htree_tree import Slots

AHEAD = 0.5  # of half a replacement: what is to come until then has a place in the new cells
SAMPLE_ROWS, SAMPLE_EVENTS = 512, 32
_MOST = np.finfo(np.float64).max


def planned(
    store: SingleStore, some: Slots, recent: Slots, domain: Domains, wishes: Wishes
) -> Iterator[tuple[Domain, TreeShape] | None]:
    """Positions and shape for what is held, of which `some` are a sample and `recent` came last.

    In steps that take a fraction of a millisecond each; the last one yields both.
    """
    held = store.rows(some)
    yield None
    came = store.rows(recent)
    yield None
    attribute, ends, count = store.attribute[some], store.ends[some], len(store)
    polygons = [np.array([0.0, 1.0])] * store.attributes
    for a in np.unique(attribute[attribute >= 0]).tolist():
        polygons[a] = _ahead(domain, ends_on(held, a), ends_on(came, a))
        yield None
    positions = Domain(polygons)
    sample = sampled(attribute, ends, count, positions, None, SAMPLE_EVENTS)
    yield None
    for plan in choosing(sample, wishes):
        yield None if plan is None else (positions, plan)


def _ahead(domain: Domains, held: Floats, recent: Floats) -> Floats:
    """Knots for the ascending ends that are held, and for those to come."""
    if isinstance(domain, tuple):
        return np.array(domain)
    if not len(held):
        return np.array([0.0, 1.0])
    found = expected_ends(held, recent, AHEAD)
    return polygon(domain, held if found is None else np.clip(found[0], -_MOST, _MOST))
