"""The directory of a command or its program, swapped for another between the policy's check and the start."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tellback import Settings
from tellback.commands.runner import ExecutionSpec, run
from tellback.contracts.commands import CommandSubmitted
from tellback_workers.policy import Policy, Refused

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(sys.platform != "linux", reason="RENAME_EXCHANGE is Linux's"),
]

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_LIBC = ctypes.CDLL(None, use_errno=True)
TRIES = 400
ALLOWED_ENDS = {"inside", "refused at the start", "refused by the policy"}


class Folders:
    """An allowed folder that holds `work`, with a file of the same name inside and outside."""

    def __init__(self, folder: Path) -> None:
        self.allowed, self.outside = folder / "allowed", folder / "outside"
        for place in (self.allowed / "work", self.outside):
            place.mkdir(parents=True)
        (self.allowed / "work" / "where").write_text("inside")
        (self.outside / "where").write_text("outside")
        self.link = self.allowed / "link"
        self.link.symlink_to(self.outside)
        self._policy = Policy(Settings(command_roots=str(self.allowed)), "default", {"PATH": "/usr/bin:/bin"})

    def swap(self) -> None:
        """Let directory and link change places, in one step of the kernel's."""
        one, other = os.fsencode(self.allowed / "work"), os.fsencode(self.link)
        assert _LIBC.renameat2(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE) == 0, os.strerror(ctypes.get_errno())

    def checked(self) -> ExecutionSpec:
        """The command as the policy lets it through."""
        return self._policy.execution(
            CommandSubmitted(event_id="1", command_id="1", session="s", argv=["cat", "where"], cwd="work"), {}
        )


def test_a_directory_that_becomes_a_link_after_the_check_is_refused(tmp_path: Path) -> None:
    """The supervisor looks where the change led; the record does not claim the inside."""
    folders = Folders(tmp_path)
    execution = folders.checked()
    folders.swap()
    outcome = run(execution)
    expected = f"refused by this host's policy, rule directories: {execution.cwd} became {folders.outside}"
    assert (outcome.exit_code, outcome.started_at) == (None, None)
    assert outcome.error == f"{expected} before the start"
    folders.swap()
    assert run(execution).stdout.text == "inside", "the same supervisor runs the next one"


def test_a_directory_above_that_becomes_a_link_is_refused_too(tmp_path: Path) -> None:
    """No part of the path is trusted after the check."""
    folders = Folders(tmp_path)
    (folders.outside / "below").mkdir()
    (folders.allowed / "work" / "below").mkdir()
    execution = ExecutionSpec(
        argv=["true"], cwd=str(folders.allowed / "work" / "below"), env={}, timeout=5, real_cwd=True
    )
    folders.swap()
    assert "rule directories" in (run(execution).error or "")


def test_a_link_that_is_swapped_while_it_is_read_loses_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`realpath` finds a link and then reads a directory, which raises before Python 3.13; later ones take it so."""
    folders = Folders(tmp_path)
    folders.swap()
    read = os.readlink

    def readlink(path: str) -> str:
        folders.swap()
        return read(path)

    monkeypatch.setattr(os, "readlink", readlink)
    if sys.version_info < (3, 13):
        with pytest.raises(Refused, match="cannot be resolved: Invalid argument"):
            folders.checked()
    else:
        assert run(folders.checked()).stdout.text == "inside"


@contextmanager
def swapping(folders: Folders) -> Generator[None]:
    """Swap back and forth as fast as a thread can."""
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            folders.swap()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        ended.set()
        swapper.join()


def test_no_swap_leads_outside(tmp_path: Path) -> None:
    """Under a swapper that never rests commands run inside or not at all; the scheduler decides which."""
    folders, ends = Folders(tmp_path), set[str]()
    with swapping(folders):
        for tries in itertools.count():
            # Refusals by the policy are so quick that hundreds may pass before the swapper's thread has a turn.
            if ends >= ALLOWED_ENDS or (tries >= TRIES and len(ends) > 1):
                break
            try:
                outcome = run(folders.checked())
            except Refused:
                ends.add("refused by the policy")
                continue
            ends.add("refused at the start" if outcome.error else outcome.stdout.text)
    assert ends <= ALLOWED_ENDS


@pytest.mark.parametrize(
    "argv", [["./cat", "where"], ["cat", "where"]], ids=["by its path", "by a PATH of the command"]
)
def test_a_program_that_is_swapped_after_the_check_does_not_run(tmp_path: Path, argv: list[str]) -> None:
    """The policy's own file runs, whatever the path leads to by then."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "where").write_text("inside")
    (allowed / "cat").symlink_to("/bin/cat")
    rules = tmp_path / "policy.toml"
    rules.write_text('programs = ["cat"]\n')
    settings = Settings(command_roots=str(allowed), command_policy=str(rules))
    policy = Policy(settings, "default", {"PATH": "/usr/bin:/bin"})
    submitted = CommandSubmitted(event_id="1", command_id="1", session="s", argv=argv, env={"PATH": str(allowed)})
    execution = policy.execution(submitted, {})
    (allowed / "cat").unlink()
    (allowed / "cat").write_text("#!/bin/sh\necho not allowed\n")
    (allowed / "cat").chmod(0o755)
    assert run(execution).stdout.text == "inside"


def test_an_allowed_program_runs_under_the_name_that_was_submitted(tmp_path: Path) -> None:
    """The Python of a virtual environment finds its packages by that name."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    rules = tmp_path / "policy.toml"
    rules.write_text('programs = ["sh"]\n')
    policy = Policy(Settings(command_roots=str(tmp_path), command_policy=str(rules)), "default", {"PATH": "/bin"})
    submitted = CommandSubmitted(event_id="1", command_id="1", session="s", argv=["./sh", "-c", "echo $0"])
    assert run(policy.execution(submitted, {})).stdout.text == "./sh"
