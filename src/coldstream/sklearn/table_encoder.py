"""Encoding of tables as samples of a factorization machine."""

import numpy as np

from coldstream.features.sparse import Sparse
from coldstream.features.vocabulary import Vocabulary
from coldstream.model.samples import Samples
from coldstream.sklearn.running_scale import RunningScale
from coldstream.sklearn.table import Table
from coldstream.support.arrays import Longs


class TableEncoder:
    """An encoder of tables: one scaled feature per numeric column, and one vocabulary column per category."""

    def __init__(self, numbers: int) -> None:
        self.vocabulary = Vocabulary()
        self._scale = RunningScale.of(numbers)

    def admit(self, table: Table) -> Samples:
        """Update the scales with the numbers of a table, admit its new categories, and return its samples."""
        self._scale = self._scale.with_rows(table.numbers)
        vocabulary = self.vocabulary
        for name in table.number_names:
            vocabulary.admit(vocabulary.admit_field(name), "")
        for name, labels in zip(table.category_names, table.categories, strict=True):
            field = vocabulary.admit_field(name)
            for label in dict.fromkeys(labels):
                if label is not None:
                    vocabulary.admit(field, "=" + label)
        return self.encode(table)

    def encode(self, table: Table) -> Samples:
        """Return the samples of a table; unknown categories and missing numbers count as absent."""
        scaled = self._scale.scaled(table.numbers)
        rows = len(scaled)
        columns: list[Longs] = [self._column_of(name, [""] * rows) for name in table.number_names]
        weights = [np.nan_to_num(scaled[:, n]) for n in range(scaled.shape[1])]
        for name, labels in zip(table.category_names, table.categories, strict=True):
            columns.append(self._column_of(name, [None if label is None else "=" + label for label in labels]))
            weights.append((columns[-1] >= 0).astype(float))
        if not columns:
            return Samples(np.zeros(rows + 1, np.int64), Sparse(np.zeros(0, np.int32), np.zeros(0, np.float32)))
        column, weight = np.column_stack(columns), np.column_stack(weights)
        there = weight != 0
        offset = np.append(0, np.cumsum(there.sum(axis=1))).astype(np.int64)
        return Samples(offset, Sparse(column[there].astype(np.int32), weight[there].astype(np.float32)))

    def _column_of(self, name: str, values: list[str | None]) -> Longs:
        """Return the vocabulary columns of a field's values, −1 for unknown or missing ones."""
        vocabulary, field = self.vocabulary, self.vocabulary.field(name)
        if field is None:
            return np.full(len(values), -1)
        found = {value: vocabulary.find(field, value) for value in dict.fromkeys(values) if value is not None}
        known = {value: -1 if column is None else column for value, column in found.items()}
        return np.array([-1 if value is None else known[value] for value in values])
