"""Roles as colours of the terminal's theme."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from textual.content import Content

from tellback.tui.words import Line, Role

STYLES: Final[dict[Role, str]] = {
    "plain": "",
    "dim": "$foreground-muted",
    "good": "$text-success",
    "bad": "bold $text on $error",
    "settled": "$foreground-muted",
    "null": "bold $text-warning",
    "label": "$foreground-muted",
    "title": "bold",
    "mark": "$text-warning",
    "rule": "$text-primary",
}


def painted(lines: Iterable[Line]) -> Content:
    """Lines with their colours; brackets in them are text, not markup."""
    return Content("\n").join(
        Content.assemble(*((text, STYLES[role]) for text, role in line)) if line else Content("") for line in lines
    )
