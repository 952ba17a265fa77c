"""The words of observations: templates as data, in several languages, checked when they are loaded.

A catalog is a TOML file with the tables of `catalogs/en.toml`. It may hold any part of them; what it leaves out comes
from its `base`, a language of ours (English unless it says otherwise).
"""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from tellback.errors import ConfigurationError
from tellback.guidance.observations.values import is_dict

LANGUAGES: Final = ("en", "de", "ru")
_TEXT_MAX: Final = 500
_FILE_MAX: Final = 256 << 10
_OPEN: Final = frozenset({"purpose"})  # tables with keys of the user's own
_parse = string.Formatter().parse


class Catalog(msgspec.Struct, frozen=True):
    """The templates of one language, by table and key."""

    tables: dict[str, dict[str, str]]

    def text(self, table: str, key: str, /, **values: object) -> str:
        """A template with its values filled in; each was made one line before."""
        return self.tables[table][key].format_map({name: str(value) for name, value in values.items()})

    def has(self, table: str, key: str) -> bool:
        """Whether there is such a template."""
        return key in self.tables[table]

    @property
    def headings(self) -> tuple[str, ...]:
        """What begins a section of ours, so that no tool's text may."""
        return (*self.tables["section"].values(), self.tables["note"]["missing"].partition("{")[0].strip(" ("))


@cache
def catalog_of(language: str) -> Catalog:
    """The catalog of a language of ours; a region takes that of its language.

    Raises:
        ConfigurationError: we have none.
    """
    tag = language.replace("_", "-").partition("-")[0].lower()
    if tag not in LANGUAGES:
        raise ConfigurationError(
            f"no observations in {language!r}; there are {', '.join(LANGUAGES)}, or templates of yours"
        )
    raw = (files("tellback.guidance.observations") / "catalogs" / f"{tag}.toml").read_text("utf-8")
    tables = cast("dict[str, dict[str, str]]", tomllib.loads(raw))
    return Catalog(tables) if tag == "en" else merged(tables, catalog_of("en"), f"the catalog {tag}")


@cache
def our_headings() -> tuple[str, ...]:
    """How sections and notes begin in every language of ours."""
    return tuple(heading for language in LANGUAGES for heading in catalog_of(language).headings)


def load_catalog(path: str | Path) -> Catalog:
    """A catalog of the user's own.

    Raises:
        ConfigurationError: it cannot be read, or holds what is no template of observations; the message names the key.
    """
    try:
        raw = Path(path).read_bytes()[: _FILE_MAX + 1]
        tables = tomllib.loads(raw.decode())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"observation templates {path}: {error}") from error
    if len(raw) > _FILE_MAX:
        raise ConfigurationError(f"observation templates {path}: over {_FILE_MAX} bytes")
    base = tables.pop("base", "en")
    if not isinstance(base, str):
        raise ConfigurationError(f"observation templates {path}: base is no language")
    return merged(tables, catalog_of(base), f"observation templates {path}")


def merged(tables: Mapping[str, Any], base: Catalog, what: str) -> Catalog:
    """The base with these templates in place of its own.

    Raises:
        ConfigurationError: a table or key is not one of the base's, or a text uses what is not filled in there.
    """
    whole = {table: dict(texts) for table, texts in base.tables.items()}
    english = base if base.tables is _english().tables else _english()
    for table, texts in tables.items():
        if table not in whole or not is_dict(texts):
            raise ConfigurationError(f"{what}: no table [{table}]; there are {', '.join(whole)}")
        for key, text in texts.items():
            whole[table][key] = _checked(text, english.tables[table].get(key), table, key, what)
    return Catalog(whole)


def _english() -> Catalog:
    return catalog_of("en")


def _checked(text: object, english: str | None, table: str, key: str, what: str) -> str:
    place = f"{what}: {table}.{key}"
    if english is None and table not in _OPEN:
        raise ConfigurationError(f"{place} is not known")
    if not isinstance(text, str) or not text.strip() or len(text) > _TEXT_MAX or len(text.splitlines()) != 1:
        raise ConfigurationError(f"{place} is not one line of at most {_TEXT_MAX} characters")
    unknown = _fields(text, place) - _fields(english or "", place)
    if unknown:
        allowed = ", ".join(sorted(_fields(english or "", place))) or "nothing"
        raise ConfigurationError(f"{place} has {{{min(unknown)}}}; what is filled in there: {allowed}")
    return text


def _fields(text: str, place: str) -> set[str]:
    try:
        parts = list(_parse(text))
    except ValueError as error:
        raise ConfigurationError(f"{place}: {error}") from error
    if any(form or conversion for _, name, form, conversion in parts if name is not None):
        raise ConfigurationError(f"{place} has more than a name in braces")
    return {name for _, name, _, _ in parts if name is not None}
