"""The loop of a transport: take, send, settle; until it is told to stop."""

from __future__ import annotations

import threading
from typing import Final, Protocol, cast

from tellback import clock
from tellback.client.connection import Tellback
from tellback.client.outbox import OutboxDelivery, Reconcile
from tellback.contracts.turns import RoutingOutcome
from tellback.errors import ConfigurationError, Unavailable
from tellback.log import get_logger

IDLE: Final = 0.5  # seconds after which a loop with nothing to do looks whether it is to stop
PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 5.0
SETTLE_PATIENCE: Final = 60.0  # seconds that an outcome is kept while Redis is away

_log = get_logger("tellback.transports")


class Transport(Protocol):
    """Sends one delivery and says what became of it."""

    @property
    def longest(self) -> float:
        """The longest time that one delivery takes, in seconds; shorter than the lease."""
        ...

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        """Send one delivery; what is raised, or returned and no outcome, counts as ambiguous."""
        ...


def serve(
    tb: Tellback, channel: str, transport: Transport, *, stop: threading.Event, reconcile: Reconcile | None = None
) -> None:
    """Send what comes due on a channel until `stop` is set; the delivery in hand is finished and settled.

    While Redis is away it waits. An outcome is kept until Redis takes it, for up to a minute.

    Raises:
        ConfigurationError: a delivery may take longer than its lease, so that another transport would send it too.
        InvalidInput: the channel is no name.
    """
    lease = tb.context.settings.outbox_lease
    if transport.longest >= lease:
        raise ConfigurationError(
            f"TELLBACK_OUTBOX_LEASE is {lease:g} s, and one delivery may take {transport.longest:g} s: "
            "raise the one or lower the other"
        )
    pause = PAUSE
    while not stop.is_set():
        try:
            _send_due(tb, channel, transport, stop, reconcile)
            pause = PAUSE
        except Unavailable as away:
            _log.warning("transport.waits", reason=str(away), channel=channel)
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _send_due(
    tb: Tellback, channel: str, transport: Transport, stop: threading.Event, reconcile: Reconcile | None
) -> None:
    deliveries = tb.outbox(channel, wait=IDLE, reconcile=reconcile)
    while not stop.is_set():  # asked before the next one is taken
        delivery = next(deliveries, None)
        if delivery is None:
            return
        _settle(delivery, _sent(transport, delivery), stop)


def _sent(transport: Transport, delivery: OutboxDelivery) -> RoutingOutcome:
    try:
        outcome = cast("object", transport.send(delivery))
        if isinstance(outcome, RoutingOutcome):
            return outcome
        raise TypeError(f"it returned {type(outcome).__name__}, not RoutingOutcome")  # noqa: TRY301 - it may have sent
    except Exception as error:  # noqa: BLE001 - whatever a transport raises, its channel goes on
        _log.error("transport.failed", turn=delivery.turn_id, error=type(error).__name__, channel=delivery.channel)
        return RoutingOutcome(attempted=True, ambiguous=True, error=f"the transport failed: {type(error).__name__}")


def _settle(delivery: OutboxDelivery, outcome: RoutingOutcome, stop: threading.Event) -> None:
    end, pause = clock.monotonic() + SETTLE_PATIENCE, PAUSE
    while True:
        try:
            settled = delivery.settle(outcome)
        except Unavailable:
            if clock.monotonic() >= end or stop.is_set():
                raise
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            continue
        if settled != "delivered":
            _log.warning(
                f"delivery.{settled}",
                turn=delivery.turn_id,
                attempt=delivery.attempt,
                error=outcome.error,
                channel=delivery.channel,
            )
        return
