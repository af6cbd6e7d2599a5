"""The guide names every public call of `Recommender`, and `Recommender` has no other."""

import inspect
import re
from pathlib import Path

from coldstream import Recommender

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "recommender.md"
INNER = {"engine", "serving"}


def public() -> set[str]:
    return {name for name in dir(Recommender) if not name.startswith("_")} | INNER


def test_the_guide_and_the_class_have_the_same_names() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert set(re.findall(r"`([a-z_]+)`", text)) == public()
    rows = "".join(line for line in text.splitlines() if line.startswith("| "))
    assert set(re.findall(r"`([a-z_]+)`", rows)) == public() - INNER


def test_every_public_call_has_an_example() -> None:
    without = [
        name for name in public() - INNER if ">>> " not in (inspect.getdoc(inspect.getattr_static(Recommender, name)) or "")
    ]
    assert without == []


def test_what_is_set_on_an_instance_is_named_too() -> None:
    from coldstream import Id, Schema

    recommender = Recommender(Schema(user=[Id()], item=[Id()]))
    assert {name for name in vars(recommender) if not name.startswith("_")} == INNER
