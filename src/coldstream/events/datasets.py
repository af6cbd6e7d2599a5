"""Built-in data sets: where they are stored, where to download them, and how to read them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from platformdirs import user_cache_path

from coldstream.errors import InvalidInput, Unavailable, shown
from coldstream.events import movielens, movietweetings
from coldstream.events.fetching import Progress, Source, fetched, silent
from coldstream.events.simulate import click_items, clicks
from coldstream.events.simulated_shop import shop_stream
from coldstream.events.stream import Stream

VARIABLE = "COLDSTREAM_DATA"
"""Environment variable with the path of a folder of data sets."""


class Recorded(NamedTuple):
    """A published data set in files."""

    summary: str
    source: Source
    read: Callable[[Path], Stream]


class Generated(NamedTuple):
    """A synthetic data set, generated from a seed."""

    summary: str
    generate: Callable[[int], Stream]


Dataset: TypeAlias = Recorded | Generated


def _clicks(seed: int) -> Stream:
    return Stream("clicks", list(clicks(seed)), {}, click_items(), repeats=True)


SHOP_EVENTS = 30_000


def _shop(seed: int) -> Stream:
    return shop_stream(seed, SHOP_EVENTS)


DATASETS: Mapping[str, Dataset] = {
    "ml-100k": Recorded(
        "MovieLens 100K: 21,201 five-star ratings of 1,172 films", movielens.SOURCE_100K, movielens.read_100k
    ),
    "ml-1m": Recorded("MovieLens 1M: 226,310 five-star ratings of 3,232 films", movielens.SOURCE_1M, movielens.read_1m),
    "movietweetings": Recorded(
        "MovieTweetings: 37,024 tweeted ratings of 9 or 10 of 5,686 films", movietweetings.SOURCE, movietweetings.read
    ),
    "shop": Generated("30,000 simulated views, carts, purchases and dislikes in a shop, generated from a seed", _shop),
    "clicks": Generated("about 3,700 simulated clicks on 5 advertisements, generated from a seed", _clicks),
}


class Entry(NamedTuple):
    """An entry in the list of data sets."""

    name: str
    summary: str
    folder: Path | None
    """Folder of the files; None if the data set is not downloaded, or generated."""


def listed() -> list[Entry]:
    """Return an entry for every built-in data set.

    >>> [entry.name for entry in listed()]
    ['ml-100k', 'ml-1m', 'movietweetings', 'shop', 'clicks']
    """
    return [
        Entry(name, dataset.summary, _found(name, dataset.source) if isinstance(dataset, Recorded) else None)
        for name, dataset in DATASETS.items()
    ]


def folder(name: str) -> Path:
    """Return the folder of a data set's files: in $COLDSTREAM_DATA, else in the user's cache folder.

    Raise `Unavailable` if the files are in neither, and `InvalidInput` if the data set is generated or unknown.
    """
    dataset = _known(name)
    if isinstance(dataset, Generated):
        raise InvalidInput(f"{name} has no folder: it is generated from a seed and needs no files")
    if (found := _found(name, dataset.source)) is None:
        places = " nor in ".join(str(place) for place in _places(name))
        hint = "" if os.environ.get(VARIABLE) else f" (or set ${VARIABLE} to a folder that holds {name})"
        raise Unavailable(
            f"{name} is not in {places}{hint}; run `coldstream datasets fetch {name}`,"
            f" or {dataset.source.by_hand(_places(name)[-1])}"
        )
    return found


def fetch(name: str, progress: Progress = silent, *, address: str | None = None) -> Path | None:
    """Return the folder of a data set, downloading it from its publisher if needed; its hashes are checked either way.

    Return None for a generated data set, which needs no files. `address` replaces the publisher's. Raise `Unavailable` if
    the download fails or a file differs from the known one.
    """
    dataset = _known(name)
    if isinstance(dataset, Generated):
        return None
    source = dataset.source if address is None else dataset.source._replace(address=address)
    if found := _found(name, source):
        if flaw := source.flaw(found):
            raise Unavailable(f"{name} in {found}: {flaw}; remove the folder and fetch again, or {source.by_hand(found)}")
        return found
    return fetched(source, _places(name)[-1], progress)


def load(name: str, *, seed: int = 0) -> Stream:
    """Load a data set as a stream.

    `seed` applies to generated data sets. Raise `Unavailable` if the files cannot be read.
    """
    dataset = _known(name)
    if isinstance(dataset, Generated):
        return dataset.generate(seed)
    place = folder(name)
    try:
        return dataset.read(place)
    except (OSError, ValueError) as error:
        remedy = f"remove the folder and run `coldstream datasets fetch {name}`"
        raise Unavailable(f"{name} in {place} cannot be read ({error}); {remedy}") from error


def _known(name: str) -> Dataset:
    if not isinstance(name, str) or name not in DATASETS:
        raise InvalidInput(f"data set must be one of {', '.join(DATASETS)}, got {shown(name)}")
    return DATASETS[name]


def _places(name: str) -> list[Path]:
    given = os.environ.get(VARIABLE)
    return [*([Path(given) / name] if given else []), user_cache_path("coldstream") / name]


def _found(name: str, source: Source) -> Path | None:
    """Return the first folder that has all the files, without checking their content."""
    return next((place for place in _places(name) if all((place / file).is_file() for file in source.files)), None)
