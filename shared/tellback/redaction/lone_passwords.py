"""Random passwords that stand alone: the only such word in a line that speaks of a password or a login.

They are shorter than tokens, so more is asked of them: letters of both cases and a digit, few of one kind in a row, and
no part of a name of an algorithm, a version or a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.lone_tokens import name_before, names_id
from tellback.redaction.substrings import Located, fold_ascii, located
from tellback.redaction.values import CHANGES, seems_random

_NEAR: Final = 150  # characters
_SHORTEST: Final = 8
_LONGEST: Final = 20
_MOST: Final = 8  # words with a digit; a line of more is a table of such
_OF_LOGINS: Final = ("user", "admin", "root", "account", "auth", "cred", "login", "log in", "logged in", "unlock")
NAMES: Final = ("pass", "pw", *_OF_LOGINS, "crypted with")
_REST: Final = lazy_pattern(
    # Base64 has "pw" by chance: `lcUq/6qJ34IxD3L/DCfX7pw0WwfgHJ`.
    r"w(?<=passw)|phrase|code|(?<![a-z]pass)(?<![a-z0-9+]pw)(?!(?<=/pw)[0-9])(?:d(?<=pwd))?(?![a-z])"
    rf"|(?:{'|'.join(f'(?<={name})' for name in (*_OF_LOGINS, 'crypted with'))})(?!(?<=auth)[a-z])"
)
_WITHIN: Final = b"!@#%^*+_.-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TABLE: Final = bytes(byte if byte in _WITHIN else ord(" ") for byte in range(256))
_KINDS: Final = _TABLE.translate(
    bytes.maketrans(_WITHIN, b"-" * 10 + b"0" * 10 + b"a" * 26 + b"A" * 26)
)  # of their characters
# Within a word: times and counts have none, and prose has no other.
_DIGIT: Final = lazy_pattern(r"0(?:(?=[^ 0])|(?<=[^ 0].))")
# A digit and a capital in one word, which few lines have, and each of these passwords.
_MIXED: Final = lazy_pattern("0[a-]{0,18}A|A[a-]{0,18}0")
_OF_ALL: Final = lazy_pattern("(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])")
_NO_PASSWORD: Final = lazy_pattern(
    # `CVE-2024`, `ISO8601`, a version: at the word's beginning or behind small letters. One in ten random passwords has
    # two capitals and a digit first, or "v5" in it.
    r"(?<![A-Za-z0-9])[A-Z]{2,}(?:[-_.]|(?<=[A-Z]{3}))[0-9]|(?:(?<![A-Za-z0-9])|(?<=[a-z]{3}))[Vv][0-9]"
    r"|[0-9]{4}|[0-9]\.[0-9]|T[0-9]{2}|\A(?:[A-Z]?[a-z]+[0-9]+|[A-Z]+[0-9]+[a-z]?|[A-Z]{2}[0-9]+(?:[A-Z][a-z]{2,})+)\Z"
    r"|\A(?:[-.*?+=#]|0x[0-9A-Fa-f]+\Z|(?:css|jss|sc|svelte)-)|__|\.[a-z]{1,3}\Z"
    r"|(?i:sha|md5|aes|rsa|utf|iso|http|tls|ssl|ipv|win32|java|pass|user|key|a-z|0-9)"
)

# Letters in a row, as words have them, but for a value that changes every four characters.
_LIKE_A_WORD: Final = lazy_pattern("[a-z]{4}|[A-Z]{4}")
# What stands before one in a line about a login, where other such words are ids: parts of addresses, values of other
# names (`"slug":"…"`), or behind a noun (`user …`, `room …`).
_GIVEN: Final = lazy_pattern(
    r"(?i:(?:\b(?:and|with|is|as|to|or|uses?|using|has|then|now|admin|root|login|cred\w{0,7})|[,>|]|[ ][/-])[ ]{1,4}"
    r"|[\w.@-][:|][ ]{0,4}|\b(?:admin|root)[ ]=[ ]|\bcred\w{0,7}\b[^:\n]{0,40}:[ ][\w.@-]{1,40}[ ])[\"'`(]?\Z"
)
_SIGN: Final = lazy_pattern("[!@#%^*+]")
_CHANGING: Final = 4


def places(text: str, folded: str, within: Located, names: Iterable[str]) -> Generator[int]:
    """Yield where such passwords begin in a text with these names; `folded` is it in lower case, as is `within`."""
    if text == folded:
        return
    shapes = text.encode("latin-1", "replace").translate(_KINDS)
    if b"0" not in shapes:
        return
    mixed = shapes.translate(None, b"a-")  # of each word its digits and capitals alone
    if b"A0" not in mixed and b"0A" not in mixed:
        return
    kinds = shapes.decode()
    for name in names:
        place, digit = 0, -1  # which few names in source code have near
        while (place := within.find(name, place, len(text))) >= 0:
            begin, end = max(0, place - _NEAR), place + len(name)
            if digit < begin:
                found = _DIGIT.search(kinds, begin)
                digit = len(text) + _NEAR if found is None else found.start()
            place = max(end, digit - _NEAR - _LONGEST)  # the next name with a digit near
            if digit < end + _NEAR and _REST.match(folded, end) is not None:
                first = max(text.rfind("\n", begin, end) + 1, begin)
                last = text.find("\n", end, end + _NEAR)
                place = last = min(len(text), end + _NEAR) if last < 0 else last
                if _MIXED.search(kinds, first, last):
                    found_at = _only_one(text, first, last)
                    yield from (start for start in found_at if name not in _OF_LOGINS or _is_given(text, first, start))


def places_in_line(line: str) -> Generator[int]:
    """Yield where such passwords begin in one line."""
    folded = fold_ascii(line)
    yield from places(line, folded, located(folded), NAMES)


def _is_given(text: str, first: int, start: int) -> bool:
    _, word = name_before(text, first, start)
    return _GIVEN.search(text[first:start]) is not None and not names_id(word)


def _only_one(text: str, first: int, last: int) -> Generator[int]:
    words = text[first:last].encode("latin-1", "replace").translate(_TABLE).split()
    found = [word for word in words if _SHORTEST <= len(word) <= _LONGEST and not (word.islower() or word.isalpha())]
    line = text[first:last]
    if not found or len(found) > _MOST or "arn:" in line or "ENC[" in line:
        return
    candidates = [word for word in (word.decode().rstrip(".") for word in found) if _may_be(word)]
    places = [first + line.find(word) for word in candidates if not _is_called(word, line)]
    random = [place for place in places if seems_random(text, place)]
    if len(random) == 1 and not _follows_id(text, first, random[0]):
        yield random[0]


def _is_called(word: str, line: str) -> bool:
    return f"{word}(" in line and word.replace(".", "_").isidentifier()


def _follows_id(text: str, first: int, start: int) -> bool:
    joined, word = name_before(text, first, start)
    return names_id(word) and (not joined or text[start - 1] == "=")


def _may_be(word: str) -> bool:
    if _OF_ALL.match(word) is None or _NO_PASSWORD.search(word) is not None:
        return False
    changes = len(CHANGES.findall(word)) + len(_SIGN.findall(word))
    return _LIKE_A_WORD.search(word) is None or changes * _CHANGING >= len(word)
