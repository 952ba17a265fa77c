"""`feedback_record.jsonl`: many writers, rotation, killed writers, a full disk, and readers beside all that."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tellback
from tellback.commands.journal import MAX_BYTES, MAX_FILES, RotatingJournal
from tellback.commands.record import RecordFile, decode_record
from tellback.contracts.commands import CommandRecord
from tests.support.processes import run_program
from tests.support.waiting import wait_until

WRITER = """
import sys
from tellback.commands.record import RecordFile
from tellback.contracts.commands import CommandRecord
path, name, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
file = RecordFile(path)
for number in range(count):
    file.append(CommandRecord(command_id=f"{name}-{number}", session="s", command=["x"], stdout_tail="x" * size))
"""
FOR_EVER = 1 << 30


def record(id_: str, *, session: str = "s", text: str = "") -> CommandRecord:
    """A success."""
    return CommandRecord(command_id=id_, session=session, command=["x"], stdout_tail=text, exit_code=0)


def ids(file: RecordFile, *, rotated: bool = False) -> list[str]:
    return [found.command_id for found in file.load(rotated=rotated).records]


def start_writer(path: Path, name: str, count: int, size: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, str(count), str(size)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the current file, in a folder that does not exist yet."""
    return tmp_path / "data" / "feedback_record.jsonl"


@pytest.fixture
def file(path: Path) -> RecordFile:
    return RecordFile(path)


@pytest.mark.programs
def test_sixteen_processes_lose_and_tear_nothing(path: Path, file: RecordFile) -> None:
    """16 x 250 records of over 1 KB fill four files and more, none above its cap; each writer in order."""
    writers = [start_writer(path, f"w{number}", 250, 1_024) for number in range(16)]
    assert [writer.wait(timeout=100) for writer in writers] == [0] * 16
    loaded = file.load(rotated=True)
    assert not loaded.unreadable
    assert loaded.dropped == 0
    found = [name.command_id for name in loaded.records]
    assert len(found) == len(set(found)) == 4_000
    for number in range(16):
        own = [id_ for id_ in found if id_.startswith(f"w{number}-")]
        assert own == [f"w{number}-{index}" for index in range(250)]
    sizes = [part.stat().st_size for part in path.parent.iterdir() if part.name[-1].isdigit()]
    assert len(sizes) >= 4
    assert all(MAX_BYTES - 2_000 < size <= MAX_BYTES for size in sizes)


@pytest.mark.parametrize("round_", range(5))
@pytest.mark.programs
def test_a_killed_writer_costs_at_most_its_record_and_never_an_earlier_one(
    path: Path, file: RecordFile, round_: int
) -> None:
    """It is killed at any moment, often within a write of half a megabyte; the next writer continues."""
    file.append(record("first"))
    writer = start_writer(path, "w", FOR_EVER, 300_000)
    wait_until(lambda: path.with_name(f"{path.name}.1").exists(), "it has rotated")
    time.sleep(0.0137 * round_)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    before = file.load(rotated=True)
    file.append(record("after"))
    after = file.load(rotated=True)
    assert after.records[-1].command_id == "after"
    assert [one.command_id for one in before.records if one in after.records] == ids_of(before.records)
    numbers = [int(one.command_id[2:]) for one in after.records if one.command_id.startswith("w-")]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert len(after.unreadable) <= 1


def ids_of(records: list[CommandRecord]) -> list[str]:
    return [one.command_id for one in records]


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_torn_last_line_is_skipped_by_readers_and_ended_by_the_next_writer(
    path: Path, file: RecordFile, cut: int
) -> None:
    """Its beginning is no record. Where only the newline is missing, it is one."""
    file.append(record("a"))
    whole = path.read_bytes()
    file.append(record("b"))
    path.write_bytes(path.read_bytes()[: len(whole) + cut if cut > 0 else cut])
    kept, torn = (["a"], ["feedback_record.jsonl:2"]) if cut > 0 else (["a", "b"], [])
    assert (ids(file), file.load().unreadable) == (kept, torn)
    file.append(record("c"))
    assert (ids(file), file.load().unreadable) == ([*kept, "c"], torn)


@pytest.mark.parametrize("line", [b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"command_id": 1}', b"\0" * 50])
def test_what_is_no_record_is_passed_over(path: Path, file: RecordFile, line: bytes) -> None:
    """Whatever somebody put there is skipped, and the place is named."""
    file.append(record("a"))
    with path.open("ab") as raw:
        raw.write(line + b"\n\n")
    file.append(record("b"))
    assert decode_record(line) is None
    assert (ids(file), file.load().unreadable) == (["a", "b"], ["feedback_record.jsonl:2"])


def test_a_field_of_a_later_version_is_no_hindrance(path: Path, file: RecordFile) -> None:
    file.append(record("a"))
    fields = {**json.loads(path.read_bytes()), "command_id": "b", "of_the_future": [1]}
    with path.open("a") as raw:
        raw.write(json.dumps(fields) + "\n")
    assert ids(file) == ["a", "b"]


def test_an_agent_reads_the_current_file_and_a_gate_the_set(path: Path, file: RecordFile) -> None:
    """The set is read oldest first, across all of its files."""
    for number in range(5):
        file.append(record(str(number), text="x" * 400_000))
    assert ids_of(tellback.load_records(path)) == ["4"]
    assert ids_of(tellback.load_records(path, rotated=True)) == ["0", "1", "2", "3", "4"]
    assert tellback.load_records(path.with_name("absent.jsonl"), rotated=True) == []
    with pytest.raises(tellback.InvalidInput, match=rf"{path.parent} is a directory; name the file of records"):
        tellback.load_records(path.parent)


def test_the_file_is_rotated_at_its_cap_exactly(path: Path, file: RecordFile) -> None:
    """A line that still fits stays; one byte more begins the next file."""
    file.append(record("a"))
    room = MAX_BYTES - 2 * path.stat().st_size
    file.append(record("b", text="x" * room))
    assert path.stat().st_size == MAX_BYTES
    assert ids(file) == ["a", "b"]
    file.append(record("c"))
    assert ids(file) == ["c"]
    assert ids(file, rotated=True) == ["a", "b", "c"]


def test_a_record_larger_than_a_file_has_one_of_its_own(file: RecordFile) -> None:
    for id_, text in (("a", ""), ("b", "x" * (MAX_BYTES + 1)), ("c", "")):
        file.append(record(id_, text=text))
    assert ids(file) == ["c"]
    assert ids(file, rotated=True) == ["a", "b", "c"]


def test_the_oldest_file_drops_and_its_records_are_counted(path: Path, file: RecordFile) -> None:
    """Six files stay; who judges a session is told how many of its records are gone."""
    for number in range(9):
        file.append(record(str(number), session="odd" if number % 2 else "even", text="x" * 600_000))
    assert ids(file, rotated=True) == ["3", "4", "5", "6", "7", "8"]
    assert len([part for part in path.parent.iterdir() if part.name[-1].isdigit()]) == MAX_FILES
    assert file.load(rotated=True).dropped == 3
    assert file.load(rotated=True, session="even").dropped == 2
    assert file.load(rotated=True, session="odd").dropped == 1
    assert file.load(rotated=True, session="other").dropped == 0


def test_a_count_that_cannot_be_read_says_that_something_is_gone(path: Path, file: RecordFile) -> None:
    file.append(record("a"))
    path.with_name(f"{path.name}.dropped").write_text("[")
    assert file.load(rotated=True).dropped == 1


def test_a_rotation_that_was_cut_off_is_finished_without_a_loss(path: Path, file: RecordFile) -> None:
    """Killed between two renames, it leaves a number free; the next rotation fills it and drops nothing."""
    for number in range(6):
        file.append(record(str(number), text="x" * 600_000))
    journal = RotatingJournal(path)
    journal.all_paths()[1].replace(journal.all_paths()[0])  # .4 over .5, as the first step of dropping the oldest
    file.append(record("6", text="x" * 600_000))
    assert ids(file, rotated=True) == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_nobody_else_may_read_what_is_written(path: Path, file: RecordFile, umask: int) -> None:
    """Files have the mode 0600 and their folder 0700, whatever the umask."""
    before = os.umask(umask)
    try:
        for number in range(9):
            file.append(record(str(number), text="x" * 600_000))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(part.stat().st_mode) for part in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.programs
def test_a_full_disk_takes_nothing_and_says_so(path: Path, file: RecordFile) -> None:
    """The part of the record that was written is removed; earlier ones stay; later ones continue."""
    file.append(record("a"))
    code = f"""
import resource, signal
from tellback.commands.record import RecordFile
from tellback.contracts.commands import CommandRecord
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
file = RecordFile({str(path)!r})
try:
    file.append(CommandRecord(command_id="b", session="s", command=["x"], stdout_tail="x" * 8_000))
except OSError as error:
    print(error.strerror)
file.append(CommandRecord(command_id="c", session="s", command=["x"]))
"""
    done = run_program([sys.executable, "-c", code], check=True)
    assert done.stdout == "File too large\n"
    assert (ids(file), file.load().unreadable) == (["a", "c"], [])


def test_a_link_or_a_pipe_in_its_place_is_refused(path: Path, file: RecordFile, tmp_path: Path) -> None:
    """A project that somebody else prepared must not lead the writer elsewhere, or hold it up."""
    path.parent.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("")
    path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        file.append(record("a"))
    path.unlink()
    os.mkfifo(path)
    path.with_name(f"{path.name}.lock").unlink()
    with pytest.raises(OSError, match="no regular file"):
        file.append(record("a"))
    assert sorted(path.parent.iterdir()) == [path]
    assert victim.read_text() == ""


def test_a_lock_that_is_never_released_is_an_error_and_no_wait_for_ever(path: Path) -> None:
    """Its holder may have been stopped; writers and readers say so after the lock's timeout."""
    path.parent.mkdir()
    journal = RotatingJournal(path, timeout=0.1)
    with path.with_name(f"{path.name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="has been locked for"):
            journal.append(b"{}")
        with pytest.raises(TimeoutError, match="has been locked for"):
            journal.read(rotated=True)


def test_threads_of_one_process_keep_each_other_out(path: Path, file: RecordFile) -> None:
    def write(name: int) -> None:
        for number in range(100):
            RecordFile(path).append(record(f"{name}-{number}", text="x" * 5_000))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids(file, rotated=True))) == 800


def test_a_kept_set_can_be_read_where_nothing_can_be_written(path: Path, file: RecordFile) -> None:
    """Continuous integration hands it on so, without the lock."""
    file.append(record("a"))
    path.with_name(f"{path.name}.lock").unlink()
    path.chmod(0o400)
    assert ids(file, rotated=True) == ["a"]
    assert [part.name for part in path.parent.iterdir()] == [path.name]


def test_a_follower_sees_each_record_once_over_rotations(file: RecordFile) -> None:
    """The file may come only later, and may be rotated more than once between two looks."""
    steps: Iterator[list[str]] = iter([[], ["a"], ["b", "c"], [*"defg"], [], ["h"]])

    def polls() -> Iterator[None]:
        for step in steps:
            for id_ in step:
                file.append(record(id_, text="x" * 600_000))
            yield

    assert [seen.command_id for seen in file.follow(polls())] == [*"abcdefgh"]
    assert ids(file, rotated=True) == [*"cdefgh"]


def test_a_follower_begins_with_what_is_new_and_waits_for_the_end_of_a_line(path: Path, file: RecordFile) -> None:
    file.append(record("old"))
    line = json.dumps({"command_id": "new", "session": "s", "command": ["x"]}).encode() + b"\n"

    def polls() -> Iterator[None]:
        for part in (line[:10], line[10:]):
            with path.open("ab") as raw:
                raw.write(part)
            yield

    assert [seen.command_id for seen in file.follow(polls())] == ["new"]
