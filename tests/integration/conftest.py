"""Fixtures of what many files here need; what they import is loaded by the tests that use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tellback.settings import Settings
from tellback.state.keys import Layout

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
