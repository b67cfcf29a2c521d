"""Names of connections and mobility: plain strings, so that listing imports nothing.

A new one is one class and one line here. Its `Params` are the keys of its section; connections have `spans(client)`,
which gives the times in which a client is connected, mobility has `path(client)`, which gives its brokers.
"""

from __future__ import annotations

from brokers.registry import Entry

CONNECTIONS: dict[str, Entry] = {
    "sessions": Entry("scenarios.moving.connections:Sessions", "clients are on and off again and again"),
    "timetable": Entry("scenarios.moving.connections:Timetable", "all clients are connected at the times given"),
    "flash-crowd": Entry("scenarios.moving.connections:FlashCrowd", "many clients come at once, and leave again"),
}

MOBILITY: dict[str, Entry] = {
    "path": Entry("scenarios.moving.mobility:Path", "all clients go from broker to broker at the times given"),
    "itinerary": Entry("scenarios.moving.mobility:Itinerary", "each client goes where and when it is said for it"),
    "random-waypoint": Entry("scenarios.moving.mobility:RandomWaypoint", "each stays a while, then goes to another"),
    "commuters": Entry("scenarios.moving.mobility:Commuters", "every day from home to work and back"),
    "failover": Entry("scenarios.moving.mobility:Failover", "from brokers that crash to the nearest one up"),
}
