"""What the kind `topics` is made of."""

from brokers.kinds import KindManifest
from brokers.registry import Entry
from protocols.content.manifest import CONTENT
from protocols.gossip.manifest import GOSSIP
from protocols.practice.manifest import PRACTICE

_OF_CONTENT = (
    "flooding", "subscription", "covering", "leases", "reliable", "neighbourhood", "rendezvous", "advertising",
    "advertising-covering", "trees",
)  # fmt: skip

TOPICS = KindManifest(
    name="topics",
    prose="names with levels, as in MQTT and NATS: a publication reaches everyone with a filter that has its name",
    kind="protocols.topics.kind:Topics",
    question="topic-match",
    default_index="trie",
    audit_rule="protocols.topics.audit:TopicsRule",
    rehearsal="protocols.topics.rehearsal:script",
    replay="protocols.topics.replay:TopicsForm",
    warm="brokers.indexes.topics.warm:warm",
    judge="protocols.topics.judge:judge",
    protocols={
        **{name: CONTENT.protocols[name] for name in _OF_CONTENT},
        "topics": Entry(
            "protocols.topics.forwarding:Forwarding",
            "as subscription, with no-local, overlap, groups, and what is retained, which all brokers keep",
            {"under_faults": "recovers with the option recover"},
        ),
        **PRACTICE,
        **GOSSIP,
    },
    workloads={
        "topic-publish": Entry(
            "protocols.topics.publish:TopicPublish",
            "clients publish under the names of a tree of topics, some far more often than others",
        ),
        "topic-subscribe": Entry(
            "protocols.topics.subscribe:TopicSubscribe",
            "clients subscribe to names of a tree of topics, some with wildcards, and may replace them",
        ),
        "topic-advertise": Entry(
            "protocols.topics.advertise:TopicAdvertise",
            "clients advertise parts of a tree of topics under whose names they publish, and may replace them",
        ),
    },
)
