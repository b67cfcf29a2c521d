"""What the kind `context` is made of."""

from brokers.kinds import KindManifest
from brokers.registry import Entry
from protocols.content.manifest import CONTENT

CONTEXT = KindManifest(
    name="context",
    prose="profiles over messages and changing contexts: a publication reaches everyone of whose profiles one holds",
    kind="protocols.context.kind:Context",
    question="context-filter",
    default_index="context-agile",
    audit_rule="protocols.context.audit:ContextRule",
    judge="protocols.context.judge:judge",
    explains="protocols.context.explaining:ContextExplained",
    rehearsal="protocols.context.rehearsal:script",
    replay="protocols.context.replay:ContextForm",
    warm="brokers.indexes.context.warm:warm",
    protocols={
        "context-edge": Entry(
            "protocols.context.edge:Edge",
            "context updates travel to the homes of profiles that name them; publications follow the static parts",
        ),
        "context-replicated": Entry(
            "protocols.context.replicated:Replicated",
            "context updates travel to every broker that filters on them, which drops what no profile wants",
        ),
        "context-escalated": Entry(
            "protocols.context.escalated:Escalated",
            "neighbours hold a widened range of a context value, and hear only of what leaves it",
        ),
    },
    workloads={
        "publish": CONTENT.workloads["publish"],
        "context-profiles": Entry(
            "protocols.context.profiles:ContextProfiles",
            "as subscribe, for context: ranges around values of contexts, or around constants",
        ),
        "context-updates": Entry(
            "protocols.context.updates:ContextUpdates",
            "attribute values of contexts change by random walk or are drawn anew",
        ),
    },
)
