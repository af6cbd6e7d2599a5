"""Ids of events that name messages of a broker.

A client that sent such an id by accident could make the service take a message for a repetition, and never learn it. A
reader of a source says which kind of source it reads in the header `coldstream-source`. That header prevents accidents and
is no permission: a key with the scope `write` may send it.
"""

from coldstream.errors import shown

SOURCE_KINDS = ("nats", "kafka", "outbox")
"""Kinds of sources. The id of a message begins with one of them and a colon."""
SOURCE_HEADER = "coldstream-source"
"""Header in which a reader names the kind of source whose messages it sends."""


def source_kind(event_id: str | None) -> str | None:
    """Return the kind of source that an event id claims to come from, or None.

    >>> source_kind("nats:SHOP:17"), source_kind("order-17"), source_kind("nats")
    ('nats', None, None)
    """
    kind, colon, _ = (event_id or "").partition(":")
    return kind if colon and kind in SOURCE_KINDS else None


def reserved_id(event_id: str) -> str:
    """Say why a client may not choose an event id, and which id to choose."""
    prefixes = ", ".join(f"{kind}:" for kind in SOURCE_KINDS)
    remedy = "choose an id with another prefix, or leave it out"
    return (
        f"event_id must not begin with one of {prefixes}, which name messages of a broker, got {shown(event_id)}; {remedy}"
    )
