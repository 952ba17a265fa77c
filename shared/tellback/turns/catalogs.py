"""Reading gettext catalogs: the texts of a `.po` or `.mo` file, or what is wrong with it.

A user must never see a key, a placeholder or an empty message, so a catalog is checked as a whole when it is loaded.
"""

from __future__ import annotations

import gettext
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tellback.errors import ConfigurationError

MAX_BYTES: Final = 1 << 20
MAX_TEXT: Final = 4_000  # characters: what every chat platform takes in one message
_MAGIC: Final = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}
_PLACEHOLDER: Final = re.compile(r"\{[^{}\s]*\}|%\([^)]*\)[a-z]|%[sdrifgxc]\b|\$\{?[A-Za-z_]\w*\}?")
_CHARSET: Final = re.compile(r"^content-type:.*charset=([\w.:-]+)", re.IGNORECASE | re.MULTILINE)
_PLURAL: Final = re.compile(r"^plural-forms:(.*)$", re.IGNORECASE | re.MULTILINE)
_PLURAL_FORMS: Final = re.compile(r"\s*nplurals\s*=\s*[1-9]\s*;\s*plural\s*=\s*([^;]+?)\s*;?\s*")
_PO_LINE: Final = re.compile(r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class Entry(NamedTuple):
    """One message of a catalog; `form` names what we do not take: plural forms or a context."""

    key: str
    text: str
    form: str = ""


def read_catalog(path: Path, keys: frozenset[str], required: str) -> Mapping[str, str]:
    """The texts of a catalog by key; those that are not translated are left out.

    Raises:
        ConfigurationError: it cannot be read, or a user would see something that nobody should see; says what.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        if len(raw) > MAX_BYTES:
            raise ValueError(f"{len(raw)} bytes; a catalog has at most {MAX_BYTES}")  # noqa: TRY301 - told below with the path
        entries = list(_mo_entries(raw) if path.suffix == ".mo" else _po_entries(raw))
        return _texts(entries, keys, required)
    except ValueError as error:  # of which UnicodeDecodeError is one
        raise ConfigurationError(f"{path}: {error}") from error


def _texts(entries: list[Entry], keys: frozenset[str], required: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for entry in entries:
        if not entry.key:
            _check_plural_header(entry.text)
            continue
        if entry.key not in keys:
            raise ValueError(f"no message of Tellback is called {entry.key!r}; they are {', '.join(sorted(keys))}")
        if entry.form:
            raise ValueError(f"{entry.key}: has {entry.form}; messages of Tellback have none")
        if entry.key in texts:
            raise ValueError(f"{entry.key}: stands twice")
        text = entry.text.strip()
        if text:
            texts[entry.key] = _checked(entry.key, text, keys)
    if required not in texts:
        raise ValueError(f"{required}: has no translation, and every catalog needs this one")
    return texts


def _checked(key: str, text: str, keys: frozenset[str]) -> str:
    found = _PLACEHOLDER.search(text)
    if found:
        raise ValueError(f"{key}: holds the placeholder {found[0]!r}; nothing would be put in its place")
    if any(name in text for name in keys):
        raise ValueError(f"{key}: its text is a key, which no user is to see")
    if len(text) > MAX_TEXT:
        raise ValueError(f"{key}: {len(text)} characters; at most {MAX_TEXT}")
    if any(not character.isprintable() and character not in "\n\u200e\u200f\u200c\u200d\u00ad\u00a0\u202f\u3000"
           for character in text):  # fmt: skip
        raise ValueError(f"{key}: holds a control character")
    return text


def _check_plural_header(header: str) -> None:
    found = _PLURAL.search(header)
    if found is None:
        return
    forms = _PLURAL_FORMS.fullmatch(found[1])
    try:
        if forms is None:
            raise ValueError("write nplurals=N; plural=EXPRESSION;")  # noqa: TRY301 - told below, as what gettext says
        gettext.c2py(forms[1])(1)
    except (ValueError, RecursionError, ZeroDivisionError) as error:
        raise ValueError(f"Plural-Forms: {found[1].strip()!r} is not valid: {error}") from error


def _mo_entries(raw: bytes) -> Iterator[Entry]:
    order = _MAGIC.get(raw[:4])
    if order is None:
        raise ValueError("not a compiled catalog: its first bytes are others")
    try:
        version, count, ids, strings = struct.unpack_from(f"{order}4I", raw, 4)
        pairs = [
            tuple(_piece(raw, *struct.unpack_from(f"{order}2I", raw, table + 8 * index)) for table in (ids, strings))
            for index in range(min(count, len(raw)))
        ]
    except struct.error as error:
        raise ValueError("a broken compiled catalog: it ends before what its header promises") from error
    if version >> 16 > 1:
        raise ValueError(f"a compiled catalog of version {version >> 16}, which is not known")
    charset = next((_charset(text) for key, text in pairs if not key), "utf-8")
    for key, text in pairs:
        name, form = key.partition(b"\0")[0], "plural forms" if b"\0" in key else ""
        if b"\4" in name:
            name, form = name.partition(b"\4")[2], "a context"
        yield Entry(_decoded(name, charset), _decoded(text.partition(b"\0")[0], charset), form)


def _piece(raw: bytes, length: int, start: int) -> bytes:
    if start + length > len(raw):
        raise ValueError("a broken compiled catalog: it ends before what its header promises")
    return raw[start : start + length]


def _charset(header: bytes) -> str:
    found = _CHARSET.search(header.decode("latin-1"))
    return found[1] if found else "utf-8"


def _decoded(raw: bytes, charset: str) -> str:
    try:
        return raw.decode(charset)
    except LookupError as error:
        raise ValueError(f"its charset {charset!r} is not known") from error


def _po_entries(raw: bytes) -> Iterator[Entry]:
    text = _decoded(raw, _po_charset(raw)).removeprefix("\ufeff")
    fields: dict[str, str] = {}
    fuzzy, field = False, ""
    for number, line in enumerate([*text.split("\n"), 'msgid ""'], 1):
        stripped = line.strip()
        begins = stripped.startswith(("#", "msgctxt", "msgid ", 'msgid"')) and "msgstr" in "".join(fields)
        if begins:
            yield from _po_entry(fields, fuzzy=fuzzy)
            fields, fuzzy, field = {}, False, ""
        if not stripped or stripped.startswith("#"):
            fuzzy |= stripped.startswith("#,") and "fuzzy" in stripped
            continue
        found = _PO_LINE.fullmatch(stripped)
        if found is None or not (found[1] or field):
            raise ValueError(f"line {number}: not of a catalog: {stripped[:60]!r}")
        if found[1] and found[1] in fields:
            raise ValueError(f"line {number}: a second {found[1]} before a translation")
        field = found[1] or field
        fields[field] = fields.get(field, "") + _ESCAPE.sub(lambda one: _ESCAPES.get(one[1], one[0]), found[2])


def _po_entry(fields: dict[str, str], *, fuzzy: bool) -> Iterator[Entry]:
    if "msgid" not in fields:
        raise ValueError("a translation without a msgid")
    plural = "msgid_plural" in fields or "msgstr" not in fields
    form = "plural forms" if plural else "a context" if "msgctxt" in fields else ""
    if not fuzzy or not fields["msgid"]:  # as gettext's own compiler: what is fuzzy is not translated
        yield Entry(fields["msgid"], fields.get("msgstr", ""), form)


def _po_charset(raw: bytes) -> str:
    found = re.search(rb"charset=([\w.:-]+)", raw[:4096])
    return found[1].decode("ascii") if found else "utf-8"
