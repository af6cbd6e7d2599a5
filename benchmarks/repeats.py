"""Measure recall@10 and MPR on streams whose users choose the same items again and again.

    python benchmarks/repeats.py --seeds 3                  # recall@10 and MPR of every stream
    python benchmarks/repeats.py --streams music --events 20000

The streams are simulated, by these rules.

Music: 300 artists in ten genres, of Zipf popularity within a genre; 200 listeners. A listener likes two genres, and keeps a
habit of twelve artists, drawn from those genres (nine in ten) or from all. A session is 5 to 15 plays by one listener: each
repeats the last artist with probability .3, or else plays an artist of the habit (.8, by Zipf over the order of the habit)
or any artist of the two genres (.2). After a session one artist of the habit gives way to another with probability .15, and
the order of the habit is drawn anew with probability .1. Every 1,500 plays one artist releases an album: for 750 plays those
who like the genre play it instead with probability .15.

Groceries: 400 products in 20 aisles; 150 households. A household has 25 staples, each with an interval of 1 to 6 baskets
between two purchases. A basket holds the staples that are due (each bought with probability .8) and 0 to 3 products of other
kinds: of the three products on offer this week with probability .4, or else of a Zipf popularity. Every 40 baskets of the
shop the offers change. After a basket a staple gives way to another product with probability .1.

One user: the paper's clicks, all by the user "everybody"; nothing tells the visitors apart but their contexts.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from coldstream import Event, Recommender, Schema
from coldstream.evaluation.metrics import hits, mpr
from coldstream.evaluation.model import incremental
from coldstream.evaluation.prequential import run_trial
from coldstream.evaluation.workload import SCHEMAS
from coldstream.events.simulate import click_items, clicks
from coldstream.events.stream import Stream
from coldstream.features.fields import Category, Id

ARTISTS, GENRES, LISTENERS, HABIT = 300, 10, 200, 12
PRODUCTS, AISLES, HOUSEHOLDS, STAPLES = 400, 20, 150, 25
START = 1_770_000_000.0

MUSIC = Schema(item=(Id(), Category("genre")), exclude_seen=False)
GROCERIES = Schema(item=(Id(), Category("aisle")), exclude_seen=False)


def zipf(count: int) -> np.ndarray:
    """Probabilities proportional to 1 / rank."""
    odds = 1.0 / np.arange(1, count + 1)
    return odds / odds.sum()


def plays(seed: int) -> Iterator[Event]:
    """Music, without an end."""
    rng = np.random.default_rng(seed)
    genre_of = np.arange(ARTISTS) % GENRES
    members = [rng.permutation(np.flatnonzero(genre_of == genre)) for genre in range(GENRES)]
    share = zipf(len(members[0]))

    def artist_of(genres: np.ndarray) -> int:
        return int(rng.choice(members[int(rng.choice(genres))], p=share))

    def habitual(genres: np.ndarray, habit: list[int]) -> int:
        while (artist := artist_of(genres) if rng.random() < 0.9 else int(rng.integers(ARTISTS))) in habit:
            pass
        return artist

    likes = [rng.choice(GENRES, 2, replace=False) for _ in range(LISTENERS)]
    habits: list[list[int]] = []
    for genres in likes:
        habit: list[int] = []
        while len(habit) < HABIT:
            habit.append(habitual(genres, habit))
        habits.append(habit)
    by_place, now, album = zipf(HABIT), 0, 0
    while True:
        listener = int(rng.integers(LISTENERS))
        habit, genres, last = habits[listener], likes[listener], -1
        for _ in range(int(rng.integers(5, 16))):
            if now % 1500 == 0:
                album = int(rng.integers(ARTISTS))
            is_new = now % 1500 < 750 and genre_of[album] in genres
            if last >= 0 and rng.random() < 0.3:
                artist = last
            elif is_new and rng.random() < 0.15:
                artist = album
            elif rng.random() < 0.8:
                artist = habit[int(rng.choice(HABIT, p=by_place))]
            else:
                artist = artist_of(genres)
            yield Event(f"listener {listener}", f"artist {artist}", START + 60.0 * now)
            last, now = artist, now + 1
        if rng.random() < 0.15:
            habit[int(rng.integers(HABIT))] = habitual(genres, habit)
        if rng.random() < 0.1:
            habits[listener] = [habit[place] for place in rng.permutation(HABIT)]


def purchases(seed: int) -> Iterator[Event]:
    """Groceries, without an end."""
    rng = np.random.default_rng(seed)
    popularity, order = zipf(PRODUCTS), rng.permutation(PRODUCTS)

    def product() -> int:
        return int(order[rng.choice(PRODUCTS, p=popularity)])

    staples: list[dict[int, list[int]]] = []  # product → interval, and baskets to wait
    for _ in range(HOUSEHOLDS):
        own: dict[int, list[int]] = {}
        while len(own) < STAPLES:
            interval = int(rng.integers(1, 7))
            own[product()] = [interval, int(rng.integers(interval))]
        staples.append(own)
    now, baskets, offers = 0, 0, rng.integers(PRODUCTS, size=3)
    while True:
        if baskets % 40 == 0:
            offers = rng.integers(PRODUCTS, size=3)
        baskets += 1
        household = int(rng.integers(HOUSEHOLDS))
        own, basket = staples[household], dict[int, None]()
        for staple, wait in own.items():
            wait[1] -= 1
            if wait[1] <= 0 and rng.random() < 0.8:
                wait[1] = wait[0]
                basket[staple] = None
        for _ in range(int(rng.integers(4))):
            basket[int(rng.choice(offers)) if rng.random() < 0.4 else product()] = None
        for bought in rng.permutation(list(basket)) if basket else ():
            yield Event(f"household {household}", f"product {bought}", START + 600.0 * baskets)
            now += 1
        if rng.random() < 0.1:
            del own[int(rng.choice(list(own)))]
            own[product()] = [int(rng.integers(1, 7)), 1]


def music(seed: int, events: int) -> tuple[Stream, Schema, int]:
    """Music, its schema, and how long a list is tested."""
    items = {f"artist {n}": {"genre": f"g{n % GENRES}"} for n in range(ARTISTS)}
    return Stream("music", list(islice(plays(seed), events)), {}, items, repeats=True), MUSIC, 10


def groceries(seed: int, events: int) -> tuple[Stream, Schema, int]:
    """Groceries, as above."""
    items = {f"product {n}": {"aisle": f"a{n % AISLES}"} for n in range(PRODUCTS)}
    return Stream("groceries", list(islice(purchases(seed), events)), {}, items, repeats=True), GROCERIES, 10


def visitors(seed: int, events: int) -> tuple[Stream, Schema, int]:
    """The paper's clicks, each by a visitor of its own."""
    return Stream("clicks", list(islice(clicks(seed), events)), {}, click_items(), repeats=True), SCHEMAS["clicks"][0], 1


def one_user(seed: int, events: int) -> tuple[Stream, Schema, int]:
    """The paper's clicks, all by one user."""
    stream, schema, top = visitors(seed, events)
    return replace(stream, name="one user", events=[replace(own, user="everybody") for own in stream.events]), schema, top


STREAMS: dict[str, Callable[[int, int], tuple[Stream, Schema, int]]] = {
    "music": music,
    "groceries": groceries,
    "clicks": visitors,
    "one-user": one_user,
}


def main() -> None:
    """Test all streams."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", nargs="+", choices=tuple(STREAMS), default=list(STREAMS))
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    for name in args.streams:
        recalls, percentiles = [], []
        for seed in range(args.seeds):
            stream, schema, top = STREAMS[name](seed, args.events)
            trial = run_trial(incremental(Recommender(schema, seed=seed)), stream, top)
            recalls.append(float(hits(trial.rank, top).mean()))
            percentiles.append(mpr(trial.rank, trial.candidates))
        each = " ".join(f"{recall:.4f}" for recall in recalls)
        print(f"{name:10} recall@{top} {np.mean(recalls):.4f} ({each})  MPR {np.mean(percentiles):.2f}", flush=True)


if __name__ == "__main__":
    main()
