"""What the kind `rooms` is made of."""

from brokers.kinds import KindManifest
from brokers.metrics import Metric, Together
from brokers.registry import Entry

ROOMS = KindManifest(
    name="rooms",
    prose="rooms along a corridor: what is said in one is heard in all that are near enough",
    kind="rooms.kind:Rooms",
    audit_rule="rooms.audit:RoomsRule",
    judge="rooms.judge:judge",
    rehearsal="rooms.rehearsal:script",
    protocols={"rooms-tell": Entry("rooms.tell:Tell", "all brokers of a tree know who is where")},
    workloads={
        "stroll": Entry("rooms.workload:Stroll", "clients enter rooms, move on and leave"),
        "talk": Entry("rooms.workload:Talk", "clients say something in a room"),
    },
    metrics=(
        Metric(
            "walls.mean", Together.APART, "walls between who spoke and who heard it, in the mean",
            measure="rooms.measures:walls", reads={"heard": ("walls",)},
        ),
        Metric(
            "heard.far", Together.SUM, "what was heard through two walls or more",
            measure="rooms.measures:far", reads={"heard": ("walls",)},
        ),
    ),
)  # fmt: skip
