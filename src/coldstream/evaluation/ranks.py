"""Parquet files with the rank of each tested event."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coldstream.errors import InvalidInput
from coldstream.evaluation.study import Study
from coldstream.support.arrays import Doubles, Longs
from coldstream.support.files import atomic

_NAME = pa.dictionary(pa.int32(), pa.string())
_COLUMNS = pa.schema(
    {
        "dataset": _NAME,
        "method": _NAME,
        "seed": pa.int64(),
        "event": pa.int64(),
        "rank": pa.float64(),
        "candidates": pa.int64(),
        "new_user": pa.bool_(),
        "new_item": pa.bool_(),
    }
)


class Key(NamedTuple):
    """The data set, method and seed of a trial."""

    dataset: str
    method: str
    seed: int


class Ranks(NamedTuple):
    """Results of a trial, one row per tested event; `event` is the index of the event in the stream."""

    event: Longs
    rank: Doubles
    candidates: Longs
    new_user: NDArray[np.bool_]
    new_item: NDArray[np.bool_]


def write_ranks(path: str | Path, studies: Sequence[Study]) -> None:
    """Write the ranks of all trials to a Parquet file, atomically, with one row group per trial."""
    with atomic(path) as temporary, pq.ParquetWriter(temporary, _COLUMNS) as file:
        for study in studies:
            for method, seeds in study.trials.items():
                for seed, trial in seeds.items():
                    event = np.arange(trial.first, trial.first + len(trial.rank)) if trial.place is None else trial.place
                    ranks = Ranks(event, trial.rank, trial.candidates, trial.new_user, trial.new_item)
                    table = _table(Key(study.stream.name, method, seed), ranks)
                    file.write_table(table, row_group_size=len(table))


def read_ranks(path: str | Path) -> dict[Key, Ranks]:
    """Read a file that `write_ranks` wrote; raise `InvalidInput` if it cannot be read."""
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.read_row_group(number, columns=_COLUMNS.names) for number in range(file.num_row_groups)]
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"ranks {str(path)!r} cannot be read: {error}; give the path that was written") from error
    return {_key(group): Ranks(*(group[name].to_numpy() for name in Ranks._fields)) for group in groups}


def _table(key: Key, ranks: Ranks) -> pa.Table:
    rows = len(ranks.rank)
    names = {
        side: pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [getattr(key, side)])
        for side in ("dataset", "method")
    }
    return pa.table(names | {"seed": np.full(rows, key.seed)} | ranks._asdict(), _COLUMNS)


def _key(group: pa.Table) -> Key:
    return Key(*(group[name][0].as_py() for name in Key._fields))
