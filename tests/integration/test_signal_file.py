"""`tellback signal`: files of signals in every state, each line once however often the command dies."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tellback import Settings, Tellback, connect
from tellback.cli import signal_file, signal_publishing
from tellback.cli.app import app
from tellback.cli.signal_file import FileCursor, FilePosition
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, item
from tests.support.waiting import wait_until
from tests.support.workers import environment


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "signals.jsonl"


def line(**fields: Any) -> str:
    return json.dumps({"fact_id": "f", "signal_type": "used", "query": "a", **fields}) + "\n"


def run(settings: Settings, file: Path | str, *options: str, bank: str | None = "b", stdin: bytes = b"") -> Result:
    named = ["--bank", bank] if bank else []
    arguments = ["signal", str(file), *named, *options, "--redis-url", settings.redis_url]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, input=stdin)


def summary(done: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def counted(tb: Tellback, bench: Bench, bank: str = "b") -> int:
    bench.consume()
    return tb.bank(bank).stats().signal_count


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


def test_a_run_that_died_after_publishing_goes_on_and_counts_each_line_once(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies between publishing a part and writing that down: the part goes out again, under the same ids."""
    file.write_text("".join(line(fact_id=f"f{i}") for i in range(1_700)))
    save, saves = FileCursor.save, list[int]()

    def dying(cursor: FileCursor, place: FilePosition) -> None:
        saves.append(place.lines)
        if len(saves) == 4:
            raise KeyboardInterrupt
        save(cursor, place)

    monkeypatch.setattr(FileCursor, "save", dying)
    stopped = run(settings, file)
    assert stopped.exit_code == 130
    assert "run the same command again" in stopped.stderr
    assert saves == [0, 500, 1_000, 1_500]
    monkeypatch.setattr(FileCursor, "save", save)
    found = summary(run(settings, file, "--json"))
    assert (found["published"], found["skipped"]) == (700, 1_000)
    assert counted(tb, bench) == 1_700


def _has_published(process: subprocess.Popen[bytes], lines: Callable[[], int], least: int) -> bool:
    return process.poll() is not None or lines() >= least


@pytest.mark.faults
def test_killed_runs_lose_and_repeat_nothing(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    """SIGKILL twice, wherever it was; the third run ends."""
    count = 8_000
    file.write_text("".join(line(fact_id=f"f{i % 50}", query=f"a@{i % 7}") for i in range(count)))
    places = Path(settings.data_dir) / "signal-files"
    command = [sys.executable, "-c", "from tellback.cli.app import main; main()", "signal", str(file), "--bank", "b"]

    def lines() -> int:
        return max((json.loads(place.read_bytes())["lines"] for place in places.glob("*.json")), default=0)

    for least in (500, 3_000):
        process = subprocess.Popen(command, env=environment(settings), stdout=subprocess.DEVNULL)
        wait_until(partial(_has_published, process, lines, least), "it has come so far", 60)
        process.kill()
        process.wait()
    assert 3_000 <= lines() < count, "it was killed in the middle"
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


def test_wrong_lines_are_named_and_kept_and_left_out(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, tmp_path: Path
) -> None:
    wrong = {
        "confidence": line(confidence=2),
        "signal_type": line(signal_type="loved"),
        "truncated": "{\n",
        "`signal_type`": '{"fact_id": "f"}\n',
        "query": line(query="  "),
        "malformed": '{"fact_id": "f", "signal_type": "used", "query": "a", "confidence": NaN}\n',
        "invalid": '{"fact_id": "f", "signal_type": "used", "query": "a", "confidence": -Infinity}\n',
        "duplicate field 'query'": '{"fact_id": "f", "signal_type": "used", "query": "a", "query": "b"}\n',
        "Expected `object`": "[1]\n",
        "fact_id": line(fact_id=""),
        "Expected `float`": line(confidence="1"),
    }
    file.write_text(line() + "".join(wrong.values()) + line(context="seen"))
    rejects = tmp_path / "rejects.jsonl"
    done = run(settings, file, "--json", "--rejects", str(rejects))
    assert done.exit_code == 1
    assert summary(done) | {"file": ""} == {
        "file": "",
        "bank": "b",
        "published": 2,
        "rejected": len(wrong),
        "skipped": 0,
    }
    named = done.stderr.splitlines()
    for number, (text, word) in enumerate(zip(named, wrong, strict=True), 2):
        assert text.startswith(f"{file}:{number}: "), text
        assert word in text, text
    kept = [json.loads(raw) for raw in rejects.read_text().splitlines()]
    assert [row["line"] for row in kept] == list(range(2, 2 + len(wrong)))
    assert [row["text"] for row in kept] == [text.strip() for text in wrong.values()]
    assert all(f": {row['error']}" in text for row, text in zip(kept, named, strict=True))
    assert counted(tb, bench) == 2


def test_bytes_that_are_no_text_cost_their_own_line(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such are bad UTF-8, half a surrogate pair, a line too long to be a signal, and endless nesting; CRLF passes."""
    monkeypatch.setattr(signal_file, "MAX_LINE", 100_000)
    bad = [
        b'{"fact_id": "f", "signal_type": "used", "query": "\xff\xfe"}\n',
        b'{"fact_id": "\\ud800", "signal_type": "used", "query": "a"}\n',
        b'{"fact_id": "f", "context": "' + b"x" * 350_000 + b'", "signal_type": "used", "query": "a"}\n',
        b'{"fact_id": "f", "signal_type": "used", "query": "a", "more": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n",
        b"\x00\n",
    ]
    good = line().encode()
    file.write_bytes(b"".join(part + good.replace(b"\n", b"\r\n") + b"  \r\n\n" for part in bad))
    done = run(settings, file, "--json")
    assert (summary(done)["published"], summary(done)["rejected"]) == (5, 5), done.stderr
    assert [text.removeprefix(f"{file}:").split(":")[0] for text in done.stderr.splitlines()] == [
        "1",
        "5",
        "9",
        "13",
        "17",
    ]
    assert "bytes; the maximum is 100000" in done.stderr
    again = summary(run(settings, file, "--json"))
    assert (again["published"], again["rejected"]) == (0, 5), "the rest of a long line is no line of its own"
    assert counted(tb, bench) == 5


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"query": " "}, "signal.query is blank: the query ties a signal to its query cluster"),
        ({"confidence": 2}, "signal.confidence is 2.0: use a number from 0 to 1"),
        ({"signal_type": "loved"}, "signal.signal_type is 'loved': use one of used, ignored, helpful, not_helpful"),
        ({"signal_type": ["used"]}, "signal.signal_type is ['used']: use one of"),
        ({"fact_id": ""}, "signal.fact_id is empty"),
        ({"bank": ""}, "signal.bank is empty"),
        ({"bank": "x" * 513}, "signal.bank has 513 characters: use at most 512"),
        ({"signal_id": "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"}, "signal.signal_id carries a secret"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("database")
def test_a_wrong_line_says_what_to_write(settings: Settings, file: Path, fields: dict[str, Any], says: str) -> None:
    """It uses the words of `Bank.signal`."""
    file.write_text(line(**fields))
    assert f"{file}:1: {says}" in run(settings, file).stderr


def test_a_field_that_nobody_knows_is_wrong(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    """A misspelt confidence would count as full confidence."""
    file.write_text(line() + line(confidance=0.2))
    done = run(settings, file)
    assert done.exit_code == 1
    assert f"{file}:2: Object contains unknown field `confidance`" in done.stderr
    assert counted(tb, bench) == 1


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


def test_rejects_of_a_run_that_goes_on(
    settings: Settings, database: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wrong line stands in the file once, whenever the runs died."""
    del database
    monkeypatch.setattr(signal_publishing, "CHUNK", 10)
    file.write_text("".join(line() if i % 2 else "{\n" for i in range(60)))
    rejects = tmp_path / "rejects"
    save, saves = FileCursor.save, list[int]()

    def dying(cursor: FileCursor, place: FilePosition) -> None:
        saves.append(1)
        if len(saves) in {3, 6}:
            raise KeyboardInterrupt
        save(cursor, place)

    monkeypatch.setattr(FileCursor, "save", dying)
    for _ in range(3):
        run(settings, file, "--rejects", str(rejects))
    assert [json.loads(raw)["line"] for raw in rejects.read_text().splitlines()] == list(range(1, 61, 2))
    refused = run(settings, file, "--rejects", str(file))
    assert refused.exit_code == 2
    assert file.read_text().startswith("{"), "the input is not overwritten"


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
        assert "Redis is unavailable; the signals are saved on this host's disk" in done.stderr
        server.launch()
        assert summary(run(settings, file, "--json"))["skipped"] == 800
        with connect(settings=settings) as tb:
            tb.bank("b").signal([item("other", "a")])
            tb.flush()
            bench = Bench(settings, layout, Angles())
            assert counted(tb, bench) == 801
            bench.close()


def test_many_wrong_lines_do_not_flood_the_terminal(settings: Settings, database: Any, file: Path) -> None:
    del database
    file.write_text("{\n" * 300)
    done = run(settings, file)
    assert len(done.stderr.splitlines()) == 101
    assert "300 rejected" in done.stdout


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


def test_a_compressed_file_says_what_to_do(settings: Settings, file: Path, database: object) -> None:
    del database
    file.write_bytes(gzip.compress(line().encode() * 100))
    done = run(settings, file)
    assert done.exit_code == 1
    assert f"{file}:1: the file is compressed: unpack it, or use zcat FILE | tellback signal -" in done.stderr


def test_fixed_lines_are_published_and_nothing_counts_twice(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person fixes some of the rejected lines in place and runs the command again, also after a crash."""
    monkeypatch.setattr(signal_publishing, "CHUNK", 2)
    rejects = tmp_path / "rejects"
    lines = ["\ufeff" + line(fact_id="f1"), "{\n", line(fact_id="f2"), line(confidence=2), "{{\n", line(fact_id="f3")]
    file.write_text("".join(lines))
    assert summary(run(settings, file, "--json", "--rejects", str(rejects)))["rejected"] == 3
    lines[1], lines[3] = line(fact_id="fixed one, longer than it was"), line(fact_id="m2")
    file.write_text("".join(lines))
    save, saves = FileCursor.save, list[int]()

    def dying(cursor: FileCursor, place: FilePosition) -> None:
        saves.append(1)
        if len(saves) == 1:
            raise KeyboardInterrupt
        save(cursor, place)

    monkeypatch.setattr(FileCursor, "save", dying)
    assert run(settings, file, "--rejects", str(rejects)).exit_code == 130
    again = run(settings, file, "--json", "--rejects", str(rejects))
    assert (again.exit_code, summary(again)["published"], summary(again)["rejected"]) == (1, 2, 1)
    assert summary(again)["skipped"] == 3
    assert [json.loads(raw)["line"] for raw in rejects.read_text().splitlines()] == [5]
    assert counted(tb, bench) == 5
    lines[4] = line(fact_id="m3")
    file.write_text("".join(lines) + line(fact_id="f4"))
    last = run(settings, file, "--json", "--rejects", str(rejects))
    assert (last.exit_code, summary(last)["published"], summary(last)["skipped"]) == (0, 2, 5)
    assert counted(tb, bench) == 7
    assert summary(run(settings, file, "--json"))["published"] == 0
    lines[1] = line(fact_id="fixed twice")
    file.write_text("".join(lines) + line(fact_id="f4"))
    assert "has changed" in run(settings, file).stderr, "it was published: it is a line like any other"
    assert counted(tb, bench) == 7
