"""Helpers for tests of commands: brisk settings, a real beat, the command line, and processes left alive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from tellback import Job, Tellback
from tellback.settings import Settings
from tellback.state.database import Database
from tests.support.forked import run_tellback
from tests.support.workers import environment

LEASE = 60.0  # of a job, in seconds: with one of 1.5 s, a busy machine lost commands before they started
TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]


def brisk(settings: Settings) -> Settings:
    """Settings with which sweeps run often and killed commands end soon; no lease runs out."""
    return msgspec.structs.replace(settings, host="alpha", job_lease=LEASE, beat_period=0.5, command_grace=0.5)


def job_state(tb: Tellback, job: Job) -> bytes | None:
    """Return the state of a command's job, as Redis has it."""
    shard = tb.context.layout.of(job.submitted.session)
    state: bytes | None = tb.context.database.command("HGET", shard.key("job", job.command_id), "state")
    return state


@contextmanager
def running_beat(settings: Settings, folder: Path) -> Generator[subprocess.Popen[bytes]]:
    """A real beat, which sends the sweeps."""
    command = [sys.executable, "-m", "celery", "-A", "tellback_beat.app", "beat", "-s", str(folder / "schedule")]
    with (folder / "beat.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment(settings), stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def tool(settings: Settings, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `tellback` as a user does, in a directory."""
    return run_tellback(list(arguments), environment(settings, {"COLUMNS": "250"}), cwd)


def everything(database: Database) -> list[bytes]:
    """The content of every key, as far as it is text."""
    found: list[bytes] = []
    for key in database.command("KEYS", "*"):
        found.append(key)
        found.append(database.command("DUMP", key) or b"")
    return found


def alive(tag: str) -> list[int]:
    """Processes whose arguments carry this tag."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if any(tag in argument for argument in process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def until(path: str) -> str:
    """Shell: continue when this file exists."""
    return f"until [ -e {path} ]; do sleep 0.02; done"
