"""Whether to search at all: what became of the searches for messages of a kind.

A search that has looked at as much as a scan would gives up, and the scan answers. That costs twice, so after it
the next messages of the kind are answered by the scan at once; then a search is tried again, each time after
twice as many, up to some dozens. A search that pays clears its kind. Messages are of a kind if they ask for much
the same.

All is decided by counts, and by which way an answer was found no answer shows.
"""

from __future__ import annotations

from brokers.indexes.topk.contract import Query, RankedMessage

PAUSE_MOST = 64  # messages between two trials

Kind = tuple[bool, bool, bool, int]


class Trials:
    """For each kind that a search gave up: how many messages are scanned for between trials, and still to come."""

    def __init__(self) -> None:
        self._pauses: dict[Kind, list[int]] = {}

    def scan(self, message: RankedMessage, query: Query) -> bool:
        """Whether to scan for this message at once."""
        if not self._pauses or (pause := self._pauses.get(_kind(message, query))) is None or pause[1] == 0:
            return False
        pause[1] -= 1
        return True

    def paid(self, message: RankedMessage, query: Query, found: bool) -> bool:
        """Learn from a search: whether it found the answer, or gave up; as given."""
        if not found:
            kind = _kind(message, query)
            length = min(2 * self._pauses.get(kind, [1])[0], PAUSE_MOST)
            self._pauses[kind] = [length, length]
        elif self._pauses:
            self._pauses.pop(_kind(message, query), None)
        return found


def _kind(message: RankedMessage, query: Query) -> Kind:
    k = -1 if query.k is None else int(query.k).bit_length()
    return message.weights is None, query.prorate, query.unit == "receiver", k
