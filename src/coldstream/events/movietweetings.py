"""MovieTweetings: the best film ratings that were tweeted, with genres and years of films."""

import re
from pathlib import Path
from typing import Any

from coldstream.events.fetching import Source
from coldstream.events.ratings import liked, lines
from coldstream.events.stream import Stream

SOURCE = Source(
    "https://raw.githubusercontent.com/sidooms/MovieTweetings/master/latest",
    {"ratings.dat": "9a348e2610c4304762909c06b80010fb", "movies.dat": "e8032fd2f2298e6f25b2d551aca571bd"},
    edition=(
        "the publisher's files grow; the known ones are of 6 November 2013, which `git rev-list -1 --before=2013-11-07 HEAD`"
        " finds in a clone of https://github.com/sidooms/MovieTweetings, and those of any other day give other figures"
    ),
)
BEST = 9
"""Lowest rating, of ten, that counts as a choice."""

_YEAR = re.compile(r"\((\d{4})\)\s*$")


def read(folder: Path) -> Stream:
    """Read the ratings of 9 and 10 of MovieTweetings. Users have no attributes."""
    items = {item: _attributes(title, genres) for item, title, genres in lines(folder / "movies.dat", "::", "utf-8")}
    return Stream("movietweetings", liked(folder / "ratings.dat", "::", BEST), {}, items)


def _attributes(title: str, genres: str) -> dict[str, Any]:
    known: dict[str, Any] = {"genre": genres.split("|") if genres else []}
    if found := _YEAR.search(title):
        known["year"] = int(found[1])
    return known
