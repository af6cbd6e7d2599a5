"""How long something will take that has come so far: by its speed of late, because methods differ in speed."""

from collections import deque

WINDOW = 60.0
"""Seconds that the speed is measured over."""


class TimeLeft:
    """An estimate of the seconds left. The time is passed in."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> None:
        """So much is done now."""
        self._seen.append((now, done))
        # One that is older than the window stays, so that a speed is known however seldom something is done.
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()

    @property
    def done(self) -> int:
        """How much is done."""
        return self._seen[-1][1] if self._seen else 0

    def seconds(self) -> float | None:
        """How long the rest takes at the speed of late; None while nothing tells."""
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
