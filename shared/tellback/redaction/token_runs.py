"""The parts of a text in which a token can stand: long runs of the characters that tokens have.

`bytes.translate` and `find` show them at half a nanosecond a character, and only they are searched for tokens.
"""

from __future__ import annotations

from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.substrings import Findable, located, searchable
from tellback.redaction.values import seems_random

VALUE: Final = 12
"""Length of the shortest value that only the name of its issuer, or a sentence, gives away."""
TOKEN: Final = 20
"""Length of the shortest token with a form of its own; `tokens.SHORT` has those that may be shorter."""
LONG_WORD: Final = 32
"""Letters and digits in a row in each match of `tokens.OF_LONG_WORDS`."""

Window = tuple[int, int]

_DECIMAL: Final = b"0123456789"  # not from `string`, whose import costs every hook process 0.7 ms
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz"
_ALNUM: Final = _LETTERS + _LETTERS.upper() + _DECIMAL
_BYTES: Final = bytes(range(256))


def _marking(those: bytes, mark: bytes = b"d") -> bytes:
    """Return a table for `translate` that puts the mark for these bytes, and spaces for all others."""
    others = _BYTES.translate(None, those)  # an expression for each byte took 0.3 ms of a hook
    return bytes.maketrans(others + those, b" " * len(others) + mark * len(those))


_WORDS: Final = _marking(_ALNUM, b"w")
_OF_TOKENS: Final = _ALNUM + b"_+/=%.~!$|:@-?" + _BYTES[0x80:]  # "?" is what is not Latin
_CLASSES: Final = _marking(_OF_TOKENS, b"w")
_RUNS: Final = bytes.maketrans(_BYTES.translate(None, _OF_TOKENS), b" " * (256 - len(_OF_TOKENS)))

_VALUE_RUN: Final = b"w" * VALUE
# An application password of WordPress, of six groups.
_GROUPS: Final = " ".join(["wwww"] * 6)
_GROUPS_RUN: Final = _GROUPS.encode()
_FEW: Final = 200  # characters; `in` takes 1.7 ns for one of a longer text, stringzilla 0.2
_GROUP: Final = "[0-9A-Za-z]{4}"
_NOT_IN_SERIES: Final = r"(?<![0-9]\w{4}\.\w )(?<!\|-[0-9]\w{4} )"  # not behind other numbers of a time zone
_IN_GROUPS: Final = lazy_pattern(rf"(?<![\w.-]){_NOT_IN_SERIES}{_GROUP}(?: {_GROUP}){{5}}(?![\w.-]| {_GROUP}(?!\w))")
_OF_GROUP: Final = lazy_pattern("[a-z][A-Z0-9]|[0-9][A-Za-z]|[A-Z][0-9]")
_SAME_ENDS: Final = 4  # of six random groups one in 16,000 has as many
_MIXED_GROUPS: Final = 3  # of six random groups 99 % have as many; words, hexadecimal numbers and dates have not

_HEXADECIMAL: Final = bytes.maketrans(_DECIMAL + b"abcdef:", b"0" * 16 + b"=")
_IDS: Final = frozenset({b"0" * 32, b"0" * 40, b"0" * 64, b"00000000-0000-0000-0000-000000000000"})
_SHORTEST_ID: Final = 32
# A token without a digit has capitals: of 20 random small letters and digits, one in 700 has no digit.
_DISTINCT: Final = _DECIMAL + _LETTERS.upper()
_SHORT: Final = 4_000  # characters; a longer text that is full of runs has digits
_BLOCK: Final = 16_000  # characters of which the runs are listed at once
# With more words, to list all of them takes longer than to look at each run; each long one is looked at three times.
_WORDS_TO_A_RUN: Final = 4
_WORDS_TO_A_LONG_RUN: Final = 16
_LETTERS_ALONE: Final = 16  # characters of a value without a digit
_TABLES: Final = _marking(_DISTINCT), _marking(_DECIMAL)
_TABLES_WITH_OTHERS: Final = _marking(_DISTINCT + b"?"), _marking(_DECIMAL + b"?")
# Parameters of URLs whose value may have no digit.
_QUERIES: Final = ("?code=", "&code=", "?Code=", "&Code=", "?sig=", "&sig=", "?Sig=", "&Sig=")
_MANY_RUNS: Final = 50  # characters for each piece of a run: with more, the whole text is searched for names
_WINDOW: Final = 25  # characters that are searched in the time that it takes to begin with another window
_BEFORE_VALUE: Final = 120  # characters that a name and the words or the separator after it may take
_AFTER_VALUE: Final = 80  # the same after a value: "use … as the key"
BEFORE_DIGIT: Final = 200  # from a name to the first digit of what its rules find
_WITHOUT_DIGITS: Final = 0.75  # of a text: then to look for the next digit costs less than to try the rules
_SAMPLE: Final = 16_000  # characters that show it


class TokenRuns:
    """The parts of a text that can hold a token: `runs` of token characters, and `named` values after a name."""

    __slots__ = ("_distinct", "_latin", "_marks", "_runs", "grouped", "named", "once", "some")

    def __init__(self, text: str) -> None:
        # Bytes, for `translate`: one table maps every character to a class in C. What is not Latin-1 becomes "?".
        latin = self._latin = text.encode("latin-1", "replace")
        classes = latin.translate(_CLASSES)
        self.named: list[Window] = []
        self.grouped = _places_of_groups(text) if _may_have_groups(classes) else []
        self._distinct: frozenset[bytes] | None = None
        self.once: str | None = None
        """Each different run of the text on a line of its own; None unless most come again."""
        self._runs: list[Window] | None = []
        self.some = False
        found = classes.count(_VALUE_RUN) if len(text) <= _FEW else located(classes).count("w" * VALUE)
        if not found:
            return
        self._marks, of_digits = _TABLES_WITH_OTHERS if _may_count_others(text) else _TABLES
        many = found > len(text) // _MANY_RUNS + 1
        if many and len(text) > _SHORT and text.isascii() and _pays_to_list(classes, found):
            self._distinct = _distinct_runs(latin)
            self.once = b"\n".join((b"", *self._distinct)).decode() if self._distinct else None
        self._runs = None if self._distinct else _marked_runs(classes, latin.translate(self._marks), TOKEN, ids=latin)
        self.some = self._runs != []
        digits = latin.translate(of_digits)
        if many:
            dense = b"d" in digits or (len(text) < _SHORT and _marked_runs(classes, digits, VALUE, latin))
            self.named = [(0, len(text))] if dense else []
            return
        least = VALUE if b"d" in digits else _LETTERS_ALONE
        for start, end in _marked_runs(classes, digits, least, latin):
            add_window(self.named, start, min(len(text), end + _AFTER_VALUE))

    @property
    def runs(self) -> list[Window]:
        """The runs that may be tokens; the whole text if that is searched faster. Without `some` there are none."""
        if self._runs is None:
            once = b" ".join(self._distinct or ())
            marked = _marked_runs(once.translate(_CLASSES), once.translate(self._marks), TOKEN, ids=once, whole=False)
            self._runs = _places_of({once[start:end] for start, end in marked}, self._latin)
        return self._runs

    def hold_long_word(self) -> bool:
        """Return whether the text has `LONG_WORD` letters and digits in a row."""
        return "w" * LONG_WORD in located(self._latin.translate(_WORDS))

    def each_once(self, text: str) -> str | None:
        """Return runs, a line each, in which any token of the text is; None to search the text itself.

        To search many at once takes half as long as each alone, and most of those of logs and listings come again.
        """
        if self.once is not None:
            return self.once
        runs = self.runs
        return "\n".join(["", *{text[start:end] for start, end in runs}]) if len(runs) > 1 else None


def has_run(text: str) -> bool:
    """Return whether a text has a run in which a value can stand; without one, it has no `TokenRuns` either."""
    classes = text.encode("latin-1", "replace").translate(_CLASSES)
    return _VALUE_RUN in classes or _may_have_groups(classes)


def _may_have_groups(classes: bytes) -> bool:
    return _GROUPS_RUN in classes if len(classes) <= _FEW else _GROUPS in located(classes)


def _places_of_groups(text: str) -> list[int]:
    """Return where passwords of six groups begin: `aB3d Ef6h 9jKl mN0p Q2rs T5uV`."""
    found: list[int] = []
    for match in _IN_GROUPS.finditer(text):
        kinds = any(map(str.islower, match[0])), any(map(str.isupper, match[0])), any(map(str.isdigit, match[0]))
        ends, groups = match[0][3::5], match[0].split()
        if max(map(ends.count, ends)) >= _SAME_ENDS or len({*groups}) < len(groups):
            continue  # data of time zones: `1cN0 1db0 1dd0 …`, `11ck 1oLE 11ck 1oLE …`
        if all(kinds) and sum(_OF_GROUP.search(group) is not None for group in groups) >= _MIXED_GROUPS:
            found.append(match.start())
    return found


def _pays_to_list(classes: bytes, runs: int) -> bool:
    """Return whether a text has few enough words for its runs that to list all words takes less time."""
    within = located(classes)
    return within.count("w ") < runs * _WORDS_TO_A_RUN + within.count("w" * TOKEN) * _WORDS_TO_A_LONG_RUN


def _distinct_runs(latin: bytes) -> frozenset[bytes] | None:
    """Return the runs of a long text in which a value can stand, each once; None if most of its first ones differ."""
    runs = set[bytes]()
    end = -1
    while (begin := end + 1) < len(latin):
        block = latin[begin : begin + _BLOCK].translate(_RUNS)
        if len(block) == _BLOCK and (last := block.rfind(b" ")) >= 0:  # a run goes on in the next block
            block = block[:last]
        elif len(block) == _BLOCK:
            return None
        found: list[bytes] = block.split()
        runs.update(run for run in set(found) if len(run) >= VALUE)  # a set first: most come again
        if not begin and len(runs) * 2 > sum(len(run) >= VALUE for run in found):
            return None
        end = begin + len(block)
    return frozenset(runs)


def _places_of(chosen: set[bytes], latin: bytes) -> list[Window]:
    """Return where these runs stand in a text; the whole text if that is searched faster."""
    classes = latin.translate(_CLASSES)
    run = b"w" * (TOKEN if chosen else len(latin) + 1)
    runs: list[Window] = []
    cost = -_WINDOW * _WINDOW
    end = 0
    while (start := classes.find(run, end)) >= 0:
        end = classes.find(b" ", start + TOKEN)
        end = len(classes) if end < 0 else end
        if latin[start:end] in chosen:
            runs.append((start, end))
            cost += end - start + _WINDOW
            if cost > end:
                return [(0, len(latin))]
    return runs


def _marked_runs(
    classes: bytes, marks: bytes, least: int, latin: bytes = b"", ids: bytes = b"", *, whole: bool = True
) -> list[Window]:
    """Return the runs of at least `least` characters that have a mark; the whole text if that is searched faster.

    So are longer runs without one that seem to be random letters in the text itself, `latin`. With `ids`, the text
    itself too, ids and digests are left out, of which logs and lock files are full.
    """
    run = b"w" * least
    runs: list[Window] = []
    shapes = b""
    cost = -_WINDOW * _WINDOW
    mark = -1  # the next one from `start` on
    start = classes.find(run)
    while start >= 0:
        end = classes.find(b" ", start + least)
        end = len(classes) if end < 0 else end
        if ids and end - start >= _SHORTEST_ID:
            shapes = shapes or ids.translate(_HEXADECIMAL)
            if shapes[start:end] in _IDS or _ends_in_id(ids[start:end], shapes[start:end]):
                start = classes.find(run, end)
                continue
        if mark < start:
            mark = marks.find(b"d", start)
            mark = len(marks) if mark < 0 else mark
        if mark < end or (
            latin and end - start >= _LETTERS_ALONE and seems_random(latin[start:end].decode("latin-1"), 0)
        ):
            runs.append((start, end))
            cost += end - start + _WINDOW
            if cost > end and whole:
                return [(0, len(classes))]
        start = classes.find(run, end)
    return runs


def _ends_in_id(run: bytes, shapes: bytes) -> bool:
    """Return whether a run is a UUID or a digest, behind a short name or none: no token has that form."""
    name, _, shape = shapes.rpartition(b"=")
    name = run[: len(name)]  # Asana's tokens end as an id does behind a number
    return shape in _IDS and len(name) < TOKEN and name.translate(None, _DECIMAL) in {name, b"sha"}


def _may_count_others(text: str) -> bool:
    """Return whether a "?" may count as a digit: for a character that is not Latin, or in the query of a URL.

    Elsewhere in ASCII it makes no value, and minified code (`a?b.c:d`) is full of it.
    """
    if not text.isascii():
        return True
    within = searchable(text)
    return "?" in within and any(query in within for query in _QUERIES)


def _marked_digits(text: str) -> bytes:
    return text.encode("latin-1", "replace").translate(_TABLES[1])


def lacks_digits(text: str) -> bool:
    """Return whether a part of a long text is so far from digits that it pays to look where these are."""
    digits = _marked_digits(text[:_SAMPLE])
    without = digits.count(b" " * BEFORE_DIGIT) * BEFORE_DIGIT
    return len(text) > _SHORT and without > len(digits) * _WITHOUT_DIGITS


class NearDigits:
    """The places of fixed texts that a digit follows soon, which three of four names in source code have not."""

    __slots__ = ("_digits", "_places")

    def __init__(self, text: str, places: Findable) -> None:
        self._digits = _marked_digits(text)
        self._places = places

    def find(self, fixed: str, start: int, end: int) -> int:
        """Return the first of the places in this part of the text, or -1."""
        while (place := self._places.find(fixed, start, end)) >= 0:
            digit = self._digits.find(b"d", place)
            if digit < 0:
                break
            if digit < place + BEFORE_DIGIT:
                return place
            start = digit - BEFORE_DIGIT + 1
        return -1


def add_window(windows: list[Window], start: int, end: int) -> None:
    """Append the value with the text before it, joined to the last window if they touch."""
    begin = max(0, start - _BEFORE_VALUE)
    if windows and begin <= windows[-1][1]:
        begin, _ = windows.pop()
    windows.append((begin, end))
