"""Settings come from the environment; a wrong one is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.inspect import FloatType, IntType, Metadata, StrType, StructType, type_info

from tellback import connect
from tellback.errors import ConfigurationError
from tellback.hook.options import data_folder
from tellback.settings import Settings, load
from tellback.settings_checks import FORMS
from tellback.urls import servers_of, socket_url_of_celery, without_secrets


def test_the_environment_overrides_defaults_and_arguments_override_it() -> None:
    environ = {"TELLBACK_SHARDS": "8", "TELLBACK_TEAM": "acme", "TELLBACK_REDIS_URL": "redis://a/0"}
    settings = load(environ, redis_url="redis://b/0", team=None)
    assert (settings.shards, settings.team, settings.redis_url) == (8, "acme", "redis://b/0")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TELLBACK_SHARDS", "many"),
        ("TELLBACK_SHARDS", "0"),
        ("TELLBACK_HOST", "a b"),
        ("TELLBACK_BEAT_PERIOD", "-1"),
        ("TELLBACK_BEAT_PERIOD", "nan"),
        ("TELLBACK_TEAM", "No Such Team"),
        ("TELLBACK_TEAMS", "fine,Not Fine"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as wrong:
        load({name: value})
    assert "$." not in str(wrong.value), "a path of the decoder"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shards", 0),
        ("shards", "many"),
        ("publish_delay", "soon"),
        ("beat_period", float("nan")),
        ("host", "a b"),
        ("data_dir", 5),
        ("data_dir", object()),
        ("redis_url", None),
        ("team", "No Such Team"),
        ("teams", "fine,Not Fine"),
        ("fallback_language", "no such language"),
        ("channel_late_within", "web"),
        ("redaction_rules", "/no/such/file"),
    ],
)
def test_a_wrong_value_of_settings_that_a_program_made_is_refused_as_well(name: str, value: Any) -> None:
    """They counted as they were: no shards divided by zero, and a delay of text ended the publisher's thread."""
    with pytest.raises(ConfigurationError) as wrong:
        connect(settings=Settings(**{name: value}))
    assert "$." not in str(wrong.value), "a path of the decoder"
    assert f"TELLBACK_{name.upper()}" in str(wrong.value) or name == "fallback_language"


def bounds() -> Iterator[tuple[str, float, bool]]:
    """Each bound of a number: its setting, a value just beyond it, and False; the last value within, and True."""
    settings = type_info(Settings)
    assert isinstance(settings, StructType)
    for field in settings.fields:
        kind = field.type.type if isinstance(field.type, Metadata) else field.type
        if isinstance(kind, IntType | FloatType):
            step = 1 if isinstance(kind, IntType) else 1e-3
            for bound, inward, allowed in (
                (kind.ge, step, True), (kind.gt, step, False), (kind.le, -step, True), (kind.lt, -step, False),
            ):  # fmt: skip
                if bound is not None:
                    yield field.name, bound if not allowed else bound - inward, False
                    yield field.name, bound if allowed else bound + inward, True


@pytest.mark.parametrize(("name", "value", "fine"), [*bounds()])
def test_each_bound_of_a_setting_is_enforced(name: str, value: float, *, fine: bool) -> None:
    variable = f"TELLBACK_{name.upper()}"
    given = {variable: str(int(value) if value == int(value) else value)}
    if fine:
        assert getattr(load(given), name) == pytest.approx(value)
    else:
        with pytest.raises(ConfigurationError, match=variable):
            load(given)


def test_every_number_is_bounded_on_both_sides_and_finite() -> None:
    """Otherwise `inf`, or bytes where megabytes were meant, would be taken."""
    names = {name for name, _, _ in bounds()}
    settings = type_info(Settings)
    assert isinstance(settings, StructType)
    for field in settings.fields:
        kind = field.type.type if isinstance(field.type, Metadata) else field.type
        if isinstance(kind, IntType | FloatType):
            assert field.name in names
            assert (kind.ge is None) != (kind.gt is None), field.name
            assert (kind.le is None) != (kind.lt is None), field.name
            for value in ("inf", "nan", "1e999"):
                with pytest.raises(ConfigurationError, match=f"TELLBACK_{field.name.upper()}"):
                    load({f"TELLBACK_{field.name.upper()}": value})


def test_teams_default_to_all() -> None:
    assert load({"TELLBACK_TEAM": "acme"}).served_teams == ()
    assert load({"TELLBACK_TEAMS": "a, b,"}).served_teams == ("a", "b")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:6379/0", "redis://:***@host:6379/0"),
        ("rediss://user:secret@host/1", "rediss://user:***@host/1"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis+cluster://user:secret@a:1,b:2", "redis+cluster://user:***@a:1,b:2"),
        (
            "sentinel://:secret@a:1;sentinel://:secret@b:2/0?master_name=m&sentinel_password=secret",
            "sentinel://:***@a:1;sentinel://:***@b:2/0?master_name=m&sentinel_password=***",
        ),
    ],
)
def test_a_shown_url_carries_no_password(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    "password", ["s3cr#et", "s3cr/et", "s3cr?et", "s3cr@et", "12/s3cr", "12#s3cr", "s3cr[et]", "s3cr;et"]
)
@pytest.mark.parametrize(
    "form", ["redis://:{}@h:6379/0", "unix://u:{}@/s", "redis+cluster://:{}@a,b", "sentinel://:{}@a", "h:{}@x"]
)
def test_a_password_that_was_not_encoded_is_not_shown_either(form: str, password: str) -> None:
    """It was, since it ends where the host would begin; some ended in a traceback."""
    shown = without_secrets(form.format(password))
    assert "s3cr" not in shown
    assert "***@" in shown


def test_a_url_of_sentinels_names_each_of_them_and_the_primary_behind() -> None:
    servers = servers_of("sentinel://u:w@a:1;sentinel://u:w@b/3?master_name=m&sentinel_password=s&ssl_ca_certs=f")
    assert servers is not None
    assert (servers.addresses, servers.master_name) == ((("a", 1), ("b", 26379)), "m")
    assert servers.nodes[0] == "rediss://:s@a:1?ssl_ca_certs=f"
    assert servers.url_of("::1", 5) == "rediss://u:w@[::1]:5/3?ssl_ca_certs=f"


def test_a_url_of_a_cluster_names_its_nodes() -> None:
    servers = servers_of("rediss+cluster://:w@a,b:2/0?ssl_ca_certs=f")
    assert servers is not None
    assert servers.addresses == (("a", 6379), ("b", 2))
    assert servers.url_of("c", 5) == "rediss://:w@c:5?ssl_ca_certs=f"


@pytest.mark.parametrize("url", ["redis+cluster://a/1", "redis+cluster://a,,b", "sentinel://a/0"])
def test_a_url_of_several_servers_that_lacks_a_part_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"missing|database 0"):
        servers_of(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:6379", "not the URL"),
        ("amqp://guest@h//", "not the URL"),
        ("redis://h:port/0", "not the URL"),
        ("redis://h:99999/0", "not the URL"),
        ("redis://:s3cr#et@h:6379/0", "not the URL"),
        ("redis://:123#s3cr@h:6379/0", "not the URL"),
        ("sentinel://h:26379", "not the URL"),
        ("redis://h/zero", "not a number"),
        ("redis://h/0/", "not a number"),
        ("unix://", "no path"),
        ("redis://h/0?socket_timeout=1", "option socket_timeout"),
        ("redis+cluster://h:6379", "Cluster"),
    ],
)
def test_a_broker_that_celery_cannot_use_is_an_error_that_names_the_variable_and_no_password(
    url: str, said: str
) -> None:
    """Celery retried some for ever, and printed the traceback of others, with a part of the password."""
    for given in ({"TELLBACK_BROKER_URL": url}, {"TELLBACK_REDIS_URL": url}):
        with pytest.raises(ConfigurationError, match=f"^TELLBACK_BROKER_URL: .*{said}") as wrong:
            _ = load(given).broker
        assert "s3cr" not in str(wrong.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://u:p%40%23@h:6379/15",
        "rediss://[::1]:6379/0?ssl_cert_reqs=none&ssl_ca_certs=/ca",
        "unix:///run/r.sock?db=2",
        "sentinel://a:1;sentinel://b:2/0?master_name=m",
    ],
)
def test_a_broker_that_celery_can_use_stays_as_it_is(url: str) -> None:
    assert load({"TELLBACK_BROKER_URL": url}).broker == url


@pytest.mark.parametrize(
    ("url", "celery"),
    [
        ("unix:///run/r%20s", "redis+socket:///run/r%20s?virtual_host=0"),
        ("unix://u:p%40%2F@/run/r?db=2", "redis+socket://u:p%40%2F@/run/r?virtual_host=2"),
        ("unix:///run/r?password=p%40", "redis+socket://:p%40@/run/r?virtual_host=0"),
    ],
)
def test_a_socket_file_has_another_url_for_celery(url: str, celery: str) -> None:
    assert socket_url_of_celery(url) == celery


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "TELLBACK_HOST",
            "build 1",
            "TELLBACK_HOST: 'build 1': use at most 253 of A-Z, a-z, 0-9, '.', '_' and '-', as in ",
        ),
        ("TELLBACK_DEVICE", "GPU", "TELLBACK_DEVICE: 'GPU': use cpu, cuda, cuda:1 or mps"),
        ("TELLBACK_TRACING", "yes", "TELLBACK_TRACING: 'yes': use true or false"),
        ("TELLBACK_SHARDS", "4x", "TELLBACK_SHARDS: '4x': use a whole number"),
        ("TELLBACK_LINGER", "0,5", "TELLBACK_LINGER: '0,5': use a number"),
        ("TELLBACK_SHARDS", "0", "TELLBACK_SHARDS: '0': use a whole number of at least 1"),
        ("TELLBACK_PUBLISH_DELAY", "-1", "TELLBACK_PUBLISH_DELAY: '-1': use a number of at least 0"),
    ],
)
def test_a_value_of_the_wrong_form_is_answered_in_words_with_an_example(variable: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        load({variable: value})
    assert str(wrong.value).startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": 1}, "url is int; use a text"),
        ({"team": 1}, "team: Expected `str`, got `int`"),
        (
            {"settings": {"redis_url": "redis://:hunter2@h"}},
            "settings is dict; use tellback.Settings(redis_url=..., ...)",
        ),
    ],
)
def test_an_argument_of_another_type_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        connect(**given)
    assert str(refused.value).startswith(said)


def test_each_setting_with_a_pattern_says_its_form_in_words() -> None:
    settings = type_info(Settings)
    assert isinstance(settings, StructType)
    kinds = {
        field.name: field.type.type if isinstance(field.type, Metadata) else field.type for field in settings.fields
    }
    patterns = {name.upper() for name, kind in kinds.items() if isinstance(kind, StrType) and kind.pattern is not None}
    assert patterns == FORMS.keys()


@pytest.mark.parametrize("path", ["data", "./data", "~/data"])
def test_a_relative_data_directory_is_refused_by_host_and_hook(path: str) -> None:
    """Each working directory had a spool of its own, which no process elsewhere sent. Requirement A-434."""
    said = f"TELLBACK_DATA_DIR is '{path}': use an absolute path"
    with pytest.raises(ConfigurationError, match=said):
        load({"TELLBACK_DATA_DIR": path})
    with pytest.raises(ConfigurationError, match=said):
        data_folder({"TELLBACK_DATA_DIR": path})


def test_a_relative_data_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "share")
    monkeypatch.setenv("HOME", "/home/one")
    monkeypatch.delenv("TELLBACK_DATA_DIR")
    assert str(Settings().data_path) == data_folder(os.environ) == "/home/one/.local/share/tellback"
