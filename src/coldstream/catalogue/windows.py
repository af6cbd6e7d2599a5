"""Availability windows by slot, as kernels read them for one item, and as requests read them for all.

In a catalogue without windows the arrays are empty. The excluded items change only when a window begins or ends, or an item
is put: the mask is computed once in between, and shared by all requests.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.catalogue.shapes import Windows
from coldstream.events.availability import ALWAYS, Availability
from coldstream.support.arrays import Flags, checked_columns, grown
from coldstream.support.compiled import inlined

MOST_MASKS = 4
"""Most time spans with a cached mask: most requests are about the present, some about the past or the future."""

_NONE: Flags = np.zeros(0, np.uint8)


@inlined
def is_available(windows: Windows, slot: int, time: float) -> bool:
    """Return whether an item may be recommended at a time."""
    if slot >= len(windows.begin):
        return True
    return bool(windows.begin[slot] <= time and time < windows.end[slot] and not windows.hidden[slot])


class _Mask(NamedTuple):
    """The excluded items from one moment until another."""

    begin: float
    end: float
    excluded: Flags  # (I,), or empty where no item is excluded


class WindowTable:
    """The availability windows of the items that have one."""

    def __init__(self) -> None:
        self.limited = 0
        """Number of items that are not always available."""
        self.windows = _nobodys()
        self._masks: list[_Mask] = []

    def put(self, slot: int, availability: Availability) -> None:
        """Set when an item is available, in place of any earlier setting."""
        before = self.of(slot)
        if availability == before:
            return
        self._make_room(slot + 1)
        first, end = availability.available_from, availability.available_until
        self.windows.begin[slot] = -np.inf if first is None else first
        self.windows.end[slot] = np.inf if end is None else end
        self.windows.hidden[slot] = availability.hidden
        self.limited += (availability != ALWAYS) - (before != ALWAYS)
        if not self.limited:  # as in a catalogue without windows, where negative sampling makes fewer tries
            self.windows = _nobodys()
        self._masks.clear()

    def of(self, slot: int) -> Availability:
        """Return when an item is available."""
        if slot >= len(self.windows.begin):
            return ALWAYS
        begin, end = float(self.windows.begin[slot]), float(self.windows.end[slot])
        hidden = bool(self.windows.hidden[slot])
        if begin == -np.inf and end == np.inf and not hidden:
            return ALWAYS
        return Availability(None if begin == -np.inf else begin, None if end == np.inf else end, hidden)

    def excluded(self, time: float, slots: int) -> Flags:
        """Return by slot whether an item may not be recommended at a time, or an empty array if all may. To be read only.

        The array stays the same object until something changes.
        """
        if not self.limited:
            return _NONE
        place = next((n for n, mask in enumerate(self._masks) if mask.begin <= time < mask.end), None)
        if place is None:
            self._masks = [self._mask(time, slots), *self._masks[: MOST_MASKS - 1]]
            place = 0
        mask = self._masks[place]
        if len(mask.excluded) not in (0, slots):  # items arrived that are always available
            mask = self._masks[place] = mask._replace(excluded=_resized(mask.excluded, slots))
        return mask.excluded

    def _mask(self, time: float, slots: int) -> _Mask:
        begin, end, hidden = self.windows
        excluded = ((begin > time) | (end <= time) | (hidden > 0)).astype(np.uint8)
        moments = np.concatenate([begin, end])
        last, following = moments[moments <= time], moments[moments > time]
        span = (float(last.max(initial=-np.inf)), float(following.min(initial=np.inf)))
        return _Mask(*span, _resized(excluded, slots) if excluded.any() else _NONE)

    def _make_room(self, slots: int) -> None:
        begin, end, hidden = self.windows
        if slots > len(begin):
            self.windows = Windows(grown(begin, slots, -np.inf), grown(end, slots, np.inf), grown(hidden, slots))

    # For snapshots

    def state(self) -> dict[str, NDArray[Any]]:
        """Return slots and windows of all items that have a window."""
        begin, end, hidden = self.windows
        slot = np.flatnonzero((begin > -np.inf) | (end < np.inf) | (hidden > 0)).astype(np.int32)
        return {"slot": slot, "begin": begin[slot], "end": end[slot], "hidden": hidden[slot]}

    def restore(self, slots: Iterable[int], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Load what `state` returned, for a catalogue with these live slots. Older snapshots have no windows."""
        if "slot" not in arrays or not len(arrays["slot"]):
            return
        live = set(slots)
        slot = checked_columns("windows.slot", arrays["slot"], 0, max(live, default=-1) + 1)
        begin, end, hidden = (arrays[name] for name in ("begin", "end", "hidden"))
        same = begin.shape == end.shape == hidden.shape == slot.shape and hidden.dtype == np.uint8
        if not same or begin.dtype != np.float64 or end.dtype != np.float64 or not (begin < end).all():
            raise ValueError("the windows of items have not one type and length, or end before they begin")
        if not live.issuperset(slot.tolist()) or len(set(slot.tolist())) != len(slot):
            raise ValueError("a window is that of no item, or of one that has another")
        self._make_room(int(slot.max(initial=-1)) + 1)
        self.windows.begin[slot], self.windows.end[slot], self.windows.hidden[slot] = begin, end, hidden
        self.limited = len(slot)


def _nobodys() -> Windows:
    return Windows(np.zeros(0), np.zeros(0), np.zeros(0, np.uint8))


def _resized(excluded: Flags, slots: int) -> Flags:
    resized = np.zeros(slots, np.uint8)
    common = min(slots, len(excluded))
    resized[:common] = excluded[:common]
    return resized
