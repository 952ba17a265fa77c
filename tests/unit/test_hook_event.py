"""A hook process makes of an event what a client would have published, and imports next to nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.client.wire_values import wire_params, wire_text
from tellback.contracts.codec import decode
from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.errors import ConfigurationError
from tellback.guidance.registry import BUILT_IN, ProviderRegistry, recommended_providers
from tellback.hook.event import encode_json, read_event, tool_invoked
from tellback.hook.options import DEFAULTS, read_config, read_options
from tellback.names import Family
from tellback.redaction import Redactor, redact_text
from tellback.settings import Settings, load
from tellback.truncation import MAX_CHARS_READ
from tellback.urls import Address
from tests.support.clean_lines import resembling
from tests.support.examples import examples
from tests.support.hooks import tool_event
from tests.support.processes import run_program
from tests.support.secrets import secrets

NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def published(event: dict[str, Any]) -> ToolInvoked:
    invoked = decode(tool_invoked(read_event(json.dumps(event).encode(), "PostToolUse"), "p"), Family.EVENTS)
    assert isinstance(invoked, ToolInvoked)
    return invoked


@settings(max_examples=examples(150))
@given(st.dictionaries(st.text(), JSON, max_size=5), st.text(max_size=200) | JSON)
def test_parameters_and_results_are_those_that_a_client_publishes(params: dict[str, Any], response: Any) -> None:
    invoked = published(tool_event(tool_input=params, tool_response=response))
    assert invoked.params == msgspec.json.decode(msgspec.json.encode(wire_params(params)))
    if isinstance(response, str):
        assert invoked.result == wire_text(response)
    elif response is None:
        assert invoked.result is None


@pytest.mark.parametrize("named", [None, "AfterTool", "", 7, "post-tool-use"])
def test_an_event_whose_name_is_not_ours_is_that_of_the_command_line(named: object) -> None:
    """Another program's name for a tool's call hid the call, whatever the command line said."""
    raw = json.dumps(tool_event(hook_event_name=named)).encode()
    read = read_event(raw, "PostToolUse")
    assert (read.name, read.call and read.call["tool"]) == ("PostToolUse", "Bash")
    assert read_event(raw, "SessionStart").name == "SessionStart"


@pytest.mark.bulk
@pytest.mark.parametrize("size", [100, 70_000, MAX_CHARS_READ, MAX_CHARS_READ + 10, 3 * MAX_CHARS_READ])
def test_long_texts_are_cut_as_a_client_cuts_them(size: int) -> None:
    text = ("word " * (size // 5 + 1))[:size]
    invoked = published(tool_event(tool_response=text, tool_input={"a": text, "b": [text] * 3}))
    assert invoked.result == wire_text(text)
    assert invoked.params == wire_params({"a": text, "b": [text] * 3})
    assert len((invoked.result or "").encode()) <= 64 << 10
    assert len(msgspec.json.encode(invoked.params)) <= 64 << 10


@pytest.mark.bulk
def test_each_kind_of_secret_is_redacted_as_by_a_client() -> None:
    for kind, line in secrets(seed=5, each=1):
        invoked = published(tool_event(tool_response=f"before\n{line}\nafter", tool_input={"command": line}))
        assert invoked.result == redact_text(f"before\n{line}\nafter"), kind
        assert invoked.params == wire_params({"command": line}), kind


@pytest.mark.bulk
def test_a_redactor_for_one_text_finds_in_it_what_one_for_all_finds() -> None:
    """It leaves out the rules whose fixed text does not occur there, and no other."""
    everywhere = Redactor()
    for line in [*(line for _, line in secrets(seed=9, each=1)), *resembling(seed=9, each=1)]:
        assert Redactor(within=line).text(line) == everywhere.text(line)


@pytest.mark.parametrize("colour", ["\x1b[1m", "\x1b[0;31m\x1b[K"])
def test_a_colour_within_a_name_hides_no_secret_from_the_redactor_of_one_text(colour: str) -> None:
    """Its rules are chosen by the text as it is searched: without colours, also where JSON escapes them."""
    for line in (f"gh{colour}p_{'a1B2c3D4e5' * 3}", f"pass{colour}word=hunter2", f"toke{colour}n: hT5xQ9mZ2vL8kR4w"):
        shown = published(tool_event(tool_response={"stdout": line}, tool_input={"command": line}))
        assert "[redacted" in str(shown.result)
        assert "[redacted" in shown.params["command"]


def test_half_a_secret_at_the_end_of_what_is_read_is_not_published() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    filler = "x" * (MAX_CHARS_READ - 20)
    assert "ghp_" not in (published(tool_event(tool_response=filler + token + "y" * 100)).result or "")


def test_a_tools_own_word_that_it_failed_counts() -> None:
    assert published(tool_event(tool_response={"isError": True, "content": []})).status == "error"
    assert published(tool_event(tool_response={"isError": "no"})).status == "success"


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_beyond_all_floats_costs_no_tool_call(number: str) -> None:
    raw = json.dumps(tool_event(tool_input={"n": 7.5}, tool_response={"n": 7.5})).replace("7.5", number)
    invoked = decode(tool_invoked(read_event(raw.encode(), "PostToolUse"), "p"), Family.EVENTS)
    assert isinstance(invoked, ToolInvoked)
    assert (invoked.params, invoked.result) == ({"n": None}, '{"n":null}')


def test_the_id_is_that_of_the_call_unless_it_is_a_secret_or_there_is_none() -> None:
    assert published(tool_event("toolu_1")).event_id == "hook-toolu_1"
    first, second = (published(tool_event(None)).event_id for _ in range(2))
    assert first != second


def test_defaults_and_variables_are_those_of_the_settings(tmp_path: Any) -> None:
    fields = Settings()
    assert {name: getattr(fields, name) for name in DEFAULTS} == DEFAULTS
    environ = {
        "TELLBACK_DATA_DIR": str(tmp_path),
        "TELLBACK_REDIS_URL": "redis://h:1/2",
        "TELLBACK_TEAM": "acme",
        "TELLBACK_SHARDS": "9",
        "TELLBACK_INTAKE_MAX": "7",
        "TELLBACK_INTAKE_MAX_BYTES": "700",
        "TELLBACK_SPOOL_MAX_BYTES": "5000",
        "TELLBACK_HOOK_WAIT": "0.25",
        "TELLBACK_HOOK_CONFIG": "/c",
        "TELLBACK_REDACTION_RULES": "",
    }
    options, wanted = read_options([], environ), load(environ)
    for name in ("redis_url", "team", "shards", "intake_max", "intake_max_bytes", "spool_max_bytes"):
        assert getattr(options, name) == getattr(wanted, name)
    assert (options.wait, options.config, options.data) == (wanted.hook_wait, wanted.hook_config, str(wanted.data_path))
    given = read_options(["--team=x", "--wait", "2"], environ)
    assert (given.team, given.wait) == ("x", 2.0)


@pytest.mark.parametrize("home", [{"HOME": "/h"}, {"HOME": "/h", "XDG_DATA_HOME": "/x"}])
def test_the_data_folder_is_that_of_the_settings(home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TELLBACK_DATA_DIR")
    monkeypatch.delenv("XDG_DATA_HOME")
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    assert read_options([], home).data == str(Settings().data_path)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("redis://h:1/2", ("redis", "", "", "h", 1, "2")),
        ("redis://h", ("redis", "", "", "h", 0, "")),
        ("redis://:pw@h:1", ("redis", "", "pw", "h", 1, "")),
        ("rediss://u:pw@h.example:1/0", ("rediss", "u", "pw", "h.example", 1, "0")),
        ("redis://u:p%40%3A@h:1/0", ("redis", "u", "p@:", "h", 1, "/0")),
        ("redis://[::1]:7/3", ("redis", "", "", "::1", 7, "/3")),
        ("unix:///run/r%20s?db=4", ("unix", "", "", "", 0, "/run/r s")),
    ],
)
def test_addresses(url: str, parts: tuple[Any, ...]) -> None:
    address = Address(url)
    assert (address.scheme, address.user, address.password, address.host, address.port, address.path) == parts


@pytest.mark.parametrize(
    ("text", "asked"), [("", ["StuckFeedback"]), ("deadline = 60", ["StuckFeedback"]), ("providers = []", [])]
)
def test_a_configuration_that_names_no_providers_asks_for_the_default(
    text: str, asked: list[str], tmp_path: Any
) -> None:
    path = tmp_path / "hooks.toml"
    path.write_text(text)
    begun = read_config(str(path)).evaluation_begun("s", "e", "p", "h")
    assert [provider["name"] for provider in begun["providers"]] == asked


def test_the_default_providers_are_known_to_workers() -> None:
    begun = decode(encode_json(read_config("").evaluation_begun("s", "e", "p", "h")), Family.EVENTS)
    assert isinstance(begun, EvaluationBegun)
    assert {spec.name for spec in begun.providers} <= {cls.__name__ for cls in BUILT_IN}


def test_the_default_providers_are_those_that_are_recommended() -> None:
    begun = decode(encode_json(read_config("").evaluation_begun("s", "e", "p", "h")), Family.EVENTS)
    assert isinstance(begun, EvaluationBegun)
    registry = ProviderRegistry()
    asked = [(registry.build(spec), spec.trigger) for spec in begun.providers]
    assert asked == [(config.provider, config.trigger) for config in recommended_providers()]


@pytest.mark.parametrize("text", ["providers = 1", "providers = [1]", "prompt = ''", "x = 1", "\x00"])
def test_a_wrong_configuration_is_named(text: str, tmp_path: Any) -> None:
    path = tmp_path / "hooks.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"hooks\.toml"):
        read_config(str(path))


@pytest.mark.parametrize("and_after_an_outage", ["", "tellback.messaging.spool, "])
@pytest.mark.programs
def test_a_hook_process_imports_next_to_nothing(and_after_an_outage: str) -> None:
    heavy = (
        "redis", "msgspec", "typer", "rich", "structlog", "logging", "dataclasses", "inspect", "pathlib", "hashlib",
        "urllib.parse", "socket", "ssl", "threading", "asyncio", "subprocess", "datetime", "secrets", "tomllib", "uuid",
    )  # fmt: skip
    script = (
        f"import json, sys, {and_after_an_outage}tellback.cli.entry, tellback.hook.process, tellback.hook.handling; "
        f"print(json.dumps([name for name in {heavy} if name in sys.modules]))"
    )
    done = run_program([sys.executable, "-c", script], check=True)
    assert json.loads(done.stdout) == []
