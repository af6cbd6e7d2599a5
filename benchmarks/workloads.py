"""Seeded streams in the shapes that the questions ask about."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from coldstream import (
    Categories,
    Category,
    Event,
    Id,
    LastAttribute,
    LastTimePart,
    Number,
    Recommender,
    Schema,
    TimePart,
)

FULL = Schema(
    user=[Id(), Number("age"), Category("sex"), Category("occupation"), Categories("interest")],
    item=[Id(), Categories("genre")],
    context=[TimePart("weekday"), LastAttribute("last_genre", of="genre"), LastTimePart("last_weekday")],
)
IDS_ONLY = Schema()
"""With neither w0 nor w this is matrix factorization."""
MATRIX = {"intercept": False, "linear": False}


@dataclass(frozen=True)
class MovieLens:
    """ML-100k's shape: 928 users, 1,172 items, 18 shared multi-hot genres in 216 combinations of mostly one to three.

    Interests fill a sample up to 24 nonzeros.
    """

    items: int = 1172
    users: int = 928
    genres: int = 18
    per_item: tuple[int, ...] = (1, 1, 1, 2, 2, 2, 2, 3, 3, 4)
    combinations: int = 216
    interested_in: int = 13
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def fill(self, recommender: Recommender, seen: int = 20) -> Recommender:
        """Put all users and items, and give every user a few seen items."""
        full = any(f.name == "genre" for f in recommender.schema.item)
        sets = [
            sorted(f"genre{g}" for g in self.rng.choice(self.genres, self.rng.choice(self.per_item), replace=False))
            for _ in range(self.combinations)
        ]
        for item in range(self.items):
            recommender.put_item(f"i{item}", {"genre": sets[item % len(sets)]} if full else {})
        for user in range(self.users):
            attributes = {
                "age": 1 + user % 6,
                "sex": "MF"[user % 2],
                "occupation": f"job{user % 21}",
                "interest": self.interests(user),
            }
            recommender.put_user(f"u{user}", attributes if full else {})
        for event in self.events(seen * self.users):
            recommender.learn(event)
        return recommender

    def interests(self, user: int) -> list[str]:
        """What a user says to like: a few of forty things."""
        return [f"thing{(user * 7 + n * 3) % 40}" for n in range(self.interested_in)]

    def events(self, n: int) -> Iterator[Event]:
        """Random interactions, a minute apart."""
        users, items = self.rng.integers(self.users, size=n), self.rng.integers(self.items, size=n)
        for t, (user, item) in enumerate(zip(users.tolist(), items.tolist(), strict=True)):
            yield Event(f"u{user}", f"i{item}", 60.0 * t)
