"""How a running `tellback up` is found: `up.json` in a data directory, readable by its user alone.

The command line and `tellback.connect()` read it when no Redis is named: one failed `open` where there is none.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "up.json"


class RunningSystem(NamedTuple):
    """What a live `tellback up` says about itself; the addresses carry their passwords."""

    pid: int
    redis_url: str
    flower_url: str | None
    data_dir: str


def find_running(folder: Path) -> RunningSystem | None:
    """The live system that `folder` names; None where there is none, or another user could have written the file."""
    return find_running_in(str(folder))


def find_running_in(folder: str) -> RunningSystem | None:
    """As `find_running`, for who does without pathlib."""
    try:
        with open(f"{folder}/{NAME}", "rb") as file:  # noqa: PTH123 - without pathlib
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return None
            running = _read(json.loads(file.read()))
        os.kill(running.pid, 0)
    except (OSError, OverflowError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return running


def _read(found: Any) -> RunningSystem:
    """The file's content, checked by hand: `tellback hook` reads it too, and cannot pay for importing more."""
    values = cast("dict[str, Any]", found)
    running = RunningSystem(values["pid"], values["redis_url"], values["flower_url"], values["data_dir"])
    texts: tuple[Any, ...] = (running.redis_url, running.flower_url or "", running.data_dir)
    if type(running.pid) is not int or not all(isinstance(text, str) for text in texts):
        raise TypeError("not what `announce` writes")
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
        file.write(json.dumps(running._asdict()).encode())
    draft.replace(folder / NAME)


def withdraw(folder: Path, pid: int) -> None:
    """Remove the file if the process `pid` wrote it."""
    running = find_running(folder)
    if running is not None and running.pid == pid:
        (folder / NAME).unlink(missing_ok=True)
