"""Registry of methods by name: `ifm`, `ease`, or with options `recent-popularity:half_life=500`, `coldstream:factors=16`."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from coldstream.baselines.baseline import Baseline, Scorer
from coldstream.baselines.ease import Ease
from coldstream.baselines.item_knn import ItemKnn
from coldstream.baselines.markov import Markov
from coldstream.baselines.popularity import Popularity
from coldstream.baselines.random import Random
from coldstream.baselines.recent_popularity import DecayedPopularity, WindowedPopularity
from coldstream.baselines.square import check_items
from coldstream.config import Hyperparameters, preset
from coldstream.errors import InvalidInput, shown
from coldstream.evaluation.method import Method
from coldstream.evaluation.model import IdsOnly, Model, OneUser, incremental, static
from coldstream.evaluation.published import experiment
from coldstream.evaluation.workload import Workload
from coldstream.features.fields import Id
from coldstream.features.schema import Schema
from coldstream.recommender import Recommender

Options = Mapping[str, Any]


class Kind(NamedTuple):
    """An entry of the registry of methods: its summary for the command line, and how to build it."""

    summary: str
    build: Callable[[Workload, int, Options], Method]
    seeded: bool = False
    """True if the results depend on the seed."""
    check_items: Callable[[int], None] = lambda _: None
    """Function that raises `InvalidInput` if the method cannot take that many items."""


def _default(workload: Workload, seed: int, options: Options) -> Method:
    if "settings" in options:
        options = _settings(options["settings"]) | {name: options[name] for name in options if name != "settings"}
    return incremental(Recommender(_candidates(workload.schema, workload), preset("default", **options), seed))


def _linear(workload: Workload, seed: int, options: Options) -> Method:
    return _default(workload, seed, {"factors": 0, **options})


def _machine(model: Callable[[Recommender], Model]) -> Callable[[Workload, int, Options], Method]:
    def build(workload: Workload, seed: int, options: Options) -> Method:
        settings = experiment(workload.published).machine.with_(**options)
        return model(Recommender(_candidates(workload.paper, workload), settings, seed))

    return build


def _factorization(model: Callable[[Recommender], Model], **changes: float) -> Callable[[Workload, int, Options], Method]:
    def build(workload: Workload, seed: int, options: Options) -> Method:
        settings: Hyperparameters = experiment(workload.published).factorization.with_(**{**changes, **options})
        method = IdsOnly(model(Recommender(_candidates(Schema(), workload), settings, seed)))
        nobody_returns = not any(isinstance(field, Id) for field in workload.paper.user)
        return OneUser(method) if nobody_returns else method

    return build


def _baseline(scorer: Callable[..., Scorer], **defaults: Any) -> Callable[[Workload, int, Options], Method]:
    def build(workload: Workload, _: int, options: Options) -> Method:
        return Baseline(_called(scorer, {**defaults, **options}), workload.stream.repeats, workload.schema.feedback)

    return build


def _random(workload: Workload, seed: int, options: Options) -> Method:
    return Baseline(_called(Random, {"seed": seed, **options}), workload.stream.repeats, workload.schema.feedback)


def _recent(workload: Workload, _: int, options: Options) -> Method:
    scorer: Callable[..., Scorer] = WindowedPopularity if "window" in options else DecayedPopularity
    given = options if "window" in options else {"half_life": 2000, **options}
    called = _called(scorer, given, "half_life" if "window" in options else "window")
    return Baseline(called, workload.stream.repeats, workload.schema.feedback)


METHODS: Mapping[str, Kind] = {
    "coldstream": Kind(
        "our default; any hyperparameter is an option, settings=FILE.toml gives several", _default, seeded=True
    ),
    "ifm": Kind("the paper's incremental factorization machine", _machine(incremental), seeded=True),
    "static-fm": Kind("the same, which stops learning after training", _machine(static), seeded=True),
    "imf": Kind("the paper's incremental matrix factorization", _factorization(incremental), seeded=True),
    "static-mf": Kind("the same, which stops learning after training", _factorization(static), seeded=True),
    "imf-tuned": Kind("iMF at a higher learning rate", _factorization(incremental, learning_rate=0.05), seeded=True),
    "linear": Kind("our default without factors", _linear, seeded=True),
    "random": Kind("chance", _random, seeded=True),
    "popularity": Kind("how often an item was chosen", _baseline(Popularity)),
    "recent-popularity": Kind("… lately: option half_life=2000, or window=100, in events", _recent),
    "markov": Kind("what followed the user's last item", _baseline(Markov)),
    "item-knn": Kind("items chosen by the same users, incremental", _baseline(ItemKnn)),
    "ease": Kind("EASE, incremental and exact: option penalty", _baseline(Ease), check_items=partial(check_items, "ease")),
}


class MethodSpec(NamedTuple):
    """The name of a method and its options, as parsed from `name:option=value`."""

    name: str
    options: Options

    @property
    def seeded(self) -> bool:
        """True if the results of the method depend on the seed."""
        return METHODS[self.name].seeded

    def check_items(self, items: int) -> None:
        """Raise `InvalidInput` if the method cannot take that many items, before a trial runs for an hour and then fails."""
        METHODS[self.name].check_items(items)

    def build(self, workload: Workload, seed: int) -> Method:
        """Build the method, untrained; raise `InvalidInput` for options that it does not have."""
        try:
            return METHODS[self.name].build(workload, seed, self.options)
        except InvalidInput as error:
            raise InvalidInput(f"method {self.name}: {error}") from error


def schemas_in_use(methods: Iterable[str], workload: Workload) -> list[Schema]:
    """Return the schemas of those methods that have one; the others use ids alone."""
    built = (parse_method(method).build(workload, 0) for method in methods)
    return [method.recommender.schema for method in built if isinstance(method, Model)]


def parse_method(asked: str) -> MethodSpec:
    """Parse the name of a method and its options; raise `InvalidInput` for an unknown method or a malformed option.

    >>> parse_method("recent-popularity:half_life=500")
    MethodSpec(name='recent-popularity', options={'half_life': 500})
    """
    name, *pairs = asked.split(":")
    if name not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {shown(name)}")
    return MethodSpec(name, dict(_option(asked, pair) for pair in pairs))


def _option(asked: str, pair: str) -> tuple[str, Any]:
    name, equals, text = pair.partition("=")
    if not name or not equals:
        raise InvalidInput(f"method {asked!r}: an option must be name=value, got {shown(pair)}")
    for literal in (text, f'"{text}"'):
        try:
            return name, tomllib.loads(f"value = {literal}")["value"]
        except tomllib.TOMLDecodeError:
            continue
    raise InvalidInput(f"method {asked!r}: {name} must be a number or a word, got {shown(text)}")


def _settings(path: str) -> dict[str, Any]:
    """Read hyperparameters from a TOML file, in the form that `coldstream tune` prints."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, TypeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"settings {shown(path)} cannot be read: {error}; give the path of a TOML file") from error


def _called(scorer: Callable[..., Scorer], options: Options, *others: str) -> Scorer:
    """Build a scorer with options; `others` are options of another scorer of the same method, named in the error."""
    known = [*signature(scorer).parameters, *others]
    for name in options:
        if name not in signature(scorer).parameters:
            raise InvalidInput(f"it has no option {shown(name)}; known are {', '.join(known) or 'none'}")
    return scorer(**options)


def _candidates(schema: Schema, workload: Workload) -> Schema:
    """Return the schema with `exclude_seen` from the stream and `feedback` from the workload."""
    return replace(schema, exclude_seen=not workload.stream.repeats, feedback=workload.schema.feedback)
