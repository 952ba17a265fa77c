"""The examples of README and documentation run, and print what they say."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tellback import Tellback
from tellback.contracts.codec import decode
from tellback.contracts.signals import SignalBatch
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import stream_of
from tests.support.pages import console, examples, redis_cli
from tests.support.processes import run_program
from tests.support.up import RunningUp
from tests.support.up import command as tellback_command
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment

BREAK = "--- next block ---"
PAGES = {
    "README.md": "readme",
    "docs/quickstart.md": "quickstart",
    "docs/loops/signals.md": "signals",
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    """One system, and in it a team for each page: a page finds its state empty, as a reader does."""
    teams = ",".join(PAGES.values())
    with RunningUp.start(tmp_path_factory.mktemp("up"), env={"TELLBACK_TEAMS": teams}) as system:
        yield system


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_prints_what_the_page_says(page: str, up: RunningUp) -> None:
    """The blocks are one session, in order, and find the system as a user's would."""
    found = examples(page)
    code = f"\nprint({BREAK!r})\n".join(block for block, _ in found)
    done = run_program(
        [sys.executable, "-c", code], env={**up.environ, "TELLBACK_TEAM": PAGES[page]}, timeout=180, check=True
    )
    assert done.stdout.split(f"{BREAK}\n") == [printed for _, printed in found]


def test_a_host_without_python_is_heard(
    tb: Tellback, database: Database, settings: Settings, start_workers: StartWorkers
) -> None:
    """The `redis-cli` lines of the messages page run as they stand there, and lead to the history that it shows."""
    start_workers(queues="events,sweeps")
    replies = [_redis_cli(database, arguments) for arguments in redis_cli("docs/messages.md")]
    assert replies[0] == "4"
    assert len(replies) == 5
    stream = stream_of(tb.context.layout.of("my-agent"), Family.SIGNALS)
    [(_, fields)] = database.command("XRANGE", stream, "-", "+")
    batch = decode(fields[1], Family.SIGNALS)
    assert isinstance(batch, SignalBatch)
    assert [item.signal_type for item in batch.items] == ["used", "ignored"]
    ((line, shown),) = console("docs/messages.md").items()
    expected = [json.loads(entry) for entry in shown.splitlines()]
    wait_until(lambda: len(tb.history("go-1")) == len(expected), "both are applied")
    printed = run_program(tellback_command(*line.split()[1:]), env=environment(settings), check=True).stdout
    assert [_without_time(json.loads(entry)) for entry in printed.splitlines()] == list(map(_without_time, expected))


def _redis_cli(database: Database, arguments: list[str]) -> str:
    """The answer of redis-cli, or of the server to the same arguments where there is no redis-cli."""
    program = shutil.which("redis-cli")
    if program is None:
        return str(database.command(*arguments).decode())
    command = [program, "-u", database.url, *arguments]
    return run_program(command, env=os.environ, check=True).stdout.strip()


def _without_time(entry: dict[str, Any]) -> dict[str, Any]:
    assert entry["at"] > 0
    return {name: value for name, value in entry.items() if name != "at"}
