"""`tellback hook install` and its siblings within the process of a test, and the files that they leave."""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tellback.cli import entry
from tellback.hook import installation


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the console script within this process: starting one costs more than most of these tests."""
    out, err, command = io.StringIO(), io.StringIO(), ["tellback", "hook", *map(str, arguments)]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("sys.argv", command)
        patch.setattr(installation, "compile_modules", lambda: None)  # has a test of its own, in a process of its own
        with pytest.raises(SystemExit) as end:
            entry.main()
    code = end.value.code or 0
    assert isinstance(code, int)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def ours(path: Path) -> dict[str, str]:
    return installation.commands_in(path)


def all_files(folder: Path) -> list[str]:
    """Return the names of all files below the folder, those of the data directory too."""
    return [path.name for path in folder.rglob("*") if not path.is_dir()]
