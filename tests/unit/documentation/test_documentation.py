"""What the site is made of: JSON Schemas that are those of the code, pages that say everything, links that are checked."""

import contextlib
import importlib.util
import io
import json
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import jsonschema_rs
import pytest

import coldstream
from coldstream.config import Hyperparameters
from coldstream.service.http.routes import ROUTES

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools" / "documentation"))
import reference  # noqa: E402
from json_schemas import SCHEMAS, text_of  # noqa: E402


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_json_schemas_are_those_of_the_code(name: str) -> None:
    assert (ROOT / "docs" / "schemas" / name).read_text(encoding="utf-8") == text_of(name), "make schemas writes it anew"


def test_they_take_what_the_code_takes_and_refuse_what_it_refuses() -> None:
    schema = jsonschema_rs.validator_for(json.loads(text_of("schema.json")))
    assert schema.is_valid(tomllib.loads((ROOT / "examples" / "schema.toml").read_text()))
    assert schema.is_valid({"item": {"brand": {"kind": "category", "most": 5}}, "exclude_seen": False})
    for wrong in ({"item": {"brand": {"kind": "categroy"}}}, {"item": {"brand": {}}}, {"items": {}}):
        assert not schema.is_valid(wrong)
    assert not schema.is_valid({"user": {"trend": {"kind": "trend"}}})  # only items have trends
    settings = jsonschema_rs.validator_for(json.loads(text_of("settings.json")))
    assert settings.is_valid({"port": 8000, "retain": "90d", "hyperparameters": {"factors": 16, "trends": [100.0]}})
    assert settings.is_valid(tomllib.loads((ROOT / "deploy" / "container" / "serve.toml").read_text()))
    for wrong in ({"port": 80_000}, {"prot": 1}, {"log_level": "loud"}, {"hyperparameters": {"factor": 1}}):
        assert not settings.is_valid(wrong)


def test_the_reference_says_everything() -> None:
    page = reference.hyperparameters()
    assert all(f"| `{option.name}` |" in page for option in fields(Hyperparameters))
    page = reference.library()
    assert all(f"\n## {name}\n" in page for name in coldstream.__all__)
    assert "\n### Recommender.recommend_many\n" in page
    page = reference.calls()
    assert all(f"\n## {route.method} {route.path}\n" in page for route in ROUTES)
    assert "| `n` | How many items to give at most. |" in page


def test_every_page_of_the_navigation_is_there() -> None:
    nav = tomllib.loads((ROOT / "tools" / "documentation" / "zensical.toml").read_text())["project"]["nav"]
    named = [page for part in nav for pages in part.values() for page in ([pages] if isinstance(pages, str) else pages)]
    own = {
        "index.md": "README.md",
        "security.md": "SECURITY.md",
        "changelog.md": "CHANGELOG.md",
        "contributing.md": "CONTRIBUTING.md",
    }
    for page in named:
        place = ROOT / own[page] if page in own else ROOT / "docs" / page
        assert place.exists() or page in reference.PAGES, page
    pages = {f"{folder}/{path.name}" for folder in ("guides", "decisions") for path in (ROOT / "docs" / folder).glob("*.md")}
    assert pages <= set(named), f"not in the navigation: {pages - set(named)}"


def test_the_citation_has_the_version_of_the_package() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {coldstream.__version__}\n" in text


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("site_builder", ROOT / "tools" / "documentation" / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<h1 id="top">A</h1><a href="../b.html#there">b</a><a href="#top">up</a>')
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="a/">a</a><a href="https://elsewhere.example/x">out</a>')
    assert builder.broken(tmp_path) == []
    (tmp_path / "b.html").write_text('<a href="a/#gone">a</a><img src="no.png">')
    assert builder.broken(tmp_path) == [
        "a/index.html: ../b.html#there (no such heading)",
        "b.html: a/#gone (no such heading)",
        "b.html: no.png",
    ]


def test_the_notebook_shows_what_its_cells_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs" / "notebooks" / "first_steps.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec("".join(cell["source"]), names)
        assert printed.getvalue() == "".join("".join(output["text"]) for output in cell["outputs"])
    assert sum(bool(cell["outputs"]) for cell in cells) >= 4
