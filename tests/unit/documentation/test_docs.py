"""The documentation says what is there: files and names exist, decisions are indexed, public parameters are documented."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import coldstream
from coldstream.config import PRESETS

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "coldstream"
DOCS, DECISIONS = ROOT / "docs", ROOT / "docs" / "decisions"
ARCHITECTURE, GLOSSARY, CONTRIBUTING = DOCS / "architecture.md", DOCS / "glossary.md", ROOT / "CONTRIBUTING.md"

# Tables of a page


def table(page: Path, header: str) -> list[list[str]]:
    """The rows of the table whose header begins so, as cells."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" |")])
    return rows


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def is_path(token: str) -> bool:
    return re.fullmatch(r"[\w.]+(/[\w.]+)*/?", token) is not None and (
        "/" in token or token.endswith((".py", ".md", ".toml", ".html", ".lock"))
    )


def found(path: str) -> Path | None:
    """The file or folder that a page means: under the package, or under the repository."""
    places = [place for place in (SOURCE / path, ROOT / path) if place.exists()]
    return next((place for place in places if place.is_dir() or not path.endswith("/")), None)


def missing(cell: str) -> list[str]:
    """The paths of a cell that do not exist, and the names that stand in none of its files."""
    tokens = code(cell)
    paths = [token for token in tokens if is_path(token)]
    lost = [path for path in paths if found(path) is None]
    files = [
        file for path in paths if (place := found(path)) for file in ([place] if place.is_file() else place.rglob("*.py"))
    ]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for name in (part for token in tokens if not is_path(token) for part in token.split(".")):
        if not re.search(rf"\b{re.escape(name)}\b", text):
            lost.append(f"{name} (in {', '.join(paths) or 'no file'})")
    return lost


CHANGES, ROOMS = table(ARCHITECTURE, "| to change |"), table(ARCHITECTURE, "| room |")
WORDS = table(GLOSSARY, "| word |")


@pytest.mark.parametrize("row", CHANGES, ids=lambda row: row[0])
def test_to_change_x_open_y(row: list[str]) -> None:
    assert len(row) == 2
    assert any(is_path(token) for token in code(row[1]))
    assert missing(row[1]) == []


def test_every_room_exists_and_is_in_the_table() -> None:
    named = [token for row in ROOMS for token in code(row[0])]
    assert [name for name in named if found(name) is None] == []
    there = {f"{entry.name}/" for entry in SOURCE.iterdir() if (entry / "__init__.py").exists()}
    there |= {entry.name for entry in SOURCE.glob("*.py") if not entry.name.startswith("__")}
    assert sorted(named) == sorted(there)


@pytest.mark.parametrize("row", WORDS, ids=lambda row: row[0])
def test_every_word_of_the_glossary_is_in_the_code_it_points_to(row: list[str]) -> None:
    _, meaning, where = row
    assert meaning.endswith(".")
    assert any(is_path(token) for token in code(where))
    assert missing(where) == []


def test_the_glossary_has_every_word_once_in_order() -> None:
    words = [row[0].replace("λ", "lambda").casefold() for row in WORDS]
    assert words == sorted(words)
    assert len(words) == len(set(words)) > 40


def test_a_file_or_a_name_that_is_gone_is_noticed() -> None:
    assert missing("`knowledge.py`, `catalogue/index.py`") == ["knowledge.py", "catalogue/index.py"]
    assert missing("`Clock` in `events/clock.py`") == []
    assert missing("`Knowledge` in `events/clock.py`") == ["Knowledge (in events/clock.py)"]
    assert missing("`evaluation/templates/`, `README.md`") == []


def test_contributing_names_files_that_are_there() -> None:
    paths = [token for token in code(CONTRIBUTING.read_text(encoding="utf-8")) if is_path(token)]
    assert len(paths) > 20
    assert [path for path in paths if found(path) is None] == []


# Links and decisions


@pytest.mark.parametrize("page", sorted([*DOCS.rglob("*.md"), CONTRIBUTING]), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_index_of_decisions_has_every_page_once_and_no_other() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    indexed = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \| .+ \|$", index, re.MULTILINE)
    assert sorted(indexed) == sorted(page.name for page in DECISIONS.glob("*.md") if page.name != "README.md")


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_to_decisions_lead_to_their_headings() -> None:
    lost = []
    for page in DOCS.rglob("*.md"):
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
            path = (page.parent / target).resolve() if target else page
            if (DECISIONS in path.parents or DECISIONS in page.parents) and anchor not in headings(path):
                lost.append(f"{page.name}: {target}#{anchor}")
    assert lost == []


# Hyperparameters


def test_the_guide_has_the_presets_as_they_are() -> None:
    rows = {row[0]: row[1:] for row in table(DOCS / "guides" / "hyperparameters.md", "| | `default` |")}
    for column, name in enumerate(("default", "paper")):
        preset = PRESETS[name]
        assert code(rows["pairs"][column])[0] == preset.pairs
        negatives = f"{preset.negatives} uniform negatives" if preset.negatives else "no negatives"
        assert rows["loss"][column].endswith(negatives)
        assert rows["optimizer"][column].endswith(f"η = {preset.learning_rate:g}".replace("0.", "."))


# Every public parameter is documented: see CONTRIBUTING.md for the rule

GRAMMAR = ("a", "an", "as", "at", "by", "for", "from", "in", "is", "of", "on", "or", "to", "where", "with")
"""Names that stand in any sentence: they count in backticks only."""


class Parameter(NamedTuple):
    """A parameter of a public callable, and the texts that may say what it is."""

    where: str
    callable: str
    name: str
    texts: tuple[str, ...]
    has_docstring: bool
    """Whether it is a field with a docstring of its own."""

    @property
    def documented(self) -> bool:
        word = f"`{self.name}`" if self.name in GRAMMAR else self.name
        pattern = re.compile(rf"(?<![\w.]){re.escape(word)}(?!\w)", re.IGNORECASE)
        return self.has_docstring or any(pattern.search(text) for text in self.texts)


def prose(docstring: str | None) -> str:
    """A docstring without its examples, each of which ends with an empty line."""
    return re.sub(r"^ *>>> .*?(\n\s*\n|\Z)", "", docstring or "", flags=re.DOTALL | re.MULTILINE)


@cache
def parsed(module: str) -> dict[str, ast.ClassDef]:
    source = Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8")
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def ours(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.startswith("coldstream")]


def fields(cls: type) -> dict[str, tuple[str, bool]]:
    """The fields that a class and its bases declare: where, and whether a docstring stands below."""
    declared: dict[str, tuple[str, bool]] = {}
    for base in reversed(ours(cls)):
        body = parsed(base.__module__)[base.__name__].body
        for node, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                has = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                name = node.target.id
                declared[name] = (place(base, node), has or declared.get(name, ("", False))[1])
    return declared


def place(cls: type, node: ast.AST) -> str:
    path = Path(sys.modules[cls.__module__].__file__ or "")
    return f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]


def arguments(function: ast.FunctionDef) -> list[ast.arg]:
    own = function.args
    every = [*own.posonlyargs, *own.args, own.vararg, *own.kwonlyargs, own.kwarg]
    return [one for one in every if one is not None and one.arg not in ("self", "cls")]


def parameters_of(cls: type) -> Iterator[Parameter]:
    """The parameters of a public class' constructor and of its public methods."""
    texts = tuple(prose(base.__doc__) for base in ours(cls))
    functions: dict[str, tuple[type, ast.FunctionDef]] = {}
    for base in reversed(ours(cls)):
        for node in parsed(base.__module__)[base.__name__].body:
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = (base, node)
    declared = fields(cls)
    if "__init__" not in functions and not issubclass(cls, Exception):
        for name in inspect.signature(cls).parameters:
            where, has = declared[name]
            yield Parameter(where, cls.__name__, name, texts, has)
    for name, (base, node) in functions.items():
        # What `features` takes is a contract between fields and the encoder, stated once, at `Attribute`.
        if (name.startswith("_") and name != "__init__") or name == "features":
            continue
        called = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
        own = prose(ast.get_docstring(node))
        others = [functions[word][1] for word in code(own) if word in functions]  # "Raise what `put_user` would raise."
        said = (*texts, own, *(prose(ast.get_docstring(other)) for other in others))
        for argument in arguments(node):
            yield Parameter(place(base, argument), called, argument.arg, said, False)


PUBLIC: list[type] = [getattr(coldstream, name) for name in coldstream.__all__]


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_every_public_parameter_is_documented(cls: type) -> None:
    undocumented = [one for one in parameters_of(cls) if not one.documented]
    assert not undocumented, "\n" + "\n".join(f"{one.where} {one.callable}({one.name})" for one in undocumented)


class Sample:
    """Something to look at, of some size.

    >>> Sample(1, of=2, example=3, unknown=4).size
    1
    """

    def __init__(self, size: int, of: int, example: int, unknown: Any) -> None:
        self.size, self.of, self.example, self.unknown = size, of, example, unknown

    def put(self, name: str, colour: str) -> None:
        """Put it under a name."""

    def check(self, name: str, colour: str) -> None:
        """Raise what `put` would raise."""


def test_a_parameter_that_nobody_explains_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sample, "__module__", "coldstream.sample")
    monkeypatch.setitem(sys.modules, "coldstream.sample", sys.modules[__name__])
    undocumented = [(one.callable, one.name) for one in parameters_of(Sample) if not one.documented]
    assert undocumented == [
        ("Sample", "of"),
        ("Sample", "example"),
        ("Sample", "unknown"),
        ("Sample.put", "colour"),
        ("Sample.check", "colour"),
    ]
