"""What links are called that are described, and not listed (`topology.described`)."""

from __future__ import annotations

from typing import Any, NamedTuple


class Numbers(NamedTuple):
    """The numbers of directed links that are described. Each way takes one number, or an array of them."""

    first: int
    nodes: int

    def of(self, source: Any, target: Any) -> Any:
        """The link from a node to another."""
        return self.first + source * self.nodes + target

    def source(self, number: Any) -> Any:
        return (number - self.first) // self.nodes

    def target(self, number: Any) -> Any:
        return (number - self.first) % self.nodes

    def back(self, number: Any) -> Any:
        """The link the other way."""
        return self.of(self.target(number), self.source(number))

    @property
    def end(self) -> int:
        return self.first + self.nodes * self.nodes
