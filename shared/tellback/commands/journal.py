"""A rotated file of lines to which many processes append under a lock, repaired after a writer that was killed.

It uses only the standard library and knows nothing of records, because `tellback init-runner` copies it into a
project's own runner.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

MAX_BYTES = 1_048_576  # of one file; a line that would exceed it begins the next file
MAX_FILES = 5  # rotated files beside the current one; .1 is the newest
LOCK_TIMEOUT = 5.0  # seconds; a holder that was stopped (SIGSTOP) must not block all others forever
MAX_SESSIONS = 1_000  # sessions whose dropped lines are counted separately


class RotatingJournal:
    """The lines of `path`, and the older ones of `path.1` to `path.5`.

    A writer holds a lock on `path.lock`. A line is complete when its newline is written. After a writer was killed, the
    next one first ends the partial line, so it stays on a line of its own; complete lines are never changed. The lines
    of the oldest file are counted in `path.dropped` before the file is removed.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, timeout: float = LOCK_TIMEOUT) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._timeout = timeout

    def append(self, line: bytes) -> None:
        """Append one line, given without its newline: all of it or nothing.

        Raises:
            OSError: the disk is full, permission is missing, the path is a link or not a regular file, or the lock was
                held for too long (`TimeoutError`).
        """
        if b"\n" in line:
            raise ValueError("a line holds no newline")
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):
            _refuse_irregular(self.path.stat(), self.path)  # before a lock file lies beside a device
        with self._lock(fcntl.LOCK_EX):
            with self._open_current() as current:
                if os.fstat(current).st_size == 0 or self._fits(current, line):
                    _append_line(current, line)
                    return
            self._rotate()
            with self._open_current() as current:
                _append_line(current, line)

    def read(self, *, rotated: bool) -> list[tuple[Path, bytes]]:
        """Return the files that exist with their contents, oldest first: only the current one, or the whole set.

        Raises:
            OSError: a file cannot be read, or the lock was held for too long (`TimeoutError`).
        """
        found: list[tuple[Path, bytes]] = []
        with self._lock(fcntl.LOCK_SH):
            for path in self.all_paths() if rotated else [self.path]:
                with suppress(FileNotFoundError):
                    found.append((path, path.read_bytes()))
        return found

    def dropped_counts(self) -> tuple[int, dict[str, int]]:
        """Return the number of lines lost to rotation: in all, and by session for the most recent sessions."""
        try:
            counted = json.loads(self._sibling("dropped").read_bytes())
            sessions = {str(name): int(count) for name, count in counted["sessions"].items()}
            return int(counted["total"]), sessions
        except FileNotFoundError:
            return 0, {}
        except (ValueError, TypeError, KeyError, AttributeError):
            return 1, {}  # unreadable, but the file exists only if lines were dropped; 0 would claim that none were

    def open_next(self, current: os.stat_result) -> IO[bytes] | None:
        """Open the file after the one with this status, or the oldest if that one is gone; None after the last.

        Raises:
            OSError: as `read`.
        """
        with self._lock(fcntl.LOCK_SH):  # a rotation in between could rename a file out of sight
            present = [path for path in self.all_paths() if path.exists()]
            same = [index for index, path in enumerate(present) if os.path.samestat(path.stat(), current)]
            following = present[same[0] + 1 :] if same else present
            return following[0].open("rb") if following else None

    def all_paths(self) -> list[Path]:
        """Return the paths of all files that the set may have, oldest first."""
        return [self._sibling(str(number)) for number in range(MAX_FILES, 0, -1)] + [self.path]

    def _fits(self, current: int, line: bytes) -> bool:
        return os.fstat(current).st_size + len(_repair_bytes(current)) + len(line) + 1 <= self._max_bytes

    def _rotate(self) -> None:
        """Rename each file to the next number, up to the first free one; if none is free, drop the oldest file."""
        paths = self.all_paths()
        free = next((index for index in range(MAX_FILES - 1, -1, -1) if not paths[index].exists()), None)
        if free is None:
            self._count_dropped(paths[0])
        for index in range(free or 0, MAX_FILES):
            paths[index + 1].replace(paths[index])

    def _count_dropped(self, oldest: Path) -> None:
        total, sessions = self.dropped_counts()
        for line in oldest.read_bytes().split(b"\n"):
            if not line:
                continue
            total += 1
            with suppress(ValueError, AttributeError):  # not a record: counted in the total only
                session = str(json.loads(line).get("session"))
                sessions[session] = sessions.pop(session, 0) + 1
        kept = dict(list(sessions.items())[-MAX_SESSIONS:])
        count = json.dumps({"total": total, "sessions": kept})
        try:
            self._write_dropped(count)
        except OSError:  # on a full disk, free the space of the file that is to go anyway, then store its count
            os.truncate(oldest, 0)
            self._write_dropped(count)

    def _write_dropped(self, count: str) -> None:
        fresh = self._sibling("dropped.new")
        with suppress(FileNotFoundError):
            fresh.unlink()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(count)
        fresh.replace(self._sibling("dropped"))

    @contextmanager
    def _open_current(self) -> Generator[int]:
        # O_NONBLOCK: a FIFO or device at this path must be refused below, not block every writer.
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            _refuse_irregular(os.fstat(descriptor), self.path)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _lock(self, kind: int) -> Generator[None]:
        lock = self._open_lock(kind)
        if lock is None:
            yield
            return
        try:
            end, delay = time.monotonic() + self._timeout, 0.0005
            while True:
                try:
                    fcntl.flock(lock, kind | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise TimeoutError(f"{self.path} has been locked for {self._timeout:g} s") from None
                time.sleep(delay)
                delay = min(delay * 2, 0.02)
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough: a child forked meanwhile holds the lock too
            os.close(lock)

    def _open_lock(self, kind: int) -> int | None:
        """Open the lock file; return None for a reader that has none, such as one of archived build artefacts."""
        path = self._sibling("lock")
        try:
            if kind == fcntl.LOCK_SH:
                return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except (FileNotFoundError, PermissionError):
            if kind == fcntl.LOCK_SH:
                return None
            raise

    def _sibling(self, suffix: str) -> Path:
        return Path(f"{self.path}.{suffix}")


def _refuse_irregular(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))


def _repair_bytes(current: int) -> bytes:
    """Return the newline that ends a killed writer's partial line, or nothing."""
    size = os.fstat(current).st_size
    return b"\n" if size and os.pread(current, 1, size - 1) != b"\n" else b""


def _append_line(current: int, line: bytes) -> None:
    size = os.fstat(current).st_size
    left = memoryview(_repair_bytes(current) + line + b"\n")
    try:
        while left:
            left = left[os.write(current, left) :]
    except OSError:
        with suppress(OSError):  # if this fails too, the next writer ends the partial line
            os.ftruncate(current, size)
        raise
