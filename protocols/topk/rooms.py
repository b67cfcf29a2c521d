"""Rooms of arrays that compiled code sees, which notice when one of their arrays takes the place of another."""

from __future__ import annotations

from typing import Any

import numpy as np


class Room:
    """`renewed` is set when an attribute becomes another array; whoever has shown the arrays clears it."""

    renewed: bool = True

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if isinstance(value, np.ndarray):
            object.__setattr__(self, "renewed", True)

    def memory_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(each.nbytes for each in vars(self).values() if isinstance(each, np.ndarray))
