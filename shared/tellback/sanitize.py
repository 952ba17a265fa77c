"""Make text from outside safe for the place where it is shown: one function for each kind of place.

Names, arguments, notes and output come from agents and their tools, and any of them may be hostile: an escape sequence
moves the cursor or retitles a window, a carriage return overwrites a line, a direction mark reverses what a reader
sees, markup becomes a link. `tests/contracts/test_one_home.py` refuses a second home for these rules.

Only the standard library's cheapest modules are imported, since `tellback hook` loads this one.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from tellback.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from pathlib import Path

# Letters and marks that `str.isprintable` lets through and that show as nothing (Default_Ignorable_Code_Point).
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
# Variation selectors: they change how the character before them looks, and show nothing after a letter.
_SELECTORS: Final = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
# Marks on one letter. Hebrew with cantillation takes four, Tibetan six; floods of them paint over the lines around.
_MAX_MARKS: Final = 8
_FIRST_MARK: Final = "\u0300"
_SPACES: Final = frozenset("\xa0\u1680\u202f\u205f\u3000").union(map(chr, range(0x2000, 0x200B)))
_ASCII_CONTROL: Final = lazy_pattern(r"[\x00-\x1f\x7f]")
_ACTING: Final = lazy_pattern(
    "\x1b\\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
# Test runners and compilers colour what they print. Dropping colours hides nothing, and shows what was black on black.
# All other sequences are shown: OSC, DCS and APC have a text of their own, in which a command could hide its output.
_COLOURS: Final = lazy_pattern(r"\x1b\[[0-9:;]*m")
# As runners and `grep` print them: colours with the erasure of a line's rest behind them, and cursors shown or hidden.
_SEQUENCES: Final = lazy_pattern(r"\x1b\[[0-9:;?]*[A-Za-z]")
# Underscores within a word stay as they are, since names such as search_flights are frequent and mean no markup. The
# `://` of a URL and the dot after `www` are escaped because Markdown makes links of bare addresses.
_MARKDOWN: Final = lazy_pattern(r"([\\`*{}\[\]#|~>$@]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.)")
_ENTITIES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&apos;"))
_REPLACEMENT: Final = "\ufffd"


UNENCODABLE: Final = "backslashreplace"
"""The error handler that escapes what an encoding lacks, as `terminal_line` does what does not show."""


def one_line(text: str) -> str:
    """Return the text with each run of white space replaced by one space, for a prompt or a table."""
    return " ".join(text.split())


def inert_line(text: str) -> str:
    """Return one line in which no character acts on a screen: no control, no sequence, no mark of direction.

    Nor do tags stay, which a model reads as words and no person sees. Joiners stay, since emoji and the scripts of
    India and Iran are spelt with them.
    """
    return one_line(text if text.isascii() and text.isprintable() else _ACTING.sub(" ", _COLOURS.sub("", text)))


def without_sequences(text: str) -> str:
    """Return a program's output as a pattern reads it, without colours and moves of the cursor; not for a screen."""
    return _SEQUENCES.sub("", text) if "\x1b" in text else text


def terminal_line(text: str) -> str:
    r"""Return one line for a terminal: all but visible characters, line ends and tabs too, becomes an escape.

    Escapes look as in Python (`\x1b`, `\u202e`), so a reader sees that something was there, and what.
    """
    return _replace_hidden(text, _python_escape)


def terminal_text(text: str) -> str:
    """Return lines for a terminal or a log: as `terminal_line`, but line ends stay and tabs become spaces."""
    return _replace_hidden(text.expandtabs(), _python_escape, "\n")


def terminal_output(text: str) -> str:
    """Return a program's output for a terminal: as `terminal_text`, but without its colours."""
    return terminal_text(_COLOURS.sub("", text))


def terminal_json(text: str) -> str:
    r"""Return JSON of the same value in which no character acts on a terminal or is hidden; spaces stay.

    JSON itself allows raw C1 controls and direction marks in strings; `\u` escapes of them parse to the same value.
    """
    return _replace_hidden(text, _json_escape, _SPACES | {"\n"})


def ascii_json(text: str) -> str:
    """Return JSON of the same value in ASCII alone, for a stream that cannot encode every character."""
    return "".join(char if char.isascii() else _json_escape(char) for char in text)


def unicode_path(path: Path) -> str:
    """Return the whole path as text that JSON can hold; bytes of another encoding become escapes."""
    return os.fsencode(path.resolve()).decode("utf-8", UNENCODABLE)


def html_text(text: str) -> str:
    """Return text for an HTML element or attribute; characters that do not show become U+FFFD."""
    return _with_entities(_replace_hidden(text, _as_replacement, "\n\t"))


def xml_text(text: str) -> str:
    """Return text for an XML element or attribute; characters that XML 1.0 does not allow become U+FFFD."""
    return _with_entities(_outside_xml().sub(_REPLACEMENT, text))


@cache
def _outside_xml() -> re.Pattern[str]:
    """Return the pattern of a character that XML lacks: 4 ms to compile, which no hook should pay at its start."""
    return re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown_text(text: str) -> str:
    """Return one line for a Markdown document, in which nothing is markup, a link or HTML."""
    # `&` and `<` become entities, since not every Markdown dialect lets a backslash escape them.
    plain = _replace_hidden(one_line(text), _as_replacement).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\1", plain)


def plot_text(text: str) -> str:
    """Return a label for matplotlib, which parses text between `$` as a formula and raises if it is not one."""
    return _replace_hidden(text, _as_replacement).replace("$", r"\$")


def blank_hidden(text: str) -> str:
    """Return one line with a space for each unprintable character, for errors that are stored."""
    return _replace_hidden(text, lambda _: " ")


def is_printable(text: str, also: str = "") -> bool:
    """Return whether each character shows as itself; those in `also` are allowed too."""
    return all(char in also or _shows(char) for char in text)


def visible_only(text: str) -> str:
    """Return the text without characters that neither show nor take space, to compare it as a reader sees it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char.isspace() or (_shows(char) and char not in _SELECTORS))


def _replace_hidden(text: str, replace: Callable[[str], str], keep: str | frozenset[str] = "") -> str:
    """Replace each character that does not show, unless in `keep`, and each mark too many on one letter."""
    if text.isascii():  # most texts are, and a regular expression is 20 times as fast as the loop
        return _ASCII_CONTROL.sub(lambda found: found[0] if found[0] in keep else replace(found[0]), text)
    parts: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if char >= _FIRST_MARK and unicodedata.category(char)[0] == "M" else 0
        parts.append(char if marks <= _MAX_MARKS and (_shows(char) or char in keep) else replace(char))
    return "".join(parts)


def _shows(char: str) -> bool:
    return char.isprintable() and char not in _INVISIBLE


def _python_escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _as_replacement(_: str) -> str:
    return _REPLACEMENT


def _with_entities(text: str) -> str:
    for sign, entity in _ENTITIES:
        text = text.replace(sign, entity)
    return text
