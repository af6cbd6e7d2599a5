"""An item whose features have columns, and where its attribute fields lie in what a scan reads."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coldstream.events.availability import ALWAYS, Availability
from coldstream.features.encoder import ItemAttribute
from coldstream.features.history import LastItemFeatures


class Layout(NamedTuple):
    """The numbers of an item's attribute fields, by how a scan reads them."""

    categories: tuple[int, ...]
    """Those whose values are categories: one number of a combination per item."""
    numbers: tuple[int, ...]
    """Those whose values are plain numbers: one number per item."""


class AdmittedItem(NamedTuple):
    """An item whose features have columns."""

    item: str
    id_column: int
    fields: Sequence[ItemAttribute]
    attributes: Mapping[str, Any]
    last_item_features: LastItemFeatures
    availability: Availability = ALWAYS


def kinds_of(layout: Layout) -> dict[int, tuple[bool, int]]:
    """By field number: whether it is a plain number, and its place among its like."""
    categories = {field: (False, place) for place, field in enumerate(layout.categories)}
    return categories | {field: (True, place) for place, field in enumerate(layout.numbers)}
