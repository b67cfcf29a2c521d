"""How much may wait: places in the queues of brokers, and in front of links.

A queue holds the messages that a broker has taken in and not finished, the one that it serves among them. What finds no
place is dropped, and so lost for a reason; or it is refused, and waits on its link, with all that comes behind it.

    limits = Limits(places=(0, 100, 0), full=OLDEST)  # 100 places at the second broker, no limit at the others

A broker whose protocol asks for it is told of each of its messages that found no place in front of a link: by a timer
of the type TOLD with the body and the cause of the message, whose word says which link it was and of what type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from brokers.out import TYPE_MAX

# What gives way where there is no place: what comes, what has waited longest, or nothing: it waits outside.
NEWEST, OLDEST, REFUSE = range(3)
WAYS = ("newest", "oldest", "refuse")
TOLD = TYPE_MAX - 2  # no message of a protocol has it


def of_dropped(word: Any) -> tuple[Any, Any]:
    """The link and the type of a message, from the word (or words) of what tells that it was dropped."""
    return word & 0xFFFFFFFF, word >> 32


class Limits(NamedTuple):
    """See the module; 0 where there is no limit."""

    places: tuple[int, ...] = ()  # by broker, in its queue
    full: int = NEWEST
    messages: int = 0  # that may wait in front of each directed link
    bytes: int = 0  # or how many bytes of them

    def __bool__(self) -> bool:
        return bool(any(self.places) or self.ahead)

    @property
    def ahead(self) -> bool:
        """Whether something in front of links may find no place."""
        return bool(self.messages or self.bytes)


NO_LIMITS = Limits()
