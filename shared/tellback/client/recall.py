"""Recalls as a host requests them: a worker ranks the facts, or this process does if it has the model.

A recall with candidates gets a ranking while Redis answers: if no reply comes in time, global scores rank them, and
the hits are marked `degraded` (requirement S-39). A recall of stored facts has no such fallback, since nothing but the
model can search them; it raises instead.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tellback import clock
from tellback.backoff import Backoff
from tellback.client.client_context import ClientContext
from tellback.contracts.codec import encode
from tellback.contracts.limits import MAX_CANDIDATES, MAX_FIELD_BYTES
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import RecallHit, RecallReply, RecallRequested
from tellback.errors import ConfigurationError, InvalidInput, Timeout, Unavailable
from tellback.messaging.append_call import Bounds, StreamFull, append_call, must_notify
from tellback.messaging.lane import notify
from tellback.messaging.spool import SpooledEvent
from tellback.names import Family
from tellback.redaction import redact_text
from tellback.signals.ranking import rank_candidates
from tellback.state.banks import BankStore
from tellback.state.keys import stream_of
from tellback.state.recalls import Recalls
from tellback.state.stored_facts import FactBacklog, FactStore
from tellback.state.unavailable import RedisFull
from tellback.truncation import truncate_bytes

BACKOFF: Final = Backoff(first=0.002, longest=0.05)
BACKOFFS_BEFORE_RESEND: Final = (0.0, 0.0, 0.01, 0.01, 0.05, 0.05, 0.1, 0.1)
"""Seconds before each further request when the worker that replied has another model than the bank.

While a fleet moves to another model, half of it may have the old one, so one mismatch says little about the next
worker. The recall's own `wait` ends the requests earlier.
"""

MAX_WAITING: Final = 1_000
"""Requests in one stream above which a host adds none: no worker would answer it in time."""


class RecallClient:
    """Makes the recalls of one bank."""

    def __init__(self, context: ClientContext, store: BankStore) -> None:
        self._context = context
        self._store = store
        self._shard = context.layout.of(store.bank)
        self._recalls = Recalls(context.database, context.layout)
        most = Bounds.of(MAX_WAITING, context.settings.intake_max_bytes, context.layout.shards)
        self._bounds = most.replace(setting="")
        self._stored_facts = FactStore(context.database, self._shard, store.bank)

    def recall(self, request: RecallRequested) -> list[RecallHit]:
        """Rank candidates, or the facts that the bank stores; see `Bank.recall`."""
        if request.candidates is None:
            return self._recall_stored_facts(request)
        if not request.candidates:
            return []
        reply = self._answer_locally_or_ask(request)
        if reply is None:
            usefulness = self._store.global_usefulness([each.fact_id for each in request.candidates])
            return rank_candidates(request, usefulness, degraded=True)
        return _hits_of(reply)

    def _recall_stored_facts(self, request: RecallRequested) -> list[RecallHit]:
        wait = request.deadline_in
        if request.limit > MAX_CANDIDATES:
            raise InvalidInput(f"limit is {request.limit}: a recall of stored facts gives at most {MAX_CANDIDATES}")
        end = clock.monotonic() + wait
        caught_up = self._wait_until_applied(end)
        # Before the Timeout below: while Redis is away, Unavailable is the true reason.
        info = self._stored_facts.info()
        if not caught_up:
            raise Timeout(
                f"what this client published for bank {self._store.bank!r} was not applied within "
                f"{wait:g} s: start a worker for the queue signals, or wait longer"
            )
        if info is None:
            return []
        left = max(0.0, end - clock.monotonic())
        reply = self._answer_locally_or_ask(msgspec.structs.replace(request, deadline_in=left))
        if reply is None:
            raise Timeout(
                f"no worker has answered within {wait:g} s: start one for the queue recalls, or give candidates"
            )
        hits = _hits_of(reply)
        texts = self._stored_facts.texts([hit.fact_id for hit in hits])
        # race: a fact that was forgotten since the worker replied has no text and is left out
        return [msgspec.structs.replace(hit, text=texts[hit.fact_id]) for hit in hits if hit.fact_id in texts]

    def _wait_until_applied(self, end: float) -> bool:
        """Wait until the facts that this client published for the bank are applied; return False if time is over.

        Requirement S-47. The event stays in `awaited_events` until it is seen applied, so recalls in several threads
        all wait for it.
        """
        bank, awaited = self._store.bank, self._context.awaited_events
        event_id = awaited.of(bank)
        if event_id is None:
            return True
        if not self._is_applied(event_id, end):
            return False
        awaited.forget(bank, event_id)
        return True

    def _is_applied(self, event_id: str, end: float) -> bool:
        publisher, backlog = self._context.publisher, FactBacklog(self._context.database, self._shard, self._store.bank)
        publisher.flush()
        last, delays = None, BACKOFF.delays()
        while True:
            if not publisher.spooled:  # an event on disk is not in the stream yet, which would look applied
                # Once this entry has left the stream, so have the events before it; one event of ours may also have
                # become a dead letter, which is never applied.
                last = last or backlog.newest_id()
                if last is None or backlog.is_applied(event_id, last):
                    return True
            left = end - clock.monotonic()
            if left <= 0:
                return False
            clock.sleep(min(next(delays), left))

    def _answer_locally_or_ask(self, request: RecallRequested) -> RecallReply | None:
        if not self._context.settings.recall_in_process:
            return self._ask_workers(request)
        try:
            return self._context.local_recall.answer(request)
        except Unavailable:
            if request.candidates is None:
                raise
            return None  # the model does not load; if Redis is the reason, reading the global scores raises it again

    def _ask_workers(self, request: RecallRequested) -> RecallReply | None:
        """Return a worker's reply, asking further workers if one has another model than the bank."""
        end = clock.monotonic() + request.deadline_in
        reply = self._ask(request)
        for delay in BACKOFFS_BEFORE_RESEND:
            left = end - clock.monotonic() - delay
            if reply is None or not reply.model_mismatch or left <= 0:
                break
            clock.sleep(delay)
            again = msgspec.structs.replace(request, event_id=new_event_id(), deadline_in=left)
            reply = self._ask(again) or reply
        return reply

    def _ask(self, request: RecallRequested) -> RecallReply | None:
        """Return a worker's reply; None if none comes in time, or if there is no room for a request with candidates.

        A request is not spooled, because nobody would want a later reply.

        Raises:
            StreamFull: the stream has no room, and only a worker can answer.
            RedisFull: Redis has none, likewise.
        """
        if request.deadline_in <= 0:
            return None
        end = clock.monotonic() + request.deadline_in
        stream = stream_of(self._shard, Family.RECALLS)
        try:
            appended = self._context.database.run(append_call([SpooledEvent(stream, encode(request))], self._bounds))
            self._bounds.check(stream, appended)
        except (StreamFull, RedisFull):
            if request.candidates is None:
                raise
            return None
        notify(self._context.database, [stream] if must_notify(appended) else [])
        return self._recalls.wait_for_reply(request, end)


def _hits_of(reply: RecallReply) -> list[RecallHit]:
    if reply.error:
        raise InvalidInput(reply.error) if reply.unfit else ConfigurationError(reply.error)
    return reply.hits


def redact_and_truncate(text: str) -> str:
    """Redact the text, then truncate it to 64 KB of UTF-8, never within a character.

    The order matters: half a secret at the end of a truncated text would match no rule (requirement A-54).
    """
    return truncate_bytes(redact_text(text), MAX_FIELD_BYTES)
