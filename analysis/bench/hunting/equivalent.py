"""Mutants that nobody can find, by id, each with the reason why not.

A reason says why no run of any model differs; what merely costs time or memory is of these, what delivers right and
sends more is not.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
