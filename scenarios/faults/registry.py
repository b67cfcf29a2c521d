"""Names of faults: plain strings, so that listing imports nothing.

A new fault is one class and one line here. Its `Params` are the keys of its entry, and `schedule()` gives the faults.
"""

from __future__ import annotations

from brokers.registry import Entry

FAULTS: dict[str, Entry] = {
    "crash": Entry("scenarios.faults.single:CrashOf", "brokers are down for a time or for good; they keep their state"),
    "pause": Entry("scenarios.faults.single:PauseOf", "brokers do nothing for a time, and go on where they were"),
    "slow": Entry("scenarios.faults.single:SlowOf", "brokers take several times as long"),
    "cut": Entry("scenarios.faults.single:CutOf", "links carry nothing, in both directions or in one"),
    "degrade": Entry("scenarios.faults.single:DegradeOf", "links lose more, take longer, or have less bandwidth"),
    "partition": Entry("scenarios.faults.single:PartitionOf", "sets of brokers cannot reach one another"),
}
