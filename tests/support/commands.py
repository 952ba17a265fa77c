"""What tests of commands share: short leases, a real beat, the command line, and what is left alive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from tellback.settings import Settings
from tellback.state.database import Database
from tests.support.workers import environment

LEASE = 1.5  # of a job, in seconds
TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]


def brisk(settings: Settings) -> Settings:
    """Short leases, so that a lost worker is noticed soon."""
    return msgspec.structs.replace(settings, job_lease=LEASE, beat_period=0.5, command_grace=0.5, host="alpha")


@contextmanager
def running_beat(settings: Settings, folder: Path) -> Generator[None]:
    """A real beat, which sends the sweeps."""
    command = [sys.executable, "-m", "celery", "-A", "tellback_beat.app", "beat", "-s", str(folder / "schedule")]
    with (folder / "beat.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment(settings), stdout=log, stderr=log)
    yield
    process.terminate()
    process.wait(timeout=15)


def tool(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `tellback` as a user does."""
    return subprocess.run(
        [*TOOL, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(settings, {"COLUMNS": "250"}),
        check=False,
    )


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
