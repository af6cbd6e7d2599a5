"""All that is learned as one digest, so that replicas can be compared without sending what they hold."""

import json
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from coldstream.runtime.learner import OWN, Learner
from coldstream.snapshots.fork import Fork
from coldstream.snapshots.increments import State


def digest(state: State) -> str:
    """The digest of a recommender's state: equal bits have equal digests. What is a service's own is left out."""
    document, arrays = state
    own = {name: part for name, part in document.items() if name != OWN}
    found = blake2b(json.dumps(own, sort_keys=True).encode(), digest_size=16)
    for name in sorted(name for name in arrays if not name.startswith(OWN)):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


async def fingerprinted(learner: Learner) -> tuple[int, str]:
    """The position of a learner and the digest of what it knows there. A fork makes it: nobody waits for more than that."""
    await learner.settled()
    position = learner.position
    answer = await Fork(partial(_digested, learner)).answer()
    return position, str(answer["digest"])


def _digested(learner: Learner) -> dict[str, Any]:
    return {"digest": digest(learner.view())}
