"""Requests to the scorer, checked and encoded, alone and in batches."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import UserHistory
from coldstream.features.sparse import Sparse
from coldstream.support.arrays import Flags, Floats, Integers

NOTHING_EXCLUDED: Flags = np.zeros(0, np.uint8)
NOTHING_ADDED: Floats = np.zeros(0, np.float32)


class EncodedRequest(NamedTuple):
    """One encoded request."""

    x: Sparse
    """Features that the request fixes: those of the user, the context and the user's past."""
    history: UserHistory
    n: int = 1
    """Number of items wanted."""
    exclude_seen: bool = False
    """Whether the items that the user had are excluded."""
    excluded: Flags = NOTHING_EXCLUDED
    """By slot, whether it is excluded for other reasons; empty if nothing is."""
    added: Floats = NOTHING_ADDED
    """By slot, the number that a rule adds to the score; empty if there is none."""


class RequestBatch(NamedTuple):
    """Requests one after another: request b has the entries offset[·, b] to offset[·, b + 1] of each part."""

    offset: Integers  # (4, B + 1): of x, of recent, of seen, and of the answers
    x: Sparse
    recent: Integers
    seen: Integers
    times: Integers
    exclude_seen: Flags  # (B,)
    excluded: Flags  # (masks, I)
    mask: Integers  # (B,): row of `excluded` for each request, −1 for none
    added: Floats  # (rows, I)
    rule: Integers  # (B,): row of `added` for each request, −1 for none

    @classmethod
    def of(cls, requests: Sequence[EncodedRequest], items: int) -> "RequestBatch":
        """Build a batch of requests to a catalogue of `items` items, which bounds the number of answers."""
        if len(requests) == 1:
            return cls._of_one(requests[0], items)
        sizes = (
            [len(one.x.column) for one in requests],
            [len(one.history.recent) for one in requests],
            [len(one.history.seen) for one in requests],
            [min(one.n, items) for one in requests],
        )
        masks = {id(one.excluded): one.excluded for one in requests if len(one.excluded)}  # requests often share a mask
        rows = {key: row for row, key in enumerate(masks)}
        rules = [one.added for one in requests if len(one.added)]
        numbers = iter(range(len(rules)))
        joined = np.concatenate
        recent, seen, times = (joined(own) for own in zip(*(one.history for one in requests), strict=True))
        return cls(
            np.array([list(accumulate(own, initial=0)) for own in sizes], np.int32),
            Sparse(joined([one.x.column for one in requests]), joined([one.x.value for one in requests])),
            recent,
            seen,
            times,
            np.array([one.exclude_seen for one in requests], np.uint8),
            np.stack(list(masks.values())) if masks else _NO_MASKS,
            np.array([rows.get(id(one.excluded), -1) for one in requests], np.int32),
            np.stack(rules) if rules else _NO_RULES,
            np.array([next(numbers) if len(one.added) else -1 for one in requests], np.int32),
        )

    @classmethod
    def _of_one(cls, request: EncodedRequest, items: int) -> "RequestBatch":
        """Build a batch of one request, the most frequent size, without joining arrays."""
        x, (recent, seen, times), n, exclude_seen, excluded, added = request
        ends = ((0, len(x.column)), (0, len(recent)), (0, len(seen)), (0, min(n, items)))
        flags = _YES if exclude_seen else _NO
        masks, mask = (excluded.reshape(1, -1), _FIRST) if len(excluded) else (_NO_MASKS, _NONE)
        rules, rule = (added.reshape(1, -1), _FIRST) if len(added) else (_NO_RULES, _NONE)
        return cls(np.array(ends, np.int32), x, recent, seen, times, flags, masks, mask, rules, rule)


_YES, _NO = np.ones(1, np.uint8), np.zeros(1, np.uint8)
_NO_MASKS, _NO_RULES = np.zeros((0, 0), np.uint8), np.zeros((0, 0), np.float32)
_NONE, _FIRST = np.full(1, -1, np.int32), np.zeros(1, np.int32)
