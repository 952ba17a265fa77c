"""From an outcome to the record that is kept."""

from __future__ import annotations

import msgspec

from tellback.commands.record import HISTORY_CHARS, build_record, history_entry, record_without_run
from tellback.commands.runner import CommandResult
from tellback.commands.truncation import CapturedOutput
from tellback.contracts.commands import CommandSubmitted
from tellback.redaction import Redactor

EMPTY = CapturedOutput("", truncated=False, redacted=False, size=0)


def submitted(**fields: object) -> CommandSubmitted:
    """A submission with these fields."""
    plain = {"type": "CommandSubmitted", "event_id": "e", "command_id": "c", "session": "s", "argv": ["x"]}
    return msgspec.convert(plain | fields, CommandSubmitted)


def test_argv_note_cwd_and_error_are_redacted() -> None:
    """No field keeps a secret that the rules or the command's own values know."""
    outcome = CommandResult(stdout=EMPTY, stderr=EMPTY, exit_code=None, error="program not found: hunter2-secret")
    record = build_record(
        submitted(argv=["login", "--password=x"], note="with api_key=1"),
        outcome,
        redactor=Redactor({"KEY": "hunter2-secret"}),
        cwd="/srv/AKIAABCDEFGHIJKLMNOP",
    )
    assert record.command == ["login", "[redacted: password]"]
    assert record.agent_note == "[redacted: api-key]"
    assert record.cwd == "[redacted: aws-access-key]"
    assert record.error == "[redacted: secret KEY]"


def test_arguments_that_are_no_unicode_are_readable() -> None:
    """A file name of arbitrary bytes does not keep the record from being stored."""
    record = record_without_run(submitted(), "no such file: a\udcffb")
    assert b"a\xef\xbf\xbdb" in msgspec.json.encode(record)


def test_a_history_entry_is_bounded() -> None:
    """Neither a long argv nor a long output exceeds the bound."""
    outcome = CommandResult(
        stdout=CapturedOutput("o" * 60_000, truncated=True, redacted=False, size=60_000), stderr=EMPTY, exit_code=0
    )
    record = build_record(submitted(argv=["x" * 30_000] + ["y"] * 30_000), outcome, redactor=Redactor(), cwd="/")
    assert len(msgspec.json.encode(history_entry(record))) < 3 * HISTORY_CHARS
    record = record_without_run(submitted(argv=["a", "b" * 3000, "c"]), "no")
    assert history_entry(record)["command"] == ["a", "b" * (HISTORY_CHARS - 2)]
