"""The data sets that are known by name are found, fetched and read as the paper and the issue count them."""

import hashlib
import os
from collections.abc import Callable
from itertools import pairwise
from operator import eq
from pathlib import Path

import pytest

from coldstream.errors import InvalidInput, Unavailable
from coldstream.events import datasets, movielens, movietweetings
from coldstream.events.stream import Stream

DATA = Path(os.environ.get("COLDSTREAM_DATA", "../shared/data")).absolute()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Stream]:
    """A data set of the shared folder, or a skip that says which is missing."""
    monkeypatch.setenv("COLDSTREAM_DATA", str(DATA))

    def load(name: str) -> Stream:
        if not (DATA / name).is_dir():
            pytest.skip(f"no {name} in {DATA}: set COLDSTREAM_DATA to the folder that holds it")
        return datasets.load(name)

    return load


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache folder, and no COLDSTREAM_DATA."""
    monkeypatch.delenv("COLDSTREAM_DATA", raising=False)
    monkeypatch.setattr(datasets, "user_cache_path", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "coldstream"


def sizes(stream: Stream) -> tuple[int, int, int]:
    return len(stream.events), len({event.user for event in stream.events}), len({event.item for event in stream.events})


def in_order(stream: Stream) -> bool:
    return all(before.time <= after.time for before, after in pairwise(stream.events))


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_bytes(text.encode("latin-1"))
    return folder


TINY = {
    "u_data": "1\t10\t5\t200\n2\t10\t4\t100\n2\t11\t5\t200\n1\t11\t5\t100\n",
    "u_user": "1|17|M|artist|12345\n2|56|F|other|T8H1N\n",
    "u_genre": "unknown|0\nAction|1\nWar|2\n\n",
    "u_item": "10|Caf\x85\xe9 (1995)|01-Jan-1995||http://x|1|0|1\n11|B||||0|1|1\n",
}


def test_ml_100k_is_the_papers(shared: Callable[[str], Stream]) -> None:
    stream = shared("ml-100k")
    assert sizes(stream) == (21_201, 928, 1_172)
    assert (stream.name, stream.repeats, len(stream.users), len(stream.items)) == ("ml-100k", False, 943, 1_682)
    assert in_order(stream)
    assert stream.users["1"] == {"age": 1, "sex": 0, "occupation": "technician"}
    assert stream.users["2"] == {"age": 5, "sex": 1, "occupation": "other"}
    assert {user["age"] for user in stream.users.values()} == set(range(7))
    assert stream.items["1"] == {"genre": ["Animation", "Children's", "Comedy"]}
    assert len({genre for item in stream.items.values() for genre in item["genre"]}) == 18


def test_equal_times_keep_the_order_of_the_file(shared: Callable[[str], Stream]) -> None:
    stream = shared("ml-100k")
    rows = [line.split("\t") for line in (DATA / "ml-100k" / "u.data").read_text().splitlines()]
    best = sorted((float(time), row, user, item) for row, (user, item, rating, time) in enumerate(rows) if rating == "5")
    # One difference at a time: to show how two lists of thousands differ takes pytest minutes.
    for event, (time, _, user, item) in zip(stream.events, best, strict=True):
        assert (event.time, event.user, event.item) == (time, user, item)


def test_ml_1m_has_its_size(shared: Callable[[str], Stream]) -> None:
    stream = shared("ml-1m")
    assert sizes(stream) == (226_310, 6_014, 3_232)
    assert in_order(stream)
    assert stream.users["1"] == {"age": 0, "sex": 1, "occupation": "10"}
    assert stream.users["2"] == {"age": 6, "sex": 0, "occupation": "16"}
    assert {user["age"] for user in stream.users.values()} == set(range(7))
    assert stream.items["1"] == {"genre": ["Animation", "Children's", "Comedy"]}
    assert len({genre for item in stream.items.values() for genre in item["genre"]}) == 18


def test_movietweetings_has_its_size(shared: Callable[[str], Stream]) -> None:
    stream = shared("movietweetings")
    assert sizes(stream) == (37_024, 13_460, 5_686)
    assert in_order(stream)
    assert not stream.users
    assert {event.item for event in stream.events} <= set(stream.items)
    assert stream.items["0000628"] == {"genre": ["Action", "Short"], "year": 1908}
    assert stream.items["0052854"] == {"genre": [], "year": 1958}
    assert all(1890 < item["year"] < 2020 for item in stream.items.values())


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "movietweetings"])
def test_the_shared_files_are_the_known_ones(shared: Callable[[str], Stream], name: str) -> None:
    shared(name)
    assert datasets.fetch(name) == DATA / name


def test_clicks_are_generated_from_a_seed() -> None:
    stream = datasets.load("clicks", seed=3)
    again, default, zero = datasets.load("clicks", seed=3), datasets.load("clicks"), datasets.load("clicks", seed=0)
    assert all(map(eq, stream.events, again.events))
    assert not all(map(eq, stream.events, default.events))
    assert all(map(eq, default.events, zero.events))
    assert stream.repeats
    assert set(stream.items) == {event.item for event in stream.events}


def test_clicks_need_no_files(cache: Path) -> None:
    assert datasets.fetch("clicks") is None
    assert not cache.exists()
    with pytest.raises(InvalidInput, match="clicks has no folder"):
        datasets.folder("clicks")


def test_the_tiny_movielens_is_read_by_its_definition(tmp_path: Path) -> None:
    stream = movielens.read_100k(write(tmp_path, **TINY))
    assert [(event.user, event.item, event.time) for event in stream.events] == [
        ("1", "11", 100.0),
        ("1", "10", 200.0),
        ("2", "11", 200.0),
    ]
    assert (stream.users["1"]["age"], stream.users["2"]["age"]) == (0, 6)
    assert stream.items == {"10": {"genre": ["War"]}, "11": {"genre": ["Action", "War"]}}


def test_movietweetings_year_is_the_last_thing_in_a_title(tmp_path: Path) -> None:
    movies = "1::2001: (A) Odyssey (1968)::Sci-Fi\n2::Assignment: Miami Beach (1988) ::\n3::(1984) Untitled::Drama|War\n"
    (tmp_path / "movies.dat").write_text(movies)
    (tmp_path / "ratings.dat").write_text("7::2::9::20\n8::1::10::10\n9::3::8::5\n")
    stream = movietweetings.read(tmp_path)
    assert [(event.user, event.time) for event in stream.events] == [("8", 10.0), ("7", 20.0)]
    assert stream.items == {
        "1": {"genre": ["Sci-Fi"], "year": 1968},
        "2": {"genre": [], "year": 1988},
        "3": {"genre": ["Drama", "War"]},
    }


def test_the_variable_comes_before_the_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached, given = write(cache / "ml-100k", **TINY), write(tmp_path / "given" / "ml-100k", **TINY)
    assert datasets.folder("ml-100k") == cached
    monkeypatch.setenv("COLDSTREAM_DATA", str(given.parent))
    assert datasets.folder("ml-100k") == given
    (given / "u.genre").unlink()
    assert datasets.folder("ml-100k") == cached


def test_the_list_says_what_is_here(cache: Path) -> None:
    cached = write(cache / "ml-100k", **TINY)
    assert {entry.name: entry.folder for entry in datasets.listed()} == {
        "ml-100k": cached,
        "ml-1m": None,
        "movietweetings": None,
        "shop": None,
        "clicks": None,
    }
    assert all(entry.summary for entry in datasets.listed())


def test_a_missing_data_set_says_what_to_put_where(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDSTREAM_DATA", "/nowhere")
    with pytest.raises(Unavailable) as raised:
        datasets.load("ml-1m")
    message = str(raised.value)
    assert message.startswith(
        f"ml-1m is not in /nowhere/ml-1m nor in {cache / 'ml-1m'}; run `coldstream datasets fetch ml-1m`"
    )
    assert message.endswith(
        "download https://files.grouplens.org/datasets/movielens/ml-1m.zip, unpack it,"
        f" and put ratings.dat, users.dat, movies.dat into {cache / 'ml-1m'}"
    )


def test_without_the_variable_the_message_says_that_there_is_one(cache: Path) -> None:
    with pytest.raises(Unavailable, match=r"set \$COLDSTREAM_DATA to a folder that holds ml-100k"):
        datasets.folder("ml-100k")
    assert not cache.exists()


@pytest.mark.parametrize("name", ["ml-20m", "", None, []])
def test_an_unknown_name_is_refused(name: object) -> None:
    for verb in (datasets.folder, datasets.fetch, datasets.load):
        with pytest.raises(InvalidInput, match="one of ml-100k, ml-1m, movietweetings, shop, clicks"):
            verb(name)


def test_fetch_checks_what_is_already_here(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = write(cache / "ml-100k", **TINY)
    with pytest.raises(Unavailable, match=r"u\.data has md5 .* the known one 6e47046882bad158b0efbb84cd5cb987"):
        datasets.fetch("ml-100k", address="http://127.0.0.1:1")
    digest = hashlib.md5(TINY["u_data"].encode(), usedforsecurity=False).hexdigest()
    source = movielens.SOURCE_100K._replace(files=movielens.SOURCE_100K.files | {"u.data": digest})
    known = datasets.Recorded("tiny", source, movielens.read_100k)
    monkeypatch.setattr(datasets, "DATASETS", {"ml-100k": known})
    assert datasets.fetch("ml-100k", address="http://127.0.0.1:1") == found


def test_fetch_goes_to_the_address_given_and_then_to_the_cache(cache: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        datasets.fetch("movietweetings", address="http://127.0.0.1:1/mt")
    message = str(raised.value)
    assert "http://127.0.0.1:1/mt/ratings.dat and http://127.0.0.1:1/mt/movies.dat" in message
    assert str(cache / "movietweetings") in message
    assert "6 November 2013" in message
    assert not list(cache.iterdir())


@pytest.mark.parametrize("damage", [{"u_user": "1|17\n"}, {"u_data": "1\t10\tfive\t1\n"}, {"u_data": "\xe9\t1\t5\t1\n"}])
def test_a_damaged_file_is_one_clear_error(cache: Path, damage: dict[str, str]) -> None:
    write(cache / "ml-100k", **TINY | damage)
    with pytest.raises(Unavailable, match=r"cannot be read .* remove the folder and run"):
        datasets.load("ml-100k")
