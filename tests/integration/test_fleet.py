"""The fleet at a glance: `tellback sessions` and `tellback team`, on a real Redis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tellback import FeedbackProviderConfig, FeedbackTrigger, Settings, StaticFeedback, Tellback, connect
from tellback.cli.app import app
from tellback.client.fleet import active_sessions, team_status
from tellback.commands.record import CommandAttempt, record_without_run
from tellback.names import Family
from tellback.state import server_info
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.jobs import Jobs
from tellback.state.keys import FAMILIES, stream_of
from tellback.state.team import existing_layouts
from tellback.state.teams import Teams
from tests.support.cli import printed, rows, run
from tests.support.jobs import CommandQueue
from tests.support.turns import opened


def reminder(every: int) -> FeedbackProviderConfig:
    return FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=every))


def test_a_session_shows_its_host_last_call_open_turn_command_and_nudges(
    tb: Tellback, settings: Settings, consume: Callable[[], None], jobs: Jobs, queue: CommandQueue
) -> None:
    """One line has what an operator asks first."""
    session = next(f"s{n}" for n in range(99) if tb.context.layout.of(f"s{n}").index == 0)
    with connect(settings=msgspec.structs.replace(settings, host="alpha")) as host:
        prompt = host.prompt(session, "p", evaluation="e", feedback_providers=[reminder(2)])
        for status in ("success", "success", "error", "success", "error"):
            prompt.tool_invoked("Bash", params={"command": "ls"}, status=status)
        host.flush()
    consume()
    turn = opened(tb, session=session)
    queue.put(session, "build", argv=["make", "-j4"])
    assert jobs.lease(JobClaimant("*", seconds=60, worker="w@beta", host="beta")) is not None
    (row,) = rows(settings, "sessions")
    assert (row["session"], row["host"], row["tool"], row["status"]) == (session, "alpha", "Bash", "error")
    assert (row["calls"], row["nudges"]) == (5, 2)
    assert (row["turn"], row["command_id"], row["command"], row["command_host"]) == (
        turn.id, "build", ["make", "-j4"], "beta",
    )  # fmt: skip
    table = printed(settings, "sessions")
    for text in (session, "alpha", "Bash: error", turn.id, "make -j4"):
        assert text in table


def test_a_session_that_has_commands_alone_shows_where_the_last_one_ran(
    settings: Settings, jobs: Jobs, queue: CommandQueue, tb: Tellback
) -> None:
    session = next(f"s{n}" for n in range(99) if tb.context.layout.of(f"s{n}").index == 0)
    queue.put(session, "build", argv=["make"])
    lease = jobs.lease(JobClaimant("*", seconds=60, worker="w@beta", host="beta"))
    assert lease is not None
    assert jobs.finish(lease, record_without_run(lease.submitted, "timed out", CommandAttempt(1, "beta", "w@beta")))
    (row,) = rows(settings, "sessions")
    assert (row["session"], row["host"], row["command_host"], row["command_id"]) == (session, "", "beta", None)
    assert "beta" in printed(settings, "sessions")


def test_events_that_come_again_count_once(
    tb: Tellback, settings: Settings, consume: Callable[[], None], database: Database
) -> None:
    """The counts are written with the commit: an event that was seen before adds nothing."""
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[reminder(1)])
    prompt.tool_invoked("Bash")
    tb.flush()
    stream = stream_of(tb.context.layout.of("s"), Family.EVENTS)
    ((_, fields), *_) = reversed(database.command("XRANGE", stream, "-", "+"))
    consume()
    database.command("XADD", stream, "*", *fields)
    consume()
    (row,) = rows(settings, "sessions")
    assert (row["calls"], row["nudges"]) == (1, 1)


def test_only_active_sessions_are_listed_newest_first_and_no_more_than_asked(
    tb: Tellback, settings: Settings, consume: Callable[[], None], database: Database
) -> None:
    """One that has been idle for long is listed again while a turn of it is open."""
    for name in ("old", "first", "second", "third"):
        tb.prompt(name, "p").tool_invoked("Bash")
        tb.flush()
        consume()
        database.command("SET", "elsewhere", "1")
    shard = tb.context.layout.of("old")
    database.command("ZADD", shard.key("sessions"), database.now_ms() - 3_600_000, "old")
    assert [row["session"] for row in rows(settings, "sessions")] == ["third", "second", "first"]
    assert [row["session"] for row in rows(settings, "sessions", "--limit", "2")] == ["third", "second"]
    assert len(rows(settings, "sessions", "--within", "7200")) == 4
    opened(tb, session="old")
    old = next(row for row in rows(settings, "sessions") if row["session"] == "old")
    assert (old["tool"], old["turn"] is not None) == ("Bash", True)
    database.command("DEL", "elsewhere")


def test_the_newest_of_many_idle_sessions_show_what_is_known_of_them(
    tb: Tellback, consume: Callable[[], None], database: Database
) -> None:
    """More sessions have an open turn than are asked for, and none was active lately."""
    names = [f"s{n}" for n in range(4)]
    for name in names:
        tb.prompt(name, "p").tool_invoked("Bash")
        tb.flush()
        consume()
        database.command("ZADD", tb.context.layout.of(name).key("sessions"), 1, name)
        opened(tb, session=name, conversation=name, message_id=name)
    shown = active_sessions(tb.context, limit=2)
    assert [(row.session, row.tool, row.calls) for row in shown] == [("s3", "Bash", 1), ("s2", "Bash", 1)]


def test_the_index_has_a_cap(tb: Tellback, consume: Callable[[], None], database: Database) -> None:
    """The session that has been idle for longest leaves it."""
    shard = tb.context.layout.of("new")
    cap = FAMILIES["sessions"].cap or 0
    flat = [part for n in range(cap) for part in (n + 1, f"idle-{n}")]
    database.command("ZADD", shard.key("sessions"), *flat)
    tb.prompt("new", "p").tool_invoked("Bash")
    tb.flush()
    consume()
    assert database.command("ZCARD", shard.key("sessions")) == cap
    assert database.command("ZSCORE", shard.key("sessions"), "idle-0") is None


def test_a_listing_costs_the_same_however_many_sessions_there_are(
    tb: Tellback, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round trips do not grow, no command walks the keys, and no reply is longer than what is asked for."""
    sent: list[str] = []
    pipeline = Database.pipeline

    def counted(self: Database, commands: Any, **options: Any) -> Any:
        sent.extend(str(command[0]) for command in commands)
        return pipeline(self, commands, **options)

    shard = tb.context.layout.shard(0)
    now = database.now_ms()
    costs: list[list[str]] = []
    for most in (200, 5_000):
        database.command("ZADD", shard.key("sessions"), *[p for n in range(most) for p in (now, f"s-{n}")])
        database.command("PEXPIRE", shard.key("sessions"), 60_000)
        monkeypatch.setattr(Database, "pipeline", counted)
        sent.clear()
        assert len(active_sessions(tb.context, limit=50)) == 50
        team_status(tb.context.database, tb.context.layout)
        monkeypatch.undo()
        costs.append(list(sent))
    assert len(costs[0]) == len(costs[1])
    assert not {"SCAN", "KEYS", "LRANGE", "SMEMBERS"} & {*costs[1]}


def test_a_list_that_ends_at_its_default_limit_says_so(tb: Tellback, settings: Settings, database: Database) -> None:
    """An operator saw 100 of 10,000 sessions, and took them for all. Requirement C-179."""
    shard, now = tb.context.layout.shard(0), database.now_ms()
    database.command("ZADD", shard.key("sessions"), *[part for n in range(100) for part in (now, f"s-{n}")])
    database.command("PEXPIRE", shard.key("sessions"), 60_000)
    for arguments in (["sessions"], ["sessions", "--json"]):
        ended = run(settings, *arguments)
        assert ended.exit_code == 0
        assert "ends after 100 rows; --limit N shows more" in ended.stderr
    for limit in ("50", "10000"):  # both chosen
        assert not run(settings, "sessions", "--limit", limit).stderr
    database.command("ZREM", shard.key("sessions"), "s-0")
    assert not run(settings, "sessions").stderr


def test_a_team_in_a_few_lines(
    tb: Tellback, settings: Settings, consume: Callable[[], None], jobs: Jobs, queue: CommandQueue, database: Database
) -> None:
    """They show backlog, lag, open turns, dead letters, commands, sessions and the share of memory."""
    tb.prompt("s", "p").tool_invoked("Bash")
    tb.flush()
    consume()
    opened(tb)
    for name in ("runs", "waits"):
        queue.put("c", name)
    assert jobs.lease(JobClaimant("*", seconds=60, worker="w@beta", host="beta")) is not None
    tb.prompt("later", "p").tool_invoked("Bash", params={"x": "y" * 50_000})
    tb.flush()
    (found,) = rows(settings, "team")
    assert (found["team"], found["workers"], found["turns_open"], found["dead_letters"]) == ("default", 0, 1, 0)
    assert (found["commands_running"], found["commands_queued"], found["sessions"]) == (1, 1, 2)
    assert found["waiting"]["events"] == 2
    assert found["waited"]["events"] >= 0
    assert found["memory"] > 10_000
    assert found["memory_share"] is None, "this Redis has no limit"
    text = printed(settings, "team")
    assert "1 running, 1 queued" in text
    assert "Redis has no limit" in text
    database.command("CONFIG", "SET", "maxmemory", "100mb")
    try:
        share = team_status(tb.context.database, tb.context.layout).memory_share
        assert share is not None
        assert 0 < share < 1
        assert "% of Redis' limit of 100 MiB" in printed(settings, "team")
    finally:
        database.command("CONFIG", "SET", "maxmemory", "0")


READING = (
    "sessions", "team", "ps", "turns", "turns show x", "outbox", "dead list", "dead show x", "dead drop x",
    "dead replay --all", "history s", "stats", "stats --bank b", "records s", "gate s", "metrics", "bank", "bank b",
    "bank reembed b", "audit", "cancel x", "waive x --session s --why w", "alerts",
)  # fmt: skip
"""Every command that reads what is there, or acts on it, but `watch`, which needs a terminal."""


@pytest.mark.parametrize("by", ["option", "variable"])
@pytest.mark.parametrize("command", READING)
def test_a_mistyped_team_is_an_error_and_is_not_created(
    database: Database, settings: Settings, command: str, by: str
) -> None:
    """Otherwise a typing error would look like a healthy team at rest, and leave a team behind."""
    named = ["--team", "mistyped"] if by == "option" else []
    done = CliRunner().invoke(
        app,
        [*command.split(), *named, "--redis-url", settings.redis_url],
        env={} if by == "option" else {"TELLBACK_TEAM": "mistyped"},
    )
    assert done.exit_code == 1, done.output
    assert "there is no team mistyped" in done.stderr
    assert existing_layouts(database, ["mistyped"]) == []


@pytest.mark.parametrize("command", ["sessions", "ps", "turns", "history s", "records s", "stats", "metrics", "bank"])
def test_a_listing_before_the_first_event_shows_nothing_and_creates_no_team(
    database: Database, settings: Settings, command: str
) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--redis-url", settings.redis_url], env={"TELLBACK_TEAM": ""})
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert existing_layouts(database, [settings.team]) == []


def test_a_command_that_creates_the_team_it_was_given_says_so(database: Database, settings: Settings) -> None:
    arguments = ["bank", "b", "--remember", "f", "--text", "t", "--redis-url", settings.redis_url]
    first, again = (CliRunner().invoke(app, [*arguments, "--team", "fresh"]) for _ in range(2))
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "there was no team fresh; this created it" in first.stderr
    assert "fresh" not in again.stderr
    assert [row.team for row in Teams(database).rows()] == ["fresh"]


def test_a_command_whose_variable_is_no_pair_creates_no_team(database: Database, settings: Settings) -> None:
    """Requirement A-320. A mistyped --team beside it stayed in every list."""
    arguments = [
        "submit",
        "--session",
        "s",
        "--env",
        "PATH",
        "--team",
        "fresh",
        "--redis-url",
        settings.redis_url,
        "true",
    ]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, "--env PATH: use NAME=VALUE" in done.stderr) == (2, True)
    assert not Teams(database).names()


def test_a_team_is_listed_from_its_first_client_on(database: Database, settings: Settings, tmp_path: Path) -> None:
    """It is listed before its first event, and with no worker to see it."""
    with connect(settings=msgspec.structs.replace(settings, team="fresh", data_dir=str(tmp_path))):
        assert [row.team for row in Teams(database).rows()] == ["fresh"]


@pytest.mark.parametrize("command", [["sessions"], ["team"], ["teams", "list"], ["teams", "removed"], ["alerts"]])
def test_a_redis_that_is_too_old_is_refused_where_there_is_nothing_to_list(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """It said that there is none, as if workers and hosts could use it."""
    assert not Teams(database).names()
    refused = run(settings, *command)
    assert (refused.exit_code, "7.0" in refused.stderr) == (0, False), refused.output

    def old(_text: bytes) -> dict[str, str]:
        return {"redis_version": "6.2.14"}

    monkeypatch.setattr(server_info, "_parsed", old)
    refused = run(settings, *command)
    assert refused.exit_code == 2
    assert "is older than 7.0" in refused.stderr
