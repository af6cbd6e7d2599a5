"""Admission of requests: by key, scope and rate; without keys, only requests from this machine to itself."""

import math
import re
from http import HTTPStatus
from typing import Protocol

from starlette.types import Scope

from coldstream.service.http.keys import Key
from coldstream.service.http.problems import Problem
from coldstream.service.http.rates import Rates

_LOCAL = re.compile(rb"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{0,5})?", re.IGNORECASE)
_OWN_SITES = (None, b"same-origin", b"none")
"""Values of Sec-Fetch-Site for requests by the service's own page, or by an address that was typed in; None: no browser."""


class KnownKeys(Protocol):
    """The contract of the keys of a service: `Keys`, or a `KeyFile`, which may change."""

    def find(self, presented: str) -> Key | None:
        """Return the key that a request presents; None if it is not known."""


class Gate:
    """The gate before all routes but those that need no key: it admits a request, or raises `Problem`."""

    def __init__(self, keys: KnownKeys | None, rates: Rates) -> None:
        self._keys, self._rates = keys, rates

    def admit(self, scope: Scope, headers: dict[bytes, bytes], needed: str) -> None:
        """Admit a request that has the scope it needs and is within the rate. Raises `Problem` otherwise."""
        if self._keys is None:
            _check_local(headers)
            _check_origin(headers)
            client = scope.get("client")
            who = client[0] if client else ""
        else:
            who = self._known(self._keys, headers, needed)
        wait = self._rates.wait(who)
        if wait > 0:
            later = {"Retry-After": str(math.ceil(wait))}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, f"too many requests; try again in {wait:.1f} s", None, later)

    def _known(self, keys: KnownKeys, headers: dict[bytes, bytes], needed: str) -> str:
        scheme, _, presented = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = keys.find(presented.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            asks = {"WWW-Authenticate": "Bearer"}
            raise Problem(HTTPStatus.UNAUTHORIZED, "the header Authorization must be Bearer and a known key", None, asks)
        if needed not in key.scopes:
            message = f"key {key.name!r} has not the scope {needed!r}, only {', '.join(key.scopes)}"
            raise Problem(HTTPStatus.FORBIDDEN, f"{message}; use another key")
        return key.name


def _check_local(headers: dict[bytes, bytes]) -> None:
    """Refuse a Host that is no name of this machine: by DNS rebinding, a page of another site could do everything."""
    host = headers.get(b"host", b"")
    if _LOCAL.fullmatch(host) is None:
        message = f"the header Host must be a name of this machine itself, got {host.decode('latin-1')!r}"
        raise Problem(HTTPStatus.MISDIRECTED_REQUEST, f"{message}; set keys to serve under other names")


def _check_origin(headers: dict[bytes, bytes]) -> None:
    """Refuse requests by pages of another origin. Only browsers send the headers that tell."""
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site in _OWN_SITES and (origin is None or origin.lower() in _origins(headers[b"host"])):
        return
    who = "another origin" if origin is None else f"the origin {origin.decode('latin-1')!r}"
    message = f"a page of {who} must not call this service, for without keys it could do everything"
    raise Problem(HTTPStatus.FORBIDDEN, f"{message}; use the service's own page, or set keys")


def _origins(host: bytes) -> tuple[bytes, bytes]:
    return b"http://" + host.lower(), b"https://" + host.lower()
