"""What the kind `channels` is made of."""

from brokers.kinds import KindManifest
from brokers.registry import Entry

CHANNELS = KindManifest(
    name="channels",
    prose="geographic queries to a server, which merges them and answers each of them periodically",
    kind="protocols.channels.kind:Channels",
    audit_rule="protocols.channels.audit:ChannelsRule",
    judge="protocols.channels.judge:judge",
    explains="protocols.channels.explaining:ChannelsExplained",
    rehearsal="protocols.channels.rehearsal:script",
    replay="protocols.channels.replay:ChannelsForm",
    warm="brokers.planning.warm:warm",
    protocols={
        "channels": Entry(
            "protocols.channels.channels:Channels",
            "a server plans, answers on channels along trees of the overlay, clients sift: unicast to merged to "
            "channels",
        ),
    },
    workloads={
        "map-queries": Entry(
            "protocols.channels.map_queries:MapQueries",
            "clients ask for boxes on a map, around hot spots or anywhere; boxes move, clients leave and join",
        ),
    },
)
