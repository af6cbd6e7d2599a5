"""The scenarios by name, each with its events, its schema and its evaluation settings. Only movielens ends by itself."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from coldstream.demo.churn import churn
from coldstream.demo.scenario_events import Choice, ItemCame, ItemWent, ScenarioEvent, UserCame
from coldstream.errors import Unavailable
from coldstream.events.simulate import click_items, clicks
from coldstream.events.simulated_shop import Gone, Offer, shop
from coldstream.features.feedback import Feedback
from coldstream.features.fields import Category, Id, Number, Title
from coldstream.features.schema import Schema

if TYPE_CHECKING:
    from coldstream.evaluation.workload import Workload


class Scenario(NamedTuple):
    """A stream of events with the settings of a service that learns it."""

    about: str
    """One line of description."""
    schema: Callable[[], Schema]
    top: int
    """The length of the list for which the live evaluation computes recall."""
    window: int
    """The window of the live evaluation in events."""
    events: Callable[[], Iterator[ScenarioEvent]]


def _clicks() -> Iterator[ScenarioEvent]:
    """Yield the paper's click stream again and again; in each round, ad 3 is favoured over ad 2 from the middle on."""
    for item, attributes in click_items().items():
        yield ItemCame(item, attributes)
    for seed in count():
        for event in clicks(seed):
            yield Choice(f"{event.user} of day {seed}", event.item, event.time, event.context)


def _shop() -> Iterator[ScenarioEvent]:
    for one in shop(0):
        match one:
            case Offer():
                yield ItemCame(one.item, one.attributes, one.hidden)
            case Gone():
                yield ItemWent(one.item)
            case _:
                yield Choice(one.user, one.item, one.time, one.context, one.kind)


def _shop_schema() -> Schema:
    return Schema(
        item=[Id(), Category("department"), Category("brand"), Number("price", low=1, high=5), Title()],
        feedback=[Feedback("view", 0.2), Feedback("cart", 0.5), Feedback("purchase", 1.0), Feedback("dislike", -1.0)],
    )


def _movielens() -> Iterator[ScenarioEvent]:
    """Yield ML-100k's five-star ratings by time. All movies exist from the start; a user comes with the first rating."""
    stream = _recorded().stream
    for item in dict.fromkeys(event.item for event in stream.events):
        yield ItemCame(item, stream.items.get(item, {}))
    came: set[str] = set()
    for event in stream.events:
        if event.user not in came:
            came.add(event.user)
            yield UserCame(event.user, stream.users.get(event.user, {}))
        yield Choice(event.user, event.item, event.time, event.context)


def _movielens_schema() -> Schema:
    return _recorded().schema


def _recorded() -> "Workload":
    # Imported here because reading data sets needs the extra `evaluation`, which the other scenarios do not.
    try:
        from coldstream.evaluation.workload import Known, loaded
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed; the scenario movielens needs it to read a data set"
        raise Unavailable(f"{message}: pip install 'coldstream[evaluation]'") from error
    return loaded(Known("ml-100k", 0))


SCENARIOS = {
    "clicks": Scenario(
        "five ads and visitors who never come back; halfway through, taste changes",
        lambda: Schema(
            user=(),
            item=[Id(), Category("category")],
            context=[Number("age"), Category("sex"), Category("state")],
            exclude_seen=False,
        ),
        1,
        500,
        _clicks,
    ),
    "churn": Scenario(
        "a record shop where visitors and records come and go all the time",
        lambda: Schema(
            user=[Id(), Category("age")],
            item=[Id(), Category("style"), Number("price", low=1, high=10)],
            context=[Category("device")],
        ),
        10,
        1000,
        lambda: churn(0),
    ),
    "shop": Scenario(
        "views, carts, purchases and dislikes; stock runs out, campaigns come, and taste changes",
        _shop_schema,
        10,
        500,
        _shop,
    ),
    "movielens": Scenario("ML-100k's five-star ratings, one after the other", _movielens_schema, 10, 3000, _movielens),
}
