"""Service kinds and protocols by name."""

from brokers.registry import Entry

KINDS: dict[str, Entry] = {
    "content": Entry(
        "protocols.content.kind:Content",
        "ranges over numeric attributes: a publication reaches everyone whose ranges hold it",
        {"question": "content-match", "default_index": "cells"},
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
}
