"""Load the templates of observations, in several languages, and check them.

A catalog is a TOML file with any part of the tables of `catalogs/en.toml`; the rest comes from its `base`, one of the
shipped languages (English by default). Errors surface when a prompt begins, with the key, not in a tool call.
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
_TEXT_MAX: Final = 500  # characters of a template; `feedback` cuts a line of foreign text at 480
_FILE_MAX: Final = 256 << 10  # our own catalogs have 4 to 6 KB; a larger file is not one, and would be parsed whole
_OPEN: Final = frozenset({"purpose"})  # tables with keys of the user's own
_parse = string.Formatter().parse


class Catalog(msgspec.Struct, frozen=True):
    """The templates of one language, by table and key."""

    tables: dict[str, dict[str, str]]

    def text(self, table: str, key: str, /, **values: object) -> str:
        """Fill in a template; the caller has made each value a single line."""
        return self.tables[table][key].format_map({name: str(value) for name, value in values.items()})

    def has(self, table: str, key: str) -> bool:
        """Check whether a template exists."""
        return key in self.tables[table]

    @property
    def headings(self) -> tuple[str, ...]:
        """The beginnings of our sections and notes, which no tool's text may imitate."""
        return (*self.tables["section"].values(), self.tables["note"]["missing"].partition("{")[0].strip(" ("))


@cache
def catalog_for(language: str) -> Catalog:
    """Return the catalog of a shipped language; a region such as `de-AT` uses that of its language.

    Raises:
        ConfigurationError: The language is not shipped.
    """
    tag = language.replace("_", "-").partition("-")[0].lower()
    if tag not in LANGUAGES:
        raise ConfigurationError(
            f"no observations in {language!r}; use {', '.join(LANGUAGES)}, or templates of your own"
        )
    raw = (files("tellback.guidance.observations") / "catalogs" / f"{tag}.toml").read_text("utf-8")
    tables = cast("dict[str, dict[str, str]]", tomllib.loads(raw))
    return Catalog(tables) if tag == "en" else merge_templates(tables, catalog_for("en"), f"the catalog {tag}")


def load_catalog(path: str | Path) -> Catalog:
    """Load a catalog of your own.

    Raises:
        ConfigurationError: It cannot be read, or has an invalid template, which the message names.
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
        raise ConfigurationError(f"observation templates {path}: base is not a language")
    return merge_templates(tables, catalog_for(base), f"observation templates {path}")


def merge_templates(tables: Mapping[str, Any], base: Catalog, what: str) -> Catalog:
    """Replace templates of the base by the given ones.

    Raises:
        ConfigurationError: A table or key is unknown, or a text has a placeholder that is not filled in there.
    """
    whole = {table: dict(texts) for table, texts in base.tables.items()}
    # Which placeholders a template may use is defined by English, whatever the base leaves out of its own.
    english = catalog_for("en")
    for table, texts in tables.items():
        if table not in whole or not is_dict(texts):
            raise ConfigurationError(f"{what}: unknown table [{table}]; the tables are {', '.join(whole)}")
        for key, text in texts.items():
            whole[table][key] = _checked_template(text, english.tables[table].get(key), table, key, what)
    return Catalog(whole)


def _checked_template(text: object, english: str | None, table: str, key: str, what: str) -> str:
    place = f"{what}: {table}.{key}"
    if english is None and table not in _OPEN:
        raise ConfigurationError(f"{place} is not known")
    if not isinstance(text, str) or not text.strip() or len(text) > _TEXT_MAX or len(text.splitlines()) != 1:
        raise ConfigurationError(f"{place} is not one line of at most {_TEXT_MAX} characters")
    unknown = _template_fields(text, place) - _template_fields(english or "", place)
    if unknown:
        allowed = ", ".join(sorted(_template_fields(english or "", place))) or "nothing"
        raise ConfigurationError(f"{place} has {{{min(unknown)}}}; what is filled in there: {allowed}")
    return text


def _template_fields(text: str, place: str) -> set[str]:
    try:
        parts = list(_parse(text))
    except ValueError as error:
        raise ConfigurationError(f"{place}: {error}") from error
    # Formats and conversions such as `{count:>9999}` could grow or distort a line; `{tool.x}` is an unknown name.
    if any(form or conversion for _, name, form, conversion in parts if name is not None):
        raise ConfigurationError(f"{place} has more than a name in braces")
    return {name for _, name, _, _ in parts if name is not None}
