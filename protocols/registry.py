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
    "channels": Entry(
        "protocols.channels.kind:Channels",
        "geographic queries to a server, which merges them and answers each of them periodically",
        {"question": None, "default_index": None},
    ),
    "spatial": Entry(
        "protocols.spatial.kind:Spatial",
        "reverse top-k: an object reaches the subscriptions that have it among their k nearest by keyword",
        {"question": "reverse-topk", "default_index": "materialised"},
    ),
    "context": Entry(
        "protocols.context.kind:Context",
        "profiles over messages and changing contexts: a publication reaches everyone of whose profiles one holds",
        {"question": "context-filter", "default_index": "context-agile"},
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
    "channels": Entry(
        "protocols.channels.channels:Channels",
        "a server plans, answers on channels along trees of the overlay, clients sift: unicast to merged to channels",
        {"kind": "channels"},
    ),
    "spatial-flooding": Entry(
        "protocols.spatial.flooding:Flooding",
        "every object whole to every broker, which ranks for its own clients",
        {"kind": "spatial"},
    ),
    "spatial-keyword": Entry(
        "protocols.spatial.keyword:Keyword",
        "objects whole to the brokers where a subscription has one of their keywords",
        {"kind": "spatial"},
    ),
    "spatial": Entry(
        "protocols.spatial.summarised:Summarised",
        "heads of objects travel by keyword, their payloads only to where they may matter",
        {"kind": "spatial"},
    ),
    "context-edge": Entry(
        "protocols.context.edge:Edge",
        "context updates travel to the homes of profiles that name them; publications follow the static parts",
        {"kind": "context"},
    ),
    "context-replicated": Entry(
        "protocols.context.replicated:Replicated",
        "context updates travel to every broker that filters on them, which drops what no profile wants",
        {"kind": "context"},
    ),
    "context-escalated": Entry(
        "protocols.context.escalated:Escalated",
        "neighbours hold a widened range of a context value, and hear only of what leaves it",
        {"kind": "context"},
    ),
}
