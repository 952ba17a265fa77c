"""Publish the signals of a file in order, each line exactly once however often `tellback signal` is run.

The publisher saves its position only after a chunk is flushed, so that a crash repeats signals and never skips any;
`signal_file` explains why a repeated signal counts once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from tellback.cli.common import echo, progress_bar
from tellback.cli.input_file import input_name, open_input
from tellback.cli.signal_file import (
    MAX_REJECTED,
    FileCursor,
    FilePosition,
    SignalLine,
    new_digest,
    open_cursor,
    parse_signal,
    read_lines,
)
from tellback.errors import InvalidInput
from tellback.sanitize import unicode_path

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.contracts.signals import SignalItem

CHUNK: Final = 500  # lines published between two saves of the position, each an fsync
CHUNK_BYTES: Final = 4 << 20  # bounds memory where lines are long
MAX_REPORTED: Final = 100  # rejected lines named on standard error; --rejects keeps them all


class PublishResult(msgspec.Struct, kw_only=True):
    """The outcome of one run; `skipped` counts the lines that an earlier run published."""

    file: str
    bank: str | None
    published: int = 0
    rejected: int = 0
    skipped: int = 0


class RejectedLines:
    """Reports invalid lines on standard error, and writes them to the file of --rejects, if any."""

    def __init__(self, name: str, out: IO[bytes] | None) -> None:
        self._name = name
        self._out = out
        self.count = 0

    def add(self, line: SignalLine, reason: str) -> None:
        """Report a line with the reason for its rejection."""
        self.count += 1
        if self.count <= MAX_REPORTED:
            echo(f"{self._name}:{line.number}: {reason}", err=True)
        elif self.count == MAX_REPORTED + 1:
            echo(f"{self._name}: more invalid lines follow; use --rejects FILE to keep them all", err=True)
        if self._out is not None:
            kept = {"line": line.number, "error": reason, "text": line.display_text}
            self._out.write(json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    @property
    def size(self) -> int:
        """The size of the --rejects file in bytes, after flushing it."""
        if self._out is None:
            return 0
        self._out.flush()
        return self._out.tell()


class SignalFilePublisher:
    """Publishes the lines of one input to their banks; `bank` is that of lines that name none."""

    def __init__(self, tb: Tellback, name: str, *, bank: str | None, session: str | None) -> None:
        self._tb = tb
        self._bank = bank
        self._session = session
        self.done = PublishResult(file=name, bank=bank)
        self._chunk: dict[str, list[SignalItem]] = {}
        self._place: FilePosition | None = None
        self._digest = new_digest()
        self._rejected: list[int] = []
        self._unsaved = self._unsaved_bytes = 0

    def run(
        self, lines: Iterator[SignalLine], rejects: RejectedLines, cursor: FileCursor | None, rejects_file: str
    ) -> None:
        """Publish every valid line, and save the position after each chunk.

        Of the lines that an earlier run has read, only the rejected ones are taken, which may have been fixed since.
        The position is saved again when all of them were read.
        """
        read = cursor.place.lines if cursor is not None else 0
        again = frozenset(cursor.place.rejected if cursor is not None else ())
        for line in lines:
            if line.number <= read and line.number not in again:
                self._digest.update(line.stored)
                self.done.skipped += bool(line.raw.strip())
            elif not self._take_line(line, rejects, cursor):
                break  # it is the last line; a later run reads it again, when its writer may have completed it
            self._unsaved += 1
            self._unsaved_bytes += len(line.raw)
            if cursor is not None and line.number >= read:
                self._place = msgspec.structs.replace(
                    cursor.place,
                    lines=line.number,
                    offset=line.end,
                    digest=self._digest.hexdigest(),
                    rejects=rejects_file,
                    rejected=tuple(self._rejected),
                )
            if self._unsaved >= CHUNK or self._unsaved_bytes > CHUNK_BYTES:
                self._publish_chunk(rejects, cursor)
        self._publish_chunk(rejects, cursor)

    def _take_line(self, line: SignalLine, rejects: RejectedLines, cursor: FileCursor | None) -> bool:
        """Add a line's signal to the chunk or reject it; return False for a last line that looks incomplete."""
        if not line.raw.strip():
            self._digest.update(line.stored)
            return True
        try:
            bank, item = parse_signal(line, self._bank)
        except InvalidInput as error:
            torn = cursor is not None and not line.ended
            rejects.add(line, f"{error}{'; the line is incomplete, and the next run reads it again' if torn else ''}")
            self.done.rejected += 1
            if not torn:
                self._note_rejected(line)
            return not torn
        self._digest.update(line.stored)
        if cursor is not None and not item.signal_id:
            item = msgspec.structs.replace(item, signal_id=f"{cursor.place.run}-{line.number}")
        self._chunk.setdefault(bank, []).append(item)
        return True

    def _note_rejected(self, line: SignalLine) -> None:
        """Leave a rejected line out of the digest, so that a person may fix it; beyond the bound, keep it in."""
        if len(self._rejected) < MAX_REJECTED:
            self._rejected.append(line.number)
        else:
            self._digest.update(line.stored)

    def _publish_chunk(self, rejects: RejectedLines, cursor: FileCursor | None) -> None:
        for bank, items in self._chunk.items():
            self.done.published += self._tb.bank(bank).signal(items, session=self._session)
        self._tb.flush()
        self._chunk, self._unsaved, self._unsaved_bytes = {}, 0, 0
        if cursor is not None and self._place is not None:
            cursor.save(msgspec.structs.replace(self._place, rejects_size=rejects.size))


def check_files(file: Path, rejects: Path | None) -> None:
    """Check the files that a user named, before anything is created for what they hold.

    Raises:
        InvalidInput: the file can't be read, or is the one of --rejects.
    """
    if rejects is not None and rejects.resolve() == file.resolve():
        raise InvalidInput(f"--rejects {rejects} is the input file: choose another")
    # The writer of a pipe would lose its reader between two openings; the check would take a line of a terminal.
    if not (str(file) == "-" or file.is_fifo() or file.is_char_device()):
        with open_input(str(file)):
            pass


def publish_file(
    tb: Tellback, file: Path, *, bank: str | None, session: str | None, rejects: Path | None, again: bool
) -> PublishResult:
    """Publish a file from where the last run stopped; `-` is standard input, which has no saved position.

    Raises:
        InvalidInput: the file can't be read, or its published part has changed.
        StateConflict: another process is publishing it.
    """
    if str(file) == "-" or not file.is_file():
        return _publish_stream(tb, file, bank, session, rejects)
    publication = SignalFilePublisher(tb, str(file), bank=bank, session=session)
    with open_input(str(file)) as source, open_cursor(tb.context.settings, file, bank) as cursor:
        cursor.start_over() if again else cursor.resume(source)
        place = cursor.place
        kept_rejects = unicode_path(rejects) if rejects else ""
        # Rejected lines are read again, and those that are still wrong are written again.
        size = place.rejects_size if place.rejects == kept_rejects and not place.rejected else 0
        with _open_rejects(str(file), rejects, size) as wrong, progress_bar("signals", file.stat().st_size) as update:
            publication.run(_with_progress(read_lines(source), update), wrong, cursor, kept_rejects)
    return publication.done


def _publish_stream(
    tb: Tellback, file: Path, bank: str | None, session: str | None, rejects: Path | None
) -> PublishResult:
    name = input_name(str(file))
    publication = SignalFilePublisher(tb, name, bank=bank, session=session)
    with (
        open_input(str(file)) as source,
        _open_rejects(name, rejects, 0) as wrong,
        progress_bar("signals") as update,
    ):
        publication.run(_with_progress(read_lines(source), update), wrong, None, "")
    return publication.done


def _with_progress(lines: Iterator[SignalLine], update: Callable[..., None]) -> Iterator[SignalLine]:
    for line in lines:
        yield line
        update(advance=line.length)


@contextmanager
def _open_rejects(name: str, file: Path | None, size: int) -> Generator[RejectedLines]:
    """Open the --rejects file; a resumed run keeps its first `size` bytes, which match the saved position."""
    if file is None:
        yield RejectedLines(name, None)
        return
    try:
        out = file.open("r+b" if size and file.is_file() else "wb")
        out.seek(out.truncate(min(size, file.stat().st_size)))
    except OSError as error:
        raise InvalidInput(f"--rejects: can't write {file}: {error.strerror}") from error
    with out:
        yield RejectedLines(name, out)
