"""Whether publications went on to be dropped in front of full queues: the judge `drops`, as figures of one run.

Asked of every protocol, since a run is no rehearsal: whether it should have relented is for the reader to say, unless
the protocol does. It makes no verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.dropping import stretches

if TYPE_CHECKING:
    from analysis.spark.trace import Service, Trace

WITHIN_NS = 1_000_000_000  # of protocols that do not say within what time they relent
_READ = ("link", "time_ns", "service", "type", "reason")


def of(trace: Trace, service: Service) -> dict[str, int] | None:
    """The longest stretch of drops in front of one link, and in front of how many there was one that lasted.

    None where nothing was dropped soon after something else, or no losses were written down.
    """
    if not trace.has("losses") or not trace.run.rows("losses") or not service.kind.publications:
        return None
    trace.run.check(["losses"])
    table = trace.run.read("losses", list(_READ))
    losses = {name: table[name].to_numpy() for name in _READ}
    within = getattr(service.protocol, "relents_ns", 0) or WITHIN_NS
    found = list(stretches(losses, service.kind, service.number, within))
    if not found:
        return None
    lasting = {each.link for each in found if each.end - each.begin > within}
    longest = max(found, key=lambda each: each.end - each.begin)
    return {"links": len(lasting), "longest_ns": longest.end - longest.begin, "publications": longest.drops}
