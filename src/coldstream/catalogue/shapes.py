"""The arrays of the catalogue, in the form that kernels read.

Shapes: I slots (one per item ever put, unless reused), L live items, A attribute fields of categories, B of plain numbers,
H trends, P combinations, F shared features, E entries of rows, k factors. Arrays may have more room than that.

An item keeps its slot while it is not live, until the slot is freed: users' histories refer to it. While the item is live it
also has a position in the scan, and everything that a scan reads lies by position, in parallel arrays.
"""

from typing import NamedTuple

from coldstream.support.arrays import Doubles, Flags, Floats, Integers, Longs

MOST_COUNTED = 2**31 - 2
"""Largest count of choices; further ones are not counted."""


class ScanRows(NamedTuple):
    """Rows that a scan reads of the live items; the last axis is always the position."""

    slot: Integers  # (L,)
    id_column: Integers  # (L,): −1 where the schema has no item id
    combination: Integers  # (A, L): number of the item's combination of values; 0 is the empty one
    number: Floats  # (B, L): the item's numbers, scaled; 0 where it has none
    level: Floats  # (H, L): trend levels, log(count / ε), at the item's last choice; −∞ before the first
    counted_at: Longs  # (L,): the count of events at the item's last choice, or at its arrival
    unchosen: Floats  # (L,): 1 for an item not chosen since its arrival, 0 for others


class Combinations(NamedTuple):
    """The distinct combinations of values that items have in one field: a category, or a set of them."""

    size: int  # P
    features: int  # F
    start: Integers  # (P,): where the entries of each combination begin
    length: Integers  # (P,)
    feature: Integers  # (entries,): places in `column`
    value: Floats  # (entries,)
    column: Integers  # (F,): the columns in Θ of all features that any combination has, each once


class Trends(NamedTuple):
    """The values that all items' trends have in common."""

    rate: Floats  # (H,): decrease of a level per event
    column: Integers  # (H,)
    prior_decay: float  # the fastest of the rates, at which an unchosen item is no longer new
    unchosen_total: Doubles  # (1,): sum over the unchosen items, each decayed since its arrival
    newcomers: Doubles  # (2, H): decaying sums of choices of unchosen items, and of `unchosen_total` at every event
    prior: Floats  # (H,): level of an unchosen item at its arrival, from those two


class Neighbours(NamedTuple):
    """Rows of partners by slot, each in one contiguous piece of memory."""

    start: Integers  # (I,): where each row begins
    length: Integers  # (I,): entries of each row
    room: Integers  # (I,): entries of each row's piece
    partner: Integers  # (E,): slots
    together: Integers  # (E,): how often one of the pair was chosen within a window after the other
    follows: Integers  # (E,): how often the partner was chosen right after the item
    used: Integers  # (1,): entries that were ever part of a piece
    free: Integers  # (sizes,): by size, the first free piece (−1: none)
    column: Integers  # (3,): columns of the features `follows`, `together` and `again`, −1 where the schema has none
    most: int  # most partners of one item


class Windows(NamedTuple):
    """Availability windows by slot. Items of slots beyond the arrays are always available."""

    begin: Doubles  # first moment of availability, in seconds since 1970; −∞ if there is no beginning
    end: Doubles  # first moment after the availability; ∞ if there is no end
    hidden: Flags


class UserHistory(NamedTuple):
    """The history of a user, in slots."""

    recent: Integers  # the last items whose neighbours count, each once, the latest at the end
    seen: Integers  # all items, some perhaps in several entries
    times: Integers  # how often each entry of `seen` counts


class Items(NamedTuple):
    """The catalogue in the form that kernels read."""

    size: int  # L
    rows: ScanRows
    position: Integers  # (I,): −1 where an item is not live
    choices: Integers  # (I,): how often an item was chosen since its arrival, −1 where it is not live
    registered_at: Longs  # (I,): the order of registration
    marked: Flags  # (I,): scratch marks of slots, all 0 between two uses
    combinations: Combinations
    number_column: Integers  # (B,): −1 where no item has had a number yet
    trends: Trends
    neighbours: Neighbours
    windows: Windows
