"""Alerts of ops/prometheus/alerts.yml and a panel of ops/grafana on figures as they come."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

OPS: Final = Path(__file__).resolve().parents[2] / "ops"
RULES: Final = OPS / "prometheus" / "alerts.yml"
BOARD: Final = OPS / "grafana" / "dashboards" / "tellback.json"
UP: Final = {'tellback_up{team="a"}': "1x240", 'tellback_up{team="b"}': "1x240"}

CASES: Final[dict[str, tuple[dict[str, str], set[tuple[str, str]]]]] = {
    "letters that are dropped are no new ones": ({'tellback_dead_letters{team="a"}': "10x80 9x160"}, set()),
    "a new letter is one, also after others were dropped": (
        {'tellback_dead_letters{team="a"}': "10x70 5x5 6x160"},
        {("TellbackDeadLetters", "a")},
    ),
    "the first dead delivery of a channel": (
        {'tellback_outbox_events_total{team="a",channel="misspelt",event="dead"}': "_x79 1x160"},
        {("TellbackDeadDeliveries", "a")},
    ),
    "dead deliveries from before Prometheus asked": (
        {
            'tellback_up{team="a"}': "_x79 1x160",
            'tellback_outbox_events_total{team="a",channel="c",event="dead"}': "_x79 7x160",
        },
        set(),
    ),
    "commands of one team wait and run, another team has none": (
        {
            'tellback_commands_queued{team="a",pool="any"}': "5x240",
            'tellback_commands_running{team="a"}': "4x240",
            'tellback_commands_queued{team="b",pool="any"}': "0x240",
            'tellback_commands_running{team="b"}': "0x240",
        },
        set(),
    ),
    "fallbacks of a small team beside a large one": (
        {
            'tellback_turn_events_total{team="a",event="opened"}': "0+100x240",
            'tellback_turn_events_total{team="a",event="fallback"}': "0x240",
            'tellback_turn_events_total{team="b",event="opened"}': "0+1x240",
            'tellback_turn_events_total{team="b",event="fallback"}': "0+1x240",
        },
        {("TellbackManyFallbacks", "b")},
    ),
    "a server of two teams may delete keys": (
        {
            'tellback_evicting_servers{team="a",instance="1"}': "0x70 1x170",
            'tellback_evicting_servers{team="b",instance="2"}': "0x70 1x170",
        },
        {("TellbackRedisEvicts", "")},
    ),
    "keys were deleted lately, and others long ago": (
        {
            'tellback_evicted_keys_total{team="a"}': "0x80 5x160",
            'tellback_evicted_keys_total{team="b"}': "5x240",
        },
        {("TellbackRedisEvicts", "")},
    ),
    "the metrics of one team of two are away": (
        {'tellback_up{team="b"}': "1x60 stale", 'up{job="tellback",team="b"}': "1x60 0x180"},
        {("TellbackRedisAway", "b")},
    ),
}


def _labels(name: str, team: str) -> str:
    of_team = f', team="{team}"' if team else ""
    return f'{{alertname="{name}"{of_team}}}'


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_alerts_fire_for_what_they_say(case: str, tmp_path: Path) -> None:
    """The figures are 15 s apart, and change after 20 min; the alerts are those of the 23rd minute."""
    series, firing = CASES[case]
    asked: dict[str, Any] = {
        "expr": 'group by (alertname, team) (ALERTS{alertstate="firing"})',
        "eval_time": "23m",
        "exp_samples": [{"labels": _labels(name, team), "value": 1} for name, team in firing],
    }
    _check(tmp_path, UP | series, asked)


@pytest.mark.slow
def test_the_first_dead_delivery_of_a_channel_is_shown_as_not_delivered(tmp_path: Path) -> None:
    """`increase` sees none before it, so that the panel said 0 while the alert fired. Requirement C-182."""
    [query] = [
        panel["targets"][0]["expr"].replace("$team", ".*")
        for panel in json.loads(BOARD.read_text("utf-8"))["panels"]
        if panel["title"] == "Not delivered"
    ]
    series = {
        'tellback_outbox_events_total{team="a",channel="misspelt",event="dead"}': "_x279 1x80",
        'tellback_outbox_events_total{team="a",channel="known",event="dead"}': "4x360",
        'tellback_outbox_events_total{team="b",channel="known",event="delivered"}': "_x279 9x80",
    }
    up = {'tellback_up{team="a"}': "1x360", 'tellback_up{team="b"}': "1x360"}
    _check(tmp_path, up | series, {"expr": query, "eval_time": "80m", "exp_samples": [{"labels": "{}", "value": 1}]})


def _check(folder: Path, series: dict[str, str], asked: dict[str, Any]) -> None:
    """Have Prometheus' own tool answer a query."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH: apt-get install prometheus")
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    file = folder / "test.yml"
    file.write_text(
        yaml.safe_dump({
            "rule_files": [str(RULES)],
            "evaluation_interval": "15s",
            "tests": [{"interval": "15s", "input_series": inputs, "promql_expr_test": [asked]}],
        }),
        "utf-8",
    )  # fmt: skip
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
