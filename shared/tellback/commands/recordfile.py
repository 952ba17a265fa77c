"""`feedback_record.jsonl`: the records of the commands that ran on this host, one JSON object a line.

Source: runtime-feedback-loops, "Rotation policy, not a single file".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from tellback.commands.journal import Journal
from tellback.contracts.commands import CommandRecord
from tellback.names import RECORD_FILE

_decoder = msgspec.json.Decoder(CommandRecord)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file, or a rotated set, says."""

    records: list[CommandRecord]  # oldest first
    unreadable: list[str]  # `file:line` of what is no record, such as what a killed writer left
    dropped: int  # older records that have gone with the oldest file


class RecordFile:
    """The records at one path, and in the rotated files beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the path of the current file, which need not exist."""
        self.path = Path(path)
        self._journal = Journal(self.path)

    def append(self, record: CommandRecord) -> None:
        """Add one record; it survives the death of this process, and of any other.

        Raises:
            OSError: it could not be kept, for the reason that the error says; nothing of it was.
        """
        self._journal.append(msgspec.json.encode(record))

    def load(self, *, rotated: bool = False, session: str | None = None) -> Loaded:
        """The current file, which is what an agent reads at each turn, or with `rotated` all that is kept.

        Raises:
            OSError: it cannot be read. A file that does not exist holds no records.
        """
        records: list[CommandRecord] = []
        unreadable: list[str] = []
        for path, data in self._journal.read(rotated=rotated):
            for number, line in enumerate(data.split(b"\n"), 1):
                if not line:
                    continue
                record = decode(line)
                if record is None:
                    unreadable.append(f"{path.name}:{number}")
                elif session is None or record.session == session:
                    records.append(record)
        total, sessions = self._journal.dropped()
        return Loaded(records, unreadable, total if session is None else sessions.get(session, 0))

    def follow(self, polls: Iterable[object]) -> Iterator[CommandRecord]:
        """Records as they come, from now on, over rotations; looks once for each item of `polls`."""
        return self._follow(_Reader(self._journal), polls)

    @staticmethod
    def _follow(reader: _Reader, polls: Iterable[object]) -> Iterator[CommandRecord]:
        try:
            for _ in polls:
                yield from filter(None, map(decode, reader.lines()))
        finally:
            reader.close()


class _Reader:
    """Where a follower is: a file, which keeps its place when it is renamed, and what was read of it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._file = self._open(journal.path)
        if self._file is not None:
            self._complete_lines()  # what is there already

    def lines(self) -> Iterator[bytes]:
        """Lines that have been ended since the last look."""
        if self._file is None:
            self._file = self._open(self._journal.path)
        while self._file is not None:
            following = self._journal.open_after(os.fstat(self._file.fileno()))
            yield from self._complete_lines()  # after that look: a file that another follows grows no more
            if following is None:
                return
            self._file.close()
            self._file = following

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _complete_lines(self) -> list[bytes]:
        assert self._file is not None
        start = self._file.tell()
        data = self._file.read()
        ended = data.rfind(b"\n") + 1
        self._file.seek(start + ended)  # a line without its end may be taken back by its writer
        return [line for line in data[:ended].split(b"\n") if line]

    @staticmethod
    def _open(path: Path) -> IO[bytes] | None:
        try:
            return path.open("rb")
        except FileNotFoundError:
            return None


def load_records(path: str | os.PathLike[str] = RECORD_FILE, *, rotated: bool = False) -> list[CommandRecord]:
    """The records of a `feedback_record.jsonl`, oldest first: what an agent reads at each turn.

    Reads the current file alone, so that the cost of a turn is bounded; with `rotated` the whole set, as gates and
    continuous integration do. Lines that are no records are passed over. A file that does not exist holds none. Source:
    runtime-feedback-loops.

    Raises:
        OSError: the file cannot be read.
    """
    return RecordFile(path).load(rotated=rotated).records


def decode(line: bytes) -> CommandRecord | None:
    """The record that a line holds, if it holds one. The beginning of a JSON object is none."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
