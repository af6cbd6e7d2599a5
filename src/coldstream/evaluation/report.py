"""Self-contained HTML report of studies."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coldstream.evaluation import tables
from coldstream.evaluation.plots import percentile_over_time, recall_over_time
from coldstream.evaluation.prequential import split
from coldstream.evaluation.study import Study
from coldstream.support.files import write_text

LIBRARIES = ("coldstream", "numpy", "numba")


def report(title: str, studies: Sequence[Study]) -> str:
    """Return the HTML page: tables, plots and comparisons of each study, then how to read them and the versions in use."""
    pages = Environment(
        loader=PackageLoader("coldstream.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = [_section(study) for study in studies]
    return pages.get_template("report.html").render(title=title, sections=sections, made_with=_made_with())


def write_report(path: str | Path, title: str, studies: Sequence[Study]) -> None:
    """Write the HTML page of `report` to a file, atomically."""
    write_text(path, report(title, studies))


def _section(study: Study) -> dict[str, Any]:
    metrics = tables.metrics_of(study)
    pairs = tables.comparisons(study, metrics)
    nearest = len(study.trials) - 1
    one_trial = next(iter(next(iter(study.trials.values())).values()))
    return {
        "stream": study.stream,
        "split": split(study.stream.events),
        "tested": study.tested,
        "methods": len(study.trials),
        "seeds": sorted({len(seeds) for seeds in study.trials.values()}),
        "results": tables.results_table(study, metrics),
        "warnings": study.warnings,
        "fields": tables.fields_table(study),
        "failures": tables.failures_table(study),
        "newcomers": tables.newcomers_table(study, metrics),
        "new_users": int(one_trial.new_user.sum()),
        "new_items": int(one_trial.new_item.sum()),
        "published": tables.published_table(study, metrics),
        "timings": tables.timings_table(metrics),
        "best_pairs": tables.comparison_table(pairs[:nearest]) if pairs else None,
        "known_pairs": tables.comparison_table(known) if (known := tables.known_comparisons(study, metrics)) else None,
        "other_pairs": tables.comparison_table(pairs[nearest:]) if pairs[nearest:] else None,
        # Matplotlib escapes the texts in a plot, so its SVG needs no escaping here.
        "curves": [Markup(recall_over_time(study)), Markup(percentile_over_time(study))],  # noqa: S704
    }


def _made_with() -> dict[str, str]:
    libraries = {name: version(name) for name in LIBRARIES}
    return libraries | {"Python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
