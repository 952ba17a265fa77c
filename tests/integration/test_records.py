"""Records on the host that ran the commands, and the command line that reads them, from a file and from Redis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tellback
from tellback import CommandRecord, Tellback
from tellback.commands.record import RecordFile
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.records import Records
from tests.support.forked import run_tellback
from tests.support.processes import run_program
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment

TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]
FILE = "feedback_record.jsonl"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, in which the command line runs."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    return folder


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `tellback` as a user does, where no Redis is."""
    env = {**os.environ, "TELLBACK_REDIS_URL": "redis://127.0.0.1:1/0"}
    return run_tellback(list(arguments), env, None)


def run(*arguments: str) -> dict[str, Any]:
    """The record of a `tellback run`."""
    (found,) = lines(tool("run", "--json", *arguments))
    return found


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(id_: str, exit_code: int | None, parent: str | None = None, session: str = "s") -> CommandRecord:
    return CommandRecord(
        command_id=id_, session=session, command=["pytest"], cwd="/", exit_code=exit_code, parent_command_id=parent
    )


def test_a_worker_appends_each_record_to_its_hosts_file(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """They are the records of Redis: of a success, a failure, and a refusal."""
    start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    reported = [
        tb.submit(["true"], session="s1").wait(timeout=60),
        tb.submit(["sh", "-c", "printf api_%s=1 key; exit 3"], session="s2").wait(timeout=60),
        tb.submit(["true"], session="s1", cwd="/").wait(timeout=60),
    ]
    path = settings.data_path / FILE
    wait_until(lambda: len(tellback.load_records(path)) == 3, "all are in the file")
    assert tellback.load_records(path) == reported
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"api_key=1" not in path.read_bytes()


def test_a_full_disk_is_logged_and_the_record_is_in_redis(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """The next command is run as ever."""
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(full)], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system takes root")
    try:
        (full / "ballast").write_bytes(b"x" * 4096)
        workers = start_workers(env={"TELLBACK_RECORD_FILE": str(full / FILE)})
        for _ in range(2):
            assert tb.submit(["echo", "out"], session="s1").wait(timeout=60).stdout_tail == "out"
        assert len(tb.records("s1")) == 2
        wait_until(lambda: workers.log().count("job.record_not_appended") == 2, "the log says so")
        assert "No space left on device" in workers.log()
        assert tellback.load_records(full / FILE) == []
        workers.stop()
    finally:
        subprocess.run(["umount", "-l", str(full)], check=True)


def test_each_of_several_teams_has_a_file_of_its_own(settings: Settings) -> None:
    """With `record_file` set to `none` there is no file at all."""
    several = msgspec.structs.replace(settings, teams="acme,umbra")
    assert settings.record_path("default") == settings.data_path / FILE
    assert several.record_path("acme") == settings.data_path / "acme" / FILE
    assert msgspec.structs.replace(settings, record_file="none").record_path("default") is None
    assert msgspec.structs.replace(several, record_file="/x/r.jsonl").record_path("acme") == Path("/x/acme/r.jsonl")


def test_run_appends_its_record_where_it_was_called(here: Path) -> None:
    """`--cwd` changes nothing; with `--file` the record goes there, with `--no-keep` nowhere."""
    first = run("--cwd", "/", "true")
    second = run("--file", "sub/other.jsonl", "true")
    run("--no-keep", "true")
    assert [one.command_id for one in tellback.load_records()] == [first["command_id"]]
    assert [one.command_id for one in tellback.load_records("sub/other.jsonl")] == [second["command_id"]]
    assert (here / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("here")
def test_run_whose_record_cannot_be_kept_says_so_and_exits_as_its_command() -> None:
    done = tool("run", "--file", "/dev/full", "sh", "-c", "exit 3")
    assert done.returncode == 3
    assert done.stderr.startswith("tellback: can't append the record to /dev/full: ")


@pytest.mark.usefixtures("here")
def test_a_file_alone_shows_what_is_unresolved_and_is_judged() -> None:
    """The file has a failure, a linked retry that fails, and one that succeeds; the gate follows."""
    absent = tool("gate", "--file", FILE)
    assert absent.stdout == "refused\n- no records: nothing has been run\n"
    assert f"{FILE} does not exist" in absent.stderr  # which may be misspelt
    first = run("--note", "green", "sh", "-c", "test -e done")
    second = run("--parent", first["command_id"], "sh", "-c", "test -e done")
    run("true")
    (chain,) = lines(tool("records", "--file", FILE, "--failed", "--json"))
    assert chain["unresolved"] == [first["command_id"], second["command_id"]]
    shown = tool("records", "--file", FILE, "--failed").stdout
    assert "1 → 1" in shown
    assert "green" in shown
    refused = tool("gate", "--file", FILE, "--require", "sh -c 'test -e done'", "--require", "make")
    assert refused.returncode == 1
    assert refused.stdout.splitlines()[1] == "- required and never run: make"
    assert len(refused.stdout.splitlines()) == 4
    assert refused.stderr.endswith("with --parent ID.\n"), "a file has no waivers"
    Path("done").touch()
    run("--parent", second["command_id"], "sh", "-c", "test -e done")
    passed = tool("gate", "--file", FILE, "--require", "sh -c 'test -e done'", "--json")
    assert passed.returncode == 0
    assert json.loads(passed.stdout)["passed"] is True
    assert tool("records", "--file", FILE, "--failed", "--json").stdout == ""
    assert [one["exit_code"] for one in lines(tool("records", "--file", FILE, "--json"))] == [1, 1, 0, 0]


@pytest.mark.usefixtures("here")
def test_a_session_of_a_file_is_judged_by_itself_and_by_all_that_is_kept() -> None:
    """`records` reads the current file, as an agent does, and with `--all` the set."""
    file = RecordFile(FILE)
    file.append(record("a", 1, session="bad"))
    for number in range(3):
        file.append(msgspec.structs.replace(record(str(number), 0, session="good"), stdout_tail="x" * 600_000))
    assert [one["command_id"] for one in lines(tool("records", "--file", FILE, "--json"))] == ["2"]
    assert [one["command_id"] for one in lines(tool("records", "--all", "--file", FILE, "--json"))] == [*"a012"]
    assert tool("gate", "good", "--file", FILE).returncode == 0
    assert tool("gate", "bad", "--file", FILE).returncode == 1
    assert tool("gate", "--file", FILE).returncode == 1
    assert len(lines(tool("records", "bad", "--failed", "--file", FILE, "--json"))) == 1


@pytest.mark.usefixtures("here")
def test_dropped_records_are_refused_and_torn_lines_are_reported() -> None:
    file = RecordFile(FILE)
    for number in range(7):
        file.append(msgspec.structs.replace(record(str(number), 0), stdout_tail="x" * 600_000))
    assert "- 1 older record is gone" in tool("gate", "s", "--file", FILE).stdout
    fresh = Path("fresh.jsonl")
    RecordFile(fresh).append(record("a", 0))
    with fresh.open("a") as raw:
        raw.write('{"command_id": "b", "sess')
    done = tool("gate", "--file", str(fresh))
    assert done.stdout.splitlines() == [
        "passed",
        "- passed over: fresh.jsonl:2 is not a record; its writer may have been killed",
    ]


@pytest.mark.usefixtures("here")
def test_nothing_in_a_record_moves_the_terminal() -> None:
    """That holds whoever wrote it; a record takes one line of a table, and so does a reason."""
    RecordFile(FILE).append(msgspec.structs.replace(record("a", 1), command=["x\x1b[2J", "y\nz"], agent_note="n\x07"))
    for arguments in (["records"], ["records", "--failed"], ["gate"]):
        shown = tool(*arguments, "--file", FILE).stdout
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "x\\x1b[2J" in shown
        assert "y\\nz" in shown


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["gate"], "name a session"),
        (["records", "--follow"], "name a session"),
        (["history", ""], "name a session"),
        (["gate", "s", "--require", "echo 'x"], "No closing quotation"),
        (["gate", "s", "--require", " "], "the command is empty"),
        (["gate", "--file", "/"], "can't read"),
        (["records", "--file", "/", "--follow"], "can't read"),
        (["records", "s", "--superseded", "--follow"], "--superseded can't be combined"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments: list[str], named: str) -> None:
    done = tool(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.usefixtures("here")
def test_an_output_that_a_full_disk_cuts_short_is_an_error(unbuffered: str) -> None:
    """Without a buffer it ended with 0 and half a line: Python drops the rest of such a write."""
    RecordFile(FILE).append(msgspec.structs.replace(record("a", 0), stdout_tail="x" * 600_000))
    script = f'ulimit -f 100; exec "$@" records --file {FILE} --json > out'
    done = run_program(["sh", "-c", script, "sh", *TOOL], env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stderr) == (1, "tellback: can't write: File too large\n")


class Following:
    """A `tellback records --follow` and the lines that it has printed."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*TOOL, "records", "--follow", "--json", *arguments], stdout=subprocess.PIPE, env=env or dict(os.environ)
        )
        self.printed: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(json.loads(line))

    def ids(self) -> list[str]:
        return [line["command_id"] for line in self.printed if "command_id" in line]

    def interrupt(self) -> int:
        self.process.send_signal(2)
        code = self.process.wait(timeout=60)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def stopped() -> Iterator[list[Following]]:
    """Followers to be stopped at the end, whatever happens."""
    started: list[Following] = []
    yield started
    for following in started:
        following.process.kill()
        following.interrupt()


@pytest.mark.usefixtures("here")
def test_a_file_is_followed_over_rotations(stopped: list[Following]) -> None:
    """Ctrl-C ends it without an error; with `--failed` it says what leaves a failure and what clears one."""
    file = RecordFile(FILE)
    file.append(record("old", 0))
    every, failures = Following("--file", FILE), Following("--file", FILE, "--failed")
    stopped += [every, failures]
    wait_until(lambda: every.ids() == ["old"], "it shows what is there")
    file.append(record("probe", 1))
    wait_until(lambda: failures.printed != [], "the other looks too")
    for id_ in "abcd":
        file.append(msgspec.structs.replace(record(id_, 0), stdout_tail="x" * 600_000))
    file.append(record("repaired", 0, parent="probe"))
    wait_until(lambda: every.ids() == ["old", "probe", *"abcd", "repaired"], "it shows each once")
    wait_until(lambda: failures.ids()[-1:] == ["repaired"], "the repair is printed")
    assert every.interrupt() == 0


def test_a_session_is_followed(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, stopped: list[Following]
) -> None:
    """Each record is read from Redis once, in order."""
    start_workers()
    tb.submit(["true"], session="s1").wait(timeout=60)
    following = Following("s1", env=environment(settings))
    stopped.append(following)
    wait_until(lambda: len(following.ids()) == 1, "it shows what is there")
    jobs = [tb.submit(["true"], session="s1") for _ in range(5)]
    for job in jobs:
        job.wait(timeout=60)
    wait_until(lambda: len(following.ids()) == 6, "it shows the new ones")
    assert following.ids() == [one.command_id for one in tb.records("s1")]
    assert following.interrupt() == 0


def push(database: Database, layout: Layout, number: int) -> None:
    """Store one more record of session `s`, as the worker's script does."""
    shard = layout.of("s")
    raw = msgspec.json.encode(record(str(number), 0))
    records, recorded = shard.key("records", "s"), shard.key("recorded", "s")
    week = 604_800_000
    code = (
        f"redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('LTRIM', KEYS[1], -200, -1) redis.call('INCR', KEYS[2]) "
        f"redis.call('PEXPIRE', KEYS[1], {week}) redis.call('PEXPIRE', KEYS[2], {week})"
    )
    database.command("EVAL", code, 2, records, recorded, raw)


def test_nothing_is_taken_for_gone_while_records_come(database: Database, layout: Layout, settings: Settings) -> None:
    """Count and list are of one moment; and a follower misses none and repeats none."""

    def push_all() -> None:
        own = Database(settings.redis_url)
        for number in range(190):
            push(own, layout, number)
        own.close()

    writer = threading.Thread(target=push_all)
    writer.start()
    records = Records(database, layout)

    def polls() -> Iterator[None]:
        while writer.is_alive():
            assert records.all("s")[1] == 0
            yield
        yield

    assert [one.command_id for one in records.follow("s", 0, polls())] == [str(number) for number in range(190)]
    writer.join()
