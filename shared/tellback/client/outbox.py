"""The outbox as a transport sees it: an iterator of deliveries, each under a lease until the transport settles it.

The order within a conversation and the lease are kept by scripts (requirements T-56 and T-57); this module only polls,
claims and asks the platform about ambiguous deliveries. It polls because deliveries become due by time, too: after a
backoff, or when a lease ends. Between two polls it waits for the next answer, where the caller lets it block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from tellback import clock
from tellback.backoff import Backoff
from tellback.client.client_context import ClientContext
from tellback.client.turn_checks import check_name, check_struct, check_wait
from tellback.contracts.limits import MAX_ERROR_CHARS
from tellback.contracts.turns import DeliveryKind, OutgoingResponse, RoutingOutcome, Settlement
from tellback.errors import InvalidInput
from tellback.log import get_logger
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.outbox import Delivery, Outbox, OutboxLimits, OutboxQueue
from tellback.state.posted_answers import PostedAnswers
from tellback.state.script_calls import to_milliseconds
from tellback.state.steady import gap_ms
from tellback.turns.pipeline.checks import error_line

READ_AHEAD: Final = 64  # deliveries listed in one call; each one is claimed by itself
BACKOFF: Final = Backoff(first=0.02, longest=0.25)
POLLED_NOTE_SECONDS: Final = 10.0  # between two notes that the channel is polled; `tellback doctor` reads them

_logger = get_logger("tellback.outbox")


@dataclass(frozen=True, slots=True)
class OutboxDelivery:
    """One response for a transport to send, under a lease of `TELLBACK_OUTBOX_LEASE` seconds. Requirement T-57.

    If the platform accepts an idempotency key, pass it `idempotency_key`: a delivery that comes again has the same key.
    If `attempt` is above 1, the response may have been sent before.
    """

    turn_id: str
    channel: str
    conversation: str
    response: OutgoingResponse
    idempotency_key: str
    kind: DeliveryKind
    attempt: int
    at: int
    """The time at which it entered the outbox, in milliseconds since the epoch by the server's clock."""
    _outbox: Outbox = field(repr=False, compare=False)
    _queue: OutboxQueue = field(repr=False, compare=False)
    _delivery: Delivery = field(repr=False, compare=False)

    def settle(self, outcome: RoutingOutcome) -> Settlement | Literal["lost"]:
        """Report the outcome, and return how the outbox settled the delivery. Requirements T-58 and T-60.

        - `delivered`: something was sent.
        - `dead`: the outcome is `permanent`, or this was the last attempt.
        - `ambiguous`: nobody knows whether it was sent. It is not sent again unless a reconcile hook asks for that.
        - `retry`: it comes again after a growing backoff, or after `retry_after` if that is longer. Only an outcome
          with `attempted=True` uses up an attempt.
        - `lost`: the lease ended, and another transport has the delivery or settled it; or its queue cannot be read.

        The outcome's `error` is kept as one line, redacted.

        Raises:
            InvalidInput: `outcome` is not a `RoutingOutcome`.
            Unavailable: Redis does not answer. The delivery comes again when its lease ends.
        """
        outcome = check_struct("outcome", outcome, RoutingOutcome)
        if outcome.error is not None:  # of a platform or an HTTP client: its URL may have a token in it
            outcome = msgspec.structs.replace(outcome, error=error_line(outcome.error, MAX_ERROR_CHARS))
        return self._outbox.settle(self._queue, self._delivery, outcome)


Reconcile = Callable[[OutboxDelivery], RoutingOutcome | None]
"""A function that asks the platform whether a delivery was sent, and returns None if it does not know (yet)."""


def poll_outbox(
    context: ClientContext,
    channel: str,
    *,
    wait: float = 0.0,
    reconcile: Reconcile | None = None,
    may_block: bool = False,
) -> Iterator[OutboxDelivery | float]:
    """Yield deliveries as `tellback.Tellback.outbox` does, and the seconds to sleep until the next poll.

    If it `may_block`, the next answer ends the wait between two polls, and what is left to sleep is usually 0. No wait
    takes more than a fraction of a second.

    `reconcile` is called for an ambiguous delivery after 1, 2, 4 … seconds while it holds up its conversation, and for
    one that an earlier transport never settled, before it is yielded again. It returns the outcome (sent, permanent, or
    not sent, which has it sent again), or None if the platform does not know (yet). An exception is logged and counts
    as None. Requirement T-59.
    """
    # Checked here and not in the generator, where a mistake would raise only at the first delivery.
    check_name("channel", channel)
    wait = check_wait(wait)
    if reconcile is not None and not callable(reconcile):
        raise InvalidInput(f"reconcile: a function of a delivery, or None, not {type(reconcile).__name__}")
    posted = PostedAnswers(context.database, context.layout, channel) if may_block else None
    return _deliveries(open_outbox(context), channel, wait, reconcile, posted)


def open_outbox(context: ClientContext) -> Outbox:
    """Return the store of the client's outboxes, with this host's limits."""
    return open_outbox_store(context.database, context.layout, context.settings)


def open_outbox_store(database: Database, layout: Layout, settings: Settings) -> Outbox:
    """Return the store of a team's outboxes for a caller that has no client, such as the sweep."""
    limits = OutboxLimits(
        lease_ms=to_milliseconds(settings.outbox_lease),
        attempts=settings.outbox_attempts,
        retry_ms=to_milliseconds(settings.outbox_retry),
        hold_ms=to_milliseconds(settings.outbox_hold),
    )
    return Outbox(database, layout, limits, gap_ms(settings.beat_period))


def _deliveries(
    store: Outbox, channel: str, wait: float, reconcile: Reconcile | None, posted: PostedAnswers | None
) -> Iterator[OutboxDelivery | float]:
    end, delays, note_at = clock.monotonic() + wait, BACKOFF.delays(), 0.0
    while True:
        if clock.monotonic() >= note_at:
            store.note_polled(channel)
            note_at = clock.monotonic() + POLLED_NOTE_SECONDS
        if reconcile is not None:
            _reconcile(store, channel, reconcile)
        for queue, expected in store.ready(channel, READ_AHEAD):
            taken = store.claim(queue, expected)
            if taken is None:  # another transport claimed it since the listing
                continue
            delivery = to_outbox_delivery(store, queue, taken)
            if reconcile is not None and taken.ambiguous and _reconciled(delivery, reconcile, resend=True):
                continue
            yield delivery
            end, delays = clock.monotonic() + wait, BACKOFF.delays()
            if clock.monotonic() >= note_at:  # those that were listed may take a slow platform many minutes
                break
        if store.has_ready(channel):
            continue
        left = end - clock.monotonic()
        if left <= 0:
            return
        delay = min(next(delays), left)
        yield delay if posted is None else posted.wait(delay)


def _reconcile(store: Outbox, channel: str, reconcile: Reconcile) -> None:
    for queue, expected in store.ambiguous(channel, READ_AHEAD):
        taken = store.claim_ambiguous(queue, expected)
        if taken is not None:
            _reconciled(to_outbox_delivery(store, queue, taken), reconcile)


def _reconciled(delivery: OutboxDelivery, reconcile: Reconcile, *, resend: bool = False) -> bool:
    """Ask the platform and return True if its answer settled the delivery.

    With `resend`, a delivery that was not sent stays unsettled, since the caller is about to send it.
    """
    try:
        outcome = reconcile(delivery)
    except Exception as error:  # noqa: BLE001 - a user's function: what it raises must not end the transport
        _logger.warning("outbox.reconcile_failed", error=type(error).__name__, channel=delivery.channel)
        return False
    settlement = None if outcome is None else check_struct("reconcile", outcome, RoutingOutcome).settlement
    if outcome is None or settlement == "ambiguous" or (resend and settlement == "retry"):
        return False
    return delivery.settle(outcome) != "lost"


def to_outbox_delivery(store: Outbox, queue: OutboxQueue, taken: Delivery) -> OutboxDelivery:
    """Return a claimed delivery as a transport sees it."""
    return OutboxDelivery(
        turn_id=taken.turn,
        channel=queue.channel,
        conversation=queue.conversation,
        response=taken.outgoing,
        idempotency_key=taken.key,
        kind=taken.kind,
        attempt=taken.attempt,
        at=taken.at,
        _outbox=store,
        _queue=queue,
        _delivery=taken,
    )
