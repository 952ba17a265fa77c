"""A file of lines to which many processes append: under a lock, rotated, and mended after a writer that was killed.

Standard library only, and no word of records: `tellback init-runner` copies it into a project's own runner.
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

MAX_BYTES = 1_048_576  # of one file; what would pass it begins the next
KEPT = 5  # rotated files beside the current one, .1 the newest
PATIENCE = 5.0  # seconds; a holder that was stopped must not hold up everybody for ever
MAX_SESSIONS = 1_000  # whose dropped lines are counted one by one


class Journal:
    """The lines of `path`, and of `path.1` to `path.5` before them.

    Whoever appends holds a lock on `path.lock`. A line is complete when its newline is there: what a killed writer left
    stands on a line of its own, since the next writer ends it first, and no earlier line is ever touched. What the
    oldest file held is counted in `path.dropped` before it goes.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, patience: float = PATIENCE) -> None:
        """Take the path of the current file; nothing is opened yet."""
        self.path = path
        self._max_bytes = max_bytes
        self._patience = patience

    def append(self, line: bytes) -> None:
        """Add one line, given without its newline: all of it or nothing.

        Raises:
            OSError: the disk is full, there is no permission, the path is a link or no file, or the lock was held for
                too long (`TimeoutError`).
        """
        if b"\n" in line:
            raise ValueError("a line holds no newline")
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked(fcntl.LOCK_EX):
            with self._opened() as current:
                if os.fstat(current).st_size == 0 or self._has_room(current, line):
                    _add(current, line)
                    return
            self._rotate()
            with self._opened() as current:
                _add(current, line)

    def read(self, *, rotated: bool) -> list[tuple[Path, bytes]]:
        """The files that exist and what they hold, oldest first: the current one alone, or all of the set.

        Raises:
            OSError: a file cannot be read, or the lock was held for too long (`TimeoutError`).
        """
        found: list[tuple[Path, bytes]] = []
        with self._locked(fcntl.LOCK_SH):
            for path in self.paths() if rotated else [self.path]:
                with suppress(FileNotFoundError):
                    found.append((path, path.read_bytes()))
        return found

    def dropped(self) -> tuple[int, dict[str, int]]:
        """How many lines have gone with the oldest files: in all, and of each session that is still counted."""
        try:
            counted = json.loads(self._beside("dropped").read_bytes())
            sessions = {str(name): int(count) for name, count in counted["sessions"].items()}
            return int(counted["total"]), sessions
        except FileNotFoundError:
            return 0, {}
        except (ValueError, TypeError, KeyError, AttributeError):
            return 1, {}  # it cannot be read, so something is gone

    def open_after(self, current: os.stat_result) -> IO[bytes] | None:
        """The file that follows the one whose status this is, the oldest if that one has gone; None after the last.

        Raises:
            OSError: as `read`.
        """
        with self._locked(fcntl.LOCK_SH):  # while names move, a file could be looked for behind its back
            present = [path for path in self.paths() if path.exists()]
            same = [index for index, path in enumerate(present) if os.path.samestat(path.stat(), current)]
            following = present[same[0] + 1 :] if same else present
            return following[0].open("rb") if following else None

    def paths(self) -> list[Path]:
        """Every file that the set may have, oldest first."""
        return [self._beside(str(number)) for number in range(KEPT, 0, -1)] + [self.path]

    def _has_room(self, current: int, line: bytes) -> bool:
        return os.fstat(current).st_size + len(_mending(current)) + len(line) + 1 <= self._max_bytes

    def _rotate(self) -> None:
        """Make room by moving each file one number on, as far as the first free number; the oldest drops."""
        paths = self.paths()
        free = next((index for index in range(KEPT - 1, -1, -1) if not paths[index].exists()), None)
        if free is None:
            self._count_dropped(paths[0])
        for index in range(free or 0, KEPT):
            paths[index + 1].replace(paths[index])

    def _count_dropped(self, oldest: Path) -> None:
        total, sessions = self.dropped()
        for line in oldest.read_bytes().split(b"\n"):
            if not line:
                continue
            total += 1
            with suppress(ValueError, AttributeError):  # no record: counted in the total alone
                session = str(json.loads(line).get("session"))
                sessions[session] = sessions.pop(session, 0) + 1
        kept = dict(list(sessions.items())[-MAX_SESSIONS:])
        fresh = self._beside("dropped.new")
        with suppress(FileNotFoundError):
            fresh.unlink()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"total": total, "sessions": kept}, file)
        fresh.replace(self._beside("dropped"))

    @contextmanager
    def _opened(self) -> Generator[int]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "no regular file", str(self.path))
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _locked(self, kind: int) -> Generator[None]:
        lock = self._open_lock(kind)
        if lock is None:
            yield
            return
        try:
            end, pause = time.monotonic() + self._patience, 0.0005
            while True:
                try:
                    fcntl.flock(lock, kind | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise TimeoutError(f"{self.path} has been locked for {self._patience:g} s") from None
                time.sleep(pause)
                pause = min(pause * 2, 0.02)
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough where a fork of this moment holds it too
            os.close(lock)

    def _open_lock(self, kind: int) -> int | None:
        """The lock's descriptor; None for a reader of files to which nobody writes here, such as kept artefacts."""
        path = self._beside("lock")
        try:
            if kind == fcntl.LOCK_SH:
                return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except (FileNotFoundError, PermissionError):
            if kind == fcntl.LOCK_SH:
                return None
            raise

    def _beside(self, suffix: str) -> Path:
        return Path(f"{self.path}.{suffix}")


def _mending(current: int) -> bytes:
    """What ends the line that a killed writer left open, if there is one."""
    size = os.fstat(current).st_size
    return b"\n" if size and os.pread(current, 1, size - 1) != b"\n" else b""


def _add(current: int, line: bytes) -> None:
    size = os.fstat(current).st_size
    left = memoryview(_mending(current) + line + b"\n")
    try:
        while left:
            left = left[os.write(current, left) :]
    except OSError:
        with suppress(OSError):  # the next writer ends what stays
            os.ftruncate(current, size)
        raise
