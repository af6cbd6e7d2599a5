"""The simulated clicks follow the paper's rules."""

from collections import Counter

from coldstream.events.simulate import SEGMENTS, click_items, clicks

IMPRESSIONS = 1_000_000


def test_the_stream_is_seeded_and_of_the_papers_size() -> None:
    events = list(clicks(1))
    assert 3_500 < len(events) < 3_900
    assert events == list(clicks(1))
    assert len(set(events[0].context)) == 3
    assert {event.item for event in events} == set(click_items())
    assert [event.time for event in events] == sorted(event.time for event in events)


def test_taste_changes_midway_and_segments_do_not() -> None:
    events = list(clicks(2))
    halves = [[e for e in events if (e.time >= IMPRESSIONS / 2) == late] for late in (False, True)]
    counts = [Counter(event.item for event in half) for half in halves]
    assert counts[0]["ad2"] > 5 * counts[0]["ad3"]
    assert counts[1]["ad3"] > 5 * counts[1]["ad2"]
    # A person is in a segment with probability 10/71 · 1/50 and sees its ad with probability 1/5.
    expected = IMPRESSIONS * (10 / 71) * (1 / 50) * (1 / 5) * (0.301 + 0.0)
    for born, state, ad in SEGMENTS:
        liked = [
            event
            for event in events
            if event.context["state"] == state
            and event.item == f"ad{ad}"
            and born.start <= round(2000 - 70 * (1 - event.context["age"])) < born.stop
        ]
        assert abs(len(liked) - expected) < 5 * expected**0.5
