"""Commands on the command line: `submit`, `records`, `gate` and `run`."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from tellback import Tellback
from tellback.settings import Settings
from tests.support.commands import TOOL, alive, brisk, tool
from tests.support.waiting import wait_until
from tests.support.workers import environment


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Sweeps that run often, and killed commands that end soon."""
    return brisk(settings)


@pytest.mark.usefixtures("workers")
def test_the_command_line(settings: Settings, tb: Tellback, tmp_path: Path) -> None:
    """`submit` exits as its command does; `records` and `gate` show what happened."""
    (tmp_path / "below").mkdir()
    passed = tool(settings, "submit", "--session", "s1", "sh", "-c", "pwd; echo err >&2", cwd=tmp_path / "below")
    assert (passed.returncode, passed.stdout) == (0, f"{tmp_path}/below\n"), "where the caller stands"
    assert passed.stderr.startswith("err\n✓ exit 0 · ")
    failed = tool(settings, "submit", "--session", "s1", "--json", "--", "sh", "-c", "exit 4", cwd=tmp_path)
    assert failed.returncode == 4
    assert json.loads(failed.stdout)["exit_code"] == 4
    assert tool(settings, "submit", "--session", "s1", "no-such-program", cwd=tmp_path).returncode == 1
    assert tool(settings, "submit", "--session", "s1", "sh", "-c", "kill -9 $$", cwd=tmp_path).returncode == 137
    detached = tool(settings, "submit", "--session", "s2", "--detach", "true", cwd=tmp_path).stdout.strip()
    wait_until(lambda: [record.command_id for record in tb.records("s2")] == [detached], "the detached command ended")
    listed = [json.loads(line) for line in tool(settings, "records", "s1", "--json").stdout.splitlines()]
    assert [record["exit_code"] for record in listed] == [0, 4, None, -9]
    assert "no-such-program" in tool(settings, "records", "s1").stdout
    of_all = [json.loads(line) for line in tool(settings, "records", "--json").stdout.splitlines()]
    assert {record["session"] for record in of_all} == {"s1", "s2"}
    assert "`tellback sessions` lists them" in tool(settings, "records", "--superseded").stderr
    refused = tool(settings, "gate", "s1", "--require", "pytest -q")
    assert refused.returncode == 1
    assert refused.stdout.startswith("refused\n- required and never run: pytest -q\n")
    assert tool(settings, "gate", "s2", "--require", "true").returncode == 0
    assert tool(settings, "submit", "--session", "s1", "echo", "password=x", cwd=tmp_path).returncode == 2
    outside = tool(settings, "submit", "--session", "s3", "pwd", cwd=Path("/"))
    assert outside.returncode == 1
    assert f"rule directories: / is outside of {tmp_path}, which TELLBACK_COMMAND_ROOTS allows" in outside.stderr


def test_a_command_that_a_message_suggests_is_for_the_same_team(settings: Settings) -> None:
    """Pasted as it was printed, `tellback cancel ID` looked into the default team."""
    alone = msgspec.structs.replace(settings, host_wait=0.5)
    done = tool(alone, "submit", "--session", "s1", "--team", "other", "true")
    suggested = re.search(r"`tellback (cancel [^`]+)` takes it back", done.stderr)
    assert suggested
    assert suggested[1].endswith(" --team other")
    assert tool(alone, *suggested[1].split()).returncode == 0
    refused = tool(alone, "gate", "s1", "--team", "other")
    assert "tellback waive ID --why TEXT --team other." in refused.stderr


def test_a_command_that_a_message_suggests_is_for_the_same_redis(settings: Settings) -> None:
    """Pasted as it was printed, `tellback cancel ID` looked into the Redis of the environment."""
    elsewhere = msgspec.structs.replace(settings, redis_url="redis://127.0.0.1:1/0", host_wait=0.5)
    done = tool(elsewhere, "submit", "--session", "s1", "--redis-url", settings.redis_url, "true")
    suggested = re.search(r"`tellback (cancel [^`]+)` takes it back", done.stderr)
    assert suggested
    assert tool(elsewhere, *shlex.split(suggested[1])).returncode == 0


def test_a_team_that_nobody_serves_is_named_in_time(settings: Settings, tb: Tellback) -> None:
    """The command stays, and the message says how to run it or take it back."""
    alone = msgspec.structs.replace(settings, host_wait=0.5)
    done = tool(alone, "submit", "--session", "s1", "true")
    (waiting,) = [json.loads(line) for line in tool(alone, "ps", "--json").stdout.splitlines()]
    assert done.returncode == 1
    assert "no worker has served commands of team default for 0.5 s" in done.stderr
    assert f"`tellback cancel {waiting['command_id']}` takes it back" in done.stderr
    assert tool(alone, "cancel", waiting["command_id"]).returncode == 0
    [record] = tb.records("s1")
    assert record.exit_code is None
    assert record.error is not None
    assert record.error.startswith("cancelled before it started by ")


def test_submit_without_redis_says_at_once_why_and_that_the_command_will_run(settings: Settings) -> None:
    """A wrong address or login was called an outage, which ends by itself."""
    for url, why in (
        ("redis://127.0.0.1:1/0", "Can't reach Redis at 127.0.0.1:1 (connection refused)"),
        (settings.redis_url.replace("//", "//:wrong@"), "refused the call: "),
    ):
        kept = tool(msgspec.structs.replace(settings, redis_url=url), "submit", "--session", "s1", "true")
        assert kept.returncode == 1
        assert why in kept.stderr
        assert "is saved on this host's disk and runs when Redis takes it; don't submit it again" in kept.stderr
    away = msgspec.structs.replace(settings, redis_url="redis://127.0.0.1:1/0")
    detached = tool(away, "submit", "--session", "s1", "--detach", "true")
    assert detached.returncode == 0
    assert detached.stdout.strip() in detached.stderr


def test_run_needs_no_redis(settings: Settings) -> None:
    """`tellback run` makes the same record here; its exit is the command's."""
    away = msgspec.structs.replace(settings, redis_url="redis://127.0.0.1:1/0")
    done = tool(
        away, "run", "--no-keep", "--json", "--note", "expect  3", "--", "sh", "-c", "echo DB_PASSWORD=x; exit 3"
    )
    record = json.loads(done.stdout)
    assert (done.returncode, record["exit_code"]) == (3, 3)
    assert record["stdout_tail"] == "[redacted: password]"
    assert record["agent_note"] == "expect 3"
    assert record["host"] == "alpha"
    missing = tool(away, "run", "--no-keep", "no-such-program")
    assert (missing.returncode, "no shell" in missing.stderr) == (1, False)


def test_a_whole_line_in_place_of_a_program_is_answered_with_how_to_write_it(settings: Settings) -> None:
    done = tool(settings, "run", "--no-keep", "echo a b")
    assert done.returncode == 1
    assert "program not found: echo a b" in done.stderr
    assert "there is no shell: give the program and each argument as a word of its own" in done.stderr


def test_run_stopped_by_ctrl_c_ends_its_command(settings: Settings) -> None:
    """The record says so, and nothing is left alive."""
    tag = f"35.{os.getpid()}"
    process = subprocess.Popen(
        [*TOOL, "run", "--no-keep", "--json", "sleep", tag], stdout=subprocess.PIPE, env=environment(settings)
    )
    wait_until(lambda: [pid for pid in alive(tag) if pid != process.pid], "the command runs")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert json.loads(out)["error"] == "stopped by SIGINT"
    assert not alive(tag)
