"""Pages that are made from the code: every hyperparameter, every call of the library, every call of the service."""

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import coldstream
from coldstream.config import PRESETS, Hyperparameters
from coldstream.service.http.openapi import described
from coldstream.service.http.routes import ROUTES


def hyperparameters() -> str:
    """What can be set about learning, from the docstrings below each."""
    source = Path(inspect.getfile(Hyperparameters)).read_text(encoding="utf-8")
    cls = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "Hyperparameters")
    said = {
        node.target.id: following.value.value
        for node, following in zip(cls.body, cls.body[1:], strict=False)
        if isinstance(node, ast.AnnAssign) and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
    }
    lines = [
        "# Every hyperparameter",
        "",
        "| | " + " | ".join(f"`{name}`" for name in PRESETS) + " | |",
        "|---" * (len(PRESETS) + 2) + "|",
    ]
    for option in fields(Hyperparameters):
        values = " | ".join(f"`{getattr(preset, option.name)!r}`" for preset in PRESETS.values())
        meaning = " ".join(str(said[option.name]).split()).replace("|", "\\|")
        lines.append(f"| `{option.name}` | {values} | {meaning} |")
    return "\n".join(lines) + "\n"


def library() -> str:
    """The public names of the library, with their methods."""
    lines = ["# The library", "", "Everything in `coldstream`, as `help()` has it.", ""]
    for name in coldstream.__all__:
        public = getattr(coldstream, name)
        lines += [f"## {name}", "", *_indented(inspect.getdoc(public) or ""), ""]
        ours = [kind for kind in inspect.getmro(public) if kind.__module__.startswith("coldstream")]
        for member, value in {member: value for kind in reversed(ours) for member, value in vars(kind).items()}.items():
            if member.startswith("_") or not (inspect.isfunction(value) or isinstance(value, classmethod | property)):
                continue
            function = value.fget if isinstance(value, property) else getattr(public, member)
            signature = "" if isinstance(value, property) else str(inspect.signature(function))
            lines += [
                f"### {name}.{member}",
                "",
                "```py",
                f"{member}{signature}",
                "```",
                "",
                *_indented(inspect.getdoc(function) or ""),
                "",
            ]
    return "\n".join(lines) + "\n"


def calls() -> str:
    """The calls of the service, from the table of routes."""
    lines = [
        "# Calls of the service",
        "",
        "The OpenAPI document of a running service, `/openapi.json`, says the same and more.",
        "",
    ]
    for route in ROUTES:
        scope = "no key" if route.scope is None else f"a key with the scope `{route.scope}`"
        lines += [f"## {route.method} {route.path}", "", f"{inspect.getdoc(route.handler) or ''} It needs {scope}.", ""]
        for what, kind in (("takes", route.takes), ("gives", route.gives)):
            if hasattr(kind, "__struct_fields__") and kind.__struct_fields__:
                told = described(kind.__name__, {name: {} for name in kind.__struct_fields__})
                lines += [f"It {what} `{kind.__name__}`:", "", "| | |", "|---|---|"]
                lines += [
                    f"| `{name}` | {' '.join(str(own.get('description', '')).split())} |".replace("\n", " ")
                    for name, own in told.items()
                ]
                lines.append("")
    return "\n".join(lines) + "\n"


def _indented(text: str) -> list[str]:
    """A docstring as Markdown: examples as blocks, the rest as it is."""
    lines, inside = [], False
    for line in text.splitlines():
        example = line.startswith((">>>", "...")) or (inside and line.strip() != "")
        if example != inside:
            lines.append("```" if inside else "```pycon")
            inside = example
        lines.append(line)
    return [*lines, "```"] if inside else lines


PAGES = {"reference/hyperparameters.md": hyperparameters, "reference/library.md": library, "reference/calls.md": calls}
