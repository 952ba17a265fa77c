"""A variable that looks like a setting and is none is named, with the one that was meant."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from tellback.alerts.settings import AlertSettings
from tellback.cli.app import app
from tellback.commands.survivors import MARK
from tellback.doctor.infrastructure import check_variables
from tellback.settings import Settings
from tellback.transports.__main__ import BOT, SIGNING
from tellback.unknown_variables import OTHERS, unknown_variables
from tests.support.pages import ROOT

MISTYPED = "TELLBACK_REDIS_ULR"
OWN = "TELLBACK_STAGE"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MISTYPED, "redis://h")
    monkeypatch.setenv(OWN, "prod")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("TELLBACK_REDIS_ULR", "TELLBACK_REDIS_URL"),
        ("TELLBACK_REDIS", "TELLBACK_REDIS_URL"),
        ("TELLBACK_TAEM", "TELLBACK_TEAM"),
        ("TELLBACK_DATADIR", "TELLBACK_DATA_DIR"),
        ("TELLBACK_ALERT_SLAK", "TELLBACK_ALERT_SLACK"),
        ("tellback_redis_url", "TELLBACK_REDIS_URL"),
        ("TELLBACK_STAGE", ""),
        ("TELLBACK_REDIS_PORT", "TELLBACK_REDIS_URL"),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_known_one(name: str, nearest: str) -> None:
    assert unknown_variables({name: "6379", "HOME": "/root"}) == [(name, nearest)]


def test_what_is_known_empty_or_of_a_service_of_kubernetes_is_not_named() -> None:
    known = {f"TELLBACK_{name.upper()}": "1" for name in (*Settings.__struct_fields__, *OTHERS)}
    service = {
        "TELLBACK_METRICS_SERVICE_HOST": "10.0.0.7",
        "TELLBACK_METRICS_SERVICE_PORT_HTTP": "9464",
        "TELLBACK_METRICS_PORT": "tcp://10.0.0.7:9464",
        "TELLBACK_METRICS_PORT_9464_TCP": "tcp://10.0.0.7:9464",
        "TELLBACK_METRICS_PORT_9464_TCP_PROTO": "tcp",
        "TELLBACK_METRICS_PORT_9464_TCP_ADDR": "10.0.0.7",
    }
    assert unknown_variables({**known, **service, "TELLBACK_OLD": ""}) == []


def test_every_variable_that_something_reads_is_known() -> None:
    alerts = {f"ALERT_{name.upper()}" for name in AlertSettings.__struct_fields__}
    compose = set(re.findall(r"\$\{TELLBACK_(\w+)", (ROOT / "docker-compose.yml").read_text("utf-8")))
    others = {name.removeprefix("TELLBACK_") for name in (SIGNING, BOT, MARK)}
    assert set(OTHERS) == (alerts | compose | others) - {name.upper() for name in Settings.__struct_fields__}


def test_a_command_names_on_standard_error_what_resembles_a_setting() -> None:
    said = CliRunner().invoke(app, ["acl"])
    assert said.stderr.startswith(
        f"tellback: {MISTYPED} is not a setting of Tellback; did you mean TELLBACK_REDIS_URL?\n"
    )
    assert OWN not in said.stderr


def test_help_and_the_version_name_none() -> None:
    for given in (["--help"], ["--version"]):
        assert MISTYPED not in CliRunner().invoke(app, given).output


def test_the_doctor_notes_each() -> None:
    finding = check_variables()
    assert finding.state == "note"
    assert MISTYPED in finding.found
    assert OWN in finding.found
