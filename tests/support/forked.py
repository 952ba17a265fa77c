"""Processes that are forked from one that has imported what they need."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tellback.cli import entry

SERVED: Final = multiprocessing.get_context("forkserver")  # as `spawn`, but fifty start in the time of one
SERVED.set_forkserver_preload(
    ["tellback.cli.app", "tellback.client.connection", "tellback_workers.sweep_turns", "tests.support.forked"]
)


def run_tellback(arguments: list[str], env: Mapping[str, str], cwd: Path | None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, for a tenth of what a start of the program costs.

    For tests of what a command does; those of how the program starts, is stopped, or reads its input start it.
    """
    with TemporaryDirectory() as folder:
        streams = [os.devnull, f"{folder}/out", f"{folder}/err"]
        process = SERVED.Process(target=_run, args=(arguments, dict(env), str(cwd or Path.cwd()), streams))
        process.start()
        process.join(60)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, 60)
        out, err = (Path(name).read_text("utf-8") for name in streams[1:])
        return subprocess.CompletedProcess(arguments, process.exitcode, out, err)


def _run(arguments: list[str], env: dict[str, str], cwd: str, streams: list[str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, name in enumerate(streams):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.argv = ["tellback", *arguments]
    entry.main()
