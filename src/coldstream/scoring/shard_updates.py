"""What shards do not know yet: which items have changed since the last update, and what each shard is told of them.

The catalogue and the parameters note what is written while somebody watches (`journal.py`). A shard is told all that it has
to know of an item as it is now, however often it has changed: so it does not matter in which order that was, nor who had the
slot before.
"""

from collections.abc import Sequence

import numpy as np

from coldstream.arrays import Flags, Integers, grown
from coldstream.catalogue.catalogue import Catalogue
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.scoring.scan import ItemVectors
from coldstream.scoring.shard import Update


class ShardUpdates:
    """What has to be told, for one group of shards from its beginning on."""

    def __init__(self, machine: FactorizationMachine, catalogue: Catalogue, count: int) -> None:
        self._machine, self._catalogue, self._count = machine, catalogue, count
        self.told = 0
        """How many updates there were."""
        self.rows = 0
        """How many items they were about, an item as often as it was told."""
        self._has: Flags = np.zeros(0, np.uint8)  # by slot: whether its shard has the item
        self._slot: Integers = np.zeros(0, np.int32)  # by column, of the item whose id it was; −1 for none
        self._waiting: Integers = np.zeros(0, np.int32)
        catalogue.journal.watch()
        machine.parameters.journal.watch()

    def close(self) -> None:
        """Watch no longer."""
        self._catalogue.journal.stop()
        self._machine.parameters.journal.stop()

    def look(self) -> int:
        """Find out what has changed since; how many items have to be told now."""
        slots, columns = self._catalogue.journal.taken(), self._machine.parameters.journal.taken()
        if slots is None or columns is None:
            self._waiting = np.flatnonzero((self._catalogue.items.position >= 0) | self._known()).astype(np.int32)
        elif len(slots) or len(columns):
            learned = self._slot[columns[columns < len(self._slot)]]
            self._waiting = np.unique(np.concatenate([self._waiting, slots, learned[learned >= 0]]))
        return len(self._waiting)

    def taken(self, most: int, vectors: ItemVectors) -> Sequence[Update]:
        """The next update, about so many items at most: what every shard is told."""
        some, self._waiting = self._waiting[:most], self._waiting[most:]
        items, known = self._catalogue.items, self._known()
        position = items.position[some]
        here, at = some[position >= 0], position[position >= 0]
        gone = some[(position < 0) & (known[some] > 0)]
        known[here], known[gone] = 1, 0
        self._note_columns(here, items.rows.id_column[at])
        self.told += 1
        self.rows += len(here) + len(gone)
        return [self._update(shard, gone, here, at, vectors) for shard in range(self._count)]

    def _update(self, shard: int, gone: Integers, here: Integers, at: Integers, vectors: ItemVectors) -> Update:
        items, own = self._catalogue.items, here % self._count == shard
        slot, position, rows = here[own], at[own], items.rows
        row = vectors.row[position]
        return Update(
            gone=gone[gone % self._count == shard] // self._count,
            slot=slot // self._count,
            weight=vectors.weight[row],
            vector=vectors.matrix[row],
            combination=rows.combination[:, position],
            number=rows.number[:, position],
            level=rows.level[:, position],
            counted_at=rows.counted_at[position],
            unchosen=rows.unchosen[position],
            choices=items.choices[slot],
            registered_at=items.registered_at[slot],
        )

    def _known(self) -> Flags:
        """By slot, whether its shard has the item."""
        self._has = grown(self._has, len(self._catalogue.items.position))
        return self._has[: len(self._catalogue.items.position)]

    def _note_columns(self, slots: Integers, columns: Integers) -> None:
        """Whose ids stand in which columns. One that is another's by now only leads to an item that is told once more."""
        if len(columns) and columns[0] >= 0:
            self._slot = grown(self._slot, int(columns.max()) + 1, -1)
            self._slot[columns] = slots
