"""Seeing and steering commands: `tellback ps`, `cancel`, `waive` and `audit`, on a real Redis without workers."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import msgspec
import pytest

from tellback import CommandRecord, InvalidInput, NotFound, Settings, Tellback, connect
from tellback.commands.record import CommandAttempt, record_without_run
from tellback.state.audit import newest_actions, system_user
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant, JobLease
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tests.support.cli import printed, rows
from tests.support.commands import TOOL
from tests.support.jobs import AUTHOR, CommandQueue


@pytest.fixture
def layout(tb: Tellback) -> Layout:
    return tb.context.layout


@pytest.fixture
def session(layout: Layout) -> str:
    """A session of the first shard, where `queue` puts commands."""
    return next(f"s{n}" for n in range(99) if layout.of(f"s{n}").index == 0)


def leased(jobs: Jobs) -> JobLease:
    lease = jobs.lease(JobClaimant("*", seconds=60, worker="w@alpha", host="alpha"))
    assert lease is not None
    return lease


def failed(jobs: Jobs, queue: CommandQueue, session: str) -> CommandRecord:
    """A stored record of a command that could not run."""
    queue.put(session, "bad", argv=["pytest", "-q"])
    lease = leased(jobs)
    record = record_without_run(lease.submitted, "timed out after 30 s", CommandAttempt(1, "alpha", "w@alpha"))
    assert jobs.finish(lease, record)
    return record


def test_unfinished_commands_are_listed_wherever_they_are(
    tb: Tellback, settings: Settings, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    """They are running, with host and time, or queued, or submitted to a team that nobody serves."""
    queue.put(session, "first", argv=["make", "-j4"], note="may take long")
    leased(jobs)
    queue.put(session, "second")
    waiting = tb.submit(["true"], session="elsewhere")
    tb.flush()
    found = rows(settings, "ps")
    assert [(row["command_id"], row["state"]) for row in found] == [
        ("first", "running"),
        ("second", "queued"),
        (waiting.command_id, "submitted"),
    ]
    assert (found[0]["host"], found[0]["worker"], found[0]["command"]) == ("alpha", "w@alpha", ["make", "-j4"])
    assert "submitted" not in found[0], "the message itself"
    assert all(row["since"] > 1_700_000_000_000 for row in found)
    assert [row["command_id"] for row in rows(settings, "ps", "--session", "elsewhere")] == [waiting.command_id]
    assert [row["command"] for row in rows(settings, "cancel", waiting.command_id)] == [["true"]]
    table = printed(settings, "records", session)
    assert "running" in table
    assert "alpha" in table
    assert "queued" in table
    whole = printed(settings, "records")
    assert "first" in whole
    assert "second" not in whole, "thousands may be queued in a team"


def test_all_superseded_records_are_shown_on_request(
    tb: Tellback, settings: Settings, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    late = msgspec.json.encode(failed(jobs, queue, session))
    key = tb.context.layout.of(session).key("superseded", session)
    tb.context.database.pipeline([("RPUSH", key, late, late), ("EXPIRE", key, 60)])
    assert len(rows(settings, "records", session, "--superseded", "--last", "1")) == 1
    assert len(rows(settings, "records", session, "--superseded", "--last", "1", "--all")) == 2


def test_a_command_is_cancelled_by_its_id_and_the_log_says_by_whom(
    tb: Tellback, settings: Settings, queue: CommandQueue, session: str
) -> None:
    """The record says it too, at once: of a queued command, and of one that no worker has seen."""
    queue.put(session, "queued")
    waiting = tb.submit(["true"], session=session)
    tb.flush()
    printed(settings, "cancel", "queued", "--why", "wrong  branch\nagain", "--by", "alice")
    printed(settings, "cancel", waiting.command_id)
    first, second = tb.records(session)
    assert (first.command_id, first.error) == ("queued", "cancelled before it started by alice: wrong branch again")
    assert second == waiting.wait(timeout=0)
    assert second.error == f"cancelled before it started by {system_user()}"
    assert printed(settings, "ps") == "Unfinished commands: none\n", "although its submission still waits"
    assert not waiting.cancel()
    mine, other = rows(settings, "audit", "--session", session)
    assert (mine["act"], mine["target"], mine["by"]) == ("cancel", "queued", "alice")
    assert mine["reason"] == "wrong branch again"
    assert "@" in other["by"], "user@host"
    assert "no unfinished command" in printed(settings, "cancel", "queued", code=1)


def test_a_command_that_no_worker_saw_is_found_and_waived_by_its_id(
    tb: Tellback, settings: Settings, session: str
) -> None:
    """A cancellation is all that Redis has of it, and the gate refuses for it."""
    job = tb.submit(["true"], session=session)
    tb.flush()
    printed(settings, "cancel", job.command_id)
    assert job.command_id in printed(settings, "gate", session, code=1)
    (chain,) = rows(settings, "records", "--failed")
    assert chain["unresolved"] == [job.command_id]
    assert [row["session"] for row in rows(settings, "sessions")] == [session]
    printed(settings, "waive", job.command_id, "--why", "not needed any more")
    printed(settings, "gate", session)


def test_a_name_that_is_not_unicode_is_no_obstacle(tb: Tellback, session: str) -> None:
    """The command line passes on bytes of any encoding."""
    job = tb.submit(["true"], session=session)
    assert job.cancel(by="j\udcf6rg", reason="\ud800")
    assert job.wait(timeout=0).error == "cancelled before it started by j?rg: ?"


def test_a_whole_session_is_cancelled(
    tb: Tellback, settings: Settings, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    """Running commands are asked to stop, queued ones have their record; another session's commands stay."""
    queue.put(session, "runs")
    lease = leased(jobs)
    queue.put(session, "waits")
    tb.submit(["true"], session="elsewhere")
    tb.flush()
    assert {row["command_id"] for row in rows(settings, "cancel", "--session", session)} == {"runs", "waits"}
    assert jobs.stop_requested(lease, 0.01) == f"cancelled by {system_user()}"
    assert [row["session"] for row in rows(settings, "ps")] == [session, "elsewhere"], "the running one stops by itself"
    printed(settings, "cancel", code=2)


def test_a_waived_failure_no_longer_refuses_and_everything_says_so(
    tb: Tellback, settings: Settings, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    """The record, the verdict, the history and the audit log name who and why."""
    failed(jobs, queue, session)
    refused = printed(settings, "gate", session, code=1)
    assert "no linked retry" in refused
    assert "tellback waive ID --why TEXT" in refused, "to be pasted, but for two words"
    said = printed(settings, "waive", "bad", "--why", "flaky password=hunter22x", "--by", "alice")
    assert "hunter22x" not in said
    (record,) = tb.records(session)
    assert record.waiver is not None
    assert record.waiver.by == "alice"
    assert record.exit_code is None, "what happened stays"
    assert f"waived by alice: {record.waiver.reason}" in printed(settings, "gate", session)
    assert "waived by alice" in printed(settings, "records", session)
    assert printed(settings, "records", session, "--failed").startswith("Unresolved of")
    assert [entry["kind"] for entry in tb.history(session)] == ["command", "waiver"]
    (entry,) = newest_actions(tb.context.database, tb.context.layout, 10)
    assert (entry.act, entry.target, entry.by, entry.session) == ("waive", "bad", "alice", session)


def test_a_command_that_was_refused_is_waived_by_its_id(
    tb: Tellback, settings: Settings, queue: CommandQueue, session: str
) -> None:
    queue.put(session, "refused", refusal="no such program")
    assert "refused" in printed(settings, "waive", "refused", "--why", "not needed here")
    (record,) = tb.records(session)
    assert record.waiver is not None


def test_what_cannot_be_waived(tb: Tellback, settings: Settings, jobs: Jobs, queue: CommandQueue, session: str) -> None:
    """A success, an unknown command and anything without a reason are refused, and nothing is logged."""
    record = failed(jobs, queue, session)
    queue.put(session, "good")
    lease = leased(jobs)
    jobs.finish(lease, CommandRecord(**_success(record)))
    with pytest.raises(InvalidInput, match="succeeded"):
        tb.waive(session, "good", reason="why not")
    with pytest.raises(NotFound, match="keeps no record of command other"):
        tb.waive(session, "other", reason="why not")
    with pytest.raises(InvalidInput, match="needs a reason"):
        tb.waive(session, "bad", reason=" ")
    assert "no command other" in printed(settings, "waive", "other", "--why", "x", code=1)
    assert "keeps no record of command bad" in printed(
        settings, "waive", "bad", "--session", "s9", "--why", "x", code=1
    )
    assert newest_actions(tb.context.database, tb.context.layout, 10) == []


def test_records_of_all_sessions_are_listed_by_their_start(
    tb: Tellback, settings: Settings, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    """Each comes with its session; --failed lists those unresolved, without attempts where there was no retry."""
    record = failed(jobs, queue, session)
    other = next(f"t{n}" for n in range(99) if tb.context.layout.of(f"t{n}").index == 0)
    queue.put(other, "good")
    lease = leased(jobs)
    fields: dict[str, Any] = _success(record) | {"session": other, "started_at": "2026-11-25T14:00:00.000Z"}
    jobs.finish(lease, CommandRecord(**fields))
    # What was never started counts as of the time at which its session was active.
    listed = [(row["session"], row["command_id"]) for row in rows(settings, "records")]
    assert listed == [(other, "good"), (session, "bad")]
    assert [row["unresolved"] for row in rows(settings, "records", "--failed")] == [["bad"]]
    shown = printed(settings, "records", "--failed")
    assert session in shown
    assert "good" not in shown
    assert "→" not in shown
    assert "name a session" in printed(settings, "records", "--follow", code=2)
    assert tb.records(session)


def _success(record: CommandRecord) -> dict[str, Any]:
    return {"command_id": "good", "session": record.session, "command": ["true"], "exit_code": 0}


def test_a_cancellation_that_does_nothing_is_not_logged(
    tb: Tellback, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    """The command had its record already."""
    failed(jobs, queue, session)
    queue.put(session, "next")
    lease = leased(jobs)
    assert jobs.finish(lease, record_without_run(lease.submitted, "timed out"))
    assert jobs.cancel(lease.submitted, AUTHOR)[0] == "done"
    assert newest_actions(tb.context.database, tb.context.layout, 10) == []


def test_a_session_is_followed_live(tb: Tellback, settings: Settings) -> None:
    """Past entries are listed, new ones are printed as they come, from any loop, until Ctrl-C."""
    tb.open_turn(channel="web", conversation="c", message_id="m1", text="hi", session="live")
    command = [*TOOL, "history", "live", "--follow", "--json", "--redis-url", settings.redis_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["event"] == "opened"
            again = tb.open_turn(channel="web", conversation="c", message_id="m2", text="again", session="live")
            again.no_reply(reason="x")
            assert [json.loads(following.stdout.readline())["event"] for _ in range(2)] == ["opened", "no_reply"]
            following.send_signal(signal.SIGINT)
            assert following.wait(timeout=60) in {0, 130}, "130 if it was printing, and not waiting"
        finally:
            following.kill()


def test_a_running_command_is_in_the_timeline_and_followed_once(
    settings: Settings, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    """It has no entry in the history before it ends, and `--json` has the history alone."""
    queue.put(session, "first", argv=["make", "-j4"])
    lease = leased(jobs)
    queue.put(session, "second", argv=["ls"])  # queued: nothing has happened yet
    assert "make -j4 on alpha · first" in printed(settings, "history", session)
    assert "second" not in printed(settings, "history", session)
    assert rows(settings, "history", session) == []
    command = [*TOOL, "history", session, "--follow", "--redis-url", settings.redis_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            lines = iter(following.stdout.readline, "")
            assert any("make -j4 on alpha · first" in line for line in lines)
            assert jobs.finish(lease, record_without_run(lease.submitted, "timed out"))
            leased(jobs)
            coming = [next(line for line in lines if " · " in line) for _ in range(2)]
            assert sorted(line.partition(" ")[2].partition(" · ")[0] for line in coming) == ["command", "running"]
            assert any("make -j4 → no exit code: timed out" in line for line in coming)
            assert any("ls on alpha · second" in line for line in coming)
        finally:
            following.kill()


def test_the_audit_log_says_who_created_a_team_and_only_once(settings: Settings, database: Database) -> None:
    """A client that creates its team is no person's act."""
    printed(settings, "teams", "create", "acme", "--shards", "2", "--by", "ann", "--why", "pilot")
    printed(settings, "teams", "create", "acme", "--by", "ben")
    [entry] = newest_actions(database, Layout("acme", 2), 10)
    assert (entry.act, entry.target, entry.by, entry.reason) == ("create", "acme", "ann", "pilot")
    with connect(settings=msgspec.structs.replace(settings, team="beta")) as tb:
        assert newest_actions(database, tb.context.layout, 10) == []
