"""Losses in bursts: as many and as long as Gilbert and Elliott have them, in every way of running."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import NEVER, ON_LINK, Schedule, Worn
from protocols.conformance import REHEARSALS, check_digests, rehearse
from scenarios.loader import loads
from scenarios.plan import resolve

ONE_WAY = """
duration: 200 s
topology: {{kind: line, nodes: 2}}
links: {{delay: 1 ms{more}}}
clients: {{all: {{count: 2, placement: {{kind: explicit, brokers: [0, 1]}}}}}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 1
    subscriptions: settled
    workload:
      - {{source: subscribe, constraints: 1, width: 1}}
      - {{source: publish, rate: 100/s}}
"""


def went(model: Any) -> list[bool]:
    """Of each message over the link from the first broker to the second, in order: whether it was lost."""
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables = traces.tables()
    hops, losses = tables["hops"], tables["losses"]
    assert set(losses["reason"].tolist()) <= {ON_LINK}
    lost = set(losses["body"][losses["link"] == 0].tolist())
    sent = (hops["broker"] == 0) & (hops["link"] < 0) & (hops["kind"] == 1)
    order = np.lexsort((hops["sequence"][sent], hops["time_ns"][sent]))
    return [body in lost for body in hops["body"][sent][order].tolist()]


BEGINS, ENDS = 0.02, 0.25


@pytest.mark.parametrize("how", ["of the link", "of a fault"])
@pytest.mark.parametrize(("bad", "good"), [(1.0, 0.0), (0.6, 0.01)])
def test_bursts_are_as_many_and_as_long_as_the_chain_says(how, bad, good):
    if how == "of the link":
        said = f", loss: {{begins: {BEGINS}, ends: {ENDS}, bad: {bad}, good: {good}}}"
        model = resolve(loads(ONE_WAY.format(more=said)))
    else:
        model = resolve(loads(ONE_WAY.format(more="")))
        worn = Worn(0, 0, NEVER, loss=good, begins=BEGINS, ends=ENDS, bad=bad)
        model = replace(model, faults=Schedule((worn,)))
    lost = went(model)
    count, share = len(lost), BEGINS / (BEGINS + ENDS)
    mean, memory = good + share * (bad - good), 1.0 - BEGINS - ENDS  # correlation of one message's state with the next
    spread = mean * (1 - mean) + 2 * (bad - good) ** 2 * share * (1 - share) * memory / (1 - memory)
    assert abs(sum(lost) / count - mean) < 4 * (spread / count) ** 0.5
    # Two losses in a row: both bad, with what either loses.
    both = sum(a and b for a, b in pairwise(lost)) / (count - 1)
    joint = mean**2 + (bad - good) ** 2 * share * (1 - share) * memory
    assert abs(both - joint) < 6 * (joint / count) ** 0.5
    if bad == 1.0 and good == 0.0:
        lengths = [len(list(run)) for gone, run in groupby(lost) if gone]
        assert abs(np.mean(lengths) - 1 / ENDS) < 4 * ((1 - ENDS) / ENDS**2 / len(lengths)) ** 0.5
        assert max(lengths) > 3 / ENDS


def test_the_first_message_finds_a_link_as_it_is_in_the_long_run():
    text = ONE_WAY.format(more=", loss: {begins: 20%, ends: 20%}")
    first = [went(resolve(loads(text, [f"seed={seed}", "duration=50 ms"]))) for seed in range(60)]
    assert 15 < sum(each[0] for each in first if each) < 45


def test_bursts_are_the_same_in_every_way_of_running():
    lossy = next(each for each in REHEARSALS if "loses" in each.name)
    model = rehearse(lossy, "subscription")
    overlay = model.overlay
    bursts = np.tile([0.1, 0.3, 0.01, 0.9], (overlay.links, 1))
    bursts[0] = 0.0  # one link has none
    model = replace(model, overlay=replace(overlay, bursts=bursts, loss=np.full(overlay.links, 0.23)))
    plain = replace(model, overlay=replace(model.overlay, bursts=None))
    assert simulate(model).digest != simulate(plain).digest
    assert check_digests(model) == []


def test_a_scenario_says_bursts_of_all_links_or_of_one():
    text = ONE_WAY.format(more=", loss: 1%, overrides: [{between: [0, 1], loss: {begins: 1%, ends: 20%, bad: 80%}}]")
    overlay = resolve(loads(text)).overlay
    assert overlay.bursts.tolist() == [[0.01, 0.2, 0.0, 0.8]]
    assert overlay.loss[0] == pytest.approx(0.01 * 0.8 / 0.21)
    text = ONE_WAY.format(more=", loss: {begins: 1%, ends: 20%}, overrides: [{between: [0, 1], loss: 2%}]")
    overlay = resolve(loads(text)).overlay
    assert overlay.bursts is None and overlay.loss.tolist() == [0.02]


def test_bursts_that_cannot_be_are_refused_where_they_stand():
    with pytest.raises(Exception, match=r"4:\d+: links.loss: `bad` loses more than `good`"):
        loads(ONE_WAY.format(more=", loss: {begins: 1%, ends: 20%, bad: 5%, good: 10%}"))
    with pytest.raises(Exception, match=r"links.loss.ends: is missing"):
        loads(ONE_WAY.format(more=", loss: {begins: 1%}"))
