"""The journeys of the architecture page name functions that exist, and stay short enough to follow."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from operator import attrgetter
from typing import Final

import pytest

from tests.support.journeys import JOURNEYS, section
from tests.support.pages import ROOT

MOST_MODULES: Final = 20
TOPS: Final = ("shared", "workers", "beat")
_ITEM: Final = re.compile(r"^\d+\. ", re.MULTILINE)


def test_there_are_four_journeys_and_each_item_names_a_function() -> None:
    assert len(JOURNEYS) == 4
    assert sum(map(len, JOURNEYS.values())) == len(_ITEM.findall(section()))


@pytest.mark.parametrize("title", JOURNEYS)
def test_each_function_of_a_journey_exists(title: str) -> None:
    for module, name in JOURNEYS[title]:
        found: object = attrgetter(name)(import_module(module))
        assert callable(found), f"{module}:{name}"


def test_each_function_of_a_journey_is_called_somewhere() -> None:
    """A step that exists but is called by nobody is history, as is a script."""
    sources = "\n".join(path.read_text("utf-8") for top in TOPS for path in (ROOT / top).rglob("*.py"))
    words = Counter(re.findall(r"\w+", sources))
    names = {name.rpartition(".")[2] for steps in JOURNEYS.values() for _, name in steps}
    assert [name for name in names if words[name] < 2] == []
    # Its wrapper names a script twice, and whoever calls it once more.
    scripts = set(re.findall(r"`(?:\w+/)*(\w+)\.lua`", section()))
    assert [script for script in scripts if words[script] < 3] == []


@pytest.mark.parametrize("title", JOURNEYS)
def test_a_journey_passes_at_most_twenty_modules(title: str) -> None:
    assert len(JOURNEYS[title]) > 5
    assert len({module for module, _ in JOURNEYS[title]}) <= MOST_MODULES
