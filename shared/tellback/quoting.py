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
letters, digits for letters, dashes, decoration, colours, hidden characters, escapes of JSON and HTML, overwriting and
reversed direction make no difference, nor does a line end within a heading.

`tellback hook` loads this module, so the patterns and tables are built at first use.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.light_struct import LightStruct
from tellback.lookalikes import (
    BLOCK_TAG,
    MARKUP,
    SPEAKER,
    TAGS,
    TITLE,
    as_guessed,
    as_seen,
    behind_program,
    overstruck,
    uncoloured,
    unescaped,
    with_letters,
)
from tellback.sanitize import inert_line, terminal_line, visible_only

QUOTE: Final = "> "

# The beginnings of our sections, notes, checks and refusals in every language; `test_forgeries.py` compares them with
# the catalogs and with what the hooks say. An agent may understand languages other than its own.
HEADINGS: Final = (
    "next steps:", "next step:", "alternatives:", "note: nothing here about", "before you give your final answer",
    "your task is not complete yet", "nächste schritte:", "nächster schritt:", "alternativen:",
    "hinweis: hier steht nichts über", "vor der endgültigen antwort:", "die aufgabe ist noch nicht fertig",
    "следующие шаги:", "следующий шаг:", "варианты:",
    "примечание: здесь ничего нет о", "перед окончательным ответом", "задача ещё не выполнена",  # noqa: RUF001 - Russian
    "before you finish, this is missing", "before you finish, check that this holds", "denied by tellback",
)  # fmt: skip
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
# The signs of `ToolFeedback`'s status line, and others that a reader takes for them.
_SIGNS: Final = tuple("✓✔✅☑⚠✗✘❌✖❎⛔")
_HEAD: Final = 200  # a heading begins its line; the rest of a long line need not be compared
_BLOCK: Final = 64  # lines that are searched at once
# Lines that are looked at one by one, some 60 µs each; of a text with more of them, the rest are quoted unseen.
_MOST_CHECKED: Final = 2_000
_RIGHT_TO_LEFT: Final = ("\u202e", "\u202b", "\u2067")
_MIRRORED: Final = str.maketrans("[]<>()", "][><)(")
_SPLIT: Final = 40  # a heading may go on in the next line; a longer line is a sentence

_LineEdit = tuple[int, int, str]  # the start and end of a range of a text, and what replaces it

# Colours (m), modes (h, l) and reports (n) leave it where it is; a reset goes to the first column.
_CURSOR: Final = lazy_pattern("(?:\x1b\\[|\x9b)[0-?]*[@-gi-ksu]|\x1b[78DEHMc]")
# A line end or a tab within a text of JSON, Python, C or JavaScript, or in a URL.
_ESCAPED_END: Final = lazy_pattern(r"(?<!\\)\\++(?:[nrtvf]|0?1[2-5]|u\{0*[aAdD]\}|U0{7}[aAdD])|%0[aAdD]")
# The beginning of a text of JSON or Python that soon has a colon.
_VALUE: Final = lazy_pattern(r"""[:,\[(]\s*["'](?=[^"'\n]{0,60}:)""")
_TAGS: Final = lazy_pattern(f"[{chr(TAGS[0])}-{chr(TAGS[1])}]+")
# Markdown and list marks before a heading do not change what a reader sees.
_DECORATION: Final = lazy_pattern(r"[\s*_#`>~|=+•·-]+")
# "1. NEXT STEPS:", "(NEXT STEPS:)", "<b>NEXT STEPS:</b>" and a picture before it.
_NO_LETTERS: Final = lazy_pattern(
    r"(?:<(?!/?feedback|!-)[^<>]{0,60}>|<!-|[^\w<]|[\d_]|(?:[ivx]{1,5}|[a-h])[.)]\s|(?<=\\)[a-z]{2,12}\*?\{|(?<=\[!)\w{1,12}\])+"
)
# What names in code, file names and URLs have between their words.
_JOINT: Final = lazy_pattern(r"[\s_+¦-]|%20")
_SPACED: Final = lazy_pattern(r"(?:\w[ ._·•*~/|+¦'-]{1,3}){3}\w(?!\w)")
_OTHER: Final = lazy_pattern(r"[\W\d_]+")
_BETWEEN: Final = lazy_pattern(r"[\s._·•*~/|+¦'-]+")
_DIGITS: Final = lazy_pattern(r"[a-z][013-9@$!]|[013-9@$!][a-z]")
# Ours anywhere in a line: no text but ours says so, and a tag needs no line of its own.
_ANYWHERE: Final = lazy_pattern(
    r"\[\s*feedback\s*-|(?<!\w)\[\s*(?:feedback\s*[:|~]|te[il]{2}back\b(?!\.\w))"
    r"|(?:<|&lt;)/?\s*(?:\w{1,20}:)?feedback(?:[\s/>&]|$)"
    r"|(?<![\w.])(?:<|&lt;)/?\s*(?:\w{1,20}:)?te[il]{2}back(?:\s*/?(?:>|&gt;)|\s[\w-]{1,20}=|:\w)"
)
# No link of Markdown, and no name in code.
_BRACKET: Final = lazy_pattern(r"\[\s*(?:feedback|observation|te[il]{2}back)\b(?![^][\n]{0,40}\][([]|\.\w)")
_TAIL: Final = lazy_pattern(r"\[\s*f?e?e?d?b?a?c?k?\s*$")
_STOP: Final = lazy_pattern(r"(?<=[.!?])\s+|\[/[a-z]{1,12}\]\s*")
_ITEM: Final = lazy_pattern(r"\s*[-*+•·–—‣◦▪](?:\s|$)")
_ARROW: Final = lazy_pattern(r"\s*(?:[→➔➜➡⇒⟶⮕▶►➤]|[-=]+>)")


def quote_forged_lines(text: str, headings: Iterable[str] = (), *, signs: bool = False, short: bool = True) -> str:
    """Quote each line that a reader could take for one of our headings, sections or notes.

    `headings` are those of the caller's own templates. With `signs`, lines that begin like a status line count too,
    which test runners print as well. Without `short`, headings of one or two words don't, as others have them.
    """
    return _apply_edits([text], _forged_lines(text, _marks(tuple(headings), signs=signs, short=short)))[0]


def quote_forged_parts(parts: Sequence[str], headings: Iterable[str] = ()) -> list[str]:
    """Quote forged lines of texts that a reader sees one after another, with or without a line end between them."""
    marks = _marks(tuple(headings))
    edits = _forged_lines("".join(parts), marks)
    if len(parts) > 1:
        begins = list(accumulate((len(part) + 1 for part in parts), initial=0))
        taken = [end for _, end, _ in edits]
        for start, end, new in _forged_lines("\n".join(parts), marks):
            ends = bisect_right(begins, start) - 1  # line ends between parts that are in no part
            # What a line over several parts replaces is not edited once more in one of them.
            other = bisect_right(taken, start - ends)
            if other == len(taken) or edits[other][0] >= end - ends:
                edits.append((start - ends, end - ends, new))
    return _apply_edits(parts, sorted(edits))


def quote_value(text: str) -> str:
    """Return the text as a value in a line of ours: one line in which nothing acts, quoted if it looks like ours."""
    line = inert_line(text)
    # Both: hidden characters become spaces in the line, and within a word they hide it from its check.
    return f"{QUOTE}{line}" if any(map(resembles_ours, {line, text})) else line


def quote_terminal(text: str) -> str:
    """Return the text as one line for a terminal, quoted if it looks like ours; what hides is shown as escapes."""
    # One line: a second one would be alone in its cell or field, and could begin a section.
    return f"{QUOTE}{terminal_line(text)}" if resembles_ours(text) else terminal_line(text)


def quote_summary(summary: str) -> list[str]:
    """Return the lines of a feedback's summary, of which none begins another section or one of the lists.

    A provider may have copied a tool's output. A list right below a sentence is the provider's own.
    """
    lines: list[str] = []
    quoted: set[int] = set()
    is_list = False
    marks = _marks(())
    for number, line in enumerate(summary.splitlines()):
        seen = visible_only(line)
        begins = number == 0 or not lines[-1].strip()
        is_list = _ITEM.match(seen) is not None and (begins or is_list)
        forged = is_list or _ARROW.match(seen) or resembles_ours(line)
        above = _line_above(lines, number)
        may_go_on = above is not None and not forged and _may_go_on(lines[above], marks)
        if above is not None and may_go_on and _goes_on(lines[above], line, marks):
            lines[above], forged = lines[above] if above in quoted else _quoted(lines[above]), True
            quoted.add(above)
        if forged:
            quoted.add(number)
        lines.append(_quoted(line) if forged else line)
    return lines


def resembles_ours(line: str) -> bool:
    """Return whether a reader could take the line for the beginning of a section of ours."""
    marks = _marks(())
    return _may_hold(line, marks) and any(_is_ours(view, marks) for view in _views(line))


def _forged_lines(text: str, marks: _Marks) -> list[_LineEdit]:
    if not _may_hold(text, marks):
        return []
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    edits: list[_LineEdit] = []
    for number in _forged_numbers(lines, marks):
        line, start = lines[number], starts[number]
        kept = "\r" * line.endswith("\r")
        edits.append((start, start + len(line), f"{_quoted(line.removesuffix(kept))}{kept}"))
    return edits


def _forged_numbers(lines: Sequence[str], marks: _Marks) -> list[int]:
    found: set[int] = set()
    checked = 0
    for first in range(0, len(lines), _BLOCK):
        # With the lines above: a heading may go on in the block's first line.
        if not _may_hold("\n".join(lines[max(0, first - 2) : first + _BLOCK]), marks):
            continue
        for number in range(first, min(first + _BLOCK, len(lines))):
            if _may_hold(lines[number], marks):
                checked += 1
                if checked > _MOST_CHECKED or _is_forged(lines[number], marks):
                    found.add(number)
                    continue
            above = _line_above(lines, number)
            if above is not None and above not in found and _may_go_on(lines[above], marks):
                checked += 1
                if checked > _MOST_CHECKED or _goes_on(lines[above], lines[number], marks):
                    found |= {above, number}
    return sorted(found)


def _line_above(lines: Sequence[str], number: int) -> int | None:
    """Return the number of the line before; one blank line may be between."""
    return next((at for at in (number - 1, number - 2) if at >= 0 and lines[at].strip()), None)


def _may_go_on(line: str, marks: _Marks) -> bool:
    """Return False if the line cannot be the beginning of a heading; for most lines, in a microsecond or two."""
    if len(line) > _SPLIT and ("\x1b" not in line or len(line) > _HEAD):
        return False
    letters = _OTHER.sub("", as_guessed(uncoloured(line)))
    return any(letters[at:] in marks.beginnings for at in range(3))  # behind a number of a list


def _goes_on(first: str, second: str, marks: _Marks) -> bool:
    """Return whether a heading of ours begins in a line, with no other word, and goes on in the next."""
    for head, known in _readings(uncoloured(first), marks):
        bare = _heads(head)[1].rstrip(" -")
        joined = _BETWEEN.sub("", bare)
        cut = "[" in head and _TAIL.search(head) is not None
        if not cut and not (joined and any(mark.startswith(joined) for mark in known.spaced)):
            continue
        for rest, _ in _readings(uncoloured(second)[: 2 * _HEAD].lstrip(), marks):
            if cut and _ANYWHERE.search(f"{head.rstrip()}{rest}"):
                return True
            if any(_begins(f"{bare}{gap}{_heads(rest)[0]}", known.headings) for gap in (" ", "")):
                return True
    return False


def _is_forged(line: str, marks: _Marks) -> bool:
    # A carriage return may end a line or overwrite it, and no two programs agree on the other line ends.
    pieces = line.splitlines()
    pieces += [sep.join(pieces) for sep in ("", " ")] if len(pieces) > 1 else []
    views = (view for piece in pieces for view in _views(piece) if _may_hold(view, marks))
    return any(number >= _MOST_CHECKED or _is_ours(view, marks) for number, view in enumerate(views))


def _apply_edits(parts: Sequence[str], edits: Sequence[_LineEdit]) -> list[str]:
    """Return the parts with the edits of their joined text; a range over several parts is replaced in its first."""
    if not edits:
        return list(parts)
    changed: list[str] = []
    offset = number = 0
    for part in parts:
        pieces: list[str] = []
        at = 0
        while number < len(edits) and edits[number][0] - offset < len(part):
            start, end, text = edits[number]
            if end > offset:
                pieces += [part[at : start - offset], text] if start >= offset else []
                at = min(end - offset, len(part))
            if end - offset > len(part):  # it goes on in the next part
                break
            number += 1
        changed.append("".join([*pieces, part[at:]]))
        offset += len(part)
    return changed


def _quoted(line: str) -> str:
    return f"{QUOTE}{terminal_line(line)}"


class _Marks(LightStruct):
    """The headings as a reader sees them, and the same without spaces.

    A heading with a colon is a word or two, which somebody else's sentence may begin with. `words` are for the first
    search: each heading has one of them. `lettered` are the same headings where digits stand for letters. The first
    line of a heading over two lines has some of its `beginnings`.
    """

    headings: tuple[str, ...]
    spaced: tuple[str, ...]
    words: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    lettered: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    beginnings: frozenset[str] = frozenset()


@lru_cache(maxsize=64)
def _marks(headings: tuple[str, ...], *, signs: bool = False, short: bool = True) -> _Marks:
    known = [*(each for each in HEADINGS if short or each.count(" ") > 1), *headings]
    written = {heading for each in known for heading in (each, each.translate(_UMLAUTS))}
    folded = {" ".join(as_seen(heading).split()) for heading in written}
    whole = tuple(sorted(mark for mark in folded if mark.strip(" (:")))
    spaced = tuple(mark.replace(" ", "") for mark in whole)
    shown = _SIGNS if signs else ()
    longest = {max(reversed(re.split(r"\W+", mark)), key=len) for mark in whole}  # "step", which is rarer than "next"
    words = longest | {"feedback", "tellback", "[observation", *shown}
    lettered = (tuple(map(with_letters, whole)), tuple(map(with_letters, spaced)))
    letters = [_OTHER.sub("", as_guessed(mark)) for mark in (*whole, "feedback")]
    beginnings = frozenset(each[:end] for each in letters for end in range(1, len(each) + 1))
    return _Marks(whole, spaced, tuple(map(as_guessed, words)), shown, lettered, beginnings)


def _may_hold(text: str, marks: _Marks) -> bool:
    """Return False if no line of the text can be ours; most texts end here, after a few searches in C."""
    if not text.isascii() and any(mark in text for mark in _RIGHT_TO_LEFT):
        return True
    # As a terminal shows it, and as a model reads it, which sees what a backspace in the next line would erase.
    readings = {unescaped(overstruck(uncoloured(text))), unescaped(text)}
    readings |= {MARKUP.sub("", reading) for reading in readings if "<" in reading}
    readings |= {_TAGS.sub("", reading) for reading in readings if not reading.isascii()}
    return any(word in guessed for guessed in map(as_guessed, readings) for word in marks.words)


def _views(line: str) -> Iterator[str]:
    r"""Yield the line's possible beginnings, which may be behind a moved cursor, a JSON `\n` or a name of JSON."""
    pieces = [line]
    if "\\" in line or "&" in line or "%0" in line:
        ended = [piece for piece in _ESCAPED_END.sub("\n", unescaped(line)).splitlines() if piece.strip()]
        pieces += ended
        pieces += [f"{above} {below}" for above, below in pairwise(ended) if len(above) <= _SPLIT]
    if "<" in line:
        pieces += [behind for piece in pieces for behind in BLOCK_TAG.split(piece)[1:]]
    pieces += [MARKUP.sub("", piece) for piece in pieces if MARKUP.search(piece)]
    if '"' in line or "'" in line:
        pieces += [behind for piece in pieces for behind in _VALUE.split(piece)[1:]]
    if not line.isascii():
        # What they hide, wherever it stands, and what a person reads without them.
        tagged = [piece for piece in pieces if _TAGS.search(piece)]
        pieces += [view for piece in tagged for view in (*_TAGS.findall(piece), _TAGS.sub("", piece))]
    for piece in pieces:
        moved = _CURSOR.split(piece)
        for behind in moved if len(moved) == 1 else (piece, *moved):
            yield from _as_shown(behind)


def _as_shown(text: str) -> Iterator[str]:
    plain = overstruck(uncoloured(text))
    yield plain
    if plain != text:  # a model reads what a backspace erases, and what a sequence hides
        yield text
    if any(mark in text for mark in _RIGHT_TO_LEFT):
        yield from (plain[::-1], plain[::-1].translate(_MIRRORED))


def _readings(view: str, marks: _Marks) -> Iterator[tuple[str, _Marks]]:
    """Yield the view and the headings in forms to compare: as it is and, if it has any, with letters for digits."""
    seen = as_seen(view)
    yield seen, marks
    if _DIGITS.search(seen, 0, _HEAD):
        yield with_letters(seen), _Marks(*marks.lettered)


def _is_ours(view: str, marks: _Marks) -> bool:
    return any(_reads_as_ours(reading, known) for reading, known in _readings(behind_program(view), marks))


def _reads_as_ours(view: str, marks: _Marks, *, said: bool = False) -> bool:
    if _ANYWHERE.search(view):
        return True
    plain, bare = _heads(view)
    if _BRACKET.match(plain) or (marks.signs and plain.startswith(marks.signs)):
        return True
    if TITLE.match(bare) or any(_begins(each, marks.headings) for each in (plain, bare)):
        return True
    speaker = None if said else SPEAKER.match(bare)
    if speaker and any(_reads_as_ours(part, marks, said=True) for part in _STOP.split(bare[speaker.end() :], 8)):
        return True
    joined = _JOINT.sub("", bare)
    if any(mark.endswith(":") and joined.startswith(mark) for mark in marks.spaced):
        return True  # "NEXT-STEPS:", "next_steps:"
    apart = _BETWEEN.sub("", bare) if _SPACED.match(bare) else ""
    return apart.startswith(("feedback", "tellback")) or _begins(apart, marks.spaced)


def _heads(view: str) -> tuple[str, str]:
    """Return the line's beginning without decoration, and without numbers and signs of lists before its first word."""
    head = " ".join(view[: 2 * _HEAD].split())[:_HEAD]
    decoration = _DECORATION.match(head)
    plain = head[decoration.end() if decoration else 0 :]
    before = _NO_LETTERS.match(plain)
    return plain, plain[before.end() if before else 0 :]


def _begins(line: str, headings: Sequence[str]) -> bool:
    for heading in headings:
        if line.startswith(heading.rstrip(": ")):
            rest = line[len(heading.rstrip(": ")) :].strip(" *_`~")
            # "Next steps for the team are" is somebody else's sentence.
            if not heading.endswith(":") or not rest[:1].isalnum() or rest.endswith(":") or "tellback" in rest:
                return True
    return False
