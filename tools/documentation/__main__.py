"""`make docs`: the site, built with Zensical from docs/ and from the code, and its links checked. It lies in build/site/."""

import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from json_schemas import SCHEMAS, text_of
from reference import PAGES

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"


def collect(pages: Path) -> None:
    """All pages: those of docs/, the README as the first, and those that are made from the code."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (pages / "index.md").write_text(re.sub(r"\]\(docs/", "](", readme), encoding="utf-8")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (pages / name.lower()).write_text(re.sub(r"\]\(docs/", "](", text), encoding="utf-8")
    for name, made in PAGES.items():
        (pages / name).parent.mkdir(exist_ok=True)
        (pages / name).write_text(made(), encoding="utf-8")
    for name in SCHEMAS:
        (pages / "schemas" / name).write_text(text_of(name), encoding="utf-8")
    for page in pages.rglob("*.md"):
        page.write_text(_within(page, pages), encoding="utf-8")


def _within(page: Path, pages: Path) -> str:
    """A page whose links lead to pages only: files of the repository are named, not linked."""

    def linked(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if urlsplit(target).scheme or target.startswith("#"):
            return found[0]
        path = (page.parent / unquote(target.partition("#")[0])).resolve()
        if path.is_dir() and (path / "README.md").exists():
            return f"[{text}]({target.rstrip('/')}/README.md)"
        if path.exists() and path.is_relative_to(pages.resolve()):
            return found[0]
        lowered = path.with_name(path.name.lower())
        if lowered.exists() and lowered.is_relative_to(pages.resolve()):
            return f"[{text}]({target.replace(path.name, lowered.name)})"
        return text

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", linked, page.read_text(encoding="utf-8"))


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name == "id" and value:
                self.ids.add(value)


def broken(site: Path) -> list[str]:
    """Links of the site that lead nowhere within it, anchors included."""
    pages: dict[Path, _Links] = {}
    for path in site.rglob("*.html"):
        pages[path.resolve()] = found = _Links()
        found.feed(path.read_text(encoding="utf-8"))
    lost = []
    for path, found in pages.items():
        if path.name == "404.html":  # it is shown at any address, so its links are those of the root
            continue
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                lost.append(f"{path.relative_to(site.resolve())}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids | {"__top"}:
                lost.append(f"{path.relative_to(site.resolve())}: {link} (no such heading)")
    return sorted(set(lost))


def main() -> int:
    """Build it, and check its links; 0 where all lead somewhere."""
    BUILD.mkdir(exist_ok=True)
    collect(BUILD / "pages")
    shutil.copy2(ROOT / "tools" / "documentation" / "zensical.toml", BUILD / "zensical.toml")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--config-file", "zensical.toml"]
    done = subprocess.run(command, cwd=BUILD, check=False)
    if done.returncode:
        return done.returncode
    named = tomllib.loads((BUILD / "zensical.toml").read_text())["project"]
    lost = broken(BUILD / named["site_dir"])
    for one in lost:
        print(f"leads nowhere: {one}")
    pages = len(list((BUILD / named["site_dir"]).rglob("*.html")))
    print(f"{pages} pages in {BUILD / named['site_dir']}, {len(lost)} links that lead nowhere")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
