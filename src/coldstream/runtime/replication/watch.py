"""Whether a writer is gone: nobody has the right to write, or whoever has it shows no sign of life."""

from coldstream.storage.sharing import News

LONGEST_BLINK = 1.0
"""Seconds between two looks that count at most: whoever was stopped itself has not seen that a writer was silent."""


class Watch:
    """Looks at a writer again and again. The time is passed in."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._seen: tuple[int, int] | None = None
        self._looked: float | None = None
        self._silent = 0.0

    def begin(self) -> None:
        """Begin anew, with whoever writes now."""
        self._seen = self._looked = None
        self._silent = 0.0

    def is_due(self, now: float, every: float) -> bool:
        """Whether it is time for another look."""
        return self._looked is None or now - self._looked >= every

    def is_gone(self, news: News, now: float) -> bool:
        """Whether the writer is gone, by what was seen so far."""
        passed = 0.0 if self._looked is None else min(now - self._looked, LONGEST_BLINK)
        self._looked = now
        seen = (news.epoch, news.beat)
        self._silent = self._silent + passed if seen == self._seen else 0.0
        self._seen = seen
        return not news.held or self._silent >= self._patience
