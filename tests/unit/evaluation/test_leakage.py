"""Nothing that happens later changes what is predicted now."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transparent import Counting, Ours, Recording

from coldstream import Categories, Category, Event, Id, LastItem, LastItems, Recommender, Schema, TimePart
from coldstream.evaluation.prequential import run_trial, split
from coldstream.events.stream import Stream

USERS = {f"u{n}": {"land": f"l{n % 2}"} for n in range(6)}
ITEMS = {f"i{n}": {"genre": [f"g{n % 3}", f"g{n % 2}"]} for n in range(9)}
CONTEXT = [LastItem(), LastItems(length=3), TimePart("weekday"), Category("device")]


def ours(stream: Stream) -> Ours:
    schema = Schema([Id(), Category("land")], [Id(), Categories("genre")], CONTEXT, exclude_seen=not stream.repeats)
    return Ours(Recommender(schema, seed=3, factors=4, negatives=4))


def papers(stream: Stream) -> Ours:
    schema = Schema([Id(), Category("land")], [Id(), Categories("genre")], CONTEXT, exclude_seen=not stream.repeats)
    return Ours(Recommender(schema, "paper", seed=3, factors=4))


def counting(stream: Stream) -> Counting:
    return Counting(stream.repeats)


def peeking(stream: Stream) -> Counting:
    """A counter that has seen the whole stream before it begins."""
    method = Counting(stream.repeats)
    for event in stream.events:
        method.count[event.item] = method.count.get(event.item, 0) + 1
    method.add_item = lambda item, attributes: None  # type: ignore[method-assign]
    return method


def predicted(build: Callable[[Stream], Any], stream: Stream, events: int) -> list[Any]:
    """All that a trial says of the first so many tested events."""
    method = Recording(build(stream))
    trial = run_trial(method, stream, top=3)
    lists = method.answers("recommend")[-len(trial.rank) :]
    rows = zip(trial.rank, trial.candidates, trial.new_user, trial.new_item, lists, strict=True)
    return list(rows)[:events]


events = st.builds(
    Event,
    user=st.sampled_from(list(USERS)),
    item=st.sampled_from(list(ITEMS)),
    time=st.integers(0, 40).map(lambda day: day * 86_400.0),
    context=st.fixed_dictionaries({"device": st.sampled_from(["phone", "desk"])}),
)


@st.composite
def streams_that_part(draw: st.DrawFn) -> tuple[Stream, Stream, int]:
    """Two streams that are the same up to some tested event, and how many are tested by then.

    What follows is in the second one shuffled, or something else altogether.
    """
    first = draw(st.lists(events, min_size=5, max_size=30))
    begin = split(len(first)).tested
    known = draw(st.integers(begin + 1, len(first)))
    later = first[known:]
    other = draw(st.permutations(later) | st.lists(events, min_size=len(later), max_size=len(later)))
    repeats = draw(st.booleans())
    before, after = (Stream("any", [*first[:known], *rest], USERS, ITEMS, repeats) for rest in (later, other))
    return before, after, known - begin


@pytest.mark.parametrize("build", [counting, ours, papers])
@settings(max_examples=60)
@given(parting=streams_that_part())
def test_the_future_does_not_change_the_past(build: Callable[[Stream], Any], parting: tuple[Stream, Stream, int]) -> None:
    one, other, tested = parting
    assert predicted(build, one, tested) == predicted(build, other, tested)


def test_a_method_that_peeks_is_caught() -> None:
    taken = ["i0", "i1", "i2", "i0", "i1", "i2", "i3", "i3", "i3", "i3"]
    other = [*taken[:6], "i2", "i2", "i2", "i2"]
    one, two = (Stream("any", [Event("u0", item) for item in items], USERS, ITEMS, True) for items in (taken, other))
    assert predicted(counting, one, 3) == predicted(counting, two, 3)
    assert predicted(peeking, one, 3) != predicted(peeking, two, 3)
