"""What every field of a message means: the docstring below it, for the OpenAPI document."""

import ast
import inspect
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from coldstream.service.http import problems
from coldstream.service.messages import core as messages
from coldstream.service.messages import health as health_messages
from coldstream.service.messages import live as live_messages
from coldstream.service.messages import recommend as recommend_messages
from coldstream.service.messages import search as search_messages

_MODULES = (messages, recommend_messages, search_messages, health_messages, live_messages, problems)


def described(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a type's schema, each with its description; empty where nobody wrote one."""
    return {name: {"description": _DESCRIPTIONS.get((kind, name), ""), **own} for name, own in properties.items()}


def _found(modules: Iterable[ModuleType]) -> dict[tuple[str, str], str]:
    """The docstring below every field of every class, in one line."""
    found = {}
    for module in modules:
        for kind in (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)):
            for field, below in zip(kind.body, kind.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[kind.name, name] = " ".join(text.split())
    return found


_DESCRIPTIONS = _found(_MODULES)
