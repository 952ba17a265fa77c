"""The loop of a transport: take a delivery, send it, settle it; and the printing transport, the shortest example.

The loop outlives a failing transport and an absent Redis. It never sends a delivery twice by itself: when it can't
settle an outcome, the lease expires and the outbox decides.
"""

from __future__ import annotations

import math
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TextIO, cast

from tellback import clock
from tellback.backoff import Backoff, retry
from tellback.client.connection import Tellback
from tellback.client.outbox import OutboxDelivery, Reconcile, poll_outbox
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.errors import ConfigurationError, Unavailable
from tellback.log import get_logger
from tellback.sanitize import terminal_text

BACKOFF: Final = Backoff(first=0.5, longest=5.0)

SETTLE_TIMEOUT: Final = 60.0  # seconds to keep trying to settle while Redis is unavailable

_logger = get_logger("tellback.transports")


class Transport(Protocol):
    """Sends deliveries, one at a time, and returns their outcomes."""

    @property
    def longest(self) -> float:
        """The longest time that one delivery takes, in seconds; it must be shorter than the lease."""
        ...

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        """Send one delivery; an exception or a result of another type counts as ambiguous."""
        ...


def serve(
    tb: Tellback, channel: str, transport: Transport, *, stop: threading.Event, reconcile: Reconcile | None = None
) -> None:
    """Send a channel's due deliveries until `stop` is set; the current delivery is still finished and settled.

    While Redis is unavailable it waits, and retries to settle an outcome for up to a minute.

    Raises:
        ConfigurationError: a delivery may take longer than its lease, and another transport would send it, too.
        InvalidInput: the channel isn't a valid name.
    """
    lease = tb.context.settings.outbox_lease
    if transport.longest >= lease:
        raise ConfigurationError(
            f"TELLBACK_OUTBOX_LEASE is {lease:g} s, and one delivery may take {transport.longest:g} s: "
            "raise the one or lower the other"
        )

    def report(away: BaseException) -> None:
        _logger.warning("transport.retry", reason=str(away), channel=channel)

    while not stop.is_set():
        with suppress(Unavailable):  # it was stopped meanwhile
            retry(partial(_send_due, tb, channel, transport, stop, reconcile), BACKOFF, stop=stop, report=report)


def _send_due(
    tb: Tellback, channel: str, transport: Transport, stop: threading.Event, reconcile: Reconcile | None
) -> None:
    steps = poll_outbox(tb.context, channel, wait=math.inf, reconcile=reconcile, may_block=True)
    while not stop.is_set():  # checked before taking the next one, which would wait for its lease to expire
        step = next(steps)
        if isinstance(step, OutboxDelivery):
            _settle_delivery(step, _send_delivery(transport, step), stop)
        else:
            stop.wait(step)


def _send_delivery(transport: Transport, delivery: OutboxDelivery) -> RoutingOutcome:
    try:
        outcome = cast("object", transport.send(delivery))
    except Exception as error:  # noqa: BLE001 - one failing delivery must not stop the channel
        kind = type(error).__name__  # and no text or traceback, which may quote the message
    else:
        if isinstance(outcome, RoutingOutcome):
            return outcome
        kind = TypeError.__name__  # what it returned says nothing, so it is treated like a crash: it may have sent
    _logger.error("transport.failed", turn=delivery.turn_id, error=kind, channel=delivery.channel)
    return RoutingOutcome(attempted=True, ambiguous=True, error=f"the transport failed: {kind}")


def _settle_delivery(delivery: OutboxDelivery, outcome: RoutingOutcome, stop: threading.Event) -> None:
    end = clock.monotonic() + SETTLE_TIMEOUT
    settled = retry(lambda: delivery.settle(outcome), BACKOFF, end=end, stop=stop)
    if settled != "delivered":
        event = f"delivery.{settled}"
        _logger.warning(
            event,
            turn=delivery.turn_id,
            attempt=delivery.attempt,
            error=outcome.error,
            channel=delivery.channel,
        )


def sent_whole(response: OutgoingResponse) -> RoutingOutcome:
    """Return the outcome of a response of which everything was sent."""
    return RoutingOutcome(
        attempted=True,
        sent_text=response.text is not None,
        sent_voice=response.voice is not None,
        sent_attachments=len(response.attachments),
    )


class PrintTransport:
    """Writes each delivery as lines of text to `out` or standard output; control characters are escaped."""

    longest = 0.0
    """The longest time that one delivery takes, in seconds."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        """Write one delivery."""
        response = delivery.response
        lines = [f"{delivery.channel} {delivery.conversation} {delivery.kind}: {response.text or ''}".rstrip()]
        lines += [f"  voice: {response.voice}"] if response.voice else []
        lines += [f"  attachment: {reference}" for reference in response.attachments]
        out = self._out or sys.stdout
        try:
            out.write("".join(f"{terminal_text(line)}\n" for line in lines))
            out.flush()
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            return RoutingOutcome(attempted=False, error=f"cannot write: {type(error).__name__}")
        return sent_whole(response)
