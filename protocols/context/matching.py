"""Which profiles hold for which publications, whatever was possible of the contexts: `ContextRule` in NumPy.

    publications × profiles ─► what asks no context ─► pairs ─► possible values of each that is named ─► choices

Atoms lie one behind the other, those of a conjunct together, and the conjuncts of a profile. What asks no context is a
range of each atom, tried with some publications at a time. Of the pairs left, the possible values of what a profile
names are a stretch of the versions of that value, in the order of their issue, which two binary searches find; and each
choice of them is tried with all atoms.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import Padded, changed, elements, starts_of

Array = NDArray[Any]

AT_ONCE = 256  # publications
CELLS_MAX = 2_000_000  # publications times atoms, or choices times atoms, that are tried at once
CHOICES_MAX = 4096
_TESTS = {
    "<": lambda left, right, _: left < right,
    "<=": lambda left, right, _: left <= right,
    "=": lambda left, right, _: left == right,
    "!=": lambda left, right, _: left != right,
    ">=": lambda left, right, _: left >= right,
    ">": lambda left, right, _: left > right,
    "~": lambda left, right, epsilon: (left >= right - epsilon) & (left <= right + epsilon),
}


@dataclass(frozen=True)
class Atoms:
    """The atoms of all profiles, in the order of profile and conjunct; what of an atom is not there is NaN."""

    versions: Array  # by profile: its row among the versions
    starts: Array  # by profile: its atoms
    conjunct: Array  # whether a conjunct begins with the atom
    attribute: Array
    operator: Array
    constant: Array
    epsilon: Array
    slot: Array  # which of the values that its profile names; -1: none
    names: Array  # by profile: its names
    named: Array  # by name: the value, as `Values` numbers them


@dataclass(frozen=True)
class Values:
    """The versions of all values, in the order of value and issue, and when one of them counts."""

    words: Array
    starts: Array  # by word, and one for a word that nobody ever set
    value: Array
    by_gone: tuple[Array, Array]  # all times at which a version is gone; and by version its word and time as one number
    by_issue: tuple[Array, Array]
    first_ns: Array  # by version: when one up to it had settled first

    @classmethod
    def of(cls, versions: Any, rows: Array, whole: Array, never_ns: int) -> Values:
        order = np.lexsort((versions.change[rows], versions.issued_ns[rows], versions.interest[rows]))
        rows = rows[order]
        words, group = np.unique(versions.interest[rows], return_inverse=True)
        settled = np.where(whole[rows], versions.settled_ns[rows], never_ns)
        gone = _least_of_later(group, versions.gone_ns[rows])  # once any later one has settled
        value = versions.values[rows, 2] if rows.size else np.empty(0)
        starts = np.r_[starts_of(group, words.size), rows.size]
        first = _least_of_later(-group[::-1], settled[::-1])[::-1]
        return cls(words, starts, value, _coded(group, gone), _coded(group, versions.issued_ns[rows]), first)

    def possible(self, word: Array, time_ns: Array, end_ns: Array) -> tuple[Array, Array]:
        """Where the possible values of each start, and the values; NaN: it may not be known."""
        low = _found(self.by_gone, word, time_ns, "left", self.starts)
        high = _found(self.by_issue, word, end_ns, "right", self.starts)
        begun = high > self.starts[word]
        first = self.first_ns[np.maximum(high - 1, 0)] if self.first_ns.size else np.zeros(word.size)
        unsure = np.flatnonzero(~begun | (first >= time_ns))
        sizes = np.maximum(high - low, 0)
        place = np.repeat(np.arange(word.size), sizes)
        at = np.arange(place.size) + np.repeat(low - (np.cumsum(sizes) - sizes), sizes)
        value = self.value[at]
        place, value = np.r_[place, unsure], np.r_[value, np.full(unsure.size, np.nan)]
        order = np.lexsort((value, place))
        place, value = place[order], value[order]
        new = changed(place, np.where(np.isnan(value), 0.0, value), np.isnan(value))
        return starts_of(place[new], word.size), value[new]


@dataclass(frozen=True)
class Profiles(Padded):
    """See the module. What a judge is asked is said in `brokers.auditing`."""

    update: int  # the types of changes
    subscribe: int
    atom: int  # numbers of an atom
    word: tuple[int, int, int]  # a value's name: of (0, 0), and what a context and an attribute add to it
    operators: tuple[str, ...]
    never_ns: int

    @property
    def operations(self) -> frozenset[int]:
        return frozenset({self.update, self.subscribe})

    def decisions(self, stood: Any) -> Iterator[dict[str, Array]]:
        versions, publications = stood.versions, stood.publications
        whole = stood.heard()
        values = Values.of(versions, np.flatnonzero(versions.operation == self.update), whole, self.never_ns)
        atoms = self.atoms(versions, values)
        count = publications.publication.size
        for start in range(0, count, AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, count))
            met = [self._met(stood, atoms, rows, some) for some in _there(stood, atoms, rows)]
            if met:
                p, i = (np.concatenate(each) for each in zip(*met))
                some, every = self._held(publications, atoms, values, p, i)
                p, v, every = p[some], atoms.versions[i[some]], every[some]
                in_time = every & stood.in_time(p, v)
                yield stood.by_client(p, v, in_time, in_time & whole[v] & stood.unspoilt(p, v))

    def atoms(self, versions: Any, values: Values) -> Atoms:
        """What profiles ask; one that asks in no conjunct never holds and is left out."""
        rows = np.flatnonzero(versions.operation == self.subscribe)
        grid = versions.values[rows]
        grid = grid[:, : grid.shape[1] // self.atom * self.atom].reshape(-1, self.atom)
        profile = np.repeat(np.arange(rows.size), versions.values.shape[1] // self.atom)
        there = ~np.isnan(grid[:, 0])
        grid, profile = grid[there], profile[there]
        order = np.lexsort((grid[:, 0], profile))  # stable
        grid, profile = grid[order], profile[order]
        asking, profile = np.unique(profile, return_inverse=True)
        named = np.flatnonzero(~np.isnan(grid[:, 3]))
        first, step, of = self.word
        word = first + grid[named, 3].astype(np.int64) * step + grid[named, 4].astype(np.int64) * of
        at = np.minimum(np.searchsorted(values.words, word), max(values.words.size - 1, 0))
        known = values.words[at] == word if values.words.size else np.zeros(word.size, np.bool_)
        # Words that nobody ever set are one: of each nothing is known.
        number = np.where(known, at, values.words.size)
        names, which = np.unique(np.array([profile[named], number]), axis=1, return_inverse=True)
        starts = starts_of(names[0], asking.size)
        slot = np.full(profile.size, -1)
        slot[named] = which.reshape(-1) - starts[profile[named]]
        return Atoms(
            rows[asking], starts_of(profile, asking.size), changed(profile, grid[:, 0]), grid[:, 1], grid[:, 2],
            grid[:, 5], grid[:, 6], slot, starts, names[1],
        )  # fmt: skip

    def _met(self, stood: Any, atoms: Atoms, rows: Array, some: Array) -> tuple[Array, Array]:
        """Pairs that may count, as publication and profile, which hold as far as no context is asked."""
        owner, at = elements(atoms.starts, some)
        grid = stood.publications.values[rows]
        column, low, high = self._ranges(atoms, at, grid.shape[1])
        # A column that is in every range, and one that is in none.
        grid = np.c_[grid, np.zeros(rows.size), np.full(rows.size, np.nan)][:, column]
        begins = np.flatnonzero(atoms.conjunct[at])
        holds = np.logical_and.reduceat((grid >= low) & (grid <= high), begins, axis=1)
        holds = np.logical_or.reduceat(holds, np.flatnonzero(changed(owner[begins])), axis=1)
        p, i = np.nonzero(holds)
        p, i = rows[p], some[i]
        possible = stood.possible(p, atoms.versions[i])
        return p[possible], i[possible]

    def _ranges(self, atoms: Atoms, at: Array, attributes: int) -> tuple[Array, Array, Array]:
        """Of each atom the attribute it asks, and from where to where it may hold, contexts aside."""
        attribute, constant, epsilon = atoms.attribute[at], atoms.constant[at], atoms.epsilon[at]
        on_message, on_context = ~np.isnan(attribute), atoms.slot[at] >= 0
        low, high = np.full(at.size, -np.inf), np.full(at.size, np.inf)
        for number, sign in enumerate(self.operators):
            mine = np.flatnonzero((atoms.operator[at] == number) & ~on_context)
            off = epsilon[mine] if sign == "~" else 0.0
            if sign in ("=", ">=", ">", "~"):
                low[mine] = constant[mine] - off
            if sign in ("=", "<=", "<", "~"):
                high[mine] = constant[mine] + off
        there = on_message & (attribute >= 0) & (attribute < attributes)
        column = np.where(there, attribute, attributes + 1)
        column[np.isnan(atoms.operator[at]) | (~on_message & on_context)] = attributes
        asked = column < attributes
        return column.astype(np.int64), np.where(asked, low, -np.inf), np.where(asked, high, np.inf)

    def _held(
        self, publications: Any, atoms: Atoms, values: Values, p: Array, i: Array
    ) -> tuple[Array, Array]:
        """Of pairs, whether the profile holds under some choice of possible values, and whether under all."""
        some, every = np.zeros(p.size, np.bool_), np.zeros(p.size, np.bool_)
        place, at = elements(atoms.names, i)
        key = p[place] * (values.words.size + 1) + atoms.named[at]
        keys, which = np.unique(key, return_inverse=True)
        row, word = np.divmod(keys, values.words.size + 1)
        starts, value = values.possible(word, publications.time_ns[row], publications.end_ns[row])
        named = starts_of(place, p.size)
        sizes = np.diff(starts)[which]
        choices, strides = _strides(named, sizes)
        few = choices <= CHOICES_MAX
        known = (named, which, starts, value, sizes, strides)
        cells = np.where(few, choices, 1.0) * np.diff(atoms.starts)[i]
        order = np.arange(p.size)
        for rows in np.split(order, np.flatnonzero(np.diff(np.cumsum(cells) // CELLS_MAX)) + 1):
            tried = rows[few[rows]]
            owner, choice = elements(np.r_[0, np.cumsum(choices[tried].astype(np.int64))], np.arange(tried.size))
            choice -= np.r_[0, np.cumsum(choices[tried].astype(np.int64))][owner]
            holds = self._holds(publications, atoms, p, i, tried[owner], choice, known)
            some[tried[owner[holds]]] = True
            every[tried] = True
            every[tried[owner[~holds]]] = False
        many = np.flatnonzero(~few)
        some[many] = self._holds(publications, atoms, p, i, many, None, known)
        return some, every

    def _holds(
        self, publications: Any, atoms: Atoms, p: Array, i: Array, rows: Array, choice: Array | None, known: Any
    ) -> Array:
        """Whether profiles hold, of pairs `rows` each with a choice; without, as far as no context is asked."""
        place, at = elements(atoms.starts, i[rows])
        pair, slot = rows[place], atoms.slot[at]
        attribute = atoms.attribute[at]
        grid = publications.values
        on_message = ~np.isnan(attribute)
        there = on_message & (attribute >= 0) & (attribute < grid.shape[1])
        value = np.full(at.size, np.nan)
        value[there] = grid[p[pair[there]], attribute[there].astype(np.int64)]
        told = np.full(at.size, np.nan)
        on_context = slot >= 0
        if choice is not None and on_context.any():
            named, which, starts, values, sizes, strides = known
            name = named[pair[on_context]] + slot[on_context]
            digit = choice[place[on_context]] // strides[name] % sizes[name]
            told[on_context] = values[starts[which[name]] + digit]
        left = np.where(on_message, value, told)
        right = np.where(on_message & on_context, told, atoms.constant[at])
        holds = ~np.isnan(left) & ~np.isnan(right)
        tested = np.zeros(at.size, np.bool_)
        for number, sign in enumerate(self.operators):
            mine = np.flatnonzero(atoms.operator[at] == number)
            tested[mine] = _TESTS[sign](left[mine], right[mine], atoms.epsilon[at[mine]])
        holds &= tested
        if choice is None:
            holds |= on_context & (~on_message | ~np.isnan(value))
        holds |= np.isnan(atoms.operator[at])
        begins = np.flatnonzero(atoms.conjunct[at])
        if not begins.size:
            return np.zeros(rows.size, np.bool_)
        conjuncts = np.logical_and.reduceat(holds, begins)
        found = np.zeros(rows.size, np.bool_)
        found[place[begins[conjuncts]]] = True
        return found


def _there(stood: Any, atoms: Atoms, rows: Array) -> Iterator[Array]:
    """The profiles that can have been there, some at a time."""
    publications, versions = stood.publications, stood.versions
    begin, end = publications.time_ns[rows].min(), publications.end_ns[rows].max()
    of = atoms.versions
    there = np.flatnonzero((versions.issued_ns[of] <= end) & (versions.gone_ns[of] >= begin))
    cells = np.cumsum(np.diff(atoms.starts)[there]) * rows.size
    for some in np.split(there, np.flatnonzero(np.diff(cells // CELLS_MAX)) + 1):
        if some.size:
            yield some


def _strides(starts: Array, sizes: Array) -> tuple[Array, Array]:
    """Of each row how many choices there are of one element of each of its lists; and by list how many of those behind.

    Rows with too many are told to have as many as there are too many of, so that numbers stay small.
    """
    count = np.diff(starts)
    choices, strides = np.ones(count.size), np.ones(sizes.size, np.int64)
    for k in range(int(count.max(initial=0))):
        rows = np.flatnonzero(count > k)
        at = starts[rows] + k
        strides[at] = np.minimum(choices[rows], 2 * CHOICES_MAX).astype(np.int64)
        choices[rows] = choices[rows] * sizes[at]
    return choices, strides


def _coded(group: Array, time_ns: Array) -> tuple[Array, Array]:
    """Times that rise within their group, as numbers that rise altogether."""
    times, place = np.unique(time_ns, return_inverse=True)
    return times, group * (times.size + 1) + place


def _found(coded: tuple[Array, Array], group: Array, time_ns: Array, side: Any, starts: Array) -> Array:
    """The first row of a group whose time is at `time_ns` or later; from the right: later."""
    times, codes = coded
    wanted = group * (times.size + 1) + np.searchsorted(times, time_ns, side)
    return np.clip(np.searchsorted(codes, wanted, "left"), starts[group], starts[group + 1])


def _least_of_later(group: Array, time_ns: Array) -> Array:
    """By row the least time of it and those behind it in its group; groups rise, or fall as negative numbers."""
    times, place = np.unique(time_ns, return_inverse=True)
    group = group - group.min(initial=0)
    codes = np.minimum.accumulate((group * (times.size + 1) + place)[::-1])[::-1]
    return times[codes % (times.size + 1)] if codes.size else time_ns
