"""The spool's file, whatever a disk or a killed process makes of it: it never raises, and yields what was written."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellback.errors import Unavailable
from tellback.messaging.spool import Spool, SpooledEvent
from tellback.messaging.spool_file import HEAD_BYTES, MAGIC, MOST_BYTES, format_line, is_intake_stream, parse_line
from tellback.messaging.team_cache import SpoolLocation, TeamCache, TeamIdentity
from tellback.names import Family
from tests.support.spools import quarantined

STREAM: Final = "tb:{team.1}:in:events"
texts = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=20)
raws = st.binary(max_size=60).filter(lambda raw: b"\n" not in raw)
events = st.builds(SpooledEvent, texts, raws, texts, st.integers(0, 2**63))


def ignore(*_: object, **__: object) -> None: ...


def spool(folder: Path, **fields: Any) -> Spool:
    place = SpoolLocation(str(folder / "team"), "origin", shards=4)
    return Spool(place, Family.EVENTS, max_bytes=1 << 20, chunk=3, report=ignore, **fields)


def numbered(count: int) -> list[SpooledEvent]:
    return [SpooledEvent(STREAM, b'{"n":%d}' % number, "w", number) for number in range(count)]


def written(folder: Path, count: int) -> Path:
    """A file with so many events, of a process that is gone."""
    spool(folder, shared=True).append(numbered(count))
    (path,) = folder.rglob("*.spool")
    return path


def sent_from(folder: Path) -> list[SpooledEvent]:
    """Return what another process finds to send; then nothing may be left."""
    found: list[SpooledEvent] = []
    spool(folder).send_orphans(found.extend)
    assert list(folder.rglob("*.spool")) == []
    return found


@given(events, st.integers(0, 2**53))
def test_a_line_reads_as_it_was_written(event: SpooledEvent, stamp: int) -> None:
    assert parse_line(format_line(event, stamp)) == (stamp, event)


@given(st.binary(max_size=200))
@example(b"00000000\t\n")
@example(b"\n")
@example(b"")
def test_bytes_that_nobody_wrote_are_no_line(line: bytes) -> None:
    assert parse_line(line) is None


@given(events, st.data())
def test_a_line_with_bits_flipped_or_bytes_cut_is_none(event: SpooledEvent, data: st.DataObject) -> None:
    line = bytearray(format_line(event, 1))
    place = data.draw(st.integers(0, len(line) - 1))
    if data.draw(st.booleans()):
        line[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del line[place]
    assert parse_line(bytes(line)) is None


@pytest.mark.parametrize(
    "event", [SpooledEvent("a\tb", b""), SpooledEvent("a", b"x\ny"), SpooledEvent("a", b"", "w\n")]
)
def test_what_would_be_read_as_something_else_is_not_written(event: SpooledEvent) -> None:
    with pytest.raises(ValueError, match="one line"):
        format_line(event, 1)


@given(st.text(max_size=40))
@example("tb:{team.1}:in:turns")
@example("tb:{team.4}:in:events")
@example("tb:{team.01}:in:events")
@example("tb:{team.²}:in:events")
@example("tb:{team.1}:in:events:x")
@example("tb:{other.1}:in:events")
def test_only_the_keys_of_a_teams_intake_are_streams(stream: str) -> None:
    ours = {f"tb:{{team.{shard}}}:in:events" for shard in range(4)}
    assert is_intake_stream(stream, "team", 4, "events") == (stream in ours)
    assert all(is_intake_stream(each, "team", 4, "events") for each in ours)


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=8), st.integers(0, 1_000))
def test_a_file_that_is_damaged_anywhere_yields_what_was_written_and_nothing_else(
    flips: Sequence[tuple[int, int]], cut: int
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = written(folder, 12)
        content = bytearray(path.read_bytes())
        for place, bits in flips:
            content[place % len(content)] ^= bits
        path.write_bytes(content[: max(0, len(content) - cut)])
        found = sent_from(folder)
        expected = numbered(12)
        assert [event for event in expected if event in found] == found, "in order, each once, none that is not ours"


@given(st.binary(max_size=HEAD_BYTES), st.integers(0, HEAD_BYTES))
def test_a_damaged_header_loses_no_event(noise: bytes, place: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = written(folder, 5)
        content = bytearray(path.read_bytes())
        content[place : min(place + len(noise), HEAD_BYTES - 1)] = noise[: max(0, HEAD_BYTES - 1 - place)]
        path.write_bytes(content)
        assert sent_from(folder) == numbered(5)


def interrupted(folder: Path, chunks: int) -> list[SpooledEvent]:
    """Send as many chunks of three events as a process manages before it dies."""
    found: list[SpooledEvent] = []

    def send(some: Sequence[SpooledEvent]) -> None:
        if len(found) >= 3 * chunks:
            raise Unavailable
        found.extend(some)

    dying = spool(folder)
    with pytest.raises(Unavailable):
        dying.send_orphans(send)
    assert dying._orphan is not None
    with dying._orphan:  # its death lets go of the lock
        return found


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_the_next_process_goes_on_where_the_last_one_stopped(tmp_path: Path, chunks: int) -> None:
    written(tmp_path, 12)
    first = interrupted(tmp_path, chunks)
    assert [*first, *sent_from(tmp_path)] == numbered(12)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_mark_costs_one_chunk_sent_again(tmp_path: Path, slot: int) -> None:
    """The machine stops while one of the two slots is written; the other still holds."""
    written(tmp_path, 12)
    interrupted(tmp_path, 3)
    (path,) = tmp_path.rglob("*.spool")
    with path.open("r+b") as file:
        file.seek(len(MAGIC) + 30 * slot + 15)
        file.write(b"#" * 6)
    again = sent_from(tmp_path)
    assert again == numbered(12)[-len(again) :]
    assert 3 <= len(again) <= 6


def test_a_mark_behind_the_end_loses_nothing_that_comes_later(tmp_path: Path) -> None:
    """The machine lost power: the mark was on disk, the lines before it were not."""
    path = written(tmp_path, 12)
    interrupted(tmp_path, 3)
    (apart,) = tmp_path.rglob("*.spool")
    os.truncate(apart, HEAD_BYTES + 10)
    apart.rename(path)
    spool(tmp_path, shared=True).append(numbered(2))
    assert sent_from(tmp_path) == numbered(2)


def test_a_line_that_a_killed_process_left_open_spoils_no_other(tmp_path: Path) -> None:
    path = written(tmp_path, 2)
    with path.open("ab") as file:
        file.write(b"0123abcd\t17")
    spool(tmp_path, shared=True).append([SpooledEvent(STREAM, b"{}")])
    assert sent_from(tmp_path) == [*numbered(2), SpooledEvent(STREAM, b"{}")]
    assert quarantined(tmp_path) == [("damaged", b"0123abcd\t17")]


def test_what_is_quarantined_is_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    with path.open("ab") as file:
        file.write((b"x" * 1_000 + b"\n") * 3_000)
    assert sent_from(tmp_path) == numbered(1)
    kept = sum(len(line) for _, line in quarantined(tmp_path))
    assert MOST_BYTES * 0.9 < kept <= MOST_BYTES


def test_who_cannot_have_the_shared_file_keeps_its_events_in_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is held by a process that was stopped."""
    monkeypatch.setattr("tellback.messaging.spool.LOCK_SECONDS", 0.01)
    path = written(tmp_path, 1)
    with path.open("rb") as held:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX)
        late = spool(tmp_path, shared=True)
        late.append([SpooledEvent(STREAM, b"{}")])
        late.close()
        assert len(list(tmp_path.rglob("*.spool"))) == 2
    assert sorted(sent_from(tmp_path)) == sorted([*numbered(1), SpooledEvent(STREAM, b"{}")])


@given(st.integers(0, 400), st.integers(1, 255))
def test_what_a_host_remembers_of_a_team_is_right_or_nothing(place: int, bits: int) -> None:
    """Its number of shards decides where events go."""
    with TemporaryDirectory() as name:
        memory = TeamCache(name, "team", "redis://h:1/0")
        known = TeamIdentity(4, "abc", ("def",))
        memory.write(known)
        assert memory.read() == known
        (path,) = Path(name).rglob("*.json")
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= bits
        path.write_bytes(content)
        assert memory.read() is None


def test_a_process_that_ends_reads_no_large_rest_into_memory(tmp_path: Path) -> None:
    """It moves a small one to the shared file, and read all of 256 MiB to find that it was not small."""
    ended, large = spool(tmp_path), [SpooledEvent(STREAM, b"x" * 1_000, "w", number) for number in range(700)]
    ended.append(large)
    tracemalloc.start()
    try:
        ended.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 256 << 10
    assert sent_from(tmp_path) == large
