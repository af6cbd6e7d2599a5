"""Terminal output of commands: tables and progress bars."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from coldstream.evaluation.revealing import Revealing
from coldstream.evaluation.tables import Table
from coldstream.evaluation.workload import Workload

WINDOW = 60.0
"""Seconds over which the speed is measured."""


class TimeLeft:
    """An estimate of the remaining seconds. The current time is passed in."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> None:
        """Record the amount done at a time."""
        self._seen.append((now, done))
        # One entry older than the window is kept, so that a speed is known however rare the updates are.
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()

    @property
    def done(self) -> int:
        """The amount done so far."""
        return self._seen[-1][1] if self._seen else 0

    def seconds(self) -> float | None:
        """Return the remaining seconds at the recent speed; None while the speed is unknown."""
        if not self._seen:
            return None
        (since, before), (now, done) = self._seen[0], self._seen[-1]
        return (self._total - done) * (now - since) / (done - before) if done > before and now > since else None

    def __str__(self) -> str:
        share, seconds = self.done / self._total if self._total else 1.0, self.seconds()
        return f"{share:.0%} done, {'time left not known yet' if seconds is None else _worded(seconds)}"


def _worded(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"


# A fixed width lets a narrow terminal wrap long lines; a table fitted to the terminal would leave numbers out.
OUT = Console(width=200, highlight=False)
ERR = Console(stderr=True, highlight=False)


class Advance(Protocol):
    """A callback that receives the progress of each of several jobs."""

    def __call__(self, number: int, done: int, /) -> None:
        """Record that the job with this number has processed `done` events."""


def say_notes(workload: Workload, revealing: Sequence[Revealing]) -> None:
    """Print notes and warnings about how a stream was read, before the trials begin."""
    for note in workload.notes:
        ERR.print(f"note: {note}", markup=False, soft_wrap=True)
    for one in revealing:
        ERR.print(f"beware: {one.warning}", markup=False, soft_wrap=True)


def show(table: Table, title: str = "") -> None:
    """Print a table, with the best value of every column in bold."""
    if title:
        OUT.print(Text(title, "bold"), soft_wrap=True)
    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, heading in enumerate(table.headings):
        shown.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for name, cells in table.rows:
        shown.add_row(name, *(_marked(" ".join(filter(None, (cell.text, cell.spread))), cell.best) for cell in cells))
    OUT.print(shown)
    OUT.print()


def _marked(text: str, best: bool) -> str:
    return f"[bold]{text}[/bold]" if best else text


SECONDS_BETWEEN_LINES = 60.0
"""Seconds between progress lines where the output is no terminal."""


@contextmanager
def trials_bar(label: str, events: int, console: Console = ERR, clock: Callable[[], float] = monotonic) -> Iterator[Advance]:
    """Show the progress of several jobs and the time left: a bar on a terminal, elsewhere a line every minute."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    left, done, said = TimeLeft(events), dict[int, int](), clock()
    left.note(said, 0)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=events, left="")

        def advance(number: int, count: int, /) -> None:
            nonlocal said
            if done.get(number) == count and clock() - said < SECONDS_BETWEEN_LINES:
                return
            done[number] = count
            left.note(clock(), sum(done.values()))
            bar.update(task, completed=left.done, left=str(left).partition(", ")[2])
            if not console.is_terminal and clock() - said >= SECONDS_BETWEEN_LINES:
                said = clock()
                console.print(f"{label}: {left}", markup=False, soft_wrap=True)

        yield advance


@contextmanager
def download_bar() -> Iterator["Download"]:
    """Show a progress bar for each file that is downloaded."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERR, disable=not ERR.is_terminal) as bar:
        yield Download(bar)


class Download:
    """A callback that shows the progress of downloads."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._tasks = bar, dict[str, TaskID]()

    def __call__(self, file: str, done: int, total: int | None) -> None:
        """Update the bar of a file with the bytes downloaded so far."""
        if file not in self._tasks:
            self._tasks[file] = self._bar.add_task(file, total=total)
        self._bar.update(self._tasks[file], completed=done, total=total)
