"""What a running replica says that it holds."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from coldstream.cli.service_client import KEY
from coldstream.errors import InvalidInput, Unavailable
from coldstream.runtime.verification import Held

LONGEST = 600.0
"""Seconds that it may take."""


def held_by(url: str, environ: Mapping[str, str]) -> Held:
    """The position and the fingerprint of a replica at an address such as http://10.0.0.6:8000."""
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"replica must be an address such as http://10.0.0.6:8000, got {url!r}")
    headers = {"Authorization": f"Bearer {environ[KEY]}"} if environ.get(KEY) else {}
    try:
        with urlopen(Request(f"{url.rstrip('/')}/fingerprint", headers=headers), timeout=LONGEST) as answer:  # noqa: S310
            said = json.load(answer)
        return Held(url, int(said["position"]), str(said["fingerprint"]))
    except HTTPError as error:
        key = f"; set {KEY} to one with the scope admin" if error.code in (401, 403) else ""
        raise Unavailable(f"replica {url} answers {error.code} ({error.read(500).decode(errors='replace')}){key}") from error
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"replica {url} cannot be asked ({error}); is it a service that is ready?") from error
