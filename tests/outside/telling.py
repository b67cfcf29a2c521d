"""A program that uses all there is to do: floods a tree, with timers, bodies, words and rows of its own.

Every broker pings its neighbours every 7 ms with what it has counted; who is pinged sends the count back, in a row.
"""

import json
import sys

PUBLISH, SUBSCRIBE, UNSUBSCRIBE, TICK, PING, PONG, SORRY = 0, 1, 2, 16, 17, 18, 19
MS = 1_000_000
HELLO = {
    "hello": 1, "kind": "content", "trees_only": True, "timer_min_ns": 3 * MS, "state": True, "faults": True,
    "drops_told_ns": 3 * MS, "promises": {"fifo_per_publisher": False},
}  # fmt: skip


def act(event, mine, links, until):
    n, type_, link = event["n"], event["type"], event["link"]
    if event["kind"] == "dropped":
        assert link in links and event["client"] == -1 and event["word"] == 0, event
        mine["told"] += 1
        return [["send", n, link, SORRY, type_]] if type_ != SORRY else []
    if event["kind"] == "fault":
        mine["told"] += 1
        if type_ == 2 and event["word"] > 0:  # it is up again, and knows nothing
            mine.update(subscribers={}, counted=0)
            return [["timer", n, 7 * MS, TICK]]
        return []
    if type_ == TICK:
        mine["counted"] += 1
        said = {"count": mine["counted"], "by": event["broker"], "half": 0.5, "list": [None, True, "ü", 1e300]}
        again = [["timer", n, 7 * MS, TICK]] if event["time"] < until else []
        return [["send", n, other, PING, 2**60 + mine["counted"], said] for other in links] + again
    if type_ == PING:
        assert int(event["word"]) == 2**60 + event["body"]["count"], event
        return [["send_row", n, link, PONG, event["word"], [event["body"]["count"], None]], ["cost", n, 700]]
    if type_ == SORRY:
        return []
    if type_ == PONG:
        assert event["body"] == [int(event["word"]) - 2**60, None], event
        return []
    actions = [["forward", n, other] for other in links if other != link]
    if type_ == SUBSCRIBE and event["client"] >= 0:
        mine["subscribers"][str(event["word"])] = event["client"], event["body"]
    if type_ == UNSUBSCRIBE:
        mine["subscribers"].pop(str(event["word"]), None)
    if type_ == PUBLISH:
        values, wanted = event["body"], set()
        for client, row in mine["subscribers"].values():
            ranges = [row[i : i + 3] for i in range(0, len(row), 3) if row[i] is not None]
            if all(values[int(a)] is not None and low <= values[int(a)] <= high for a, low, high in ranges):
                wanted.add(client)
        actions += [["deliver", n, client] for client in sorted(wanted)]
    return actions


brokers = {}
for line in sys.stdin:
    said, told = json.loads(line), {}
    if "hello" in said:
        told = HELLO
    elif "begin" in said:
        links, until = {int(b): mine for b, mine in said["begin"]["brokers"].items()}, said["begin"]["duration_ns"]
        brokers = {b: {"subscribers": {}, "counted": 0, "told": 0} for b in links}
        told = {"timers": [[b, 7 * MS, TICK] for b in links]}
    elif "events" in said:
        told = {"actions": [a for e in said["events"] for a in act(e, brokers[e["broker"]], links[e["broker"]], until)]}
    elif "state" in said:
        told = {"state": brokers}
    elif "load" in said:
        brokers = {int(b): mine for b, mine in said["load"].items()}
    print(json.dumps(told), flush=True)
