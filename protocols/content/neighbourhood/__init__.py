"""Reliable delivery that goes on past brokers that are down (`broker.py`)."""

from protocols.content.neighbourhood.broker import Neighbourhood, Options

__all__ = ["Neighbourhood", "Options"]
