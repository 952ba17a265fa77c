"""The healthy run of eighty calls and a stuck one, as the hooks of Claude Code and of Codex report them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tellback import recommended_providers
from tellback.contracts.codec import decode
from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.guidance.evaluation import apply_event
from tellback.guidance.provider import provider_spec
from tellback.guidance.state import BatchEffects, new_evaluation
from tellback.hook.event import read_event, tool_invoked
from tellback.names import Family
from tellback.replay.accounts import InProcessInvoker
from tellback.state.intake_lease import IntakeEntry
from tellback_workers.loops.guidance import classified

Event = dict[str, Any]


def claude(tool: str, params: Event, said: str, *, failed: bool = False) -> Event:
    event = {"hook_event_name": "PostToolUse", "session_id": "s1", "tool_name": tool, "tool_input": params}
    if failed:
        return {**event, "hook_event_name": "PostToolUseFailure", "error": f"Exit code 1\n{said}"}
    path = params.get("file_path", "")
    numbers = {"filePath": path, "content": said, "numLines": 2, "startLine": 1, "totalLines": 900}
    responses: dict[str, Any] = {
        "Bash": {"stdout": said, "stderr": "", "interrupted": False, "isImage": False},
        "Read": {"type": "text", "file": numbers},
        "Grep": {"mode": "content", "numFiles": 0, "filenames": [], "content": said, "numLines": 1},
        "Edit": {"filePath": path, "oldString": "a", "newString": "b", "structuredPatch": [], "replaceAll": False},
    }
    return {**event, "tool_response": responses[tool]}


def codex(tool: str, params: Event, said: str, *, failed: bool = False) -> Event:
    """Codex reads, searches and edits by its shell, and passes no exit code to hooks."""
    del failed
    path = params.get("file_path", "")
    commands = {
        "Bash": params.get("command"),
        "Read": f"sed -n '{params.get('offset')},+40p' {path}",
        "Grep": f"rg -n '{params.get('pattern')}' src",
        "Edit": f"apply_patch <<'EOF'\n*** Update File: {path}\n-{params.get('old_string')}\n+new\nEOF",
    }
    command = {"command": commands[tool]}
    return {
        "hook_event_name": "PostToolUse",
        "session_id": "s1",
        "tool_name": "Bash",
        "tool_input": command,
        "tool_response": said,
    }


Program = Callable[..., Event]
PROGRAMS = pytest.mark.parametrize("program", [claude, codex])


def reported(events: list[Event]) -> list[int]:
    """Return the calls after which the hook would have given the agent something."""
    ids = count()
    state, invoker = new_evaluation("s1", "agent", "s1", 0), InProcessInvoker()
    providers = [provider_spec(each) for each in recommended_providers()]
    begun = EvaluationBegun(event_id="b", session="s1", evaluation="s1", prompt="agent", providers=providers)
    apply_event(state, begun, 0, invoker, BatchEffects())
    found: list[int] = []
    for event in events:
        raw = json.dumps({**event, "tool_use_id": f"toolu_{next(ids)}"}).encode()
        message = decode(tool_invoked(read_event(raw, "PostToolUse"), "agent"), Family.EVENTS)
        assert isinstance(message, ToolInvoked)
        entry = classified(IntakeEntry("1-0", message, 1), message)
        assert isinstance(entry.message, ToolInvoked)
        effects = BatchEffects()
        apply_event(state, entry.message, 1_000, invoker, effects)
        found += [state.calls] * len(effects.feedback)
    return found


def run_of(program: Program, failed: int) -> Event:
    names = "".join(f"FAILED tests/test_app.py::test_{n} - AssertionError: totals differ\n" for n in range(failed))
    end = f"{failed} failed, {40 - failed} passed in 0.{failed}2s" if failed else "40 passed in 0.31s"
    return program("Bash", {"command": "pytest -q"}, names + end, failed=failed > 0)


def work(program: Program) -> Iterator[Event]:
    for n in range(20):
        path = f"/r/part{n % 4}.py"
        yield program("Read", {"file_path": path, "offset": n * 40 + 1}, f"def part_{n}():\n    return value_{n}")
        yield program("Grep", {"pattern": f"part_{n}"}, f"src/use.py:{n}: part_{n}()")
        yield program("Edit", {"file_path": path, "old_string": f"old {n}", "new_string": f"new {n}"}, "Success.")
        yield run_of(program, 19 - n)


@PROGRAMS
def test_the_healthy_run_of_eighty_calls_is_never_interrupted(program: Program) -> None:
    events = list(work(program))
    assert (len(events), reported(events)) == (80, [])


@PROGRAMS
def test_edits_after_which_the_same_test_fails_are_reported_at_the_third_run(program: Program) -> None:
    events: list[Event] = []
    for n in range(4):
        params = {"file_path": "/r/app.py", "old_string": f"old {n}", "new_string": f"new {n}"}
        events += [program("Edit", params, "Success."), run_of(program, 2)]
    assert reported(events) == [6]


@PROGRAMS
def test_the_same_failing_command_is_reported_at_the_third_whatever_its_options(program: Program) -> None:
    said = "Traceback (most recent call last):\n  File \"/r/app.py\", line 3\nKeyError: 'indexes'"
    lines = ("python app.py", "cd /r && python3 app.py", "python app.py 2>&1 | tail -20")
    assert reported([program("Bash", {"command": line}, said, failed=True) for line in lines]) == [3]


def called(tool: str, params: Event, response: object) -> Event:
    return {
        "hook_event_name": "PostToolUse",
        "session_id": "s1",
        "tool_name": tool,
        "tool_input": params,
        "tool_response": response,
    }


@pytest.mark.parametrize(("found", "expected"), [(1, []), (0, [6])])
def test_a_search_of_contents_is_in_vain_if_it_shows_no_line(found: int, expected: list[int]) -> None:
    def searched(word: str) -> Event:
        shown = {"content": f"/r/{word}.py:3:{word}" * found, "numLines": found}
        record: Event = {"mode": "content", "numFiles": 0, "filenames": [], **shown}
        return called("Grep", {"pattern": word, "output_mode": "content"}, record)

    assert reported([searched(f"word_{n}") for n in range(7)]) == expected


@pytest.mark.parametrize(
    ("status", "shown", "expected"),
    [("running", "scenario {}", []), ("running", "", [6]), ("killed", "", [3]), ("failed", "Error: port in use", [3])],
)
def test_a_background_command_is_waited_for(status: str, shown: str, expected: list[int]) -> None:
    def polled(n: int) -> Event:
        record = {"shellId": "b1", "status": status, "exitCode": None, "stdout": shown.format(n), "stderr": ""}
        words = {"filter": "ready"} if n % 2 and status != "running" else {}
        return called("BashOutput", {"bash_id": "b1", **words}, record)

    assert reported([polled(n) for n in range(7)]) == expected


def patched(old: str, new: str, said: str = "Success. Updated the following files:\nM a.py\n") -> Event:
    patch = f"*** Begin Patch\n*** Update File: a.py\n@@\n-{old}\n+{new}\n*** End Patch\n"
    return called("apply_patch", {"command": patch}, said)


def test_a_patch_that_the_hooks_of_codex_call_a_command_is_an_edit() -> None:
    there, back = patched("x = 1", "x = 2"), patched("x = 2", "x = 1")
    lists = [codex("Bash", {"command": f"ls part{n}"}, f"part{n}.py") for n in range(3)]
    assert reported([there, lists[0], back, lists[1], there, lists[2]]) == [5]
    refused = "apply_patch verification failed: Failed to find expected lines in a.py:\nx = {}"
    assert reported([patched(f"x = {n}", "y", refused.format(n)) for n in range(4)]) == [3]


NONE_RAN = "no tests ran in 0.30s\nERROR: file or directory not found: tests/test_no.py"


@pytest.mark.parametrize(("command", "said"), [("./gen --all", ""), ("pytest -q tests/test_no.py", NONE_RAN)])
def test_a_command_that_only_its_exit_code_calls_failed_is_a_failure(command: str, said: str) -> None:
    failed = called("Bash", {"command": command}, None) | {"hook_event_name": "PostToolUseFailure"}
    edits = [
        claude("Edit", {"file_path": "/r/a.py", "old_string": f"{n}", "new_string": f"{n}x"}, "") for n in range(3)
    ]
    runs = [{**failed, "error": f"Exit code 4\n{said}".rstrip()} for _ in range(3)]
    assert reported([each for pair in zip(edits, runs, strict=True) for each in pair]) == [6]


AUDITED = (r"yaml\.load\(", r"md5\(", "verify=False", r"eval\(", "AKIA[0-9A-Z]{16}", r"os\.system", r"password\s*=")
MISSED = (r"refund_policy\(", "refundPolicy =", r"def policy\(", "Refunds", "POLICY=", r"\.refund\(", "refund.*days")
SPELLED = (r"Loader\(", r"load\(", "Loading =", r"\bload\w*\(", "LOADED =", r"Loads\(", "class Load")
WORDS = tuple(rf"\b{word}\b" for word in ("refund", "chargeback", "reversal", "credit", "repay", "undo"))
FILES = ("**/*config*.{yml,yaml}", "**/[Ss]ettings*", "src/*env*.{json,ini}", "*.{toml,cfg}", "**/opts.*", "**/prefs*")
FOLDERS = ("user", *[r"== \d"] * 4, "refund", "chargeback", "reversal", "credit", "repay")
OFF = tuple(f"{word}=False" for word in ("verify", "secure", "http_only", "csrf", "hostnames", "autoescape", "strict"))
SOUGHT: list[tuple[tuple[str, ...], list[int]]] = [
    (AUDITED, []),
    (OFF, []),
    (MISSED, [6]),
    (SPELLED, [6]),
    (WORDS, [6]),
    (FILES, [6]),
    (FOLDERS, [10]),
]


def grepped(pattern: str, shown: str = "", path: str = "src") -> Event:
    record: Event = {"mode": "content", "numFiles": 0, "filenames": [], "content": shown, "numLines": 1}
    return called("Grep", {"pattern": pattern, "path": path, "output_mode": "content"}, record)


@pytest.mark.parametrize(("patterns", "expected"), SOUGHT)
def test_an_audit_that_finds_nothing_is_no_helpless_search(patterns: tuple[str, ...], expected: list[int]) -> None:
    assert reported([grepped(each, "", f"src/{n}") for n, each in enumerate(patterns)]) == expected


def test_an_audit_that_found_something_is_over() -> None:
    found = grepped("sha1", "src/a.py:3:    digest = sha1(text)")
    assert reported([*map(grepped, AUDITED), found, *map(grepped, WORDS)]) == [len(AUDITED) + 7]


UNCHANGED = (
    {"type": "file_unchanged", "file": {"filePath": "/r/app.py"}},
    "File unchanged since last read. See above.",
)


@pytest.mark.parametrize("note", UNCHANGED)
def test_a_file_that_was_not_changed_since_it_was_read_is_read_again(note: object) -> None:
    path = {"file_path": "/r/app.py"}
    content = {"filePath": "/r/app.py", "content": "def run():\n    return 1", "numLines": 2, "startLine": 1}
    first = called("Read", path, {"type": "text", "file": {**content, "totalLines": 2}})
    again = called("Read", path, note)
    assert reported([first, again, again]) == [3]


def test_known_lines_are_known_in_the_records_of_reads_and_searches() -> None:
    lines = [f"    {name} = compute_{name}(order)" for name in ("total", "tax", "rest", "share", "fee", "due", "sum")]

    def seen(n: int) -> Event:
        shown = "\n".join(lines[n % 4 : n % 4 + 3])
        if n % 2:
            record: Event = {"mode": "content", "numFiles": 0, "filenames": [], "content": shown, "numLines": 3}
            return called("Grep", {"pattern": f"compute_{n}", "output_mode": "content"}, record)
        content = {"filePath": "/r/app.py", "content": shown, "numLines": 3, "startLine": n, "totalLines": 90}
        params: Event = {"file_path": "/r/app.py", "offset": 30 * n, "limit": 3}
        return called("Read", params, {"type": "text", "file": content})

    assert reported([seen(n) for n in range(14)]) == [11]


def test_files_that_searches_found_are_known_by_their_names() -> None:
    def seen(n: int) -> Event:
        names = [f"src/orders/module_{(n + each) % 6}.py" for each in range(4)]
        record: Event = {"mode": "files_with_matches", "numFiles": 4, "filenames": names}
        return called("Grep", {"pattern": f"compute_{n}"}, record)

    assert reported([seen(n) for n in range(14)]) == [10]
