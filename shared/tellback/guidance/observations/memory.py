"""Remember what was tried and suggested in an evaluation, so no suggestion repeats it.

The memory is bounded, and JSON for a host that continues in another process. `ToolHealthSource` adds which tools cool
down across the fleet. Requirements G-62 and G-67.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, Self

import msgspec

from tellback.contracts.guidance import Offer, OutcomeCode

# Caps of each table; the oldest entry goes first. Together they keep `to_bytes` at a few tens of kilobytes.
ATTEMPTS_MAX: Final = 256
TOOLS_MAX: Final = 64
HELD_MAX: Final = 8
WORDS_MAX: Final = 96
# Once may be chance; a suggestion ignored twice is not repeated (G-67).
IGNORED_MAX: Final = 2


class HeldResult(msgspec.Struct, frozen=True):
    """A result in hand: the tool and its query."""

    tool: str
    query: str = ""


class ToolCooldown(msgspec.Struct, frozen=True):
    """A tool's cool-down: the call that began it, and its end in seconds since the epoch, if the tool gave one."""

    call: int
    until: float | None = None


class ObservationMemory(msgspec.Struct):
    """The attempts of an evaluation, their outcomes, and what was suggested. Not thread-safe: its observer locks.

    `failed` and `succeeded` count by the attempt's fingerprint. `worked` has the names of the arguments with which a
    tool has worked. `last` has the code of each tool's last call. `carried` has the question's stems that results have
    mentioned. `ignored` counts suggestions that were not followed, by key.
    """

    calls: int = 0
    failed: dict[str, int] = {}
    succeeded: dict[str, int] = {}
    worked: dict[str, list[str]] = {}
    last: dict[str, OutcomeCode] = {}
    failed_at: dict[str, int] = {}
    succeeded_at: int = 0
    cooling: dict[str, ToolCooldown] = {}
    held: list[HeldResult] = []
    carried: list[str] = []
    offered: dict[str, Offer] = {}
    ignored: dict[str, int] = {}
    refusals: int = 0

    def to_bytes(self) -> bytes:
        """Encode as JSON of a few tens of kilobytes at most."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Decode the result of `to_bytes`; return an empty memory if it is broken, as that must not stop the agent."""
        try:
            return msgspec.json.decode(raw, type=cls)
        except (msgspec.DecodeError, ValueError):
            return cls()

    def note_call(self, tool: str, attempt: str) -> None:
        """Count a call; the suggestions before it that it does not follow were ignored."""
        self.calls += 1
        for key, offer in self.offered.items():
            if is_taken_up(offer, tool, attempt):
                self.ignored.pop(key, None)
            else:
                _count_bounded(self.ignored, key)
        self.offered = {}

    def note_outcome(
        self, tool: str, attempt: str, code: OutcomeCode, arguments: list[str], held: HeldResult | None
    ) -> None:
        """Record the outcome of a call."""
        _put_last(self.last, tool, code)
        if code in ("ok", "partial"):
            self.failed.pop(attempt, None)
            _count_bounded(self.succeeded, attempt)
            _put_last(self.worked, tool, arguments[:32])
            self.cooling.pop(tool, None)
            self.succeeded_at = self.calls
        elif code != "cancelled":
            _count_bounded(self.failed, attempt)
            _put_last(self.failed_at, tool, self.calls)
        if held is not None and held not in self.held:
            self.held = [*self.held, held][-HELD_MAX:]

    def note_cooldown(self, tool: str, until: float | None) -> None:
        """Record that a tool cools down."""
        _put_last(self.cooling, tool, ToolCooldown(self.calls, until))

    def note_mentions(self, stems: set[str]) -> None:
        """Record that results have mentioned these stems of the question."""
        self.carried = sorted({*self.carried, *stems})[:WORDS_MAX]

    def is_ignored(self, key: str) -> bool:
        """Check whether the suggestion with this key was ignored too often."""
        return self.ignored.get(key, 0) >= IGNORED_MAX


def is_taken_up(offer: Offer, tool: str, attempt: str) -> bool:
    """Check whether a call follows an offer: exactly this call, or the tool if the offer has no arguments."""
    return offer.arguments == attempt if offer.arguments is not None else offer.tool == tool


def _count_bounded(counts: dict[str, int], key: str) -> None:
    _put_last(counts, key, counts.get(key, 0) + 1, ATTEMPTS_MAX)


def _put_last(entries: dict[str, Any], key: str, value: object, limit: int = TOOLS_MAX) -> None:
    """Set an entry and drop the oldest ones beyond the limit; the order is that of use."""
    entries.pop(key, None)
    entries[key] = value
    while len(entries) > limit:
        del entries[next(iter(entries))]


class ToolHealthSource(Protocol):
    """Reports which tools cool down for the whole fleet."""

    def cooling(self, tools: Sequence[str]) -> Mapping[str, float]:
        """Return those of `tools` that cool down, with the seconds left; never blocks for long, empty if unknown."""
        ...


class NoToolHealth:
    """The source without Redis: no tool cools down."""

    def cooling(self, tools: Sequence[str]) -> Mapping[str, float]:  # noqa: ARG002 - the protocol's form
        """Return nothing."""
        return {}
