"""A command's record has one definition: who writes, keeps or shows a record has each of its fields."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from docs.hooks import tables
from tellback.commands import project
from tellback.commands.record import CommandAttempt, build_record, record_without_run
from tellback.commands.runner import CommandResult
from tellback.commands.truncation import CapturedOutput
from tellback.contracts.commands import CommandRecord, CommandSubmitted, StreamFlags, Waiver
from tellback.redaction import Redactor
from tellback.tui.page import record_page
from tellback.tui.record_text import StyledLine
from tellback.tui.review import RecordReview

FIELDS: Final = CommandRecord.__struct_fields__
PROJECT: Final = Path(inspect.getfile(project)).parent
# A line of `feedback_record.jsonl` as 0.1.0 wrote it. Keep it as it is: users have such files.
OLD: Final = (
    b'{"command_id":"c1","session":"s","command":["pytest","-q"],"parent_command_id":"c0","input_command_ids":["c9"],'
    b'"cwd":"/srv/app","host":"h","worker":"h:1","attempt":2,"stdout_tail":"2 passed","stderr_tail":"warning",'
    b'"exit_code":-9,"signal":"SIGKILL","duration_ms":1200,"started_at":"2026-11-21T12:01:02.003Z",'
    b'"agent_note":"expect two","error":"timed out","truncated":{"stdout":true,"stderr":false},'
    b'"redacted":{"stdout":false,"stderr":true},"output_bytes":70000}'
)
OF_A_PERSON: Final = {"waiver"}  # put into a stored record, where nothing of the run is
SECRET: Final = "password=hunter2"
# What a command that did not run does not have.
OF_A_RUN: Final = {
    *("stdout_tail", "stderr_tail", "exit_code", "signal", "duration_ms", "started_at"),
    *("truncated", "redacted", "output_bytes"),
}


def from_a_run(text: str) -> CommandRecord:
    """A record whose every field is other than its default, made of `text` wherever text comes from outside."""
    samples = {"str": text, "bool": True, "int": 5, "float": 0.5}  # of a new field too, by its type
    submitted = CommandSubmitted(
        event_id="e",
        command_id="c1",
        session="s",
        argv=[text],
        note=text,
        parent="c0",
        inputs=["c9"],
        env={"KEY": "value"},
    )
    output = CapturedOutput("out", truncated=True, redacted=True, size=3)
    own: dict[str, Any] = {"stdout": output, "stderr": output, "started_at": datetime(2026, 1, 1, tzinfo=UTC)}
    for field in fields(CommandResult):
        if field.name not in own:
            own[field.name] = next(each for kind, each in samples.items() if kind in str(field.type))
    result = CommandResult(**own)
    return build_record(
        submitted, result, redactor=Redactor(), cwd=f"/{text}", attempt=CommandAttempt(2, host="h", worker="w")
    )


def test_a_record_of_an_earlier_release_is_read() -> None:
    """A field without a default would make every stored record unreadable."""
    old = msgspec.json.decode(OLD, type=CommandRecord)
    assert msgspec.json.decode(OLD).items() <= msgspec.to_builtins(old).items()
    least = msgspec.json.decode(b'{"command_id":"c","session":"s","command":["x"]}', type=CommandRecord)
    assert (least.exit_code, least.attempt, least.truncated) == (None, 1, StreamFlags())


def test_a_run_fills_every_field() -> None:
    made = msgspec.to_builtins(from_a_run("plain"))
    least = msgspec.to_builtins(CommandRecord(command_id="", session="", command=[]))
    assert {name for name in FIELDS if made[name] == least[name]} == OF_A_PERSON


def test_no_field_keeps_a_secret() -> None:
    made = msgspec.to_builtins(from_a_run(SECRET))
    assert [name for name in FIELDS if "hunter2" in str(made[name])] == ["signal"], "a name of the operating system"


def test_a_command_that_did_not_run_keeps_what_was_submitted() -> None:
    ran = msgspec.to_builtins(from_a_run("plain"))
    submitted = CommandSubmitted(
        event_id="e", command_id="c1", session="s", argv=["plain"], note="plain", parent="c0", inputs=["c9"]
    )
    refused = msgspec.to_builtins(
        record_without_run(submitted, "refused", CommandAttempt(2, host="h", worker="w"), cwd="/plain")
    )
    least = msgspec.to_builtins(CommandRecord(command_id="", session="", command=[]))
    of_a_run = {name for name in FIELDS if refused[name] == least[name] and ran[name] != least[name]}
    assert of_a_run == OF_A_RUN, "fill any other field in _submitted_fields"


def test_the_projects_own_runner_writes_every_field_in_order() -> None:
    """It makes the record by hand, since it runs without Tellback."""
    tree = ast.parse((PROJECT / "run_with_feedback.py").read_text("utf-8"))
    written = [
        tuple(key.value for key in node.value.keys if isinstance(key, ast.Constant))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Dict)
        and [getattr(target, "id", "") for target in node.targets] == ["record"]
    ]
    assert written == [FIELDS]


def test_the_skill_explains_fields_that_exist() -> None:
    table = (PROJECT / "skill.md").read_text("utf-8").partition("## What a record says")[2].partition("## Rules")[0]
    explained = {
        name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.partition("|")[2].partition("|")[0])
    }
    assert explained
    assert explained <= set(FIELDS)


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_is_documented_and_shown(field: str) -> None:
    """`tellback watch` shows a whole record, so another value of any field gives another page."""
    assert f"| `{field}` | " in tables.record()
    ran = from_a_run("plain")
    if field == "error":
        ran = msgspec.structs.replace(ran, exit_code=None)  # the page shows either
    assert page(ran) != page(msgspec.structs.replace(ran, **{field: OTHER[field]}))


def page(record: CommandRecord) -> list[StyledLine]:
    review = RecordReview(slow=10)
    review.add([record])
    return record_page(review, review.rows[0])


OTHER: Final[dict[str, Any]] = {
    "command_id": "c2",
    "session": "s2",
    "command": ["other"],
    "parent_command_id": "c7",
    "input_command_ids": ["c8"],
    "cwd": "/other",
    "host": "h2",
    "worker": "w2",
    "attempt": 3,
    "stdout_tail": "other",
    "stderr_tail": "other",
    "exit_code": 2,
    "signal": "SIGTERM",
    "duration_ms": 70_000,
    "started_at": "2026-11-21T12:01:02.003Z",
    "agent_note": "other",
    "error": "other",
    "truncated": StreamFlags(),
    "redacted": StreamFlags(),
    "output_bytes": 4,
    "waiver": Waiver(by="alice@h", reason="flaky", at="2026-11-21T12:05:02.003Z"),
}
