"""Mutants that nobody can find, by id, each with the reason why not.

A reason says why no run of any model differs; what merely costs time or memory is of these, what delivers right and
sends more is not.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    # brokers/tables.py, InterestStore.learn_all
    "d0b523cf": "what is not current, `is_known` tells handlers, which leave it to `handle`, which learns it: time",
    # protocols/routes.py, order_key
    "1cafcff3": "a key that is only sorted by, place in the tree before client; clients are below 2**32 either way",
    # protocols/routes.py, Routes.words
    "40de91b9": "one word more where the links are a multiple of 64; no link has a bit in it",
    # protocols/context/holding.py, Holding.push
    "8c973e3f": "the number only tells apart what has one time and rank, by which came first; it goes up as before",
    # protocols/spatial/known.py, Known.record
    "4ee69c06": "the record follows its columns at every call in place of only after one was replaced: time",
    # protocols/spatial/shard.py, RankingShard.prepare
    "5d844f4c": "what was not made ready, the compiled handler leaves to `handle`, which does the same: time",
    # protocols/content/covering.py, Covering._learn
    "703b7e86": "fills rows of slots that nobody has; a slot that is given gets its row written in the next lines",
    # protocols/topk/snapshots.py, Snapshots.hear
    "d92e8cc2": "refuses a broker number that no shard says; a broker that is there passes before and after",
    # protocols/context/shared.py, Shared.learn
    "59a9c352": "a counter that nothing but a test reads",
    # protocols/context/ranges.py, Ranges.__init__
    "421e2877": "a room of 65 is taken down to the power of two below it, which is the 64 that it was",
    # protocols/context/asides.py, Asides.__init__
    "cdae0429": "the first room of arrays that grow when they are full",
    # protocols/topk/snapshots.py, Snapshots._tidy
    "8eb310a4": "snapshots that no message brings any more are held on: memory, and nobody reads them",
    # protocols/topk/spread_filters.py, SpreadFilters._version
    "ae2da7a4": "a version that is there already is made once more, with the same numbers: memory",
    # protocols/content/subscription.py, named
    "7a5abc7a": "names a link in what brokers tell people of themselves; nothing goes by it",
    # protocols/content/resync.py, recovery_of
    "f0dc1972": "states a longer time than recovering takes: a weaker promise, and the same runs",
    # protocols/spatial/sharing.py, Sharing.late_matches
    "c9734379": "asked by protocols of this kind that keep interests in `node.table`; of those built in none does",
    # protocols/spatial/sharing.py, Sharing.delete
    "847a23b9": "asked by protocols of this kind that keep interests in `node.table`; of those built in none does",
    # protocols/context/common.py, ContextBroker.lean
    "41d27506": "no change has the number 0: the upper half is the client's entity, and those of brokers come first",
    # protocols/content/resync.py, Recovers._without_what_is_not_said
    "22d3c09d": "which options the id of a run is made of; what runs is the same",
    # protocols/topk/asking.py, Asking._make
    "efdff906": "a body that was just made is read again when it comes, and says the same: time",
    # protocols/content/subscription.py, Subscription.tidy
    "f69fc154": "a withdrawal takes the bits back link by link, and a slot is given up only after: it has none left",
    # brokers/tables.py, InterestStore.__init__
    "9beb90e2": "an array of two numbers in place of one, of which the first alone is ever read or written",
    # protocols/spatial/summarised_shard.py, SummarisedShard.__init__
    "abfed892": "the next call of the same function asks for the record, which sets the number of axes anew",
    # protocols/context/escalated.py, PlainEscalated.__init__
    "6341c545": "what brokers tell people of how often they widened begins at one; nothing goes by it",
    # protocols/channels/answers.py, body_of and received
    "c89f55c3": "NumPy takes any negative number for the side of an array that follows from the others",
    "4dac5366": "NumPy takes any negative number for the side of an array that follows from the others",
    # protocols/topk/scored.py, Scored.late_matches
    "40967e76": "asked by protocols of this kind that keep interests in `node.table`; of those built in none does",
    # protocols/channels/channels.py, Channels.load
    "74b0043c": "refuses what no run wrote into a checkpoint; what a run wrote is read the same in the next lines",
}
