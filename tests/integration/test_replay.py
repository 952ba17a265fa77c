"""`tellback replay`: real workers count what the file holds, exactly."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from tellback import Tellback, connect
from tellback.cli.app import app
from tellback.client.fleet import active_sessions
from tellback.replay.accounts import GuidanceAnalyzer, ObservedCall
from tellback.replay.analysis import collect_tools
from tellback.replay.own_team import KEPT
from tellback.replay.player import CHANNEL
from tellback.replay.reading import read_transcripts
from tellback.replay.run import Replay, ReplayResult
from tellback.replay.transcript import BadLine, TranscriptCounts
from tellback.settings import Settings
from tellback.state.audit import newest_actions
from tellback.state.database import Database
from tellback.state.keys import Layout
from tests.support.conversations import SOURCES, conversations_of
from tests.support.processes import run_program
from tests.support.redis_server import free_port
from tests.support.up import command
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers
from tests.support.workers import environment as environment_of


class RememberingReporter:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.lines: list[BadLine] = []
        self.steps: list[tuple[int, int]] = []

    def played(self, conversations: int) -> None:
        """Nothing."""

    def bad(self, line: BadLine) -> None:
        self.lines.append(line)

    def counted(self, done: int, wanted: int) -> None:
        self.steps.append((done, wanted))


def transcript(n: int) -> dict[str, Any]:
    """A conversation with two user messages, one of them answered, `n` calls, of which the first fails."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    for i in range(n):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "t", "arguments": json.dumps({"i": i})}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "name": "t", "content": "fine" if i else "Error: no"},
        ]
    messages += [{"role": "assistant", "content": "there"}, {"role": "user", "content": "bye"}]
    return {"task_id": n, "trial": 0, "messages": messages}


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], str]:
    def write(raw: bytes) -> str:
        path = tmp_path / "transcripts.jsonl"
        path.write_bytes(raw)
        return str(path)

    return write


def invoke(settings: Settings, *arguments: str, stdin: bytes | None = None) -> Result:
    team = [] if {"--team", "--own"} & {*arguments} else ["--team", settings.team]
    given = [part for part in arguments if part != "--own"]
    return CliRunner().invoke(app, ["replay", "--redis-url", settings.redis_url, *team, *given], input=stdin)


@pytest.mark.parametrize("name", SOURCES)
def test_every_call_message_and_error_is_counted(tb: Tellback, start_workers: StartWorkers, name: str) -> None:
    start_workers(queues="events")
    raw = b"".join(conversations_of(name).raw.splitlines(keepends=True)[:40])
    messages = [m for text in raw.splitlines() for m in json.loads(text)["messages"]]
    results = [m["content"] for m in messages if m["role"] == "tool"]

    outcome = Replay(tb, RememberingReporter()).run(io.BytesIO(raw))

    assert outcome.is_match
    assert outcome.redis == outcome.file
    assert outcome.conversations == 40
    assert outcome.redis.tool_calls == len(results) > 100
    assert outcome.redis.errors == sum(text.startswith("Error: ") for text in results) > 10
    assert outcome.redis.opened == sum(m["role"] == "user" for m in messages)
    assert outcome.redis.answered + outcome.redis.closed == outcome.redis.opened
    assert outcome.redis.delivered == outcome.redis.answered
    assert list(tb.outbox(CHANNEL)) == []


def test_the_same_file_is_played_twice_without_collision(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(queues="events")
    raw = lines(transcript(3), transcript(3), transcript(0))
    runs = [Replay(tb, RememberingReporter()).run(io.BytesIO(raw)) for _ in range(2)]
    assert all(outcome.is_match for outcome in runs)
    assert [outcome.redis for outcome in runs] == [TranscriptCounts(6, 2, 6, 3, 3, 3)] * 2
    assert runs[0].run != runs[1].run


def test_the_history_of_a_conversation_is_that_of_its_session(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(queues="events")
    outcome = Replay(tb, RememberingReporter()).run(io.BytesIO(lines(transcript(2))))
    reported = [(entry["kind"], entry.get("event")) for entry in tb.history(f"replay-{outcome.run}/2-0")]
    events = [event for kind, event in reported if kind == "turn"]
    assert events.index("delivered") > events.index("answered"), "when the transport came to it"
    events.remove("delivered")
    assert events == ["opened", "answered", "opened", "no_reply"]
    assert [kind for kind, _ in reported].count("tool_call") == 2


@pytest.mark.slow
def test_a_conversation_of_any_length_and_size_is_counted_exactly(tb: Tellback, start_workers: StartWorkers) -> None:
    """It exceeds what a history keeps, what an outbox holds for one conversation, and what one field may carry."""
    start_workers(queues="events")
    chat: list[dict[str, Any]] = []
    for _ in range(3_000):
        chat += [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    huge = "é" * 200_000
    big = [{"role": "user", "content": huge}, {"role": "assistant", "content": huge}, {"role": "tool", "content": huge}]
    raw = lines(transcript(1_500), {"messages": chat}, {"messages": big})
    outcome = Replay(tb, RememberingReporter()).run(io.BytesIO(raw))
    assert outcome.differing == {}
    assert outcome.redis == outcome.file == TranscriptCounts(1_501, 1, 3_003, 3_002, 1, 3_002)


@pytest.mark.usefixtures("database")
def test_without_workers_the_counts_differ_and_the_exit_code_is_1(
    settings: Settings, file: Callable[[bytes], str]
) -> None:
    done = invoke(settings, file(lines(transcript(2))))
    assert done.exit_code == 1
    assert "no worker of team default is running: start `tellback up`" in done.stderr
    assert "line 1" in done.stderr


# From within, while others are played: a signal from the test may come when all of it is done.
INTERRUPTED = """
import signal
from tellback.cli.entry import main
from tellback.replay.run import Replay

def interrupt(replay, played):
    signal.raise_signal(signal.SIGINT)

Replay._note_finished = interrupt
main()
"""


@pytest.mark.usefixtures("database")
def test_an_interrupt_ends_it_with_one_line(settings: Settings, file: Callable[[bytes], str]) -> None:
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}] * 30
    talks = file(lines(*[{"messages": chat}] * 20))
    done = run_program(
        [sys.executable, "-c", INTERRUPTED, "replay", "--team", "default", talks, "--json"],
        env=environment_of(settings),
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines() == ["tellback: interrupted; played events stay in Redis, and nothing was compared"]


def test_with_redis_away_nothing_is_played_and_nothing_spooled(tmp_path: Path, file: Callable[[bytes], str]) -> None:
    arguments = ["replay", file(lines(transcript(2))), "--redis-url", f"redis://127.0.0.1:{free_port()}/0"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("tellback: Can't reach Redis at 127.0.0.1:")
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


def test_a_count_that_is_lost_on_the_way_is_found(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(queues="events")
    database = tb.context.database

    class Thief(RememberingReporter):
        def counted(self, done: int, wanted: int) -> None:
            if done == wanted:
                database.command("DEL", *database.command("KEYS", "*:eval:*4-0*"))

    outcome: ReplayResult = Replay(tb, Thief()).run(io.BytesIO(lines(transcript(3), transcript(4))))
    assert not outcome.is_match
    assert list(outcome.differing) == [2]
    assert (outcome.file.tool_calls, outcome.redis.tool_calls) == (7, 3)


def test_bad_lines_are_reported_with_their_numbers_and_the_rest_is_played(
    settings: Settings, start_workers: StartWorkers, file: Callable[[bytes], str]
) -> None:
    start_workers(queues="events")
    name = file(lines(transcript(1)) + b"\n{oops\n" + lines([], transcript(2)) + b'{"messages": [{"ro')
    done = invoke(settings, name, "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert reported["matches"] is True
    assert reported["redis"] == reported["file"]
    assert reported["redis"]["tool_calls"] == 3
    assert [line["line"] for line in reported["bad_lines"]] == [3, 4, 6]
    assert [f"{name}, line {n}: " in done.stderr for n in (3, 4, 6)] == [True] * 3


def test_in_a_pipe_nothing_but_the_result_is_printed(settings: Settings, start_workers: StartWorkers) -> None:
    start_workers(queues="events")
    done = invoke(settings, "-", stdin=lines(transcript(2)))
    assert done.exit_code == 0
    assert done.stderr == ""
    assert "tool calls counted" in done.stdout


def test_on_a_terminal_progress_is_shown(
    settings: Settings, start_workers: StartWorkers, file: Callable[[bytes], str]
) -> None:
    start_workers(queues="events")
    ours, theirs = pty.openpty()
    environment = {**environment_of(settings), "TERM": "xterm"}
    done = subprocess.run(
        command("replay", "--team", "default", file(lines(transcript(2))), "--json"),
        env=environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0
    assert json.loads(done.stdout)["matches"] is True
    assert "playing 1 conversation" in shown
    assert "counted by the workers" in shown


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("raw", [b"", b"no json\n", b"[]\n[]\n"])
def test_a_file_without_any_conversation_is_refused(
    settings: Settings, file: Callable[[bytes], str], raw: bytes
) -> None:
    done = invoke(settings, file(raw))
    assert done.exit_code == 2
    assert "contains no conversation" in done.stderr


def test_a_file_that_cannot_be_read_is_one_line_and_exit_code_2(settings: Settings, tmp_path: Path) -> None:
    done = invoke(settings, str(tmp_path / "absent.jsonl"))
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "can't read" in done.stderr


@pytest.mark.parametrize("name", SOURCES)
def test_workers_give_the_nudges_that_the_report_shows(tb: Tellback, start_workers: StartWorkers, name: str) -> None:
    """Each conversation is compared: who speaks, at which call, in which words, and the outcome of each call."""
    start_workers(queues="events")
    raw = b"".join(conversations_of(name).raw.splitlines(keepends=True)[:60])
    expected: dict[str, list[tuple[object, ...]]] = {}
    file = io.BytesIO(raw)
    toolbox = collect_tools(file)
    file.seek(0)
    for each in read_transcripts(file):
        assert not isinstance(each, BadLine)
        account = GuidanceAnalyzer().analyze(each, toolbox.tools_for(each))
        expected[each.label] = [
            *((call.index, call.code, offers_of(call)) for call in account.tool_calls),
            *((nudge.call_index, nudge.provider_name, nudge.summary) for nudge in account.feedback),
        ]

    outcome = Replay(tb, RememberingReporter()).run(io.BytesIO(raw))

    assert outcome.is_match
    reported: dict[str, list[tuple[object, ...]]] = {}
    for label in expected:
        history = tb.history(f"replay-{outcome.run}/{label}")
        calls = [entry for entry in history if entry["kind"] == "tool_call"]
        nudges = [entry for entry in history if entry["kind"] == "feedback"]
        reported[label] = [
            *((e["call_index"], e["outcome"]["code"], e["outcome"].get("offered", [])) for e in calls),
            *((e["call_index"], e["provider_name"], e["summary"]) for e in nudges),
        ]
    assert reported == expected
    assert sum(len(entry) == 3 and isinstance(entry[2], str) for each in reported.values() for entry in each) >= 5


def offers_of(call: ObservedCall) -> list[object]:
    assert call.feedback.envelope is not None
    offered: list[object] = msgspec.to_builtins(call.feedback.envelope.outcome.offered)
    return list(offered)


def test_agents_of_a_replay_have_the_tools_of_the_whole_file(tb: Tellback, start_workers: StartWorkers) -> None:
    """A tool that only another conversation has used is an alternative, live as in the report."""
    start_workers(queues="events")

    def asks(tool: str, result: str) -> dict[str, object]:
        call = {"id": "c", "function": {"name": tool, "arguments": '{"query": "Ruby creator"}'}}
        reported = {"role": "tool", "tool_call_id": "c", "content": result}
        return {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [call]}, reported]}

    outcome = Replay(tb, RememberingReporter()).run(
        io.BytesIO(lines(asks("web_search", "Error: rate limit exceeded"), asks("wikipedia", "Matsumoto made Ruby.")))
    )
    (call,) = (entry for entry in tb.history(f"replay-{outcome.run}/line-1") if entry["kind"] == "tool_call")
    assert "wikipedia" in [offer.get("tool") for offer in call["outcome"]["offered"]]


def test_a_replay_has_a_team_of_its_own_and_is_undone(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, file: Callable[[bytes], str], database: Database
) -> None:
    """The live team's statistics stay as they were; undoing leaves nothing behind but what workers continue with."""
    start_workers(queues="events", env={"TELLBACK_TEAMS": "default,replay"})
    tb.prompt("live", "p").tool_invoked("Bash")
    tb.flush()
    name, runs = file(lines(transcript(3))), list[str]()
    for _ in range(2):
        done = invoke(settings, name, "--own", "--json", "--by", "ada", "--why", "load test")
        assert done.exit_code == 0, done.output
        runs.append(json.loads(done.stdout)["run"])
        wait_until(lambda: "live" in [row.session for row in active_sessions(tb.context)], "the live call is applied")
        assert [row.session for row in active_sessions(tb.context)] == ["live"]
        with connect(settings=msgspec.structs.replace(settings, team="replay")) as own:
            assert len(active_sessions(own.context)) == 1
        assert "deleted" in invoke(settings, "--undo", "--own", "--by", "bob", "--why", "done").output
        left = {key.decode().split(":")[2] for key in database.command("KEYS", "tb:{replay.*")}
        assert left <= KEPT
        assert invoke(settings, "--undo", "--own").output == "nothing to delete in team replay\n"
        assert json.loads(invoke(settings, "--undo", "--own", "--json").output) == {"team": "replay", "deleted": 0}
        with connect(settings=msgspec.structs.replace(settings, team="replay")) as own:
            assert active_sessions(own.context) == []
    acts = newest_actions(database, Layout("replay", settings.shards), 9)
    replayed, undone = ("replay", "ada", "load test"), ("undo", "bob", "done")
    assert [(act.act, act.by, act.reason) for act in acts] == [replayed, undone] * 2, "not what did nothing"
    assert [act.target for act in acts] == [f"replay-{runs[0]}", "replay", f"replay-{runs[1]}", "replay"]
    assert [row.session for row in active_sessions(tb.context)] == ["live"]


def test_only_a_team_of_replays_is_undone(tb: Tellback, settings: Settings, consume: Callable[[], None]) -> None:
    """A team that was played into by name is not, nor one whose name a live team has."""
    tb.prompt("live", "p").tool_invoked("Bash")
    tb.flush()
    consume()
    refused = invoke(settings, "--undo", "--team", "default")
    assert (refused.exit_code, "cannot be told from the rest" in refused.output) == (2, True)
    with connect(settings=msgspec.structs.replace(settings, team="replay")) as own:
        own.open_turn(channel="chat", conversation="c", message_id="m", text="hi")
    refused = invoke(settings, "-", "--own", stdin=lines(transcript(1)))
    assert (refused.exit_code, "has data of its own" in refused.output) == (2, True)
    assert invoke(settings, "--undo", "--own").exit_code == 2
    assert [row.session for row in active_sessions(tb.context)] == ["live"]
    assert invoke(settings).exit_code == 2, "neither a file nor --undo"


def test_a_replay_takes_no_empty_name_for_its_own_team(settings: Settings) -> None:
    """It is that of a variable which is not set."""
    for given in (["-"], ["--undo"]):
        refused = invoke(settings, *given, "--team", "", stdin=lines(transcript(1)))
        assert (refused.exit_code, "team ''" in refused.output) == (2, True)


def test_a_file_without_a_conversation_leaves_no_entry_in_the_audit_log(settings: Settings, tb: Tellback) -> None:
    assert invoke(settings, "-", stdin=b"{}\n").exit_code == 2
    assert newest_actions(tb.context.database, tb.context.layout, 9) == []


def test_a_replay_whose_events_wait_is_not_undone(
    settings: Settings, tb: Tellback, file: Callable[[bytes], str]
) -> None:
    """Data deleted while events wait would come back. A replay that no worker serves says so."""
    assert tb.context.layout.shards
    done = invoke(settings, file(lines(transcript(1))), "--own", "--timeout", "0.5")
    assert (done.exit_code, "no worker of team replay" in done.output) == (1, True)
    waiting = invoke(settings, "--undo", "--own")
    assert (waiting.exit_code, "still wait" in waiting.output) == (1, True)
    assert "tellback teams remove replay" in waiting.output
