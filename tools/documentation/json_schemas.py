"""JSON Schemas of schema.toml and of the service's settings, made from the code, so that editors complete and check them."""

import json
import types
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from coldstream.config import Hyperparameters
from coldstream.features.fields import KINDS, TIME_PARTS, Field
from coldstream.service.settings import Settings

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SIDES = {"user": "What is known of a user.", "item": "What is known of an item.", "context": "What is known of the moment."}


def first_line(documented: object) -> str:
    """What a thing is."""
    return (documented.__doc__ or "").strip().partition("\n")[0]


def kind_of(annotation: Any) -> dict[str, Any]:
    """A type as JSON Schema has it; None is left out, because TOML has none."""
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [kind_of(one) for one in get_args(annotation) if one is not type(None)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if get_origin(annotation) is tuple:
        return {"type": "array", "items": {"type": "number"}}
    if get_origin(annotation) is not None and not isinstance(get_origin(annotation), type):
        return {"enum": list(get_args(annotation))}
    names = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string"}
    return {"type": names[annotation]} if annotation in names else {"type": "object"}


def field_schema(kind: type[Field]) -> dict[str, Any]:
    """A field of one kind: its kind, and its options."""
    options: dict[str, Any] = {"kind": {"const": kind.kind}}
    for option in fields(kind):
        if option.name != "name":
            options[option.name] = kind_of(option.type)
            if option.default not in (None, MISSING, ()):
                options[option.name]["default"] = option.default
    if "part" in options:
        options["part"]["enum"] = list(TIME_PARTS)
    return {
        "type": "object",
        "description": first_line(kind),
        "properties": options,
        "required": ["kind"],
        "additionalProperties": False,
    }


def schema_toml() -> dict[str, Any]:
    """The JSON Schema of schema.toml."""
    sides = {
        side: {
            "type": "object",
            "description": meaning,
            "additionalProperties": {
                "oneOf": [{"$ref": f"#/$defs/{name}"} for name, kind in KINDS.items() if side in kind.sides]
            },
        }
        for side, meaning in SIDES.items()
    }
    flags = {
        "exclude_seen": {"type": "boolean", "default": True, "description": "Whether what a user had is not recommended."},
        "open_context": {"type": "boolean", "default": True, "description": "Whether contexts may have undeclared fields."},
    }
    return {
        "$schema": DRAFT,
        "title": "schema.toml of coldstream",
        "type": "object",
        "properties": {**sides, **flags},
        "additionalProperties": False,
        "$defs": {name: field_schema(kind) for name, kind in KINDS.items()},
    }


def settings_toml() -> dict[str, Any]:
    """The JSON Schema of the file that `coldstream serve --config` reads."""
    properties: dict[str, Any] = {}
    for setting in fields(Settings):
        about, own = setting.metadata["about"], kind_of(setting.type)
        own["description"] = about.meaning
        if about.within is not None:
            own["minimum"], own["maximum"] = about.within
        if about.choices:
            own["enum"] = list(about.choices)
        if setting.default not in (None, MISSING):
            own["default"] = setting.default
        properties[setting.name] = own
    changes = {option.name: kind_of(option.type) for option in fields(Hyperparameters)}
    properties["hyperparameters"] |= {"properties": changes, "additionalProperties": False}
    return {
        "$schema": DRAFT,
        "title": "Settings of coldstream serve",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


SCHEMAS = {"schema.json": schema_toml, "settings.json": settings_toml}


def text_of(name: str) -> str:
    """A JSON Schema as a file holds it."""
    return json.dumps(SCHEMAS[name](), indent=1, ensure_ascii=False) + "\n"
