"""The guard of this folder tells a server from any other program, and refuses every connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.unit_guard import Guard


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
def test_a_connection_or_a_server_is_refused_and_noted(event: str, arguments: tuple[Any, ...]) -> None:
    guard = Guard()
    guard(event, arguments)  # it rests between unit tests
    guard.active = True
    with pytest.raises(RuntimeError, match=event):
        guard(event, arguments)
    assert len(guard.refused) == 1


def test_other_programs_run() -> None:
    guard = Guard()
    guard.active = True
    guard("subprocess.Popen", ("git", ["git", "log"], None, None))
    guard("open", ("redis-server", "r", 0))
    assert not guard.refused
