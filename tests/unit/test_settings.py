"""Settings come from the environment; a wrong one is named."""

from __future__ import annotations

import pytest

from tellback.errors import ConfigurationError
from tellback.settings import load
from tellback.urls import without_secrets


def test_the_environment_overrides_defaults_and_arguments_override_it() -> None:
    environ = {"TELLBACK_SHARDS": "8", "TELLBACK_TEAM": "acme", "TELLBACK_REDIS_URL": "redis://a/0"}
    settings = load(environ, redis_url="redis://b/0", team=None)
    assert (settings.shards, settings.team, settings.redis_url) == (8, "acme", "redis://b/0")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TELLBACK_SHARDS", "many"),
        ("TELLBACK_SHARDS", "0"),
        ("TELLBACK_BEAT_PERIOD", "-1"),
        ("TELLBACK_BEAT_PERIOD", "nan"),
        ("TELLBACK_TEAM", "No Such Team"),
        ("TELLBACK_TEAMS", "fine,Not Fine"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        load({name: value})


def test_teams_default_to_the_team() -> None:
    assert load({"TELLBACK_TEAM": "acme"}).served_teams == ("acme",)
    assert load({"TELLBACK_TEAMS": "a, b,"}).served_teams == ("a", "b")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:6379/0", "redis://:***@host:6379/0"),
        ("rediss://user:secret@host/1", "rediss://user:***@host/1"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_a_shown_url_carries_no_password(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
