"""A message diagram as text: a column for each broker, time downwards, what happened at the right.

o  a client sends      ---->  a message arrives      t  a timer      v  a delivery
X  a message is lost   #      a broker is down       :  it is slow
"""

from __future__ import annotations

from analysis.ways.pair import when
from analysis.ways.rows import ARROW, CLIENT, DELIVERY, FAILS, HEARS, LOSS, TIMED, Line, Picture

LINES_MOST, COLUMNS_MOST = 60, 12
_WIDTH_MOST, _WIDTH_LEAST = 12, 8
_MARKS = {CLIENT: "o", TIMED: "t", DELIVERY: "v", FAILS: "!", HEARS: "!"}


def drawn(picture: Picture) -> str:
    """The diagram, as lines of text."""
    picture = picture.within(LINES_MOST, COLUMNS_MOST)
    names = {each: shown(picture.names[each]) for each in picture.columns}
    width = min(_WIDTH_MOST, max([_WIDTH_LEAST, *(len(name) + 2 for name in names.values())]))
    times = [when(line.at_ns) for line in picture.lines]
    left = max([len(each) for each in times], default=0) + 2
    place = {broker: left + width * at + width // 2 for at, broker in enumerate(picture.columns)}
    end = left + width * len(picture.columns) - width // 2 + 1
    rows = [_centred([names[each] for each in picture.columns], width, left)]
    beneath = [",".join(map(str, picture.clients.get(each, []))) for each in picture.columns]
    if any(beneath):
        rows.append(_centred([f"({each})" if each else "" for each in beneath], width, left) + "  (clients)")
    last = ""
    for at, line in enumerate(picture.lines):
        time, text = times[at], shown(line.text, 200) + _sent(picture, at)
        if at == picture.gap:
            rows.append(f"{'...':>{left - 2}}")
        row = _row(picture, line, place, end)
        rows.append(f"{time if time != last else '':>{left - 2}}  {''.join(row[left:])}   {text}".rstrip())
        last = time
    rows += [f"{note}." for note in picture.notes]
    cut = [f"{_fit(name, width - 2)} is {name}" for name in names.values() if len(name) > width - 2]
    return "\n".join(row.rstrip() for row in rows + cut)


def _row(picture: Picture, line: Line, place: dict[int, int], end: int) -> list[str]:
    row = [" "] * end
    for broker, x in place.items():
        row[x] = _lifeline(picture, broker, line.at_ns)
    x = place[line.broker]
    if line.sort in (ARROW, LOSS):
        start = place[line.source]
        step = 1 if x > start else -1
        stop = x - step if line.sort == ARROW else x - 3 * step
        for each in range(start + step, stop, step):
            row[each] = "-"
        row[stop] = "X" if line.sort == LOSS else ">" if step > 0 else "<"
    else:
        row[x] = _MARKS[line.sort]
    return row


def _lifeline(picture: Picture, broker: int, at_ns: int) -> str:
    for shade in picture.shades:
        if shade.broker == broker and shade.to < 0 and shade.begin_ns <= at_ns and not 0 <= shade.end_ns <= at_ns:
            return "#" if shade.text.startswith("down") else ":"
    return "|"


def _sent(picture: Picture, at: int) -> str:
    """When an arrow was sent, if something else happened between."""
    line = picture.lines[at]
    if line.sort != ARROW:
        return ""
    between = any(line.sent_ns < each.at_ns < line.at_ns for each in picture.lines)
    return f", sent at {when(line.sent_ns)}" if between else ""


def _centred(cells: list[str], width: int, left: int) -> str:
    return " " * left + "".join(f" {_fit(cell, width - 2)} ".center(width) for cell in cells)


def _fit(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(text: str, most: int = 60) -> str:
    """A name from a file for a terminal: nothing in it moves the cursor, and it ends."""
    return _fit("".join(each if each.isprintable() else "?" for each in text), most)
