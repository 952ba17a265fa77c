"""Small files of the data directory, without pathlib: importing that takes a tenth of a `tellback hook`'s time."""

from __future__ import annotations

import os
from contextlib import suppress


def read_file(path: str) -> bytes:
    """Return a file's content.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return file.read()


def write_file(path: str, content: bytes) -> None:
    """Write a file, and its folder, for this user alone; until it is complete its name begins with a dot.

    Raises:
        OSError: the disk is full or not writable.
    """
    folder, _, name = path.rpartition("/")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    draft = f"{folder}/.{name}.{os.getpid()}"
    try:
        with open(draft, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):  # otherwise every process on a full disk would leave an empty draft
            remove_file(draft)
        raise


def file_names(folder: str) -> list[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def remove_file(path: str) -> None:
    """Remove a file.

    Raises:
        OSError: it cannot be removed; perhaps another process was faster.
    """
    os.unlink(path)


def remove_if_older(path: str, wall: float) -> None:
    """Remove a file that was written before this time, unless another process is faster."""
    with suppress(OSError):
        if os.stat(path).st_mtime < wall:
            remove_file(path)
