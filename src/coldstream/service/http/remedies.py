"""Remedies of the library, which speaks Python, as calls of the service."""

import re

_AS_CALLS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"; put_item\(.*\) first\Z", re.DOTALL), "; PUT /items/{id} adds it"),
    (re.compile(r"; put_user\(.*\) first\Z", re.DOTALL), "; PUT /users/{id} adds one"),
    (re.compile(r", or a function of the item's attributes\Z"), ""),
)


def over_http(message: str) -> str:
    """A message of the library as a client is told it.

    >>> over_http("user 'ann' is not known; put_user('ann', …) first")
    "user 'ann' is not known; PUT /users/{id} adds one"
    """
    for remedy, call in _AS_CALLS:
        message = remedy.sub(call, message)
    return message
