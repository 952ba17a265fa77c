"""Publishes the signals of one bank, and collects those of a session until it ends (requirement S-62).

`SignalPublisher` checks, redacts, splits into batches and publishes in order; `SignalSession` holds signals in memory
and hands them to it. Each signal gets its id when it is collected or split, so a repeated submission counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from tellback.client.client_context import Admission
from tellback.client.recall import redact_and_truncate
from tellback.contracts.limits import MAX_BATCH_SIGNALS, MAX_CHUNK_BYTES
from tellback.contracts.message import new_event_id, plain_builtin
from tellback.contracts.signal_types import SignalType
from tellback.contracts.signals import SignalBatch, SignalItem
from tellback.errors import StateConflict, Unavailable
from tellback.forks import HasLock
from tellback.messaging.publisher import Publisher
from tellback.signals.validation import check_items, check_name
from tellback.wording import count_phrase

FLUSH_EVERY: Final = 16  # chunks, so that a call of any length holds at most 8 MB in memory

_CACHED_TEXTS: Final = 1_000  # redacted texts of one call: a query comes again with each fact that was recalled for it

Progress = Callable[[int, int], None]
"""A function that is called with the number of signals published so far, and the number of all."""


class SignalPublisher:
    """Checks, redacts and publishes the signals of one bank, in batches."""

    def __init__(self, publisher: Publisher, admission: Admission, bank: str) -> None:
        self._publisher = publisher
        self._admission = admission
        self._bank = bank

    def publish(
        self, items: Iterable[SignalItem], *, session: str | None = None, progress: Progress | None = None
    ) -> int:
        """Publish signals and return their number; see `Bank.signal`. Requirements S-5 and S-7."""
        checked = check_items(items)
        if session is not None:
            check_name(session, "session")
        self._admission.ask("banks", self._bank)
        done = 0
        for number, chunk in enumerate(_chunks(_SignalRedactor().redact_items(checked)), 1):
            self._publisher.publish(self._build_batch(chunk, session))
            if number % FLUSH_EVERY == 0:
                self._publisher.flush()
            done += len(chunk)
            if progress is not None:
                progress(done, len(checked))
        return len(checked)

    def _build_batch(self, chunk: Sequence[SignalItem], session: str | None) -> SignalBatch:
        event_id = new_event_id()
        items = [
            item if item.signal_id else msgspec.structs.replace(item, signal_id=f"{event_id}.{i}")
            for i, item in enumerate(chunk)
        ]
        return SignalBatch(event_id=event_id, bank=self._bank, items=items, session=session)


class _SignalRedactor:
    """Redacts and truncates texts, and caches the results."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def redact_items(self, items: Iterable[SignalItem]) -> Iterator[SignalItem]:
        for item in items:
            context = None if item.context is None else self._redact_text(item.context)
            yield msgspec.structs.replace(item, query=self._redact_text(item.query), context=context)

    def _redact_text(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _CACHED_TEXTS:
                self._known.clear()
            known = self._known[text] = redact_and_truncate(text)
        return known


def _chunks(items: Iterable[SignalItem]) -> Iterator[list[SignalItem]]:
    """Yield the items in order, in lists of at most 500 items and about 512 KB."""
    chunk: list[SignalItem] = []
    room = MAX_CHUNK_BYTES
    for item in items:
        # An item without an id gets one later, and it takes room too.
        size = len(msgspec.json.encode(item, enc_hook=plain_builtin)) + 64
        if chunk and (len(chunk) == MAX_BATCH_SIGNALS or size > room):
            yield chunk
            chunk, room = [], MAX_CHUNK_BYTES
        chunk.append(item)
        room -= size
    if chunk:
        yield chunk


MAX_SIGNALS: Final = 10_000

MAX_CHARACTERS: Final = 8 << 20  # of queries and remarks; bounds the memory of a session that never ends


class SignalSession(HasLock):
    """Collects signals and submits them once, when its `with` block ends. Requirement S-62.

    The signals are also submitted if the block raises: facts that an agent used before it failed were used all the
    same. Each signal is checked when it is collected. At 10,000 signals, or 8 MB of text, those collected so far are
    submitted early. A session is safe across threads.
    """

    session: str

    def __init__(self, signalling: SignalPublisher, session: str) -> None:
        """Check the session's name.

        Raises:
            InvalidInput: the session is not text of 1 to 512 characters, or contains a known kind of secret.
        """
        super().__init__()
        self.session = check_name(session, "session")
        self._signalling = signalling
        self._items: list[SignalItem] = []
        self._characters = 0
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Submit the collected signals.

        If both the block and the submission fail, the block's error is raised with a note about the signals.

        Raises:
            SpoolFull: Redis is unavailable and the spool is full. The signals stay collected.
            Unavailable: the team has as many banks as an operator allows.
        """
        self._ended = True
        try:
            self.submit()
        except Unavailable as refused:
            if error is None:
                raise
            left = count_phrase(self.collected, "signal")
            error.add_note(f"tellback: not submitted: {left} of session {self.session}: {refused}")

    def used(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """Signal that the agent's answer used these facts, recalled for `query`. Raises the same errors as `add`."""
        self._collect("used", fact_ids, query, confidence, context)

    def ignored(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """Signal that the agent saw these facts and did not use them. Raises the same errors as `add`."""
        self._collect("ignored", fact_ids, query, confidence, context)

    def helpful(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """Signal that a user found these facts helpful. Raises the same errors as `add`."""
        self._collect("helpful", fact_ids, query, confidence, context)

    def not_helpful(self, *fact_ids: str, query: str, confidence: float = 1.0, context: str | None = None) -> None:
        """Signal that a user did not find these facts helpful. Raises the same errors as `add`."""
        self._collect("not_helpful", fact_ids, query, confidence, context)

    def add(self, *items: SignalItem) -> None:
        """Collect signals of any type: all of them, or none if one is wrong.

        Raises:
            InvalidInput: a signal is wrong; the message names its position and field.
            StateConflict: the `with` block has ended.
            SpoolFull: an early submission failed, since Redis is unavailable and the spool is full. The signals stay
                collected.
        """
        if not items:
            return
        check_items(items)
        with self._lock:
            if self._ended:
                raise StateConflict(f"the signals of session {self.session} were submitted: begin another")
            self._items += [
                item if item.signal_id else msgspec.structs.replace(item, signal_id=new_event_id()) for item in items
            ]
            self._characters += sum(len(item.query) + len(item.context or "") for item in items)
            full = len(self._items) >= MAX_SIGNALS or self._characters >= MAX_CHARACTERS
        if full:  # outside the lock, which `submit` acquires itself
            self.submit()

    def submit(self) -> int:
        """Publish the signals collected so far, and return their number.

        Raises:
            SpoolFull: Redis is unavailable and the spool is full. The signals stay collected. Submit them again later:
                each counts once.
        """
        with self._lock:
            if not self._items:
                return 0
            count = self._signalling.publish(self._items, session=self.session)
            self._items, self._characters = [], 0
            return count

    @property
    def collected(self) -> int:
        """The number of signals that wait to be submitted."""
        return len(self._items)

    def _collect(
        self, kind: SignalType, fact_ids: tuple[str, ...], query: str, confidence: float, context: str | None
    ) -> None:
        made = (
            SignalItem(fact_id=fact_id, signal_type=kind, query=query, confidence=confidence, context=context)
            for fact_id in fact_ids
        )
        self.add(*made)
