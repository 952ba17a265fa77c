"""Labelled pairs of texts, read from CSV or TSV files.

Such files come from spreadsheets and benchmarks in many shapes, so delimiter, header and columns are detected. A line
that is wrong is an error with its number, never skipped: a silently shorter sample would give a wrong threshold.
"""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from tellback.errors import InvalidInput

SAME_FROM: Final = 4.0
"""Score from which a pair counts as the same, on the scale of 0 to 5 of the STS benchmark."""

# Precision and recall of a threshold hardly change beyond some thousand pairs, and the model embeds two texts for each.
MAX_PAIRS: Final = 200_000

_DELIMITERS: Final = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}

_TEXTS: Final = ("sentence", "text", "question", "query", "s", "q", "t")

_FIRST: Final = frozenset([f"{stem}{n}" for stem in _TEXTS for n in ("1", "_1", "a", "_a")] + ["a", "first", "left"])

_SECOND: Final = frozenset([f"{stem}{n}" for stem in _TEXTS for n in ("2", "_2", "b", "_b")] + ["b", "second", "right"])

_SCORES: Final = frozenset(
    ["score", "similarity", "similarity_score", "label", "same", "is_duplicate", "duplicate", "rating", "gold", "class"]
)

_LABELS: Final = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}

_SHOWN: Final = 5  # wrong lines named in an error

_SNIFFED: Final = 20  # lines read to detect the delimiter


class Pair(NamedTuple):
    """Two texts and the score that people gave their similarity."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, slots=True)
class LabelledPairs:
    """The pairs of a file, and the score from which they count as the same."""

    pairs: tuple[Pair, ...]
    same_from: float

    @property
    def same(self) -> list[bool]:
        """One boolean per pair: True if it counts as the same."""
        return [pair.score >= self.same_from for pair in self.pairs]


class _PairColumns(NamedTuple):
    first: int
    second: int
    score: int


class _NumberedRow(NamedTuple):
    line: int
    fields: list[str]


def read_pairs(
    data: bytes, name: str, *, columns: str | None = None, delimiter: str | None = None, same_from: float | None = None
) -> LabelledPairs:
    """Return the pairs of a file; detect its delimiter, header and columns unless they are given.

    Args:
        data: the content: UTF-8 with comma, tab, semicolon or `|` between fields. Quotes in TSV files are text.
        name: the file's name in errors.
        columns: `FIRST,SECOND,SCORE`, each a column's name in the header or its number from 1.
        delimiter: one character, or `comma`, `tab`, `semicolon`, `pipe`.
        same_from: the score from which a pair is the same; default 4, or 1 if every score is 0 or 1.

    Raises:
        InvalidInput: the message names the line, or the option to set.
    """
    text = _decode_text(data, name)
    rows = _rows(text, _delimiter(delimiter) or _detect_delimiter(text, name, columns), name)
    first = next(rows, None)
    if first is None:
        raise InvalidInput(f"{name} is empty: each line is two texts and a score")
    where, header = _detect_columns(first.fields, name, columns)
    pairs = _parse_pairs(rows if header else chain([first], rows), where, name)
    return LabelledPairs(pairs, _same_from(pairs, same_from, name))


def _decode_text(data: bytes, name: str) -> str:
    # Spreadsheets export "Unicode text" as UTF-16; decoding it as UTF-8 would fail with a far less helpful message.
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidInput(f"{name} is UTF-16: save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{name}:{line}: byte {error.object[error.start]:#04x} is not UTF-8") from None
    if "\0" in text:
        raise InvalidInput(
            f"{name}:{text[: text.index(chr(0))].count(chr(10)) + 1}: a NUL byte: this is not a CSV file"
        )
    return text


def _delimiter(given: str | None) -> str | None:
    if given is None:
        return None
    found = _DELIMITERS.get(given.lower(), given.replace("\\t", "\t"))
    if len(found) != 1 or found in '"\r\n':
        raise InvalidInput(f"--delimiter {given!r}: use one character, or one of {', '.join(_DELIMITERS)}")
    return found


def _detect_delimiter(text: str, name: str, columns: str | None) -> str:
    """Return the delimiter that splits every one of the first lines into three fields, or into the same number."""
    for delimiter in _DELIMITERS.values():
        try:
            widths = {len(row.fields) for row, _ in zip(_rows(text, delimiter, name), range(_SNIFFED), strict=False)}
        except InvalidInput:
            continue
        if (columns is None and widths == {3}) or (len(widths) == 1 and min(widths) > 3):
            return delimiter
    first_line = text.lstrip().partition("\n")[0]
    return max(_DELIMITERS.values(), key=first_line.count)


def _rows(text: str, delimiter: str, name: str) -> Iterator[_NumberedRow]:
    """Yield the rows that are not blank, with the line on which each begins."""
    # The csv module would treat a lone quote as the start of a field that runs on over many lines. In TSV files a quote
    # is nearly always text, so only a field with a quote at both ends is unquoted.
    if delimiter == "\t":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield _NumberedRow(number, [_unquoted(field) for field in line.rstrip("\r").split("\t")])
        return
    reader = csv.reader(_lines(text), delimiter=delimiter, strict=True)
    begins = 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidInput(f"{name}:{begins}: {error}: is a quote not closed?") from None
        if any(field.strip() for field in fields):
            yield _NumberedRow(begins, fields)
        begins = reader.line_num + 1


def _lines(text: str) -> Iterator[str]:
    """Yield lines split at line feeds only; `splitlines` would also split at U+2028 and others within a text."""
    return (f"{line}\n" for line in text.split("\n"))


def _unquoted(field: str) -> str:
    if len(field) > 1 and field[0] == field[-1] == '"':
        return field[1:-1].replace('""', '"')
    return field


def _detect_columns(first: Sequence[str], name: str, columns: str | None) -> tuple[_PairColumns, bool]:
    """Return the positions of texts and score, and whether the first row is a header."""
    names = [field.strip().lower().replace(" ", "_") for field in first]
    if columns is not None:
        return _given_columns(names, name, columns)
    found = [_column_index(names, known) for known in (_FIRST, _SECOND, _SCORES)]
    if None not in found and len(set(found)) == 3:
        return _PairColumns(*(place for place in found if place is not None)), True
    if len(first) != 3:
        raise InvalidInput(
            f"{name} has {len(first)} columns, and its first line doesn't say which hold the two texts and the score: "
            "use --columns FIRST,SECOND,SCORE, by name or by number from 1, or --delimiter"
        )
    return _PairColumns(0, 1, 2), _parse_score(first[2]) is None


def _given_columns(names: Sequence[str], name: str, columns: str) -> tuple[_PairColumns, bool]:
    parts = [part.strip().lower().replace(" ", "_") for part in columns.split(",")]
    if len(parts) != 3 or len(set(parts)) != 3:
        raise InvalidInput(f"--columns {columns}: use three different columns, FIRST,SECOND,SCORE")
    by_name = [names.index(part) if part in names else None for part in parts]
    if None not in by_name:
        return _PairColumns(*(place for place in by_name if place is not None)), True
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= len(names) for part in parts):
        raise InvalidInput(f"--columns {columns}: {name} has the columns {', '.join(names)}; or use numbers from 1")
    where = _PairColumns(*(int(part) - 1 for part in parts))
    return where, _parse_score(names[where.score]) is None


def _column_index(names: Sequence[str], known: frozenset[str]) -> int | None:
    return next((place for place, name in enumerate(names) if name in known), None)


def _parse_pairs(rows: Iterable[_NumberedRow], where: _PairColumns, name: str) -> tuple[Pair, ...]:
    pairs: list[Pair] = []
    wrong: list[tuple[int, str]] = []
    for row in rows:
        try:
            pairs.append(_parse_pair(row.fields, where))
        except InvalidInput as error:
            wrong.append((row.line, str(error)))
        if len(pairs) > MAX_PAIRS:
            raise InvalidInput(f"{name} has more than {MAX_PAIRS:,} pairs: a sample of some thousand is enough")
    if wrong:
        line, reason = wrong[0]
        more = ", ".join(str(line) for line, _ in wrong[1:_SHOWN]) + (", …" if len(wrong) > _SHOWN else "")
        raise InvalidInput(
            f"{name}:{line}: {reason}" + (f"; {len(wrong) - 1} more are wrong, on line {more}" if more else "")
        )
    if not pairs:
        raise InvalidInput(f"{name} has a header and no pair")
    return tuple(pairs)


def _parse_pair(fields: Sequence[str], where: _PairColumns) -> Pair:
    if len(fields) <= max(where):
        raise InvalidInput(f"{len(fields)} fields, where {max(where) + 1} are needed")
    first, second = fields[where.first].strip(), fields[where.second].strip()
    if not first or not second:
        raise InvalidInput(f"the {'second' if first else 'first'} text is blank")
    score = _parse_score(fields[where.score])
    if score is None:
        shown = fields[where.score][:40]
        raise InvalidInput(f"the score {shown!r} is not a number, nor a label such as yes or no")
    return Pair(first, second, score)


def _parse_score(text: str) -> float | None:
    text = text.strip().lower()
    if text in _LABELS:
        return _LABELS[text]
    try:
        score = float(text)
    except ValueError:
        return None
    return score if math.isfinite(score) and "_" not in text else None  # `float` reads "1_0" as 10


def _same_from(pairs: Sequence[Pair], given: float | None, name: str) -> float:
    scores = {pair.score for pair in pairs}
    if given is None:
        given = 1.0 if scores <= {0.0, 1.0} else SAME_FROM
    low, high = min(scores), max(scores)
    if not low < given <= high:
        which = "every pair is" if given <= low else "no pair is"
        raise InvalidInput(
            f"{name} has scores from {low:g} to {high:g}, so that with --same-from {given:g} {which} the same: "
            "give another --same-from, or pairs of both kinds"
        )
    return given
