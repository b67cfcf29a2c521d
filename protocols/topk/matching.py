"""Whether answers are right on some choice for the free filters: `TopKRule` in NumPy.

    publications × filters ─► scores ─► by filter: certain or free, least, most, shown ─► answers ─► beside deliveries

A row per publication and filter that may score, in the order of publications; answers are ranked by sorting them. What
is compared are answers on three choices: the one that the run shows, the one on which free filters score most, and,
where nothing was free, the definition's, row by row with the table `rankings`.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import Padded, Wanted, changed, elements, starts_of

Array = NDArray[Any]
Columns = dict[str, Array]

AT_ONCE = 256  # publications
CELLS_MAX = 1_000_000  # publications times filters that are scored at once


@dataclass(frozen=True)
class Best(Padded):
    """See the module. What a judge is asked is said in `brokers.auditing`."""

    operations: frozenset[int]
    attributes: int
    k: int
    threshold: float
    ties: str
    per_receiver: bool
    prorate: bool
    exclude_publisher: bool
    never_ns: int
    away: int  # the reason of losses by which a client had left

    @property
    def tables(self) -> dict[str, Wanted]:
        columns = ("publication", "rank", "interest", "client", "score", "tie", "time_ns")
        gone = Wanted(("body", "client"), key="body", only=("reason", (self.away,)), always=True)
        return {"rankings": Wanted(columns, key="publication"), "losses": gone}

    def judged(self, stood: Any, more: dict[str, Columns], delivered: Columns) -> Iterator[Columns]:
        publications = stood.publications
        rankings = _by_row(more["rankings"], publications.publication)
        there = _by_row(delivered, publications.publication)
        lost = {"publication": more["losses"]["body"], "client": more["losses"]["client"]}
        gone = _by_row(lost, publications.publication)
        stood = self._answered(stood, rankings)
        withdrawn = self._withdrawn(stood.versions)
        count = publications.publication.size
        for start in range(0, count, AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, count))
            filters = self._filters(stood, withdrawn, rows)
            served = _some(there, rows), _some(gone, rows)
            yield self._beside(stood, filters, _some(rankings, rows), served, rows)

    # ---- what was so when

    def _answered(self, stood: Any, rankings: Columns) -> Any:
        """With the time of its answer for the last decision; of a publication without, it may have been under way."""
        publications = stood.publications
        end = np.full(publications.publication.size, -1, np.int64)
        np.maximum.at(end, rankings["row"], rankings["time_ns"])
        answered = end >= 0
        cut = publications.cut | ~answered if stood.run.cut_from_ns is not None else publications.cut
        end_ns = np.where(answered, end, publications.end_ns)
        return replace(stood, publications=replace(publications, end_ns=end_ns, cut=cut))

    def _withdrawn(self, versions: Any) -> Array:
        """By version when its filter was withdrawn: when the end of its last version was issued."""
        interest = versions.interest
        order = np.lexsort((versions.change, versions.issued_ns, interest))
        last = np.r_[changed(interest[order])[1:], np.ones(min(order.size, 1), np.bool_)]
        _, filter_ = np.unique(interest, return_inverse=True)
        found: Array = versions.revoked_ns[order[last]][filter_]
        return found

    # ---- scores

    def _filters(self, stood: Any, withdrawn: Array, rows: Array) -> Columns:
        """A row per publication and filter that may score: row, interest, client, certain, least, most; and scores.

        In the order of publication, interest and client.
        """
        publications, versions = stood.publications, stood.versions
        begin, end = publications.time_ns[rows].min(), publications.end_ns[rows].max()
        there = np.flatnonzero((versions.issued_ns <= end) & (versions.gone_ns >= begin))
        step = max(1, CELLS_MAX // rows.size)
        some = [self._scored(stood, rows, there[first : first + step]) for first in range(0, there.size, step)]
        if not some:
            some = [(rows[:0], there[:0], np.empty(0))]
        p, v, score = (np.concatenate(each) for each in zip(*some))
        heard = stood.heard()[v]
        certain = stood.in_time(p, v) & heard
        which = ~certain | (score > self.threshold)
        p, v, score, certain, heard = (each[which] for each in (p, v, score, certain, heard))
        order = np.lexsort((score, ~certain, versions.client[v], versions.interest[v], p))
        p, v, score, certain, heard = (each[order] for each in (p, v, score, certain, heard))
        interest, client = versions.interest[v], versions.client[v]
        # Of a filter that is certain the free versions do not count.
        new = changed(p, interest, client)
        group = np.cumsum(new) - 1
        sure = certain[new][group] if new.size else certain
        kept = certain | ~sure
        p, v, score, certain, heard, interest, client = (
            each[kept] for each in (p, v, score, certain, heard, interest, client)
        )
        new = changed(p, interest, client)
        begins = np.flatnonzero(new)
        starts = np.r_[begins, p.size]
        known = (versions.settled_ns[v] < publications.time_ns[p]) & heard
        gone = withdrawn[v] <= publications.end_ns[p]
        least, most = score[begins], score[starts[1:] - 1]
        if begins.size:
            absent = ~np.logical_or.reduceat(known, begins) | np.logical_or.reduceat(gone, begins)
            least = np.where(absent & ~certain[begins], 0.0, least)
        return {
            "row": p[begins], "interest": interest[begins], "client": client[begins], "certain": certain[begins],
            "least": least, "most": most, "starts": starts, "scores": score,
        }  # fmt: skip

    def _scored(self, stood: Any, rows: Array, some: Array) -> tuple[Array, Array, Array]:
        """Pairs that may count, and what the filter scores; certain ones that score nothing are left out."""
        publications, versions = stood.publications, stood.versions
        p, v = np.repeat(rows, some.size), np.tile(some, rows.size)
        score = self._scores(publications.values[rows], versions.values[some]).reshape(-1)
        possible = stood.possible(p, v)
        if self.exclude_publisher:
            possible &= versions.client[v] != publications.publication[p] >> 32
        # What may have been unsettled by something it leans on is looked at again.
        firm = stood.ended_in_time(p, v) & stood.heard()[v] & (np.diff(versions.unsettled.starts) == 0)[v]
        which = possible & (~firm | (score > self.threshold))
        return p[which], v[which], score[which]

    def _scores(self, publications: Array, filters: Array) -> Array:
        """Of every publication with every filter, as `brokers.indexes.topk.contract.contributions` has it."""
        m = self.attributes
        low, high, weights = self._asked(publications)
        parts = filters[:, : filters.shape[1] // 4 * 4].reshape(filters.shape[0], -1, 4)
        keys = [np.where(np.isnan(parts[:, :, 0]), np.nan, parts[:, :, part]) for part in (3, 2, 1, 0)]
        order = np.lexsort(keys, axis=-1)  # those that there are not come last
        parts = np.take_along_axis(parts, order[:, :, None], axis=1)
        found = np.zeros((publications.shape[0], filters.shape[0]))
        for k in range(parts.shape[1]):
            attribute, at_least, at_most, weight = (parts[:, k, part] for part in range(4))
            there = ~np.isnan(attribute) & (attribute >= 0) & (attribute < m)
            column = np.where(there, attribute, m).astype(np.int64)
            asked_low, asked_high = low[:, column], high[:, column]
            hit = (at_least <= asked_high) & (at_most >= asked_low)
            ends = (at_least, at_most, asked_low, asked_high)
            found += np.where(hit, self._counted(weight, weights, column, ends), 0.0)
        return found

    def _counted(self, weight: Array, weights: Array, column: Array, ends: tuple[Array, Array, Array, Array]) -> Array:
        """What a constraint adds where it is hit: its weight or the sender's, and of that a share if it is prorated."""
        given = ~np.isnan(weights[:, -1])
        counted = np.where(given[:, None], weights[:, column], weight)
        if not self.prorate:
            return counted
        low, high, asked_low, asked_high = ends
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            length = high - low
            share = (np.minimum(high, asked_high) - np.maximum(low, asked_low)) / length
            whole = np.isinf(low) | np.isinf(high) | np.isinf(length) | (length == 0) | (asked_low == asked_high)
            return np.where(whole, counted, counted * share)

    def _asked(self, publications: Array) -> tuple[Array, Array, Array]:
        """Lower and upper ends and the sender's weights, with a column more that is hit by nothing.

        Of weights that column says whether there are any: NaN if not.
        """
        m, width = self.attributes, publications.shape[1]
        nothing = np.full((publications.shape[0], 1), np.nan)

        def part(number: int) -> Array:
            there = publications[:, number * m : (number + 1) * m] if width >= (number + 1) * m else None
            return np.full((publications.shape[0], m), np.nan) if there is None else there

        low, high, weights = part(0), part(1), part(2)
        given = np.where(np.isnan(weights).all(axis=1), np.nan, 1.0)[:, None]
        return (
            np.c_[low, nothing], np.c_[np.where(np.isnan(high), low, high), nothing],
            np.c_[np.where(np.isnan(weights), 0.0, weights), given],
        )  # fmt: skip

    # ---- answers

    def _beside(
        self, stood: Any, filters: Columns, rankings: Columns, served: tuple[Columns, Columns], rows: Array
    ) -> Columns:
        """What is found of each pair of some publications and clients, that were `served` or had left before."""
        publications, (there, gone) = stood.publications, served
        filters, shown = self._shown(filters, rankings)
        weakest = filters["weakest"]
        right = self._answer(filters, weakest)[0]
        wanted = (filters["row"][right], filters["client"][right])
        if self.ties == "none":
            instead = self._ended_by_a_tie(filters, shown)
            kept = ~np.isin(wanted[0], instead)
            others = shown & np.isin(filters["row"], instead)
            wanted = tuple(np.r_[a[kept], filters[b][others]] for a, b in zip(wanted, ("row", "client")))
        sure = self._answer(filters, filters["most"])[0]
        sure = sure[filters["certain"][sure]]
        lacking, mistold = self._mistold(filters, rankings, rows)
        forced = (filters["row"][sure], filters["client"][sure])
        sets = [wanted, (there["row"], there["client"]), forced, lacking, mistold]
        row, client = (np.concatenate([each[part] for each in sets]) for part in range(2))
        pairs, at = np.unique(np.array([row, client], np.int64), axis=1, return_inverse=True)
        places = np.split(at.reshape(-1), np.cumsum([each[0].size for each in sets])[:-1])
        flags = [np.zeros(pairs.shape[1], np.bool_) for _ in sets]
        for flag, place in zip(flags, places):
            flag[place] = True
        is_wanted, came, is_sure, lacks, tells = flags
        told = is_wanted | came | lacks | tells  # a sure one is among the wanted, or it is nobody's
        found: Columns = {"publication": publications.publication[pairs[0]], "client": pairs[1]}
        for name in ("times", "first_ns"):
            found[name] = np.zeros(pairs.shape[1], np.int64)
            found[name][places[1]] = there[name]
        spoilt = np.diff(publications.unheard.starts)[pairs[0]] > 0
        clear = ~spoilt & ~publications.cut[pairs[0]]
        stayed = ~_among(pairs, gone)
        found |= {
            "allowed": np.ones(told.size, np.bool_), "forced": is_sure & clear & stayed, "excused": spoilt,
            "missed": ((is_wanted & ~came & stayed) | lacks) & clear, "unwanted": ((came & ~is_wanted) | tells) & clear,
        }  # fmt: skip
        return {name: column[told] for name, column in found.items()}

    def _shown(self, filters: Columns, rankings: Columns) -> tuple[Columns, Array]:
        """Filters with what they score on the choice that the run shows, and which it shows.

        Whose row in `rankings` says what it may score, scores that; else what is least.
        """
        pairs = np.array([np.r_[filters[name], rankings[name]] for name in ("row", "interest")], np.int64)
        _, number = np.unique(pairs, axis=1, return_inverse=True)
        mine, theirs = np.split(number.reshape(-1), [filters["row"].size])
        by_number = np.argsort(theirs, kind="stable")
        starts = starts_of(theirs[by_number], int(number.max(initial=-1)) + 1) if number.size else np.zeros(1, np.int64)
        told = np.diff(starts)[mine] if mine.size else np.zeros(0, np.int64)
        place, at = elements(starts, mine)
        # A filter that is told of twice is there twice, once for each.
        copies = np.r_[place, np.flatnonzero(told == 0)]
        score = np.r_[rankings["score"][by_number[at]], np.full(copies.size - place.size, np.nan)]
        shown = np.r_[np.ones(place.size, np.bool_), np.zeros(copies.size - place.size, np.bool_)]
        order = np.argsort(copies, kind="stable")
        copies, score, shown = copies[order], score[order], shown[order]
        owner, at = elements(filters["starts"], copies)
        known = np.zeros(copies.size, np.bool_)
        known[owner[filters["scores"][at] == score[owner]]] = True
        found = {name: filters[name][copies] for name in ("row", "interest", "client", "certain", "least", "most")}
        found["weakest"] = np.where(known, score, found["least"])
        found |= {"of": copies, "starts": filters["starts"], "scores": filters["scores"]}
        return found, shown

    def _answer(self, filters: Columns, by: Array, some: Array | None = None) -> tuple[Array, Columns]:
        """Which filters are in the answer if each scores what `by` says; and those ranked, with place and tie."""
        ranked = np.flatnonzero(by > self.threshold) if some is None else some[by[some] > self.threshold]
        ranked = ranked[np.lexsort((filters["interest"][ranked], -by[ranked], filters["row"][ranked]))]
        if self.per_receiver:
            receiver = np.lexsort((np.arange(ranked.size), filters["client"][ranked], filters["row"][ranked]))
            own = changed(filters["row"][ranked[receiver]], filters["client"][ranked[receiver]])
            ranked = ranked[np.sort(receiver[own])]
        row = filters["row"][ranked]
        begins = np.flatnonzero(changed(row))
        group = np.cumsum(changed(row)) - 1
        place = np.arange(ranked.size) - begins[group] + 1 if ranked.size else ranked
        sizes = np.diff(np.r_[begins, ranked.size])
        last, behind = (self._at(by[ranked], begins, sizes, self.k - 1 + more) for more in range(2))
        tie = (last == behind)[group] if ranked.size else np.zeros(0, np.bool_)
        kept = place <= self.k
        at_boundary = by[ranked] == (last[group] if ranked.size else by[ranked])
        if self.ties == "all":
            kept |= at_boundary
        elif self.ties == "none":
            kept &= ~(tie & at_boundary)
        return ranked[kept], {"filter": ranked, "place": place, "tie": tie, "kept": kept}

    @staticmethod
    def _at(score: Array, begins: Array, sizes: Array, place: int) -> Array:
        """By publication the score at a place, NaN where there are not so many."""
        found = np.full(begins.size, np.nan)
        there = sizes > place
        found[there] = score[begins[there] + place]
        return found

    def _ended_by_a_tie(self, filters: Columns, shown: Array) -> Array:
        """Publications whose answer may be what is shown, ended by a tie that free filters made."""
        if self.per_receiver:
            # Which free filter made which tie is not followed up: nothing is said where one is free.
            return np.unique(filters["row"][~filters["certain"]])
        row, weakest = filters["row"], filters["weakest"]
        rest = np.flatnonzero(~shown)
        place, at = elements(filters["starts"], filters["of"][rest])
        score, of = filters["scores"][at], rest[place]
        new = changed(of, score)
        could = new & (score != weakest[of]) & (score > self.threshold)
        rows, scores = np.r_[row[of[could]], row[rest]], np.r_[score[could], weakest[rest]]
        free = np.r_[np.ones(int(could.sum()), np.bool_), np.zeros(rest.size, np.bool_)]
        order = np.lexsort((scores, rows))
        rows, scores, free = rows[order], scores[order], free[order]
        begins = np.flatnonzero(changed(rows, scores))
        if not begins.size:
            return begins
        crowd = np.diff(np.r_[begins, rows.size])
        any_free = np.logical_or.reduceat(free, begins)
        level_row, level = rows[begins], scores[begins]
        all_rows, number = np.unique(row, return_inverse=True)
        lowest, highest = np.full(all_rows.size, np.inf), np.full(all_rows.size, -np.inf)
        np.minimum.at(lowest, number[shown], weakest[shown])
        np.maximum.at(highest, number[~shown], weakest[~shown])
        room = self.k - np.bincount(number[shown], minlength=all_rows.size)
        at = np.searchsorted(all_rows, level_row)
        ended = any_free & (highest[at] <= level) & (level < lowest[at]) & (crowd > room[at]) & (room[at] >= 0)
        return np.unique(level_row[ended])

    def _mistold(self, filters: Columns, rankings: Columns, rows: Array) -> tuple[Any, Any]:
        """Where nothing was free, whose row `rankings` lacks, and whose row says something else."""
        free = ~filters["certain"] & (filters["most"] > self.threshold)
        clear = rows[~np.isin(rows, filters["row"][free])]
        some = np.flatnonzero(filters["certain"] & np.isin(filters["row"], clear))
        _, ranked = self._answer(filters, filters["least"], some)
        of, kept = ranked["filter"], ranked["kept"]
        answered = of[kept]
        nobody = clear[~np.isin(clear, filters["row"][answered])]
        tied = np.isin(nobody, filters["row"][of[ranked["tie"]]])
        expected = (
            np.r_[filters["row"][answered], nobody],
            np.r_[ranked["place"][kept] - 1, np.full(nobody.size, -1)],
            np.r_[filters["interest"][answered], np.full(nobody.size, -1)],
            np.r_[filters["client"][answered], np.full(nobody.size, -1)],
            np.r_[filters["least"][answered], np.zeros(nobody.size)],
            np.r_[ranked["tie"][kept], tied],
        )
        mine = np.isin(rankings["row"], clear)
        said = tuple(rankings[name][mine] for name in ("row", "rank", "interest", "client", "score"))
        said = (*said, rankings["tie"][mine] != 0)
        both = [np.r_[a, b] for a, b in zip(expected, said)]
        more = np.r_[np.ones(expected[0].size, np.int64), -np.ones(said[0].size, np.int64)]
        order = np.lexsort(both[::-1])
        both, more = [each[order] for each in both], more[order]
        begins = np.flatnonzero(changed(*both))
        if not begins.size:
            return (begins, begins), (begins, begins)
        more = np.add.reduceat(more, begins)
        row, client = both[0][begins], both[3][begins]
        return (row[more > 0], client[more > 0]), (row[more < 0], client[more < 0])


def _by_row(columns: Columns, publication: Array) -> Columns:
    """Rows of a table with the publication's row in place of its id, in that order; of others nothing."""
    by_id = np.argsort(publication, kind="stable")
    ids = publication[by_id]
    at = np.minimum(np.searchsorted(ids, columns["publication"]), max(ids.size - 1, 0))
    known = np.flatnonzero(ids[at] == columns["publication"]) if ids.size else at[:0]
    row = by_id[at[known]]
    order = np.argsort(row, kind="stable")
    return {"row": row[order], **{name: column[known[order]] for name, column in columns.items()}}


def _among(pairs: Array, others: Columns) -> Array:
    """Which pairs of a row and a client are among others."""
    both = np.concatenate((pairs, np.array([others["row"], others["client"]], np.int64)), axis=1)
    number = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    return np.isin(number[: pairs.shape[1]], number[pairs.shape[1] :])


def _some(columns: Columns, rows: Array) -> Columns:
    """Those of some publications, which lie behind each other."""
    first, last = np.searchsorted(columns["row"], (rows[0], rows[-1] + 1))
    return {name: column[first:last] for name, column in columns.items()}
