"""What the kind `spatial` is made of."""

from brokers.kinds import KindManifest
from brokers.registry import Entry

SPATIAL = KindManifest(
    name="spatial",
    prose="reverse top-k: an object reaches the subscriptions that have it among their k nearest by keyword",
    kind="protocols.spatial.kind:Spatial",
    question="reverse-topk",
    default_index="materialised",
    audit_rule="protocols.spatial.audit:SpatialRule",
    judge="protocols.spatial.judge:judge",
    explains="protocols.spatial.explaining:SpatialExplained",
    rehearsal="protocols.spatial.rehearsal:script",
    replay="protocols.spatial.replay:SpatialForm",
    warm="brokers.indexes.spatial.warm:warm",
    protocols={
        "spatial-flooding": Entry(
            "protocols.spatial.shard:FloodingShard",
            "every object whole to every broker, which ranks for its own clients",
        ),
        "spatial-keyword": Entry(
            "protocols.spatial.keyword_shard:KeywordShard",
            "objects whole to the brokers where a subscription has one of their keywords",
        ),
        "spatial": Entry(
            "protocols.spatial.summarised_shard:SummarisedShard",
            "heads of objects travel by keyword, their payloads only to where they may matter",
        ),
    },
    workloads={
        "objects": Entry(
            "protocols.spatial.objects:Objects",
            "objects with a place, keywords and a payload, which last for a while, by region or everywhere",
        ),
        "object-subscribe": Entry(
            "protocols.spatial.objects:ObjectSubscribe",
            "as subscribe, for spatial: places and keywords, by region or everywhere",
        ),
    },
)
