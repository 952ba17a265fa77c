"""How far a file of signals was published, so that a run that died goes on where it stopped, and no line counts twice.

It stands in the host's data directory, one small file for each file, bank, team and Redis. Ids alone would not do: a
bank remembers 50,000, and a file may have more lines. The place alone would not do either: what was published since
it was last written down is published again, under the same ids, and counts once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from tellback.cli.signal_lines import digest_of_nothing
from tellback.errors import ConfigurationError, InvalidInput, StateConflict
from tellback.settings import Settings
from tellback.urls import without_secrets

_BLOCK: Final = 1 << 20


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file is published: lines, bytes, and their hash. Ids of its signals are made of `run` and the line."""

    file: str
    run: str
    lines: int = 0
    offset: int = 0
    digest: str = ""
    rejects: str = ""
    rejects_size: int = 0


class Cursor:
    """The place in one file, which this process alone moves."""

    def __init__(self, path: Path, file: Path) -> None:
        """Take where the place is kept, and the file."""
        self._path = path
        self.digest: Any = digest_of_nothing()
        self.place = Place(file=str(file.resolve()), run=secrets.token_hex(8))

    def resume(self, source: IO[bytes]) -> None:
        """Go to where the last run stopped, if there was one.

        Raises:
            InvalidInput: what that run published of the file has changed, or nobody can read where it stopped.
        """
        known = self._read()
        if known is None:
            self.begin()
            return
        left = known.offset
        while left and (block := source.read(min(left, _BLOCK))):
            self.digest.update(block)
            left -= len(block)
        if left or self.digest.hexdigest() != known.digest:
            raise InvalidInput(
                f"{self.place.file} has changed before the end of line {known.lines}, up to which it was published: "
                "undo that, or publish the whole file once more with --again"
            )
        self.place = known
        self._pass_line_end(source)

    def begin(self) -> None:
        """Forget earlier runs: the lines of this one have ids of their own, written down before the first is used."""
        self.save(self.place)

    def save(self, place: Place) -> None:
        """Everything up to this place is in Redis or in the spool.

        Raises:
            ConfigurationError: the data directory cannot be written.
        """
        self.place = place
        draft = self._path.with_suffix(".tmp")
        try:
            with draft.open("wb") as out:
                out.write(msgspec.json.encode(self.place))
                out.flush()
                os.fsync(out.fileno())
            draft.replace(self._path)
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def _read(self) -> Place | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Place)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise InvalidInput(
                f"{self._path} tells how far {self.place.file} was published, and cannot be read ({error}): "
                "mend it, or publish the whole file once more with --again"
            ) from error

    def _pass_line_end(self, source: IO[bytes]) -> None:
        """A last line that had no end may have got one since: that is no line of its own."""
        position = source.tell()
        if position == 0:
            return
        source.seek(position - 1)
        if source.read(1) != b"\n" and (end := source.read(1)) == b"\n":
            self.digest.update(end)
            self.place = msgspec.structs.replace(self.place, offset=position + 1, digest=self.digest.hexdigest())
            return
        source.seek(position)


@contextmanager
def cursor_of(settings: Settings, file: Path, bank: str | None) -> Generator[Cursor]:
    """The cursor of a file on its way to a bank; held until the context ends.

    Raises:
        StateConflict: another process publishes the same file.
        ConfigurationError: the data directory cannot be written.
    """
    whose = "\0".join([without_secrets(settings.redis_url), settings.team, bank or "", str(file.resolve())])
    name = hashlib.blake2b(whose.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    folder = settings.data_path / "signal-files"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / f"{name}.lock").open("wb")
    except OSError as error:
        raise _unwritable(folder, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateConflict(f"another process publishes {file} at this moment") from None
        yield Cursor(folder / f"{name}.json", file)


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{path} cannot be written ({error.strerror}): set TELLBACK_DATA_DIR")
