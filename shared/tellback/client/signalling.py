"""How the signals of one bank leave a host: checked, redacted, cut into batches, published in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from tellback.client.recalling import cut_text
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import MAX_BATCH, SignalBatch, SignalItem
from tellback.messaging.publisher import Publisher
from tellback.signals.validation import check_items, check_name

MAX_CHUNK_BYTES: Final = 512 << 10
FLUSH_EVERY: Final = 16  # chunks, so that a call of any length holds at most 8 MB in memory
_REMEMBERED: Final = 1_000  # texts redacted in one call: a query comes with each fact that was recalled for it

Progress = Callable[[int, int], None]
"""Told how many signals of how many are published."""


class Signalling:
    """The signals of one bank on their way out of this host."""

    def __init__(self, publisher: Publisher, bank: str) -> None:
        """Take the way in to the streams, and the bank's name."""
        self._publisher = publisher
        self._bank = bank

    def publish(
        self, items: Iterable[SignalItem], *, session: str | None = None, progress: Progress | None = None
    ) -> int:
        """What `Bank.signal` says."""
        checked = check_items(items)
        if session is not None:
            check_name(session, "session")
        done = 0
        for number, chunk in enumerate(_chunks(_Redacting().all(checked)), 1):
            self._publisher.publish(self._batch(chunk, session))
            if number % FLUSH_EVERY == 0:
                self._publisher.flush()
            done += len(chunk)
            if progress is not None:
                progress(done, len(checked))
        return len(checked)

    def _batch(self, chunk: Sequence[SignalItem], session: str | None) -> SignalBatch:
        event_id = new_event_id()
        items = [
            item if item.signal_id else msgspec.structs.replace(item, signal_id=f"{event_id}.{i}")
            for i, item in enumerate(chunk)
        ]
        return SignalBatch(event_id=event_id, bank=self._bank, items=items, session=session)


class _Redacting:
    """Texts without secrets, cut to a field; what was redacted a moment ago is remembered."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def all(self, items: Iterable[SignalItem]) -> Iterator[SignalItem]:
        for item in items:
            context = None if item.context is None else self._text(item.context)
            yield msgspec.structs.replace(item, query=self._text(item.query), context=context)

    def _text(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[text] = cut_text(text)
        return known


def _chunks(items: Iterable[SignalItem]) -> Iterator[list[SignalItem]]:
    """The items in order, in lists of at most 500 and about 512 KB."""
    chunk: list[SignalItem] = []
    room = MAX_CHUNK_BYTES
    for item in items:
        size = len(msgspec.json.encode(item)) + 64  # the signal id comes on top
        if chunk and (len(chunk) == MAX_BATCH or size > room):
            yield chunk
            chunk, room = [], MAX_CHUNK_BYTES
        chunk.append(item)
        room -= size
    if chunk:
        yield chunk
