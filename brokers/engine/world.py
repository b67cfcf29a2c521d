"""The world of a shard as kernels see it: every array of its rooms in one record.

    world = World.of({**links.arrays(), **brokers.arrays(), ...})
    rows = gather(world, 0, end)

Each array belongs to a room, which keeps it in Python; the world only points to it, so both see what the other writes.
A room that outgrows an array makes a larger one, and then the world is made anew: no kernel ever replaces a field, so
a field taken into a local stays the array it was. Tables have the columns of `layout`.

Numba does not notice an edit in a file whose functions it has inlined elsewhere. The world's type carries a digest of
all such files, and every kernel that takes a world is compiled anew when one of them changes.
"""

from __future__ import annotations

from brokers.compiled import digest
from brokers.records import Record
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE, REALS_TABLE, TABLE, WORDS

_INLINED = (
    "layout.py", "rings.py", "latency.py", "heads.py", "gather.py", "bursts.py", "outages.py", "crowding.py",
    "settle.py", "carrying.py", "advance.py", "crossing.py", "meeting.py", "world.py",
    "../faults.py", "../limits.py", "../fingerprint.py", "../compiled.py", "../making.py", "../out.py",
    "../views.py", "../records.py",
)  # fmt: skip
_FIELDS = {
    # links
    "facts": TABLE,  # by directed link: delay, jitter, bandwidth, target, whether the target is local
    "link_state": TABLE,
    "loss_limit": WORDS,
    "bursts": TABLE,
    "loss_key": WORDS,
    "jitter_key": WORDS,
    "link_source": NARROW,
    "in_start": NARROW,  # links in_start[b] to in_start[b + 1], in the order of these, reach broker b
    "in_source": INTS,  # -1 where another shard carries it
    "in_delay": INTS,
    "posting": INTS,  # what there is to know of links that are described
    "lane_start": INTS,  # the same for rings: those of the links that reach a broker, then of its timers and its post
    "lane_ring": INTS,
    "lane_order": INTS,
    "rings": TABLE,
    "arena": TABLE,
    "arena_used": INTS,
    "ring_wanted": INTS,
    "outbox": TABLE,
    "outbox_used": INTS,
    "head_time": INTS,  # the winner tree over what comes next on rings and of clients
    "head_leaf": NARROW,
    "head_order": INTS,
    # brokers
    "broker_state": TABLE,
    "next_time": INTS,  # the earliest event known of, by broker
    "horizon": INTS,  # nothing more reaches a broker before it
    "frontier": INTS,  # everything before it was handled
    "local": FLAGS,
    "patience": INTS,
    "shortest_timer": INTS,
    # faults
    "faulty": FLAGS,  # whether there are any
    "downs_first": INTS,  # stretches in which brokers are down, those of b from downs_first[b] on
    "downs": TABLE,
    "forgets_first": INTS,  # after which they do not know what they knew
    "forgets": TABLE,
    "paces_first": INTS,  # in which they are slow
    "paces": TABLE,
    "cuts_first": INTS,  # in which directed links are cut
    "cuts": TABLE,
    "wear_first": INTS,  # and worn
    "wear": TABLE,
    # queues with so many places
    "limited": FLAGS,  # whether there are any; whether what has waited longest gives way; whether links wait;
    # whether brokers get their events one at a time; whether some are told of what finds no place in front of links
    "places_first": INTS,  # the places of broker b are those from places_first[b] on
    "done": INTS,  # when the last messages were done, a place each, in turn
    "done_at": INTS,
    "left": TABLE,  # when the last messages left over each link, likewise
    "left_at": INTS,
    "open_from": INTS,  # before when nothing comes by a link that waits
    "asked_from": INTS,
    "may_wait": INTS,  # bytes in front of a link
    "drops": TABLE,  # what found no place, until it is written down
    "drops_used": INTS,
    # inputs
    "inputs": TABLE,
    "input_at": INTS,
    "input_end": INTS,
    # services
    "cost_model": REALS_TABLE,
    "timer_min": TABLE,
    "drops_told": INTS,  # by service, how long after a drop in front of a link its broker is told; 0: it is not
    "charging": FLAGS,  # whether any service has a cost model
    "client_broker": NARROW,
    "moving": FLAGS,  # whether any client comes and goes
    "leaves": INTS,  # by client, from when on it is not there
    # bodies and causes
    "body_hash": WORDS,
    "body_size": INTS,
    "body_refs": INTS,
    "body_time": INTS,
    "causes": TABLE,
    "cause_key": INTS,
    # tallies
    "seconds": INTS,
    "histogram": TABLE,
    "totals": TABLE,
    # the batch
    "wide": TABLE,
    "narrow": NARROW_TABLE,
    "finish": INTS,
    "cost": INTS,
    "losses": TABLE,  # of the sends: which, and when they left
    "arrival": INTS,  # by send; -1 if it is lost
    "copies": INTS,  # how many arrive, where there are faults
    "send_number": INTS,
    "timer_number": INTS,
    "turns": TABLE,  # the brokers of a round
    "heap": TABLE,  # what holds something for the broker at hand
    "cut": INTS,  # how batches are cut, and where the engine is with it
    "course": INTS,  # how far compiled code is with the batch
    "answered": INTS,  # what handlers answered to it: how much, and what
    "send_event": INTS,
    "send_link": INTS,
    "send_detail": TABLE,  # empty where no handler says more than what events brought
    "timers": TABLE,
    "deliver_event": INTS,
    "deliver_client": INTS,
    "mine": INTS,  # by service, the address of what its handler takes as `mine`
    "desks": INTS,  # and of its desk
    "no_bodies": INTS,  # of what handlers deliver
}
World = Record(f"world {digest(__file__, *_INLINED)}", _FIELDS)
WorldType = Record  # as kernels that an earlier version left in the disk cache name the type of a world
