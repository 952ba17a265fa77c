"""Redaction of a stream in bounded memory, for `tellback redact`.

Output is whole lines. Lines are held back while they may turn out to belong to a private key, and an unfinished line is
held up to `MAX_LINE_CHARS`. In a longer line, text before a secret may have been written already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from typing import Final

from tellback.redaction.private_keys import MAX_LINES, PrivateKeyTracker, key_start_before
from tellback.redaction.private_keys import RULE as PRIVATE_KEY
from tellback.redaction.redactor import Redactor, marker

MAX_LINE_CHARS: Final = 1 << 20  # of a line that is held until it ends
OVERLAP_CHARS: Final = 8 << 10  # kept back of a longer line: a secret may continue in the next chunk


class StreamRedactor:
    """Redacts a stream that arrives in chunks, whole lines at a time; `counts` has the hidden lines by rule."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.lines = 0
        self._redactor = redactor or Redactor()
        self._blocks = PrivateKeyTracker()
        self._held = ""  # lines that may belong to a key, then the start of an unfinished line
        self._long = False  # the current line is longer than the limit, and its start has gone out
        self._hiding = False  # the rest of that line is hidden

    def feed(self, chunks: Iterable[str]) -> Generator[str]:
        """Yield the redacted text of `chunks` as soon as it is certain."""
        for chunk in chunks:
            self._held += chunk
            if self._long:
                yield self._continue_long_line()
            yield self._whole_lines()
            if len(self._held) > MAX_LINE_CHARS:
                yield self._start_long_line()
        yield self._finish_line()

    def _whole_lines(self) -> str:
        end = self._held.rfind("\n") + 1
        if self._long or not end:
            return ""
        if not self._blocks.inside:
            end = self._start_of_key(end)
        shown = self._release_lines(self._held[:end])
        self._held = self._held[end:]
        return shown

    def _start_of_key(self, end: int) -> int:
        """Return where a key may begin to which the last lines before `end` may belong; nearly always, `end`."""
        lines = self._held[: end - 1].rsplit("\n", 1)
        if (start := key_start_before(lines, len(lines))) < len(lines):
            lines = self._held[: end - 1].rsplit("\n", MAX_LINES)
            start = key_start_before(lines, len(lines))
        return end - sum(len(line) + 1 for line in lines[start:])

    def _release_lines(self, lines: str) -> str:
        """Return whole lines, redacted; the last of a stream may have no end."""
        if not lines:
            return ""
        text = lines.removesuffix("\n")
        self.lines += text.count("\n") + 1
        hidden = self._redactor.hidden_lines(text, self._blocks)
        if not hidden:
            return lines
        self.counts.update(hidden.values())
        shown = (marker(hidden[n]) if n in hidden else line for n, line in enumerate(text.split("\n")))
        return "\n".join(shown) + lines[len(text) :]

    def _start_long_line(self) -> str:
        """Return the start of a line that is too long to hold, after the lines held before it."""
        whole, newline, self._held = self._held.rpartition("\n")
        shown = self._release_lines(whole + newline)
        self._long, self._hiding = True, self._blocks.inside
        self._blocks.reset()
        self.lines += 1
        if self._hiding:
            self._count_hidden(PRIVATE_KEY)
            return shown + marker(PRIVATE_KEY)
        return shown + self._redact_part(final=False)

    def _continue_long_line(self) -> str:
        """Return more of the long line, up to its end if that has arrived."""
        line, newline, rest = self._held.partition("\n")
        self._held = line
        shown = "" if self._hiding else self._redact_part(final=bool(newline))
        if newline:
            self._held, self._long, self._hiding = rest, False, False
            return shown + "\n"
        if self._hiding:
            self._held = ""
        return shown

    def _redact_part(self, *, final: bool) -> str:
        if rule := self._redactor.rule_of(self._held):
            self._count_hidden(rule)
            return marker(rule)
        keep = 0 if final else OVERLAP_CHARS
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown

    def _count_hidden(self, rule: str) -> None:
        self.counts[rule] += 1
        self._hiding, self._held = True, ""

    def _finish_line(self) -> str:
        if self._long:
            return "" if self._hiding else self._redact_part(final=True)
        if not self._held:
            return ""
        return self._release_lines(self._held)
