"""ops/grafana, its services in docker-compose.yml, and the units of ops/systemd: what they name exists."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.main import get_group

from tellback import Tellback
from tellback.cli.app import app
from tellback.cli.metrics_collector import DELIVERY_EVENTS, GUIDANCE, TURN_EVENTS, render_metrics
from tellback.contracts.signal_types import KINDS
from tellback.state.gauges import OUTCOMES
from tests.support.processes import run_program
from tests.support.turns import HELLO, delivered_now, opened

ROOT: Final = Path(__file__).resolve().parents[2]
BOARD: Final = ROOT / "ops" / "grafana" / "dashboards" / "tellback.json"
UNITS: Final = sorted((ROOT / "ops" / "systemd").glob("*.service"))
NAME: Final = re.compile(r"\btellback_\w+")
SELECTOR: Final = re.compile(r"\b(tellback_\w+)\{([^}]*)\}")
MATCHER: Final = re.compile(r"(\w+)=~?\"([^\"]*)\"")
GROUPED: Final = re.compile(r"\bby \((\w+)\) \((?:rate\()?(tellback_\w+)")
OF_SCRAPE: Final = {"team", "job", "instance"}  # labels that the scrape configuration adds
LATER: Final = {"tellback_decay_age_seconds"}  # exposed once there is one
VALUES: Final = {"event": {*TURN_EVENTS, *DELIVERY_EVENTS}, "measure": {*GUIDANCE}, "kind": {"answer", "fallback"}}
VALUES_OF_NOTHING: Final = {"outcome": {*OUTCOMES}, "type": {*KINDS}}


def board() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(BOARD.read_text("utf-8"))
    return read


def panels() -> list[dict[str, Any]]:
    return [panel for panel in board()["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


@pytest.fixture
def exposed(tb: Tellback) -> dict[str, dict[str, set[str]]]:
    """Each sample's name with its labels and their values, where turns were answered and delivered."""
    opened(tb).respond(HELLO)
    delivered_now(tb)
    opened(tb).respond(HELLO)
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(render_metrics(tb)):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


def test_panels_ask_for_what_is_exposed(exposed: dict[str, dict[str, set[str]]]) -> None:
    asked = {name for query in queries() for name in NAME.findall(query)}
    assert not asked - exposed.keys() - LATER
    for query in queries():
        for name, matchers in SELECTOR.findall(query):
            for label, wanted in MATCHER.findall(matchers):
                assert label in {*exposed.get(name, ()), *OF_SCRAPE}, query
                known = VALUES.get(label)
                assert known is None or set(wanted.split("|")) <= known, query
        for label, name in GROUPED.findall(query):
            assert label in {*exposed[name], "le"}, query


@pytest.mark.parametrize("label", VALUES_OF_NOTHING)
def test_values_that_are_counted_from_zero_are_all_named(exposed: dict[str, dict[str, set[str]]], label: str) -> None:
    """A panel shows a line for each from the first day on, so that a rate has no gap where the first one comes."""
    [values] = [labels[label] for labels in exposed.values() if label in labels]
    assert values == VALUES_OF_NOTHING[label]


def test_every_metric_is_in_a_panel(exposed: dict[str, dict[str, set[str]]]) -> None:
    asked = {name.removesuffix("_bucket") for query in queries() for name in NAME.findall(query)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed if not name.endswith("_created")}
    assert not families - asked


def test_every_metric_is_documented_by_its_full_name(exposed: dict[str, dict[str, set[str]]]) -> None:
    page = (ROOT / "docs" / "loops" / "transports.md").read_text("utf-8")
    named = set(re.findall(r"`(tellback_\w+)", page.partition("## Metrics")[2]))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed if not name.endswith("_created")}
    assert named - LATER == families


def test_every_query_is_of_the_team_that_was_chosen() -> None:
    for query in queries():
        assert len(SELECTOR.findall(query)) == len(NAME.findall(query)), query
        assert all('team=~"$team"' in matchers for _, matchers in SELECTOR.findall(query)), query
        assert query.count("(") == query.count(")"), query
    names = {variable["name"]: variable for variable in board()["templating"]["list"]}
    assert names["team"]["definition"] == "label_values(tellback_up, team)"
    prometheus = yaml.safe_load((ROOT / "ops" / "prometheus" / "prometheus.yml").read_text("utf-8"))
    assert "team" in prometheus["scrape_configs"][0]["static_configs"][0]["labels"]
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}


def test_what_teams_share_is_counted_once() -> None:
    """The metrics of each team have the same workers, servers and models: three workers of two teams were six."""
    shared = ("tellback_workers", "tellback_encoders", "tellback_evicting_servers", "tellback_evicted_keys_total")
    asked = [query for query in queries() if any(name in query for name in shared)]
    assert len(asked) == len(shared)
    assert not [query for query in asked if "sum" in query]


def test_a_colour_of_its_own_belongs_to_a_line_that_exists() -> None:
    """Good is green and bad is red in each panel that counts outcomes, whatever lines are beside it."""
    coloured: set[str] = set()
    known = {*VALUES["event"], *OUTCOMES}
    for panel in panels():
        legends = {target["legendFormat"] for target in panel["targets"]}
        labels = {legend for legend in legends if legend.startswith("{{")}
        for override in panel["fieldConfig"]["overrides"]:
            name = override["matcher"]["options"]
            coloured.add(name)
            assert name in (known if labels else legends), (panel["title"], name)
    assert {"answered", "fallback", "delivered", "dead", "succeeded", "failed", "overdue"} <= coloured


def test_counts_have_an_axis_of_whole_numbers() -> None:
    for panel in panels():
        defaults = panel["fieldConfig"]["defaults"]
        if defaults["unit"] == "none":
            assert defaults["decimals"] == 0, panel["title"]
        if panel["type"] == "timeseries" and defaults["unit"] == "none":
            assert defaults["custom"]["axisSoftMax"] == 1, panel["title"]


def test_panels_do_not_overlap_and_leave_no_gap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in board()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for cell in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, (panel["title"], taken.get(cell))
            taken[cell] = panel["title"]
    height = 1 + max(y for _, y in taken)
    assert len(taken) == 24 * height


def test_panels_have_titles_of_their_own_and_say_what_they_show() -> None:
    every = board()["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]), panel["title"]
    rows = [panel["title"] for panel in every if panel["type"] == "row"]
    assert rows == ["Is all well?", "Turns", "Outbox", "Events on their way", "Commands", "Guidance", "Signals"]


@pytest.mark.slow
def test_promtool_reads_rules_configuration_and_every_query(tmp_path: Path) -> None:
    """Prometheus' own parser reads them; its tool is in Debian's package `prometheus`."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH: apt-get install prometheus")
    plain = [re.sub(r"\$__rate_interval", "5m", query).replace("$team", ".*") for query in queries()]
    asked = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(plain)]
    panels_file = tmp_path / "panels.yml"
    panels_file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": asked}]}), "utf-8")
    folder = ROOT / "ops" / "prometheus"
    checks: list[list[str | Path]] = [
        ["rules", folder / "alerts.yml"],
        ["config", folder / "prometheus.yml"],
        ["rules", panels_file],
    ]
    for arguments in checks:
        run_program([promtool, "check", *arguments], check=True)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the profile `metrics`, as Docker understands them."""
    read = run_program(
        [Path(sys.executable).with_name("docker-compose"), "--profile", "metrics", "config", "--format", "json"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        check=True,
    )
    every: dict[str, Any] = json.loads(read.stdout)["services"]
    return {name: service for name, service in every.items() if service.get("profiles") == ["metrics"]}


def test_the_profile_brings_metrics_prometheus_and_grafana(services: dict[str, Any]) -> None:
    assert set(services) == {"metrics", "prometheus", "grafana"}
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert (service["restart"], service["cap_drop"]) == ("unless-stopped", ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    for name in ("prometheus", "grafana"):
        assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", services[name]["image"]), "pinned"
    assert [service["ports"][0]["host_ip"] for service in services.values() if service.get("ports")] == ["127.0.0.1"]
    assert services["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana.password"


def test_each_finds_the_next(services: dict[str, Any]) -> None:
    """Prometheus scrapes the metrics in a network of their own; Grafana asks it there and reads our files."""
    port = services["metrics"]["command"][services["metrics"]["command"].index("--serve") + 1]
    prometheus = yaml.safe_load((ROOT / "ops" / "prometheus" / "compose.yml").read_text("utf-8"))
    assert prometheus["scrape_configs"][0]["static_configs"][0]["targets"] == [f"metrics:{port}"]
    assert services["metrics"]["command"][-2:] == ["--bind", "0.0.0.0"]
    grafana = ROOT / "ops" / "grafana" / "provisioning"
    [source] = yaml.safe_load((grafana / "datasources" / "prometheus.yml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load((grafana / "dashboards" / "tellback.yml").read_text("utf-8"))["providers"]
    mounted = {volume["target"]: Path(volume["source"]) for volume in services["grafana"]["volumes"]}
    assert (mounted[provider["options"]["path"]] / BOARD.name).samefile(BOARD)
    assert mounted["/etc/grafana/provisioning"].samefile(grafana)
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/{BOARD.name}"


def unit(path: Path) -> ConfigParser:
    read = ConfigParser(interpolation=None, strict=True)
    cast("Any", read).optionxform = str  # systemd's names have capitals
    read.read_string(path.read_text("utf-8"))
    return read


def words() -> Iterator[tuple[str, list[str]]]:
    for path in UNITS:
        yield path.name, unit(path)["Service"]["ExecStart"].split()


def test_there_is_a_unit_for_each_process_of_ours() -> None:
    assert [path.stem for path in UNITS] == [
        *("tellback-beat", "tellback-metrics", "tellback-transport@", "tellback-worker"),
    ]
    for path in UNITS:
        read = unit(path)
        assert read["Service"]["User"] == "tellback"
        assert read["Service"]["EnvironmentFile"].startswith("/etc/tellback/"), "secrets stand in no unit"
        assert read["Service"]["Restart"] in {"always", "on-failure"}
        assert read["Install"]["WantedBy"] == "multi-user.target"


def test_units_start_what_exists() -> None:
    for name, (program, *arguments) in words():
        assert program.startswith("/opt/tellback/bin/"), name
        assert Path(sys.executable).with_name(Path(program).name).exists(), name
        if "-A" in arguments:
            import_module(arguments[arguments.index("-A") + 1].partition(".")[0])
        if "-m" in arguments:
            assert arguments[arguments.index("-m") + 1] == "tellback.transports"
        if program.endswith("/tellback"):
            commands = set(get_group(app).commands)
            assert arguments[0] in commands
