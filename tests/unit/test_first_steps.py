"""First steps of a new user: paste the pages' examples, one page after the other."""

from __future__ import annotations

import codeop
import re
from typing import Final

import pytest

from tests.support.pages import ROOT

FIRST_PAGES: Final = (
    *("README.md", "docs/quickstart.md"),
    *("docs/loops/commands.md", "docs/loops/turns.md", "docs/loops/signals.md"),
)
NAMES: Final = re.compile(r'(?:session|message_id|parent)="([^"]+)"')


def _blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", FIRST_PAGES[:2])
def test_the_examples_can_be_pasted_into_a_terminal(page: str) -> None:
    """Python's own prompt ends a block at an empty line, and takes the next line for a part of it otherwise."""
    for block in _blocks(page):
        pending: list[str] = []
        for line in [*block.splitlines(), ""]:
            pending.append(line)
            if codeop.compile_command("\n".join(pending), symbol="single") is not None:
                pending = []
        assert pending == [], block


def test_pages_share_no_names_of_sessions_and_messages() -> None:
    """The same message id on two pages is a duplicate, which the second page would print."""
    names = [set(NAMES.findall("\n".join(_blocks(page)))) for page in FIRST_PAGES]
    for number, each in enumerate(names):
        assert each, "a page has an example"
        for other in names[number + 1 :]:
            assert not each & other
