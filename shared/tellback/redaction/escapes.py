r"""Escapes that would hide a name, a separator or a value: colours, and signs in HTML, JSON, URLs and mail.

Programs print `DB_PASSWORD\u003d…`, `password%22%3A%22…` and `<b>token</b>=&gt;…` as often as the signs themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.substrings import searchable

_COLOUR: Final = lazy_pattern(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|[()][0-9A-B])")
_COLOURS: Final = tuple((f"\\{escape}[", "\x1b[") for escape in ("u001b", "x1b", "033", "e"))  # of JSON and code
# Pictures and fonts within a page: chance puts the form of some token into long base64.
_PICTURE: Final = lazy_pattern(r"(?i:data:(?:image|font|audio|video)/[\w.+-]{1,40};base64,)[0-9A-Za-z+/=]{40,}+")
_FRAMES: Final = lazy_pattern(r"\\u25[0-7][0-9a-fA-F]")  # of tables, which are told by them
_OF_JSON: Final = dict.fromkeys((f"\\u00{ord(sign):02{form}}", sign) for sign in "\"&'+<=>" for form in "xX")
# Decoded, a password's `/`, space or quote would end it before the rules see the `@`.
_LOGIN: Final = lazy_pattern(r"(//[^\s/@\"'<>{}]{2,400}+@)")
# One that is encoded as a whole, whose `@` no sign of a path or a query precedes.
_ENCODED_LOGIN: Final = lazy_pattern(r"%3A(?:%2F|/){2}(?:[^\s%/\"'<>]|%(?!2F|3F|26|40)){2,200}+%40")
# A form's text has `+` for each space, and `%2B` for a `+` of its own.
_OF_FORMS: Final = ("%3A", "%3D", "%22", "%0A", "%2C", "%28")
# One within another first. Not `@`, which ends the user and the password of a URL.
_OF_URLS: Final = tuple((f"%{ord(sign):02X}", sign) for sign in "% !\"#$&'()*+,/:;<=>?[]{|}")
# By the sign that each has.
_SIGNS: Final = {
    "&": (
        *(("&quot;", '"'), ("&#34;", '"'), ("&#x27;", "'"), ("&#39;", "'"), ("&#61;", "=")),
        *(("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")),
    ),
    "\\": (('\\\\\\"', '"'), ('\\"', '"'), ("\\'", "'"), *_OF_JSON),  # first, in a text of JSON within another
    "%": (*_OF_URLS, ("%3d", "="), ("%0A", "\\n")),  # a line break is read as one that JSON escapes
    "=3": (("=3D", "="),),  # of mail
}

# A symbol of C++, as linkers and debuggers print it: as mixed as a token, with the prefixes of some in it.
_SYMBOL: Final = lazy_pattern(
    r"_Z(?:(?<![\w/+=-]_Z)|(?<=__Z)(?<![\w/+=-]__Z))[A-Za-z]{0,12}[0-9]{1,3}[A-Za-z_][\w.$@]{0,4000}"
)


def without_escapes(text: str) -> str:
    """Return `text` without colour codes and with escaped signs decoded; lines stay lines.

    `grep --color` puts colours inside a token, and many tools put them between a name and its value.
    """
    if "\\" in text:
        text = _replace(text, _COLOURS)
        if "\\u25" in text:
            text = _FRAMES.sub(lambda sign: chr(int(f"0x{sign[0][2:]}", 0)), text)
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if ";" in text and ";base64," in text:
        text = _PICTURE.sub("", text)
    for sign, escapes in _SIGNS.items():
        if sign in text:
            if sign == "%":
                text = _with_logins(text)
            pieces = _LOGIN.split(text) if sign == "%" and "@" in text else [text]
            pieces[::2] = [_replace(piece, escapes) for piece in pieces[::2]]
            text = "".join(pieces)
    return text


def _with_logins(text: str) -> str:
    """Return the text with the logins of encoded URLs read, and with the spaces of encoded forms."""
    if "%40" in text:
        text = _ENCODED_LOGIN.sub(_login, text)
    if "+" in text:
        text = "\n".join(
            _read_twice(line) if " " not in line and any(sign in line for sign in _OF_FORMS) else line
            for line in text.split("\n")
        )
    return text


def _read_twice(line: str) -> str:
    """Return the line, and with spaces behind a line break that is escaped: base64 has a `+` of its own."""
    return f"{line} \\n{line.replace('+', ' ')}" if "+" in line else line


def _login(encoded: re.Match[str]) -> str:
    return encoded[0].replace("%40", "@").replace("%3A", ":").replace("%2F", "/")


def decoded_forms(value: str) -> set[str]:
    """Return what a secret can be in a text without escapes: in a URL's login it stays, and behind `=` loses a `3D`."""
    return {value, without_escapes(value), without_escapes(f"={value}")[1:]}


def _replace(text: str, escapes: Iterable[tuple[str, str]]) -> str:
    within = searchable(text)
    for escape, sign in escapes:
        if escape in within:
            text = text.replace(escape, sign)
            within = searchable(text)
    return text


def unescaped(text: str) -> str:
    r"""Return `text` with spaces for \n, \r and \t, whose letters would seem to be part of a token, and for symbols."""
    if "\\" in text:
        for letter in "nrt":
            text = text.replace(f"\\{letter}", "  ")
    if "_Z" in text:
        text = _SYMBOL.sub(lambda symbol: " " * len(symbol[0]), text)
    return text
