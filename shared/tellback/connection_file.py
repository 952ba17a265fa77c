"""The file `up.json` in a data directory, by which a running `tellback up` is found.

The command line and `tellback.connect()` read it if no Redis is named; without the file that costs one failed `open`.
It contains passwords, so only its user may read it, and a file that others can access is ignored.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tellback import clock

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "up.json"


class RunningSystem(NamedTuple):
    """The process and addresses of a running `tellback up`; the addresses include passwords."""

    pid: int
    redis_url: str
    flower_url: str | None
    data_dir: str


def find_running(folder: Path) -> RunningSystem | None:
    """Return the running system of a data directory; None if there is none, or the file may be another user's."""
    return find_running_in(str(folder))


def find_running_in(folder: str) -> RunningSystem | None:
    """Return what `find_running` returns, without pathlib, for `tellback hook`."""
    try:
        with open(f"{folder}/{NAME}", "rb") as file:  # noqa: PTH123 - without pathlib
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return None
            found = json.loads(file.read())
        running = _read(found)
        os.kill(running.pid, 0)  # raises if the process is gone: a killed `tellback up` leaves its file
        if found.get("started", "") not in ("", clock.process_start(running.pid)):
            return None  # another process has its id now
    except (OSError, OverflowError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return running


def _read(found: Any) -> RunningSystem:
    """Return the file's content, validated by hand: importing msgspec would cost `tellback hook` too much."""
    values = cast("dict[str, Any]", found)
    running = RunningSystem(values["pid"], values["redis_url"], values["flower_url"], values["data_dir"])
    texts: tuple[Any, ...] = (running.redis_url, running.flower_url or "", running.data_dir)
    if type(running.pid) is not int or not all(isinstance(text, str) for text in texts):
        raise TypeError("not what `announce` writes")
    return running


def write_connection_file(folder: Path, running: RunningSystem) -> None:
    """Write the file atomically.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f"{NAME}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)  # a draft left by a killed process may have another mode
        file.write(json.dumps({**running._asdict(), "started": clock.process_start(running.pid)}).encode())
    draft.replace(folder / NAME)


def remove_connection_file(folder: Path, pid: int) -> None:
    """Remove the file if the process `pid` wrote it."""
    running = find_running(folder)
    if running is not None and running.pid == pid:
        (folder / NAME).unlink(missing_ok=True)
