"""The words of fallbacks."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

from tellback.turns.fallback_text import BUILT_IN, FEEDBACK_KEY, feedback_text

LOCALE = Path(str(files("tellback") / "locale"))
LANGUAGES = ("ar", "de", "en", "es", "fr", "ja", "ru")


def test_the_shipped_languages_are_these() -> None:
    assert tuple(sorted(folder.name for folder in LOCALE.iterdir())) == LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_says_something_of_its_own(language: str) -> None:
    text = feedback_text(language)
    assert text
    assert FEEDBACK_KEY not in text
    assert all(feedback_text(other) != text for other in LANGUAGES if other != language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalog_is_in_step_with_its_source(language: str) -> None:
    folder = LOCALE / language / "LC_MESSAGES"
    with (folder / "tellback.po").open("rb") as source, (folder / "tellback.mo").open("rb") as compiled:
        wanted, found = words(read_po(source)), words(read_mo(compiled))
    assert found == wanted, "run: pybabel compile -d shared/tellback/locale -D tellback"


def words(catalog: Catalog) -> dict[str, object]:
    return {str(message.id): message.string for message in catalog if message.id}


def test_the_first_language_with_words_is_taken() -> None:
    assert feedback_text("xx", "fr", "de") == feedback_text("fr")
    assert feedback_text(None, "", "de") == feedback_text("de")


def test_a_region_takes_the_words_of_its_language() -> None:
    assert feedback_text("de-AT") == feedback_text("de_CH") == feedback_text("DE") == feedback_text("de")


def test_without_any_translation_the_built_in_words_remain() -> None:
    assert feedback_text() == feedback_text("xx", None) == BUILT_IN == feedback_text("en")


@pytest.mark.parametrize("tag", ["../de", "de/../fr", "de\0", "e", "д", "a" * 10_000, "-", "de-", "LC_MESSAGES", "."])
def test_what_is_no_language_tag_is_passed_over(tag: str) -> None:
    assert feedback_text(tag, "ja") == feedback_text("ja")
