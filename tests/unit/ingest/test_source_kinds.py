"""Event ids of every kind of source are kept for messages, and of no other."""

import importlib
import inspect

from coldstream.ingest.source import SOURCES
from coldstream.service.messages.source_ids import SOURCE_KINDS


def test_the_kinds_whose_ids_are_reserved_are_those_of_the_table_of_sources() -> None:
    named = set[str]()
    for module, name, _ in SOURCES.values():
        source = inspect.getsource(getattr(importlib.import_module(module), name))
        named |= {kind for kind in SOURCE_KINDS if f'f"{kind}:' in source}
        assert any(f'f"{kind}:' in source for kind in SOURCE_KINDS), f"{name} has a kind whose ids are not reserved"
    assert named == set(SOURCE_KINDS)
