"""On the paper's own stream: its method gives its figures, and the default mode is far beyond popularity."""

from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest

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

AGES = [18, 25, 35, 45, 50, 56]
USER = [Id(), Number("age"), Number("sex"), Category("occupation")]
ITEM = [Id(), Categories("genre")]
PAPER = Schema(USER, ITEM, [LastAttribute("last_genre", of="genre"), TimePart("weekday"), LastTimePart("last_weekday")])
PLAIN = Schema(USER, ITEM, [TimePart("weekday")])


@pytest.fixture(scope="module")
def stream(movielens: Path) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]], list[Event]]:
    users, items, events = {}, {}, []
    for line in (movielens / "u.user").read_text().splitlines():
        user, age, sex, occupation, _ = line.split("|")
        users[user] = {"age": bisect_right(AGES, int(age)), "sex": int(sex == "F"), "occupation": occupation}
    genres = [line.split("|")[0] for line in (movielens / "u.genre").read_text().splitlines() if "|" in line]
    for line in (movielens / "u.item").read_text(encoding="latin-1").splitlines():
        item, *rest = line.split("|")
        items[item] = {"genre": [g for g, flag in zip(genres, rest[4:], strict=True) if flag == "1" and g != "unknown"]}
    for line in (movielens / "u.data").read_text().splitlines():
        user, item, rating, time = line.split("\t")
        if rating == "5":
            events.append(Event(user, item, float(time)))
    return users, items, sorted(events, key=lambda event: event.time)


def test_then_learn(recommender: Recommender, stream: tuple) -> tuple[float, float]:
    """Recall@10 and MPR over the last 70 %, every event ranked before it is learned."""
    users, items, events = stream
    train, warm = int(0.2 * len(events)), int(0.2 * len(events)) + int(0.1 * len(events))
    known_users, known_items = set(), set()

    def register(event: Event) -> None:
        if event.user not in known_users:
            known_users.add(event.user)
            recommender.put_user(event.user, users[event.user])
        if event.item not in known_items:
            known_items.add(event.item)
            recommender.put_item(event.item, items[event.item])

    for event in events[:warm]:
        register(event)
    recommender.train(events[:train])
    for event in events[train:warm]:
        recommender.learn(event)
    hits = percentiles = 0.0
    for event in events[warm:]:
        register(event)
        rank = recommender.rank(event.user, event.item, time=event.time)
        hits += rank.position < 10
        percentiles += 100 * rank.position / (rank.candidates - 1)
        recommender.learn(event)
    tested = len(events) - warm
    return hits / tested, percentiles / tested


test_then_learn.__test__ = False  # the protocol's name, not a test's


def test_the_stream_is_the_papers(stream: tuple) -> None:
    users, _, events = stream
    assert len(events) == 21_201
    assert len({event.user for event in events}) == 928
    assert len({event.item for event in events}) == 1_172
    assert len(users) == 943


def test_paper_mode_gives_the_papers_figures(stream: tuple) -> None:
    recall, mpr = test_then_learn(Recommender(PAPER, "paper", seed=1), stream)
    assert mpr == pytest.approx(32.55, abs=0.6)
    assert recall == pytest.approx(0.035, abs=0.005)


def test_default_mode_is_far_beyond_popularity(stream: tuple) -> None:
    recall, mpr = test_then_learn(Recommender(PLAIN, seed=1), stream)
    assert recall > 0.175  # popularity: 0.105
    assert mpr < 13.2  # popularity: 20.3
