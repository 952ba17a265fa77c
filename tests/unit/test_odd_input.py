"""Odd callers of the command line: closed streams, other encodings, names that are no Unicode text or too long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.names import RECORD_FILE
from tellback.sanitize import unicode_path

TELLBACK = f"{sys.executable} -m tellback"
RUN = ("run", "--no-keep", "--json")


def shell(line: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", line], cwd=cwd, env={**os.environ, **env}, capture_output=True, check=False)


@pytest.mark.programs
@pytest.mark.parametrize(
    "line",
    [
        f"{TELLBACK} --version 2>&- >/dev/null",
        f"{TELLBACK} redact <&-",
        f"{TELLBACK} run --no-keep true >&- 2>&-",  # nothing is printed there
    ],
)
def test_a_closed_stream_is_as_good_as_dev_null(line: str, tmp_path: Path) -> None:
    done = shell(line, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.programs
@pytest.mark.parametrize("given", ["--version", "--help", "hook status --json", "records --file log"])
def test_a_result_that_cannot_be_printed_is_an_error(given: str, tmp_path: Path) -> None:
    """As on a full disk: a script would take the empty answer for a result."""
    if "log" in given:
        shell(f"{TELLBACK} run --file log true", tmp_path)
    done = shell(f"{TELLBACK} {given} >&-", tmp_path)
    assert done.returncode == 1
    assert done.stderr == b"tellback: can't write: standard output is closed\n"


@pytest.mark.programs
@pytest.mark.parametrize("rest", [">&-", "2>/dev/full", "| true"])
@pytest.mark.parametrize("form", ["", "--json"])
def test_a_failure_keeps_its_code_where_its_record_cannot_be_printed(rest: str, form: str, tmp_path: Path) -> None:
    """A script that tells 1 from 7 would take the failure to print for that of the command."""
    done = shell(f"{{ {TELLBACK} run {form} sh -c 'echo no; exit 7'; echo $? >code; }} {rest}", tmp_path)
    assert (tmp_path / "code").read_text() == "7\n"
    assert done.stderr.count(b"\n") <= 1


@pytest.mark.programs
def test_a_command_gets_open_streams_where_its_caller_closed_them(tmp_path: Path) -> None:
    """A file that the command opens would otherwise be its own standard output."""
    check = "import os; [os.fstat(number) for number in range(3)]"
    done = shell(f"{TELLBACK} run {sys.executable} -c '{check}' <&- >&-", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.programs
@pytest.mark.parametrize("encoding", ["latin-1"])
def test_what_an_encoding_lacks_is_escaped(encoding: str, tmp_path: Path) -> None:
    shell(f"{TELLBACK} run --note '🙂' true", tmp_path)
    done = shell(f"{TELLBACK} records --file {RECORD_FILE}", tmp_path, PYTHONIOENCODING=encoding, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert b"\\U0001f642" in done.stdout


@pytest.mark.programs
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    done = shell(f"{TELLBACK} {' '.join(RUN)} --note 'é א 🙂' true", tmp_path, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode(encoding))["agent_note"] == "é א 🙂"


@pytest.mark.programs
@pytest.mark.parametrize("option", ["note", "session", "parent"])
def test_run_keeps_a_record_of_text_that_is_no_unicode(option: str, tmp_path: Path) -> None:
    done = shell(f"{TELLBACK} run --{option} \"$(printf 'a\\377')\" true", tmp_path)
    assert done.returncode == 0, done.stderr
    [line] = (tmp_path / RECORD_FILE).read_text().splitlines()
    fields = {"note": "agent_note", "session": "session", "parent": "parent_command_id"}
    assert json.loads(line)[fields[option]] == "a\ufffd"


def test_an_error_is_one_line_whatever_it_quotes(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["replay", "--report", str(tmp_path / "a\nb"), "x"])
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert "a\\nb" in done.stderr


@pytest.mark.programs
def test_a_name_that_is_too_long_is_one_short_line(tmp_path: Path) -> None:
    done = shell(f"{TELLBACK} acl --one-redis {'x' * 5000}", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(b"tellback: ")
    assert done.stderr.endswith(b"File name too long\n")
    assert len(done.stderr) < 400


@pytest.mark.programs
@pytest.mark.parametrize(
    "given", ["hook install", "up --data-dir d", "submit --session s --redis-url redis://127.0.0.1:1/0 rm -r build"]
)
def test_a_current_directory_that_is_gone_is_one_line(given: str, tmp_path: Path) -> None:
    """A command that was submitted there ran in the first directory that the worker allows."""
    done = shell(f"mkdir gone; cd gone; rmdir ../gone; {TELLBACK} {given}", tmp_path)
    assert done.returncode == 2
    assert done.stderr == b"tellback: can't use the current directory: No such file or directory\n"


@pytest.mark.parametrize(
    "given",
    [
        ["up", "--data-dir", "", "--redis-url", "redis://127.0.0.1:1/0", "--no-flower"],
        ["acl", "", "--one-redis", "--redis-url", "redis://127.0.0.1:1/0"],
        ["init-runner", ""],
    ],
)
def test_an_empty_name_of_a_directory(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a shell variable which is not set: files with passwords went into the current directory."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2
    assert "is empty: name a directory" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["submit --session s --redis-url redis://127.0.0.1:1/0", "run"])
def test_an_empty_cwd(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that was submitted with one ran in the first directory that the worker allows."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*given.split(), "--cwd", "", "--", "true"])
    assert (done.exit_code, "is empty: give a text, or leave it out" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


FILTERS = ["ps --session", "cancel --session", "audit --session", "stats --session", "turns --host", "outbox"]


@pytest.mark.parametrize(
    "given", [*FILTERS, "dead replay --all --reason", "submit --session s --parent", "run --session"]
)
def test_an_empty_text_is_no_filter(given: str) -> None:
    """That of a variable which is not set: listings found nothing, and `dead replay` replayed everything."""
    done = CliRunner().invoke(app, [*given.split(), ""])
    assert done.exit_code == 2
    assert "is empty: give a text, or leave it out" in done.stderr


@pytest.mark.parametrize("given", ["cancel", "waive --why x", "dead show", "dead replay", "dead drop", "turns show"])
def test_an_id_that_is_empty_or_too_long_is_refused(given: str) -> None:
    """An error said that there is no command "", or quoted all of a long one."""
    at = ["--redis-url", "redis://127.0.0.1:1/0"]
    for length in (0, 2_000):
        done = CliRunner().invoke(app, [*given.split(), "x" * length, *at])
        assert (done.exit_code, f"has {length} characters; use 1 to 512" in done.stderr) == (2, True), done.stderr


LISTS = ["audit", "dead list", "outbox", "sessions", "turns", "bank show b", "records s"]


@pytest.mark.parametrize("given", [*LISTS, "bank show b --remembered", "bank show b --prune-candidates"])
def test_a_number_that_redis_could_not_take_is_refused(given: str) -> None:
    option = "--last" if given in {"bank show b", "records s"} else "--limit"
    done = CliRunner().invoke(app, [*given.split(), option, "9" * 23])
    assert done.exit_code == 2
    assert "less than or equal" in done.stderr


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_a_command_is_not_submitted_with_a_time_that_is_none(seconds: str) -> None:
    """It was submitted, and then reported as without a record."""
    given = ["submit", "--session", "s", "--wait", seconds, "--redis-url", "redis://127.0.0.1:1/0", "true"]
    done = CliRunner().invoke(app, given)
    assert (done.exit_code, done.stderr) == (2, f"tellback: --wait {seconds}: use a number of seconds from 0\n")


def test_the_path_of_a_signal_file_fits_into_json(tmp_path: Path) -> None:
    path = unicode_path(tmp_path / os.fsdecode(b"s\xff"))
    assert path == f"{tmp_path.resolve()}/s\\xff"
    assert json.loads(json.dumps(path).encode()) == path
