"""Every id and name that a host gives is bounded where it enters: it becomes a key, a field or a member of a set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from tellback.commands.checks import addressing_error, submission_error
from tellback.contracts.codec import MESSAGES, decode, encode, schema_of
from tellback.contracts.commands import CommandSubmitted
from tellback.contracts.limits import MAX_ID_CHARS
from tellback.contracts.message import Message
from tellback.contracts.turns import TurnFinished
from tellback.errors import InvalidInput, MalformedMessage
from tellback.guidance.observations.observer import ToolObserver
from tellback.names import Family, check_team

IDS: Final = {
    *("event_id", "call_id", "fact_id", "signal_id", "message_id", "bank", "session", "evaluation", "prompt"),
    *("tool", "turn", "channel", "conversation", "by", "name", "kind", "language"),
}
"""The fields of messages that name something; those of a command, the worker checks by `addressing_error`."""

COMMAND: Final = CommandSubmitted(event_id="e", command_id="c", session="s", argv=["true"])


def _strings(field: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for choice in [field, *field.get("anyOf", ())]:
        if choice.get("type") == "string" and "enum" not in choice:
            yield choice


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_id_of_a_message_has_a_longest_form(message: type[Message]) -> None:
    """Requirement A-96. The JSON Schema shows the bound to hosts in other languages."""
    schema = schema_of(message)
    for part in (schema, *schema.get("$defs", {}).values()):
        for name, field in part.get("properties", {}).items():
            if name in IDS and not (message is CommandSubmitted and name == "session"):
                assert all("maxLength" in each for each in _strings(field)), f"{part.get('title')}.{name}"


@pytest.mark.parametrize("field", ["command_id", "session", "host", "parent", "cwd"])
def test_the_ids_of_a_command_are_bounded_by_the_worker(field: str) -> None:
    long = msgspec.structs.replace(COMMAND, **{field: "x" * 100_000})
    assert addressing_error(long) or submission_error(long)
    assert not addressing_error(COMMAND)
    assert not submission_error(COMMAND)


@pytest.mark.parametrize("names", [["x" * 100_000], [f"x{number}" for number in range(101)]], ids=["long", "many"])
def test_the_names_of_secrets_are_bounded_by_the_worker(names: list[str]) -> None:
    assert submission_error(msgspec.structs.replace(COMMAND, secret_env=names))


def test_a_refused_name_is_not_repeated_at_any_length() -> None:
    for field, value in (("host", "x" * 100_000), ("secret_env", ["-" * 100_000])):
        assert len(submission_error(msgspec.structs.replace(COMMAND, **{field: value})) or "") < 300
    with pytest.raises(InvalidInput) as error:
        check_team("x" * 100_000)
    assert len(str(error.value)) < 300


def test_a_tool_whose_name_is_not_unicode_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Unicode"):
        ToolObserver(tools=["\ud800"])


@pytest.mark.parametrize("field", ["turn", "channel", "conversation", "event_id"])
def test_an_answer_whose_id_is_too_long_is_refused_with_the_field(field: str) -> None:
    """A megabyte of id would be 50 GB in the ids that a session remembers."""
    given = TurnFinished(event_id="e", turn="t", channel="c", conversation="d", error_code="x")
    assert decode(encode(given), Family.TURNS) == given
    with pytest.raises(MalformedMessage, match=field):
        decode(encode(msgspec.structs.replace(given, **{field: "x" * (MAX_ID_CHARS + 1)})), Family.TURNS)
