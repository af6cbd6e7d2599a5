"""The rules for Prometheus and the dashboard for Grafana, checked with promtool, ask for what the service tells."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from coldstream.ingest.metrics import IngestMetrics

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))
from api import Api

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "coldstream.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]


def promtool(*arguments: object, cwd: Path | None = None) -> str:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules_and_fire_when_they_should() -> None:
    assert "16 rules found" in promtool("check", "rules", RULES)
    promtool("test", "rules", "rules_test.yml", cwd=RULES.parent)


def test_every_expression_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    lines = [expression.replace("$__rate_interval", "5m").replace("$job", "coldstream") for expression in EXPRESSIONS]
    rules = [{"record": f"panel:{n}", "expr": line} for n, line in enumerate(lines)]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "panels.yml")
    assert len(lines) > 20


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The metrics of a service that has learned something."""
    api = Api(tmp_path_factory.mktemp("metrics"), memory="1 GiB").start()
    try:
        assert api.call("POST", "/events", {"user": "u", "item": "i"}).status == 200
        text = api.call("GET", "/metrics").body.decode()
    finally:
        api.stop()
    # That one comes a minute later.
    assert '"store_bytes"' in (ROOT / "src" / "coldstream" / "service" / "metrics.py").read_text(encoding="utf-8")
    registry = CollectorRegistry()
    IngestMetrics(registry, "nats:SHOP")
    text += generate_latest(registry).decode()
    return {*re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE), "coldstream_store_bytes"}


@pytest.mark.parametrize("text", [RULES.read_text(encoding="utf-8"), "\n".join(EXPRESSIONS)], ids=["rules", "dashboard"])
def test_what_is_asked_for_is_told(text: str, told: set[str]) -> None:
    expressions = re.sub(r"(summary|description):.*|record:.*|alert:.*", "", text)
    asked = set(re.findall(r"\bcoldstream_\w+", expressions))
    known = told | {f"{name}_bucket" for name in told} | {f"{name}_total" for name in told}
    assert len(asked) >= 8
    assert asked <= known, sorted(asked - known)


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & taken
        assert max(x for x, _ in own) < 24
        taken |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
