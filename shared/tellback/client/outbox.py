"""The outbox as a transport sees it.

Source: feedback-guarantee, "Interaction with ResponseRoutingSystem".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from tellback import clock
from tellback.client.context import Context
from tellback.client.turn_checks import check_name, check_struct, check_wait, milliseconds
from tellback.contracts.turns import DeliveryKind, OutgoingResponse, RoutingOutcome, Settlement
from tellback.errors import InvalidInput
from tellback.log import get_logger
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.outbox import Delivery, Limits, Outbox, Place

AHEAD: Final = 64  # deliveries looked up at once; each is still taken by itself
NAP: Final = 0.02
LONGEST_NAP: Final = 0.25
NOTE_EVERY: Final = 10.0  # seconds in which a waiting transport is noted once

_log = get_logger("tellback.outbox")


@dataclass(frozen=True, slots=True)
class OutboxDelivery:
    """One response for a transport to send, under a lease of `outbox_lease` seconds.

    Give `idempotency_key` to the platform where it takes one: a delivery that comes again has the same key, and
    `attempt` above 1 says that it may have been sent before.
    """

    turn_id: str
    channel: str
    conversation: str
    response: OutgoingResponse
    idempotency_key: str
    kind: DeliveryKind
    attempt: int
    at: int
    """When it was put into the outbox, in milliseconds, server time."""
    _outbox: Outbox = field(repr=False, compare=False)
    _place: Place = field(repr=False, compare=False)
    _delivery: Delivery = field(repr=False, compare=False)

    def settle(self, outcome: RoutingOutcome) -> Settlement | Literal["lost"]:
        """Tell what became of it.

        Anything sent is `delivered`. Otherwise `permanent` is `dead`, `ambiguous` is never sent again, and all else is
        `retry`, with a growing pause, no shorter than `retry_after`: attempts are spent only where something was
        attempted, and the last one is `dead`. `lost`: the lease ended, and another transport has the delivery or has
        settled it.

        Raises:
            InvalidInput: not a `RoutingOutcome`.
            Unavailable: Redis is away; the delivery comes again when its lease ends.
        """
        outcome = check_struct("outcome", outcome, RoutingOutcome)
        return self._outbox.settle(self._place, self._delivery, outcome)


Reconcile = Callable[[OutboxDelivery], RoutingOutcome | None]
"""Asks the platform whether a delivery was sent; None: it does not know (yet)."""


def outbox(
    context: Context, channel: str, *, wait: float = 0.0, reconcile: Reconcile | None = None
) -> Iterator[OutboxDelivery]:
    """Deliveries of a channel for a transport to send and settle, in order within each conversation.

    Ends when nothing has come due for `wait` seconds (`math.inf`: never). Each delivery is taken when it is yielded;
    one that is not settled comes again when its lease ends, here or in another transport.

    With `reconcile` the platform is asked whether a delivery was sent: about an ambiguous one, after 1, 2, 4 … s for as
    long as it holds its conversation, and about one that an earlier taker never settled, before it is yielded again. It
    returns the outcome: sent, permanent, or not sent, so that it is tried again; or None where the platform does not
    know (yet). What it raises is logged and counts as None.

    Raises:
        InvalidInput: an argument is wrong; the message names it.
        Unavailable: Redis is away; begin again later, nothing is lost.
    """
    check_name("channel", channel)
    wait = check_wait(wait)
    if reconcile is not None and not callable(reconcile):
        raise InvalidInput(f"reconcile: a function of a delivery, or None, not {type(reconcile).__name__}")
    return _deliveries(open_outbox(context), channel, wait, reconcile)


def open_outbox(context: Context) -> Outbox:
    """The store of a team's outboxes, with this host's limits."""
    return open_outbox_of(context.database, context.layout, context.settings)


def open_outbox_of(database: Database, layout: Layout, settings: Settings) -> Outbox:
    """The same for who has no client."""
    return Outbox(database, layout, _limits(settings))


def _deliveries(store: Outbox, channel: str, wait: float, reconcile: Reconcile | None) -> Iterator[OutboxDelivery]:
    end, nap, note_at = clock.monotonic() + wait, NAP, 0.0
    while True:
        if clock.monotonic() >= note_at:
            store.note_served(channel)
            note_at = clock.monotonic() + NOTE_EVERY
        if reconcile is not None:
            _reconcile(store, channel, reconcile)
        for place, expected in store.ready(channel, AHEAD):
            taken = store.claim(place, expected)
            if taken is None:
                continue
            delivery = as_delivery(store, place, taken)
            if reconcile is not None and taken.unsure and _settled(delivery, reconcile, resend=True):
                continue
            yield delivery
            end, nap = clock.monotonic() + wait, NAP
        if store.has_ready(channel):
            continue
        left = end - clock.monotonic()
        if left <= 0:
            return
        clock.sleep(min(nap, left))
        nap = min(nap * 2, LONGEST_NAP)


def _reconcile(store: Outbox, channel: str, reconcile: Reconcile) -> None:
    for place, expected in store.unsure(channel, AHEAD):
        taken = store.ask(place, expected)
        if taken is not None:
            _settled(as_delivery(store, place, taken), reconcile)


def _settled(delivery: OutboxDelivery, reconcile: Reconcile, *, resend: bool = False) -> bool:
    """Whether the platform's word settled a delivery; with `resend`, one that was not sent is left to be sent now."""
    try:
        outcome = reconcile(delivery)
    except Exception as error:  # noqa: BLE001 - a user's function: what it raises must not end the transport
        _log.warning("outbox.reconcile_failed", error=type(error).__name__, channel=delivery.channel)
        return False
    settlement = None if outcome is None else check_struct("reconcile", outcome, RoutingOutcome).settlement
    if outcome is None or settlement == "ambiguous" or (resend and settlement == "retry"):
        return False
    return delivery.settle(outcome) != "lost"


def as_delivery(store: Outbox, place: Place, taken: Delivery) -> OutboxDelivery:
    """A taken delivery as a transport sees it."""
    return OutboxDelivery(
        turn_id=taken.turn,
        channel=place.channel,
        conversation=place.conversation,
        response=taken.outgoing,
        idempotency_key=taken.key,
        kind=taken.kind,
        attempt=taken.attempt,
        at=taken.at,
        _outbox=store,
        _place=place,
        _delivery=taken,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        lease_ms=milliseconds(settings.outbox_lease),
        attempts=settings.outbox_attempts,
        retry_ms=milliseconds(settings.outbox_retry),
        hold_ms=milliseconds(settings.outbox_hold),
    )
