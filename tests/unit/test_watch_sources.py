"""The sources of `tellback watch`: a file that grows and rotates, and lines from a pipe."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tellback.commands.record import RecordFile
from tellback.contracts.commands import CommandRecord
from tellback.errors import InvalidInput
from tellback.tui.sources import CHUNK, FileSource, LineSource, RecordSource
from tests.support.waiting import wait_until


def record(id_: str, session: str = "s", text: str = "") -> CommandRecord:
    return CommandRecord(command_id=id_, session=session, command=["x"], exit_code=0, stdout_tail=text)


def line(id_: str) -> bytes:
    return msgspec.json.encode(record(id_)) + b"\n"


class SourceDelivery:
    """The records and messages that a source has delivered."""

    def __init__(self) -> None:
        self.batches: list[list[CommandRecord]] = []
        self.said = ""

    def __call__(self, records: list[CommandRecord], said: str) -> None:
        self.batches.append(records)
        self.said = said

    @property
    def ids(self) -> list[str]:
        return [record.command_id for batch in self.batches for record in batch]


@contextmanager
def running(source: RecordSource) -> Generator[SourceDelivery]:
    seen, stopped = SourceDelivery(), threading.Event()
    thread = threading.Thread(target=source.run, args=(seen, stopped))
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        thread.join(60)
        assert not thread.is_alive()


def test_a_file_is_read_with_its_rotated_set_and_followed(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "feedback_record.jsonl")
    big = "x" * 600_000
    for name in ("a", "b"):
        file.append(record(name, text=big))
    with running(FileSource(file.path)) as seen:
        wait_until(lambda: seen.ids == ["a", "b"], "what is there is delivered")
        for name in ("c", "d", "e"):
            file.append(record(name, text=big))
        wait_until(lambda: seen.ids == ["a", "b", "c", "d", "e"], "what comes is delivered, over rotations")


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "feedback_record.jsonl"
    with running(FileSource(path)) as seen:
        wait_until(lambda: seen.batches == [[]], "there is nothing yet")
        RecordFile(path).append(record("a"))
        wait_until(lambda: "a" in seen.ids, "it came")


def test_one_session_of_a_file(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "feedback_record.jsonl")
    file.append(record("a", "s1"))
    file.append(record("b", "s2"))
    with running(FileSource(file.path, "s2")) as seen:
        wait_until(lambda: seen.ids == ["b"], "what is there of it")
        file.append(record("c", "s1"))
        file.append(record("d", "s2"))
        wait_until(lambda: seen.ids == ["b", "d"], "what comes of it")


def test_lines_of_a_file_that_are_no_records_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "feedback_record.jsonl"
    path.write_bytes(line("a") + b'{"command_id": "to\n' + line("b"))
    with running(FileSource(path)) as seen:
        wait_until(lambda: seen.ids == ["a", "b"], "the others are delivered")
        assert seen.said == "1 unreadable line"


def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="can't read"):
        FileSource(tmp_path).run(SourceDelivery(), threading.Event())


def test_a_file_that_is_locked_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer may have been stopped while it held the lock."""
    file = RecordFile(tmp_path / "feedback_record.jsonl")
    file.append(record("a"))
    source = FileSource(file.path)
    monkeypatch.setattr(source._file._journal, "_timeout", 0.1)
    with (tmp_path / "feedback_record.jsonl.lock").open("rb") as lock, running(source) as seen:
        wait_until(lambda: "a" in seen.ids, "it is loaded")
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_until(lambda: "locked" in seen.said, "the lock is told")
        fcntl.flock(lock, fcntl.LOCK_UN)
        file.append(record("b"))
        wait_until(lambda: "b" in seen.ids and not seen.said, "it continues")


def test_many_records_come_in_portions(tmp_path: Path) -> None:
    """Keys are answered between two portions."""
    path = tmp_path / "feedback_record.jsonl"
    path.write_bytes(b"".join(line(str(number)) for number in range(2 * CHUNK + 1)))
    with running(FileSource(path)) as seen:
        wait_until(lambda: len(seen.ids) == 2 * CHUNK + 1, "all are there")
        assert [len(batch) for batch in seen.batches] == [CHUNK, CHUNK, 1]


def test_lines_come_from_a_pipe_as_they_are_written() -> None:
    reading, writing = os.pipe()
    with running(LineSource(reading)) as seen:
        os.write(writing, line("a") + line("b")[:20])
        wait_until(lambda: seen.ids == ["a"], "a line that has ended")
        os.write(writing, line("b")[20:] + b"no record\n\n")
        wait_until(lambda: seen.ids == ["a", "b"] and seen.said == "1 unreadable line", "the rest of it")
        os.write(writing, line("c").rstrip())
        os.close(writing)
        wait_until(lambda: seen.ids == ["a", "b", "c"], "the last line needs no end")
        assert seen.said == "ended · 1 unreadable line"
    os.close(reading)


def test_a_pipe_that_says_nothing_does_not_hold_the_end_back() -> None:
    reading, writing = os.pipe()
    with running(LineSource(reading)):
        pass
    os.close(reading)
    os.close(writing)
