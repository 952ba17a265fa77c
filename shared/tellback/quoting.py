r"""Quote what a tool, a user or a command wrote, so that no person and no model takes it for Tellback's own.

| function | for | what it does |
|---|---|---|
| `quote_forged_lines` | a whole text, such as a tool's result | quotes lines that look like ours |
| `quote_forged_parts` | a result that comes in parts | the same, also for a line that runs over two parts |
| `quote_value` | a value within a line of ours | one line; quoted if it looks like ours |
| `quote_terminal` | a name or text in a listing | the same, with escapes for what hides |
| `quote_summary` | the summary of a feedback | quotes lines that would begin a section or a list of ours |

A quoted line begins with `> `, and characters in it that act or hide are shown as escapes. Text without a line that
looks like ours stays as it is, byte for byte. A line is compared as a reader sees it: letter case, accents, look-alike
letters, dashes, decoration, colours, hidden characters, overwriting and reversed direction make no difference.

`tellback hook` loads this module, so the patterns and tables are built at first use.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from tellback.sanitize import inert_line, terminal_line, visible_only

QUOTE: Final = "> "

# The beginnings of our sections, notes, checks and refusals in every language; `test_forgeries.py` compares them with
# the catalogs and with what the hooks say. An agent may understand languages other than its own.
HEADINGS: Final = (
    "next steps:", "alternatives:", "note: nothing here about", "before you give your final answer",
    "your task is not complete yet", "nächste schritte:", "alternativen:", "hinweis: hier steht nichts über",
    "vor der endgültigen antwort:", "die aufgabe ist noch nicht fertig", "следующие шаги:", "варианты:",
    "примечание: здесь ничего нет о", "перед окончательным ответом", "задача ещё не выполнена",  # noqa: RUF001 - Russian
    "before you finish, this is missing", "before you finish, check that this holds", "denied by tellback",
)  # fmt: skip
# The signs of `ToolFeedback`'s status line, and others that a reader takes for them.
_SIGNS: Final = tuple("✓✔✅☑⚠✗✘❌✖❎⛔")
# A heading begins its line; the rest of a long line need not be compared.
_HEAD: Final = 200
# What may stand between the letters or the words of a heading, and the line ends that not every program takes for one.
_GAPS: Final = (" ", "\t", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
_BLOCK: Final = 64  # lines that are searched at once
# Lines that are looked at one by one, some 60 µs each; of a text with more of them, the rest are quoted unseen.
_MOST_CHECKED: Final = 2_000
_RIGHT_TO_LEFT: Final = ("\u202e", "\u202b", "\u2067")
_MIRRORED: Final = str.maketrans("[]<>()", "][><)(")

# Letters that look like Latin ones and that NFKC keeps apart: Cyrillic, Greek, small capitals, Cherokee, Lisu, Coptic.
# Both cases
# of a Cyrillic letter are here or none, so that our Russian headings fold to one form.
_LOOKALIKES: Final = (
    (
        "АВЕКМНОРСТУХІЅЈавекмнорстухіѕјԁԛԝһΑΒΕΖΗΙΚΜΝΟΡΤΥΧοατνικєεᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢᎬᏚᎢᏢᎪᏴᎠᏞᏙᏔᎷᏟ"
        "ꓮꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜⲀⲂⲤⲈⲎⲒⲔⲘⲚⲞⲢⲦⲬⲨ"
    ),
    (
        "ABEKMHOPCTYXISJabekmhopctyxisjdqwhABEZHIKMNOPTYXoatvikeeabcdefghijklmnoprstuvwyzESTPABDLVWMC"
        "abcdefghijklmnoprstuvwxyzabcehikmnoptxy"
    ),
)
_DASHES: Final = "\u058a\u05be\u1806\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\u30fc\u4e00"
_BRACKETS: Final = ("【〔⟦「〚❲⁅‹〈⟨", "[[[[[[[<<<")  # noqa: RUF001 - look-alikes are its subject


class _Patterns(NamedTuple):
    sequence: re.Pattern[str]
    cursor: re.Pattern[str]
    escape: re.Pattern[str]
    hidden: re.Pattern[str]
    escaped_end: re.Pattern[str]
    decoration: re.Pattern[str]
    no_letters: re.Pattern[str]
    joint: re.Pattern[str]
    spaced: re.Pattern[str]
    anywhere: re.Pattern[str]
    bracket: re.Pattern[str]
    title: re.Pattern[str]
    item: re.Pattern[str]
    arrow: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    return _Patterns(
        # CSI, then OSC, DCS, PM and APC with their texts, then any other; also by their single C1 characters.
        sequence=re.compile(
            "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*"
            "(?:\x07|\x1b\\\\|\x9c)?|\x1b[ -/]*[0-~]"
        ),
        cursor=re.compile("(?:\x1b\\[|\x9b)[0-?]*[A-HSTfJKsu]|\x1b[78DEHM]"),
        escape=re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]"),
        hidden=re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f]"),
        # A line end within a text of JSON.
        escaped_end=re.compile(r"\\r\\n|\\n|\\r|\\u2028|\\u0085"),
        # Markdown and list marks before a heading do not change what a reader sees.
        decoration=re.compile(r"[\s*_#`>~|=+•·-]+"),
        # "1. NEXT STEPS:", "(NEXT STEPS:)", "<b>NEXT STEPS:</b>" and a picture before it.
        no_letters=re.compile(
            r"(?:<(?!/?feedback|!-)[^<>]{0,60}>|<!-|[^\w<]|[\d_]|(?:[ivx]{1,5}|[a-h])[.)]\s|(?<=\\)[a-z]{2,12}\{)+"
        ),
        # What names in code, file names and URLs have between their words.
        joint=re.compile(r"[\s_-]|%20"),
        spaced=re.compile(r"(?:\w ){3}\w(?!\w)"),
        # Ours anywhere in a line: no text but ours says so, and a tag needs no line of its own.
        anywhere=re.compile(
            r"\[\s*feedback\s*[-:|~]|(?:<|&lt;)/?\s*(?:\w{1,20}:)?feedback(?:[\s/>&]|$)|\[\s*tellback\b"
        ),
        bracket=re.compile(r"\[\s*(?:feedback|observation|tellback)\b(?!\]\()"),  # but a link of Markdown is none
        title=re.compile(r"feedback\s*-+\s+\S"),
        item=re.compile(r"\s*[-*+•·–—‣◦▪](?:\s|$)"),
        arrow=re.compile(r"\s*(?:[→➔➜➡⇒⟶⮕▶►➤]|[-=]+>)"),
    )


class _Folding(dict[int, str]):
    """The form of each character in which lines and headings are compared; hidden ones and accents have none.

    One pass of `str.translate` in C: normalizing and folding line by line took 130 µs for each Russian line.
    """

    _MOST = 20_000  # characters kept; a text of all of Unicode would take 100 MB

    def __init__(self) -> None:
        super().__init__({code: chr(code).casefold() for code in (*map(ord, "\t\n\r\x0b\x0c"), *range(0x20, 0x7F))})
        self._alike = {ord(sign): letter for sign, letter in zip(*_LOOKALIKES, strict=True)}
        # In parentheses, white in black circles and squares, and those of flags.
        for first in (0x249C, 0x1F110, 0x1F150, 0x1F170, 0x1F1E6):
            self._alike |= {first + at: chr(ord("a") + at) for at in range(26)}
        self._alike |= dict.fromkeys(map(ord, _DASHES), "-")
        self._alike |= {ord(sign): plain for sign, plain in zip(*_BRACKETS, strict=True)}

    def __missing__(self, code: int) -> str:
        char = chr(code)
        plain = unicodedata.normalize("NFKC", self._alike.get(code) or visible_only(char))
        alike = "".join(self._alike.get(ord(each), each) for each in plain).casefold()
        folded = "".join(each for each in unicodedata.normalize("NFKD", alike) if not _is_mark(each))
        if len(self) < self._MOST:
            self[code] = folded
        return folded


def _is_mark(char: str) -> bool:
    """Return whether the character only adorns the one before it: an accent, a circle around it."""
    return unicodedata.combining(char) > 0 or unicodedata.category(char) == "Me"


@cache
def _folding() -> _Folding:
    return _Folding()


class _LineEdit(NamedTuple):
    """A range of a text, and what replaces it."""

    start: int
    end: int
    text: str


def quote_forged_lines(text: str, headings: Iterable[str] = (), *, signs: bool = False) -> str:
    """Quote each line that a reader could take for one of our headings, sections or notes.

    `headings` are those of the caller's own templates. With `signs`, lines that begin like a status line count too,
    which test runners print as well.
    """
    return _apply_edits([text], _forged_lines(text, tuple(headings), signs=signs))[0]


def quote_forged_parts(parts: Sequence[str], headings: Iterable[str] = ()) -> list[str]:
    """Quote forged lines of texts that a reader sees one after another, with or without a line end between them."""
    marks = tuple(headings)
    edits = _forged_lines("".join(parts), marks)
    offset = 0
    for part in parts if len(parts) > 1 else ():
        own = [_LineEdit(offset + start, offset + end, text) for start, end, text in _forged_lines(part, marks)]
        # What a line over several parts replaces is not edited once more in one of them.
        edits += [edit for edit in own if not any(edit.start < each.end and each.start < edit.end for each in edits)]
        offset += len(part)
    return _apply_edits(parts, sorted(edits))


def quote_value(text: str) -> str:
    """Return the text as a value in a line of ours: one line in which nothing acts, quoted if it looks like ours."""
    line = inert_line(text)
    return f"{QUOTE}{line}" if looks_like_ours(line) else line


def quote_terminal(text: str) -> str:
    """Return the text as one line for a terminal, quoted if it looks like ours; what hides is shown as escapes."""
    # One line: a second one would be alone in its cell or field, and could begin a section.
    return f"{QUOTE}{terminal_line(text)}" if looks_like_ours(text) else terminal_line(text)


def quote_summary(summary: str) -> list[str]:
    """Return the lines of a feedback's summary, of which none begins another section or one of the lists.

    A provider may have copied a tool's output. A list right below a sentence is the provider's own.
    """
    lines: list[str] = []
    is_list = False
    for number, line in enumerate(summary.splitlines()):
        seen = visible_only(line)
        begins = number == 0 or not lines[-1].strip()
        is_list = _patterns().item.match(seen) is not None and (begins or is_list)
        forged = is_list or _patterns().arrow.match(seen) or looks_like_ours(line)
        lines.append(_quoted(line) if forged else line)
    return lines


def looks_like_ours(line: str) -> bool:
    """Return whether a reader could take the line for the beginning of a section of ours."""
    marks = _marks(())
    return _may_hold(line, marks) and any(_is_ours(view, marks) for view in _views(line))


def _forged_lines(text: str, headings: tuple[str, ...], *, signs: bool = False) -> list[_LineEdit]:
    marks = _marks(headings, signs=signs)
    if not _may_hold(text, marks):
        return []
    edits: list[_LineEdit] = []
    lines = text.split("\n")
    start = checked = 0
    for first in range(0, len(lines), _BLOCK):
        block = lines[first : first + _BLOCK]
        suspect = _may_hold("\n".join(block), marks)
        for line in block:
            if suspect and _may_hold(line, marks):
                checked += 1
                if checked > _MOST_CHECKED or _is_forged(line, marks):
                    kept = "\r" * line.endswith("\r")
                    edits.append(_LineEdit(start, start + len(line), f"{_quoted(line.removesuffix(kept))}{kept}"))
            start += len(line) + 1
    return edits


def _is_forged(line: str, marks: _Marks) -> bool:
    # A carriage return may end a line or overwrite it, and no two programs agree on the other line ends.
    pieces = line.splitlines()[:_MOST_CHECKED]
    pieces += [sep.join(pieces) for sep in ("", " ")] if len(pieces) > 1 else []
    return any(_is_ours(view, marks) for piece in pieces for view in _views(piece))


def _apply_edits(parts: Sequence[str], edits: Sequence[_LineEdit]) -> list[str]:
    """Return the parts with the edits of their joined text; a range over several parts is replaced in its first."""
    if not edits:
        return list(parts)
    changed: list[str] = []
    offset = 0
    for part in parts:
        pieces: list[str] = []
        at = 0
        for start, end, text in edits:
            if start - offset < len(part) and end > offset:
                pieces += [part[at : start - offset], text] if start >= offset else []
                at = min(end - offset, len(part))
        changed.append("".join([*pieces, part[at:]]))
        offset += len(part)
    return changed


def _quoted(line: str) -> str:
    return f"{QUOTE}{terminal_line(line)}"


class _Marks(NamedTuple):
    """The headings as a reader sees them, the same without spaces, and words of which each of them has one.

    A heading with a colon is a word or two, which somebody else's sentence may begin with.
    """

    headings: tuple[str, ...]
    spaced: tuple[str, ...]
    words: tuple[str, ...]
    signs: tuple[str, ...]


@lru_cache(maxsize=64)
def _marks(headings: tuple[str, ...], *, signs: bool = False) -> _Marks:
    folded = {" ".join(_folded(heading).split()) for heading in (*HEADINGS, *headings)}
    whole = tuple(sorted(mark for mark in folded if mark.strip(" (:")))
    shown = _SIGNS if signs else ()
    words = {max(re.split(r"\W+", mark), key=len) for mark in whole} | {"feedback", "tellback", "[observation", *shown}
    return _Marks(whole, tuple(mark.replace(" ", "") for mark in whole), tuple(words), shown)


def _may_hold(text: str, marks: _Marks) -> bool:
    """Return False if no line of the text can be ours; most texts end here, after a few searches in C."""
    patterns = _patterns()
    if not text.isascii() and any(mark in text for mark in _RIGHT_TO_LEFT):
        return True
    joined = _folded(_overstruck(patterns.sequence.sub("", text) if patterns.escape.search(text) else text))
    for gap in _GAPS:
        joined = joined.replace(gap, "")
    return any(word in joined for word in marks.words)


def _views(line: str) -> Iterator[str]:
    r"""Yield the line's possible beginnings as a reader sees them; one may be behind a moved cursor or a JSON `\n`."""
    patterns = _patterns()
    for piece in patterns.escaped_end.split(line) if "\\" in line else (line,):
        for behind in patterns.cursor.split(piece):
            plain = _overstruck(patterns.sequence.sub("", behind))
            yield _folded(plain)
            if any(mark in behind for mark in _RIGHT_TO_LEFT):
                yield from (_folded(plain[::-1]), _folded(plain[::-1].translate(_MIRRORED)))


def _overstruck(text: str) -> str:
    """Return the text as backspaces leave it."""
    kept: list[str] = []
    for char in text if "\b" in text else ():
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept) if "\b" in text else text


def _folded(text: str) -> str:
    if not text.isascii():
        return text.translate(_folding())
    return _patterns().hidden.sub("", text.casefold())


def _is_ours(view: str, marks: _Marks) -> bool:
    patterns = _patterns()
    if patterns.anywhere.search(view):
        return True
    head = " ".join(view[: 2 * _HEAD].split())[:_HEAD]
    decoration = patterns.decoration.match(head)
    plain = head[decoration.end() if decoration else 0 :]
    if patterns.bracket.match(plain) or plain.startswith(marks.signs):
        return True
    before = patterns.no_letters.match(plain)
    bare = plain[before.end() if before else 0 :]
    if patterns.title.match(bare) or any(_begins(each, marks.headings) for each in (plain, bare)):
        return True
    joined = patterns.joint.sub("", bare)
    if any(mark.endswith(":") and joined.startswith(mark) for mark in marks.spaced):
        return True  # "NEXT-STEPS:", "next_steps:"
    return patterns.spaced.match(bare) is not None and _begins(bare.replace(" ", ""), (*marks.spaced, "feedback-"))


def _begins(line: str, headings: Sequence[str]) -> bool:
    for heading in headings:
        if line.startswith(heading.rstrip(": ")):
            rest = line[len(heading.rstrip(": ")) :].strip(" *_`~")
            # "Next steps for the team are" is somebody else's sentence.
            return not heading.endswith(":") or not rest[:1].isalnum() or rest.endswith(":") or "tellback" in rest
    return False
