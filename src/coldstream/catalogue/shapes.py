"""The catalogue as kernels see it.

Shapes: I slots (one per item ever put), L live items, A attribute fields of categories, B of plain numbers, H trends,
P combinations, F shared features, E entries of rows, k factors. Arrays may have more room than that.

An item has a slot for life, also while it is not live: users' histories refer to it. While it is live it has a position in
the scan as well, and everything that a scan reads lies by position, side by side.
"""

from typing import NamedTuple

from coldstream.support.arrays import Doubles, Flags, Floats, Integers, Longs

MOST_COUNTED = 2**31 - 2
"""How often something was chosen, at most; beyond that it is not counted further."""


class ScanRows(NamedTuple):
    """What a scan reads of the live items, by position; the last axis is always the position."""

    slot: Integers  # (L,)
    id_column: Integers  # (L,): −1 where the schema has no item id
    combination: Integers  # (A, L): which of the combinations of values an item has; 0 is none
    number: Floats  # (B, L): its numbers, scaled; 0 where it has none
    level: Floats  # (H, L): of its trends, log(count / ε) when it was last chosen; −∞ where it never was
    counted_at: Longs  # (L,): when it was last chosen, or when it came
    unchosen: Floats  # (L,): 1 for an item that nobody has chosen since it came, 0 for others


class Combinations(NamedTuple):
    """The distinct combinations of values that items have in one field: a category, or a set of them."""

    size: int  # P
    features: int  # F
    start: Integers  # (P,): where its entries begin
    length: Integers  # (P,)
    feature: Integers  # (entries,): places in `column`
    value: Floats  # (entries,)
    column: Integers  # (F,): the columns in Θ of all features that any combination has, each once


class Trends(NamedTuple):
    """What all items' trends have in common."""

    rate: Floats  # (H,): what a level loses per event
    column: Integers  # (H,)
    prior_decay: float  # the fastest of the rates, at which an unchosen item is no longer new
    unchosen_total: Doubles  # (1,): the unchosen items there are, each faded since it came
    newcomers: Doubles  # (2, H): decaying sums of unchosen items that were chosen, and of `unchosen_total` at every event
    prior: Floats  # (H,): the level of an unchosen item the moment it comes, from those two


class Neighbours(NamedTuple):
    """Per slot, a row of partners in one piece."""

    start: Integers  # (I,): where the row begins
    length: Integers  # (I,): entries in the row
    room: Integers  # (I,): entries of its piece
    partner: Integers  # (E,): slots
    together: Integers  # (E,): how often one of the pair was chosen within a window after the other
    follows: Integers  # (E,): how often the partner was chosen right after the item
    used: Integers  # (1,): the entries that were ever part of a piece
    free: Integers  # (sizes,): by size, the first piece that is free again (−1: none)
    column: Integers  # (3,): of the features `follows`, `together` and `again`, −1 where the schema has none
    most: int  # partners of one item


class Windows(NamedTuple):
    """Per slot, when an item may be recommended. Slots beyond the arrays are of items that always may."""

    begin: Doubles  # the first moment, in seconds since 1970; −∞ for always
    end: Doubles  # the first moment after it; ∞ for ever
    hidden: Flags


class UserHistory(NamedTuple):
    """What a user did so far, in slots."""

    recent: Integers  # the last items whose neighbours count, each once, the latest at the end
    seen: Integers  # all items, some perhaps in several entries …
    times: Integers  # … and how often each entry counts


class Items(NamedTuple):
    """The catalogue as kernels see it."""

    size: int  # L
    rows: ScanRows
    position: Integers  # (I,): −1 where an item is not live
    choices: Integers  # (I,): how often an item was chosen since it came, −1 where it is not live
    registered_at: Longs  # (I,): the order of registration
    marked: Flags  # (I,): room to mark slots in, all 0 between two uses
    combinations: Combinations
    number_column: Integers  # (B,): −1 where no item has had a number yet
    trends: Trends
    neighbours: Neighbours
    windows: Windows
