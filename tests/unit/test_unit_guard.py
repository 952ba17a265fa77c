"""The guard of this folder refuses every connection and server, and other programs unless a test is marked for them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.unit_guard import Guard, guard


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.connect", (None, ("127.0.0.1", 6379))),
        ("socket.getaddrinfo", ("example.org", 443)),
        ("subprocess.Popen", ("x", ["/opt/bin/redis-server", "--version"], None, None)),
        ("subprocess.Popen", ("x", Path("/usr/bin/chromium"), None, None)),
        ("subprocess.Popen", ("x", ["python", "-m", "celery", "worker"], None, None)),
    ],
)
@pytest.mark.parametrize("programs", [False, True])
def test_a_connection_or_a_server_is_refused_and_noted(
    event: str, arguments: tuple[Any, ...], *, programs: bool
) -> None:
    own = Guard()
    own.programs = programs
    own(event, arguments)  # it rests between unit tests
    own.active = True
    with pytest.raises(RuntimeError, match=event):
        own(event, arguments)
    assert len(own.refused) == 1


def test_other_programs_run_where_a_test_says_that_it_starts_some() -> None:
    own = Guard()
    own.active = True
    own("open", ("redis-server", "r", 0))
    with pytest.raises(RuntimeError, match="mark a test `programs`"):
        own("subprocess.Popen", ("git", ["git", "log"], None, None))
    own.refused.clear()
    own.programs = True
    own("subprocess.Popen", ("git", ["git", "log"], None, None))
    assert not own.refused


def test_no_unmarked_test_starts_a_program() -> None:
    with pytest.raises(RuntimeError, match="mark a test `programs`"):
        subprocess.run(["true"], check=True)
    guard.refused.clear()


@pytest.mark.programs
def test_a_marked_test_starts_one() -> None:
    subprocess.run(["true"], check=True)
