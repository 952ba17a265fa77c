"""`tellback signal`: files of signals in every state, each line once however often the command dies."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tellback import Settings, Tellback, connect
from tellback.cli import signal_publishing
from tellback.cli.signal_file import SignalLine
from tellback.state.database import Database
from tellback.state.teams import Teams
from tests.support.redis_server import RedisServer
from tests.support.signal_files import counted, die_at, line, run, summary
from tests.support.signals import Angles, Bench, item
from tests.support.workers import environment


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "signals.jsonl"


def test_a_file_teaches_a_bank(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    file.write_text("".join(line() for _ in range(1_201)) + "\n")
    done = run(settings, file, "--session", "s")
    assert done.exit_code == 0, done.output
    assert done.stdout == "1,201 signals published to bank b\n"
    assert done.stderr == "", "silent in a pipe"
    assert counted(tb, bench) == 1_201
    assert tb.history("s")


def test_a_finished_file_is_not_published_twice_and_a_grown_one_goes_on(
    bench: Bench, settings: Settings, tb: Tellback, file: Path
) -> None:
    file.write_text(line(fact_id="f1") + line(fact_id="f2"))
    assert summary(run(settings, file, "--json")) == {
        "file": str(file), "bank": "b", "published": 2, "rejected": 0, "skipped": 0,
    }  # fmt: skip
    again = run(settings, file)
    assert again.stdout == "0 signals published to bank b, 2 lines already published\n"
    assert again.exit_code == 0
    with file.open("a") as grown:
        grown.write(line(fact_id="f3"))
    found = summary(run(settings, file, "--json"))
    assert (found["published"], found["skipped"]) == (1, 2)
    assert counted(tb, bench) == 3
    assert summary(run(settings, file, "--json", bank="other"))["published"] == 3, "each bank has its own place"
    assert summary(run(settings, file, "--json", "--again"))["published"] == 3
    assert counted(tb, bench) == 6


def test_blank_lines_are_not_counted_as_published(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    file.write_text(line(fact_id="f1") + "\n \n" + line(fact_id="f2") + "\n")
    assert summary(run(settings, file, "--json"))["published"] == 2
    assert run(settings, file).stdout == "0 signals published to bank b, 2 lines already published\n"
    assert counted(tb, bench) == 2


def test_a_run_that_died_after_publishing_goes_on_and_counts_each_line_once(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies between publishing a part and writing that down: the part goes out again, under the same ids."""
    file.write_text("".join(line(fact_id=f"f{i}") for i in range(1_700)))
    saves = die_at(monkeypatch, 4)
    stopped = run(settings, file)
    assert stopped.exit_code == 130
    assert "run the same command again" in stopped.stderr
    assert saves == [0, 500, 1_000, 1_500]
    found = summary(run(settings, file, "--json"))
    assert (found["published"], found["skipped"]) == (700, 1_000)
    assert counted(tb, bench) == 1_700


def test_standard_input_that_is_stopped_before_its_first_line_is_not_called_published(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_source: object) -> Iterator[SignalLine]:
        raise KeyboardInterrupt

    monkeypatch.setattr(signal_publishing, "read_lines", interrupt)
    stopped = run(settings, "-")
    assert (stopped.exit_code, stopped.stderr) == (130, "tellback: stopped; the first lines may be published\n")


# A timer of the kernel ends the process without a word, at any instruction. A kill from here would come whenever this
# process gets a core, by when a fast host has published the whole file.
PUBLISH_AND_DIE = """
import random, signal, sys
from tellback.cli.app import main
from tellback.cli.signal_file import FileCursor

save, least = FileCursor.save, int(sys.argv.pop(1))

def save_and_die_soon(cursor, position):
    save(cursor, position)
    if position.lines >= least and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0):
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.02))

FileCursor.save = save_and_die_soon
main()
"""


@pytest.mark.faults
def test_killed_runs_lose_and_repeat_nothing(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    """Two runs end wherever they are; the third run completes the file."""
    count = 8_000
    file.write_text("".join(line(fact_id=f"f{i % 50}", query=f"a@{i % 7}") for i in range(count)))
    publish = ["signal", str(file), "--bank", "b"]
    for least in ("500", "3000"):
        arguments = [sys.executable, "-c", PUBLISH_AND_DIE, least, *publish]
        killed = subprocess.run(arguments, env=environment(settings), check=False)
        assert killed.returncode == -signal.SIGALRM, "it was killed in the middle"
    command = [sys.executable, "-c", "from tellback.cli.app import main; main()", *publish]
    last = subprocess.run(command, env=environment(settings), capture_output=True, check=True)
    assert b"already published" in last.stdout
    assert last.stderr == b""
    assert counted(tb, bench) == count


def test_a_file_whose_published_part_has_changed_is_refused(
    bench: Bench, settings: Settings, tb: Tellback, file: Path
) -> None:
    """Nobody can tell which of its signals count already: the user says what to do."""
    file.write_text(line(fact_id="f1") + line(fact_id="f2"))
    run(settings, file)
    for text in (line(fact_id="f9") + line(fact_id="f2") + line(), line(fact_id="f1"), ""):
        file.write_text(text)
        done = run(settings, file)
        assert done.exit_code == 2
        assert "was published up to line 2, and that part has changed" in done.stderr
        assert "--again" in done.stderr
    assert counted(tb, bench) == 2


def test_marks_at_the_beginning(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + line().encode())
    assert run(settings, file).exit_code == 0
    assert counted(tb, bench) == 1
    file.write_text(line(), "utf-16")
    done = run(settings, file, "--again")
    assert done.exit_code == 1
    assert "UTF-16: convert it to UTF-8" in done.stderr


def test_a_torn_last_line_is_read_again_when_it_is_whole(
    bench: Bench, settings: Settings, tb: Tellback, file: Path
) -> None:
    whole = line(fact_id="f2")
    file.write_text(line(fact_id="f1") + whole[:30])
    done = run(settings, file)
    assert done.exit_code == 1
    assert "the next run reads it again" in done.stderr
    with file.open("a") as rest:
        rest.write(whole[30:-1])
    assert run(settings, file).exit_code == 0, "a last line needs no end"
    with file.open("a") as rest:
        rest.write("\n" + line(fact_id="f3") + "{")
    done = run(settings, file)
    assert f"{file}:4: " in done.stderr, "the end of a line that came later is no line of its own"
    assert counted(tb, bench) == 3


def test_lines_may_name_their_banks(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    file.write_text(line(bank="one") + line() + line(bank="two") + line(bank="one"))
    assert run(settings, file, bank="rest").exit_code == 0
    bench.consume()
    assert {bank: tb.bank(bank).stats().signal_count for bank in ("one", "two", "rest")} == {
        "one": 2,
        "two": 1,
        "rest": 1,
    }
    done = run(settings, file, bank=None)
    assert done.exit_code == 1
    assert f"{file}:2: no bank" in done.stderr
    assert done.stdout == "3 signals published, 1 rejected\n"


def test_standard_input(bench: Bench, settings: Settings, tb: Tellback) -> None:
    """No place is kept of it; lines with ids of their own count once all the same."""
    text = (line() + line(signal_id="mine") + "{").encode()
    for _ in range(2):
        done = run(settings, "-", stdin=text)
        assert done.exit_code == 1
        assert done.stderr.startswith("standard input:3: ")
        assert "next run" not in done.stderr
    assert counted(tb, bench) == 3


def test_two_at_once_and_what_cannot_be_read(settings: Settings, database: Any, file: Path, tmp_path: Path) -> None:
    del database
    assert "No such file" in run(settings, file).stderr
    assert run(settings, file).exit_code == 2
    assert run(settings, tmp_path).exit_code == 2
    file.write_text(line())
    from tellback.cli.signal_file import open_cursor

    with open_cursor(Settings(redis_url=settings.redis_url, data_dir=os.environ["TELLBACK_DATA_DIR"]), file, "b"):
        done = run(settings, file)
    assert done.exit_code == 1
    assert "another process is publishing" in done.stderr
    assert run(settings, file, "--rejects", str(tmp_path)).exit_code == 2


def test_a_terminal_is_shown_how_far_it_is(settings: Settings, database: Any, file: Path) -> None:
    del database
    file.write_text(line() * 3_000)
    command = [sys.executable, "-c", "from tellback.cli.app import main; main()", "signal", str(file), "--bank", "b"]
    reader, terminal = os.openpty()
    done = subprocess.run(command, env=environment(settings), stdout=subprocess.PIPE, stderr=terminal, check=True)
    os.set_blocking(reader, False)
    shown = os.read(reader, 1 << 16).decode()
    os.close(terminal)
    os.close(reader)
    assert "signals" in shown
    assert "%" in shown
    assert done.stdout == b"3,000 signals published to bank b\n"


@pytest.mark.faults
def test_a_file_published_while_redis_is_away(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so; the lines are on this host's disk, are not published again, and count once when Redis is back."""
    monkeypatch.setenv("TELLBACK_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "redis").mkdir()
    file.write_text(line() * 800)
    with RedisServer.start(tmp_path / "redis") as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        with connect(settings=settings) as tb:
            layout = tb.context.layout  # this host knows the team from now on
        server.kill()
        done = run(settings, file)
        assert done.exit_code == 0
        assert "(connection refused)" in done.stderr
        assert ". The signals are saved on this host's disk" in done.stderr
        server.launch()
        assert summary(run(settings, file, "--json"))["skipped"] == 800
        with connect(settings=settings) as tb:
            tb.bank("b").signal([item("other", "a")])
            tb.flush()
            bench = Bench(settings, layout, Angles())
            assert counted(tb, bench) == 801
            bench.close()


def test_a_place_that_cannot_be_read_is_no_beginning(
    bench: Bench, settings: Settings, tb: Tellback, file: Path
) -> None:
    """Taken for a file that was never published, it would count every line twice."""
    file.write_text(line() * 3)
    assert run(settings, file).exit_code == 0
    [place] = (settings.data_path / "signal-files").glob("*.json")
    place.write_bytes(b'{"file": "')
    done = run(settings, file)
    assert (done.exit_code, counted(tb, bench)) == (2, 3)
    assert f"{place}, " in done.stderr
    assert "--again" in done.stderr
    assert run(settings, file, "--again").exit_code == 0
    assert run(settings, file).stdout.startswith("0 signals published")
    assert counted(tb, bench) == 6


def test_a_compressed_file_creates_no_team(settings: Settings, file: Path, database: Database) -> None:
    """Requirement C-181."""
    file.write_bytes(gzip.compress(line().encode() * 100))
    done = run(settings, file)
    assert done.exit_code == 2
    assert f"{file} is compressed: pass - as the file, and pipe the output of `gzip -dc` into it" in done.stderr
    assert not Teams(database).names()


def test_the_first_line_typed_at_a_terminal_is_published(settings: Settings, tb: Tellback, bench: Bench) -> None:
    """The check for a compressed file took it. Requirement C-181."""
    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, (line(fact_id="f1") + line(fact_id="f2")).encode() + b"\x04")
        done = run(settings, os.ttyname(terminal))
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert done.stdout == "2 signals published to bank b\n", done.output
    assert counted(tb, bench) == 2
