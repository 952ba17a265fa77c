"""The journeys of the architecture page, and the order in which a run passes their functions."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dis import opmap
from importlib import import_module
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any, Final

from tests.support.pages import ROOT

PAGE: Final = (ROOT / "docs" / "architecture.md").read_text("utf-8")
_SECTION: Final = re.compile(r"^## Four journeys\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
_JOURNEY: Final = re.compile(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", re.DOTALL | re.MULTILINE)
_STEP: Final = re.compile(r"^\d+\. `([\w.]+):([\w.]+)` \S", re.MULTILINE)

_UNSTARTED: Final = opmap["RETURN_GENERATOR"]  # Python 3.11 reports a generator that ends before it began as a call


def section() -> str:
    """The text of the journeys."""
    found = _SECTION.search(PAGE)
    assert found, "the architecture page has no section 'Four journeys'"
    return found[1]


JOURNEYS: Final = {title: _STEP.findall(text) for title, text in _JOURNEY.findall(section())}
"""The module and the function of each step, by the journey's heading."""


@contextmanager
def calls_watched(note: Callable[[CodeType], object]) -> Generator[None]:
    """Give `note` the code of each function that is called; threads that begin within are watched too."""
    over = threading.Event()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if over.is_set():
            sys.setprofile(None)  # of a thread that continues
        elif event == "call" and frame.f_code.co_code[frame.f_lasti] != _UNSTARTED:
            note(frame.f_code)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield
    finally:
        over.set()
        sys.setprofile(None)
        threading.setprofile(None)


@contextmanager
def steps_passed(title: str) -> Generator[list[str]]:
    """Collect the steps of a journey as the block passes them, each at its first call."""
    names = {_code(module, name): name for module, name in JOURNEYS[title]}
    passed: list[str] = []

    def note(code: CodeType) -> None:
        name = names.get(code)
        if name is not None and name not in passed:
            passed.append(name)

    with calls_watched(note):
        yield passed


def assert_order(title: str, passed: Sequence[str], elsewhere: Sequence[str]) -> None:
    """Check that the block passed the steps in the page's order; those in `elsewhere` pass outside of it."""
    steps = [name for _, name in JOURNEYS[title]]
    assert set(elsewhere) <= set(steps)
    assert list(passed) == [name for name in steps if name not in elsewhere], list(passed)


def _code(module: str, name: str) -> CodeType:
    """The code of a step: of a class, that of its start; of a task, that of its function."""
    found: Any = attrgetter(name)(import_module(module))
    if inspect.isclass(found):
        found = found.__init__
    found = inspect.unwrap(getattr(found, "run", found))
    code: CodeType = getattr(found, "__func__", found).__code__
    return code
