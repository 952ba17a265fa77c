"""A disk that refuses one operation of the spool, or all from one on: what was accepted is sent once, in order."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from tellback.errors import SpoolFull
from tellback.messaging import spool_file
from tellback.messaging.append_call import Bounds
from tellback.messaging.lane import AppendOutcome, append_all
from tellback.messaging.spool import Spool, SpooledEvent
from tellback.messaging.team_cache import SpoolLocation
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import Shard, stream_of

STREAM = stream_of(Shard("default", 0), Family.EVENTS)
CALLS = ((os, "makedirs"), (os, "open"), (os, "rename"), (os, "unlink"), (os, "pwrite"), (fcntl, "flock"))


class FailingDisk:
    """Counts the operations that a disk may refuse; it refuses one, or that one and all that follow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations: list[str] = []
        self._first, self._error, self._lasting = 0, 0, False
        for module, name in CALLS:
            monkeypatch.setattr(module, name, self._watched(name, getattr(module, name)))
        monkeypatch.setattr(spool_file._OpenedFile, "truncate", self._watched("truncate", FileIO.truncate))
        monkeypatch.setattr(spool_file._OpenedFile, "write", self._watched("write", self._write))

    def fail(self, first: int, error: int = 0, *, lasting: bool = False) -> None:
        """Refuse the operation of this number, counted from 1; 0 refuses none."""
        self.operations = []
        self._first, self._error, self._lasting = first, error, lasting

    def recover(self) -> None:
        """Refuse no further operation."""
        self._first = 0

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.operations.append(name)
            number = len(self.operations)
            if self._first and (number == self._first or (self._lasting and number > self._first)):
                raise OSError(self._error, os.strerror(self._error))
            return function(*args, **kwargs)

        return call

    def _write(self, file: FileIO, block: memoryview) -> int:
        # A disk that becomes full takes a part first.
        fits = len(block) // 2 if len(self.operations) + 1 == self._first else len(block)
        return FileIO.write(file, block[:fits])


class SpoolingProcess:
    """A process with a spool. What the disk refuses stays in its memory, as in a lane of the publisher."""

    def __init__(self, folder: Path, database: Database, writer: str) -> None:
        place = SpoolLocation(str(folder / "default"), "here", shards=1)
        self.spool = Spool(place, "events.0", max_bytes=1 << 20, chunk=2)
        self._database = database
        self._writer, self._number = writer, 0
        self._in_memory: list[SpooledEvent] = []
        self.accepted: list[bytes] = []

    def publish(self, count: int) -> None:
        """Spool some events, as while Redis is away."""
        for _ in range(count):
            self._number += 1
            raw = b'"%s %d"' % (self._writer.encode(), self._number)
            self._in_memory.append(SpooledEvent(STREAM, raw, self._writer, self._number))
        with suppress(SpoolFull):
            self.spool.append(self._in_memory)
            self.accepted += [event.raw for event in self._in_memory]
            self._in_memory = []

    def send(self) -> None:
        """Send all files, as when Redis is back; the publisher tries again after an error of the disk."""
        with suppress(OSError):
            self.spool.send_own(self._append)
            self.spool.send_orphans(self._append)

    def _append(self, events: Any) -> None:
        outcome = AppendOutcome()
        append_all(self._database, Bounds(1_000, 1 << 30), 10, [events], [outcome])
        assert outcome.trouble is None


def play(folder: Path, database: Database, disk: FailingDisk) -> tuple[list[bytes], list[bytes]]:
    """Publish and send through two processes, of which one dies; return what was accepted and what was appended."""
    first, second = SpoolingProcess(folder, database, "a"), SpoolingProcess(folder, database, "b")
    first.publish(3)
    first.publish(3)
    first.send()
    first.publish(3)
    first.spool.abandon()
    second.publish(3)
    second.send()
    second.publish(3)
    disk.recover()
    second.publish(1)
    second.send()
    second.send()
    second.spool.close()
    entries = database.command("XRANGE", STREAM, "-", "+")
    return first.accepted + second.accepted, [fields[1] for _, fields in entries]


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
def test_each_accepted_event_is_sent_once(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, *, lasting: bool
) -> None:
    disk = FailingDisk(monkeypatch)
    disk.fail(0)
    accepted, appended = play(tmp_path / "0", database, disk)
    operations = disk.operations
    assert sorted(appended) == sorted(accepted)
    assert set(operations) == {"write", "truncate", *(name for _, name in CALLS)} - {"rename"}
    for number in range(1, len(operations) + 1):
        database.command("FLUSHALL")
        disk.fail(number, error, lasting=lasting)
        accepted, appended = play(tmp_path / str(number), database, disk)
        where = f"operation {number}, {operations[number - 1]}"
        assert sorted(set(appended)) == sorted(appended), where
        assert set(accepted) <= set(appended), where
        for writer in (b'"a', b'"b'):
            own = [raw for raw in appended if raw.startswith(writer)]
            assert own == sorted(own, key=lambda raw: int(raw[3:-1])), where
    database.command("FLUSHALL")


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS, errno.EACCES, errno.ENOTDIR])
def test_a_client_is_closed_on_a_disk_that_refuses_everything(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, *, sends: bool
) -> None:
    """The end of the program raised that it could not delete a file, and left the other files open."""
    disk = FailingDisk(monkeypatch)
    first, second = SpoolingProcess(tmp_path, database, "a"), SpoolingProcess(tmp_path, database, "b")
    first.publish(3)
    if sends:
        first.send()
    disk.fail(1, error, lasting=True)
    first.spool.close()
    disk.recover()
    second.send()
    entries = database.command("XRANGE", STREAM, "-", "+")
    assert [fields[1] for _, fields in entries] == first.accepted
    assert len(first.accepted) == 3
    second.spool.close()


def test_tool_calls_leave_room_for_answers_and_commands(tmp_path: Path) -> None:
    """In an outage they filled the whole cap, and no answer to a user found room on the disk."""
    place = SpoolLocation(str(tmp_path / "default"), "here")
    spools = {family: Spool(place, f"{family}.0", max_bytes=40_000, chunk=100) for family in Family}

    def fill(family: Family) -> int:
        event = SpooledEvent(stream_of(Shard("default", 0), family), b"x" * 1_000, "w", 1)
        taken = 0
        with suppress(SpoolFull):
            while taken < 100:
                spools[family].append([event])
                taken += 1
        with pytest.raises(SpoolFull, match=f"bytes that {family} may fill"):
            spools[family].append([event])
        return taken

    counts = [fill(family) for family in (Family.EVENTS, Family.SIGNALS, Family.TURNS, Family.COMMANDS)]
    assert counts[0] > 30
    assert counts[1] == 0
    assert counts[2] >= 3
    assert counts[3] == 0, "the cap of all together stands"
    for spool in spools.values():
        spool.close()
