"""Who waits is told how long, on a terminal or not."""

import io

from rich.console import Console

from coldstream.cli.screen import TimeLeft, trials_bar


def test_the_speed_of_late_counts() -> None:
    left = TimeLeft(1000)
    assert left.seconds() is None
    left.note(0.0, 0)
    assert str(left) == "0% done, time left not known yet"
    left.note(50.0, 500)  # ten a second
    assert left.seconds() == 50.0
    for second in range(60, 360, 10):  # then one
        left.note(float(second), 500 + (second - 50))
    assert 170 < left.seconds() <= 200
    assert str(left) == "80% done, about 3 min left"
    left.note(360.0, 1000)
    assert left.seconds() == 0


def test_a_standstill_is_no_speed() -> None:
    left = TimeLeft(10)
    for second in range(5):
        left.note(float(second), 3)
    assert left.seconds() is None


def test_where_there_is_no_terminal_a_line_every_minute_says_how_long() -> None:
    out, now = io.StringIO(), 0.0
    with trials_bar("films", 1000, Console(file=out, width=20), lambda: now) as advance:
        for now in range(0, 241, 10):
            advance(0, now)
    assert out.getvalue().splitlines() == [
        "films: 6% done, about 16 min left",
        "films: 12% done, about 15 min left",
        "films: 18% done, about 14 min left",
        "films: 24% done, about 13 min left",
    ]


def test_a_terminal_has_it_beside_the_bar() -> None:
    out, now = io.StringIO(), 0.0
    console = Console(file=out, width=120, force_terminal=True)
    with trials_bar("films", 1000, console, lambda: now) as advance:
        advance(0, 0)
        now = 30.0
        advance(0, 500)
    assert "about 30 s left" in out.getvalue()
