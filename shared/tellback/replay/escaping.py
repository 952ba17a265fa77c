"""Texts of others as they may stand in a page."""

from __future__ import annotations

from html import escape


def escaped(text: str) -> str:
    """The text as content or attribute; what is invisible (NUL, marks that turn the writing) becomes U+FFFD."""
    return escape(visible(text, "\n\t"))


def visible(text: str, also: str = "") -> str:
    """The text with U+FFFD for each character that shows nothing, save those in `also`."""
    return "".join(char if char.isprintable() or char in also else "\ufffd" for char in text)
