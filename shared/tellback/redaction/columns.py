"""Values whose name stands in the head of their column: CSV, tables that databases print, aligned listings.

No pattern can count columns, so this reads lines, in texts with a line that `HEADS` takes for the head of a table.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.light_struct import LightStruct
from tellback.redaction.lone_tokens import names_id
from tellback.redaction.made_passwords import is_made
from tellback.redaction.phrases import may_be_password
from tellback.redaction.printed_ids import prints_ids
from tellback.redaction.substrings import Located, findable_if_rare, next_match
from tellback.redaction.values import KEY_TYPES, seems_random

RULE: Final = "named-column"
HEAD: Final = "column-head"  # no rule: it only says that a line may be the head of such a table, see `head_places`
LONGEST: Final = 2_000  # characters of a line; a longer one is hardly a head, nor a row worth the time
_MOST_CELLS: Final = 64
_SHORTEST: Final = 7  # characters of a value
_LETTERS_ALONE: Final = 16  # the same of small letters alone
_MOST_SPACES: Final = 4  # in a name; with more, it is a sentence
# What names of secrets contain, and heads of tables with a setting in each row; the rules decide what a name says.
WORDS: Final = (
    "pass",
    "secret",
    "token",
    "cred",
    "key",
    "pwd",
    "psk",
    "pw",
    "auth",
    "seed",
    "cookie",
    "api_hash",
    "name",
)
# The rest of the cell, then what ends it. A comma of a sentence has a space after it, a comma of CSV has none. Each
# alternative begins with a character: to enter a group that may be missing takes as long as all else.
_CELL_ENDS: Final = (
    r"[\wa-z0-9_.-]{0,40}+(?>[ ][\wa-z0-9_-]{1,20}+(?:[ ][\wa-z0-9_-]{1,20}+){0,2}+|)[\"'`*]{0,3}+"
    r"(?:\t|[ ](?:[ |│┃─]|\r?$)|[,;](?=[\w\"'])|[|│┃─]|\r?$)"
    r"[^\n]{0,2000}+"  # one match says enough of a line
)
_HEADS: Final = {word: lazy_pattern(word + _CELL_ENDS, re.MULTILINE) for word in WORDS}
_RULED: Final = lazy_pattern(r"[\s|+:=─━═┼╪╋├┤┡┩╇┌┬┐┏┳┓╞╡└┴┘│┃-]{2,}")
_WORD: Final = lazy_pattern(r"\s*[\w\"'][^\s=:|]*\s*")
_WORDS_BEFORE: Final = 8  # lines; a page may have fewer above a name and its value: `user`, `ann`, `password`, `…`
# `application/vnd.apple.pkpass`, `usr/bin/passwd`
_FILE: Final = lazy_pattern(r"[^/ ]+/[^/ ]+/|[\w.+-]+/[^/ ]*[.+-]")
# No name has two hyphens; a key's BEGIN line does.
_NAME: Final = lazy_pattern(r"(?!.{0,58}--)[A-Za-z_#][\w .#%/-]{0,59}")
_OF_PASSWORD: Final = lazy_pattern("(?i:pass|pwd|pw$)")
_PASSWORDS: Final = lazy_pattern(r"(?i:pass(?:word|wd|phrase|code)?s?|pwd?)\Z")  # not `password policy`
_STORE: Final = lazy_pattern(r"={3,}[ ]Data[ ]={3,}[ \t\r]*")  # of Vault, before the head
_FRAME: Final = lazy_pattern("[┌─┬┐]+")
_WIDE: Final = lazy_pattern(r"[ ]{2,200}+")
_ALIGNED: Final = "  "
# `X509_free@@OPENSSL_3.0.0`, `../crypto/p12_p8e.c`; not a password that nothing gives away, `NULL` nor `n/a`.
_SYMBOL: Final = lazy_pattern(r"(?=[^\s_@/.:]*+[_@/.:])[*./_]{0,3}[A-Za-z][\w*@.:/$-]{5}")
_ALIGNED_NAME: Final = lazy_pattern(r"\S(?:[ ]?\S){0,80}")
_BARS: Final = lazy_pattern("[|│┃]")
_STRIPPED: Final = " \t\r\"'`*"


def _of_names(signs: str) -> re.Pattern[str]:
    """Return the pattern of a line in which no cell begins as no name does; most lines of data fail at the first."""
    around = "".join(character for character in _STRIPPED if character not in signs)
    cell = rf"[{around}]*+(?:[A-Za-z_#][^{signs}]*+)?+"
    return lazy_pattern(rf"{cell}(?:[{signs}]{cell})++")


# By the sign between the cells, in the order in which they are tried.
_HEAD_LINES: Final = {
    "\t": _of_names("\t"),
    "|": _of_names("|│┃"),
    ",": _of_names(","),
    ";": _of_names(";"),
    _ALIGNED: lazy_pattern(r"[\s\"'`*]*+(?:[A-Za-z_#][^,;:|=<>(){}]*+)?+"),
}
# Heads of tables with a setting in each row.
_OF_NAMES: Final = frozenset({"name", "key", "variable", "variable_name", "field", "setting", "parameter", "env"})
_OF_VALUES: Final = frozenset({"value", "val", "data"})


class Table(LightStruct):
    """A table that is being read: how its cells are divided, and which of them hold values of secrets."""

    sign: str
    head: str
    names: tuple[str, ...]
    named: tuple[int, ...]
    pairs: tuple[int, int] | None  # the columns of names and of values
    stored: bool = False  # each value is a secret, whatever its name
    ruled: bool = False  # by a line below the names, as of a table of a database


def head_places(folded: str, within: Located, begin: int = 0) -> list[int]:
    """Return a place in each line from `begin` on that may be the head of a table, of a text in lower case.

    A line in which one word was found is left out of the search for the next, since lines full of names have many.
    """
    found: list[int] = []
    for word, pattern in [(word, pattern) for word, pattern in _HEADS.items() if word in within]:
        places = findable_if_rare(word, within, len(folded))
        parts = [folded[:begin]]
        end = begin
        while match := (
            pattern.search(folded, end)
            if places is None
            else next_match(pattern, word, folded, (end, len(folded)), places)
        ):
            found.append(match.start())
            start = folded.rfind("\n", end, match.start()) + 1 or end
            parts += folded[end:start], "\0" * (match.end() - start)
            end = match.end()
        if end > begin:
            folded = "".join((*parts, folded[end:]))
    return found


def value_lines(
    lines: Sequence[str], heads: Sequence[int], table: Table | None, names_secret: Callable[[str], bool], begin: int = 0
) -> tuple[list[int], Table | None]:
    """Return the numbers of the lines that hold such a value, and the table that the last line belongs to.

    `heads` are the numbers of the lines that may be heads, in order; `table` is that of the line before `begin`.
    """
    found: list[int] = []
    at = frozenset(heads)
    number = begin
    while number < len(lines):
        line = lines[number]
        cells = None if table is None else _cells_of(table, line)
        secret = table is not None and bool(cells) and _holds_secret(table, cells or (), names_secret)
        if table is not None and not table.ruled and len(table.names) == 1 and not secret and _SYMBOL.match(line):
            cells = None  # in a list of functions, some have names that seem random
        if table is None or cells is None:
            table = _table_of(line, names_secret) if number in at else None
            if table is not None and len(table.names) == 1 and _is_in_list(lines, number):
                table = None
            if table is not None and number and _STORE.fullmatch(lines[number - 1]):
                table = table.replace(stored=True)
        elif not cells:
            table = table if table.ruled else table.replace(ruled=True)
        elif secret:
            found.append(number)
        number += 1
        if table is None:
            later = bisect_left(heads, number)
            number = heads[later] if later < len(heads) else len(lines)
    return found, table


def _is_in_list(lines: Sequence[str], number: int) -> bool:
    """Return whether a line that looks like a head is one of a list of words."""
    first = number - _WORDS_BEFORE
    return first >= 0 and all(map(_WORD.fullmatch, lines[first : number + 1]))


def _holds_secret(table: Table, cells: Sequence[str], names_secret: Callable[[str], bool]) -> bool:
    for column in table.named:
        cell = cells[column]
        if len(cell) < _SHORTEST or len(cell := cell.strip(_STRIPPED)) < _SHORTEST:
            continue  # as most are, with spaces or without
        if _is_secret(table.names[column], cell):
            return True
    if table.pairs is None:
        return False
    name, value = (cells[column].strip(_STRIPPED) for column in table.pairs)
    named = not names_id(name) if table.stored else names_secret(name)
    return named and _NAME.fullmatch(name) is not None and _is_secret(name, value)


def _is_secret(name: str, cell: str) -> bool:
    if "=" in cell and "cookie" in name.lower():  # `id=value; Path=/`; a sign of equality at the end fills up base64
        cell = cell.partition(";")[0].partition("=")[2].strip("=") or cell
    if len(cell) < _SHORTEST or (len(cell) < _LETTERS_ALONE and cell.isalpha() and cell.islower()):
        return False
    if may_be_password(cell):
        return _OF_PASSWORD.search(name) is not None or _is_random(cell)
    return _is_random(cell) or (is_made(cell) and _PASSWORDS.search(name) is not None)


def _is_random(cell: str) -> bool:
    if " " in cell or cell[0] in "$<{/" or cell[-1] == "," or cell.lower().endswith(KEY_TYPES):
        return False
    return seems_random(cell, 0)


def _table_of(line: str, names_secret: Callable[[str], bool]) -> Table | None:
    """Return the table that a line is the head of, if a column of it can hold secrets."""
    if "┬" in line:  # of ClickHouse, with names in the frame
        line = _FRAME.sub("│", line)
    if len(line) > LONGEST or line.startswith("#define ") or prints_ids(line):
        return None
    for sign, of_names in _HEAD_LINES.items():
        if not (_may_divide(sign, line) and of_names.fullmatch(line)):
            continue
        cells = _split(sign, line)
        if sign in ",;" and any(cell.startswith(" ") for cell in cells):
            continue  # a list in a sentence or a call
        if len(cells) > 1 or (cells and sign == _ALIGNED):
            found = _named_columns(cells, names_secret)
            if found is not None:
                return Table(sign, line, tuple(cell.strip(_STRIPPED) for cell in cells), *found)
    return None


def is_head(line: str, names_secret: Callable[[str], bool]) -> bool:
    """Return whether a line that `head_places` found is the head of a table with a column that can hold secrets."""
    return _table_of(line, names_secret) is not None


def _may_divide(sign: str, line: str) -> bool:
    """Return whether the sign can stand between cells of this line, which `in` decides faster than a pattern."""
    return sign in line or sign == _ALIGNED or (sign == "|" and ("│" in line or "┃" in line))


def _named_columns(
    cells: Sequence[str], names_secret: Callable[[str], bool]
) -> tuple[tuple[int, ...], tuple[int, int] | None] | None:
    names = [cell.strip(_STRIPPED) for cell in cells]
    if len(names) > _MOST_CELLS or any(name and (_FILE.match(name) or not _is_name(name)) for name in names):
        return None
    named = tuple(number for number, name in enumerate(names) if name and names_secret(name))
    lower = [name.lower() for name in names]
    columns = [
        next((number for number, name in enumerate(lower) if name in heads), -1) for heads in (_OF_NAMES, _OF_VALUES)
    ]
    pairs = (columns[0], columns[1]) if min(columns) >= 0 else None
    return (named, pairs) if named or pairs else None


def _is_name(text: str) -> bool:
    return text.count(" ") <= _MOST_SPACES and _NAME.fullmatch(text) is not None


def _split(sign: str, line: str) -> list[str]:
    if sign == _ALIGNED:
        return _WIDE.split(line.strip())
    if sign == "|" and not line.isascii():
        return _BARS.split(line)
    line = line.lstrip(" ")
    if sign in ",;" and '"' in line:
        import csv  # noqa: PLC0415 - few processes ever see such a line

        try:
            return next(csv.reader([line.replace("\r", " ")], delimiter=sign))
        except csv.Error:  # a cell above the library's limit
            return line.split(sign)
    return line.split(sign)


def _cells_of(table: Table, line: str) -> list[str] | None:
    """Return the cells of a row of the table, none for a ruled line, or None if the line is no part of it."""
    if _RULED.fullmatch(line):
        return []
    if not line.strip() or len(line) > LONGEST:
        return None
    cells = _split(table.sign, line)
    if len(cells) == len(table.names):
        # Below a single name, only words that stand alone are values.
        return cells if len(table.names) > 1 or " " not in cells[0] else None
    below = _cells_below(table.head, line) if table.sign == _ALIGNED and len(cells) > 1 < len(table.names) else []
    return below if len(below) == len(table.names) else None


def _cells_below(head: str, line: str) -> list[str]:
    """Return the parts of an aligned row below each name of the head; an empty cell leaves fewer parts than names."""
    starts = [match.start() for match in _ALIGNED_NAME.finditer(head)]
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]
