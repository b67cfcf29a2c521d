"""What the audit rule of a kind is written against: what the definition forces, and what it leaves free.

A rule is a class that is called `rule(kind)` and answers

    decisions(question) -> DataFrame
        publication, client   a pair that the definition allows at all; any other is forbidden
        forced                whether it had to be delivered
        excused               whether it is free only because a link lost something
        since_ns              the earliest time at which a delivery to the client was in order

with one row per pair. It computes from publications and changes alone (with dependencies and losses), never
from deliveries: those are what it judges. The audit does the rest: sampling, comparing, counting, duplicates
and order. So are judged kinds that say of each pair whether it is right, and those that bound the answer from
below (forced) and from above (allowed).

Where who is in the answer depends on the others, a rule answers instead

    judge(question, delivered) -> DataFrame
        publication, client, times, first_ns   as in `delivered`; of a pair that was not delivered: null
        forced, excused                        as above
        missed, unwanted                       what is wrong with the pair

with a row for every pair that is not forbidden or that was delivered. `delivered` has a row per pair with how
often and when first it was delivered.

Where a version wants a publication or does not by the values of the two alone, a client is forced if a version of it is
that counts, and nothing more is to be known, a rule may answer beside `decisions`

    matcher() -> Matcher

and is then asked in NumPy, in tasks of Spark, which is several times as quick. It has to say the same as `decisions` or
`judge`. Where more is to be known than the values of two, it answers a `Judge`, which decides all by itself.
A rule that inherits a matcher is asked in Spark: it may have changed what is right.

A rule may also answer `reason(publication, change) -> str`: in words, whether the change of a client wants
the publication and why; both are rows of the trace as dictionaries. And `more(rows, names) -> list[str]`: what
`explain` tells of the client besides, by `rows(table)` of the kind's own tables that name both; `names` are those of
its interests.

A rule lies in the folder of its kind and imports pyspark inside its functions only. What it needs of the audit it is
handed with the question: nothing here knows Spark but by the names of its types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray

from brokers.contract import Guarantees
from brokers.padded import Wanted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Array = NDArray[Any]


class Standing(Protocol):
    """What stood when, what had settled, and what is free.

    The conditions are on a publication, alias p, and a version, alias c:

        not possible             it must not count: issued after the last decision, or gone before
        in time and unspoilt     it must count: settled before, and not ended until the last decision
        else                     it is free
    """

    BEHIND: ClassVar[str]  # the type of one such place: what lies behind a link
    changes: DataFrame  # of the service, one row each

    def versions(self) -> DataFrame:
        """One row per change that begins something: an interest, or a value that the next of its word replaces.

        Columns: change, interest, operation, client, broker, home (its place), values, issued_ns, settled_ns (with all
        it leans on), revoked_ns (when its end was issued), gone_ns (when that had settled), unsettled (times in which
        something it leans on was being withdrawn), unheard (what lies behind links that lost something of it). A time
        that never comes is NEVER.
        """
        ...

    def possible(self) -> Column:
        """Whether the version may count at all."""
        ...

    def in_time(self) -> Column:
        """Whether it had settled before, and was not ended until the last decision."""
        ...

    def unspoilt(self) -> Column:
        """Whether no lost message of either excuses that the two did not meet."""
        ...

    def mended(self) -> Column:
        """Whether the publication was sent when no lost change excuses anything any more."""
        ...

    def behind_links(self, lost: DataFrame) -> DataFrame | None:
        """link, behind: what is reached only over it, for the links that lost something; None if none did."""
        ...

    def is_behind(self, place: Column, behind: Column) -> Column:
        """Whether a broker's place lies behind one of the links in an array."""
        ...

    def undivided(self, frame: DataFrame) -> DataFrame:
        """In one partition, if the session has no more for its work: then nothing after it is shuffled."""
        ...


@dataclass(frozen=True)
class Question:
    """What a rule gets.

    `publications` are those to judge: publication, time_ns, values, place (of the broker where it entered),
    end_ns (no decision about it was made after that), unheard (what lies behind links that lost a copy),
    cut (whether the run may have ended before it was done). `keep` is for a frame that is used several times; it is
    given back when the service has been judged.
    """

    trace: Any  # the run: `table(name)`, `has(name)`, `network`, and when it ended
    service: Any  # its `number`, `name` and `kind`
    guarantees: Guarantees
    publications: DataFrame
    standing: Standing
    keep: Callable[[DataFrame], DataFrame]


class Matcher(Protocol):
    """Which versions want which publications. Its module goes to tasks by value, and imports NumPy at most.

    Values come as the sizes of their lists, and the numbers one behind the other; what is made of them has a row for
    each, and rows are taken from it.
    """

    @property
    def operations(self) -> Collection[int]:
        """The types of the changes that are versions."""
        ...

    def publications(self, sizes: Array, numbers: Array) -> Array: ...

    def interests(self, sizes: Array, numbers: Array) -> Array: ...

    def pairs(self, publications: Array, interests: Array) -> tuple[Array, Array]:
        """Of rows of what was made of them, every pair of which the version wants the publication."""
        ...


class Stood(Protocol):
    """Publications and versions as arrays, and how they stood to each other; pairs are given as rows of both.

    `publications` are in the order in which they were sent: publication, time_ns, end_ns, place, cut, values (as
    `Matcher.publications` makes them), unheard, mended (no lost change excuses anything any more). `versions` are what
    `Standing.versions` has: change, interest, operation, broker, client, home, issued_ns, settled_ns, revoked_ns,
    gone_ns, values, unsettled, unheard. `run` knows duration_ns, travel_ns_max, whether there are hops (`deep`),
    cut_from_ns (None if nothing was under way at the end), the place of brokers, and what lies `behind` links.
    """

    publications: Any
    versions: Any
    run: Any

    def possible(self, p: Array, v: Array) -> Array: ...

    def in_time(self, p: Array, v: Array) -> Array: ...

    def ended_in_time(self, p: Array, v: Array) -> Array:
        """The same, without regard to what a version leans on."""
        ...

    def unspoilt(self, p: Array, v: Array) -> Array: ...

    def is_behind(self, asked: Array, unheard: Any, rows: Array) -> Array:
        """Whether each of these places lies behind a link of its row of `unheard`."""
        ...

    def heard(self) -> Array:
        """By version, whether no link lost anything of it."""
        ...

    def by_client(self, p: Array, v: Array, in_time: Array, forced: Array) -> dict[str, Array]:
        """Of pairs that are allowed, what `Judge.decisions` answers."""
        ...


class Judge(Protocol):
    """What decides in tasks by itself. It answers `decisions` or `judged`, and its module is as that of a matcher.

    `decisions` are those of a `Rule`, with publications as their rows, some publications at a time: what `by_client`
    makes. `judged` sees what was delivered too, and rows of more tables of the trace: a row for every pair that is
    allowed or was delivered, with publication, client, times (0: not at all), first_ns, allowed, forced, excused,
    missed, unwanted; and where it `counts_copies`, as a client may get several, `more`: how many are too many. Rows
    with a column `later` are of what came when the publication was under way no more. One that is `together` gets all
    of its service in one task, with hops and losses among the tables.
    `brokers.padded.Padded` has the rest.
    """

    tables: Mapping[str, Wanted]
    together: bool

    @property
    def operations(self) -> Collection[int]: ...

    def publications(self, sizes: Array, numbers: Array) -> Array: ...

    def interests(self, sizes: Array, numbers: Array) -> Array: ...

    def decisions(self, stood: Stood) -> Iterator[dict[str, Array]]: ...

    def judged(
        self, stood: Stood, more: Mapping[str, dict[str, Array]], delivered: dict[str, Array]
    ) -> Iterator[dict[str, Array]]: ...


class Rule(Protocol):
    """See the module. One of `decisions` and `judge` has to be there; `matcher` need not be."""

    def decisions(self, question: Question) -> DataFrame: ...

    def judge(self, question: Question, delivered: DataFrame) -> DataFrame: ...

    def matcher(self) -> Matcher | Judge | None:
        """None, where this rule is to be asked in Spark."""
        ...

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str: ...
