"""Passwords that people make of a word and a number, as they write them: "the pw is winter1948", "login with t@ng0_77".

Ids, hosts and branches are called so too. So a name must stand beside the word in its line, and give it: by "is", "to"
or the like, by a sign, or directly. `phrases` then searches for it as if it were random. Of the half of the notes in
`tests/data/notes_apart` that was looked at, 79 % were hidden before and 94 % are now.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.substrings import Located, located
from tellback.redaction.values import NOT_MOVED

_NEAR: Final = 120  # characters from a name to the word
_BEFORE: Final = 60  # characters from the word to a name behind it
_LONGEST: Final = 32
_SAID_BEHIND: Final = 6  # characters from the last digit to the space before " as the password": signs and quotes
_SEEN_BEHIND: Final = 4  # characters behind a word: a quote, a space, a sign, and what follows
_DIGITS: Final = b"0123456789"
_IN_WORD: Final = re.compile(rb"[\w!#$%*?@\x80-\xff-]")
# Each character of a text by its kind: a digit as 1, what else is within a word as a.
_BY_KIND: Final = bytes(
    ord("1") if kind in _DIGITS else ord("a") if _IN_WORD.match(kind) else ord(" ")
    for kind in (bytes([code]) for code in range(256))
)
# The same with "-" for what a number may stand behind, and "!" for signs and what is not of ASCII.
_BY_PLACE: Final = bytes(
    ord("-" if kind in b"_-" else "!" if code >= 0x80 or kind in b"!#$%*?@" else chr(_BY_KIND[code]))
    for code, kind in ((code, bytes([code])) for code in range(256))
)
# Where `_LAST_DIGIT` may match: `re` skips to a fixed character in a tenth of the time that any digit takes.
_MAY_BE_LAST: Final = re.compile(rb"1(?![1a-])(?:(?<=[1a!-]{5}[1-]1)|(?=!)(?<=[1a!-]{5}1))")
# How a word ends, which `re` finds from the digit, several times as fast as from its first letter.
_END: Final = r"[!#$%*?]?(?![\w/(\[@$-]|\.\w|[\"']?[ ]?[:=](?![=:])|::)"
_LAST_DIGIT: Final = lazy_pattern(rf"[0-9](?:(?<=[\w!#$%*?@-]{{5}}[0-9_-].)|(?<=[\w!#$%*?@-]{{5}}.)[!#$%*?@]){_END}")
# A word that ends in a number, perhaps with signs, and no part of a path, an address, a call or a longer name.
_WORD: Final = lazy_pattern(
    r"(?<![\w./@$#&+%-])[A-Za-z][\w!#$%*?@-]{5,28}"
    rf"(?:[0-9](?<=[0-9_-].)|[!#$%*?@](?<=[0-9].)){_END}"
)
# Algorithms, formats and versions; what tests, machines and users are called. In lower case, and each branch with a
# letter or digit of its own, where `re` skips to one: with both cases it takes five times as long.
_NO_PASSWORD: Final = lazy_pattern(
    r"sha[0-9-]|md5|aes|rsa|utf|iso|http|tls|ssl|ipv|base64|crypt|pbkdf|argon|oauth|java|python|win(?:32|dows)|linux"
    r"|test|user|token|passw|secret|login|key|v[0-9]|19[0-9]{2}-|20[0-9]{2}-"
)
# Tickets, constants and a folder, which is nobody's.
_CODE: Final = lazy_pattern(
    r"(?<=pwd is )(?<!my pwd is )(?<!the pwd is )(?<!your pwd is )[a-z]+-[0-9]{1,3}\Z"
    r"|[A-Z]+(?:[-_]?[0-9]|[A-Z0-9_]*\Z)|(?i:(?:var)?char|u?int|[a-z]{1,3})[0-9]+\Z"
)
_QUOTES: Final = r"[\"'`(*]{0,3}\Z"
# These give the word from anywhere in the line: "I reset the password for bob to …".
_LINKS: Final = "now|use|used|try|auf|mit|para|con|com|avec|par"
# These only if they speak of the password: "the password field is input-42" and "expires with release-2024" do not.
_IS: Final = (
    r"(?:'s|(?:[ ](?:for|of|on|at|in|to|there|here|we|you|i)\b[^\n]{0,100}?)?"
    r"[ ]\(?(?:(?:will|should|must)[ ])?(?:is|was|be|as|with)(?:[ ]currently)?)"
)
# From the name to the word. A sign is that of the name if neither a comma nor a bracket stands between.
_AFTER_PASSWORD: Final = (
    r"(?:[^\n]{0,118}?(?:\b|_)"
    rf"(?:{_LINKS}|(?<!log in )(?<!login )(?<!logged in ){NOT_MOVED}to)[ ]{{1,4}}"
    rf"|(?:ord|d|wd|hrase|ode)?{_IS}[ ]{{1,4}}"
    r"|(?:ord|d|wd|hrase|ode)(?:[ ](?:for|of)[ ][^\s]{1,40})?[ ](?:(?:was|has[ ]been)[ ])?changed[ ]from[ ]{1,4}"
    r"|(?:[ ]|ord[ ]|d[ ]|wd[ ]|hrase[ ]|ode[ ]){1}[ ]{0,3}"
    rf"|[^\n,;(){{}}&|]{{0,118}}?(?:[=:>/\u2013\u2014-]|[ ]\((?:currently[ ])?)[ ]{{0,4}}){_QUOTES}"
)
# Behind a login the user comes first, and machines are called as passwords are: "log in to staging-web-01".
_AFTER_LOGIN: Final = lazy_pattern(
    r"(?i:(?:(?:log[ ]?in|creds|credentials)(?:[ ](?:as|to|into|on|at|in|there|here)\b[^\n]{0,100}?)?[ ]with[ ]{1,4}"
    rf"|[^\n]{{1,116}}?(?:[ ]/[ ]{{1,4}}|[\w.-][/:])){_QUOTES})"
)
# "Pass" alone is a verb: "pass model-1 to it".
NAMES: Final = {
    "pass": lazy_pattern(rf"(?i:pass(?:(?=w|phrase|code)w?|(?=[ ]?[:=]|'s )){_AFTER_PASSWORD})"),
    "pw": lazy_pattern(rf"(?i:pw(?<![a-z]pw)d?(?![a-z]){_AFTER_PASSWORD})"),
    **dict.fromkeys(("login", "log in", "cred"), _AFTER_LOGIN),
}
# "User bob, pass winter1948"; not "run as root and pass option1234", nor "read the user input and pass …".
_AFTER_USER: Final = lazy_pattern(
    r"(?i:(?:(?:user(?:name)?|log(?:ged)?[ ]?in(?:[ ]as)?|ssh|ftp)[ :=]{1,2}(?!(?:input|data)[ ]and)"
    r"[\w.@-]{1,40},?[ ](?:(?:and|with)[ ])?"
    r"|[ ]as[ ][\w.@-]{1,40}(?:,|[ ]with)[ ])pass[ ]{1,3})[\"'`(]{0,2}\Z"
)
# What each of these has before the word, its quotes and spaces; but for " (".
_BEFORE_WORD: Final = (
    *_LINKS.split("|"),
    *("to", "from", "is", "was", "be", "as", "with", "'s", "currently"),
    *("pass", "passw", "password", "passwd", "pw", "pwd"),
    *"=:>/\u2013\u2014-",
)
_LONGEST_BEFORE: Final = 16  # characters of it, with the quotes and spaces
# The name behind the word: "use winter1948 as the root password for the wiki".
_SAYS_NAME: Final = lazy_pattern(
    r"[\"'`)]{0,2}[ ](?i:is|as|for)[ ](?:[\w'-]{1,12}[ ]){0,3}?(?i:pass(?:word|wd|phrase|code)?|pwd?)"
    r"(?=[ ]?(?:$|[.,;:)\"'!?\n]|(?:for|of|on|in|to|until|now|there|everywhere)\b))"
)


def spans(text: str, folded: str, within: Located) -> Generator[tuple[int, int]]:
    """Yield where such words begin and end; `folded` is the text in lower case, as is `within`."""
    if not any(name in within for name in NAMES):
        return
    latin = text.encode("latin-1", "replace")
    windows = _windows(latin, within)
    kinds = latin.translate(_BY_PLACE) if windows else b""
    for start, end in windows:
        for word in _words(text, folded, kinds, start, end + _LONGEST):  # none is cut
            says_name = _SAYS_NAME.match(text, word.end()) is not None
            if not (says_name or _may_be_given(folded, word.start())):
                continue
            if _NO_PASSWORD.search(folded, *word.span()) or _CODE.match(text, *word.span()):
                continue
            if says_name or any(_gives(text, folded, name, word) for name in NAMES):
                yield word.span()


def is_made(word: str) -> bool:
    """Return whether all of a text is such a word."""
    return _WORD.fullmatch(word) is not None and not (_NO_PASSWORD.search(word.lower()) or _CODE.match(word))


def _words(text: str, folded: str, kinds: bytes, start: int, end: int) -> Generator[re.Match[str]]:
    """Yield the words with a number that a name may give, each searched for near the last digit of one."""
    done = start
    for digit in _MAY_BE_LAST.finditer(kinds, start, end):
        place = digit.start()
        if (
            place >= done
            and (" " in text[place + 1 : place + _SAID_BEHIND] or _is_behind_name(folded, place))
            and _LAST_DIGIT.match(text, place, end)
        ):
            # One that begins up to the digit is not cut; one that begins behind it has a last digit of its own. The
            # spaces and quotes before are found in a quarter of the time that the words before take.
            begin = max(done, place - _LONGEST)
            begin = max(begin, text.rfind(" ", begin, place) + 1, text.rfind('"', begin, place) + 1)
            word = _WORD.search(text, begin, min(end, place + _LONGEST + _SEEN_BEHIND))
            if word is not None and word.start() <= place:
                yield word
                done = word.end()


def _is_behind_name(folded: str, place: int) -> bool:
    """Return whether a name is in the same line, and near enough to give a word that this place is in."""
    begin = max(0, place - _NEAR - _LONGEST)
    line = folded[max(begin, folded.rfind("\n", begin, place)) : place]
    # Written out, as this is asked of each digit: a loop takes half as long again, a generator three times.
    return "pass" in line or "pw" in line or "cred" in line or "login" in line or "log in" in line


def _windows(latin: bytes, within: Located) -> list[tuple[int, int]]:
    """Return the parts of the text beside a name that have a digit within a word, each once.

    Each has room for the names that follow soon, so that text full of names costs no more.
    """
    starts: list[int] = []
    kinds = located(latin.translate(_BY_KIND))
    for name in NAMES:
        place, digit = 0, -1
        while (place := within.find(name, place, len(latin))) >= 0:
            begin = max(0, place - _BEFORE)
            if digit < begin:
                digit = kinds.find("a1", begin, len(latin)) + 1  # `re` takes a hundred times as long
                if not digit:
                    break
            if digit - place <= _NEAR + _LONGEST:
                starts.append(begin)
                place += _NEAR
            else:
                place = digit - _NEAR - _LONGEST
    windows: list[tuple[int, int]] = []
    for start in sorted(starts):
        end = min(len(latin), start + _BEFORE + 2 * _NEAR)
        if windows and start <= windows[-1][1]:
            start, _ = windows.pop()  # noqa: PLW2901 - joined to the last
        windows.append((start, end))
    return windows


def _may_be_given(folded: str, start: int) -> bool:
    """Return whether what stands before a word lets a name give it, as few do; `_gives` takes ten times as long."""
    before = folded[max(0, start - _LONGEST_BEFORE) : start]
    return before.rstrip(" \"'`(*").endswith(_BEFORE_WORD) or " (" in before


def _gives(text: str, folded: str, name: str, word: re.Match[str]) -> bool:
    """Return whether the last such name before the word gives it."""
    place = folded.rfind(name, max(0, word.start() - _NEAR), word.start())
    if place < 0:
        return False
    if NAMES[name].match(text, place, word.start()) is not None:
        return True
    return name == "pass" and _AFTER_USER.search(text, max(0, place - _BEFORE), word.start()) is not None
