"""Pass phrases as people make them of words: `Orbit.Velvet.Canyon`, `orbit-velvet-canyon-lantern`, `OrbitVelvet12!`.

None of them is random, so they are searched for once more as if they were, by the rules of passwords alone: the name of
a password beside them, above their column, or the program that takes one tells them from other words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction import made_passwords
from tellback.redaction.substrings import Located

# Within a phrase. One for each sign, since `re` skips to a fixed one seven times as fast as to one of two.
_WITHIN: Final = (
    lazy_pattern(r"\.[A-Z](?<=[a-z]..)[a-z]{3,9}\.[A-Z]"),
    lazy_pattern(r"-(?<=[a-z]{2}.)(?:[a-z][a-z]{2,9}+-[a-z]{3,10}+-[a-z]{3}|[0-9][0-9]{1,3}(?![\w-]))"),
    lazy_pattern(r"!(?![\w-])(?:(?<=[a-z][0-9]{2}!)|(?<=[a-z][0-9]{3}!)|(?<=[a-z][0-9]{4}!))"),
)
_TITLED: Final = r"[A-Z][a-z]{3,9}(?:\.[A-Z][a-z]{3,9}){2,4}"
_HYPHENED: Final = r"[a-z]{3,10}(?:-[a-z]{3,10}){3,7}"
_NUMBERED: Final = r"[a-z]{3,10}(?:-[a-z]{3,10}){1,3}-[0-9]{2,4}|(?:[A-Z][a-z]{2,9}){2,4}[0-9]{2,4}!"
_PHRASE: Final = f"(?:{_TITLED}|{_HYPHENED})"
# No call, path, attribute or name of a field.
_VALUE: Final = lazy_pattern(
    rf"(?<![\w./@$-])(?:{_NUMBERED}|{_PHRASE})(?![\w/(\[@-]|\.\w|[\"']?[ ]?[:=](?![=:])|[.:]{{2}})"
)
_OF_SECRETS: Final = ("passw", "token", "secret", "login", "-key", "-sha-")  # in a label; `scram-sha-256`
# A type: `PasswordHasher: Shop.Domain.Hashing`.
_TYPE_BEFORE: Final = lazy_pattern(r"(?:ord|wd|hrase)[A-Z]?[a-z]\w{0,30}[\"']?[ ]?[:=][ ]?[\"']?$")
_LONGEST: Final = 60  # characters of a name
_RANDOM: Final = "xK7dQ2mZ9vR4tW6bY3nH8jL5pC1gF0sX" * 3
# In a column of passwords, a value that has letters of both cases and a digit need not be random either.
_PASSWORD: Final = lazy_pattern(
    rf"{_PHRASE}|[a-z]{{3,10}}(?:-[a-z]{{3,10}}){{1,3}}-[0-9]{{1,4}}"
    r"|(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[\w!@#%^&*+=?.-]{8,40}"
)


def randomised(text: str, folded: str, within: Located) -> tuple[str, list[tuple[int, int]], list[int]]:
    """Return the text with random characters for each phrase, where these stand, and where words with a number do.

    `folded` is the text in lower case, as is `within`.
    """
    made = list(made_passwords.spans(text, folded, within))
    places = _apart([*_places(text), *made])
    parts: list[str] = []
    end = 0
    for start, until in places:
        parts += text[end:start], _RANDOM[: until - start]
        end = until
    return "".join((*parts, text[end:])), places, [start for start, _ in made]


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts in order, without those that begin within another."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if not found or start >= found[-1][1]:
            found.append((start, end))
    return found


def _places(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    tried = -1
    for place in sorted(match.start() for sign in _WITHIN for match in sign.finditer(text)):
        start = place
        while start > tried and start and (text[start - 1].isalnum() or text[start - 1] in "-."):
            start -= 1
        # In the same word as the sign before, it was tried already.
        phrase = _VALUE.match(text, start) if start > tried else None
        tried = place
        if phrase is None or any(word in phrase[0] for word in _OF_SECRETS):
            continue
        if not _TYPE_BEFORE.search(text, max(0, phrase.start() - _LONGEST), phrase.start()):
            found.append(phrase.span())
    return found


def may_be_password(cell: str) -> bool:
    """Return whether what stands in a column of passwords may be one."""
    return _PASSWORD.fullmatch(cell) is not None
