"""Fixtures of what many files here need; what they import is loaded by the tests that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tellback import Tellback
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.tool_health import ToolHealth

if TYPE_CHECKING:
    from tests.support.signals import Angles, Bench


@pytest.fixture
def encoder() -> Angles:
    """The model of `bench`; a file that needs another one overrides this."""
    from tests.support.signals import Angles

    return Angles()


@pytest.fixture
def bench(settings: Settings, layout: Layout, encoder: Angles) -> Iterator[Bench]:
    """The loops of signals and recalls, run by hand."""
    from tests.support.signals import Bench

    bench = Bench(settings, layout, encoder)
    yield bench
    bench.close()


@pytest.fixture
def drain(settings: Settings, layout: Layout, tb: Tellback) -> Callable[[], None]:
    """Publish the tool calls that are buffered and apply them, here."""
    from tellback_workers.runtime import Runtime
    from tellback_workers.tasks import drainer

    runtime = Runtime(settings)
    runtime.intake("default").ensure_groups()

    def run() -> None:
        tb.flush()
        for shard in layout.all:
            while drainer(runtime, "default", Family.EVENTS).drain(shard, Family.EVENTS):
                continue  # a drain ends with half its lease

    return run


@pytest.fixture
def health(database: Database, layout: Layout) -> ToolHealth:
    """What the team knows of its tools."""
    return ToolHealth(database, layout)


@pytest.fixture
def now(database: Database) -> int:
    """Redis' time, in milliseconds."""
    return database.now_ms()
