"""Rules for every unit test, and conversations of agents: of the repository, and in slow tests recorded ones."""

from __future__ import annotations

import pytest

from tests.support.conversations import SOURCES, Conversations, conversations_of
from tests.support.unit_guard import pytest_collection_finish, without_servers

__all__ = ["pytest_collection_finish", "source", "without_servers"]  # pytest finds the hook and the fixtures here


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> Conversations:
    return conversations_of(request.param)
