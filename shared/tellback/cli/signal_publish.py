"""`tellback signal`: the signals of a file, published in order, each line once however often the command is run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec
import typer

from tellback.cli.signal_cursor import Cursor, Place, cursor_of
from tellback.cli.signal_lines import Line, digest_of_nothing, lines_of, signal_of
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.contracts.signals import SignalItem

CHUNK: Final = 500  # lines published, and then written down as published
CHUNK_BYTES: Final = 4 << 20
NAMED: Final = 100  # wrong lines that are named on standard error; --rejects has them all


class Published(msgspec.Struct, kw_only=True):
    """What one run did: signals published, lines rejected, and lines skipped because an earlier run published them."""

    file: str
    bank: str | None
    published: int = 0
    rejected: int = 0
    skipped: int = 0


class Rejects:
    """Lines that are wrong: named on standard error, and kept in a file that may be asked for."""

    def __init__(self, name: str, out: IO[bytes] | None) -> None:
        """Take the input's name, and the open file."""
        self._name = name
        self._out = out
        self.count = 0

    def add(self, line: Line, reason: str) -> None:
        """Name a line."""
        self.count += 1
        if self.count <= NAMED:
            typer.echo(f"{self._name}:{line.number}: {reason}", err=True)
        elif self.count == NAMED + 1:
            typer.echo(f"{self._name}: further wrong lines are counted only; --rejects FILE keeps them all", err=True)
        if self._out is not None:
            kept = {"line": line.number, "error": reason, "text": line.text}
            self._out.write(json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    @property
    def size(self) -> int:
        """Bytes in the file, once they are there."""
        if self._out is None:
            return 0
        self._out.flush()
        return self._out.tell()


class Publication:
    """One file, or standard input, on its way to its banks."""

    def __init__(self, tb: Tellback, name: str, *, bank: str | None, session: str | None) -> None:
        """Take the client, the input's name, the bank of lines that name none, and the session of all."""
        self._tb = tb
        self._bank = bank
        self._session = session
        self.done = Published(file=name, bank=bank)
        self._chunk: dict[str, list[SignalItem]] = {}
        self._place: Place | None = None
        self._unsaved = self._unsaved_bytes = 0

    def run(self, lines: Iterator[Line], rejects: Rejects, cursor: Cursor | None, rejects_file: str) -> None:
        """Publish every line that is a signal, and write down how far that is."""
        for line in lines:
            if not self._take(line, rejects, cursor):
                break  # nothing follows it now; the next run reads it again, when it may be whole
            self._unsaved += 1
            self._unsaved_bytes += len(line.raw)
            if cursor is not None:
                self._place = msgspec.structs.replace(
                    cursor.place, lines=line.number, offset=line.end, digest=line.digest, rejects=rejects_file
                )
            if self._unsaved == CHUNK or self._unsaved_bytes > CHUNK_BYTES:
                self._publish(rejects, cursor)
        self._publish(rejects, cursor)

    def _take(self, line: Line, rejects: Rejects, cursor: Cursor | None) -> bool:
        """Take a line's signal, or reject it; False for a file's last line that looks torn."""
        if not line.raw.strip():
            return True
        try:
            bank, item = signal_of(line, self._bank)
        except InvalidInput as error:
            torn = cursor is not None and not line.ended
            rejects.add(line, f"{error}{'; the line has no end, and is read again by the next run' if torn else ''}")
            self.done.rejected += 1
            return not torn
        if cursor is not None and not item.signal_id:
            item = msgspec.structs.replace(item, signal_id=f"{cursor.place.run}-{line.number}")
        self._chunk.setdefault(bank, []).append(item)
        return True

    def _publish(self, rejects: Rejects, cursor: Cursor | None) -> None:
        for bank, items in self._chunk.items():
            self.done.published += self._tb.bank(bank).signal(items, session=self._session)
        self._tb.flush()
        self._chunk, self._unsaved, self._unsaved_bytes = {}, 0, 0
        if cursor is not None and self._place is not None:
            cursor.save(msgspec.structs.replace(self._place, rejects_size=rejects.size))


def publish_file(
    tb: Tellback, file: Path, *, bank: str | None, session: str | None, rejects: Path | None, again: bool
) -> Published:
    """Publish a file from where the last run stopped; `-` is standard input, of which no place is known.

    Raises:
        InvalidInput: the file cannot be read, or what was published of it has changed.
        StateConflict: another process publishes it.
    """
    if rejects is not None and rejects.resolve() == file.resolve():
        raise InvalidInput(f"--rejects {rejects} is the file that is to be published")
    if str(file) == "-" or not file.is_file():
        return _publish_stream(tb, file, bank, session, rejects)
    publication = Publication(tb, str(file), bank=bank, session=session)
    with _opened(file) as source, cursor_of(tb.context.settings, file, bank) as cursor:
        cursor.begin() if again else cursor.resume(source)
        place = cursor.place
        publication.done.skipped = place.lines
        kept_rejects = str(rejects.resolve()) if rejects else ""
        size = place.rejects_size if place.rejects == kept_rejects else 0
        with _rejects(str(file), rejects, size) as wrong, _progress(file.stat().st_size, place.offset) as advance:
            lines = lines_of(source, cursor.digest, place.lines, place.offset)
            publication.run(_shown(lines, advance), wrong, cursor, kept_rejects)
    return publication.done


def _publish_stream(tb: Tellback, file: Path, bank: str | None, session: str | None, rejects: Path | None) -> Published:
    name = "standard input" if str(file) == "-" else str(file)
    publication = Publication(tb, name, bank=bank, session=session)
    with (
        _stdin() if str(file) == "-" else _opened(file) as source,
        _rejects(name, rejects, 0) as wrong,
        _progress(None, 0) as advance,
    ):
        publication.run(_shown(lines_of(source, digest_of_nothing()), advance), wrong, None, "")
    return publication.done


def _shown(lines: Iterator[Line], advance: Callable[[int], None]) -> Iterator[Line]:
    for line in lines:
        yield line
        advance(line.length)


@contextmanager
def _stdin() -> Generator[IO[bytes]]:
    yield sys.stdin.buffer


@contextmanager
def _opened(file: Path) -> Generator[IO[bytes]]:
    try:
        source = file.open("rb")
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}") from error
    with source:
        yield source


@contextmanager
def _rejects(name: str, file: Path | None, size: int) -> Generator[Rejects]:
    """Where wrong lines go; a run that goes on keeps the first `size` bytes, which an earlier one wrote."""
    if file is None:
        yield Rejects(name, None)
        return
    try:
        out = file.open("r+b" if size and file.is_file() else "wb")
        out.seek(out.truncate(min(size, file.stat().st_size)))
    except OSError as error:
        raise InvalidInput(f"--rejects {file}: {error.strerror}") from error
    with out:
        yield Rejects(name, out)


@contextmanager
def _progress(total: int | None, done: int) -> Generator[Callable[[int], None]]:
    """A bar of bytes where standard error is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("signals", total=total, completed=done)
        yield lambda length: progress.update(task, advance=length)
