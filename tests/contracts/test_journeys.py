"""The journeys of the architecture page name functions that exist, and stay short enough to follow."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from operator import attrgetter
from typing import Final

import pytest

from tests.support.pages import ROOT

MOST_MODULES: Final = 20
TOPS: Final = ("shared", "workers", "beat")
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text("utf-8")
_SECTION: Final = re.compile(r"^## Four journeys\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
_JOURNEY: Final = re.compile(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", re.DOTALL | re.MULTILINE)
_STEP: Final = re.compile(r"^\d+\. `([\w.]+):([\w.]+)` \S", re.MULTILINE)
_ITEM: Final = re.compile(r"^\d+\. ", re.MULTILINE)


def _journeys() -> dict[str, list[tuple[str, str]]]:
    """The module and the function of each step, by the journey's heading."""
    section = _SECTION.search(PAGE)
    assert section, "the architecture page has no section 'Four journeys'"
    return {title: _STEP.findall(text) for title, text in _JOURNEY.findall(section[1])}


JOURNEYS: Final = _journeys()


def test_there_are_four_journeys_and_each_item_names_a_function() -> None:
    assert len(JOURNEYS) == 4
    section = _SECTION.search(PAGE)
    assert section
    assert sum(map(len, JOURNEYS.values())) == len(_ITEM.findall(section[1]))


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
    section = _SECTION.search(PAGE)
    assert section
    # Its wrapper names a script twice, and whoever calls it once more.
    scripts = set(re.findall(r"`(?:\w+/)*(\w+)\.lua`", section[1]))
    assert [script for script in scripts if words[script] < 3] == []


@pytest.mark.parametrize("title", JOURNEYS)
def test_a_journey_passes_at_most_twenty_modules(title: str) -> None:
    assert len(JOURNEYS[title]) > 5
    assert len({module for module, _ in JOURNEYS[title]}) <= MOST_MODULES
