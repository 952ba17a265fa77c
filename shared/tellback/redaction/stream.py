"""A stream without its secrets, in bounded memory: `tellback redact`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from typing import Final

from tellback.redaction.blocks import RULE as PRIVATE_KEY
from tellback.redaction.blocks import KeyBlocks, body_before
from tellback.redaction.redactor import Redactor, marker

MAX_LINE_CHARS: Final = 1 << 20  # of a line that is held until it ends
OVERLAP_CHARS: Final = 8 << 10  # of a longer line that is searched again with what follows


class Filter:
    """Takes a stream in chunks and gives it back, whole lines at a time; `counts` are hidden lines by rule."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        """Take what knows the secrets; without it, the rules alone."""
        self.counts: Counter[str] = Counter()
        self.lines = 0
        self._redactor = redactor or Redactor()
        self._blocks = KeyBlocks()
        self._held = ""  # lines that a key may end behind, and the beginning of the line that is to come
        self._long = False  # the present line is longer than is held, and its beginning has gone out
        self._hiding = False  # the rest of that line is not shown

    def feed(self, chunks: Iterable[str]) -> Generator[str]:
        """What may be shown of `chunks`, as soon as that is known."""
        for chunk in chunks:
            self._held += chunk
            if self._long:
                yield self._go_on()
            yield self._whole_lines()
            if len(self._held) > MAX_LINE_CHARS:
                yield self._begin_long()
        yield self._end()

    def _whole_lines(self) -> str:
        end = self._held.rfind("\n") + 1
        if self._long or not end:
            return ""
        lines = self._held[:end].split("\n")[:-1]
        keep = len(lines) if self._blocks.inside else body_before(lines, len(lines))
        shown = self._show(lines[:keep])
        self._held = "".join(f"{line}\n" for line in lines[keep:]) + self._held[end:]
        return shown

    def _show(self, lines: list[str], end: str = "\n") -> str:
        if not lines:
            return ""
        self.lines += len(lines)
        text = "\n".join(lines)
        hidden = self._redactor.hidden(text, self._blocks)
        self.counts.update(hidden.values())
        if not hidden:
            return text + end
        return "\n".join(marker(hidden[n]) if n in hidden else line for n, line in enumerate(lines)) + end

    def _begin_long(self) -> str:
        """The beginning of a line that is too long to be held; lines held before it go out too."""
        whole, newline, self._held = self._held.rpartition("\n")
        shown = self._show(whole.split("\n")) if newline else ""
        self._long, self._hiding = True, self._blocks.inside
        self._blocks.leave()
        self.lines += 1
        if self._hiding:
            self._hide(PRIVATE_KEY)
            return shown + marker(PRIVATE_KEY)
        return shown + self._part(final=False)

    def _go_on(self) -> str:
        """More of the long line, up to its end if that has come."""
        line, newline, rest = self._held.partition("\n")
        self._held = line
        shown = "" if self._hiding else self._part(final=bool(newline))
        if newline:
            self._held, self._long, self._hiding = rest, False, False
            return shown + "\n"
        if self._hiding:
            self._held = ""
        return shown

    def _part(self, *, final: bool) -> str:
        if rule := self._redactor.rule_of(self._held):
            self._hide(rule)
            return marker(rule)
        keep = 0 if final else OVERLAP_CHARS
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown

    def _hide(self, rule: str) -> None:
        self.counts[rule] += 1
        self._hiding, self._held = True, ""

    def _end(self) -> str:
        if self._long:
            return "" if self._hiding else self._part(final=True)
        if not self._held:
            return ""
        lines = self._held.split("\n")
        newline = "\n" if not lines[-1] else ""
        return self._show(lines[:-1] if newline else lines, newline)
