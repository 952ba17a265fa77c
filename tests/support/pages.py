"""The code of a page, and what the page says that it prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str) -> list[tuple[str, str]]:
    """Each code block that begins in the first column of a page: its language and its text."""
    return _BLOCK.findall((ROOT / page).read_text("utf-8"))


def examples(page: str) -> list[tuple[str, str]]:
    """Each Python block with the `text` block that follows it, or with no output where none follows."""
    found = blocks(page)
    following = [*found[1:], ("", "")]
    return [
        (code, printed if kind == "text" else "")
        for (language, code), (kind, printed) in zip(found, following, strict=True)
        if language == "python"
    ]


def console(page: str) -> dict[str, str]:
    """Return what a page shows after each `$` line of its `console` blocks."""
    shown: dict[str, str] = {}
    for language, text in blocks(page):
        if language == "console":
            for part in text.split("$ ")[1:]:
                line, _, output = part.partition("\n")
                shown[line] = output
    return shown


def redis_cli(page: str) -> Iterator[list[str]]:
    """The arguments of each `redis-cli` command of a page, as a shell would part them."""
    for language, text in blocks(page):
        if language == "sh":
            for command in re.split(r"^redis-cli ", text, flags=re.MULTILINE)[1:]:
                yield shlex.split(command)
