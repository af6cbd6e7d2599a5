"""An item after admission, and where a scan reads its attribute fields."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coldstream.events.availability import ALWAYS, Availability
from coldstream.features.encoder import ItemAttribute
from coldstream.features.history import LastItemFeatures


class Layout(NamedTuple):
    """The numbers of the items' attribute fields, by how a scan reads them."""

    categories: tuple[int, ...]
    """Fields whose values are categories: per item, the number of one combination of values."""
    numbers: tuple[int, ...]
    """Fields whose values are plain numbers: one number per item."""


class AdmittedItem(NamedTuple):
    """An item whose features were admitted, and so have columns."""

    item: str
    id_column: int
    fields: Sequence[ItemAttribute]
    attributes: Mapping[str, Any]
    last_item_features: LastItemFeatures
    availability: Availability = ALWAYS


def kinds_of(layout: Layout) -> dict[int, tuple[bool, int]]:
    """Return by field number whether the field is a plain number, and its place among the fields of its kind."""
    categories = {field: (False, place) for place, field in enumerate(layout.categories)}
    return categories | {field: (True, place) for place, field in enumerate(layout.numbers)}
