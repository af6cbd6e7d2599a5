"""Translation of the decoder's errors into the service's messages: field, requirement, value and known fields."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from coldstream.service.messages.core import Condition, Name, Value

_UNKNOWN, _MISSING = "Object contains unknown field `", "Object missing required field `"
_AT = re.compile(r"(?P<reason>.*?)(?: - at (?P<key>`key` in )?`(?P<path>\$[\w.\[\]]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_LONGEST = 80

NOTHING: Any = msgspec.UNSET
"""A value that is not available, so that a message cannot show it."""


class Refusal(NamedTuple):
    """The path of a refused part of a request, and the message that says what it must be."""

    field: str
    detail: str


def refusal(error: msgspec.ValidationError, kind: Any, document: Any) -> Refusal:
    """Translate the error of the decoder of a type. `document` is the request, decoded without types, or `NOTHING`."""
    message, root = str(error), _bare(inspect.type_info(kind))
    if message.startswith(_UNKNOWN):
        return _unknown(message, root, document)
    found = _AT.fullmatch(message)
    assert found is not None  # the expression matches any text
    where, value, node = _followed(found["path"] or "$", document, root)
    path = where.removeprefix("a field of ")
    if found["reason"].startswith(_MISSING):
        missing = found["reason"].removeprefix(_MISSING).removesuffix("`")
        return Refusal(path, f"{path} has no field {missing}; {_fields(root)}")
    if found["key"]:
        must = _words(node.key_type, NOTHING) if isinstance(node, inspect.DictType) else "a text"
        return Refusal(path, f"{path}: the name of a field must be {must}")
    return Refusal(path, f"{where} must be {_words(node, value)}{_got(value)}")


def _unknown(message: str, root: inspect.Type, document: Any) -> Refusal:
    """Refuse an unknown field. Clients choose its name, which may look like any part of the decoder's message."""
    name, path = message.removeprefix(_UNKNOWN).removesuffix("`"), "$"
    if not (isinstance(document, dict) and name in document):
        before, _, after = name.rpartition("` - at `")
        name, path = (before, after) if before else (name, path)
    return Refusal(f"{path}.{_cut(name)}", f"{path}: there is no field {_cut(name)}; {_fields(root)}")


def _followed(path: str, document: Any, node: Any) -> tuple[str, Any, Any]:
    """Follow a path of the decoder, and return the path with the names of keys, the value there, and its type.

    The decoder does not name keys of mappings (`[...]`): the first key whose value would be refused is taken. There may be
    none if a name stands twice, because the document keeps only the last value; then no value can be shown.
    """
    named, value = "$", document
    for step in _STEP.finditer(path):
        node = _within(node, step)
        key: Any = int(step["index"]) if step["index"] else step["name"]
        if step["any"]:
            key = next(_refused(value, node), None)
        try:
            value = value[key]
        except (LookupError, TypeError):
            value = NOTHING
        if step["any"] and key is None:
            return f"a field of {named}", NOTHING, node
        named += f"[{key}]" if step["index"] else f".{_cut(key)}"
    return named, value, node


def _refused(fields: Any, node: Any) -> Iterator[str]:
    kind: Any = Value | Condition if any(isinstance(one, inspect.DictType) for one in _types(node)) else Value
    for name, value in fields.items() if isinstance(fields, dict) else ():
        try:
            msgspec.convert({name: value}, dict[Name, kind])
        except msgspec.ValidationError:
            yield name


def _within(node: Any, step: re.Match[str]) -> Any:
    """Return the type that a step of a path leads to."""
    for one in _types(node):
        if step["index"] and isinstance(one, inspect.ListType):
            return _bare(one.item_type)
        if step["any"] and isinstance(one, inspect.DictType):
            return _bare(one.value_type)
        if step["name"] and isinstance(one, inspect.StructType):
            return next(_bare(field.type) for field in one.fields if field.encode_name == step["name"])
    return inspect.AnyType()


def _types(node: Any) -> list[Any]:
    return [_bare(one) for one in node.types] if isinstance(node, inspect.UnionType) else [node]


def _bare(node: Any) -> Any:
    """Return a type without the metadata around it."""
    while isinstance(node, inspect.Metadata):
        node = node.type
    return node


def _fields(root: Any) -> str:
    """List the fields of a message, and those that are required."""
    while not isinstance(root, inspect.StructType):
        root = _bare(root.item_type) if isinstance(root, inspect.ListType) else _types(root)[0]
    needed = [field.encode_name for field in root.fields if field.required]
    names = ", ".join(field.encode_name for field in root.fields)
    return f"known are {names or 'none'}" + (f"; needed: {', '.join(needed)}" if needed else "")


# Types in words


def _words(node: Any, value: Any) -> str:
    """Say what a value must be. Of a union only the member of the value's type is named: its bounds were broken."""
    if isinstance(node, inspect.UnionType):
        own = [one for one in _types(node) if _has_type(value, one)]
        many = own[:1] or [one for one in _types(node) if not isinstance(one, inspect.NoneType)]
        words = [_words(one, value) if len(many) == 1 else _plain(one) for one in many]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    if isinstance(node, inspect.StrType | inspect.ListType | inspect.DictType):
        unit = {"StrType": "characters", "ListType": "values", "DictType": "fields"}[type(node).__name__]
        return _plain(node) + _between(node.min_length, node.max_length, " of ", f" {unit}")
    if isinstance(node, inspect.IntType | inspect.FloatType):
        low, high = (node.ge if node.gt is None else node.gt), (node.le if node.lt is None else node.lt)
        return _plain(node) + _between(low, high, " from " if low is not None and high is not None else " of ")
    return _plain(node)


def _between(low: float | None, high: float | None, before: str, after: str = "") -> str:
    if low is not None and high is not None:
        return f"{before}{low:.16g} to {high:.16g}{after}"
    if low is not None:
        return f"{before}at least {low:.16g}{after}"
    return "" if high is None else f"{before}at most {high:.16g}{after}"


def _plain(node: Any) -> str:
    return _PLAIN.get(type(node), "something else")


_PLAIN: dict[type, str] = {
    inspect.StrType: "a text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true/false",
    inspect.NoneType: "null",
    inspect.DateTimeType: "a time in ISO 8601 with its zone, such as 2026-11-15T09:30:00Z",
    inspect.ListType: "a list",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
}

_PYTHON: dict[type, type | tuple[type, ...]] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: (int, float),
    inspect.BoolType: bool,
    inspect.ListType: list,
    inspect.DictType: dict,
    inspect.StructType: dict,
}


def _has_type(value: Any, node: Any) -> bool:
    kinds = _PYTHON.get(type(node), ())
    return isinstance(value, kinds) and isinstance(value, bool) == (kinds is bool)


def _got(value: Any) -> str:
    return "" if value is NOTHING else f", got {_cut(msgspec.json.encode(value).decode())}"


def _cut(text: object) -> str:
    whole = str(text)
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 1]}…"
