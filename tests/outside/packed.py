"""The example in Python (its path is the argument), which asks for msgpack behind its length."""

import importlib.util
import json
import sys

import msgpack

found = importlib.util.spec_from_file_location("example", sys.argv[1])
example = importlib.util.module_from_spec(found)
found.loader.exec_module(example)
json.loads(sys.stdin.buffer.readline())
print(json.dumps({**example.HELLO, "format": "msgpack"}), flush=True)
brokers, network = {}, []
while head := sys.stdin.buffer.read(4):
    frame = msgpack.unpackb(sys.stdin.buffer.read(int.from_bytes(head, "big")))
    told = msgpack.packb(json.loads(json.dumps(example.answer(frame, brokers, network))))  # keys are texts
    sys.stdout.buffer.write(len(told).to_bytes(4, "big") + told)
    sys.stdout.buffer.flush()
