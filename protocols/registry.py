"""Service kinds and protocols by name."""

from brokers.registry import Entry

KINDS: dict[str, Entry] = {
    "content": Entry(
        "protocols.content.kind:Content",
        "ranges over numeric attributes: a publication reaches everyone whose ranges hold it",
        {"question": "content-match", "default_index": "cells"},
    ),
    "topk": Entry(
        "protocols.topk.kind:TopK",
        "weighted partial matching: a publication reaches the k best-scoring filters of the whole network",
        {"question": "ranked-match", "default_index": "topk-sliced"},
    ),
}

PROTOCOLS: dict[str, Entry] = {
    "flooding": Entry(
        "protocols.content.flooding:Flooding",
        "every publication to every broker, which matches for its own clients; duplicates suppressed on cycles",
        {"kind": "content"},
    ),
    "subscription": Entry(
        "protocols.content.subscription:Subscription",
        "subscriptions travel to the brokers, publications follow the reverse paths",
        {"kind": "content"},
    ),
    "covering": Entry(
        "protocols.content.covering:Covering",
        "as subscription, but a subscription that a forwarded one covers stays behind",
        {"kind": "content"},
    ),
    "topk-ingress": Entry(
        "protocols.topk.ingress:Ingress",
        "every broker knows every filter; the first broker stamps the recipients",
        {"kind": "topk"},
    ),
    "topk-gather": Entry(
        "protocols.topk.gather:Gather",
        "the question travels the tree, each subtree answers with its k best, a second pass delivers",
        {"kind": "topk"},
    ),
    "topk-bounded": Entry(
        "protocols.topk.bounded:Bounded",
        "as topk-gather, but branches whose bound is below the k-th score in hand are left out",
        {"kind": "topk"},
    ),
}
