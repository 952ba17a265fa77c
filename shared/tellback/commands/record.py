"""Command records: built from a submission and its result, and kept in `feedback_record.jsonl` on this host.

A record without an exit code says in `error` why there is none.

Every text is redacted. The file has one JSON object a line: `RotatingJournal` appends and rotates it, and this module
encodes, loads and follows its records. Requirements C-59 and C-60.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tellback.commands.journal import RotatingJournal
from tellback.contracts.commands import CommandRecord, CommandSubmitted, StreamFlags
from tellback.errors import InvalidInput
from tellback.names import RECORD_FILE
from tellback.redaction import Redactor

if TYPE_CHECKING:
    from tellback.commands.runner import CommandResult  # a client that only submits does not load the runner

HISTORY_CHARS: Final = 2_048  # characters of each text in an entry of a session's history


class CommandAttempt(NamedTuple):
    """The number of an attempt, counted from 1, and where it ran."""

    number: int = 1
    host: str | None = None
    worker: str | None = None


FIRST_ATTEMPT: Final = CommandAttempt()


def build_record(
    submitted: CommandSubmitted,
    outcome: CommandResult,
    *,
    redactor: Redactor,
    cwd: str,
    attempt: CommandAttempt = FIRST_ATTEMPT,
) -> CommandRecord:
    """Build the record of a command that was tried in the directory `cwd`."""
    return CommandRecord(
        **_submitted_fields(submitted, redactor, cwd, attempt),
        stdout_tail=outcome.stdout.text,
        stderr_tail=outcome.stderr.text,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        duration_ms=outcome.duration_ms,
        started_at=iso_timestamp(outcome.started_at) if outcome.started_at else None,
        error=None if outcome.error is None else redactor.text(replace_surrogates(outcome.error)),
        truncated=StreamFlags(stdout=outcome.stdout.truncated, stderr=outcome.stderr.truncated),
        redacted=StreamFlags(stdout=outcome.stdout.redacted, stderr=outcome.stderr.redacted),
        output_bytes=outcome.stdout.size + outcome.stderr.size,
    )


def record_without_run(
    submitted: CommandSubmitted, error: str, attempt: CommandAttempt = FIRST_ATTEMPT, *, cwd: str | None = None
) -> CommandRecord:
    """Build the record of a command without a known exit: refused, cancelled, or lost with its worker.

    `cwd` is the directory in which it ran, if known; the requested directory does not prove that it ran there.
    """
    redactor = Redactor()
    return CommandRecord(
        **_submitted_fields(submitted, redactor, cwd, attempt), error=redactor.text(replace_surrogates(error))
    )


def history_entry(record: CommandRecord) -> dict[str, Any]:
    """Return a record's entry in its session's history, without `kind` and `at`."""
    return {
        "command_id": record.command_id,
        "parent_command_id": record.parent_command_id,
        "command": _history_argv(record.command),
        "exit_code": record.exit_code,
        "error": record.error and record.error[:HISTORY_CHARS],
        "duration_ms": record.duration_ms,
        "worker": record.worker,
        "stdout_tail": record.stdout_tail[-HISTORY_CHARS:],
        "stderr_tail": record.stderr_tail[-HISTORY_CHARS:],
        "agent_note": record.agent_note,
    }


def _history_argv(argv: list[str]) -> list[str]:
    """Return the arguments that fit into a history entry, the last one truncated."""
    # One argument may be as long as all of them together (64 KiB), so each is truncated too.
    kept: list[str] = []
    room = HISTORY_CHARS
    for argument in argv:
        if room <= 0:
            break
        kept.append(argument[:room])
        room -= len(argument) + 1
    return kept


def iso_timestamp(at: datetime) -> str:
    """Format a time as ISO 8601 in UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def replace_surrogates(text: str) -> str:
    """Replace what is not Unicode, such as the bytes of a file name in another encoding."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _submitted_fields(
    submitted: CommandSubmitted, redactor: Redactor, cwd: str | None, attempt: CommandAttempt
) -> dict[str, Any]:
    return {
        "command_id": submitted.command_id,
        "session": replace_surrogates(submitted.session),
        "command": redactor.argv(replace_surrogates(argument) for argument in submitted.argv),
        "parent_command_id": None if submitted.parent is None else replace_surrogates(submitted.parent),
        "input_command_ids": list(submitted.inputs),
        "cwd": None if cwd is None else redactor.text(replace_surrogates(cwd)),
        "agent_note": None if submitted.note is None else redactor.text(replace_surrogates(submitted.note)),
        "attempt": attempt.number,
        "host": attempt.host,
        "worker": attempt.worker,
    }


_decoder = msgspec.json.Decoder(CommandRecord)


@dataclass(frozen=True, slots=True)
class LoadedRecords:
    """The records of a file or a rotated set."""

    records: list[CommandRecord]  # oldest first
    unreadable: list[str]  # `file:line` of lines that hold no record, such as a killed writer's partial line
    dropped: int  # older records that were lost to rotation


class RecordFile:
    """The records at one path, and in the rotated files beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._journal = RotatingJournal(self.path)

    def append(self, record: CommandRecord) -> None:
        """Append one record; afterwards the death of any process cannot damage it.

        Raises:
            OSError: the record could not be written, and no part of it was.
        """
        self._journal.append(msgspec.json.encode(record))

    def load(self, *, rotated: bool = False, session: str | None = None) -> LoadedRecords:
        """Load the current file, as an agent does at each turn, or with `rotated` the whole set.

        Raises:
            OSError: a file cannot be read. A file that does not exist holds no records.
        """
        records: list[CommandRecord] = []
        unreadable: list[str] = []
        for path, data in self._journal.read(rotated=rotated):
            for number, line in enumerate(data.split(b"\n"), 1):
                if not line:
                    continue
                record = decode_record(line)
                if record is None:
                    unreadable.append(f"{path.name}:{number}")
                elif session is None or record.session == session:
                    records.append(record)
        total, sessions = self._journal.dropped_counts()
        return LoadedRecords(records, unreadable, total if session is None else sessions.get(session, 0))

    def follow(self, polls: Iterable[object]) -> Iterator[CommandRecord]:
        """Yield new records from now on, across rotations; check once for each item of `polls`."""
        return self._follow_lines(_FollowPosition(self._journal), polls)

    @staticmethod
    def _follow_lines(reader: _FollowPosition, polls: Iterable[object]) -> Iterator[CommandRecord]:
        try:
            for _ in polls:
                yield from filter(None, map(decode_record, reader.new_lines()))
        finally:
            reader.close()


class _FollowPosition:
    """The position of a follower: an open file, which stays the same when it is renamed, and the offset in it."""

    def __init__(self, journal: RotatingJournal) -> None:
        self._journal = journal
        self._file = self._open(journal.path)
        if self._file is not None:
            self._complete_lines()  # skip what is there already

    def new_lines(self) -> Iterator[bytes]:
        """Yield the lines that were completed since the last call."""
        if self._file is None:
            self._file = self._open(self._journal.path)
        while self._file is not None:
            following = self._journal.open_next(os.fstat(self._file.fileno()))
            # After `open_next`: a file that has a successor does not grow any more, so nothing is missed.
            yield from self._complete_lines()
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
        self._file.seek(start + ended)  # a writer may still truncate its partial line after an error
        return [line for line in data[:ended].split(b"\n") if line]

    @staticmethod
    def _open(path: Path) -> IO[bytes] | None:
        try:
            return path.open("rb")
        except FileNotFoundError:
            return None


def load_records(path: str | os.PathLike[str] = RECORD_FILE, *, rotated: bool = False) -> list[CommandRecord]:
    """Load the records of a `feedback_record.jsonl`, oldest first, as an agent does at each turn.

    Only the current file is read, which bounds the cost of a turn; pass `rotated` for the whole set, as gates and
    continuous integration do. Lines that are not records are skipped. A file that does not exist holds no records.
    Requirement C-61.

    Raises:
        InvalidInput: `path` is a directory.
        OSError: the file cannot be read.
    """
    if Path(path).is_dir():
        raise InvalidInput(f"{os.fspath(path)} is a directory; name the file of records, such as {RECORD_FILE} in it")
    return RecordFile(path).load(rotated=rotated).records


def decode_record(line: bytes) -> CommandRecord | None:
    """Decode the record in a line, or return None if it holds none, such as a partial JSON object."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
