"""Tables of a study as text: one row per method, with the best value of each column marked."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from coldstream.evaluation.metrics import Spread
from coldstream.evaluation.prequential import of_known_items
from coldstream.evaluation.results import summary
from coldstream.evaluation.significance import Comparison, Interval, pairwise
from coldstream.evaluation.study import Study

Metrics = Mapping[str, Mapping[str, Spread]]
"""Mean and deviation by method and by the metric's name in `summary`."""


class Cell(NamedTuple):
    """A number as text, its ± deviation if it has one, and whether it is the best of its column."""

    text: str
    spread: str = ""
    best: bool = False


class Table(NamedTuple):
    """Headings, and rows of a name and its cells."""

    headings: list[str]
    rows: list[tuple[str, list[Cell]]]


class Column(NamedTuple):
    """A column: its heading, its metric, the digits shown, and the function that picks the best value, if any."""

    heading: str
    metric: str
    digits: int
    best: Callable[[list[float]], float] | None = None


_TIMES = [Column("recommend, µs", "recommend_us", 1, min), Column("learn, µs", "update_us", 1, min)]


def metrics_of(study: Study) -> Metrics:
    """Summarize the trials of each method, and add its published metrics."""
    return {method: summary(study, method) | _published(study, method) for method in study.trials}


def results_table(study: Study, metrics: Metrics) -> Table:
    """Return the table of quality metrics; a method that failed has a row without numbers."""
    columns = [
        Column(f"recall@{study.top}", "recall", 4, max),
        Column(f"recall@{study.top}/{study.window}", "recall_window", 4, max),
        Column("MPR %", "mpr", 2, min),
        Column("MRR", "mrr", 4, max),
        Column(f"nDCG@{study.top}", "ndcg", 4, max),
        Column("coverage", "coverage", 3, max),
    ]
    table = _table(columns, metrics)
    table.rows.extend((f"{method} (failed)", [Cell("–")] * len(columns)) for method in study.failures)
    return table


def fields_table(study: Study) -> Table | None:
    """Return the table of the fields in use and their sources; None if all methods use ids alone."""
    suspicious = any(one.suspicion for one in study.fields)
    headings = ["field", "side", "kind", "where from", *(["beware"] if suspicious else [])]
    rows = [
        (one.name, [Cell(one.side), Cell(one.kind), Cell(one.source), *([Cell(one.suspicion)] if suspicious else [])])
        for one in study.fields
    ]
    return Table(headings, rows) if rows else None


def failures_table(study: Study) -> Table | None:
    """Return the table of failed methods and reasons; None if none failed."""
    most = max(len(seeds) for seeds in (*study.trials.values(), *study.failures.values()))
    rows = [(method, [Cell(why)]) for method, seeds in study.failures.items() for why in _reasons(seeds, most)]
    return Table(["failed", "why"], rows) if rows else None


def _reasons(seeds: Mapping[int, str], most: int) -> list[str]:
    """Return each reason once, with its seeds unless all seeds failed for it."""
    different: dict[str, list[int]] = {}
    for seed, reason in seeds.items():
        different.setdefault(reason, []).append(seed)
    return [
        reason if len(own) == most else f"seed {', '.join(map(str, own))}: {reason}" for reason, own in different.items()
    ]


def newcomers_table(study: Study, metrics: Metrics) -> Table | None:
    """Return the table of cold-start metrics, for new users and new items; None if no tested event has either."""
    columns = [
        Column(f"recall@{study.top}, new users", "new_user_recall", 4, max),
        Column("MPR %, new users", "new_user_mpr", 2, min),
        Column(f"recall@{study.top}, new items", "new_item_recall", 4, max),
        Column("MPR %, new items", "new_item_mpr", 2, min),
    ]
    known = [
        Column(f"recall@{study.top}, known items", "known_item_recall", 4, max),
        Column("MPR %, known items", "known_item_mpr", 2, min),
    ]
    occurring = [c for c in columns if not all(math.isnan(own[c.metric].mean) for own in metrics.values())]
    return _table([*occurring, *known], metrics) if occurring else None


def published_table(study: Study, metrics: Metrics) -> Table | None:
    """Return the table of published metrics beside those measured here; None if nothing was published."""
    known = {method: own for method, own in metrics.items() if method in study.published}
    return _table(_beside(study), known) if known else None


def paper_table(study: Study, metrics: Metrics) -> Table:
    """Return the paper's Table 2 beside the quality and speed measured here, for the methods in the paper."""
    known = {method: own for method, own in metrics.items() if method in study.published}
    return _table([*_beside(study), *_TIMES], known)


def _beside(study: Study) -> list[Column]:
    window = f"recall@{study.top}/{study.window}"
    return [
        Column(f"{window}, published", "published_recall", 3),
        Column(f"{window}, here", "recall_window", 3),
        Column("MPR %, published", "published_mpr", 2),
        Column("MPR %, here", "mpr", 2),
    ]


def timings_table(metrics: Metrics) -> Table:
    """Return the table of times to recommend, learn and train."""
    return _table([*_TIMES, Column("train, s", "train_s", 2, min)], metrics)


def comparisons(study: Study, metrics: Metrics) -> list[Comparison]:
    """Compare each pair of methods, the one with better recall first; pairs of the best method precede all others."""
    ordered = sorted(study.trials, key=lambda method: -metrics[method]["recall"].mean)
    return pairwise({method: study.trials[method] for method in ordered}, study.top)


def known_comparisons(study: Study, metrics: Metrics) -> list[Comparison]:
    """Compare the best method with each other one on known items only; empty if all items are known, or none is."""
    if any(math.isnan(own["new_item_recall"].mean) for own in metrics.values()):
        return []
    known = {method: {seed: of_known_items(t) for seed, t in seeds.items()} for method, seeds in study.trials.items()}
    if not all(len(trial.rank) for seeds in known.values() for trial in seeds.values()):
        return []
    ordered = sorted(known, key=lambda method: -metrics[method]["recall"].mean)
    return pairwise({method: known[method] for method in ordered}, study.top)[: len(known) - 1]


def comparison_table(pairs: Sequence[Comparison]) -> Table:
    """Return the table of differences with their intervals and p-values."""
    headings = ["pair", "recall difference", "95 % interval", "MPR difference", "95 % interval", "McNemar p"]
    return Table(headings, [(f"{pair.a} − {pair.b}", _compared(pair)) for pair in pairs])


def _compared(pair: Comparison) -> list[Cell]:
    return [
        Cell(_signed(pair.recall, 4)),
        Cell(_interval(pair.recall_interval, 4)),
        Cell(_signed(pair.mpr, 2)),
        Cell(_interval(pair.mpr_interval, 2)),
        Cell(f"{pair.p:.4f}" if pair.p >= 0.0001 else "< 0.0001"),
    ]


def _interval(interval: Interval | None, digits: int) -> str:
    return f"{_signed(interval.low, digits)} … {_signed(interval.high, digits)}" if interval else "–"


def _signed(difference: float, digits: int) -> str:
    return f"{difference:+.{digits}f}".replace("-", "−")


def _published(study: Study, method: str) -> dict[str, Spread]:
    known = study.published.get(method)
    return {"published_recall": known.recall, "published_mpr": known.mpr} if known else {}


def _table(columns: Sequence[Column], metrics: Metrics) -> Table:
    cells = [_cells(column, [own[column.metric] for own in metrics.values()]) for column in columns]
    rows = [(method, list(own)) for method, own in zip(metrics, zip(*cells, strict=True), strict=True)]
    return Table(["method", *(column.heading for column in columns)], rows)


def _cells(column: Column, values: Sequence[Spread]) -> list[Cell]:
    texts = [_number(value.mean, column.digits) for value in values]
    means = [value.mean for value in values if not math.isnan(value.mean)]
    # Numbers are compared as rounded, so that equal texts are marked alike. A single number is not marked as the best.
    best = _number(column.best(means), column.digits) if column.best and len(means) > 1 else None
    spreads = [f"± {_number(value.deviation, column.digits)}" if value.deviation >= 0 else "" for value in values]
    return [Cell(text, spread, text == best) for text, spread in zip(texts, spreads, strict=True)]


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"
