"""Clients that come and go: when they are connected, and at which broker."""
