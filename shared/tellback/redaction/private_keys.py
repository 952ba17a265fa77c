"""Private keys of many lines: PKCS#1, PKCS#8, OpenSSH, PGP, and keys that OpenVPN shares.

From the BEGIN line of a private key on, every line that can be part of it is hidden. Each line is decided by itself,
without looking ahead: a stream whose key never ends need not be held back, and text after a truncated key stays
visible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.escapes import without_escapes

if TYPE_CHECKING:
    from tellback.redaction.codes import CodeList
    from tellback.redaction.columns import Table
    from tellback.redaction.substrings import Searchable

RULE: Final = "private-key"

MAX_LINES: Final = 2_000  # of one key; of a longer one (a PGP key with pictures) the rest is not hidden

# "PRIVATE KEY" in base64 of a file, which has three places for a byte.
_WITHIN_FILES: Final = ("UFJJVkFURSBLRV", "BSSVZBVEUgS0VZ", "QUklWQVRFIEtF")
# Base64 of PEM and PGP, of SSH2, of PuTTY's files, and of base64 of a PEM, as secrets of Kubernetes hold it.
_ENCODED_MARKS: Final = (
    *("LS0tLS1CRUdJTi", "LS0tLSBCRUdJTi", "UHVUVFktVXNlci1L", "TFMwdExTMUNSVWRKVGl"),
    *_WITHIN_FILES,
)

_NAMED: Final = ("PRIVATE KEY", "OpenVPN Static key")  # between BEGIN and END

MARKS: Final = (*_NAMED, "Private-Lines: ", *_ENCODED_MARKS)
"""A key of many lines begins or ends in a line with one of these: PEM and PGP, PuTTY's files, base64 of them."""

# The file says how many lines follow: a count that is wrong, or forged, must not hide the rest of a log.
_MAX_PUTTY_LINES: Final = 200

# Longer text before BEGIN is not the margin of a listing, a log or a diff, which each line of the key repeats.
_MAX_MARGIN: Final = 200

_BEGIN: Final = lazy_pattern(r"(?:-{4,5} ?)?BEGIN (?:[A-Z0-9 ]{0,40}PRIVATE KEY|OpenVPN Static key)")

_END: Final = lazy_pattern(r"END (?:[A-Z0-9 ]{0,40}PRIVATE KEY|OpenVPN Static key)")

_PUTTY: Final = lazy_pattern(r"Private-Lines: (\d{1,4})")

# The first line of base64 that is wrapped, as `base64` and mail do at 76: with more on the line, it is all on this one.
_ENCODED: Final = lazy_pattern(
    r"(?:LS0tLS1CRUdJTi(?:BQUklW|BSU0Eg|BFQyBQ|BPUEVOU1NI|BFTkNSWVBU|BEU0Eg|BQR1AgUFJJ)|LS0tLSBCRUdJTiBTU0gy"
    rf"|UHVUVFktVXNlci1LZXktRmls|TFMwdExTMUNSVWRKVGl|(?<![0-9A-Za-z+/])[0-9A-Za-z+/]{{0,90}}(?:{'|'.join(_WITHIN_FILES)}))"
    r"[0-9A-Za-z+/]{0,90}\s{0,4}$"
)

_ENCODED_BODY: Final = lazy_pattern(r"[\s>|\"'+-]{0,40}+([0-9A-Za-z+/]{1,120})={0,2}[\"']?\s{0,4}")

_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789 "))  # nor the spaces that align them

# A line of a key may be indented, quoted, or stand behind the margin of a listing, a log or a diff. `_REST` is the end
# of a line, also as source code has it, such as `\n",`.
_REST: Final = (
    r"""={0,3}(?:\\[nr]){0,2}["']?"""
    r"""(?:(?<="),[ ]?"[\w.@-]{1,40}":[^\n]{0,400})?[,;+\\ \t\r|}]{0,4}"""  # more fields of a line of JSON
)

_BODY: Final = lazy_pattern(
    rf"""[\s>|"'+\d:.,TZ-]{{0,40}}[0-9A-Za-z+/]{{0,100000}}+{_REST}"""
    rf"""|[\s>|"'+-]{{0,40}}+=[0-9A-Za-z+/]{{4}}{_REST}"""  # the checksum of PGP
    rf"""|[^\n]{{0,80}}?[\s>|"'+:,-][0-9A-Za-z+/]{{32,200}}+{_REST}"""
    r"""|[\s>|"'+-]{0,40}+(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID|X-[\w-]{1,30}):[^\n]{0,200}"""
)

# A whole line of a key, recognized without its context: base64 of 40 characters and more, since PEM has 64 in a line
# and the last line is shorter, with a digit, `+`, `/` or `=`, which a long word or a rule of letters lacks.
_PURE: Final = lazy_pattern(rf"""[\s>|"'+-]{{0,40}}+(?=[A-Za-z]{{0,100}}+[+/0-9=])[0-9A-Za-z+/]{{40,100}}+{_REST}""")

# The line before END, which may have as few as two characters. It counts only beside such a whole line.
_LAST: Final = lazy_pattern(rf"""[\s>|"'+-]{{0,40}}+=?[0-9A-Za-z+/]{{2,100}}+{_REST}""")


class PrivateKeyTracker:
    """Tracks private keys through the lines of one stream."""

    __slots__ = ("_counted", "_lines", "_margin", "_width", "codes", "empty", "recent", "table", "within")

    def __init__(self) -> None:
        self._lines = 0
        self._margin = ""  # before the key's first line, as `docker logs`, journald and `grep -n` put one before each
        self._counted = 0  # lines that a PuTTY file says are the key
        self._width = 0  # of the lines of wrapped base64; -1 before the first of them
        self.recent = ""
        """The last lines, which may name a value in the next."""
        self.empty = 0
        """The number of last characters that belong to texts in which no rule can match."""
        self.table: Table | None = None
        """The table with a column of secrets that the last line belongs to."""
        self.codes: CodeList | None = None
        """The list of recovery codes that the next line may continue."""
        self.within: PrivateKeyTracker | None = None
        """The tracker of the same lines without their margins."""

    @property
    def inside(self) -> bool:
        """True while a key has begun and not ended, so the next line may belong to it."""
        return self._lines > 0

    @property
    def continues(self) -> bool:
        """True while a table or a list of codes has begun and not ended."""
        return self.table is not None or self.codes is not None

    def consume_line(self, line: str) -> bool:
        """Process the next line of the stream; return whether it belongs to a private key."""
        if marks_key(line) and (found := self._consume_mark(line)) is not None:
            return found
        if not self._lines:
            return False
        self._lines += 1
        if self._lines <= MAX_LINES and self._is_body(line):
            return True
        self.reset()
        return False

    def _consume_mark(self, line: str) -> bool | None:
        """Begin or end a key; return whether the line belongs to it, or None if it does neither."""
        if any(mark in line for mark in _NAMED):
            begin = _last_match(_BEGIN, line) if "BEGIN " in line else -1
            end = _last_match(_END, line) if "END " in line else -1
            self.reset()
            if begin > end:
                self._lines = 1
                self._keep_margin(line[:begin])
            return begin >= 0 or end >= 0
        if putty := _PUTTY.search(line):
            self._lines, self._counted = 1, min(int(putty[1]), _MAX_PUTTY_LINES)
            return False
        if self._width <= 0 and (encoded := _ENCODED.search(line)):  # the end of a key has the same words
            self.reset()
            self._lines, self._width = 1, -1
            self._keep_margin(line[: encoded.start()])
            return True
        return None

    def _keep_margin(self, margin: str) -> None:
        self._margin = margin if margin.strip() and len(margin) <= _MAX_MARGIN else ""

    def _is_body(self, line: str) -> bool:
        if self._counted:
            self._counted -= 1
            if not self._counted:
                self.reset()
            return True
        if self._width:
            return self._is_encoded_body(line)
        return is_key_body(line) or (bool(self._margin) and is_key_body(self._without_margin(line)))

    def _is_encoded_body(self, line: str) -> bool:
        """Return whether the line continues wrapped base64, whose last line is shorter than the others."""
        body = _ENCODED_BODY.fullmatch(line) or _ENCODED_BODY.fullmatch(self._without_margin(line))
        if body is None:
            return False
        size, width = len(body[1]), self._width
        if size < max(width, 40):
            self.reset()
            return width > 0  # no key ends in its second line
        self._width = size
        return width in {-1, size}

    def _without_margin(self, line: str) -> str:
        """Return the line without the margin of the key's first line, in which numbers and times advance."""
        shape = self._margin.translate(_NO_DIGITS)
        if line.translate(_NO_DIGITS).rstrip() == shape.rstrip():
            return ""
        size = len(self._margin)
        for end in (size, size + 1, size - 1, size + 2, size - 2):
            if line[:end].translate(_NO_DIGITS) == shape:
                return line[end:]
        return line

    @staticmethod
    def ends_key(line: str) -> bool:
        """Return whether a key ends in this line and none begins after it."""
        return any(mark in line for mark in _NAMED) and _last_match(_END, line) >= 0 > _last_match(_BEGIN, line)

    def copy(self) -> PrivateKeyTracker:
        """Return an independent tracker in the same state."""
        copy = PrivateKeyTracker()
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy

    def reset(self) -> None:
        """Forget the key, for when the next line does not follow the last one."""
        self._lines = self._counted = self._width = 0
        self._margin = ""


def marks_key(text: Searchable) -> bool:
    """Return whether a key may begin or end in the text."""
    for mark in MARKS:  # noqa: SIM110 - `any` takes a short text twice as long
        if mark in text:
            return True
    return False


def is_key_body(line: str) -> bool:
    """Return whether a line can be part of a key that has begun."""
    return _BODY.fullmatch(line) is not None


def is_full_key_line(line: str) -> bool:
    """Return whether a line looks like a full line of a key even without its context."""
    return _PURE.fullmatch(line) is not None


def is_last_key_line(line: str) -> bool:
    """Return whether a line can be the last one of a key, which is shorter than the others."""
    return _LAST.fullmatch(line) is not None


def key_start_before(lines: Sequence[str], end: int) -> int:
    """Return the first line of the key that ends at line `end`, where its BEGIN line is missing."""
    if end < len(lines) and _BEGIN.search(lines[end]):
        return end  # all of the key is in this line
    start = end
    while start > 0 and end - start < MAX_LINES:
        line = without_escapes(lines[start - 1])
        if not (is_full_key_line(line) or (start == end and is_last_key_line(line))):
            break
        start -= 1
    return start


def _last_match(pattern: re.Pattern[str], line: str) -> int:
    return max((match.start() for match in pattern.finditer(line)), default=-1)
