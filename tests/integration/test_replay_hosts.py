"""`tellback replay --kill-hosts`: hosts die at random messages, and each user message has exactly one answer."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tellback import Tellback
from tellback.cli.app import app
from tellback.errors import TellbackError
from tellback.replay import hosts
from tellback.replay.host import HostAssignment
from tellback.replay.hosts import HostsReplay, HostsResult
from tellback.replay.reading import parse_line
from tellback.replay.transcript import BadLine, ToolResult
from tellback.settings import Settings
from tellback.state.audit import newest_actions, system_user
from tellback.state.turns import Turns
from tests.support.conversations import conversations_of, written_conversations
from tests.support.turns import opened
from tests.support.workers import StartWorkers


class QuietReporter:
    """A reporter that says nothing."""

    def played(self, conversations: int) -> None:
        """Nothing."""

    def bad(self, line: BadLine) -> None:
        """Nothing."""

    def counted(self, done: int, wanted: int) -> None:
        """Nothing."""


def replayed(tb: Tellback, raw: bytes, *, every: int, seed: int = 0, within: float = 4.0) -> HostsResult:
    replay = HostsReplay(tb, QuietReporter(), kill_every=every, seed=seed, answer_within=within, timeout=30.0)
    return replay.run(io.BytesIO(raw))


def messages(raw: bytes) -> int:
    return sum(m["role"] == "user" for line in raw.splitlines() for m in json.loads(line)["messages"])


def talk(number: int) -> bytes:
    """Three user messages: one with a tool call before its answer, one answered at once, one never answered."""
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "name": "t", "content": "fine"},
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "second"},
        {"role": "user", "content": "three"},
    ]
    return json.dumps({"task_id": number, "trial": 0, "messages": said}).encode() + b"\n"


def check(tb: Tellback, outcome: HostsResult, raw: bytes, every: int) -> None:
    """Every figure of the report, against the file and against Redis."""
    assert outcome.is_match
    assert outcome.messages == messages(raw)
    assert outcome.answers + len(outcome.fallbacks) == outcome.messages
    assert (outcome.unanswered, outcome.doubled) == ([], [])
    assert len(outcome.killed) == outcome.conversations // every
    assert outcome.hosts >= outcome.conversations
    crashed = [fallback.turn for fallback in outcome.fallbacks]
    views = Turns(tb.context.database, tb.context.layout).load(crashed)
    assert {view.state for view in views if view is not None} <= {"fallback"}
    assert len(set(crashed)) == len(crashed)
    killed = {kill.conversation for kill in outcome.killed}
    assert {f.conversation for f in outcome.fallbacks if f.why == "host killed"} <= killed
    assert list(tb.outbox(f"replay-{outcome.run}")) == []
    (act,) = newest_actions(tb.context.database, tb.context.layout, 9)
    assert (act.act, act.target, act.by) == ("replay", f"replay-{outcome.run}", system_user())


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_sample_of_conversations_with_every_third_host_killed(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(queues="turns,events")  # no beat: the worker stands in
    raw = b"".join(written_conversations().splitlines(keepends=True)[:12])
    outcome = replayed(tb, raw, every=3)
    check(tb, outcome, raw, 3)
    assert outcome.conversations == 12
    assert len(outcome.killed) == 4
    assert any(fallback.why == "host killed" for fallback in outcome.fallbacks)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_recorded_conversations_with_every_tenth_host_killed(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(queues="turns,events")
    raw = conversations_of("recorded").raw
    outcome = replayed(tb, raw, every=10, within=15.0)
    check(tb, outcome, raw, 10)
    assert outcome.conversations == 140
    assert len(outcome.killed) == 14


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_wherever_a_host_is_killed_the_report_names_the_fallbacks(tb: Tellback, start_workers: StartWorkers) -> None:
    """Hosts of one conversation each, all killed; the messages at which they die are reported."""
    start_workers(queues="turns")
    raw = b"".join(talk(number) for number in range(8))
    outcome = replayed(tb, raw, every=1, seed=3)
    check(tb, outcome, raw, 1)
    expected = {
        (0, "opened"): 0,
        (2, "called a tool"): 0,
        (4, "opened"): 4,
    }  # killed at the user's message or the tool's result, that message stays owed; at an answer, it is given
    for kill in outcome.killed:
        named = {(f.message, f.why) for f in outcome.fallbacks if f.conversation == kill.conversation}
        owed = expected.get((kill.message, kill.after))
        died: set[tuple[int, str]] = set() if owed is None else {(owed, "host killed")}
        assert named == died | {(6, "no answer in the transcript")}, kill
    assert len({(kill.message, kill.after) for kill in outcome.killed}) > 3, "at several kinds of messages"


def test_the_seed_decides_who_dies_where(tb: Tellback) -> None:
    conversation = parse_line(1, talk(1))
    assert not isinstance(conversation, BadLine)

    def fatal(seed: int) -> list[int | None]:
        replay = HostsReplay(tb, QuietReporter(), kill_every=2, seed=seed, timeout=1.0)
        return [replay._fatal_step(conversation) for _ in range(40)]

    assert fatal(1) == fatal(1) != fatal(2)
    assert [number for number, step in enumerate(fatal(1), start=1) if step is not None] == list(range(2, 41, 2))
    assert set(fatal(1)) == {None, *range(len(conversation.steps))}, "at any message"


def test_a_part_arrives_as_it_was(settings: Settings) -> None:
    conversation = parse_line(1, talk(1))
    assert not isinstance(conversation, BadLine)
    torn = ToolResult("t", {"half": "\ud800", "large": 1 << 70}, "fine", "success", None)
    steps = [*conversation.steps, torn]
    part = HostAssignment.create(settings, "c", "n", steps, answer_within=1.0, fatal=True)
    assert HostAssignment.from_line(part.to_line()) == part
    assert part.decoded_steps() == steps


def test_a_module_in_the_current_directory_does_not_run_in_a_host(
    tb: Tellback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requirement A-440."""
    (tmp_path / "random.py").write_text("raise SystemExit('this must not run')")
    monkeypatch.chdir(tmp_path)
    replay = HostsReplay(tb, QuietReporter(), kill_every=9, answer_within=0.5, timeout=0.5)
    assert replay.run(io.BytesIO(talk(1))).hosts == 1


def test_without_a_worker_the_users_who_hear_nothing_are_named(
    tb: Tellback, settings: Settings, tmp_path: Path
) -> None:
    del tb
    file = tmp_path / "talks.jsonl"
    file.write_bytes(talk(1))
    done = invoke(settings, str(file), "--kill-hosts", "1", "--answer-within", "0.5", "--timeout", "0.5", "--json")
    assert done.exit_code == 1
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["matches"] is False
    assert said["messages"] == 3
    assert len(said["unanswered"]) == 3 - said["answers"] >= 1
    assert "has no answer: run `tellback doctor`" in done.stderr


def test_a_host_that_fails_by_itself_ends_the_replay(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "READY", b"something else\n")
    with pytest.raises(TellbackError, match="its host ended unexpectedly"):
        replayed(tb, talk(1), every=1, within=0.5)


def start_as_host(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Start a shell script in place of each host."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(hosts, "sys", SimpleNamespace(executable=str(python)))


@pytest.mark.parametrize("every", [1, 2])
def test_a_host_that_is_gone_before_its_assignment_is_named(
    tb: Tellback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, every: int
) -> None:
    """It was a broken pipe, which the command line takes for that of its reader and ends in silence."""
    start_as_host(monkeypatch, tmp_path, "exit 3")

    def long_line(_: HostAssignment) -> bytes:
        return b"x" * 1_000_000  # more than a pipe holds

    monkeypatch.setattr(HostAssignment, "to_line", long_line)
    with pytest.raises(TellbackError, match=r"exit code (3|-9)"):
        replayed(tb, talk(1), every=every, within=0.5)


def test_a_host_that_does_not_end_ends_the_replay_with_its_name(
    tb: Tellback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was a traceback of the standard library."""
    start_as_host(monkeypatch, tmp_path, "exec sleep 300")
    monkeypatch.setattr(hosts, "_HOST_TIMEOUT", 0.01)
    with pytest.raises(TellbackError, match=r"its host has not ended after 0\.01 s"):
        replayed(tb, talk(1), every=2, within=0.5)


def test_two_first_answers_do_not_match(tb: Tellback) -> None:
    replay = HostsReplay(tb, QuietReporter(), kill_every=1, timeout=1.0)
    turn = opened(tb).id
    outcome = replay._outcome
    outcome.messages = 1
    replay._asked = {turn: hosts.PlayedMessage(1, "c", 0, turn, "host killed")}
    replay._summarize(Counter({turn: 2}), [turn], set())
    assert outcome.doubled == [turn]
    assert not outcome.is_match


def test_killing_is_for_playing_only(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "talks.jsonl"
    file.write_bytes(talk(1))
    done = invoke(settings, str(file), "--kill-hosts", "1", "--offline")
    assert done.exit_code == 2
    assert "can't be combined with --report or --offline" in done.stderr


def invoke(settings: Settings, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["replay", "--redis-url", settings.redis_url, "--team", settings.team, *arguments])
