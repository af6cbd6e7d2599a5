"""The guide to production shows what the tests run, and names only what is there."""

import re
import tomllib
from pathlib import Path

from coldstream.service.settings import settled

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "production.md").read_text(encoding="utf-8")
OWN = ("bind ", "server ", "http-request set-header Host", "global", "maxconn", "#")
"""Lines that a test and a machine have each for themselves."""


def block(kind: str, containing: str) -> str:
    """The block of the guide that has a text."""
    (found,) = (text for text in re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL) if containing in text)
    return found


def common(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(OWN)]


def test_the_proxy_of_the_guide_is_the_one_that_is_tested() -> None:
    tested = (ROOT / "tests" / "end_to_end" / "haproxy.cfg").read_text(encoding="utf-8")
    assert common(block("haproxy", "frontend")) == common(tested)
    assert len(common(tested)) > 10


def test_the_settings_of_the_guide_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(block("toml", "drain_seconds"))
    settings = settled(file, {"COLDSTREAM_SERVE_STORE": "postgresql://db/shop"}, {"port": "8001"})
    assert settings.drain_seconds == tomllib.loads(file.read_text())["drain_seconds"]
    unit = block("ini", "ExecStart")
    assert "EnvironmentFile=" in unit
    assert re.search(r"^ExecStart=\S+/coldstream serve --config \S+ --port %i$", unit, re.MULTILINE)


def test_the_alerts_of_the_guide_are_those_of_the_rules() -> None:
    rules = (ROOT / "deploy" / "prometheus" / "rules.yml").read_text(encoding="utf-8")
    severity = dict(re.findall(r"- alert: (\w+)\n.*?severity: (\w+)", rules, re.DOTALL))
    rows = re.findall(r"^\| (page|warn) \| (.+?) \|", GUIDE, re.MULTILINE)
    assert {name: kind for kind, names in rows for name in re.findall(r"`(\w+)`", names)} == severity
    assert len(severity) >= 10
