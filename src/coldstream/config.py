"""Hyperparameters, each stated once, and the presets: `default`, `paper`, and `predictor` for plain (x, y) samples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin

from coldstream.errors import InvalidInput, shown
from coldstream.support.arrays import plain

Pairs = Literal["across", "j>i", "j>=i"]
Loss = Literal["squared", "logistic", "softmax", "bpr"]
Optimizer = Literal["sgd", "adagrad"]
Regularization = Literal["fixed", "paper", "per-field"]
RankRule = Literal["highest", "closest-to-1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """All that can be set about learning and ranking. Validated when built, frozen afterwards."""

    factors: int = 40
    """k, the length of every feature's vector; 0 leaves a linear model."""
    initial_deviation: float = 0.1
    """σ of the normal distribution a new feature's vector is drawn from."""
    pairs: Pairs = "across"
    """Which pairs interact: those `across` the two sides, one feature of the request and one of the item; `j>i`, all of
    them, the standard machine; or `j>=i`, the formula as the paper prints it."""
    intercept: bool = True
    """Whether w0 is learned."""
    linear: bool = True
    """Whether the weights w are learned. Without w0 and w, two id fields make matrix factorization."""
    loss: Loss = "softmax"
    """`squared` and `logistic` take any target, with or without negatives; `softmax` and `bpr` need negatives."""
    negatives: int = 100
    """Items drawn uniformly for every event and contrasted with the one chosen; 0 is positive-only."""
    passed_over: int = 0
    """Items that were shown above the one chosen and not taken, and are contrasted with it beside those drawn: so many at
    most, the last ones. 0 is none."""
    optimizer: Optimizer = "adagrad"
    """`adagrad`, which gives every coordinate a rate of its own, or `sgd`, plain descent, as the paper has it."""
    learning_rate: float = 0.1
    """η."""
    adagrad_floor: float = 1e-6
    """ε under AdaGrad's root: the larger, the shorter the first steps of a new feature."""
    adagrad_window: float = 0.0
    """How many updates of a parameter AdaGrad's sum remembers, the older the less; 0 is all of them. Without a window steps
    only shrink, and after millions of events a change of taste is hardly followed."""
    renewal: float = 1.0
    """By how much choices may become more surprising before AdaGrad's sums begin anew: the mean of −log p over 2,000 events
    against that over 50,000, p the share of what was chosen among its negatives. 0 is never. A change of everybody's taste
    raises it by about 2, a restless stream by less than .6."""
    regularization: Regularization = "per-field"
    """`fixed`; `paper`, one adaptive λ each for w0, w and every factor; `per-field`, one adaptive log-λ per field."""
    intercept_penalty: float = 0.0
    """λ0, or where it starts."""
    linear_penalty: float = 0.01
    """λ of w, or where it starts."""
    factor_penalty: float = 0.02
    """λ of V, or where it starts. The per-field λ stays between 1e-8 and 100."""
    penalty_rate: float = 0.01
    """ρ, the step of the per-field log-λ."""
    rank: RankRule = "highest"
    """Which score is best: the highest, or the one closest to 1."""
    history: int = 10
    """Length of the item history the recommender adds to a schema that declares no history field; 0 adds none."""
    trends: tuple[float, ...] = (100.0, 500.0, 2000.0, 10000.0)
    """Half-lives, in events, of the trends the recommender adds to a schema that declares none."""
    neighbours: int = 10
    """How many of the user's last items have neighbours that count, where a schema declares none of it; 0 adds none."""
    epochs: int = 1
    """Passes of batch training over the events it is given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trends", _as_tuple(plain(self.trends)))
        for field in fields(self):
            if field.name != "trends":
                object.__setattr__(self, field.name, plain(getattr(self, field.name)))
            _check_type(field.name, field.type, getattr(self, field.name))
        for name, (lowest, highest) in _BOUNDS.items():
            value = getattr(self, name)
            _require(name, value, lowest <= value <= highest, f"from {lowest:g} to {highest:g}")
        for half_life in self.trends:
            _require("trends", self.trends, 1e-3 <= half_life <= 1e12, "half-lives from 0.001 to 1e12 events")
        window = self.adagrad_window
        _require("adagrad_window", window, window == 0 or window >= 1, "0 for all updates, or 1 or more")
        if self.loss in ("softmax", "bpr"):
            _require("negatives", self.negatives, self.negatives > 0, f"1 or more, because loss {self.loss!r} contrasts")

    def document(self) -> dict[str, Any]:
        """The hyperparameters as JSON can hold them."""
        return asdict(self) | {"trends": list(self.trends)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Hyperparameters":
        """The inverse of `document`."""
        return cls().with_(**{**BEFORE, **document})

    def with_(self, **changes: Any) -> "Hyperparameters":
        """The same hyperparameters with some `changes`."""
        known = [field.name for field in fields(self)]
        for name, value in changes.items():
            if name not in known:
                raise InvalidInput(f"{name}: no such hyperparameter, got {shown(value)}; known are {', '.join(known)}")
        return replace(self, **changes)


BEFORE: Mapping[str, Any] = {"renewal": 0.0}
"""What a document means by saying nothing of a hyperparameter that is younger than it: bits stay what they were."""

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "factors": (0, 10_000),
    "initial_deviation": (0, 1e3),
    "negatives": (0, 100_000),
    "passed_over": (0, 100),
    "learning_rate": (1e-12, 1e3),
    "adagrad_floor": (1e-30, 1e6),
    "adagrad_window": (0, 1e12),
    "renewal": (0, 100),
    "intercept_penalty": (0, 1e6),
    "linear_penalty": (0, 1e6),
    "factor_penalty": (0, 1e6),
    "penalty_rate": (0, 10),
    "history": (0, 1000),
    "neighbours": (0, 1000),
    "epochs": (1, 1_000_000),
}
"""What float32 and a machine's memory can follow."""


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_type(name: str, annotation: Any, value: object) -> None:
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        _require(name, value, value in choices, "one of " + ", ".join(map(repr, choices)))
    elif annotation is bool:
        _require(name, value, isinstance(value, bool), "true or false")
    elif annotation is int:
        _require(name, value, isinstance(value, int) and not isinstance(value, bool), "a whole number")
    elif annotation is float:
        _require(name, value, _is_finite(value), "a finite number")
    else:
        _require(name, value, isinstance(value, tuple) and all(map(_is_finite, value)), "a list of finite numbers")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise InvalidInput(f"{name} must be {rule}, got {shown(value)}")


PRESETS: Mapping[str, Hyperparameters] = {
    "default": Hyperparameters(),
    "paper": Hyperparameters(
        pairs="j>i",
        loss="squared",
        negatives=0,
        optimizer="sgd",
        learning_rate=0.004,
        regularization="paper",
        intercept_penalty=2.0,
        linear_penalty=8.0,
        factor_penalty=16.0,
        rank="closest-to-1",
        history=0,
        trends=(),
        neighbours=0,
        epochs=3,
    ),
    "predictor": Hyperparameters(pairs="j>i", loss="squared", negatives=0, history=0, trends=(), neighbours=0),
}


def preset(name: str, **changes: Any) -> Hyperparameters:
    """A preset by its name, with some hyperparameters changed."""
    if not isinstance(name, str) or name not in PRESETS:
        raise InvalidInput(f"preset must be one of {', '.join(map(repr, PRESETS))}, got {shown(name)}")
    return PRESETS[name].with_(**changes)
