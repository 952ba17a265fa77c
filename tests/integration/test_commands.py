"""Commands from submission to record, with real workers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import tellback
from tellback import CommandRecord, Tellback
from tellback.contracts.commands import CommandSubmitted
from tellback.contracts.message import new_event_id
from tellback.settings import Settings
from tellback.state.database import Database
from tests.support.commands import alive, brisk, everything, job_state
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, stopped


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Sweeps that run often, and killed commands that end soon."""
    return brisk(settings)


@pytest.fixture
def workers(start_workers: StartWorkers, tmp_path: Path) -> Workers:
    """One worker that may run commands below the test's folder and use one secret."""
    env = {
        "TELLBACK_COMMAND_ROOTS": str(tmp_path),
        "TELLBACK_COMMAND_SECRET_ENV": "DEPLOY_KEY,SHORT,UNSET",
        "DEPLOY_KEY": "s3cr3t-deploy-key",
        "SHORT": "abc",
        "OTHER_SECRET": "never-allowed",
    }
    return start_workers(env=env)


@pytest.fixture
def run(tb: Tellback, workers: Workers) -> Callable[..., CommandRecord]:
    """Submits a command and waits for its record."""

    def submit_and_wait(*argv: str, **options: Any) -> CommandRecord:
        return tb.submit(list(argv), session="s1", **options).wait(timeout=60)

    return submit_and_wait


def test_a_command_ends_in_one_record(run: Callable[..., CommandRecord], tb: Tellback, tmp_path: Path) -> None:
    """The record holds the exact argv, the exit, both tails, the time, and who ran it."""
    script = "import sys; print('to out', *sys.argv[1:]); print('to err', file=sys.stderr); sys.exit(3)"
    argv = [sys.executable, "-c", script, "a b", "$HOME", "*", ""]
    record = run(*argv, note="expect\n two   failures", parent="p0", inputs=["i1"])
    assert record.command == argv
    assert (record.exit_code, record.error, record.signal) == (3, None, None)
    assert record.stdout_tail == "to out a b $HOME * "
    assert record.stderr_tail == "to err"
    assert record.agent_note == "expect two failures"
    assert (record.parent_command_id, record.input_command_ids) == ("p0", ["i1"])
    assert (record.host, record.cwd, record.attempt) == ("alpha", str(tmp_path), 1)
    assert record.worker is not None
    assert record.worker.endswith("@test")
    assert record.started_at is not None
    assert record.duration_ms > 0
    assert record.output_bytes == len("to out a b $HOME * \nto err\n")
    assert tb.records("s1") == [record]
    assert [entry["kind"] for entry in tb.history("s1")] == ["command"]


def test_records_come_oldest_first(run: Callable[..., CommandRecord], tb: Tellback) -> None:
    """The last of them are returned in the order in which they ended."""
    for number in range(4):
        run("echo", str(number))
    assert [record.stdout_tail for record in tb.records("s1", last=3)] == ["1", "2", "3"]


COULD_NOT_RUN: list[tuple[list[str], dict[str, Any], str]] = [
    (["no-such-program"], {}, "program not found: no-such-program"),
    (["/"], {}, "a directory, not a program: /"),
    (["./plain"], {}, "no permission to execute: ./plain"),
    (["./garbage"], {}, "exec format error: this system cannot run ./garbage"),
    (["./bad-interpreter"], {}, "the interpreter that ./bad-interpreter names was not found"),
    (["true"], {"cwd": "missing"}, "cwd does not exist: {root}/missing"),
    (["true"], {"cwd": "plain"}, "cwd is not a directory: {root}/plain"),
    (["true"], {"cwd": "/"}, "refused by this host's policy, rule directories: /"),
    (
        ["true"],
        {"cwd": "loop"},
        "refused by this host's policy, rule directories: the symbolic links of {root}/loop form a loop",
    ),
    (["true"], {"cwd": "link-out"}, "refused by this host's policy, rule directories: /"),
    (["sleep", "30"], {"timeout": 0.3}, "timed out after 0.3 s"),
    (
        ["true"],
        {"secret_env": ["OTHER_SECRET"]},
        (
            "refused by this host's policy, rule secret_env: OTHER_SECRET is not among the names in "
            "TELLBACK_COMMAND_SECRET_ENV"
        ),
    ),
    (["true"], {"secret_env": ["UNSET"]}, "refused by this host's policy, rule secret_env: UNSET is not set"),
    (["true"], {"secret_env": ["SHORT"]}, "refused by this host's policy, rule secret_env: SHORT is not set here, or"),
    (["true"], {"env": {"PATH": "/nowhere"}}, "program not found: true"),
]


@pytest.mark.usefixtures("workers")
def test_what_could_not_run_is_a_null_exit_that_says_why(tb: Tellback, tmp_path: Path) -> None:
    """Each kind of failure has a record with an error of its own, and no exit code."""
    for name, mode, content in (
        ("plain", 0o644, b""),
        ("garbage", 0o755, b"\x7fELF garbage"),
        ("bad-interpreter", 0o755, b"#!/no/such/interpreter\n"),
    ):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    (tmp_path / "link-out").symlink_to("/")
    (tmp_path / "loop").symlink_to("loop")
    jobs = [tb.submit(argv, session="s1", **options) for argv, options, _ in COULD_NOT_RUN]
    for job, (_, _, error) in zip(jobs, COULD_NOT_RUN, strict=True):
        record = job.wait(timeout=60)
        assert record.exit_code is None
        assert not record.may_advance
        assert (record.error or "").startswith(error.format(root=tmp_path))
    assert len(tb.records("s1")) == len(jobs)


def test_a_secret_reaches_the_command_and_not_the_record(run: Callable[..., CommandRecord], database: Database) -> None:
    """`secret_env` is resolved on the worker's host; where its value is printed, the line is replaced."""
    record = run("sh", "-c", 'echo "${#DEPLOY_KEY}"; echo "key $DEPLOY_KEY"; env', secret_env=["DEPLOY_KEY"])
    lines = record.stdout_tail.split("\n")
    assert lines[:2] == ["17", "[redacted: secret DEPLOY_KEY]"]
    assert record.redacted.stdout
    assert not any("OTHER_SECRET" in line for line in lines), "the environment is minimal"
    dumped = b"".join(everything(database))
    assert b"s3cr3t-deploy-key" not in dumped
    assert b"DEPLOY_KEY" in dumped


def test_output_is_redacted_and_truncated(run: Callable[..., CommandRecord], tmp_path: Path) -> None:
    """Secrets are gone from both streams, and the middle of long output is counted."""
    (tmp_path / "leak.sh").write_text("echo Bearer abc; seq 100; echo bearer of bad news; echo DB_PASSWORD=x >&2")
    record = run("sh", "leak.sh")
    assert record.stdout_tail.startswith("[redacted: bearer]\n1\n2\n3\n4\n...truncated 67 lines...\n")
    assert record.stdout_tail.endswith("\n100\nbearer of bad news")
    assert record.stderr_tail == "[redacted: password]"
    assert (record.truncated.stdout, record.truncated.stderr) == (True, False)
    assert (record.redacted.stdout, record.redacted.stderr) == (True, True)


@pytest.mark.usefixtures("workers")
def test_a_cancelled_command_is_recorded(tb: Tellback) -> None:
    """Cancelling a running command ends it at once, with a record that says so."""
    tag = f"32.{os.getpid()}"
    job = tb.submit(["sleep", tag], session="s1")
    wait_until(lambda: alive(tag), "the command runs")
    assert job.cancel(reason="too slow", by="alice")
    record = job.wait(timeout=60)  # by itself the command takes longer
    assert (record.exit_code, record.signal) == (None, "SIGTERM")
    assert record.error == "cancelled by alice: too slow"
    assert not alive(tag)
    assert not job.cancel()
    assert tb.records("s1") == [record]


def test_a_queued_command_is_cancelled_with_a_record(tb: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    """A command that no worker has taken gets its record at once, and never runs."""
    start_workers(queues="events", env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    job = tb.submit(["touch", str(tmp_path / "ran")], session="s1", host="nobody")
    early = tb.submit(["touch", str(tmp_path / "ran")], session="s1")
    assert early.cancel(by="alice")
    assert early.wait(timeout=0).error == "cancelled before it started by alice", "before it was applied"
    start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    wait_until(lambda: job_state(tb, job) == b"queued", "the command of the absent host is queued")
    assert job.cancel(by="alice")
    assert job.wait(timeout=60).error == "cancelled before it started by alice"
    assert not (tmp_path / "ran").exists()
    assert len(tb.records("s1")) == 2


@pytest.mark.usefixtures("workers")
def test_a_duplicate_submission_runs_once(tb: Tellback, tmp_path: Path) -> None:
    """The same command id published again, before and after the command ended, has no effect."""
    submitted = CommandSubmitted(
        event_id=new_event_id(),
        command_id="c-twice",
        session="s1",
        argv=["sh", "-c", "echo run >> ran"],
        cwd=str(tmp_path),
    )
    for _ in range(3):
        tb.context.publisher.publish(submitted)
    tb.flush()
    wait_until(lambda: tb.records("s1"), "there is a record")
    tb.context.publisher.publish(msgspec.structs.replace(submitted, event_id=new_event_id()))
    tb.submit(["true"], session="s1").wait(timeout=60)
    assert (tmp_path / "ran").read_text() == "run\n"
    assert len(tb.records("s1")) == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_interactive_command_does_not_wait_behind_a_thousand(
    tb: Tellback, database: Database, workers: Workers
) -> None:
    """The thousand are of its own session; another session's command of the same urgency does not wait either."""
    with stopped(workers):  # else some are run while the others are submitted
        for number in range(1_000):
            tb.submit(["true"], session=f"flood{number % 8}", priority="batch")
        urgent = tb.submit(["true"], session="flood0", priority="interactive")
        fair = tb.submit(["true"], session="s2", priority="batch")
        tb.flush()
    counts = [("GET", tb.context.layout.of(f"flood{n}").key("recorded", f"flood{n}")) for n in range(8)]
    wait_until(lambda: sum(int(count or 0) for count in database.pipeline(counts)) == 1_001, "all are run", timeout=200)
    flood = [record for n in range(8) for record in tb.records(f"flood{n}", last=200)]
    for record in (urgent.wait(timeout=60), fair.wait(timeout=60)):
        assert record.succeeded
        assert record.started_at is not None
        assert sum(each.started_at is not None and each.started_at < record.started_at for each in flood) < 500


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_commands_run_in_other_pools(tb: Tellback, start_workers: StartWorkers, tmp_path: Path, pool: str) -> None:
    """Several run at once in one process, each with a supervisor of its own."""
    start_workers(pool=pool, concurrency=3, env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    jobs = [tb.submit(["sh", "-c", f"sleep 0.2; echo {n}"], session="s1") for n in range(6)]
    assert [job.wait(timeout=60).stdout_tail for job in jobs] == [str(n) for n in range(6)]


@pytest.mark.usefixtures("workers")
def test_a_submission_of_a_host_in_another_language_is_checked_too(tb: Tellback, database: Database) -> None:
    """An entry that `submit` would have refused, written to the stream by hand, becomes a record that says why."""
    wrong: list[tuple[list[str], dict[str, Any]]] = [
        ([], {}),
        (["a\0b"], {}),
        (["login", "password=hunter2"], {}),
        (["true"], {"timeout": -1.0}),
        (["true"], {"env": {"API_KEY": "k3y-of-somebody"}}),
    ]
    for argv, options in wrong:
        event_id = new_event_id()
        message = CommandSubmitted(event_id=event_id, command_id=event_id, session="s1", argv=argv, **options)
        tb.context.publisher.publish(message)
    wait_until(lambda: len(tb.records("s1")) == 5, "all have records")
    assert [(record.error or "").partition(";")[0].partition("(rule")[0] for record in tb.records("s1")] == [
        "argv is empty",
        "argv[0] holds a NUL byte",
        "argv[1] carries a secret ",
        "timeout is -1 s",
        "env['API_KEY'] carries a secret ",
    ]
    dumped = b"".join(everything(database))
    assert b"hunter2" not in dumped
    assert b"k3y-of-somebody" not in dumped


@pytest.mark.parametrize(
    ("argv", "options", "named"),
    [
        ("ls -l", {}, "argv"),
        ([], {}, "argv"),
        (["a\0"], {}, "argv[0]"),
        (["ok", 1], {}, "argv[1]"),
        (["ok", "Bearer abc"], {}, "secret_env"),
        (["ok"], {"env": {"X": "xoxb-1"}}, "env['X']"),
        (["ok"], {"note": "with password=x"}, "note"),
        (["ok"], {"timeout": 0}, "timeout"),
        (["ok"], {"timeout": float("inf")}, "timeout"),
        (["ok"], {"session": ""}, "session"),
        (["ok"], {"host": "a b"}, "host"),
        (["ok"], {"secret_env": ["A-B"]}, "secret_env"),
        (["ok", "x" * 70_000], {}, "argv"),
        (["ok", "\udcff"], {}, r"'\udcff' is not valid Unicode text"),
        (["ok"], {"session": "\udcff"}, "not valid Unicode"),
        (None, {}, "argv"),
        (["ok"], {"cwd": 3}, "cwd"),
        (["ok"], {"env": 3}, "env"),
        (["ok"], {"env": ["A=1"]}, "env"),
        (["ok"], {"secret_env": "KEY"}, "secret_env is str; give a list"),
        (["ok"], {"inputs": "1-0"}, "inputs is str; give a list"),
        (["ok"], {"on_lost": "again"}, "on_lost is 'again'; use one of record, retry"),
        (["ok"], {"priority": "high"}, "priority is 'high'; use one of interactive, normal, batch"),
        (["ok"], {"priority": ["batch"]}, "priority is ['batch']; use one of"),
        (["ok"], {"cwd": ""}, "cwd is empty; give a text, or leave it out"),
        (["ok"], {"parent": ""}, "parent is empty; give a text, or leave it out"),
    ],
)
def test_wrong_arguments_are_refused_before_publishing(
    tb: Tellback, database: Database, argv: Any, options: dict[str, Any], named: str
) -> None:
    """The error names the argument, and nothing reaches Redis."""
    arguments: dict[str, Any] = {"session": "s1"} | options
    with pytest.raises(tellback.InvalidInput, match=re.escape(named)):
        tb.submit(argv, **arguments)
    tb.flush()
    assert not any(b":in:" in key for key in database.command("KEYS", "*"))


@pytest.mark.parametrize("timeout", [float("nan"), "5"])
def test_a_wait_without_an_end_is_refused(tb: Tellback, timeout: Any) -> None:
    """It waited for ever for NaN, and a text raised no error of ours."""
    job = tb.submit(["true"], session="s1")
    for wait in (job.wait, job.follow):
        with pytest.raises(
            tellback.InvalidInput, match=r"timeout is .*; use a number of seconds, or None for no limit"
        ):
            wait(timeout)


def test_waiting_ends_with_timeout_and_never_a_guess(tb: Tellback) -> None:
    """Without a worker there is no record, and no answer that looks like one."""
    job = tb.submit(["true"], session="s1")
    with pytest.raises(tellback.Timeout, match=r"no record after 0\.2 s"):
        job.wait(timeout=0.2)


def test_no_log_of_a_worker_carries_what_a_command_printed(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """Requirement C-63. This holds where the command fails, and at the level that logs most."""
    workers = start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path), "TELLBACK_LOG_LEVEL": "DEBUG"})
    word = "unmistakable-output"
    code = f"import sys; print('{word[:6]}' + '{word[6:]}'); sys.stderr.write('{word[:6]}' + '{word[6:]}'); sys.exit(3)"
    record = tb.submit([sys.executable, "-c", code], session="s1", cwd=str(tmp_path)).wait(timeout=60)
    assert word in record.stdout_tail
    assert record.exit_code == 3
    workers.stop()
    logs = [path.read_text("utf-8") for path in workers.logs]
    assert logs
    assert not any(word in log for log in logs)


def test_a_command_that_finds_a_full_queue_has_a_record(start_workers: StartWorkers, tb: Tellback) -> None:
    """The setting reaches the worker, and who waits for the command hears of it at once."""
    start_workers(env={"TELLBACK_COMMAND_QUEUE_MAX": "2", "TELLBACK_HOST_WAIT": "3600"})
    jobs = [tb.submit(["true"], session="s1", host="nowhere") for _ in range(3)]
    record = jobs[-1].wait(timeout=60)
    assert record.exit_code is None
    assert record.error is not None
    assert "the queue of host 'nowhere' is full (TELLBACK_COMMAND_QUEUE_MAX is 2)" in record.error
    assert [each.command_id for each in tb.records("s1")] == [jobs[-1].command_id]


NAMED: Final[dict[str, Callable[[Tellback, Any], object]]] = {
    "last is": lambda tb, odd: tb.records("s1", last=odd),
    "require is": lambda tb, odd: tb.gate("s1", require=odd),
    "require holds .*: argv is": lambda tb, odd: tb.gate("s1", require=[odd]),
    r"require holds .*: argv\[0\] is": lambda tb, odd: tb.gate("s1", require=[[odd]]),
    "by is": lambda tb, odd: tb.waive("s1", "c1", reason="r", by=odd),
    "reason is": lambda tb, odd: tb.waive("s1", "c1", reason=odd),
    "observations is": lambda tb, odd: tb.prompt("s1", "p", observations=odd),
}


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("odd", [b"x", 1.5, object()], ids=["bytes", "number", "object"])
def test_an_argument_of_another_type_is_named(tb: Tellback, named: str, odd: Any) -> None:
    with pytest.raises(tellback.InvalidInput, match=named):
        NAMED[named](tb, odd)
