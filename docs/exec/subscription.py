#!/usr/bin/env python3
"""Subscription forwarding on trees, for the kind `content`, as a program: JSON on standard input and output.

A subscription goes to every broker, and each notes where it came from. A publication goes to where one that it
answers came from.
"""

import json
import sys

PUBLISH, SUBSCRIBE, UNSUBSCRIBE = 0, 1, 2
CLIENT = -1  # in place of a link
HELLO = {"hello": 1, "kind": "content", "trees_only": True, "settled": True, "state": True, "describe": True}


class Broker:
    def __init__(self, links):
        self.links = links  # by neighbour
        self.known = {}  # subscription -> (the link it came over, its client if that is here, its ranges)

    def learn(self, id, link, client, row):
        self.known[id] = link, client, [row[i : i + 3] for i in range(0, len(row), 3) if row[i] is not None]

    def handle(self, event, act):
        n, link, id = event["n"], event["link"], event["word"]
        if event["type"] == PUBLISH:
            answered = [
                (came, client) for came, client, ranges in self.known.values()
                if (came == CLIENT or came != link) and matches(event["body"], ranges)
            ]  # fmt: skip
            wanted = {came for came, _ in answered}
            act += [["forward", n, other] for other in self.links if other in wanted]
            act += [["deliver", n, client] for client in sorted({c for came, c in answered if came == CLIENT})]
            act.append(["work", n, len(self.known), len(answered)])
            return
        if event["type"] == SUBSCRIBE and id not in self.known:
            self.learn(id, link, event["client"], event["body"])
        elif event["type"] == UNSUBSCRIBE and id in self.known and self.known[id][0] == link:
            del self.known[id]
        else:
            return
        act += [["forward", n, other] for other in self.links if other != link]
        act.append(["entries", n, len(self.known)])


def matches(values, ranges):
    return all(values[int(a)] is not None and low <= values[int(a)] <= high for a, low, high in ranges)


def towards(home, links):
    """By broker, its link towards another; CLIENT there."""
    found, reached = {home: CLIENT}, [home]
    for broker in reached:
        for number, (source, target, _) in enumerate(links):
            if source == broker and target not in found:
                found[target] = number ^ 1  # the way back
                reached.append(target)
    return found


def answer(frame, brokers, network):
    if "events" in frame:
        act = []
        for event in frame["events"]:
            brokers[event["broker"]].handle(event, act)
        return {"actions": act}
    if "hello" in frame:
        return HELLO
    if "begin" in frame:
        network[:] = frame["begin"]["links"]
        brokers.update({int(b): Broker(links) for b, links in frame["begin"]["brokers"].items()})
    for id, client, home, row in frame.get("stand", ()):  # subscriptions that are there from the start
        for b, link in towards(home, network).items():
            if b in brokers:
                brokers[b].learn(id, link, client if b == home else -1, row)
    if "state" in frame:
        return {"state": {b: list(broker.known.items()) for b, broker in brokers.items()}}
    for b, known in frame.get("load", {}).items():
        brokers[int(b)].known = {id: tuple(entry) for id, entry in known}
    if "describe" in frame:
        return {"describe": {"subscriptions": len(brokers[frame["describe"]].known)}}
    return {}


if __name__ == "__main__":
    brokers, network = {}, []
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), brokers, network)), flush=True)
