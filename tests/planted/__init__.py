"""Planted bugs: small protocols with a mistake that somebody made, and the same without it. See `registry.py`."""
