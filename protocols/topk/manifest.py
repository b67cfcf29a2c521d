"""What the kind `topk` is made of."""

from brokers.kinds import KindManifest
from brokers.registry import Entry

TOPK = KindManifest(
    name="topk",
    prose="weighted partial matching: a publication reaches the k best-scoring filters of the whole network",
    kind="protocols.topk.kind:TopK",
    question="ranked-match",
    default_index="topk-sliced",
    audit_rule="protocols.topk.audit:TopKRule",
    judge="protocols.topk.judge:judge",
    explains="protocols.topk.explaining:TopKExplained",
    rehearsal="protocols.topk.rehearsal:script",
    replay="protocols.topk.replay:TopKForm",
    warm="brokers.indexes.topk.warm:warm",
    protocols={
        "topk-ingress": Entry(
            "protocols.topk.ingress:Ingress",
            "every broker knows every filter; the first broker stamps the recipients",
        ),
        "topk-gather": Entry(
            "protocols.topk.gather:Gather",
            "the question travels the tree, each subtree answers with its k best, a second pass delivers",
        ),
        "topk-bounded": Entry(
            "protocols.topk.bounded:Bounded",
            "as topk-gather, but branches whose bound is below the k-th score in hand are left out",
        ),
    },
    workloads={
        "rank-publish": Entry(
            "protocols.topk.ranked:RankPublish",
            "as publish, for topk: points or intervals, with the sender's weights or without, by region or everywhere",
        ),
        "rank-subscribe": Entry(
            "protocols.topk.ranked:RankSubscribe",
            "as subscribe, for topk: weighted filters, which may get other weights, by region or everywhere",
        ),
    },
)
