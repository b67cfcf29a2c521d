"""A program that does one thing wrong when it is first told of events, or before: its argument says which."""

import json
import os
import signal
import subprocess
import sys
import time

how = sys.argv[1]
hello = {"hello": 1, "kind": "content", "timer_min_ns": 5_000_000, "state": how.startswith("state"), "settled": True}
N, LINK = "n", "link"


def answered(said):
    """An answer as it should not be, for each way to be wrong that is one."""
    return {
        "no JSON": "{nonsense",
        "no object": "[1, 2]",
        "NaN": '{"actions": [["cost", NaN, 1]]}',
        "no actions": "{}",
        "more than actions": '{"actions": [], "more": 1}',
        "deep": "[" * 100_000,
        "two answers": '{"actions": []}\n{"actions": []}',
        "error": '{"error": "I know no such broker\\u001b[31m\\ud800"}',
        "an action that is none": {"actions": [["fly", 0]]},
        "no list": {"actions": ["forward"]},
        "too few arguments": {"actions": [["forward", 0]]},
        "unknown client": {"actions": [["deliver", 0, 10_000]]},
        "a client elsewhere": {"actions": [["deliver", 0, elsewhere(said["events"][0]["broker"])]]},
        "a link of another": {"actions": [["forward", 0, mine(said["events"][0]["broker"])[0] ^ 1]]},
        "no such link": {"actions": [["forward", 0, 999]]},
        "a link in words": {"actions": [["forward", 0, "7"]]},
        "a timer too short": {"actions": [["timer", 0, 4_999_999, 16]]},
        "another event": {"actions": [["forward", 77, 0]]},
        "a type too large": {"actions": [["send", 0, mine(said["events"][0]["broker"])[0], 128]]},
        "a word too large": {"actions": [["send", 0, mine(said["events"][0]["broker"])[0], 16, 2**64]]},
        "a body too large": {"actions": [["send", 0, mine(said["events"][0]["broker"])[0], 16, 0, [2**70]]]},
        "no row": {"actions": [["send_row", 0, mine(said["events"][0]["broker"])[0], 1, 0, ["x"]]]},
        "a negative cost": {"actions": [["cost", 0, -1]]},
    }[how]


def mine(broker):
    return begun["brokers"][str(broker)]


def elsewhere(broker):
    """A client of another broker: they are attached one after the other."""
    return broker + 1 if str(broker + 1) in begun["brokers"] else broker - 1


def misbehave(said):
    print(f"about to do it\nit is: {how}\nprocess {os.getpid()}", file=sys.stderr, flush=True)
    if how == "exit":
        sys.exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang for good":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "1000"])
        while True:
            time.sleep(1000)
    if how == "close":
        os.close(1)
        time.sleep(1000)
    if how == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if how == "chatter":
        sys.stderr.write("y" * 10_000_000)
        sys.stderr.flush()
        return {"actions": []}
    return answered(said)


if how == "silent":
    time.sleep(1000)
for line in sys.stdin:
    said = json.loads(line)
    told = {}
    if "hello" in said:
        told = {
            "says no JSON": "hello?", "of no kind": {"hello": 1}, "unknown key": {**hello, "flies": True},
            "another version": {**hello, "hello": 2}, "another kind": {**hello, "kind": "topk"},
        }.get(how, hello)  # fmt: skip
    elif "begin" in said:
        begun = said["begin"]
        if how == "wrong timers":
            told = {"timers": [[0, 1, 16]]}
        if how == "refuses options" and begun["options"]:
            told = {"error": "there is no option " + min(begun["options"])}
    elif "events" in said:
        told = misbehave(said)
    elif "state" in said:
        told = {"state": {"state no object": 3, "state of others": {"999": 1}}.get(how, begun["brokers"])}
    print(told if isinstance(told, str) else json.dumps(told), flush=True)
