"""The check of gettext catalogs, which the standard library's `gettext` reads.

A user must never see a key, a placeholder or an empty message, so a whole catalog is checked when it is loaded, not
each text when it is sent. polib compiles a `.po` file for `gettext`, which reads only compiled ones. Operators supply
catalogs of their own; damaged ones are refused with the file and the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from gettext import GNUTranslations
from io import BytesIO
from pathlib import Path
from typing import Final

from tellback.errors import ConfigurationError
from tellback.sanitize import is_printable

MAX_BYTES: Final = 1 << 20  # a catalog has about a dozen messages; a larger file is something else
MAX_TEXT: Final = 4_000  # characters; below Telegram's limit of 4,096, so a fallback is one message
# Python's and the shell's placeholders. Prose such as "100 % sure", "3%." or "5 $" must pass, so a percent sign counts
# only before a conversion letter that ends a word, and a dollar sign only before a name.
_PLACEHOLDER: Final = re.compile(r"\{[^{}\s]*\}|%\([^)]*\)[a-z]|%[sdrifgxc]\b|\$\{?[A-Za-z_]\w*\}?")

_LINE: Final = re.compile(r'#.*|(?:msg\S+\s*)?".*"')  # of a `.po` file


def read_catalog(path: Path, keys: frozenset[str], required: str) -> Mapping[str, str]:
    """Return the texts of a catalog by key, without untranslated ones.

    Raises:
        ConfigurationError: the file can't be read, or holds a text that no user should see; the message says which.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        if len(raw) > MAX_BYTES:
            raise ValueError(f"{len(raw)} bytes; a catalog has at most {MAX_BYTES}")  # noqa: TRY301 - the handler below adds the path
        texts = _translations(raw if path.suffix == ".mo" else _compile(path, keys), keys)
        if required not in texts:
            raise ValueError(f"{required}: has no translation, and every catalog needs this one")  # noqa: TRY301 - as above
    except (ValueError, OSError) as error:  # OSError: what polib raises for wrong syntax
        raise ConfigurationError(f"{path}: {error}") from error
    except Exception as error:  # gettext lets any error of its parsing through: LookupError, struct.error, IndexError
        raise ConfigurationError(f"{path}: gettext cannot read it: {error!r}") from error
    return texts


def _compile(path: Path, keys: frozenset[str]) -> bytes:
    """Return a `.po` file compiled, without its fuzzy entries, which gettext's own compiler skips, too."""
    import polib  # noqa: PLC0415 - only where an operator supplies catalogs

    source = polib.pofile(str(path))
    for number, line in enumerate(path.read_text(source.encoding).removeprefix("\ufeff").split("\n"), 1):
        # polib takes off the first and last character of a string without a look at whether they are quotes
        if (stripped := line.strip()) and not _LINE.fullmatch(stripped):
            raise ValueError(f"line {number}: not of a catalog: {stripped[:60]!r}")
    seen: set[str] = set()
    for entry in source:
        if entry.obsolete or entry.fuzzy:
            continue
        if entry.msgid not in keys:
            raise ValueError(f"no message of Tellback is called {entry.msgid!r}; they are {', '.join(sorted(keys))}")
        if entry.msgid_plural or entry.msgctxt:
            form = "plural forms" if entry.msgid_plural else "a context"
            raise ValueError(f"{entry.msgid}: has {form}; messages of Tellback have none")
        if entry.msgid in seen:
            raise ValueError(f"{entry.msgid}: appears twice")
        if entry.msgstr in keys:  # as a compiled one it would read as untranslated
            raise ValueError(f"{entry.msgid}: its text is a key, which no user is to see")
        seen.add(entry.msgid)
    return bytes(source.to_binary())


def _translations(compiled: bytes, keys: frozenset[str]) -> dict[str, str]:
    catalog = GNUTranslations(BytesIO(compiled))
    found = {key: catalog.gettext(key).strip() for key in sorted(keys)}  # a message without a translation is its own
    return {key: _checked_text(key, text, keys) for key, text in found.items() if text not in ("", key)}


def _checked_text(key: str, text: str, keys: frozenset[str]) -> str:
    found = _PLACEHOLDER.search(text)
    if found:
        raise ValueError(f"{key}: holds the placeholder {found[0]!r}; nothing would be put in its place")
    if any(name in text for name in keys):
        raise ValueError(f"{key}: its text is a key, which no user is to see")
    if len(text) > MAX_TEXT:
        raise ValueError(f"{key}: {len(text)} characters; at most {MAX_TEXT}")
    # The characters allowed below are marks of writing direction, joiners and spaces that real translations need.
    if not is_printable(text, also="\n\u200e\u200f\u200c\u200d\u00ad\u00a0\u202f\u3000"):
        raise ValueError(f"{key}: holds a control character")
    return text
