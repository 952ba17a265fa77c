"""`tellback init-runner`: what it writes runs without Tellback and leaves the same records."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellback
from tellback.commands.local import run_locally
from tellback.commands.project.writing import RunnerOptions, render_project_files, write_files
from tellback.commands.record import RecordFile
from tellback.commands.truncation import StreamTruncator
from tellback.contracts.commands import CommandRecord
from tellback.errors import InvalidInput
from tellback.redaction import Redactor
from tests.support.processes import run_program

pytestmark = pytest.mark.programs

TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]
BARE = [sys.executable, "-I", "-S"]  # no site-packages: the standard library alone
RUNNER, SKILL = "run_with_feedback.py", "skill-feedback-runner.md"
VOLATILE = {"command_id", "duration_ms", "started_at", "host"}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with its own runner."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_files(folder, render_project_files(RunnerOptions()), force=False)
    return folder


@pytest.fixture
def run(project: Path) -> Run:
    """Runs the project's runner in a bare Python, in the project."""

    def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*BARE, str(project / RUNNER), *arguments]
        return run_program(command, cwd=project)

    return bare


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program([*TOOL, *arguments])


def generated(text: str) -> ModuleType:
    """The runner as a module."""
    spec = spec_from_file_location("generated", "/nowhere/run_with_feedback.py")
    assert spec is not None
    module = module_from_spec(spec)
    exec(compile(text, "run_with_feedback.py", "exec"), module.__dict__)
    return module


def test_it_needs_the_standard_library_alone(project: Path) -> None:
    tree = ast.parse((project / RUNNER).read_text())
    taken = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    taken |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name.split(".")[0] for name in taken} <= sys.stdlib_module_names
    checked = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=E,F,I", "--line-length=120"]
    assert subprocess.run([*checked, str(project / RUNNER)], check=False).returncode == 0
    assert os.access(project / RUNNER, os.X_OK)


@pytest.mark.parametrize(
    ("options", "argv"),
    [
        ([], ["true"]),
        (["--note", "expect   3"], ["sh", "-c", "echo out; echo err >&2; exit 3"]),
        ([], ["sh", "-c", "seq 1000; seq 36 >&2"]),
        ([], ["sh", "-c", "kill -9 $$"]),
        ([], ["sh", "-c", "kill -40 $$"]),
        ([], ["sh", "-c", "printf '\\377\\n10%%\\r20%%\\nlast'"]),
        ([], [sys.executable, "-c", "print('é' * 5000)"]),
        (
            [],
            [
                "printf",
                r"%s\n",
                "Bearer x",
                "bearer of bad news",
                "DB_PASSWORD=x",
                "api_key=y",
                "xoxb-1",
                "max_tokens=512",
            ],
        ),
        (["--parent", "p1", "--cwd", "/"], ["pwd"]),
        (["--timeout", "0.3"], ["sleep", "60"]),
        ([], ["no-such-program"]),
        ([], ["/"]),
        ([], ["/etc/passwd"]),
        (["--cwd", "/no/such/directory"], ["true"]),
    ],
)
def test_its_records_are_those_of_tellback_run(run: Run, project: Path, options: list[str], argv: list[str]) -> None:
    """They are equal field by field, but for id, host and times."""
    done = run("--json", *options, "--", *argv)
    own = msgspec.json.decode(done.stdout, type=CommandRecord)
    assert tellback.load_records(project / "feedback_record.jsonl") == [own]
    chosen = dict(zip(options[::2], options[1::2], strict=True))
    real = run_locally(
        argv,
        session="local",
        host="h",
        cwd=chosen.get("--cwd", str(project)),
        timeout=float(chosen.get("--timeout", 30)),
        note=chosen.get("--note"),
        parent=chosen.get("--parent"),
    )
    assert comparable(json.loads(done.stdout)) == comparable(msgspec.to_builtins(real))
    assert (own.started_at is None) == (real.started_at is None)
    expected = 1 if real.exit_code is None else real.exit_code if real.exit_code >= 0 else 128 - real.exit_code
    assert done.returncode == expected


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in VOLATILE}


_PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"a",
        b"\xff",
        "é".encode(),
        b"x" * 2_047,
        b"y" * 1_100,
        b"l\n" * 40,
        b"password=",
    ]
)
_MODULE = generated(render_project_files(RunnerOptions())[RUNNER])


@given(st.lists(st.lists(_PIECES, max_size=6).map(b"".join), max_size=8))
def test_it_keeps_what_tellback_keeps_of_any_output(chunks: list[bytes]) -> None:
    """Truncation, carriage returns, redaction and the cutting into chunks are the same."""
    real, own = StreamTruncator(Redactor()), _MODULE.Capture()
    for chunk in chunks:
        real.feed(chunk)
        own.feed(chunk)
    kept = real.finish()
    assert own.finish() == (kept.text, kept.truncated, kept.redacted)
    assert own.size == kept.size


def test_many_runners_and_tellback_share_one_file(run: Run, project: Path) -> None:
    """They use the same lock and the same rotation, and none is lost."""
    path = project / "feedback_record.jsonl"
    code = (
        f"import runpy; run = runpy.run_path({str(project / RUNNER)!r})['run']\n"
        "for _ in range(30): run(['head', '-c', '40000', '/dev/zero'])"
    )
    writers = [subprocess.Popen([*BARE, "-c", code]) for _ in range(4)]
    for number in range(60):
        RecordFile(path).append(
            CommandRecord(command_id=str(number), session="s", command=["x"], stdout_tail="x" * 9_000)
        )
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    found = tellback.load_records(path, rotated=True)
    assert len({record.command_id for record in found}) == 180
    assert path.with_name(f"{path.name}.1").exists()
    current = run("--last", "1000").stdout.splitlines()
    assert [json.loads(line)["command_id"] for line in current] == [
        one.command_id for one in tellback.load_records(path)
    ]
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_of_its_group_outlives_a_command(run: Run, project: Path) -> None:
    """A timed-out shell's children end, also those that ignore TERM, and so does what it left in the background."""
    runner = project / RUNNER
    runner.write_text(runner.read_text().replace("\nGRACE = 5.0", "\nGRACE = 0.5"))
    tag = f"77.{os.getpid()}"
    run("--timeout", "0.3", "--", "sh", "-c", f"trap '' TERM; sleep {tag} & sleep {tag}")
    run("--", "sh", "-c", f"sleep {tag} & echo started")
    assert not [p for p in psutil.process_iter(["cmdline"]) if tag in (p.info["cmdline"] or [])]


def test_a_project_chooses(tmp_path: Path) -> None:
    """It chooses its budget when the runner is written, and its rules in the table."""
    text = render_project_files(RunnerOptions(head=2, tail=3, timeout=7.5))[RUNNER]
    assert "\nTIMEOUT = 7.5 " in text
    text = text.replace("REDACTION = (\n", 'REDACTION = (\n    ("ours", r"ACME-[0-9]+"),\n')
    module = generated(text)
    argv = ["sh", "-c", "seq 10; printf ACME-%s 12"]
    record = module.run(argv, file=tmp_path / "r.jsonl")
    assert record["stdout_tail"] == "1\n2\n...truncated 6 lines...\n9\n10\n[redacted: ours]"
    assert module.load(tmp_path / "r.jsonl") == [record]


def test_nothing_is_overwritten_unless_asked_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    dry = tool("init-runner", str(folder), "--dry-run")
    assert (dry.returncode, folder.exists()) == (0, False)
    assert "def load(" in dry.stdout
    assert "# Run commands with feedback" in dry.stdout
    missing = tool("init-runner", str(folder))  # a typing mistake, most likely: it made that directory
    assert (missing.returncode, folder.exists()) == (2, False)
    assert f"{folder} is not a directory" in missing.stderr
    folder.mkdir()
    (folder / SKILL).write_text("mine")
    refused = tool("init-runner", str(folder))
    assert refused.returncode == 2
    assert f"already in {folder}: {SKILL}; to overwrite, pass --force" in refused.stderr
    assert [path.name for path in folder.iterdir()] == [SKILL]
    assert (folder / SKILL).read_text() == "mine"
    assert tool("init-runner", str(folder), "--force", "--head", "3").returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == [RUNNER, SKILL]
    assert "the first 3 and the last 30 lines" in (folder / SKILL).read_text()
    assert tool("init-runner", str(tmp_path / "q"), "--tail", "0").returncode == 2


def test_a_full_disk_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(path: Path, _target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "replace", fill)
    with pytest.raises(InvalidInput, match="No space left"):
        write_files(tmp_path, {RUNNER: "x"}, force=False)
    assert not list(tmp_path.iterdir())


def test_the_skill_page_says_what_is_so(project: Path, run: Run) -> None:
    """Every option and field that it names exists; its commands run."""
    text = (project / SKILL).read_text()
    assert "{{" not in text
    options = run("--help").stdout
    for option in re.findall(r"run_with_feedback\.py (--\w+)", text):
        assert option in options
    fields = re.findall(r"`(\w+)`", text.partition("|---|---|\n")[2].partition("\n\n")[0])
    assert set(fields) <= set(CommandRecord.__struct_fields__)
    assert run("--note", "expect none", "--", "true").returncode == 0
    gate = next(line for line in text.splitlines() if "tellback gate" in line)
    path = str(project / "feedback_record.jsonl")
    assert tool("gate", "--file", path, "--require", "true").returncode == 0
    assert "--file feedback_record.jsonl --require" in gate
