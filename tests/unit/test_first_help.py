"""First commands of a new user: help, versions, files that do not exist, disks that are full."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.cli.common import PANELS
from tellback.cli.entry import main
from tellback.wording import count_phrase


def said(*given: str) -> str:
    done = CliRunner().invoke(app, given, env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    return done.output


def test_ctrl_c_while_modules_load_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tellback.cli.app.main", interrupt)
    monkeypatch.setattr("tellback.process_privacy.forbid_dumps", lambda: None)
    monkeypatch.setattr(sys, "argv", ["tellback", "turns"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_of_banks_says_that_a_name_alone_shows_the_bank(option: str) -> None:
    helped = " ".join(said("bank", option).split())
    assert "`tellback bank NAME` is short for `tellback bank show NAME`" in helped
    assert "reembed" in helped


def test_the_version_is_printed() -> None:
    assert said("--version") == f"tellback {version('tellback')}\n"


@pytest.mark.programs
def test_the_package_runs_as_a_module() -> None:
    printed = subprocess.check_output([sys.executable, "-m", "tellback", "--version"], text=True)
    assert printed == f"tellback {version('tellback')}\n"


@pytest.mark.parametrize("command", [[], ["records"], ["hook", "install"]])
def test_help_has_a_short_form_and_shows_flags_as_flags(command: list[str]) -> None:
    text = said(*command, "-h")
    assert "Usage: tellback" in text
    assert "<bool>" not in text
    assert text == said(*command, "--help")


def test_an_optional_argument_is_in_one_pair_of_brackets() -> None:
    assert "init-runner [OPTIONS] [DIR]" in said("init-runner", "-h")
    assert "teams list [OPTIONS] [TEAM]..." in said("teams", "list", "-h")


def test_help_lists_the_panels_in_their_order() -> None:
    """They go from a new user's first command to an operator's; each comes once, and no command is outside of one."""
    titles = re.findall(r"^╭─ ([^─]+?) ─", said("--help"), re.MULTILINE)
    assert titles == ["Options", *PANELS]


def test_help_shows_every_word_of_its_text() -> None:
    """Rich takes a word in brackets for markup and leaves it out."""
    for command in app.registered_commands:
        assert command.callback is not None
        text = command.callback.__doc__ or ""
        assert "[" not in text, f"{command.name}: {text}"


@pytest.mark.parametrize("command", ["submit", "recall", "stats"])
def test_a_paragraph_of_help_fills_its_lines(command: str) -> None:
    """The line breaks of its docstring, which is wider, would leave a word or two on every other line."""
    lines = [line.strip() for line in said(command, "--help").partition("╭")[0].splitlines()]
    broken = [line for line, after in pairwise(lines) if after and 0 < len(line) < 70]
    assert not broken


def test_records_of_a_file_that_does_not_exist_are_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["records", "--file", str(tmp_path / "none.jsonl")])
    assert done.exit_code == 2
    assert "there is no such file" in done.output


FULL: Final = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is a device of Linux")
@pytest.mark.programs
@pytest.mark.parametrize("given", ["--version", "records --file empty"])
def test_a_full_disk_is_one_line(given: str, tmp_path: Path) -> None:
    """It is that of the output, not of the file that was read."""
    (tmp_path / "empty").touch()
    program = "import sys; from tellback.cli.app import main; sys.argv[0] = 'tellback'; main()"
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, *given.split()],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == "tellback: can't write: No space left on device\n"


def test_one_is_singular() -> None:
    assert [count_phrase(number, "fact") for number in (0, 1, 2, 1000)] == [
        "0 facts",
        "1 fact",
        "2 facts",
        "1,000 facts",
    ]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("team acme", "Did you mean --team acme?"),
        ("hook install codex", "Did you mean --program codex, --prompt codex or --team codex?"),
        ("ps s1", "Did you mean --session s1 or --team s1?"),
        ("stats b1", "Did you mean --session b1, --bank b1"),
        ("metrics 9464", "Did you mean --serve 9464"),
        ("sessions now", "Did you mean --team now?"),  # --within and --limit take numbers
        ("turns t1", "No such command 't1'. Its commands: show."),
        ("dead x", "Its commands: list, show, replay, drop."),
        ("sesions", "Did you mean 'sessions'?"),
    ],
)
def test_a_misplaced_word_is_answered_by_the_option_or_command_that_was_meant(given: str, hint: str) -> None:
    done = CliRunner().invoke(app, given.split(), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert done.exit_code == 2
    assert hint in done.stderr


def test_a_word_that_no_option_takes_has_no_hint() -> None:
    done = CliRunner().invoke(app, ["up", "acme"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert (done.exit_code, "Did you mean" in done.stderr) == (2, False)
