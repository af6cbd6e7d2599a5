"""Events: types, validation, files and data sets."""

from coldstream.events.event import Event

__all__ = ["Event"]
