"""Plots of metrics over time, as SVG text. Equal studies give equal bytes."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from coldstream.evaluation.metrics import moving_mean, percentiles
from coldstream.evaluation.study import Study
from coldstream.support.arrays import Doubles, Longs

GREY = "#808080"
"""Colour of text and axes: its contrast on white and on black is about equal, because plots are read on both."""
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Line colours: Paul Tol's bright scheme, which is distinguishable with colour blindness."""
DASHES = ("solid", (0, (5, 1.5)), (0, (1.5, 1.5)))
POINTS = 400
"""Largest number of points per curve: a moving mean changes slowly, so more points would only make the file larger."""
LONGEST_NAME = 32
"""Largest number of characters of a method's name in a legend; longer names are cut."""

Curves = Mapping[str, Sequence[Doubles]]
"""One curve per seed, by method."""

_ROOT = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" font-family="system-ui, sans-serif"'


def recall_over_time(study: Study) -> str:
    """Plot recall@N/T after each tested event: per method the mean of its seeds, in a band from lowest to highest."""
    title = f"recall@{study.top} of the last {study.window:,} events"
    return _drawn(study, title, {method: study.recall_curves(method) for method in study.trials}, _from_zero)


def percentile_over_time(study: Study) -> str:
    """Plot the mean percentile rank of the last T events after each tested event, in the form of `recall_over_time`."""
    title = f"mean percentile rank of the last {study.window:,} events (lower is better)"
    curves = {
        method: [moving_mean(percentiles(trial.rank, trial.candidates), study.window) for trial in seeds.values()]
        for method, seeds in study.trials.items()
    }
    return _drawn(study, title, curves, _close)


def _drawn(study: Study, title: str, curves: Curves, limits: Callable[[Doubles], tuple[float, float]]) -> str:
    # Ids of SVG elements must differ between the plots of one page.
    salt = f"{study.stream.name} {title}"
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none", "text.parse_math": False, "font.size": 10}):
        figure = Figure(figsize=(9, 4), layout="constrained", facecolor="none")
        axes = figure.add_subplot(facecolor="none")
        _draw_lines(axes, curves)
        axes.set_ylim(*limits(_settled(curves, study.window)))
        axes.set_title(title, loc="left", color=GREY, fontsize=10)
        axes.set_xlabel("events tested", color=GREY)
        _calm(axes)
        text = StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _embeddable(text.getvalue())


def _draw_lines(axes: Axes, curves: Curves) -> None:
    lines = []
    for number, (method, seeds) in enumerate(curves.items()):
        places = _sampled(min(map(len, seeds)))
        drawn = np.stack([curve[places] for curve in seeds])
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        (line,) = axes.plot(places + 1, drawn.mean(axis=0), color=colour, linestyle=dash, linewidth=1.6)
        if len(seeds) > 1:
            axes.fill_between(places + 1, drawn.min(axis=0), drawn.max(axis=0), color=colour, alpha=0.22, linewidth=0)
        lines.append((drawn[:, -1].mean(), method, line))
    # The names stand in the order in which the lines end.
    lines.sort(key=lambda last: -last[0])
    handles, names = [line for _, _, line in lines], [_short(method) for _, method, _ in lines]
    axes.legend(handles, names, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, labelcolor=GREY)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _sampled(events: int) -> Longs:
    """Return evenly spaced indices of the points to draw, the first and the last included."""
    return np.unique(np.linspace(0, events - 1, min(events, POINTS)).astype(np.int64))


def _settled(curves: Curves, window: int) -> Doubles:
    """Return the values that set the limits of the axis, without those of the first events, whose means vary widely."""
    start = min(window, len(next(iter(curves.values()))[0]) // 2) // 4
    return np.concatenate([curve[start:] for seeds in curves.values() for curve in seeds])


def _from_zero(shown: Doubles) -> tuple[float, float]:
    return 0, 1.08 * (float(shown.max()) or 1)


def _close(shown: Doubles) -> tuple[float, float]:
    low, high = float(shown.min()), float(shown.max())
    room = 0.08 * (high - low) or 1
    return low - room, high + room


def _calm(axes: Axes) -> None:
    axes.margins(x=0.01)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.tick_params(colors=GREY, left=False)
    axes.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.7)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _embeddable(svg: str) -> str:
    """Return only the `<svg>` element, without size and font, which the page sets, and without generated ids."""
    anonymous = re.sub(r'<(\w+) id="[\w.]+_\d+"', r"<\1", svg[svg.index("<svg") :])
    inherited = re.sub(r'(<text style="[^"]*?)font-family: [^;"]*; ', r"\1", anonymous)
    return re.sub(r'<svg [^>]*(viewBox="[^"]*")[^>]*>', rf"<svg {_ROOT} \1>", inherited, count=1)
