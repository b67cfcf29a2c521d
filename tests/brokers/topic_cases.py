"""Filters and names with known answers, by the rules of MQTT 5 and NATS."""

from __future__ import annotations

from functools import cache

MQTT_CASES = """
a/#|a|yes
a/#|a/|yes
a/#|a/b/c|yes
a/#|ab|no
#|a/b|yes
#|/a|yes
#|$SYS/a|no
+/a|$SYS/a|no
+/#|$SYS|no
$SYS/#|$SYS|yes
$SYS/+|$SYS/a|yes
$BOB/a|$SYS/a|no
a/+|a/$b|yes
a/#|a/$b/c|yes
+|a|yes
+|/a|no
+/+|/a|yes
/+|/a|yes
/#|a/b|no
/#|/|yes
+|a/|no
a/+|a|no
a/+|a/|yes
a/+|a/b/c|no
a/+/c|a//c|yes
a/+/+/d|a///d|yes
a/+/c|a//c/|no
a/+/c/#|a//c/|yes
a/+/#|a/b|yes
a/+/#|a|no
a|A|no
a/b|a/b/|no
+/+/#|a/b|yes
a#|a|invalid
a/#/b|a/x/b|invalid
a+/b|ax/b|invalid
$share//t|t|invalid
$share/g/|t|invalid
$share/g+/t|t|invalid
$share/g/a/#|a|yes
$share/g/#|$SYS/a|no
$share/g//a|/a|yes
"""

NATS_CASES = """
foo.>|foo|no
foo.>|foo.a.b|yes
>|foo|yes
*|foo.bar|no
foo.*|foo|no
*.foo|foo.foo|yes
foo.*.>|foo.a|no
foo.*.>|foo.a.b|yes
foo*|foobar|no
foo*|foo*|yes
foo.>.bar|foo.a.bar|invalid
foo..bar|foo..bar|invalid
foo.|foo.|invalid
"""


def _rows(text):
    return [tuple(line.split("|")) for line in text.split()]


CASES = [("mqtt", *row) for row in _rows(MQTT_CASES)] + [("nats", *row) for row in _rows(NATS_CASES)]
VALID = [(syntax, filter, name, answer == "yes") for syntax, filter, name, answer in CASES if answer != "invalid"]
INVALID = [(syntax, filter) for syntax, filter, _, answer in CASES if answer == "invalid"]


def has(syntax, filter, name):
    """Whether a filter has a name, both as text: by the words of the rules, with nothing of the program."""
    separator, one, rest = ("/", "+", "#") if syntax == "mqtt" else (".", "*", ">")
    asked, given = tuple(filter.split(separator)), tuple(name.split(separator))
    if syntax == "mqtt" and asked[0] in (one, rest) and name.startswith("$"):
        return False

    @cache
    def fits(i, j):
        if i == len(asked):
            return j == len(given)
        if asked[i] == rest:
            return len(given) - j >= (0 if syntax == "mqtt" else 1)
        return j < len(given) and asked[i] in (one, given[j]) and fits(i + 1, j + 1)

    return fits(0, 0)
