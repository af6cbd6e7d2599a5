"""What the guides tell of limits and times is what the code has: people rely on it, so both change, or neither does."""

from pathlib import Path

import pytest

from coldstream.bounds import usage
from coldstream.bounds.bounds import A_THING
from coldstream.engine.eviction import PORTION
from coldstream.features import fields
from coldstream.lists import rules
from coldstream.lists.explanation import MOST_TERMS
from coldstream.lists.inspection import MOST_LOOKED_AT
from coldstream.runtime import snapshots
from coldstream.runtime.erasure import claims, compaction
from coldstream.service.handlers import arrow_stream, impressions
from coldstream.service.http import connection, connection_limits, turned_away
from coldstream.service.messages import core as messages
from coldstream.storage import shown

GUIDES = Path(__file__).parents[3] / "docs" / "guides"

_WORDS: dict[float, str] = {0.5: "half a second", 2: "two", 8: "eight", 10: "ten", 60: "a minute"}


def word(number: float) -> str:
    """A number as the guides write it; one that is none of those has changed."""
    return _WORDS.get(number, f"{number}, for which the test has no word")


TOLD = [
    ("settings.md", f"(and {connection.MOST_HEADERS} headers)"),
    (
        "settings.md",
        f"less {connection_limits.RESERVED} for the store and snapshots, and {connection_limits.MOST:,} at most",
    ),
    ("settings.md", f"one of up to {connection.SMALL_BODY / 2**10:g} KiB is always taken"),
    ("settings.md", f"a line per reason and {word(turned_away.LOG_EVERY)} seconds at most"),
    ("service.md", f"at most {messages.MOST_ASKED:,} values in `context`"),
    ("service.md", f"`where` together, {messages.MOST_VALUES} in one field"),
    ("service.md", f"`explain` takes n up to {messages.MOST_EXPLAINED}."),
    ("service.md", f"An explanation has at most {MOST_TERMS:,} terms,"),
    ("service.md", f"those of one recommendation share {messages.MOST_TERMS:,}."),
    ("service.md", f"Lists come in pages of at most {messages.MOST_ITEMS:,}:"),
    ("service.md", f"A page looks at {MOST_LOOKED_AT:,} names and no more"),
    ("service.md", f"a list of up to {messages.MOST_FILTERED:,} item ids"),
    ("service.md", f"one event or a list of up to {messages.MOST_RECORDS:,}:"),
    ("service.md", f"come up to {word(snapshots.MOST_INCREMENTS)} increments"),
    ("service.md", f"if that takes no longer than {word(snapshots.LONGEST_LAST)} seconds"),
    ("service.md", f"A value that more than {word(claims.FEW)} people had in deleted lines"),
    ("service.md", f"It is looked at once {word(compaction.LOOK_EVERY)}"),
    ("shop.md", f"with n up to {messages.MOST_RULED}."),
    ("shop.md", f"among {word(rules.POOL)} times as many of the best as are wanted"),
    ("shop.md", f"first {shown.MOST_POSITIONS} positions, over all pages"),
    ("shop.md", f"within {word(impressions.KEEP_EVERY)}, in the background"),
    ("shop.md", f"has {arrow_stream.MOST_ROWS:,} rows at most"),
    ("schema.md", f"a text of up to {fields.LONGEST_SHOWN:,} characters"),
    ("bounds.md", f"A portion of 1/{PORTION} goes at once"),
    ("bounds.md", f"Looking for what is too old happens {usage.CHECKS} times"),
    ("bounds.md", f"as many as fit into it at {A_THING / 1000:g} kB each"),
]


@pytest.mark.parametrize(("guide", "told"), TOLD, ids=[told for _, told in TOLD])
def test_a_guide_tells_what_the_code_has(guide: str, told: str) -> None:
    assert told in " ".join((GUIDES / guide).read_text(encoding="utf-8").split())
