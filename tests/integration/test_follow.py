"""Output of commands that is followed while they run, with real workers."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

import tellback
from tellback import Job, OutputPiece, Tellback
from tellback.commands.follow import OutputChunk
from tellback.settings import Settings
from tellback.state.audit import system_user
from tellback.state.database import Database
from tellback.state.followed_output import MAX_BYTES, MAX_PIECES, FollowedOutput, FollowedOutputs, FollowedPiece
from tellback.state.job_keys import ANY_POOL
from tellback.state.keys import Layout
from tellback_workers.jobs import JobWorker
from tellback_workers.runtime import Runtime
from tests.support.cli import run
from tests.support.commands import until
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]
TIMEOUT = 60.0


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, command_grace=0.5, host="alpha")


@pytest.fixture
def workers(start_workers: StartWorkers, tmp_path: Path) -> Workers:
    """One worker that may run commands below the test's folder and use one secret."""
    env = {
        "TELLBACK_COMMAND_ROOTS": str(tmp_path),
        "TELLBACK_COMMAND_SECRET_ENV": "DEPLOY_KEY",
        "DEPLOY_KEY": "correct-horse-9",
    }
    return start_workers(env=env)


def followed(job: Job) -> list[OutputPiece]:
    return list(job.follow(timeout=TIMEOUT))


def text(pieces: list[OutputPiece], stream: str = "stdout") -> str:
    return "".join(piece.text for piece in pieces if piece.stream == stream)


@pytest.mark.usefixtures("workers")
def test_output_is_seen_while_the_command_runs(tb: Tellback, tmp_path: Path) -> None:
    """Each piece of output can be read before the command prints more; following ends with the record."""
    script = f"echo first; {until('go')}; echo second >&2; printf third; exit 3"
    job = tb.submit(["sh", "-c", script], session="s1", follow=True)
    following = job.follow(timeout=TIMEOUT)
    first = next(following)
    assert (first.stream, first.text, first.dropped, first.recorded) == ("stdout", "first\n", 0, False)
    assert first.command_id == job.command_id
    assert tb.records("s1") == [], "it still runs"
    (tmp_path / "go").touch()
    rest = list(following)
    assert text(rest, "stderr") == "second\n"
    assert text(rest) == "third\n"
    record = job.wait(timeout=0.0)
    assert (record.exit_code, record.stdout_tail, record.stderr_tail) == (3, "first\nthird", "second")


@pytest.mark.usefixtures("workers")
def test_no_secret_is_followed(tb: Tellback, database: Database, tmp_path: Path) -> None:
    """Rules and exact values hide it, as they hide a key whose first line is not printed; Redis never holds it."""
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
    (tmp_path / "end.pem").write_text(body * 4 + "c2hvcnQ=\n-----END PRIV" + "ATE KEY-----\n")
    slowly = "while read -r line; do echo $line; sleep 0.3; done < end.pem"
    script = f"printf 'key %s\\n' $DEPLOY_KEY; printf pass; sleep 0.3; echo word=hunter2; {slowly}; echo the end of it"
    job = tb.submit(["sh", "-c", script], session="s1", secret_env=["DEPLOY_KEY"], follow=True)
    seen = text(followed(job))
    hidden = ["secret DEPLOY_KEY", "password", *["private-key"] * 6]
    assert seen == "".join(f"[redacted: {rule}]\n" for rule in hidden) + "the end of it\n"
    assert job.wait(timeout=0.0).stdout_tail == seen.removesuffix("\n")
    kept = b"".join(database.command("DUMP", key) for key in database.command("KEYS", "tb:*:follow:*"))
    assert b"the end of it" in kept
    assert not any(secret in kept for secret in (b"correct-horse", b"hunter2", b"MIIEv", b"c2hvcnQ"))


@pytest.mark.usefixtures("workers")
def test_several_follow_at_once_and_later(tb: Tellback, settings: Settings, tmp_path: Path) -> None:
    """Each sees all of it, also from another process's client, and so does one that comes when it has ended."""
    script = f"for n in 1 2 3; do echo number $n; done; {until('go')}; seq 1 5000"
    job = tb.submit(["sh", "-c", script], session="s1", follow=True)
    tb.flush()
    expected = "number 1\nnumber 2\nnumber 3\n" + "".join(f"{n}\n" for n in range(1, 5001))
    with tellback.connect(settings=settings) as other, ThreadPoolExecutor(2) as pool:
        theirs = Job(job.submitted, other.context)
        found = [pool.submit(followed, each) for each in (job, theirs)]
        following = job.follow(timeout=TIMEOUT)
        next(following)
        (tmp_path / "go").touch()
        assert [text(future.result()) for future in found] == [expected] * 2
    assert text(followed(job)) == expected


def test_a_queued_command_is_waited_for(tb: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    """Following begins before there is a worker."""
    job = tb.submit(["echo", "at last"], session="s1", follow=True)
    with pytest.raises(tellback.Timeout, match=job.command_id):
        list(job.follow(timeout=0.3))
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(lambda: list(job.follow(timeout=60)))
        start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
        assert text(following.result()) == "at last\n"


@pytest.mark.usefixtures("workers")
def test_what_the_record_keeps_where_nothing_can_be_followed(tb: Tellback) -> None:
    """If following was not asked for, was refused, or ended long ago, only the record shows the output."""
    job = tb.submit(["sh", "-c", "seq 1 100; echo oh >&2"], session="s1")
    pieces = followed(job)
    record = job.wait(timeout=0.0)
    assert [(p.stream, p.text, p.recorded) for p in pieces] == [
        ("stdout", record.stdout_tail + "\n", True),
        ("stderr", "oh\n", True),
    ]
    refused = tb.submit(["true"], session="s1", cwd="/", follow=True)
    assert list(refused.follow(timeout=TIMEOUT)) == []
    assert "refused by" in (refused.wait(timeout=0.0).error or "")


@pytest.mark.usefixtures("workers")
def test_a_command_that_nobody_asked_to_follow_publishes_nothing(tb: Tellback, database: Database) -> None:
    """It costs no round trip and no key."""
    tb.submit(["seq", "1", "1000"], session="s1").wait(timeout=TIMEOUT)
    assert database.command("KEYS", "tb:*:follow:*") == []


@pytest.mark.usefixtures("workers")
def test_a_cancelled_command_is_followed_to_its_end(tb: Tellback) -> None:
    """Its output comes first, then the end; the record says that it was cancelled."""
    job = tb.submit(["sh", "-c", "echo begun; sleep 60"], session="s1", timeout=90, follow=True)
    following = job.follow(timeout=TIMEOUT)
    assert next(following).text == "begun\n"
    assert job.cancel()
    assert list(following) == []
    assert job.wait(timeout=0.0).error == f"cancelled by {system_user()}"


@pytest.mark.usefixtures("workers")
def test_a_flood_is_bounded_in_redis_and_its_end_is_seen(tb: Tellback, database: Database) -> None:
    """Of 200 MB the middle is dropped, and each byte is shown or counted."""
    line = "compiling module 0123 of 4567: warning: unused variable in function foo"
    script = f"echo the beginning; yes '{line}' | head -c 200000000; echo; echo the end"
    job = tb.submit(["sh", "-c", script], session="s1", timeout=90, follow=True)
    pieces = list(job.follow(timeout=60))
    assert pieces[0].text.startswith("the beginning\n")
    assert pieces[-1].text.endswith("the end\n")
    shown = sum(len(piece.text) for piece in pieces)
    assert shown + sum(piece.dropped for piece in pieces) == job.wait(timeout=0.0).output_bytes
    assert shown < 40 << 20
    (key,) = database.command("KEYS", "tb:*:follow:*")
    assert database.command("MEMORY", "USAGE", key, "SAMPLES", 0) < 2 * MAX_BYTES


def test_who_reads_too_late_learns_what_is_gone(database: Database, layout: Layout) -> None:
    """The newest megabyte is kept, in few enough pieces; what was sent twice stands once."""
    output = FollowedOutput(database, layout, "s1", "c1")
    outputs = FollowedOutputs(database, layout)
    for _ in range(100):
        output.add([OutputChunk("stdout", "x" * 16_000 + "\n", 16_001, 0)])
    output.send()
    pieces = _all(outputs)
    assert 60 < len(pieces) < 66
    assert pieces[0].at == (100 - len(pieces)) * 16_001
    for _ in range(MAX_PIECES + 100):
        output.add([OutputChunk("stderr", "y\n", 2, 5)])
    output.end(7)
    waiting = list(output._unsent)
    output.send()
    output._unsent.extend(waiting)
    output.send()
    pieces = _all(outputs)
    assert len(pieces) == MAX_PIECES
    assert [piece.at - before.at - before.raw for before, piece in pairwise(pieces)][-2:] == [5, 7]
    assert pieces[-1].end


def _all(outputs: FollowedOutputs) -> list[FollowedPiece]:
    found: list[FollowedPiece] = []
    after = 0
    while read := outputs.read("s1", "c1", after, 0.0):
        found += [piece for _, piece in read]
        after = read[-1][0]
    return found


class Submit(Protocol):
    """Starts `tellback submit --follow` in a process of its own."""

    def __call__(self, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]: ...


@pytest.fixture
def submit(
    settings: Settings,
    workers: Workers,
    tmp_path: Path,
) -> Iterator[Submit]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        command = [*TOOL, "submit", "--session", "s1", "--follow", *arguments]
        process = subprocess.Popen(
            command, env=environment(settings), cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, list[str]]:
    """Exit code, the rest of standard output, lines of standard error."""
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, (out or b"").decode(), err.decode().splitlines()


def test_the_command_line_follows(submit: Submit, tmp_path: Path) -> None:
    """Each stream goes to its own, at once; the exit code is the command's, after one line that sums it up."""
    process = submit("--", "sh", "-c", f"echo out 1; echo err 1 >&2; {until('go')}; echo out 2; exit 5")
    assert first_line(process) == b"out 1\n"
    (tmp_path / "go").touch()
    code, out, err = ended(process)
    assert (code, out, err[0], len(err)) == (5, "out 2\n", "err 1", 2)
    assert err[1].startswith("✗ exit 5 · ")


def test_the_command_line_follows_as_json(submit: Submit) -> None:
    """Each piece is a line, and the record is the last one."""
    code, out, err = ended(submit("--json", "--", "sh", "-c", "echo one; sleep 0.5; printf two >&2"))
    *pieces, record = [json.loads(line) for line in out.splitlines()]
    assert [(piece["stream"], piece["text"]) for piece in pieces] == [("stdout", "one\n"), ("stderr", "two\n")]
    assert {piece["command_id"] for piece in pieces} == {record["command_id"]}
    assert (record["stdout_tail"], record["exit_code"], code, err) == ("one", 0, 0, [])


def test_an_interrupt_ends_the_following_and_not_the_command(submit: Submit, tb: Tellback, tmp_path: Path) -> None:
    """The exit code is 130, and the message says how to get the record, which comes."""
    process = submit("--timeout", "60", "--", "sh", "-c", f"echo begun; {until('go')}; echo end")
    assert first_line(process) == b"begun\n"
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert (code, out) == (130, "")
    assert "stopped following" in err[0]
    assert "keeps running for up to 60 s; see its record with `tellback records s1`" in err[0]
    (tmp_path / "go").touch()
    wait_until(lambda: tb.records("s1"), "the command has its record", timeout=TIMEOUT)
    assert tb.records("s1")[0].stdout_tail == "begun\nend"


def test_waiting_is_bounded_while_following(submit: Submit) -> None:
    """`--wait` bounds a command that is followed, too."""
    code, out, err = ended(submit("--wait", "4", "--", "sh", "-c", "echo begun; sleep 60"))
    assert (code, out) == (1, "begun\n")
    assert "has no record" in err[0]


def test_a_detached_command_is_neither_followed_nor_waited_for(settings: Settings, submit: Submit) -> None:
    code, _, err = ended(submit("--detach", "--", "true"))
    assert (code, err) == (2, ["tellback: --detach waits for nothing: leave out --follow and --wait"])
    assert run(settings, "submit", "--session", "s1", "--detach", "--wait", "3", "true").exit_code == 2


def test_a_terminal_is_not_handed_what_it_would_obey(submit: Submit) -> None:
    """Escape sequences are shown; where the output goes to a file it is as it was."""
    hostile = ["--", "printf", r"\033]0;title\007\033[2Jgone\ttab \302\2332J\n"]
    reader, writer = pty.openpty()
    process = submit(*hostile, stdout=writer)
    os.close(writer)
    seen = b""
    with suppress(OSError):  # the terminal's end, on Linux
        while data := os.read(reader, 4096):
            seen += data
    os.close(reader)
    assert ended(process)[0] == 0
    assert b"\x1b" not in seen
    assert r"\x1b]0;title\x07\x1b[2Jgone" in seen.decode()
    assert r"tab \x9b2J" in seen.decode()
    assert ended(submit(*hostile))[1] == "\x1b]0;title\x07\x1b[2Jgone\ttab \x9b2J\n"


def test_a_command_runs_where_no_thread_can_publish_its_output(
    tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system gives the worker no more threads; the reader gets the output of the record."""
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "job-output":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    job = tb.submit([sys.executable, "-c", "print(42)"], session="s1", follow=True)
    tb.flush()
    shard, further = tb.context.layout.of("s1"), iter([True])
    JobWorker(Runtime(settings), "default", "w@test", ANY_POOL).apply_and_run(shard, lambda: next(further, False))
    assert job.wait(TIMEOUT).stdout_tail == "42"
    assert [(piece.text, piece.recorded) for piece in job.follow(TIMEOUT)] == [("42\n", True)]
