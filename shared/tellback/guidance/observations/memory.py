"""What was tried in an evaluation, so that no suggestion repeats it. Bounded, and JSON for who keeps it elsewhere.

Source: actionable-feedback, "Key Insight: Context Awareness" and its third open question.
"""

from __future__ import annotations

from typing import Any, Final, Self

import msgspec

from tellback.contracts.guidance import Code, Offer

ATTEMPTS_MAX: Final = 256
TOOLS_MAX: Final = 64
HELD_MAX: Final = 8
WORDS_MAX: Final = 96
IGNORED_ENOUGH: Final = 2


class Held(msgspec.Struct, frozen=True):
    """A result in hand: which tool gave it, and for what it was asked."""

    tool: str
    query: str = ""


class Cooling(msgspec.Struct, frozen=True):
    """A tool that asked to be left alone: since which call, and until when (seconds since the epoch) if it said so."""

    call: int
    until: float | None = None


class ObservationMemory(msgspec.Struct):
    """The tried attempts, what they gave, and what was offered. Not safe across threads: its observer locks.

    `failed` and `succeeded` count by the attempt's fingerprint; `worked` has the names of the arguments with which a
    tool has worked; `last` is how each tool's last call ended; `ignored` counts, by their keys, suggestions
    that were not taken up.
    """

    calls: int = 0
    failed: dict[str, int] = {}
    succeeded: dict[str, int] = {}
    worked: dict[str, list[str]] = {}
    last: dict[str, Code] = {}
    failed_at: dict[str, int] = {}
    succeeded_at: int = 0
    cooling: dict[str, Cooling] = {}
    held: list[Held] = []
    carried: list[str] = []
    offered: dict[str, Offer] = {}
    ignored: dict[str, int] = {}
    refusals: int = 0

    def to_bytes(self) -> bytes:
        """As JSON of a few tens of kilobytes at most."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """What `to_bytes` gave; an empty memory for what is none, since a broken file must not break the agent."""
        try:
            return msgspec.json.decode(raw, type=cls)
        except (msgspec.DecodeError, ValueError):
            return cls()

    def called(self, tool: str, attempt: str) -> None:
        """A call has come: offers that it does not take up were ignored."""
        self.calls += 1
        for key, offer in self.offered.items():
            if taken(offer, tool, attempt):
                self.ignored.pop(key, None)
            else:
                _count(self.ignored, key, ATTEMPTS_MAX)
        self.offered = {}

    def ended(self, tool: str, attempt: str, code: Code, arguments: list[str], held: Held | None) -> None:
        """How it ended."""
        self.last.pop(tool, None)
        self.last[tool] = code
        _bound(self.last, TOOLS_MAX)
        if code in ("ok", "partial"):
            self.failed.pop(attempt, None)
            _count(self.succeeded, attempt, ATTEMPTS_MAX)
            self.worked.pop(tool, None)
            self.worked[tool] = arguments[:32]
            _bound(self.worked, TOOLS_MAX)
            self.cooling.pop(tool, None)
            self.succeeded_at = self.calls
        else:
            _count(self.failed, attempt, ATTEMPTS_MAX)
            self.failed_at.pop(tool, None)
            self.failed_at[tool] = self.calls
            _bound(self.failed_at, TOOLS_MAX)
        if held is not None and held not in self.held:
            self.held = [*self.held, held][-HELD_MAX:]

    def cools(self, tool: str, until: float | None) -> None:
        """A tool has asked to be left alone."""
        self.cooling.pop(tool, None)
        self.cooling[tool] = Cooling(self.calls, until)
        _bound(self.cooling, TOOLS_MAX)

    def mentions(self, stems: set[str]) -> None:
        """Results have mentioned these words of the question."""
        self.carried = sorted({*self.carried, *stems})[:WORDS_MAX]

    def tired_of(self, key: str) -> bool:
        """Whether what has this key was ignored twice already."""
        return self.ignored.get(key, 0) >= IGNORED_ENOUGH


def taken(offer: Offer, tool: str, attempt: str) -> bool:
    """Whether a call is what was offered: this call exactly, or this tool where any arguments would do."""
    return offer.arguments == attempt if offer.arguments is not None else offer.tool == tool


def _count(counts: dict[str, int], key: str, limit: int) -> None:
    counts[key] = counts.pop(key, 0) + 1
    _bound(counts, limit)


def _bound(entries: dict[str, Any], limit: int) -> None:
    while len(entries) > limit:
        del entries[next(iter(entries))]
