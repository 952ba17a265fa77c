"""A spool file: a header with the offset up to which events were sent, then a line for each event.

The header is overwritten in place, so recording progress needs no disk space. With the mark in a second file, a full
disk made the publisher resend the same events every half second forever. The header has two checksummed slots, written
in turn: a torn write costs one chunk that is sent again. Truncating the file also removes the mark, in one step.

Each line has a checksum: a bit that flips on disk could otherwise turn the stream's name into another Redis key.

Lines that can never be sent are quarantined, each with the reason; the rest of their file goes to Redis.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator, Sequence
from io import BufferedReader, FileIO
from typing import Final, NamedTuple, Self

from tellback import clock
from tellback.messaging.team_cache import SUFFIX
from tellback.names import Family
from tellback.state.keys import Shard, stream_of

SHARED: Final = f"shared{SUFFIX}"  # the file that all short-lived processes of a host append to

MAGIC: Final = b"tellback spool 1\n"

CHUNK_BYTES: Final = 256 << 10  # small, since a hook has only milliseconds for a chunk, and a failed one is resent

LINE_MAX: Final = 2 << 20  # larger than any event: a file of garbage is read in pieces of this size

_SLOT_BYTES: Final = 30

HEAD_BYTES: Final = len(MAGIC) + 2 * _SLOT_BYTES


class Chunk(NamedTuple):
    """Complete lines, the offset after them, and the number of bytes of a torn line at the end of the file."""

    lines: list[bytes]
    end: int
    torn: int = 0


class SpoolFile:
    """A spool file that this process has locked. Appending, sending and deleting all require the lock."""

    def __init__(self, path: str, file: FileIO) -> None:
        self.path = path
        self._file = file
        self._slot = 0
        self._sent, self._marked = self._read_head()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # closing is not enough: a forked child would keep the lock
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Close the file without unlocking it, since the parent process shares the lock."""
        self._file.close()

    @classmethod
    def create(cls, folder: str) -> SpoolFile:
        """Create and lock a new file for this process."""
        path = _fresh_path(folder)
        file = _OpenedFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(path, file)
        except OSError:  # for example a file system without locks
            file.close()
            raise

    @classmethod
    def take(cls, path: str, *, create: bool = False) -> SpoolFile | None:
        """Open and lock the file at `path`; return None if another process has it or it is gone.

        Raises:
            OSError: it cannot be opened, for example because it belongs to another user.
        """
        try:
            file = _OpenedFile(os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600))
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                return cls(path, file)
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError:
            file.close()
            raise
        file.close()  # in use; or deleted or renamed by another process between our open and our lock
        return None

    def set_apart(self) -> None:
        """Rename the shared file: other processes then append to a new one while this one is sent.

        If the file system has no room for the rename, the file is sent under its old name.
        """
        fresh = _fresh_path(os.path.dirname(self.path))
        try:
            os.rename(self.path, fresh)
        except OSError:
            return
        self.path = fresh

    @property
    def size(self) -> int:
        """Bytes of the file, its header included."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def pending(self) -> int:
        """The bytes after the mark."""
        return max(0, self.size - self._sent)

    def append(self, block: bytes) -> None:
        """Add whole lines, all or none.

        Raises:
            OSError: the disk takes no more.
        """
        if not self.pending or self.size < HEAD_BYTES:
            self.clear()  # everything was sent, or a writer was killed while it wrote the header
        end = self.size
        # A writer that was killed left a torn line: end it, or the next event would become part of it.
        lead = b"\n" if end and os.pread(self._file.fileno(), 1, end - 1) != b"\n" else b""
        left = memoryview((lead if end else _HEAD) + block)
        self._file.seek(end)
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError:
            self._file.truncate(end)  # a torn block must not precede the next one
            raise
        if not end:
            self._sent, self._marked = self._read_head()

    def chunks(self, most: int) -> Iterator[Chunk]:
        """Yield the lines that were not sent, in chunks of at most `most` lines and about `CHUNK_BYTES`."""
        reader = BufferedReader(_Shared(self._file.fileno()), CHUNK_BYTES)
        position = reader.seek(self._sent)
        lines: list[bytes] = []
        size = 0
        while line := reader.readline(LINE_MAX):
            torn = line[-1:] != b"\n" and len(line) < LINE_MAX
            position += len(line)
            if torn:
                yield Chunk(lines, position, len(line))
                return
            lines.append(line)
            size += len(line)
            if len(lines) >= most or size >= CHUNK_BYTES:
                yield Chunk(lines, position)
                lines, size = [], 0
        if lines:
            yield Chunk(lines, position)

    def mark(self, offset: int) -> None:
        """Record that everything before `offset` was sent.

        A copy-on-write file system may have no room even for this. Then only this process knows how far it has sent the
        file, and continues from there.
        """
        self._sent = offset
        if self._marked:
            try:
                os.pwrite(self._file.fileno(), _slot(offset), len(MAGIC) + self._slot * _SLOT_BYTES)
            except OSError:
                return
            self._slot = 1 - self._slot

    def rest(self) -> bytes:
        """Return all bytes that were not sent."""
        return os.pread(self._file.fileno(), self.pending, self._sent)

    def clear(self) -> None:
        """Truncate the file, including the mark, which frees its disk space."""
        self._file.truncate(0)
        self._sent, self._marked = 0, False

    def delete(self) -> None:
        """Delete the file."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return

    def _read_head(self) -> tuple[int, bool]:
        """Return the offset up to which it was sent, and if that can be recorded: not in a file without our header."""
        head = os.pread(self._file.fileno(), HEAD_BYTES, 0)
        if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
            return 0, False
        slots = [_offset(head[start : start + _SLOT_BYTES]) for start in (len(MAGIC), len(MAGIC) + _SLOT_BYTES)]
        self._slot = 0 if slots[0] <= slots[1] else 1
        # A mark beyond the end: a crash of the machine lost the bytes before it. All of them had been sent.
        return min(max(HEAD_BYTES, *slots), self.size), True


class _OpenedFile(FileIO):
    """A file open for reading and writing."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "r+b")


class _Shared(FileIO):
    """A second view of an open file; the descriptor stays open when the view is closed."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "rb", closefd=False)


def _slot(offset: int) -> bytes:
    digits = b"%020d" % offset
    return b"%s %08x\n" % (digits, zlib.crc32(digits))


def _offset(slot: bytes) -> int:
    digits = slot[:20]
    return int(digits) if digits.isdigit() and _slot(int(digits)) == slot else 0


def _fresh_path(folder: str) -> str:
    return os.path.join(folder, f"{int(clock.wall() * 1000):014d}-{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}")


_HEAD: Final = MAGIC + 2 * _slot(HEAD_BYTES)

_SEPARATORS: Final = frozenset("\t\n")


class SpooledEvent(NamedTuple):
    """An event for an intake stream.

    `writer` and `number` mark it for appending exactly once; without a writer it is de-duplicated by its event id when
    it is applied.
    """

    stream: str
    raw: bytes
    writer: str = ""
    number: int = 0


def format_line(event: SpooledEvent, stamp: int) -> bytes:
    """Return the line `CRC32 TAB MILLISECONDS TAB STREAM TAB WRITER TAB NUMBER TAB JSON`; the CRC covers the rest.

    Raises:
        ValueError: a field contains a separator, so the line would not parse back.
    """
    if b"\n" in event.raw or _SEPARATORS & {*event.stream, *event.writer}:
        raise ValueError("an event on disk is one line, and its stream and writer hold no tab")
    rest = b"%d\t%s\t%s\t%d\t%s" % (stamp, event.stream.encode(), event.writer.encode(), event.number, event.raw)
    return b"%08x\t%s\n" % (zlib.crc32(rest), rest)


def parse_line(line: bytes) -> tuple[int, SpooledEvent] | None:
    """Return the milliseconds and the event; None unless it is a whole line as `format_line` writes it."""
    rest = line[9:-1]
    if line[-1:] != b"\n" or line[:9] != b"%08x\t" % zlib.crc32(rest):
        return None
    fields = rest.split(b"\t", 4)  # the JSON comes last, so it may contain tabs
    if len(fields) != 5:
        return None
    stamp, stream, writer, number, raw = fields
    try:
        return int(stamp), SpooledEvent(stream.decode(), raw, writer.decode(), int(number))
    except ValueError:  # UnicodeDecodeError too
        return None


def is_intake_stream(stream: str, team: str, shards: int, family: str) -> bool:
    """Return whether `stream` is the key of this family's intake stream in one of the team's shards."""
    number = stream.partition("{")[2].partition("}")[0].rpartition(".")[2]
    if not (number.isascii() and number.isdigit() and len(number) <= 4 and int(number) < shards):
        return False
    return stream == stream_of(Shard(team, int(number)), Family(family))


NAME: Final = "quarantine.log"  # in the folder of a spool

MOST_BYTES: Final = 1 << 20  # of one file; further lines are only counted in the log


class Quarantine:
    """The quarantine file of a spool's folder. A line is `MILLISECONDS TAB REASON TAB` and the original line."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, NAME)

    def keep(self, refused: Sequence[tuple[str, bytes]]) -> int:
        """Append pairs of reason and line while there is room; return the number of lines kept."""
        stamp = int(clock.wall() * 1000)
        kept = 0
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return kept
        try:
            room = MOST_BYTES - os.fstat(file).st_size
            for reason, line in refused:
                row = b"%d\t%s\t%s\n" % (stamp, reason.encode(), line.removesuffix(b"\n"))
                room -= len(row)
                if room < 0 or os.write(file, row) != len(row):
                    break
                kept += 1
        except OSError:  # a full disk; the caller reports the number of lines that were lost
            return kept
        finally:
            os.close(file)
        return kept
