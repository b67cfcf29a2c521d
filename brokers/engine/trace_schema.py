"""The schema of the trace: every table and column, as data.

The Parquet files and the page docs/trace.md are both made from `TABLES`; a kind adds tables of its own by
handing the writer more of the same.

Rules:
- A *model table* is the same, as a set of rows, for every engine, number of actors and way of cutting
  batches. A *run table* tells how this run went and is compared with nothing.
- Times are int64 nanoseconds. There is no uint64 and no timestamp[ns]: Spark reads neither well.
- Integers that vary are DELTA_BINARY_PACKED, small ones dictionary coded, floats plain; zstd level 1.
  BYTE_STREAM_SPLIT would be some 10 % faster to write, but Spark 4.0 cannot read it.

`python -m brokers.engine.trace_schema docs/trace.md` brings the page up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from brokers.errors import InvalidInput
from brokers.schema import LEVELS, Column, Table

_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


_SERVICE = Column("service", "int16", "number of the service in the scenario")
_BROKER = Column("broker", "int32", "number of the broker")
_CLIENT = Column("client", "int64", "entity id of the client")
_PUBLICATION = Column("publication", "int64", "client entity id << 32 | number of its publication")
_TYPE = Column("type", "int8", "message type of the kind; of a timer, its type")
_BODY = Column("body", "int64", "name of the body the message carries (-1: none)")
_CAUSE = Column("cause", "int64", "the change that caused it (-1: none)")

TABLES: dict[str, Table] = {
    "publications": Table(
        "What was published, once per publication.",
        "deliveries",
        (
            _PUBLICATION,
            Column("time_ns", "int64", "when the client handed it to its broker"),
            _SERVICE,
            Column("broker", "int32", "broker of the publishing client"),
            _CLIENT,
            Column("size_bytes", "int32", "size on a link"),
            Column("values", "list<float64>", "numeric body as the kind defines it; NaN is missing"),
        ),
    ),
    "changes": Table(
        "What changed the right answers: subscriptions, and what else a kind calls a change.",
        "summary",
        (
            Column("change", "int64", "id of the change"),
            _SERVICE,
            Column("operation", "int8", "message type of the kind that asked for it"),
            Column("interest", "int64", "what it changes, e.g. the subscription id"),
            Column("broker", "int32", "broker of the client"),
            _CLIENT,
            Column("issued_ns", "int64", "when the client issued it"),
            Column("settled_ns", "int64", "when the last event it caused had been handled (-1: never)"),
            Column("revoked_ns", "int64", "when its opposite was issued (-1: never)"),
            Column("gone_ns", "int64", "when its opposite had settled (-1: never)"),
            Column("lost", "int32", "messages it caused that a link lost"),
            Column("values", "list<float64>", "numeric body as the kind defines it"),
        ),
    ),
    "dependencies": Table(
        "A change that leans on another has not settled before the other has.",
        "summary",
        (
            Column("change", "int64", "id of the change"),
            Column("depends_on", "int64", "id of the change it leans on"),
        ),
    ),
    "hops": Table(
        "Every event a broker handled, at its place in the broker's order: time, kind, source, sequence.",
        "full",
        (
            _BROKER,
            Column("time_ns", "int64", "when it reached the broker"),
            Column("kind", "int8", "0 fault, 1 message, 2 timer"),
            Column("source", "int64", "entity id of the sender"),
            Column("sequence", "int64", "number of the sender's send"),
            Column("link", "int32", "directed link it came over (-1: from a client, or a timer)"),
            _SERVICE,
            _TYPE,
            _BODY,
            Column("word", "int64", "correlation word (0: none)"),
            _CAUSE,
            Column("finish_ns", "int64", "when the broker's queue was done with it"),
        ),
    ),
    "deliveries": Table(
        "What reached a subscriber, once per delivery.",
        "deliveries",
        (
            _SERVICE,
            _PUBLICATION,
            Column("broker", "int32", "broker that delivered it"),
            Column("client", "int64", "entity id of the subscriber"),
            Column("published_ns", "int64", "when it was published"),
            Column("time_ns", "int64", "when it was delivered"),
        ),
    ),
    "losses": Table(
        "Every message that was lost.",
        "deliveries",
        (
            Column("link", "int32", "directed link (-1: a delivery, or a timer of a broker down for good)"),
            Column("time_ns", "int64", "when the message was sent, or came to a queue"),
            _SERVICE,
            _TYPE,
            _BODY,
            _CAUSE,
            Column(
                "reason", "int8",
                "0 the link lost it, 1 the link was cut, 2 a broker at its ends crashed, 3 no place in a queue, "
                "4 none in front of the link, 5 a client had left, 6 what its session kept expired",
            ),
            Column("client", "int64", "entity id of the client that a delivery was for (-1: none)"),
        ),
    ),
    "doubled": Table(
        "Every message that a worn link delivered twice. The copy counts as sent by its change, and is handled as any.",
        "deliveries",
        (
            Column("link", "int32", "directed link"),
            Column("time_ns", "int64", "when the message was sent"),
            _SERVICE,
            _TYPE,
            _BODY,
            _CAUSE,
        ),
    ),
    "samples": Table(
        "Queue and tables of each broker, at regular times; one row per broker and service.",
        "summary",
        (
            Column("time_ns", "int64", "when the sample was taken"),
            _BROKER,
            Column("backlog_ns", "int64", "work waiting in the broker's queue, over all its services"),
            Column("queued", "int32", "events waiting in the broker's queue, over all its services"),
            _SERVICE,
            Column("entries", "int64", "logical entries in the service's tables at this broker"),
        ),
    ),
    "links": Table(
        "Each directed link and what went over it: those that are listed, by number, then of those that are described "
        "the ones that arose. Rows 2e and 2e+1 are the two directions of one.",
        "summary",
        (
            Column(
                "link", "int32",
                "directed link; of listed ones the number of the row, of others listed + from * nodes + to",
            ),
            Column("from", "int32", "broker that sends"),
            Column("to", "int32", "broker that receives"),
            Column("delay_ns", "int64", "propagation delay"),
            Column("latent", "int8", "1: it carries nothing but while it is open"),
            Column("messages", "int64", "messages sent, lost ones included"),
            Column("bytes", "int64", "bytes sent"),
            Column("lost", "int64", "messages lost"),
            Column("busy_ns", "int64", "time spent transmitting"),
        ),
    ),
    "brokers": Table(
        "Each broker, what it did, and its part of the digest.",
        "summary",
        (
            _BROKER,
            Column("name", "string", "name in the topology"),
            Column("messages", "int64", "events handled"),
            Column("deliveries", "int64", "deliveries to its clients"),
            Column("busy_ns", "int64", "time its queue was at work"),
            Column("digest_a", "int64", "first lane of its digest, as signed bits"),
            Column("digest_b", "int64", "second lane"),
        ),
    ),
    "faults": Table(
        "What fails, once per broker or directed link.",
        "summary",
        (
            Column("entry", "int32", "number of the entry in the scenario's schedule"),
            Column("what", "int8", "0 a broker is down, 1 slow or pauses; 2 a link is cut, 3 worn"),
            Column("broker", "int32", "the broker (-1: it is a link)"),
            Column("link", "int32", "the directed link (-1: it is a broker)"),
            Column("begin_ns", "int64", "when it begins"),
            Column("end_ns", "int64", "when it is over (-1: never)"),
            Column("state", "int8", "what a broker knows that comes back: 0 what it knew, 1 what it stored, 2 nothing"),
            Column("factor", "float64", "how many times as long work or a transmission takes (0: it pauses)"),
            Column("loss", "float64", "the share of messages lost beside what the link loses"),
            Column("twice", "float64", "the share of messages that arrive twice"),
            Column("delay_ns", "int64", "how much longer a message takes"),
            Column("begins", "float64", "bursts: probability that it turns bad for the next message"),
            Column("ends", "float64", "and good again"),
            Column("bad", "float64", "the share of messages lost while it is bad"),
        ),
    ),
    "stays": Table(
        "Where clients are that come and go. Others are where they were placed, all the time.",
        "summary",
        (
            Column("stay", "int64", "the entity id under which the client acts there, in all other tables"),
            Column("client", "int64", "entity id of the client"),
            Column("broker", "int32", "the broker"),
            Column("begin_ns", "int64", "when it comes"),
            Column("end_ns", "int64", "when it leaves (-1: never)"),
            Column("keep_ns", "int64", "its session: for how long after that what comes is kept (0: not at all)"),
            Column("most", "int64", "and how many messages of it"),
        ),
    ),
    "windows": Table(
        "How the shards advanced.",
        "summary",
        (
            Column("shard", "int16", "number of the shard"),
            Column("window", "int64", "number of the window"),
            Column("start_ns", "int64", "simulated time it began"),
            Column("end_ns", "int64", "simulated time it ended"),
            Column("events", "int64", "events handled"),
            Column("wall_ns", "int64", "time it took"),
            Column("blob_bytes", "int64", "bytes sent to other shards"),
        ),
        model=False,
    ),
    "actors": Table(
        "Who carried the shards.",
        "summary",
        (
            Column("shard", "int16", "number of the shard"),
            Column("pid", "int64", "process id"),
            Column("node", "string", "node it ran on"),
            Column("wall_ns", "int64", "time it spent in windows"),
            Column("cpu_ns", "int64", "CPU time of the process"),
        ),
        model=False,
    ),
}


def tables_at(level: str, extra_tables: Mapping[str, Table] | None = None) -> dict[str, Table]:
    """The tables written at `level`, those of the kinds included."""
    if level not in LEVELS:
        raise InvalidInput(f"no trace level {level!r}; there are {', '.join(LEVELS)}")
    for name in extra_tables or ():
        if not _TABLE_NAME.match(name):
            raise InvalidInput(f"trace table {name!r}: use lower-case letters, digits and _, a letter first")
        if name in TABLES and (extra_tables or {})[name] != TABLES[name]:
            raise InvalidInput(f"trace table {name!r} exists; give the kind's table another name")
    every = {**TABLES, **(extra_tables or {})}
    return {name: table for name, table in every.items() if level in table.levels}


def tables_markdown(tables: Mapping[str, Table] = TABLES) -> str:
    """The tables as docs/trace.md shows them."""
    lines: list[str] = []
    for name, table in tables.items():
        sort = "model table" if table.model else "run table"
        lines += [f"### {name}", "", f"{table.prose} A {sort}, at levels: {', '.join(table.levels)}.", ""]
        lines += ["| column | type | encoding | what |", "|---|---|---|---|"]
        for column in table.columns:
            prose = column.prose.replace("|", "\\|")
            lines.append(f"| `{column.name}` | `{column.type}` | {column.encoding} | {prose} |")
        lines.append("")
    return "\n".join(lines)


PAGE_BEGIN, PAGE_END = "<!-- tables: made from the schema -->", "<!-- end of tables -->"


def page_with_tables(page: str) -> str:
    """The page with the tables between its two marks brought up to date."""
    before, begin, rest = page.partition(PAGE_BEGIN)
    _, end, after = rest.partition(PAGE_END)
    if not begin or not end:
        raise InvalidInput(f"the page lacks the lines {PAGE_BEGIN!r} and {PAGE_END!r}")
    return f"{before}{begin}\n\n{tables_markdown()}\n{end}{after}"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(page_with_tables(path.read_text("utf-8")), "utf-8")
