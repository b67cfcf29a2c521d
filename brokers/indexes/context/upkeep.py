"""What a default spends on its index, and whether that pays: counted, so that two runs decide alike.

All costs are estimates in nanoseconds, from what was measured once; only their ratios matter. Nothing looks at a clock.

- A message is charged as it was answered, by rows and candidates or by the scan. What the rows took less than a
  scan would have taken is what the index saved.
- Updates that regions follow are charged to the index. What it has cost beyond what it saved, and beyond an eighth
  of everything else, is its debt. At `_DEBT_SCANS` scans the index is put to rest: values are followed no longer as
  soon as they change. It is tried again when messages have made good for the debt, and later each time.
- An eighth of everything is credit, for making rows anew a stretch at a time; and so is all that a message costs more
  than messages did just after rows were made. While rows are made since values move on there is a hurry, as those that
  are asked grow worse with every update: each region that moves is credit then, up to what rows save a message.
- Rows that leave more candidates than a scan takes time for are not asked again for 1, 3, 7 .. 31 messages.
"""

from __future__ import annotations

GAP = 8  # messages; a value that changes again within is followed no longer, unless that is cheap
COOL = 4 * GAP  # messages without a change, after which it is followed again
NEVER = 1 << 31
CLOCK_START, _CLOCK_MAX = 1 << 10, (1 << 31) - 1
CREDIT_MAX = 200_000  # the longest pause, nearly
HURRY_MAX = 300_000  # likewise, while rows are made anew since values move
_BASE = 8_000  # a message in Python
_CANDIDATE = 15
_UPDATE = 64  # a multiple of eight: what is credit does not depend on how updates are cut into batches
_FOLLOW, _FLIP, _LEAVE = 60, 8, 15
_MOVED = 100  # in a hurry: rows are made anew by the time that half of the regions have moved
_DEBT_SCANS = 64
_PATIENCE_MIN, _PATIENCE_MAX = 512, 1 << 16
_REST_OWED_MAX = 1 << 13
_SKIP_MAX = 31
_USUAL = 32  # messages


class Upkeep:
    """Decides, by counts alone, whether rows are asked and values followed, and how much may be made anew."""

    look_every = 16  # messages: whether rows are to be made anew
    check_moves = 1 << 10  # regions that move before it is asked again whether cells are quantiles, at least
    parked_share = 32  # one in so many conjuncts is reason to make rows anew
    start_ns = 100_000
    stretch, stretch_ns = 1 << 10, 40  # conjuncts made anew together, whole cache lines of each row; each costs

    def __init__(self, attributes: int) -> None:
        self.attributes = attributes
        self.clock = CLOCK_START  # messages, so far
        self.gap = GAP
        self.credit = 0
        self.hurry = False  # whether rows are being made anew since values move
        self._hurry_ns = 0
        self.skips = 0  # messages that are scanned without asking the rows
        self._skip_next = 1
        self._debt = 0
        self._patience = _PATIENCE_MIN
        self._rests = 0  # messages until following is tried again
        self.renewed()

    def most(self, conjuncts: int) -> int:
        """Candidates beyond which a scan is faster."""
        return conjuncts // 48 + 64

    def answered(self, conjuncts: int, candidates: int) -> None:
        """A message was answered by the rows."""
        cost = conjuncts * self.attributes // 100 + _CANDIDATE * candidates
        self._skip_next = 1
        if not self._debt:
            self._patience -= (self._patience - _PATIENCE_MIN) >> 9
        self._message(cost, max(0, _scan(conjuncts) - cost), conjuncts)

    def too_many(self) -> None:
        """The rows left too many candidates."""
        self.skips, self._skip_next = self._skip_next, min(2 * self._skip_next + 1, _SKIP_MAX)

    def scanned(self, conjuncts: int) -> None:
        """A message was answered by a scan."""
        self._message(_scan(conjuncts), 0, conjuncts)

    def updated(self, count: int) -> None:
        """So many values were set."""
        self._allow(_UPDATE * count)

    def followed(self, entries: int, flipped: int, left: int) -> None:
        """Regions followed their values by so many bits, and some were left."""
        self._debt += _FOLLOW * entries + _FLIP * flipped + _LEAVE * left
        self._hurry_ns += _MOVED * entries

    def renewed(self) -> None:
        """Rows were made anew: what the next messages cost is what messages ought to cost."""
        self._usual, self._usual_of = 0, 0

    def _message(self, cost: int, saved: int, conjuncts: int) -> None:
        clock = self.clock + 1
        self.clock = clock if clock < _CLOCK_MAX else CLOCK_START
        self._allow(cost + _BASE)
        if self._usual_of < _USUAL:
            self._usual, self._usual_of = self._usual + cost, self._usual_of + 1
        else:
            self.credit = min(CREDIT_MAX, self.credit + max(0, cost - self._usual // _USUAL))
        if self.hurry:
            self.credit = min(HURRY_MAX, self.credit + min(saved, self._hurry_ns))
        self._hurry_ns = 0
        self._debt = max(0, self._debt - saved)
        if self._rests:
            self._rests -= 1
            if not self._rests:
                self.gap, self._debt = GAP, 0
        elif self._debt > _DEBT_SCANS * _scan(conjuncts) and self.gap:
            owed = min(16 * self._debt // (_scan(conjuncts) + _BASE), _REST_OWED_MAX)
            self.gap, self._rests = NEVER, max(self._patience, owed)
            self._patience = min(2 * self._patience, _PATIENCE_MAX)

    def _allow(self, cost: int) -> None:
        self.credit = max(self.credit, min(CREDIT_MAX, self.credit + cost // 8))
        self._debt = max(0, self._debt - cost // 8)


def _scan(conjuncts: int) -> int:
    return conjuncts * 9 // 20
