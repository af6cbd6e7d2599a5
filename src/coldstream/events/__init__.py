"""What happened."""

from coldstream.events.event import Event

__all__ = ["Event"]
