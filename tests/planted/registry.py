"""The planted bugs: which there are, the class that has each and the one without it, and a minimal setting.

Numbers, and the threads in which somebody met the bug, are those of the list of public bug reports that this corpus
follows. What is checked goes by letters: M a forced delivery is missing, R that after healing, D a duplicate, W waste,
L a leak, Q not quiet, B the message budget, S what two neighbours believe of each other, P publications that go on to
be dropped in front of a full queue.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.contract import BrokerProtocol
from brokers.faults import KEPT, LOST, NEVER, Crash, Cut, Schedule
from tests.planted import announcing, bridges, clusters, counting, gossip, lives, meshes, slow
from tests.planted.settings import (
    MS,
    Check,
    Setting,
    endless,
    late,
    left,
    missing,
    one_sided,
    over_budget,
    pressing,
    too_many,
    twice,
    waste,
)

TREES, ALL, MESHES, ITS_OWN = "trees", "all", "meshes", "that of the setting"


@dataclass(frozen=True)
class Planted:
    """One bug."""

    number: str
    name: str
    thread: str
    wrong: type[BrokerProtocol]
    right: type[BrokerProtocol]
    needs: tuple[str, ...]  # of "faults", "detect", "cycles", "roles", "queues", "timers"
    checks: dict[str, Check]  # each of which shows the bug in the setting, by its letter
    setting: Setting
    overlays: str  # on which the right one promises something, whatever clients do


def crash(broker: int, begin_ms: float, end_ms: float | None, state: int = LOST) -> Crash:
    return Crash(broker, int(begin_ms * MS), NEVER if end_ms is None else int(end_ms * MS), state)


def cut(link: int, begin_ms: float, end_ms: float | None) -> tuple[Cut, Cut]:
    """Of an undirected link, by its number, in both directions."""
    end = NEVER if end_ms is None else int(end_ms * MS)
    return Cut(2 * link, int(begin_ms * MS), end), Cut(2 * link + 1, int(begin_ms * MS), end)


def failing(*faults: Crash | Cut, detect_ms: float = 10) -> Schedule:
    return Schedule(faults, int(detect_ms * MS))


PAIR = ((0, 1),)
LINE = ((0, 1), (1, 2))
RING = ((0, 1), (0, 2), (1, 2))

PLANTED = (
    Planted(
        "1", "snapshot without learned interest", "nats-server#2448",
        counting.SnapshotOfClients, counting.Counting, ("faults",), {"R": missing, "S": one_sided},
        Setting(LINE, (0, 2), ((10, 0, "+"), (200, 1, "!")), failing(crash(2, 50, 100)), 1), ALL,
    ),
    Planted(
        "2", "withdrawal overtakes", "nats-server#8233",
        counting.OvertakenWithdrawal, counting.LateWithdrawal, ("timers",), {"M": missing},
        Setting(PAIR, (0, 1), ((10, 0, "+"), (50, 0, "-"), (50.5, 0, "+"), (100, 1, "!"))), ALL,
    ),
    Planted(
        "3", "snapshot before registration", "nats-server#138",
        counting.SnapshotFirst, counting.Counting, ("faults", "detect", "timers"), {"M": missing},
        Setting(PAIR, (0, 1), ((110.5, 0, "+"), (200, 1, "!")), failing(crash(1, 50, 100, KEPT)), 1), ALL,
    ),
    Planted(
        "3b", "subscribed twice", "nats-server#136",
        counting.SubscribedTwice, counting.Adding, ("faults", "detect", "timers"),
        {"L": left, "S": one_sided, "W": waste},
        Setting(PAIR, (0, 1), ((110.5, 0, "+"), (150, 0, "-"), (200, 1, "!")), failing(*cut(0, 50, 100)), 1), ALL,
    ),
    Planted(
        "4", "group restored as one", "nats-server#6607",
        counting.RestoredAsOne, counting.Weighing, ("faults",), {"M": missing},
        Setting(
            PAIR, (0, 0, 1), ((10, 0, "+"), (20, 1, "+"), (150, 0, "-"), (200, 2, "!")), failing(crash(1, 50, 100)), 1
        ), ALL,
    ),
    Planted(
        "5", "loop through groups", "nats-server#2163",
        clusters.AnyMember, clusters.Grouped, ("faults",), {"B": endless},
        Setting(
            PAIR, (0, 1), ((10, 0, "+"), (20, 1, "+"), (60, 0, "-"), (60, 1, "-"), (200, 0, "!")),
            Schedule(cut(0, 50, 100)), 1,
        ), MESHES,
    ),
    Planted(
        "6", "origin lost over a hop", "nats-server#8339",
        bridges.TagLost, bridges.Tagged, ("cycles", "roles"), {"D": twice},
        Setting(((0, 1), (0, 2), (1, 3), (2, 3)), (0, 1), ((10, 1, "+"), (50, 0, "!"))), ITS_OWN,
    ),
    Planted(
        "7", "false loop alarm", "nats-server#2066",
        lives.FalseAlarm, lives.Marking, ("faults", "detect", "cycles"), {"R": missing},
        Setting(
            RING, (2, 1), ((10, 0, "+"), (200, 1, "!")), failing(*cut(2, 0, 100), *cut(1, 100, None)), 2
        ), TREES,  # on cycles too while nothing fails; with faults there, leaves can end up in a ring
    ),
    Planted(
        "8", "spoke that is also hub", "nats-server#4207",
        counting.ClientsOnly, counting.Counting, ("roles",), {"M": missing},
        Setting(LINE, (2, 0), ((10, 0, "+"), (50, 1, "!"))), ALL,
    ),
    Planted(
        "9", "mode not told to late joiner", "nats-server#977",
        announcing.ModeOnce, announcing.TellingMode, ("faults", "detect", "roles"), {"M": missing},
        Setting(
            PAIR, (0, 1), ((20, 0, "!"), (150, 1, "+"), (200, 0, "!")), failing(crash(1, 1, 100)), 1
        ), MESHES,
    ),
    Planted(
        "10", "dangling node", "emqx#17036",
        clusters.PurgingOnce, clusters.RefusingStrangers, ("faults", "detect"), {"L": left, "W": waste},
        Setting(
            PAIR, (0, 1), ((49, 1, "+"), (200, 0, "!")), failing(crash(1, 50, None), detect_ms=2), 1, delay_ms=5
        ), MESHES,
    ),
    Planted(
        "11", "heal keeps one side's table", "emqx-docs#3631",
        clusters.TakingOver, clusters.Healing, ("faults", "detect"), {"R": missing, "S": one_sided},
        Setting(RING, (0, 1), ((75, 0, "+"), (200, 1, "!")), failing(*cut(0, 50, 100), *cut(1, 50, 100)), 1), MESHES,
    ),
    Planted(
        "12", "stale read before insert", "emqx#12243",
        clusters.StaleRead, clusters.Core, (), {"M": missing},
        Setting(PAIR, (1, 0), ((10, 0, "+"), (50, 0, "-"), (50.5, 0, "+"), (100, 1, "!"))), MESHES,
    ),
    Planted(
        "13a", "bridge without echo rule", "vernemq#753",
        bridges.Echoing, bridges.Bridge, (), {"B": endless},
        Setting(PAIR, (0,), ((10, 0, "!"),)), ALL,
    ),
    Planted(
        "13b", "echo rule at the hub only", "emqx#4619",
        bridges.EchoingSpokes, bridges.Bridge, ("roles",), {"D": twice, "B": over_budget},
        Setting(PAIR, (0,), ((10, 0, "+"), (50, 0, "!"))), ALL,
    ),
    Planted(
        "13c", "echo rule on a ring", "mosquitto#1263",
        bridges.PerConnection, bridges.Bridge, ("cycles",), {"B": endless},
        Setting(RING, (0,), ((10, 0, "!"),)), ALL,
    ),
    Planted(
        "13d", "declared at both ends", "mosquitto#204",
        bridges.BothDeclared, bridges.Bridge, (), {"D": twice, "B": over_budget},
        Setting(PAIR, (0, 1), ((10, 1, "+"), (50, 0, "!"))), ALL,
    ),
    Planted(
        "14", "two exits", "zenoh#409",
        bridges.TwoExits, bridges.OneExit, ("cycles", "roles"), {"D": twice},
        Setting(RING, (0, 2), ((10, 1, "+"), (50, 0, "!"))), MESHES,
    ),
    Planted(
        "16", "list of members only grows", "zenoh#2089",
        announcing.NeverForgotten, announcing.Members, ("faults", "detect"), {"L": too_many},
        Setting(LINE, (0,), ((200, 0, "!"),), failing(crash(2, 30, 60), crash(2, 90, 120)), 2), ALL,
    ),
    Planted(
        "17", "one copy more per restart", "zenoh-plugin-ros2dds#570",
        lives.OneCopyPerLife, lives.Incarnations, ("faults",), {"D": twice},
        Setting(PAIR, (1, 0), ((10, 0, "+"), (200, 1, "!")), failing(crash(1, 50, 100)), 1), ALL,
    ),
    Planted(
        "18", "storm on a ring of three", "DDS-Router#548",
        announcing.AnnouncedAsOwn, announcing.Announcing, ("cycles",), {"B": endless, "Q": endless},
        Setting(RING, (0,), ((10, 0, "+"),)), ALL,
    ),
    Planted(
        "19", "full queue, never pruned", "ethlambda#589",
        slow.Unscored, slow.Scoring, ("queues",), {"P": pressing},
        Setting(PAIR, (0,), ((10, 0, "!"), (20, 0, "!"), (45, 0, "!"), (70, 0, "!")), slow=(1,), room=1), ALL,
    ),
    Planted(
        "20", "one slow peer blocks all", "go-spacemesh#2647",
        bridges.Blocking, bridges.Dropping, ("queues",), {"M": late},
        Setting(
            ((0, 1), (0, 2)), (0, 2), ((10, 1, "+"), (50, 0, "!"), (51, 0, "!")), slow=(1,), duration_ms=400
        ), ALL,
    ),
    Planted(
        "22", "connected before the mesh", "js-libp2p-gossipsub#109",
        meshes.MeshFirst, meshes.MeshAndOthers, ("timers",), {"M": missing},
        Setting(PAIR, (0, 1), ((10, 0, "+"), (50, 1, "+"), (60, 0, "!"))), MESHES,
    ),
    Planted(
        "23", "back-pressure turns into discovery", "iroh-gossip#47",
        gossip.Rediscovering, gossip.Views, ("queues",), {"B": endless, "Q": endless},
        Setting(
            RING, (0,), ((1500, 0, "!"), (1500, 0, "!")), slow=(0, 1, 2), bits=20_000, room=1, duration_ms=2_000
        ), ALL,
    ),
    Planted(
        "24", "bounded book-keeping", "jvm-libp2p#513",
        slow.Bounded, slow.Pressing, ("queues",), {"P": pressing},
        Setting(
            ((0, 1), (0, 2)), (0,), ((10, 0, "!"), (20, 0, "!"), (45, 0, "!"), (70, 0, "!")), slow=(1, 2), room=1
        ), ALL,
    ),
    Planted(
        "21", "phantom neighbours", "nimbus-eth2#8687",
        gossip.Haunted, gossip.Counted, ("faults", "detect"), {"R": missing, "S": gossip.phantoms},
        Setting(
            PAIR, (0, 1), ((10, 0, "+"), (200, 1, "!")), failing(*cut(0, 50, 100)), 1
        ), ALL,
    ),
)  # fmt: skip

ABSENT = {
    "15": "next hops follow from tables here, so of its rule bug 1 is left; a test tries that in all 24 orders",
}  # fmt: skip
