"""Dictionaries in which as many go as come, and the memory that they will have for ever.

CPython gives a dictionary more places when all of them were taken once, also by those that are gone: one that has stopped to
grow doubles once more, when its slack is used up. Under a budget that is hours or days after nothing grew any more, when
nobody expects it. So it is brought about early, as soon as things have to go.
"""

from sys import getsizeof
from typing import Any

PLACES = 8
"""For one thing that went so many places are used up: a dictionary has its last size when a quarter of it went."""


class Turnover:
    """Brings one dictionary to the size that it keeps as long as there are no more in it. What is in it stays as it is."""

    def __init__(self) -> None:
        self._size = 0
        self._left = 0

    def goes_on(self, own: dict[str, Any], gone: int) -> None:
        """So many have gone, and as many will come."""
        if getsizeof(own) != self._size:  # it has grown, or it is another
            self._size, self._left = getsizeof(own), 2 * len(own)
        if self._left <= 0:
            return
        steps = PLACES * gone
        nobody = _absent(own)
        for _ in range(steps):
            own[nobody] = None
            del own[nobody]
        self._left -= steps
        if getsizeof(own) != self._size:
            self._size, self._left = getsizeof(own), 0


def _absent(own: dict[str, Any]) -> str:
    """A text that is no key: other than texts would make the whole dictionary larger."""
    text = "nobody"
    while text in own:
        text += "?"
    return text
