"""A digest of a recommender's whole state, which compares replicas without transferring the state."""

import json
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from coldstream.runtime.learner import OWN, Learner
from coldstream.snapshots.fork import Fork
from coldstream.snapshots.increments import State


def digest(state: State) -> str:
    """Return the digest of a recommender's state as hexadecimal digits; identical states have equal digests.

    The parts that belong to the service, stored under `OWN`, are left out.
    """
    document, arrays = state
    own = {name: part for name, part in document.items() if name != OWN}
    found = blake2b(json.dumps(own, sort_keys=True).encode(), digest_size=16)
    for name in sorted(name for name in arrays if not name.startswith(OWN)):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


async def fingerprinted(learner: Learner) -> tuple[int, str]:
    """Return the log position of a learner and the digest of its state there.

    It waits until parallel learners have merged. A forked process computes the digest, so only the fork blocks the loop.
    """
    await learner.settled()
    position = learner.position
    answer = await Fork(partial(_digested, learner)).answer()
    return position, str(answer["digest"])


def _digested(learner: Learner) -> dict[str, Any]:
    return {"digest": digest(learner.view())}
