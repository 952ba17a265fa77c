"""How a running `tellback up` is found: `up.json` in a data directory, readable by its user alone.

The command line and `tellback.connect()` read it when no Redis is named: one failed `open` where there is none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

NAME: Final = "up.json"


class RunningSystem(msgspec.Struct, frozen=True, kw_only=True):
    """What a live `tellback up` says about itself; the addresses carry their passwords."""

    pid: int
    redis_url: str
    flower_url: str | None
    data_dir: str


def find_running(folder: Path) -> RunningSystem | None:
    """The live system that `folder` names; None where there is none, or another user could have written the file."""
    try:
        with (folder / NAME).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return None
            running = msgspec.json.decode(file.read(), type=RunningSystem)
        os.kill(running.pid, 0)
    except (OSError, OverflowError, msgspec.MsgspecError):
        return None
    return running


def announce(folder: Path, running: RunningSystem) -> None:
    """Write the file whole, or leave the one that was there.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f"{NAME}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)  # a draft that a killed process left may be of any mode
        file.write(msgspec.json.encode(running))
    draft.replace(folder / NAME)


def withdraw(folder: Path, pid: int) -> None:
    """Remove the file if the process `pid` wrote it."""
    running = find_running(folder)
    if running is not None and running.pid == pid:
        (folder / NAME).unlink(missing_ok=True)
