"""Signals collected while an agent works, and submitted once when its session ends.

Source: feedback-signals, "When to Submit Signals": batch at session end.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final, Self

import msgspec

from tellback.client.signalling import Signalling
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import SignalItem, SignalType
from tellback.errors import SpoolFull, StateConflict
from tellback.signals.validation import check_items, check_name

MOST_SIGNALS: Final = 10_000
MOST_CHARACTERS: Final = 8 << 20  # of queries and remarks


class SignalSession:
    """Collects signals, and submits them once, when its `with` block ends: also when that raises.

    What an agent used before it failed was used all the same. Each signal is checked when it is collected. Beyond
    10,000 signals, or 8 MB of their text, what there is goes out at once, and collecting goes on. Safe across threads.
    """

    def __init__(self, signalling: Signalling, session: str) -> None:
        """Take the way out, and the session in whose history the signals are to stand.

        Raises:
            InvalidInput: the session is not text of 1 to 512 characters, or carries a secret.
        """
        self.session: Final = check_name(session, "session")
        self._signalling = signalling
        self._guard = threading.Lock()
        self._items: list[SignalItem] = []
        self._characters = 0
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Submit what was collected; where the block and this both fail, the block's error is raised, with a note."""
        self._ended = True
        try:
            self.submit()
        except SpoolFull as full:
            if error is None:
                raise
            error.add_note(f"tellback: {self.collected} signals of session {self.session} were not submitted: {full}")

    def used(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """The agent's answer used these facts, recalled for `query`. Raises as `add`."""
        self._collect("used", fact_ids, query, confidence, context)

    def ignored(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """The agent saw these facts and did not use them. Raises as `add`."""
        self._collect("ignored", fact_ids, query, confidence, context)

    def helpful(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """A user said that these facts helped. Raises as `add`."""
        self._collect("helpful", fact_ids, query, confidence, context)

    def not_helpful(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """A user said that these facts did not help. Raises as `add`."""
        self._collect("not_helpful", fact_ids, query, confidence, context)

    def add(self, *items: SignalItem) -> None:
        """Collect signals of any type; all of them, or none.

        Raises:
            InvalidInput: one is wrong; the message names its position and field.
            StateConflict: the block has ended.
            SpoolFull: too much is collected, Redis is away, and so is the room on disk.
        """
        if not items:
            return
        check_items(items)
        with self._guard:
            if self._ended:
                raise StateConflict(f"the signals of session {self.session} were submitted: begin another")
            self._items += [
                item if item.signal_id else msgspec.structs.replace(item, signal_id=new_event_id()) for item in items
            ]
            self._characters += sum(len(item.query) + len(item.context or "") for item in items)
            full = len(self._items) >= MOST_SIGNALS or self._characters >= MOST_CHARACTERS
        if full:
            self.submit()

    def submit(self) -> int:
        """Publish what is collected so far; returns how many.

        Raises:
            SpoolFull: Redis is away, and so is the room on disk. All stays collected: submit again, each counts once.
        """
        with self._guard:
            if not self._items:
                return 0
            count = self._signalling.publish(self._items, session=self.session)
            self._items, self._characters = [], 0
            return count

    @property
    def collected(self) -> int:
        """Signals that wait to be submitted."""
        return len(self._items)

    def _collect(
        self, kind: SignalType, fact_ids: tuple[str, ...], query: str, confidence: float, context: str | None
    ) -> None:
        made = (
            SignalItem(fact_id=fact_id, signal_type=kind, query=query, confidence=confidence, context=context)
            for fact_id in fact_ids
        )
        self.add(*made)
