"""The generic feedback from the catalogs that Tellback brings.

They are `tellback/locale/LANGUAGE/LC_MESSAGES/tellback.po`, and the compiled ones stand beside them:
`pybabel compile -d shared/tellback/locale -D tellback`. Settings may put others before them: `tellback.turns.words`.
"""

from __future__ import annotations

from tellback.turns.keys import FEEDBACK_KEY
from tellback.turns.words import BUILT_IN, shipped, widening

__all__ = ["BUILT_IN", "FEEDBACK_KEY", "feedback_text"]


def feedback_text(*languages: str | None) -> str:
    """The generic feedback in the first of `languages` that has a translation, else built-in English.

    Each is a tag like `pt`, `de-AT` or `de_AT`; a region without words of its own takes those of its language, and what
    is no tag is passed over.
    """
    tags = [tag for language in languages for tag in widening(language or "")]
    return next((shipped()[tag][FEEDBACK_KEY] for tag in tags if tag in shipped()), BUILT_IN)
