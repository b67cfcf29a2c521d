"""What the kind `content` is made of."""

from brokers.kinds import KindManifest
from brokers.registry import Entry
from protocols.gossip.manifest import GOSSIP
from protocols.practice.manifest import PRACTICE

_RECOVERS = "recovers with the option recover"

CONTENT = KindManifest(
    name="content",
    prose="ranges over numeric attributes: a publication reaches everyone whose ranges hold it",
    kind="protocols.content.kind:Content",
    question="content-match",
    default_index="cells",
    audit_rule="protocols.content.audit:ContentRule",
    rehearsal="protocols.content.rehearsal:script",
    replay="protocols.content.replay:ContentForm",
    warm="brokers.indexes.content.warm:warm",
    protocols={
        "flooding": Entry(
            "protocols.content.flooding:Flooding",
            "every publication to every broker, which matches for its own clients; duplicates suppressed on cycles",
            {"under_faults": _RECOVERS},
        ),
        "subscription": Entry(
            "protocols.content.subscription:Subscription",
            "subscriptions travel to the brokers, publications follow the reverse paths",
            {"under_faults": _RECOVERS},
        ),
        "covering": Entry(
            "protocols.content.covering:Covering",
            "as subscription, but a subscription that a forwarded one covers stays behind",
            {"under_faults": _RECOVERS},
        ),
        "merging": Entry(
            "protocols.content.merging:Merging",
            "as covering, and what fits together goes over a link as one; exactly, or with a bound on waste",
            {"under_faults": _RECOVERS},
        ),
        "leases": Entry(
            "protocols.content.leases:Leases",
            "subscriptions everywhere, as entries that run out unless they are renewed; whatever was spoilt heals",
            {"under_faults": "recovers"},
        ),
        "reliable": Entry(
            "protocols.content.reliable:Reliable",
            "a log where it is published, knowledge and curiosity downstream: once, in order, through crashes and loss",
            {"under_faults": "reliable"},
        ),
        "neighbourhood": Entry(
            "protocols.content.neighbourhood:Neighbourhood",
            "as reliable, and goes on at once past up to δ brokers in a row that are down, over links that arise",
            {"under_faults": "reliable"},
        ),
        "rendezvous": Entry(
            "protocols.content.rendezvous:Rendezvous",
            "publications and subscriptions meet on the way to a hub, of several, chosen by a hash of a value",
        ),
        "advertising": Entry(
            "protocols.content.advertising:Advertising",
            "as subscription, but only towards publishers that advertise something of it",
            {"under_faults": _RECOVERS},
        ),
        "advertising-covering": Entry(
            "protocols.content.advertising:AdvertisingCovering",
            "as covering, but only towards publishers that advertise something of it",
            {"under_faults": _RECOVERS},
        ),
        "trees": Entry(
            "protocols.content.trees:Trees",
            "a tree for every advertisement, made by what came first; on cycles, and re-chosen by load where asked to",
            {"under_faults": _RECOVERS},
        ),
        **{name: PRACTICE[name] for name in ("cluster", "leaf", "bridges")},
        **{name: GOSSIP[name] for name in ("plumtree", "hyparview-flooding")},
    },
    workloads={
        "publish": Entry(
            "protocols.content.publish:Publish",
            "clients publish messages with attribute values: constant, Poisson or in bursts",
        ),
        "subscribe": Entry(
            "protocols.content.subscribe:Subscribe",
            "clients subscribe to ranges of attribute values, and may replace them or leave and join",
        ),
        "advertise": Entry(
            "protocols.content.advertise:Advertise",
            "clients advertise ranges in which their publications will lie, and may replace them or leave and join",
        ),
    },
)
