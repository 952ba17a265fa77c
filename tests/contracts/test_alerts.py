"""ops/prometheus: every alert asks for metrics and labels that exist, and says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.main import get_group

from tellback import Tellback
from tellback.alerts.settings import AlertSettings
from tellback.cli.app import app
from tellback.cli.metrics_collector import DELIVERY_EVENTS, TURN_EVENTS, render_metrics
from tests.support.turns import HELLO, delivered_now, opened

FOLDER: Final = Path(__file__).resolve().parents[2] / "ops" / "prometheus"
RUNBOOKS: Final = FOLDER.parents[1] / "docs" / "operations" / "runbooks"
NAME: Final = re.compile(r"\btellback_\w+")
SELECTOR: Final = re.compile(r"\b(tellback_\w+)\{(\w+)=~?\"([^\"]*)\"\}")


def rules() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@pytest.fixture
def exposed(tb: Tellback) -> dict[str, set[str]]:
    """Each sample's name with the names of its labels, where every kind of thing has happened."""
    opened(tb).respond(HELLO)
    delivered_now(tb)
    opened(tb).respond(HELLO)
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(render_metrics(tb)):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_alerts_ask_for_what_is_exposed(exposed: dict[str, set[str]]) -> None:
    asked = {name for rule in rules().values() for name in NAME.findall(rule["expr"])}
    assert asked
    assert not asked - exposed.keys()
    events = {*TURN_EVENTS, *DELIVERY_EVENTS}
    for rule in rules().values():
        for name, label, values in SELECTOR.findall(rule["expr"]):
            assert label in exposed[name], rule["alert"]
            assert label != "event" or set(values.split("|")) <= events, rule["alert"]
        for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
            assert any(label in exposed[name] for name in NAME.findall(rule["expr"])), rule["alert"]


def test_there_is_an_alert_for_each_way_to_be_silent() -> None:
    expressions = {name: rule["expr"] for name, rule in rules().items()}
    assert "tellback_sweep_lag_seconds" in expressions["TellbackSweepLag"]
    assert 'event=~"dead|dropped"' in expressions["TellbackDeadDeliveries"]
    assert "tellback_turns_overdue" in expressions["TellbackTurnsOverdue"]


@pytest.mark.parametrize("alert", rules())
def test_an_alert_is_whole(alert: str) -> None:
    rule = rules()[alert]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"].keys() == {"summary", "action", "runbook_url"}
    name = re.fullmatch(
        r"\{\{ \$externalLabels\.docs \}\}/operations/runbooks/([a-z-]+)/", rule["annotations"]["runbook_url"]
    )
    assert name is not None
    assert f"`{alert}`" in (RUNBOOKS / f"{name[1]}.md").read_text("utf-8"), "the page names the alert"
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert re.fullmatch(r"\d+[sm]", rule.get("for", "1m"))


def test_what_alerts_advise_exists() -> None:
    commands = set(get_group(app).commands)
    advised = re.findall(r"`tellback (\w+)", (FOLDER / "alerts.yml").read_text("utf-8"))
    assert advised
    assert set(advised) <= commands


def test_the_scrape_configuration_names_the_rules_and_the_port() -> None:
    read = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    assert [FOLDER / name for name in read["rule_files"]] == [FOLDER / "alerts.yml"]
    [job] = read["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["127.0.0.1:9464"]
    assert "tellback metrics --serve 9464" in (FOLDER / "prometheus.yml").read_text("utf-8")


def test_a_link_to_a_runbook_is_the_address_of_its_page() -> None:
    """A test notice named the list of runbooks by an address that the site does not have."""
    published, local = AlertSettings(docs_url="https://docs.example.com/"), AlertSettings()
    for page in RUNBOOKS.glob("*.md"):
        folder = "" if page.stem == "index" else f"{page.stem}/"
        assert published.runbook(page.stem) == f"https://docs.example.com/operations/runbooks/{folder}"
        assert local.runbook(page.stem) == f"docs/operations/runbooks/{page.name}"
