"""Small files of an agent host on a full disk, and those of sessions that have ended: no call leaves one behind."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tellback import Settings
from tellback.commands.journal import RotatingJournal
from tellback.hook.claimed_files import unanswered_requests
from tellback.messaging.team_cache import TeamCache, TeamIdentity
from tests.support.disks import fill
from tests.support.hooks import run_hook, tool_event

pytestmark = pytest.mark.faults


def test_a_full_disk_is_not_littered_with_empty_files(small_disk: Path) -> None:
    """A file that is replaced as a whole is written beside first; each failed call used to leave one."""
    memory = TeamCache(str(small_disk), "default", "redis://h:1/0")
    memory.write(TeamIdentity(4, "abc"))
    questions = unanswered_requests(str(small_disk), "m")
    questions.keep("a")
    fill(small_disk)
    before = sorted(small_disk.rglob("*"))
    with pytest.raises(OSError, match="No space left"):
        memory.write(TeamIdentity(7, "abc"))
    with pytest.raises(OSError, match="No space left"):
        questions.keep("b")
    assert sorted(small_disk.rglob("*")) == before
    assert [*questions.claim()] == ["a"]


def test_records_go_on_when_the_disk_is_full_and_the_oldest_must_go(small_disk: Path) -> None:
    """Their count needs a new file; the lines that are to go give it the room."""
    journal = RotatingJournal(small_disk / "records.jsonl", max_bytes=100_000)
    for number in range(12):
        journal.append(b'{"session":"s","number":%d,"text":"%s"}' % (number, b"x" * 49_000))
    fill(small_disk)
    journal.append(b'{"session":"s","text":"%s"}' % (b"y" * 49_000))
    assert journal.path.read_bytes().startswith(b'{"session":"s","text":"y')
    assert journal.dropped_counts() == (2, {"s": 2})


def test_questions_of_earlier_hooks_outlive_one_that_cannot_ask_them(settings: Settings) -> None:
    away = msgspec.structs.replace(settings, redis_url="redis://127.0.0.1:1/0")
    questions = unanswered_requests(settings.data_dir, "default\ns1\nagent\ns1")
    asked = [f"op{number}" for number in range(6)]
    for operation in asked:
        questions.keep(operation)
    run_hook(away, tool_event())
    assert sorted([*questions.claim(), *questions.claim()]) == asked


def test_questions_that_are_too_old_to_have_an_answer_are_removed(settings: Settings) -> None:
    questions = unanswered_requests(settings.data_dir, "a session that has ended")
    questions.keep("old")
    (path,) = (settings.data_path / "hook" / "unanswered").iterdir()
    os.utime(path, (0, 0))
    assert unanswered_requests(settings.data_dir, "another").claim() == {}
    assert not path.exists()
