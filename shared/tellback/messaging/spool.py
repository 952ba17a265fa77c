"""Facts on disk while Redis is away: one append-only file for each process, sent later in order.

A line is `MILLISECONDS TAB STREAM TAB JSON`. The process that writes a file holds a lock on it, so a file that can be
locked belongs to a process that is gone, and any later process of this host sends it. How far a file was sent stands
beside it; what is sent twice after a crash has no effect, since every fact has an id.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, Self

from tellback import clock
from tellback.errors import SpoolFull
from tellback.log import get_logger
from tellback.messaging.places import SpoolPlace

KEPT_SECONDS: Final = 6 * 86_400  # a day less than event ids are remembered

Fact = tuple[str, bytes]
Send = Callable[[Sequence[Fact]], None]

_log = get_logger("tellback.spool")


class Spool:
    """The spool of one process for one family, in a folder shared by all processes of the host."""

    def __init__(self, place: SpoolPlace, family: str, *, max_bytes: int, chunk: int) -> None:
        """Take the place, the cap of all the team's files in bytes, and how many facts are sent at once."""
        self._chunk = chunk
        self._team = Path(place.team)
        self._folder, *self._others = map(Path, place.folders(family))
        self._max_bytes = max_bytes
        self._own: _SpoolFile | None = None

    @property
    def pending(self) -> bool:
        """Whether this process has facts that were not sent."""
        return self._own is not None and self._own.pending

    def append(self, facts: Sequence[Fact]) -> None:
        """Keep facts, all or none.

        Raises:
            SpoolFull: the cap of the folder, or the disk, is reached.
        """
        stamp = int(clock.wall() * 1000)
        block = b"".join(b"%d\t%s\t%s\n" % (stamp, stream.encode(), raw) for stream, raw in facts)
        used = self.used_bytes()
        if used + len(block) > self._max_bytes:
            raise SpoolFull(
                f"Redis is away and the spool {self._team} holds {used} of {self._max_bytes} bytes; "
                "bring Redis back, or raise TELLBACK_SPOOL_MAX_BYTES"
            )
        try:
            if self._own is None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._own = _SpoolFile.create(self._folder)
            self._own.append(block)
        except OSError as error:
            raise SpoolFull(f"Redis is away and the spool {self._folder} cannot be written: {error}") from error

    def used_bytes(self) -> int:
        """Bytes of all processes' files, of every family."""
        return sum(_size(path) for path in self._team.rglob("*.spool"))

    def send_own(self, send: Send) -> None:
        """Send what this process has kept, in order; whatever `send` raises ends it, and the rest stays."""
        if self._own is not None and self._own.pending:
            self._own.send_all(send, self._chunk)

    def others(self) -> list[Path]:
        """The files of other processes, alive or gone, oldest first."""
        own = None if self._own is None else self._own.path
        found = (path for folder in (self._folder, *self._others) for path in folder.glob("*.spool") if path != own)
        return sorted(found, key=lambda path: path.name)

    def send_orphans(self, send: Send) -> None:
        """Send what processes that are gone have left, and delete their files; one that cannot be used stays."""
        for path in self.others():
            try:
                self._send_orphan(path, send)
            except OSError as error:  # another user's, say: what this process has to send must not wait for it
                _log.error("spool.orphan_left", path=str(path), reason=str(error))

    def _send_orphan(self, path: Path, send: Send) -> None:
        orphan = _SpoolFile.adopt(path)
        if orphan is not None:
            with orphan:
                orphan.send_all(send, self._chunk)
                orphan.delete()

    def close(self) -> None:
        """Let go of this process's file; an empty one is deleted."""
        if self._own is not None:
            with self._own:
                if not self._own.pending:
                    self._own.delete()
            self._own = None


class _SpoolFile:
    """One file, locked by this process."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._sent_path = path.with_suffix(".sent")
        try:
            self._sent = int(self._sent_path.read_text())
        except (OSError, ValueError):
            self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @classmethod
    def create(cls, folder: Path) -> _SpoolFile:
        """A new file of this process."""
        path = folder / f"{int(clock.wall() * 1000):014d}-{os.getpid()}-{os.urandom(4).hex()}.spool"
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(path, file)

    @classmethod
    def adopt(cls, path: Path) -> _SpoolFile | None:
        """The file of a process that is gone; None while its process lives or another adopts it."""
        try:
            file = path.open("r+b", buffering=0)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_nlink:
                return cls(path, file)
        except BlockingIOError:
            pass
        file.close()  # in use; or sent and deleted by another between our opening and our lock
        return None

    @property
    def pending(self) -> bool:
        return _size(self.path) > self._sent

    def append(self, block: bytes) -> None:
        end = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(block)
        except OSError:
            self._file.truncate(end)  # a torn block must not stand before the next one
            raise
        if written != len(block):
            self._file.truncate(end)
            raise OSError(f"wrote {written} of {len(block)} bytes")

    def send_all(self, send: Send, chunk: int) -> None:
        for facts, end in self._chunks(chunk):
            if facts:
                send(facts)
            self._mark(end)
        if self._sent:
            self._mark(0)  # before the file is cut: dying between the two sends again, the other way round would lose
            self._file.truncate(0)

    def delete(self) -> None:
        self._sent_path.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _chunks(self, chunk: int) -> Iterator[tuple[list[Fact], int]]:
        """Chunks of facts with the offset after each; a torn last line is skipped, what is too old is dropped."""
        oldest = int((clock.wall() - KEPT_SECONDS) * 1000)
        with self.path.open("rb") as reader:
            position = reader.seek(self._sent)
            facts: list[Fact] = []
            dropped = 0
            for number, line in enumerate(reader, 1):
                if not line.endswith(b"\n"):
                    _log.warning("spool.torn_line", path=str(self.path), bytes=len(line))
                position += len(line)
                parsed = _parse(line)
                if parsed is None or parsed[0] < oldest:
                    dropped += 1
                else:
                    facts.append(parsed[1])
                if number % chunk == 0:
                    yield facts, position
                    facts = []
            if dropped:
                _log.error("spool.dropped", path=str(self.path), facts=dropped, reason="torn, or older than six days")
            yield facts, position

    def _mark(self, offset: int) -> None:
        beside = self._sent_path.with_suffix(".tmp")
        beside.write_text(str(offset))
        beside.replace(self._sent_path)
        self._sent = offset


def _parse(line: bytes) -> tuple[int, Fact] | None:
    stamp, tab, rest = line.rstrip(b"\n").partition(b"\t")
    stream, second, raw = rest.partition(b"\t")
    if not (tab and second and stamp.isdigit() and line.endswith(b"\n")):
        return None
    return int(stamp), (stream.decode("utf-8", "replace"), raw)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
