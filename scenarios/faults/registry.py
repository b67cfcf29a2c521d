"""Names of faults: plain strings, so that listing imports nothing.

A new fault is one class and one line here. Its `Params` are the keys of its entry, and `schedule()` gives the faults.
"""

from __future__ import annotations

from brokers.registry import Entry

FAULTS: dict[str, Entry] = {
    "crash": Entry("scenarios.faults.single:CrashOf", "brokers are down for a time or for good, and may forget"),
    "open": Entry("scenarios.faults.single:OpenOf", "a latent link carries messages for a time or for good"),
    "pause": Entry("scenarios.faults.single:PauseOf", "brokers do nothing for a time, and go on where they were"),
    "slow": Entry("scenarios.faults.single:SlowOf", "brokers take several times as long"),
    "cut": Entry("scenarios.faults.single:CutOf", "links carry nothing, in both directions or in one"),
    "degrade": Entry("scenarios.faults.single:DegradeOf", "links lose or double messages, are slower or thinner"),
    "outage": Entry("scenarios.faults.places:OutageOf", "a region, or all around a place, crashes or is cut off"),
    "isolate": Entry("scenarios.faults.single:IsolateOf", "all links of brokers are cut, so that each is alone"),
    "partition": Entry("scenarios.faults.single:PartitionOf", "sets of brokers cannot reach one another"),
    "halves": Entry("scenarios.faults.drawn:HalvesOf", "the network falls into two drawn halves"),
    "random": Entry("scenarios.faults.drawn:RandomOf", "crashes, cuts or pauses at random, by rate and within limits"),
    "rolling-restart": Entry("scenarios.faults.drawn:RollingOf", "brokers go down and up one after the other"),
    "flapping": Entry("scenarios.faults.drawn:FlappingOf", "a link goes down and up again and again"),
    "swizzle-clog": Entry("scenarios.faults.drawn:SwizzleOf", "links are cut one by one, and healed in another order"),
    "cascade": Entry("scenarios.faults.drawn:CascadeOf", "brokers fall and take neighbours with them"),
}
