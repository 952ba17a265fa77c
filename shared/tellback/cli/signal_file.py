"""Read a file of signals line by line, and keep a cursor so that an interrupted run resumes and no line counts twice.

The cursor is a small file in the host's data directory, one for each combination of input file, bank, team and Redis.
Neither half of the protection suffices alone. Signal ids don't: a bank remembers 50,000, and a file may have more
lines. The cursor doesn't: lines published after it was last saved are published again, and count once because of
their ids.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import msgspec

from tellback.contracts.signals import SignalItem
from tellback.errors import ConfigurationError, InvalidInput, StateConflict
from tellback.sanitize import unicode_path
from tellback.settings import Settings
from tellback.signals.validation import check_item, check_name
from tellback.urls import without_secrets

MAX_LINE: Final = 1 << 20
"""Bytes of one line; enough for a query and a context of 64 KB each, even if every character is escaped."""

_BOM: Final = b"\xef\xbb\xbf"  # spreadsheets and Windows editors write it; JSON allows none

_SHOWN: Final = 2_048  # characters of a rejected line that --rejects keeps


class SignalLine(NamedTuple):
    """A line with its number, from 1, and its `end` in the file, in bytes.

    `ended` is False for a last line without a line end. If the line exceeds `MAX_LINE`, `stored` is its beginning.
    """

    number: int
    stored: bytes
    length: int
    ended: bool
    end: int

    @property
    def raw(self) -> bytes:
        """The line without a mark of byte order."""
        return self.stored.removeprefix(_BOM) if self.number == 1 else self.stored

    @property
    def display_text(self) -> str:
        """The beginning of the line, for a person to read."""
        return self.raw.strip().decode("utf-8", "replace")[:_SHOWN]


class _SignalFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a line; values are checked later, by the same code as in `Bank.signal`."""

    fact_id: str
    signal_type: Any
    query: str
    confidence: float = 1.0
    context: str | None = None
    signal_id: str = ""
    bank: str | None = None


def new_digest() -> Any:
    """Return a new hash object for a file's digest."""
    return hashlib.blake2b(digest_size=16)


def read_lines(source: IO[bytes]) -> Iterator[SignalLine]:
    """Yield the lines; memory is bounded however long a line is."""
    number = offset = 0
    while stored := source.readline(MAX_LINE + 1):
        length, ended = len(stored), stored.endswith(b"\n")
        while not ended and (part := source.readline(MAX_LINE)):
            length, ended = length + len(part), part.endswith(b"\n")
        number, offset = number + 1, offset + length
        yield SignalLine(number, stored, length, ended, offset)


def parse_signal(line: SignalLine, default_bank: str | None) -> tuple[str, SignalItem]:
    """Return the bank and the signal of a line.

    Raises:
        InvalidInput: the line is not a valid signal; the message names the field.
    """
    if line.length > MAX_LINE:
        raise InvalidInput(f"the line has {line.length} bytes; the maximum is {MAX_LINE}")
    # It would otherwise fail with a message about byte 0 that does not help.
    if line.number == 1 and line.raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput("the file is encoded in UTF-16: convert it to UTF-8")
    fields = _decode_fields(line.raw)
    bank = default_bank if fields.bank is None else fields.bank
    if bank is None:
        raise InvalidInput('no bank: set the field "bank", or use --bank for all lines')
    item = SignalItem(**{name: getattr(fields, name) for name in SignalItem.__struct_fields__})
    check_item(item, "signal")
    check_name(bank, "signal.bank")
    check_name(item.fact_id, "signal.fact_id")
    if item.signal_id:
        check_name(item.signal_id, "signal.signal_id")
    return bank, item


def _decode_fields(raw: bytes) -> _SignalFields:
    try:
        fields = msgspec.json.decode(raw, type=_SignalFields)
        json.loads(raw, object_pairs_hook=_refuse_duplicate_keys)  # msgspec silently keeps the last of two
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidInput(str(error)) from error
    return fields


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInput(f"duplicate field {twice!r}")


MAX_REJECTED: Final = 10_000  # rejected lines whose numbers are kept; a later one cannot be fixed in place


class FilePosition(msgspec.Struct, frozen=True, kw_only=True):
    """The read part of a file: lines, bytes, and the digest of all lines but the `rejected` ones, given by numbers.

    `run` and the line number make the ids of signals.
    """

    file: str
    run: str
    lines: int = 0
    offset: int = 0
    digest: str = ""
    rejects: str = ""
    rejects_size: int = 0
    rejected: tuple[int, ...] = ()


class FileCursor:
    """The saved position in one file; `open_cursor` locks it for this process."""

    def __init__(self, path: Path, file: Path) -> None:
        self._path = path
        self.place = FilePosition(file=unicode_path(file), run=secrets.token_hex(8))

    def resume(self, source: IO[bytes]) -> None:
        """Move to where the last run stopped, if there was one.

        Raises:
            InvalidInput: the published part of the file has changed, or the saved position can't be read.
        """
        known = self._read_position()
        if known is None:
            self.start_over()
            return
        if not self._is_unchanged(source, known):
            raise InvalidInput(
                f"{self.place.file} was published up to line {known.lines}, and that part has changed: "
                "undo the change, but for rejected lines, or publish the whole file again with --again"
            )
        self.place = known
        source.seek(0)

    def _is_unchanged(self, source: IO[bytes], known: FilePosition) -> bool:
        """Check that no published line has changed; the rejected ones may."""
        rejected, digest, count = frozenset(known.rejected), new_digest(), 0
        before_end = ""
        for line in islice(read_lines(source), known.lines):
            count += 1
            if line.number not in rejected:
                if line.number == known.lines and line.ended:
                    # A line end that was appended to the last published line changes nothing.
                    without = digest.copy()
                    without.update(line.stored[:-1])
                    before_end = without.hexdigest()
                digest.update(line.stored)
        return count == known.lines and known.digest in {digest.hexdigest(), before_end}

    def start_over(self) -> None:
        """Forget earlier runs; saves the new run's id before a signal uses it, so that a crash can't lose it."""
        self.save(self.place)

    def save(self, position: FilePosition) -> None:
        """Save a position up to which every signal is in Redis or in the spool.

        Raises:
            ConfigurationError: the data directory is not writable.
        """
        self.place = position
        draft = self._path.with_suffix(".tmp")
        try:
            with draft.open("wb") as out:
                out.write(msgspec.json.encode(self.place))
                out.flush()
                os.fsync(out.fileno())
            draft.replace(self._path)
        except OSError as error:
            raise _unwritable_error(self._path, error) from error

    def _read_position(self) -> FilePosition | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=FilePosition)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise InvalidInput(
                f"can't read {self._path}, the saved position in {self.place.file} ({error}): "
                "repair it, or publish the whole file again with --again"
            ) from error


@contextmanager
def open_cursor(settings: Settings, file: Path, bank: str | None) -> Generator[FileCursor]:
    """Open and lock the cursor of a file until the context ends.

    Raises:
        StateConflict: another process is publishing the same file.
        ConfigurationError: the data directory is not writable.
    """
    whose = "\0".join([without_secrets(settings.redis_url), settings.team, bank or "", str(file.resolve())])
    name = hashlib.blake2b(whose.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    folder = settings.data_path / "signal-files"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / f"{name}.lock").open("wb")
    except OSError as error:
        raise _unwritable_error(folder, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateConflict(f"another process is publishing {file}") from None
        yield FileCursor(folder / f"{name}.json", file)


def _unwritable_error(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"can't write {path} ({error.strerror}): set TELLBACK_DATA_DIR")
