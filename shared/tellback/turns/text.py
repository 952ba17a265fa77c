"""The words of fallbacks, from gettext catalogs; never a key, a code or an exception's text.

The catalogs are `tellback/locale/LANGUAGE/LC_MESSAGES/tellback.po`, and the compiled ones stand beside them:
`pybabel compile -d shared/tellback/locale -D tellback`. Source: feedback-guarantee, "process(context)".
"""

from __future__ import annotations

import gettext
import re
from functools import cache
from importlib.resources import files
from typing import Final

FEEDBACK_KEY: Final = "system.error.generic.feedback"
BUILT_IN: Final = "Sorry, something went wrong and I could not answer your message. Please try again."
_TAG: Final = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_MAX_TAG: Final = 35  # what RFC 5646 asks buffers to hold


def feedback_text(*languages: str | None) -> str:
    """The generic feedback in the first of `languages` that has a translation, else built-in English.

    The order is the caller's: the turn's language, then the default. Each is a tag like `pt`, `de-AT` or `de_AT`; a
    region without words of its own takes those of its language, and what is no tag is passed over.
    """
    for language in languages:
        for tag in _widening(language or ""):
            text = _translation(tag)
            if text:
                return text
    return BUILT_IN


def _widening(language: str) -> list[str]:
    """`de-AT` gives `de_AT` and `de`; what is no language tag gives nothing, since it must not reach a path."""
    if len(language) > _MAX_TAG or not _TAG.fullmatch(language):
        return []
    first, *rest = language.replace("-", "_").split("_")
    return ["_".join([first.lower(), *rest[:length]]) for length in range(len(rest), -1, -1)]


def _translation(tag: str) -> str:
    return _load(tag) if tag in _shipped() else ""  # asked first, so that made-up tags cannot fill the cache


@cache
def _shipped() -> frozenset[str]:
    return frozenset(entry.name for entry in (files("tellback") / "locale").iterdir() if entry.is_dir())


@cache
def _load(tag: str) -> str:
    """The translation, or nothing where the catalog has none: gettext would give the key."""
    path = files("tellback") / "locale" / tag / "LC_MESSAGES" / "tellback.mo"
    with path.open("rb") as file:
        text = gettext.GNUTranslations(file).gettext(FEEDBACK_KEY).strip()
    return "" if text == FEEDBACK_KEY else text
