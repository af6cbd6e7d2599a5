"""MovieLens: five-star ratings of films, with age, sex and occupation of users and genres of films."""

from bisect import bisect_right
from pathlib import Path

from coldstream.events.fetching import Source
from coldstream.events.ratings import liked, lines
from coldstream.events.stream import Stream

PUBLISHER = "https://files.grouplens.org/datasets/movielens"
SOURCE_100K = Source(
    PUBLISHER,
    {"u.data": "6e47046882bad158b0efbb84cd5cb987", "u.user": None, "u.item": None, "u.genre": None},
    archive="ml-100k.zip",
)
SOURCE_1M = Source(
    PUBLISHER,
    {"ratings.dat": "a89aa3591bc97d6d4e0c89459ff39362", "users.dat": None, "movies.dat": None},
    archive="ml-1m.zip",
)

AGES = (18, 25, 35, 45, 50, 56)
"""First years of the age groups 1 to 6; group 0 is below."""
BEST = 5


def read_100k(folder: Path) -> Stream:
    """Read the five-star ratings of ML-100k."""
    genres = [name for name, _ in lines(folder / "u.genre", "|", "latin-1")]
    users = {
        user: {"age": bisect_right(AGES, int(age)), "sex": int(sex == "F"), "occupation": occupation}
        for user, age, sex, occupation, _ in lines(folder / "u.user", "|", "latin-1")
    }
    items = {
        item: {"genre": [name for name, flag in zip(genres, flags, strict=True) if flag == "1" and name != "unknown"]}
        for item, _title, _released, _video, _address, *flags in lines(folder / "u.item", "|", "latin-1")
    }
    return Stream("ml-100k", liked(folder / "u.data", "\t", BEST), users, items)


def read_1m(folder: Path) -> Stream:
    """Read the five-star ratings of ML-1M, which codes an age group by its first year, and the youngest by 1."""
    users = {
        user: {"age": bisect_right(AGES, int(age)), "sex": int(sex == "F"), "occupation": occupation}
        for user, sex, age, occupation, _ in lines(folder / "users.dat", "::", "latin-1")
    }
    items = {item: {"genre": genres.split("|")} for item, _title, genres in lines(folder / "movies.dat", "::", "latin-1")}
    return Stream("ml-1m", liked(folder / "ratings.dat", "::", BEST), users, items)
