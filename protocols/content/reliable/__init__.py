"""Reliable delivery: once, in order, through crashes and loss (`broker.py`)."""

from protocols.content.reliable.broker import Options, Reliable

__all__ = ["Options", "Reliable"]
