"""The catalogue as kernels see it.

Shapes: I slots (one per item ever put), L live items, P signatures, H trends, E entries of rows, k factors.
    own, signature (I,)              an item's id column (−1: none) and its signature (−1: not live)
    start, length (P,)               a signature's entries in column, value (pool,)
    head (d,), following, owner (n,) linked lists: column → the signatures that contain it
    live (L,)                        slots in the order of the scan
    born (I,)                        the order of registration
"""

from typing import NamedTuple

from coldstream.arrays import Doubles, Floats, Integers, Longs


class Shared(NamedTuple):
    """The signatures: each a set of shared features that one or more items have."""

    start: Integers
    length: Integers
    column: Integers
    value: Floats
    head: Integers
    following: Integers
    owner: Integers


class Trends(NamedTuple):
    """Per slot and half-life, the logarithm of a decaying count, and the clock of its last change."""

    level: Floats  # (I, H): log(count / ε) at that clock, −∞ for no count
    clock: Longs  # (I,): for an untried item, when it came
    times: Integers  # (I,): how often an item was chosen since it came
    rate: Floats  # (H,): what a level loses per event
    column: Integers  # (H,)
    interacting: bool  # whether any trend has factors
    fade: float  # the fastest of the rates, at which an untried item is no longer new
    untried: Doubles  # (1,): the untried items there are, each faded since it came
    newcomers: Doubles  # (2, H): decaying sums of untried items chosen, and of `untried` at every event
    guess: Floats  # (H,): the level of an untried item the moment it comes, from those two


class Neighbours(NamedTuple):
    """Per slot, a row of partners in one piece."""

    start: Integers  # (I,): where the row begins
    length: Integers  # (I,): entries in the row
    room: Integers  # (I,): entries of its piece
    chosen: Integers  # (I,): how often the item was chosen, −1 where it is not live
    partner: Integers  # (E,): slots
    together: Integers  # (E,): how often one of the pair was chosen within a window after the other
    follows: Integers  # (E,): how often the partner was chosen right after the item
    used: Integers  # (1,): the entries that were ever part of a piece
    free: Integers  # (sizes,): by size, the first piece that is free again (−1: none)
    column: Integers  # (3,): of the features `follows`, `together` and `again`, −1 where the schema has none
    most: int  # partners of one item


class Person(NamedTuple):
    """What a user did so far, in slots."""

    past: Integers  # the last items whose neighbours count, each once, the latest at the end
    had: Integers  # all items, some perhaps in several entries …
    times: Integers  # … and how often each entry counts


class Live(NamedTuple):
    """What the scan reads of the live items, in its order."""

    slot: Integers  # (L,)
    own: Integers  # (L,)
    signature: Integers  # (L,)
    level: Floats  # (H, L or more): of the trends, −∞ for an untried item
    clock: Longs  # (L,)
    untried: Floats  # (L,): 1 for an untried item, 0 for others


class Items(NamedTuple):
    """The catalogue as kernels see it."""

    own: Integers
    signature: Integers
    born: Longs
    live: Integers
    shared: Shared
    trends: Trends
    neighbours: Neighbours
