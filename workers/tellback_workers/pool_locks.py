"""The members of a worker's pool, its processes or its threads: which of them lingers, and which are free.

The processes of a pool share locks on the bytes of a file, which the kernel releases when their holder dies. Threads
share the memory of their process, and end with it. A pool of one has none of this and never lingers, because its only
process must stay available.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Any, Final

from billiard.process import current_process
from celery import signals


class PoolLocks:
    """The locks of this worker's pool: one for the member that lingers, and one for each that runs a task."""

    def __init__(self) -> None:
        self._members: PoolProcesses | PoolThreads | None = None
        # Opened at `worker_init`, before the pool forks, so that all processes share one open file.
        signals.worker_init.connect(self.open, weak=False)
        signals.worker_shutting_down.connect(self._close, weak=False)
        signals.task_prerun.connect(self.begin_task, weak=False)
        signals.task_postrun.connect(self.end_task, weak=False)

    @property
    def is_closing(self) -> bool:
        """Return True if the worker shuts down; a warm shutdown waits for whoever lingers, who must leave."""
        return self._members is None or self._members.is_closing

    @contextmanager
    def acquire_linger(self) -> Generator[bool]:
        """Try to become the one that lingers; yield True if you are, until the block ends."""
        members = self._members
        if members is None or members.is_closing or not members.try_linger():
            yield False
            return
        try:
            yield True
        finally:
            members.end_linger()

    def all_others_busy(self) -> bool:
        """Return True if each other process or thread of the pool runs a task."""
        return self._members is None or self._members.all_others_busy()

    def begin_task(self, **_: object) -> None:
        """Note that this process or thread runs a task."""
        if self._members is not None:
            self._members.begin_task()

    def end_task(self, **_: object) -> None:
        """Note that this process or thread is free."""
        if self._members is not None:
            self._members.end_task()

    def open(self, sender: Any, **_: object) -> None:
        """Prepare the locks of the worker that sends the signal."""
        size, threads = sender.concurrency, "thread" in str(getattr(sender, "pool_cls", ""))  # a name, or the class
        self._members = None if size == 1 else PoolThreads(size) if threads else PoolProcesses(size)

    def _close(self, **_: object) -> None:
        if self._members is not None:
            self._members.close()


class PoolProcesses:
    """The processes of a pool. A byte in their file means that the worker shuts down."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._file: IO[bytes] = TemporaryFile(buffering=0)  # noqa: SIM115 - open until the process ends

    @property
    def is_closing(self) -> bool:
        """True if the worker shuts down."""
        return os.fstat(self._file.fileno()).st_size > 0

    def close(self) -> None:
        """Note that the worker shuts down."""
        self._file.write(b"x")

    def try_linger(self) -> bool:
        """Become the process that lingers; the main process of a pool never does."""
        return not _is_main() and self._try_lock(0)

    def end_linger(self) -> None:
        """Let another process linger."""
        self._unlock(0)

    def begin_task(self) -> None:
        """Lock this process's byte."""
        if not _is_main():
            # Waits for the microseconds in which another process tests it: skipped, it would seem free during the task.
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, 1 + _pool_index())

    def end_task(self) -> None:
        """Unlock this process's byte."""
        if not _is_main():
            self._unlock(1 + _pool_index())

    def all_others_busy(self) -> bool:
        """Return True if each other process runs a task."""
        return not any(map(self._is_free, range(self._size)))

    def _is_free(self, index: int) -> bool:
        if index == _pool_index() or not self._try_lock(1 + index):
            return False
        self._unlock(1 + index)
        return True

    def _try_lock(self, byte: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # POSIX allows EAGAIN and EACCES, and systems differ
            return False
        return True

    def _unlock(self, byte: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


class PoolThreads:
    """The threads of a pool."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._running: set[int] = set()
        self._lingering = threading.Lock()
        self.is_closing = False

    def close(self) -> None:
        """Note that the worker shuts down."""
        self.is_closing = True

    def try_linger(self) -> bool:
        """Become the thread that lingers."""
        return self._lingering.acquire(blocking=False)

    def end_linger(self) -> None:
        """Let another thread linger."""
        self._lingering.release()

    def begin_task(self) -> None:
        """Note that this thread runs a task."""
        self._running.add(threading.get_ident())

    def end_task(self) -> None:
        """Note that this thread is free."""
        self._running.discard(threading.get_ident())

    def all_others_busy(self) -> bool:
        """Return True if each other thread runs a task."""
        return len(self._running | {threading.get_ident()}) >= self._size


def _is_main() -> bool:
    return bool(current_process().name == "MainProcess")


def _pool_index() -> int:
    process: Any = current_process()  # its stub lacks the index, which Celery's log file names show as %i
    return int(process.index)


pool_locks: Final = PoolLocks()
